#!/usr/bin/env python3
"""compare_probe.py LIKWID_BENCH MULTICHASE [--mnem FILE] [--rounds N] [--json FILE]

`mnem probe` beside programs that nobody here wrote, alternating: each round runs the probe, then
likwid-bench (bandwidth of every level by one and by all threads, operations/s) and multichase
(latency along a random cycle), with the probe's own sizes. Each figure is the best of its rounds, of
both; the last column is ours over theirs. likwid-bench is Debian's (package likwid); multichase is
github.com/google/multichase, built anywhere outside the tree.

Bounds are those of issue 19: bandwidth 0.97-1.05 (L3 0.93-1.07), operations/s at least 0.97,
latency within 5 % (L1, L2) and 10 % (L3, memory). On a machine that others use, raise --rounds.
"""
import argparse
import json
import re
import subprocess

STREAMS = {"load": "load", "store": "store", "stream": "store_mem", "copy": "copy",
           "triad": "stream"}


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def width():
    flags = open("/proc/cpuinfo", encoding="ascii").read().split()
    return "avx512" if "avx512f" in flags else "avx"


def likwid(program, test, size, threads):
    """MByte/s and MFlops/s of one run of about half a second."""
    out = run([program, "-t", test, "-w", f"S0:{size}B:{threads}", "-s", "1"])
    rate = float(re.search(r"MByte/s:\s+([\d.]+)", out).group(1))
    flops = float(re.search(r"MFlops/s:\s+([\d.]+)", out).group(1))
    return rate * 1e6, flops * 1e6


def chase(program, size, huge):
    """ns a load; the whole block is one random cycle (-T), a pointer per 128 bytes."""
    size -= size % 4096
    command = [program, "-m", str(size), "-s", "128", "-T", str(size), "-n", "2"]
    return float(run(command + (["-H"] if huge else [])).split()[-1])


class Table:
    def __init__(self):
        self.rows = {}

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
            out.append({"figure": name, "mnem": ours, "theirs": theirs, "ratio": ratio,
                        "within": good})
        return out


def bandwidth(table, probe, level, program):
    low, high = (0.93, 1.07) if level["name"] == "L3" else (0.97, 1.05)
    for team in {0, len(probe["teams"]) - 1}:
        threads = probe["teams"][team]
        for stream, test in STREAMS.items():
            if stream == "stream" and level["name"] != "memory":
                continue
            value = level["bytes_per_s"][stream][team]
            theirs, _ = likwid(program, f"{test}_{width()}", level["rate_bytes"] * threads, threads)
            table.add(f"{level['name']} {stream} {threads} thr GB/s",
                      value and value["best"] / 1e9, theirs / 1e9, True, low, high)


def latency(table, level, program):
    near = level["name"] in ("L1", "L2")
    for key, huge in (("latency_ns", True), ("latency_4k_ns", False)):
        value = level[key]
        theirs = chase(program, level["latency_bytes"], huge)
        bound = 0.05 if near else 0.10
        table.add(f"{level['name']} latency {'2M' if huge else '4K'} pages ns",
                  value and value["best"], theirs, False, 1 - bound, 1 + bound)


def arithmetic(table, probe, program):
    best = max(p["all"]["best"] if p["all"] else 0 for p in probe["peaks"] if p["type"] == "f32")
    threads = probe["threads"]
    _, flops = likwid(program, f"peakflops_sp_{width()}_fma", threads * 16384, threads)
    table.add(f"f32 {threads} thr GFLOP/s", best / 1e9, flops / 1e9, True, 0.97, 9)
    if probe["clock_hz"]:
        lanes = 16 if width() == "avx512" else 8
        limit = probe["clock_hz"]["best"] * lanes * 2 * 2 * threads
        table.add("f32 of clock x width x 2 units", best / 1e9, limit / 1e9, True, 0.97, 1.1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("likwid_bench")
    parser.add_argument("multichase")
    parser.add_argument("--mnem", default="build/release/tools/mnem/mnem")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the ratios here, too")
    asked = parser.parse_args()
    table = Table()
    for number in range(asked.rounds):
        probe = json.loads(run([asked.mnem, "probe", "--json", "-q"]))
        for level in probe["levels"]:
            bandwidth(table, probe, level, asked.likwid_bench)
            latency(table, level, asked.multichase)
        arithmetic(table, probe, asked.likwid_bench)
        print(f"round {number + 1}: probe {probe['seconds']:.1f} s, "
              f"VmHWM {probe['vmhwm'] / 2**20:.1f} MiB", flush=True)
    rows = table.show()
    if asked.json:
        with open(asked.json, "w", encoding="ascii") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
