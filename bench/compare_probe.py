#!/usr/bin/env python3
"""compare_probe.py LIKWID_BENCH MULTICHASE [--mnem FILE] [--rounds N] [--keep FILE] [--levels L,L]

`mnem probe` beside programs that nobody here wrote, alternating: each round runs the probe, then
likwid-bench (bandwidth of every level by one and by all threads, operations/s) and multichase
(latency along a random cycle), with the probe's own sizes. Each figure is the best of its passes, of
both; ratio is ours over theirs. likwid-bench is Debian's (package likwid); multichase is
github.com/google/multichase, built anywhere outside the tree. --keep adds to the figures of earlier
calls that the file has, so that a machine can be given back between rounds.

Alike on both sides: bytes that the loop names (copy counts two, triad three, and what a cache reads
before a store none), as many bytes for all streams together, vectors of one width, multiply-adds
fused, and the pages. Those of 2 MiB are there for less than 2 MiB only where the kernel keeps some
(echo 24 > /proc/sys/vm/nr_hugepages): then likwid-bench's malloc takes them (a tunable of glibc 2.35
and later) and multichase's -p 2m. Without them theirs are of 4 KiB in L1 and L2, which is said. Our
store_mem is likwid's store_mem (non-temporal), our triad its stream_..._fma.

"peer cv" is the standard deviation over the mean of the better half of what the peer itself said in
this call, from pass to pass, as the probe's own cv is: what the machine shows of itself.

Bounds are those of issue 19: bandwidth 0.97-1.05 (L3 0.93-1.07), operations/s at least 0.97,
latency within 5 % (L1, L2) and 10 % (L3, memory). On a machine that others use, raise --rounds.
"""
import argparse
import json
import os
import re
import statistics
import subprocess

STREAMS = {"load": "load", "store": "store", "stream": "store_mem", "copy": "copy",
           "triad": "stream"}
HUGE = 2 << 20


