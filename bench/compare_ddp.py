#!/usr/bin/env python3
"""Training over two ranks beside PyTorch's DistributedDataParallel (gloo, as many processes), one
thread each: the fastest step, the largest peak of a process (VmHWM), and what a second process
brings at the same batch for each.

    compare_ddp.py --mnem MNEM [--python PYTHON] [--shape gpt2-6x384|gpt2-124m] [--ranks 2]
                   [--memory SIZE] [--shard none|optimizer|gradients] [--steps N] [--work FOLDER]
                   [--mpirun MPIRUN]

PYTHON is an interpreter that has PyTorch; without one only mnem runs. FOLDER keeps the text and the
run's vocabulary from one call to the next, so that what is made once isn't measured. Wait for a
quiet machine: a step is the fastest of N (default 6), of which each process's first isn't counted.
"""
import argparse
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile

SHAPES = {  # layers, embd, heads, vocab, batch of a rank, sequence: those of train_torch.py
    "gpt2-6x384": (6, 384, 6, 256, 8, 256),
    "gpt2-124m": (12, 768, 12, 50257, 4, 64),
}


def make_text(path, vocab):
    """Words enough that a vocabulary of that size can be learned from them."""
    random.seed(1)
    parts = [a + b for a in "bcdfghklmnprstvw" for b in "aeiou"]
    words = ["".join(random.choices(parts, k=random.randint(2, 4))) for _ in range(2 * vocab)]
    with open(path, "w") as file:
        for _ in range(4):
            random.shuffle(words)
            file.write(" ".join(words) + "\n")


def make_config(path, shape, ranks):
    layers, embd, heads, vocab, batch, sequence = SHAPES[shape]
    config = dict(architecture="gpt2", layers=layers, embd=embd, heads=heads, kv_heads=heads,
                  ff=4 * embd, vocab=vocab, context=sequence, batch=batch * ranks, dropout=0,
                  precision="f32", moments="f32", clip=1.0, rate=1e-4,
                  rate_floor=1e-5)
    with open(path, "w") as file:
        json.dump(config, file)


def run_mnem(args, ranks):
    """Milliseconds of the fastest step but the first, the largest peak in MiB, and the table."""
    text, config = f"{args.work}/{args.shape}.txt", f"{args.work}/{args.shape}-{ranks}.json"
    out = f"{args.work}/{args.shape}-{ranks}"
    if not os.path.exists(text):
        make_text(text, SHAPES[args.shape][3])
    make_config(config, args.shape, ranks)
    launch = [args.mpirun, "-n", str(ranks)] if ranks > 1 else []
    command = launch + [args.mnem, "train", "--out", out, "--memory", args.memory, "-t", "1",
                        "--stop-after", str(args.steps), "--save-every", "1000000"]
    if ranks > 1 and args.shard:
        command += ["--shard", args.shard]
    going_on = os.path.exists(f"{out}/config.json")
    if going_on:
        if os.path.exists(f"{out}/checkpoint"):
            os.remove(f"{out}/checkpoint")
        command += ["--resume"]
    else:
        command += ["-d", text, "--config", config, "--steps", "100000", "--heldout", "0"]
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**os.environ, "MNEM_HISTORY": "off"})
    if done.returncode:
        sys.exit(done.stderr)
    rates, last = [], None
    with open(f"{out}/log.jsonl") as log:
        for line in log:
            step = json.loads(line)
            if "tokens_per_s" in step:
                rates.append(step["tokens_per_s"])
                last = step["bytes_peak"] / 2**20
    batch, sequence = SHAPES[args.shape][4] * ranks, SHAPES[args.shape][5]
    # the log's rate is the mean of all steps behind the first; differences are single steps
    means = [1e3 * batch * sequence / rate for rate in rates[1:]]
    single = [n * b - (n - 1) * a for n, (a, b) in enumerate(zip([0] + means, means), 1)]
    peaks = [float(size) * {"MiB": 1, "GiB": 1024}[unit] for size, unit in re.findall(
        r"^ +\d+ +\d+ +\S+ \w+ +(\S+) (MiB|GiB)", done.stderr, re.M)]
    return min(single), max(peaks or [last]), done.stderr[done.stderr.find("  rank "):]


def run_torch(args, ranks):
    here = os.path.dirname(os.path.abspath(__file__))
    command = [args.python, f"{here}/train_torch.py", args.shape, "f32", str(args.steps)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if ranks > 1:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        env |= {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "lo"}
    started = [subprocess.Popen(command, env={**env, "RANK": str(rank)} if ranks > 1 else env,
                                stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
    said = [process.communicate()[0] for process in started]
    found = [re.search(r"step (\d+) ms +peak ([\d.]+) MiB +imported ([\d.]+)", t) for t in said]
    return [max(float(f[i]) for f in found) for i in (1, 2, 3)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--mnem", required=True)
    parser.add_argument("--python")
    parser.add_argument("--shape", choices=SHAPES, default="gpt2-6x384")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--memory", default="3G")
    parser.add_argument("--shard", choices=["none", "optimizer", "gradients"])
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--work")
    parser.add_argument("--mpirun", default="mpirun")
    args = parser.parse_args()
    args.mnem = os.path.realpath(args.mnem)
    with tempfile.TemporaryDirectory() as folder:
        args.work = os.path.realpath(args.work or folder)
        os.makedirs(args.work, exist_ok=True)
        many, alone = run_mnem(args, args.ranks), run_mnem(args, 1)
        print(f"{args.shape}, {args.ranks} ranks and 1, one thread each")
        print(f"mnem   step {many[0]:7.0f} ms, alone {alone[0]:7.0f} ms: "
              f"{args.ranks * alone[0] / many[0]:.2f} x tokens/s; "
              f"peak {many[1]:6.1f} MiB, alone {alone[1]:6.1f} MiB")
        print(many[2].rstrip())
        if not args.python:
            return
        ddp, one = run_torch(args, args.ranks), run_torch(args, 1)
        print(f"torch  step {ddp[0]:7.0f} ms, alone {one[0]:7.0f} ms: "
              f"{args.ranks * one[0] / ddp[0]:.2f} x tokens/s; "
              f"peak {ddp[1]:6.1f} MiB, alone {one[1]:6.1f} MiB")
        print(f"mnem / torch, {args.ranks} ranks: time {many[0] / ddp[0]:.2f}, "
              f"peak {many[1] / ddp[1]:.2f} (beside theirs without the {ddp[2]:.0f} MiB that "
              f"importing takes {many[1] / (ddp[1] - ddp[2]):.2f})")


main()
