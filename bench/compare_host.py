#!/usr/bin/env python3
"""compare_host.py: NumPy and PyTorch in a process with a ledger of mnem, beside the same without.

A pair is two child processes that take turns; one of them creates a ledger of the process with
ctypes first. Each times `a * 2 + a` on arrays of 2 MB, and a training step of a small network. Also
in one process: the same loops before the ledger is made, while it is there and after it. Prints the
median of the ratios (with / without). Needs build/release/libmnem.so and NumPy; PyTorch is
optional.
"""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def ledger_make(lib):
    lib.mnem_last_error.restype = ctypes.c_char_p
    ledger = ctypes.c_void_p()
    if lib.mnem_ledger_create_process(None, ctypes.byref(ledger)):
        raise SystemExit(lib.mnem_last_error().decode())
    return ledger


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


def child(name, with_ledger):
    run = LOOPS[name]()
    run()
    if with_ledger:
        ledger_make(ctypes.CDLL(os.path.join(ROOT, "build/release/libmnem.so")))
    for _ in sys.stdin:
        print(statistics.median(seconds(run) for _ in range(5)), flush=True)


def pair(name, count):
    """The ratios of two processes that take turns."""
    both = [subprocess.Popen([sys.executable, __file__, "--child", name, str(w)], text=True,
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


def same_process(name, count):
    """While a ledger is there, beside before it was made and after it."""
    lib = ctypes.CDLL(os.path.join(ROOT, "build/release/libmnem.so"))
    run = LOOPS[name]()
    run()
    ratios = []
    for _ in range(count):
        before = statistics.median(seconds(run) for _ in range(5))
        ledger = ledger_make(lib)
        during = statistics.median(seconds(run) for _ in range(5))
        lib.mnem_ledger_destroy(ledger)
        after = statistics.median(seconds(run) for _ in range(5))
        ratios.append(2 * during / (before + after))
    return statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.child[0], args.child[1] == "1")
    for name in LOOPS:
        try:
            __import__(name)
        except ImportError:
            print(f"{name}: not installed")
            continue
        print(f"{name}: {pair(name, args.pairs):.3f} in two processes, "
              f"{same_process(name, args.pairs):.3f} in one", flush=True)


if __name__ == "__main__":
    main()
