#!/usr/bin/env python3
"""A busy machine: do several threads do what one does, and a quiet one: does the old build do more?

    bench/compare_busy.py MNEM [--model FILE] [--only generation,training] [--threads 1,2,4]
                          [--runs 15] [--loops N] [--seconds 1.5]
    bench/compare_busy.py MNEM --old OLD_MNEM [...]

Beside as many busy loops as processors (--loops; processes of this script, ended with it) it runs
generation and training with one thread and with each other number in turn, every run at least
--seconds long by its own clock. Of each number of threads it prints the rates relative to the
median of one thread: the median must be at least 0.95, the worst but one at least 0.6.
With --old there are no loops: OLD_MNEM and MNEM run in turn with the same threads, and the median of
the ratios of the pairs must be at least 0.98.
One thread's own line shows how steady the machine is; it should have nothing else to do.
Tokens and losses must be the same in all runs. Exit code 1 where a figure falls short.
generation   --model (default: the one that ships) goes on after a short prompt, greedily
training     steps of --config tiny on the text of the tests
Five minutes on two processors, as long again with --old; half with --only, a fifth with --runs 3.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests/data/model/heldout.txt"
LOOP = "while True: pass"
STEP_TOKENS = 16 * 128  # of --config tiny


class Generation:
    """Greedy tokens after a short prompt."""

    def __init__(self, options, _folder):
        self.model, self.tokens = options.model, 256

    def run(self, mnem, threads):
        """Returns the rate, the seconds and what came out."""
        n = self.tokens
        lines = command(mnem, "run", self.model, "-p", "In the beginning", "-n", n, "--ctx",
                        n + 32, "--temp", 0, "--threads", threads, "--json", "-q")
        stats = lines[-1]["stats"]
        out = [x["token"] for x in lines if "token" in x]
        return stats["tokens_per_s"], stats["tokens"] / stats["tokens_per_s"], out

    def lengthen(self, factor):
        self.tokens = int(self.tokens * factor)


class Training:
    """Steps from random weights."""

    def __init__(self, _options, folder):
        self.folder, self.steps = folder, 4

    def run(self, mnem, threads):
        out = self.folder / "run"
        shutil.rmtree(out, ignore_errors=True)
        lines = command(mnem, "train", TEXT, "--config", "tiny", "--micro-batch", 16, "--steps",
                        self.steps, "--threads", threads, "--out", out, "--json", "-q")
        done = [x for x in lines if "tokens_per_s" in x]
        seconds = sum(STEP_TOKENS / x["tokens_per_s"] for x in done)
        return STEP_TOKENS * len(done) / seconds, seconds, [x["loss"] for x in done]

    def lengthen(self, factor):
        self.steps = int(self.steps * factor)


WORKS = {"generation": Generation, "training": Training}


def command(mnem, *args):
    done = subprocess.run([mnem, *map(str, args)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"compare_busy: {done.args} failed\n{done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Loops:
    """Busy loops, as long as the block lasts."""

    def __init__(self, count):
        self.count, self.processes = count, []

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(self.count)]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


class Report:
    """What fell short, and whether the answers are the same."""

    def __init__(self):
        self.failed = False

    def line(self, label, ratios, median_least, worst_least):
        ratios = sorted(ratios)
        median, worst = statistics.median(ratios), ratios[min(1, len(ratios) - 1)]
        good = median >= median_least and worst >= worst_least
        self.failed |= not good
        print(f"{label:36} median {median:5.2f}  worst but one {worst:5.2f}  "
              f"({ratios[0]:.2f} to {ratios[-1]:.2f})  {'ok' if good else 'FALLS SHORT'}",
              flush=True)

    def same(self, label, answers):
        if any(answer != answers[0] for answer in answers):
            self.failed = True
            print(f"{label}: the answers of {len(answers)} runs differ")


def long_enough(work, mnem, threads, seconds):
    """Makes its runs last the seconds, as fast as they may become."""
    while True:
        took = min(work.run(mnem, t)[1] for t in threads)
        if took >= seconds:
            return
        work.lengthen(max(1.3, min(8, 1.2 * seconds / took)))


def busy(name, work, options, report):
    counts = sorted({1, *options.threads})
    with Loops(options.loops):
        long_enough(work, options.mnem, counts, options.seconds)
        runs = {t: [] for t in counts}
        for i in range(options.runs):
            for threads in counts if i % 2 else counts[::-1]:
                runs[threads].append(work.run(options.mnem, threads))
    one = statistics.median(rate for rate, _, _ in runs[1])
    print(f"{name}: {options.loops} busy loops, one thread {one:.0f} tokens/s, runs of "
          f"{min(s for r in runs.values() for _, s, _ in r):.1f} s or more")
    for threads in counts:
        report.line(f"  {threads} threads / one", [r / one for r, _, _ in runs[threads]],
                    *((0.95, 0.6) if threads > 1 else (0, 0)))
    report.same(name, [answer for r in runs.values() for _, _, answer in r])


def quiet(name, work, options, report):
    """Who runs first alternates."""
    for threads in options.threads:
        long_enough(work, options.mnem, [threads], options.seconds)
        ratios, answers = [], []
        for i in range(options.runs):
            builds = [options.old, options.mnem]
            rates = {}
            for build in builds if i % 2 else builds[::-1]:
                rates[build], _, answer = work.run(build, threads)
                answers.append(answer)
            ratios.append(rates[options.mnem] / rates[options.old])
        report.line(f"{name}, {threads} threads, new / old", ratios, 0.98, 0)
        report.same(name, answers)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("mnem", type=os.path.abspath)
    parser.add_argument("--old", type=os.path.abspath)
    parser.add_argument("--model", default=ROOT / "models/mnem-kjv-5m-q8_0.gguf")
    parser.add_argument("--only", default=",".join(WORKS))
    parser.add_argument("--threads", default="1,2,4")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--loops", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=1.5)
    options = parser.parse_args()
    options.threads = [int(t) for t in options.threads.split(",")]
    return options


def main():
    options, report = parse(), Report()
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only.split(","):
            work = WORKS[name](options, Path(folder))
            (quiet if options.old else busy)(name, work, options, report)
    sys.exit(report.failed)


if __name__ == "__main__":
    main()
