#!/usr/bin/env python3
"""compare_prediction.py MNEM MODEL... [--runs N] [--fresh N]: predicted beside measured, run by run.

Before each run `mnem plan --json` with its own options says what it expects from the runs before (a history of this
program's own); then the run is made and its own line of the history is compared: tokens per second by
the processors' clock (all threads' over their number), by the wall's, and the peak. The first eight
runs only teach. Lengths, contexts and models are drawn from a fixed seed; --fresh runs more of
lengths that weren't among them.
"""
import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile

PROMPT = "In the beginning God created the heaven and the earth. " * 40


def run(mnem, model, ctx, tokens, threads, state):
    env = dict(os.environ, XDG_STATE_HOME=state)
    env.pop("MNEM_HISTORY", None)
    words = " ".join(PROMPT.split()[: max(4, ctx // 4)])
    options = ["--ctx", str(ctx), "-t", str(threads), "--raw", "-p", words, "-n", str(tokens)]
    plan = json.loads(subprocess.run([mnem, "plan", model, "--json", *options], env=env, check=True,
                                     capture_output=True).stdout)
    subprocess.run([mnem, "run", model, "--temp", "0", "-q", *options], env=env, check=True,
                   capture_output=True)
    with open(os.path.join(state, "mnem", "history.jsonl"), encoding="utf-8") as lines:
        did = json.loads(lines.readlines()[-1])
    return plan["history"] or {}, did


def rates(did, phase):
    p = did.get(phase)
    if not p or not p.get("cpu_seconds"):
        return None
    return p["tokens"] / (p["cpu_seconds"] / did["threads"]), p["tokens"] / p["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mnem")
    parser.add_argument("model", nargs="+")
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--fresh", type=int, default=8)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    draw = random.Random(1)
    rows = []
    with tempfile.TemporaryDirectory() as state:
        for i in range(asked.runs + asked.fresh):
            fresh = i >= asked.runs
            model = asked.model[i % len(asked.model)]
            ctx = draw.choice([640, 896] if fresh else [128, 256, 512])
            tokens = draw.randrange(24, 64)
            said, did = run(asked.mnem, model, ctx, tokens, asked.threads, state)
            told_peak = said.get("forecast_peak_bytes")
            peak = did["peak_bytes"] / told_peak - 1 if told_peak else None
            for phase, key in (("tokens", "forecast"), ("prompt", "forecast_prompt")):
                rate, told = rates(did, phase), said.get(key)
                if not rate or not told:
                    continue
                row = {"run": i, "phase": phase, "fresh": fresh, "band": told["band"],
                       "expected": told["tokens_per_s"], "low": told["low"], "high": told["high"],
                       "cpu": rate[0], "wall": rate[1], "peak": peak,
                       "error": abs(told["tokens_per_s"] / rate[0] - 1),
                       "inside": told["low"] <= rate[0] <= told["high"]}
                rows.append(row)
                print(json.dumps(row), flush=True)
    for phase in ("tokens", "prompt"):
        for fresh in (False, True):
            of = [r for r in rows if r["phase"] == phase and r["fresh"] == fresh
                  and r["band"] in ("student", "conformal")]
            if not of:
                continue
            noise = statistics.median(abs(r["cpu"] / r["wall"] - 1) for r in of)
            print(f"{phase:7} {'new shapes' if fresh else 'seen':11} {len(of):3} runs: median error "
                  f"{100 * statistics.median(r['error'] for r in of):.1f} %, inside the band "
                  f"{100 * sum(r['inside'] for r in of) / len(of):.0f} % ("
                  f"{100 * statistics.median(r['high'] / r['expected'] - 1 for r in of):.1f} % up in "
                  f"the median); wall's clock off by "
                  f"{100 * noise:.0f} % in the median")
    peaks = [r["peak"] for r in rows if r["peak"] is not None]
    if peaks:
        print(f"peak over expected: median {100 * statistics.median(peaks):.2f} %, least "
              f"{100 * min(peaks):.2f} %, most {100 * max(peaks):.2f} % (above 0: too little said)")


main()
