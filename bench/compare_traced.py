#!/usr/bin/env python3
"""compare_traced.py MNEM MODEL [--text FILE] [--threads N] [--pairs N]: what --trace takes of tokens/s and of a
step of training: pairs of runs, one of each with `--trace FILE.pftrace`, which of them comes first
alternating. The figure is the median of the pairs' ratios, traced over plain, so that a machine
whose speed drifts meets both; beside it the range of its middle 90 % among samples drawn again from
the pairs (2000, seeded: how sure it is), and the best of all traced runs over the best of all plain ones stands
there, too, for a machine that others use. Generation is the tokens/s that `run --json` says of itself; a step's
time is the median of those in log.jsonl but for the first two. Aim: 0.99. With --text a model of 5 M
is trained on it.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile


def run(command):
    env = dict(os.environ, MNEM_HISTORY="off")
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def threads(asked):
    return ["--threads", str(asked.threads)] if asked.threads else []


def middle(ratios):
    """Where 90 % of medians lie of as many drawn from these."""
    draw = random.Random(7)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[100], medians[1899]


def generation(asked, trace, folder):
    out = run([asked.mnem, "run", asked.model, "--raw", "-p", "In the beginning God created",
               "-n", str(asked.tokens), "--temp", "0", "--json", *threads(asked), *trace])
    end = [json.loads(line) for line in out.splitlines() if '"stats"' in line][-1]
    return end["stats"]["tokens_per_s"]


def training(asked, trace, folder):
    out = os.path.join(folder, "out")
    run([asked.mnem, "train", "-d", asked.text, "--config", "5m", "--memory", "512M", "--steps",
         str(asked.steps), "-q", "-o", out, *threads(asked), *trace])
    with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    subprocess.run(["rm", "-r", out], check=True)
    return statistics.median(r["tokens_per_s"] for r in rows if r["type"] == "step" and
                             r["step"] > 2)


def compare(name, measure, asked, folder):
    traced = ["--trace", os.path.join(folder, "t.pftrace")]
    ratios, plain, on_rates = [], [], []
    measure(asked, [], folder)
    for pair in range(asked.pairs):
        rate = {}
        for on in ((False, True) if pair % 2 else (True, False)):
            rate[on] = measure(asked, traced if on else [], folder)
        ratios.append(rate[True] / rate[False])
        plain.append(rate[False])
        on_rates.append(rate[True])
    ratios.sort()
    low, high = middle(ratios)
    size = os.path.getsize(traced[1])
    print(f"{name}: {statistics.median(plain):.1f} tokens/s, traced {statistics.median(ratios):.4f} "
          f"of it (median within {low:.4f} to {high:.4f}; {ratios[0]:.4f} to {ratios[-1]:.4f}, "
          f"{asked.pairs} pairs), best over best "
          f"{max(on_rates) / max(plain):.4f}, a file of {size / 2**20:.1f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("mnem")
    parser.add_argument("model")
    parser.add_argument("--text")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--steps", type=int, default=12)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.text:
            compare("training", training, asked, folder)
        else:
            compare("generation", generation, asked, folder)


main()
