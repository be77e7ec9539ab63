#!/usr/bin/env python3
"""Compares `mnem run` with --draft ngram and with --draft off, in pairs of runs.

    bench/compare_draft.py MNEM MODEL [--memory SIZE,...] [--texts edit,completion,text] [--pairs 5]
                           [--tokens 160] [--threads 2] [--cpu]

Three texts, greedy: an edit of C code (the model writes a function of this tree again, with a name
changed), a completion of code, and free text. A budget "all" is none: all weights are resident.
Pairs take turns, the first of a pair changing. A row has the median of the ratios of tokens/s of
each pair, their least and largest, the median tokens/s of both, and of the drafts: tokens put out
by each pass, and the part of drafted tokens that was right.

The text must be the same: the status is 1 if one differs. Nothing else should run meanwhile; where
something does, --cpu counts tokens of a second of processor time (of the whole run, less that of a
run of one token), which says nothing about waiting for a disk."""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


def function(path, name):
    """The text of a function of this tree, from its first line to the brace that ends it."""
    text = (ROOT / path).read_text(encoding="utf-8")
    begin = text.index(name)
    return text[begin:text.index("\n}\n", begin) + 3]


def prompts():
    """(name, prompt), of texts that are in the tree."""
    code = function("src/engine/pages/kv_pages.c", "static mnem_status own(")
    return [
        ("edit", "Rename the variable page to copy in this C function, change nothing else, and "
                 f"answer with the code only:\n\n```c\n{code}```"),
        ("completion", "Write a C program that reads numbers from standard input, sorts them with "
                       "quicksort and prints their mean and median. Answer with the code only."),
        ("text", "Tell a story about a lighthouse keeper who finds a letter in a bottle."),
    ]


def cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(o, memory, prompt, draft, tokens):
    """(tokens/s, tokens, text, counts of drafts, seconds of processor time)"""
    command = [o.mnem, "run", o.model, "-p", prompt, "-n", str(tokens), "--temp", "0", "--threads",
               o.threads, "--ctx", "1024", "--no-history", "--json", "--draft", draft]
    if memory != "all":
        command += ["--memory", memory]
    begin = cpu()
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if out.returncode:
        sys.exit(f"{' '.join(command)}: {out.stderr}")
    end = json.loads(out.stdout.splitlines()[-1])
    stats = end["stats"]
    return stats["tokens_per_s"], stats["tokens"], end["text"], stats["draft"], cpu() - begin


def rated(o, memory, prompt, draft):
    """The same, with the tokens of a second of processor time where that is wanted."""
    whole = run(o, memory, prompt, draft, o.tokens)
    if not o.cpu:
        return whole
    seconds = whole[4] - run(o, memory, prompt, draft, 1)[4]
    return ((whole[1] - 1) / max(seconds, 1e-3),) + whole[1:]


def compare(o, memory, name, prompt):
    ratios, rates, drafts, same = [], {"off": [], "ngram": []}, None, True
    for pair in range(o.pairs):
        got = {}
        for draft in (("off", "ngram"), ("ngram", "off"))[pair % 2]:
            got[draft] = rated(o, memory, prompt, draft)
            rates[draft].append(got[draft][0])
        same = same and got["off"][1:3] == got["ngram"][1:3]
        ratios.append(got["ngram"][0] / got["off"][0])
        drafts = got["ngram"][3] or {"passes": 0, "drafted": 0, "accepted": 0, "most": 0}
    each = 1 + drafts["accepted"] / drafts["passes"] if drafts["passes"] else 1
    right = f"{100 * drafts['accepted'] / drafts['drafted']:.0f} %" if drafts["drafted"] else "-"
    print(f"| {memory} | {name} | {statistics.median(ratios):.2f} x ({min(ratios):.2f} to "
          f"{max(ratios):.2f}) | {statistics.median(rates['off']):.1f}, "
          f"{statistics.median(rates['ngram']):.1f} | {each:.2f} | {right} of {drafts['drafted']} | "
          f"{drafts['most']} | {'same' if same else 'DIFFERS'} |", flush=True)
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnem")
    parser.add_argument("model")
    parser.add_argument("--memory", default="all", help="budgets, separated by commas")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--texts", default="edit,completion,text")
    parser.add_argument("--cpu", action="store_true", help="processor time, on a busy machine")
    o = parser.parse_args()
    print("| budget | text | ngram / off | tokens/s: off, ngram | tokens a pass | right | longest | text |")
    print("|---|---|---|---|---|---|---|---|")
    same = [compare(o, memory, name, prompt)
            for memory in o.memory.split(",") for name, prompt in prompts()
            if name in o.texts.split(",")]
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())
