#!/usr/bin/env python3
"""compare_probe.py LIKWID_BENCH MULTICHASE [--mnem FILE] [--rounds N] [--keep FILE] [--threads N]

`mnem probe` beside programs that nobody here wrote, alternating: each round runs the probe, then
likwid-bench (bandwidth of every level by one and by all threads, operations/s) and multichase
(latency along a random cycle), with the probe's own sizes. Each figure is the best of its rounds, of
both; the last column is ours over theirs. likwid-bench is Debian's (package likwid); multichase is
github.com/google/multichase, built anywhere outside the tree. --keep adds to the figures of earlier
calls that the file has, so that a machine can be given back between rounds.

Alike on both sides: bytes that the loop names (copy counts two, triad three, and what a cache reads
before a store none), as many bytes for all streams together, vectors of one width, and pages of
2 MiB: likwid-bench takes its memory from malloc, which is told to ask for them (a tunable of glibc
2.35 and later). Our store_mem is likwid's store_mem (non-temporal), our triad its stream.

Bounds are those of issue 19: bandwidth 0.97-1.05 (L3 0.93-1.07), operations/s at least 0.97,
latency within 5 % (L1, L2) and 10 % (L3, memory). On a machine that others use, raise --rounds.
"""
import argparse
import json
import os
import re
import subprocess

STREAMS = {"load": "load", "store": "store", "stream": "store_mem", "copy": "copy",
           "triad": "stream"}


def run(command):
    env = dict(os.environ, GLIBC_TUNABLES="glibc.malloc.hugetlb=1")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def width():
    flags = open("/proc/cpuinfo", encoding="ascii").read().split()
    return "avx512" if "avx512f" in flags else "avx"


def likwid_once(program, test, size, threads, length):
    """MByte/s and MFlops/s of one run, of so many seconds or iterations."""
    out = run([program, "-t", test, "-w", f"S0:{size}B:{threads}", *length])
    rate = float(re.search(r"MByte/s:\s+([\d.]+)", out).group(1))
    flops = float(re.search(r"MFlops/s:\s+([\d.]+)", out).group(1))
    return rate * 1e6, flops * 1e6


