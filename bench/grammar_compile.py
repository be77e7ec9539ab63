#!/usr/bin/env python3
"""grammar_compile.py VOCABULARY.gguf DATA [--every N [--first N]] [--times FILE]: the time to compile schemas.

DATA is the folder maskbench/data of the public repository guidance-ai/jsonschemabench: files that each hold a
schema. Of each the processor time of one thread until the schema compiled or was refused; the best of three
where that took more than 8 ms. Prints percentiles of those taken, of those refused and of all. --times: a line
for each schema with its milliseconds and the reason for which it was refused. Needs build/release/libmnem.so.
"""
import argparse
import glob
import json
import os

import compare_grammar

LONG, TRIES = 8e6, 3


def compile_once(side, schema):
    try:
        side.compile(schema)
    except ValueError as failure:
        return str(failure)
    return ""


def measure(side, path):
    with open(path, encoding="utf-8") as file:
        schema = json.dumps(json.load(file)["schema"]).encode()
    best, reason = compare_grammar.timed(compile_once, side, schema)
    for _ in range(TRIES - 1 if best > LONG else 0):
        best = min(best, compare_grammar.timed(compile_once, side, schema)[0])
    return best / 1e6, os.path.basename(path), reason


def show(name, rows):
    times = sorted(ms for ms, _, _ in rows)
    at = [times[int(len(times) * q)] for q in (0.5, 0.9, 0.99)] if times else [0, 0, 0]
    print(f"{name}: {len(times)} schemas, p50 {at[0]:.2f} ms, p90 {at[1]:.2f}, p99 {at[2]:.2f}, "
          f"longest {times[-1] if times else 0:.1f}, together {sum(times) / 1e3:.1f} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("vocabulary")
    parser.add_argument("data")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--times")
    args = parser.parse_args()
    side = compare_grammar.Ours(compare_grammar.Vocabulary(args.vocabulary))
    paths = sorted(glob.glob(os.path.join(args.data, "*.json")))[args.first::args.every]
    rows = [measure(side, path) for path in paths]
    show("taken", [row for row in rows if not row[2]])
    show("refused", [row for row in rows if row[2]])
    show("all", rows)
    if args.times:
        with open(args.times, "w", encoding="utf-8") as file:
            for ms, name, reason in rows:
                file.write(f"{name}\t{ms:.2f}\t{reason}\n")


if __name__ == "__main__":
    main()
