#!/usr/bin/env python3
"""compare_experts.py PATH_TO_LLAMA_BENCH MODEL [options]: a mixture of experts that memory doesn't
hold, in mnem and in llama.cpp.

Both run in a memory control group (version 1 or 2) of a quarter, a half and all of the file, each
in turn, the page cache dropped first; llama.cpp with the file mapped and nothing repacked. Tokens
are generated: llama-bench takes any, mnem draws from nearly flat logits, so that neither repeats
itself. Prints medians and the median of each pair's ratio with the least and the most; what mnem
read, how often experts were there, its peak beside what it predicted; and its time beside the
larger of reading (its bytes at the rate of two readers of blocks of that size in the same group,
just before and after) and computing (the same tokens with all in memory). Exit code 1 when a
promise breaks, 77 where no control group can be made.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

from control_group import ControlGroup

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MIB = 1 << 20
TIME_MOST = 1.15  # of the larger of reading and computing


def read_bytes(a):
    """What mnem reads of an expert at once: one of its three matrices."""
    out = subprocess.run([a.mnem, "info", a.model, "--tensors", "--json"], stdout=subprocess.PIPE,
                         text=True, check=True).stdout
    for tensor in json.loads(out)["tensors"]:
        if tensor["name"].endswith("ffn_gate_exps.weight"):
            return tensor["bytes"] // tensor["shape"][0]
    sys.exit(f"{a.model} has no experts")


def disk_rate(group, a, limit):
    script = os.path.join(ROOT, "bench", "read_rate.py")
    return float(group.run(limit, [sys.executable, script, a.model, str(a.block),
                                   str(a.probe * MIB)]))


def run_mnem(group, a, limit, memory):
    """Its numbers; the prompt is counted too, for what it reads is."""
    out = group.run(limit, [
        a.mnem, "run", a.model, "-p", "In the beginning", "--memory", str(memory), "--threads",
        str(a.threads), "--ctx", "256", "--kv", "f16", "-n", str(a.tokens), "--temp", "20",
        "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", str(a.seed), "--json"])
    lines = [json.loads(line) for line in out.splitlines()]
    stats = lines[-1]["stats"]
    seconds = (stats["tokens"] / stats["tokens_per_s"] +
               stats["prompt_tokens"] / stats["prompt_tokens_per_s"])
    return dict(stats, predicted=lines[-1]["plan"]["peak_bytes"], budget=memory, seconds=seconds,
                ids=[line["token"] for line in lines[:-1]])


def resident(group, a):
    """The same tokens with all in memory, once for each seed."""
    if a.seed not in a.resident:
        everything = 2 * os.path.getsize(a.model) + 1024 * MIB
        a.resident[a.seed] = run_mnem(group, a, 1 << 40, everything)
    return a.resident[a.seed]


def run_llama(group, a, limit, warm):
    """warm: the second of two runs counts, which finds the file where the first one put it: mnem
    loads before it generates."""
    out = group.run(limit, [
        a.llama, "-m", a.model, "-t", str(a.threads), "-p", "0", "-n", str(a.tokens),
        "-r", "2" if warm else "1", "-lm", "mmap", "--repack", "0", "-o", "json"])
    return json.loads(out)[-1]["samples_ts"][-1]


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def run_ours(group, a, limit):
    before = disk_rate(group, a, limit)
    ours = run_mnem(group, a, limit, limit - a.spare * MIB)
    ours["rates"] = before, disk_rate(group, a, limit)
    ours["resident"] = resident(group, a)
    return ours


def time_part(o):
    """Of the larger of reading and computing."""
    rate = 2 / sum(1 / r for r in o["rates"])
    return o["seconds"] / max(o["bytes_streamed"] / rate, o["resident"]["seconds"])


def describe(o):
    hits, misses = o["expert_hits"], o["expert_misses"]
    found, ahead = hits - o["expert_guessed"], o["expert_guessed"]
    uses = max(1, hits + misses)
    rates = " and ".join(f"{r / MIB:.0f}" for r in o["rates"])
    print(f"        found {found / uses:.3f}, read ahead {ahead / uses:.3f}; read "
          f"{o['bytes_streamed'] / MIB:.0f} MiB, disk {rates} MiB/s; {o['seconds']:.1f} s, of them "
          f"waiting {o['seconds_waiting']:.1f}, computing alone {o['resident']['seconds']:.1f}; "
          f"peak {o['vmhwm'] / MIB:.1f} MiB, predicted {o['predicted'] / MIB:.1f}")


def broken_by(share, o):
    off = abs(o["vmhwm"] - o["predicted"])
    if off > max(0.02 * o["predicted"], 4 * MIB) or o["vmhwm"] > o["budget"]:
        yield f"{share} %: a peak of {o['vmhwm']}, {o['predicted']} predicted"
    if o["ids"] != o["resident"]["ids"]:
        yield f"{share} %: not the tokens of a model that is all in memory"


def compare(group, a, share):
    """One line; the promises that it breaks."""
    limit = os.path.getsize(a.model) * share // 100
    if share >= 100:
        limit += a.extra * MIB
    ours, theirs = [], []
    for round_ in range(a.rounds):
        a.seed = round_ + 1
        for turn in range(2):
            if (round_ + turn) % 2:
                theirs.append(run_llama(group, a, limit, share >= 100))
            else:
                ours.append(run_ours(group, a, limit))
    speeds = [o["tokens_per_s"] for o in ours]
    ratios = [s / t for s, t in zip(speeds, theirs)]
    parts = [time_part(o) for o in ours]
    bar = 1.1 if share >= 100 else 2.0
    fast, timely = statistics.median(ratios) >= bar, statistics.median(parts) <= TIME_MOST
    print(f"{share:4} %  mnem {spread(speeds)} tokens/s, llama.cpp {spread(theirs)}, "
          f"ratio {spread(ratios)}: {'pass' if fast else 'FAIL'}")
    print(f"        time {spread(parts)} x the larger of reading and computing, at most "
          f"{TIME_MOST}: {'pass' if timely else 'FAIL'}", flush=True)
    broken = [b for o in ours for b in broken_by(share, o)]
    for o in ours:
        describe(o)
    if not fast:
        broken.append(f"{share} %: less than {bar} times as fast")
    if not timely:
        broken.append(f"{share} %: more than {TIME_MOST} x the larger of reading and computing")
    return broken


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("llama")
    p.add_argument("model")
    p.add_argument("--mnem", default=os.path.join(ROOT, "build/release/tools/mnem/mnem"))
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--shares", default="25,50,100", help="percent of the file")
    p.add_argument("--spare", type=int, default=24, help="MiB that the group's kernel needs")
    p.add_argument("--extra", type=int, default=512, help="MiB beside the file, at 100 %%")
    p.add_argument("--probe", type=int, default=512, help="MiB read to measure the disk")
    p.add_argument("--cgroup", help="folder of the control group in which one is made")
    a = p.parse_args()
    a.resident, a.block = {}, read_bytes(a)
    group = ControlGroup("mnem-experts", a.cgroup)
    try:
        broken = [b for share in a.shares.split(",") for b in compare(group, a, int(share))]
    finally:
        group.remove()
    for line in broken:
        print(f"broken: {line}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
