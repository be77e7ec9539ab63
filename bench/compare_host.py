#!/usr/bin/env python3
"""compare_host.py: NumPy and PyTorch in a process with a ledger of mnem, beside the same without.

A pair is two child processes that take turns; one of them creates a ledger of the process with
ctypes first. Each times `a * 2 + a` on arrays of 2 MB, and a training step of a small network. Also
in one process: the same loops before the ledger is made, while it is there and after it. Prints the
median of the ratios (with / without). Needs build/release/libmnem.so and NumPy; PyTorch is
optional. --model FILE: a session of the model is open while the loops run, too.
"""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Host:
    """The library, and what it has open: a ledger or a session (and its ledger)."""

    def __init__(self, model):
        self.lib = ctypes.CDLL(os.path.join(ROOT, "build/release/libmnem.so"))
        self.lib.mnem_last_error.restype = ctypes.c_char_p
        self.model = model

    def open(self):
        if self.model:
            self.opened = ctypes.create_string_buffer(1 << 16)  # a mnem_opened is smaller
            status = self.lib.mnem_open(self.model.encode(), ctypes.c_uint64(0), None, self.opened)
        else:
            self.opened = ctypes.c_void_p()
            status = self.lib.mnem_ledger_create_process(None, ctypes.byref(self.opened))
        if status:
            raise SystemExit(self.lib.mnem_last_error().decode())

    def close(self):
        if self.model:
            self.lib.mnem_close(self.opened)
        else:
            self.lib.mnem_ledger_destroy(self.opened)


def numpy_loop():
    import numpy
    a = numpy.ones(250000)

    def run():
        for _ in range(20):
            a * 2 + a
    return run


def torch_loop():
    import torch
    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.GELU(),
                              torch.nn.Linear(1024, 512))
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.randn(512, 512)

    def run():
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
    return run


LOOPS = {"numpy": numpy_loop, "torch": torch_loop}


def seconds(run):
    """Processor time of this process: other programs don't count."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def child(name, with_ledger, model):
    run = LOOPS[name]()
    run()
    if with_ledger:
        Host(model).open()
    for _ in sys.stdin:
        print(statistics.median(seconds(run) for _ in range(5)), flush=True)


def pair(name, count, model):
    """The ratios of two processes that take turns."""
    both = [subprocess.Popen([sys.executable, __file__, "--child", name, str(w), model], text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE) for w in (0, 1)]

    def one(process):
        process.stdin.write("\n")
        process.stdin.flush()
        return float(process.stdout.readline())
    ratios = []
    for i in range(count):
        first = i % 2
        times = {first: one(both[first])}
        times[1 - first] = one(both[1 - first])
        ratios.append(times[1] / times[0])
    for process in both:
        process.stdin.close()
        process.wait()
    return statistics.median(ratios[1:])


def same_process(name, count, model):
    """While a ledger is there, beside before it was made and after it."""
    host = Host(model)
    run = LOOPS[name]()
    run()
    ratios = []
    for _ in range(count):
        before = statistics.median(seconds(run) for _ in range(5))
        host.open()
        during = statistics.median(seconds(run) for _ in range(5))
        host.close()
        after = statistics.median(seconds(run) for _ in range(5))
        ratios.append(2 * during / (before + after))
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--model", default="", help="a GGUF file")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child[0], args.child[1] == "1", args.child[2])
    for name in LOOPS:
        try:
            __import__(name)
        except ImportError:
            print(f"{name}: not installed")
            continue
        print(f"{name}: {pair(name, args.pairs, args.model):.3f} in two processes, "
              f"{same_process(name, args.pairs, args.model):.3f} in one", flush=True)


if __name__ == "__main__":
    main()
