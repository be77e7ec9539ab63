#!/usr/bin/env python3
"""compare_python.py: mnem.LLM.generate beside the command, and what a busy thread of Python costs it.

A pair is four child processes that take turns: the command and Python, with N tokens and with 1. What N - 1
tokens take of the processors (user time, as wait4 tells it) is the difference, so that start and load don't
count, and other programs of the machine count little. (The system's time is that of reading the file; a step
asks the system for nothing, and on a busy machine it hides the rest.) Prints the medians, the median ratio
(command / Python: the share of the command's speed) and Python's time beyond the command's for a token.

Then, in one process, the time of a token of generate and of a stream by the clock, alone and while another
thread runs a pure loop of Python: alternated, medians. That needs a quiet machine with three processors.

Needs MNEM_LIBRARY and MNEM_COMMAND, or a build/release of this tree. One thread computes (--threads).
"""
import argparse
import os
import statistics
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RELEASE = os.path.join(ROOT, "build", "release")
ENVIRONMENT = dict(os.environ, MNEM_HISTORY="off")
ENVIRONMENT.setdefault("MNEM_LIBRARY", os.path.join(RELEASE, "libmnem.so"))
ENVIRONMENT.setdefault("MNEM_COMMAND", os.path.join(RELEASE, "tools", "mnem", "mnem"))
ENVIRONMENT.setdefault("PYTHONPATH", os.path.join(ROOT, "python"))
PROMPT = "In the beginning"


def processor_seconds(command):
    child = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command} ended with {child.returncode}")
    return used.ru_utime


def by_command(o, tokens):
    return [ENVIRONMENT["MNEM_COMMAND"], "run", o.model, "--raw", "-p", PROMPT, "-n", str(tokens), "--temp",
            "0", "--ignore-eos", "--ctx", str(o.tokens + 16), "--threads", str(o.threads), "-q"]


def by_python(o, tokens):
    return [sys.executable, __file__, "--child", "--model", o.model, "--tokens", str(o.tokens), "--threads",
            str(o.threads), "--pairs", str(tokens)]


def child(o):
    import mnem
    with mnem.LLM(o.model, ctx=o.tokens + 16, threads=o.threads) as llm:
        print(llm.generate(PROMPT, o.pairs, temperature=0, ignore_end=True))


def pairs(o):
    found = {by_command: [], by_python: []}
    for n in range(o.pairs):
        for way in (by_command, by_python) if n % 2 else (by_python, by_command):
            used = processor_seconds(way(o, o.tokens)) - processor_seconds(way(o, 1))
            found[way].append(used / (o.tokens - 1))
    command, python = found[by_command], found[by_python]
    ratios = sorted(a / b for a, b in zip(command, python))
    beyond = statistics.median(b - a for a, b in zip(command, python))
    print(f"{o.pairs} pairs, {o.tokens} tokens, {o.threads} threads: a token takes "
          f"{statistics.median(command) * 1e6:.1f} us in the command, {statistics.median(python) * 1e6:.1f} us "
          f"in Python ({beyond * 1e6:+.1f} us); speed {statistics.median(ratios):.3f} x the command's "
          f"({ratios[0]:.3f} to {ratios[-1]:.3f})")


def seconds(llm, o, stream):
    begin = time.perf_counter()
    text = llm.generate(PROMPT, o.tokens, temperature=0, ignore_end=True, stream=stream)
    if stream:
        for _ in text:
            pass
    return (time.perf_counter() - begin) / o.tokens


def busy(o):
    os.environ.update(ENVIRONMENT)
    sys.path.insert(0, ENVIRONMENT["PYTHONPATH"])
    import mnem
    ended, go = False, threading.Event()

    def loop():
        while not ended:
            go.wait()
            while go.is_set():
                pass

    thread = threading.Thread(target=loop)
    thread.start()
    found = {(name, stream): [] for name in ("alone", "busy") for stream in (False, True)}
    with mnem.LLM(o.model, ctx=o.tokens + 16, threads=o.threads) as llm:
        for _ in range(o.pairs):
            for name, stream in found:
                (go.set if name == "busy" else go.clear)()
                found[name, stream].append(seconds(llm, o, stream))
    ended = True
    go.set()
    go.clear()
    for (name, stream), times in found.items():
        print(f"{name}, {'stream' if stream else 'generate'}: {statistics.median(times) * 1e6:.0f} us a token "
              f"by the clock ({min(times) * 1e6:.0f} to {max(times) * 1e6:.0f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default=os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf"))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--busy", action="store_true", help="the second part alone")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.child:
        return child(o)
    return busy(o) if o.busy else (pairs(o), busy(o))


if __name__ == "__main__":
    main()