def likwid(program, test, size, threads, cache, passes=8, seconds=0.01):
    """The best, as the probe's: of caches and arithmetic of short passes, since a neighbour that
    takes a processor for a moment is in each long one."""
    if not cache:
        return likwid_once(program, test, size, threads, ["-s", "1"])
    best = likwid_once(program, test, size, threads, ["-i", str(max(1, (64 << 20) // size))])
    count = max(1, int(seconds * max(best) / size))
    for _ in range(passes):
        now = likwid_once(program, test, size, threads, ["-i", str(count)])
        best = tuple(map(max, best, now))
    return best


def chase(program, size, huge, samples):
    """ns a load, the least of the samples of half a second; the whole block is one random cycle (-T),
    a pointer per 128 bytes."""
    size -= size % 4096
    command = [program, "-m", str(size), "-s", "128", "-T", str(size), "-n", str(samples)]
    return float(run(command + (["-H"] if huge else [])).split()[-1])


class Table:
    def __init__(self, rows):
        self.rows = rows

    def add(self, name, ours, theirs, larger, low, high):
        row = self.rows.setdefault(name, {"ours": [], "theirs": [], "larger": larger,
                                          "low": low, "high": high})
        if ours:
            row["ours"].append(ours)
        row["theirs"].append(theirs)

    def show(self):
        out = []
        print(f"{'figure':34} {'mnem':>10} {'theirs':>10} {'ratio':>7}  bounds")
        for name, row in self.rows.items():
            best = max if row["larger"] else min
            if not row["ours"]:
                print(f"{name:34} {'-':>10}")
                continue
            ours, theirs = best(row["ours"]), best(row["theirs"])
            ratio = ours / theirs
            good = row["low"] <= ratio <= row["high"]
            print(f"{name:34} {ours:10.2f} {theirs:10.2f} {ratio:7.3f}  {row['low']}-{row['high']}"
                  f"{'' if good else '  OUTSIDE'}")
            out.append(good)
        print(f"{sum(out)} of {len(out)} within")


def bandwidth(table, probe, level, program, asked):
    low, high = (0.93, 1.07) if level["name"] == "L3" else (0.97, 1.05)
    for team in {0, len(probe["teams"]) - 1}:
        threads = probe["teams"][team]
        if asked and threads != asked:
            continue
        for stream, test in STREAMS.items():
            if stream == "stream" and level["name"] != "memory":
                continue
            value = level["bytes_per_s"][stream][team]
            theirs, _ = likwid(program, f"{test}_{width()}", level["rate_bytes"] * threads, threads,
                               level["name"] in ("L1", "L2"))
            table.add(f"{level['name']} {stream} {threads} thr GB/s",
                      value and value["best"] / 1e9, theirs / 1e9, True, low, high)


def latency(table, level, program):
    near = level["name"] in ("L1", "L2")
    for key, huge in (("latency_ns", True), ("latency_4k_ns", False)):
        value = level[key]
        # a block of pages of 4 KiB is an eighth of the other, which is all of memory's cycle
        small = not huge and level["name"] == "memory"
        theirs = chase(program, level["latency_bytes"] // (8 if small else 1), huge,
                       4 if near else 2)
        bound = 0.05 if near else 0.10
        table.add(f"{level['name']} latency {'2M' if huge else '4K'} pages ns",
                  value and value["best"], theirs, False, 1 - bound, 1 + bound)


def arithmetic(table, probe, program):
    best = max(p["all"]["best"] if p["all"] else 0 for p in probe["peaks"] if p["type"] == "f32")
    threads = probe["threads"]
    _, flops = likwid(program, f"peakflops_sp_{width()}_fma", threads * 16384, threads, True)
    table.add(f"f32 {threads} thr GFLOP/s", best / 1e9, flops / 1e9, True, 0.97, 9)
    if probe["clock_wide_hz"]:  # wide vectors have a clock of their own
        lanes = 16 if width() == "avx512" else 8
        limit = probe["clock_wide_hz"]["best"] * lanes * 2 * 2 * threads
        table.add("f32 of clock x width x 2 units", best / 1e9, limit / 1e9, True, 0.97, 1.1)


def count_noisy(level, noisy):
    """Figures of a cache whose passes differ by more than 3 %, of one probe after another."""
    if level["name"] == "memory":
        return
    values = [level["latency_ns"]] + [v for of in level["bytes_per_s"].values() for v in of]
    count = sum(1 for v in values if v and v["cv"] > 0.03)
    if level["name"] == "L1":
        noisy.append(0)
    noisy[-1] += count


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("likwid_bench")
    parser.add_argument("multichase")
    parser.add_argument("--mnem", default="build/release/tools/mnem/mnem")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keep", help="a file of figures: what it has counts too")
    parser.add_argument("--threads", type=int, help="bandwidth by so many threads only")
    parser.add_argument("--levels", help="of these only, such as L1,L2")
    asked = parser.parse_args()
    rows, noisy = {}, []
    if asked.keep and os.path.exists(asked.keep):
        with open(asked.keep, encoding="ascii") as kept:
            rows = json.load(kept)
    table = Table(rows)
    for number in range(asked.rounds):
        probe = json.loads(run([asked.mnem, "probe", "--json", "-q"]))
        for level in probe["levels"]:
            if asked.levels and level["name"] not in asked.levels.split(","):
                continue
            bandwidth(table, probe, level, asked.likwid_bench, asked.threads)
            count_noisy(level, noisy)
            latency(table, level, asked.multichase)
        arithmetic(table, probe, asked.likwid_bench)
        print(f"round {number + 1}: probe {probe['seconds']:.1f} s, "
              f"VmHWM {probe['vmhwm'] / 2**20:.1f} MiB", flush=True)
        if asked.keep:
            with open(asked.keep, "w", encoding="ascii") as out:
                json.dump(rows, out)
    table.show()
    print("figures of caches with a cv above 3 %, probe by probe:", noisy)


if __name__ == "__main__":
    main()
