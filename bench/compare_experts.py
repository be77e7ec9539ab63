#!/usr/bin/env python3
"""compare_experts.py PATH_TO_LLAMA_BENCH MODEL [options]: a mixture of experts that memory doesn't
hold, in mnem and in llama.cpp.

Both run in a memory control group (version 1 or 2) of a quarter, a half and all of the file, each
in turn, the page cache dropped first; llama.cpp with the file mapped and nothing repacked. Tokens
are generated: llama-bench takes any, mnem draws from nearly flat logits, so that neither repeats
itself. Prints medians and the median of each pair's ratio with the least and the most; what mnem
read, how often experts were there, its peak beside what it predicted, and its time beside the
larger of reading and computing. Exit code 1 when a promise breaks, 77 where no control group can be
made.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MIB = 1 << 20
V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


class Group:
    """A memory control group; skips the script where none can be made."""

    def __init__(self):
        v1 = os.path.isdir(V1)
        self.path = os.path.join(V1 if v1 else V2, f"mnem-experts-{os.getpid()}")
        self.limit_file = "memory.limit_in_bytes" if v1 else "memory.max"
        try:
            os.mkdir(self.path)
            self.write(self.limit_file, 1 << 40)
        except OSError as error:
            self.remove()
            print(f"skipped: no memory control group can be made ({error})")
            sys.exit(77)

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as f:
            f.write(str(value))

    def run(self, limit, command):
        """Output of a command that ran inside, and its seconds."""
        drop_caches()
        self.write(self.limit_file, limit)
        begin = time.monotonic()
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
            preexec_fn=lambda: self.write("cgroup.procs", os.getpid()))
        if done.returncode:
            sys.exit(f"{command[0]} failed ({done.returncode}):\n{done.stderr[-2000:]}")
        return done.stdout, time.monotonic() - begin

    def remove(self):
        if os.path.isdir(self.path):
            os.rmdir(self.path)


def drop_caches():
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as f:
            f.write("3")
    except OSError as error:
        print(f"skipped: the page cache can't be dropped ({error})")
        sys.exit(77)


def disk_rate(path):
    """Bytes a second of two readers past the page cache, as many as mnem has."""
    count, block = 192, MIB
    commands = [["dd", f"if={path}", "of=/dev/null", f"bs={block}", f"count={count}",
                 f"skip={i * 4 * count}", "iflag=direct"] for i in range(2)]
    begin = time.monotonic()
    running = [subprocess.Popen(c, stderr=subprocess.DEVNULL) for c in commands]
    if any(p.wait() for p in running):
        return 0
    return 2 * count * block / (time.monotonic() - begin)


def run_mnem(group, a, limit):
    memory = limit - a.spare * MIB
    out, _ = group.run(limit, [
        a.mnem, "run", a.model, "-p", "In the beginning", "--memory", str(memory), "--threads",
        str(a.threads), "--ctx", "256", "-n", str(a.tokens), "--temp", "20", "--top-k", "0",
        "--top-p", "1", "--min-p", "0", "--seed", str(a.seed), "--json"])
    end = json.loads(out.splitlines()[-1])
    stats, plan = end["stats"], end["plan"]
    return dict(stats, predicted=plan["peak_bytes"], budget=memory)


def run_llama(group, a, limit, warm):
    """warm: the second of two runs counts, which finds the file where the first one put it: mnem
    loads before it generates."""
    out, _ = group.run(limit, [
        a.llama, "-m", a.model, "-t", str(a.threads), "-p", "0", "-n", str(a.tokens), "-r", "2" if warm else "1",
        "-lm", "mmap", "--repack", "0", "-o", "json"])
    return json.loads(out)[-1]["samples_ts"][-1]


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def compare(group, a, share):
    """One line; the promises that it breaks."""
    limit = os.path.getsize(a.model) * share // 100
    if share >= 100:
        limit += a.extra * MIB
    ours, theirs, rates = [], [], []
    for round_ in range(a.rounds):
        a.seed = round_ + 1
        for turn in range(2):
            if (round_ + turn) % 2:
                theirs.append(run_llama(group, a, limit, share >= 100))
            else:
                rates.append(disk_rate(a.model))
                ours.append(run_mnem(group, a, limit))
    speeds = [o["tokens_per_s"] for o in ours]
    ratios = [s / t for s, t in zip(speeds, theirs)]
    print(f"{share:4} %  mnem {spread(speeds)} tokens/s, llama.cpp {spread(theirs)}, "
          f"ratio {spread(ratios)}")
    broken = []
    bar = 1.1 if share >= 100 else 2.0
    if statistics.median(ratios) < bar:
        broken.append(f"{share} %: less than {bar} times as fast")
    for o, rate in zip(ours, rates):
        off = abs(o["vmhwm"] - o["predicted"])
        hits, misses = o.get("expert_hits", 0), o.get("expert_misses", 0)
        print(f"        hits {hits / max(1, hits + misses):.3f}, read "
              f"{o['bytes_streamed'] / MIB:.0f} MiB at {rate / MIB:.0f} MiB/s of disk, waited "
              f"{o['seconds_waiting']:.1f} s of {o['tokens'] / o['tokens_per_s']:.1f}, peak "
              f"{o['vmhwm'] / MIB:.1f} MiB, predicted {o['predicted'] / MIB:.1f}")
        if off > max(0.02 * o["predicted"], 4 * MIB) or o["vmhwm"] > o["budget"]:
            broken.append(f"{share} %: a peak of {o['vmhwm']}, {o['predicted']} predicted")
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
    a = p.parse_args()
    group = Group()
    try:
        broken = [b for share in a.shares.split(",") for b in compare(group, a, int(share))]
    finally:
        group.remove()
    for line in broken:
        print(f"broken: {line}")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