def pages_kept():
    """Pages of 2 MiB that the kernel keeps for who asks."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        return next((int(x.split()[1]) for x in lines if x.startswith("HugePages_Free")), 0)


def environment(size):
    """malloc asks for pages of 2 MiB: for kept ones if there are enough, else it advises."""
    kept = size < 16 * HUGE and pages_kept() > size // HUGE + 4
    return dict(os.environ, GLIBC_TUNABLES=f"glibc.malloc.hugetlb={2 if kept else 1}")


def run(command, env=None):
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def width():
    flags = open("/proc/cpuinfo", encoding="ascii").read().split()
    return "avx512" if "avx512f" in flags else "avx"


class Likwid:
    """Rows of likwid-bench, each so many seconds a pass."""

    def __init__(self, program):
        self.program, self.rows = program, []

    def add(self, test, size, threads, seconds, tell):
        """tell(MByte/s or MFlops/s of a pass)."""
        self.rows.append({"test": test, "size": size, "threads": threads, "seconds": seconds,
                          "tell": tell, "count": max(1, (64 << 20) // size), "known": False})

    def once(self, row):
        out = run([self.program, "-t", row["test"], "-w", f"S0:{row['size']}B:{row['threads']}", "-i",
                   str(row["count"])], environment(row["size"]))
        return {what: float(re.search(what + r":\s+(\S+)", out).group(1))
                for what in ("MByte/s", "MFlops/s", "Time")}

    def one_pass(self):
        """One pass of each, by turns; the first only finds out how much takes the seconds. (Most of
        the second that each takes is likwid-bench's own sleep.)"""
        for row in self.rows:
            value = self.once(row)
            if row["known"]:
                row["tell"](value)
            row["count"] = max(1, int(row["count"] * row["seconds"] / max(value["Time"], 1e-6)))
            row["known"] = True


def chase(program, size, huge, samples):
    """ns a load, of samples of half a second; the whole block is one random cycle (-T), a pointer
    per 128 bytes."""
    size -= size % 4096
    pages = [] if not huge else ["-p", "2m"] if size < 16 * HUGE and pages_kept() > 8 else ["-H"]
    out = run([program, "-m", str(size), "-s", "128", "-T", str(size), "-n", str(samples), "-v",
               *pages])
    return [float(x) for x in re.findall(r"avg=\s*([\d.]+)", out)]


class Table:
    def __init__(self, rows):
        self.rows = rows

    def row(self, name, larger, low, high):
        return self.rows.setdefault(name, {"ours": [], "theirs": [], "larger": larger, "low": low,
                                           "high": high})

    def show(self):
        out = []
        print(f"{'figure':34} {'mnem':>10} {'theirs':>10} {'ratio':>7} {'peer cv':>8}  bounds")
        for name, row in self.rows.items():
            if not row["ours"] or not row["theirs"]:
                print(f"{name:34} {'-':>10}")
                continue
            theirs = sorted(row["theirs"], reverse=row["larger"])
            ours = (max if row["larger"] else min)(row["ours"])
            ratio, half = ours / theirs[0], theirs[:(len(theirs) + 1) // 2]
            cv = f"{100 * statistics.stdev(half) / statistics.mean(half):.1f} %" if half[1:] else ""
            good = row["low"] <= ratio <= row["high"]
            print(f"{name:34} {ours:10.2f} {theirs[0]:10.2f} {ratio:7.3f} {cv:>8}  {row['low']}-"
                  f"{row['high']}{'' if good else '  OUTSIDE'}")
            out.append(good)
        print(f"{sum(out)} of {len(out)} within")


def bandwidth(table, probe, level, peer, asked):
    low, high = (0.93, 1.07) if level["name"] == "L3" else (0.97, 1.05)
    for team in {0, len(probe["teams"]) - 1}:
        threads = probe["teams"][team]
        if asked and threads != asked:
            continue
        for stream, test in STREAMS.items():
            value = level["bytes_per_s"][stream][team]
            if not value:
                continue
            row = table.row(f"{level['name']} {stream} {threads} thr GB/s", True, low, high)
            row["ours"].append(value["best"] / 1e9)
            fused = "_fma" if test == "stream" else ""
            # memory's one thread goes through what all go through: a large last cache keeps some
            near = level["name"] != "memory"
            size = level["rate_bytes"] * (threads if near else probe["threads"])
            peer.add(f"{test}_{width()}{fused}", size, threads, 0.05 if near else 0.3,
                     lambda v, to=row["theirs"]: to.append(v["MByte/s"] / 1e3))


def latency(table, level, program, samples):
    near = level["name"] in ("L1", "L2")
    for key, huge in (("latency_ns", True), ("latency_4k_ns", False)):
        value = level[key]
        if not value:
            continue
        # a block of pages of 4 KiB is an eighth of the other, which is all of memory's cycle
        small = not huge and level["name"] == "memory"
        bound = 0.05 if near else 0.10
        row = table.row(f"{level['name']} latency {'2M' if huge else '4K'} pages ns", False,
                        1 - bound, 1 + bound)
        row["ours"].append(value["best"])
        row["theirs"] += chase(program, level["latency_bytes"] // (8 if small else 1), huge,
                               samples)


def arithmetic(table, probe, peer):
    best = max(p["all"]["best"] if p["all"] else 0 for p in probe["peaks"] if p["type"] == "f32")
    threads = probe["threads"]
    row = table.row(f"f32 {threads} thr GFLOP/s", True, 0.97, 9)
    row["ours"].append(best / 1e9)
    peer.add(f"peakflops_sp_{width()}_fma", threads * 16384, threads, 0.05,
             lambda v, to=row["theirs"]: to.append(v["MFlops/s"] / 1e3))
    if probe["clock_wide_hz"]:  # wide vectors have a clock of their own
        lanes = 16 if width() == "avx512" else 8
        row = table.row("f32 of clock x width x 2 units", True, 0.97, 1.1)
        row["ours"].append(best / 1e9)
        row["theirs"].append(probe["clock_wide_hz"]["best"] * lanes * 2 * 2 * threads / 1e9)


def count_noisy(level, noisy):
    """Figures of a cache whose passes differ by more than 3 %, of one probe after another."""
    if level["name"] == "memory":
        return
    values = [level["latency_ns"]] + [v for of in level["bytes_per_s"].values() for v in of]
    count = sum(1 for v in values if v and v["cv"] > 0.03)
    if level["name"] == "L1":
        noisy.append(0)
    noisy[-1] += count


def compare(table, probe, asked):
    peer = Likwid(asked.likwid_bench)
    levels = [x for x in probe["levels"]
              if not asked.levels or x["name"] in asked.levels.split(",")]
    for level in levels:
        bandwidth(table, probe, level, peer, asked.threads)
    if not asked.levels or "L1" in asked.levels.split(","):
        arithmetic(table, probe, peer)
    peer.one_pass()
    for number in range(asked.passes):  # chases between them, so that both meet more moments
        peer.one_pass()
        if number % max(1, asked.passes // 4) == 0:
            for level in levels:
                latency(table, level, asked.multichase, 2 if level["name"] != "memory" else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("likwid_bench")
    parser.add_argument("multichase")
    parser.add_argument("--mnem", default="build/release/tools/mnem/mnem")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--passes", type=int, default=6, help="of likwid-bench, in a round")
    parser.add_argument("--keep", help="a file of figures: what it has counts too")
    parser.add_argument("--threads", type=int, help="bandwidth by so many threads only")
    parser.add_argument("--levels", help="of these only, such as L1,L2")
    asked = parser.parse_args()
    rows, noisy = {}, []
    if asked.keep and os.path.exists(asked.keep):
        with open(asked.keep, encoding="ascii") as kept:
            rows = json.load(kept)
    if pages_kept() <= 8:
        print("the kernel keeps no pages of 2 MiB: theirs are of 4 KiB in L1 and L2")
    table = Table(rows)
    for number in range(asked.rounds):
        probe = json.loads(run([asked.mnem, "probe", "--json", "-q"]))
        for level in probe["levels"]:
            count_noisy(level, noisy)
        compare(table, probe, asked)
        print(f"round {number + 1}: probe {probe['seconds']:.1f} s, "
              f"VmHWM {probe['vmhwm'] / 2**20:.1f} MiB", flush=True)
        if asked.keep:
            with open(asked.keep, "w", encoding="ascii") as out:
                json.dump(rows, out)
    table.show()
    print("figures of caches with a cv above 3 %, probe by probe:", noisy)


if __name__ == "__main__":
    main()
