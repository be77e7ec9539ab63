#!/usr/bin/env python3
"""compare_infill.py LLAMA_SERVER MODEL [--holes N] [--tokens N]: holes filled by mnem serve and llama-server.

MODEL has tokens for holes (Qwen2.5-Coder). Each hole is at a place of a C or Python file of this
tree that the seed gives: a prefix of 320 and a suffix of 140 characters, POST /infill, greedy. Both
servers answer in turn, with f32 keys and values. Prints how many prompts have the same number of
tokens and how many texts are equal, and the texts that differ.
"""
import argparse
import glob
import http.client
import json
import os
import random
import tempfile

from serve_client import Server

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PREFIX, HOLE, SUFFIX = 320, 60, 140


def holes(count, seed):
    draw = random.Random(seed)
    files = sorted(glob.glob(ROOT + "/src/*/*.c") + glob.glob(ROOT + "/bench/*.py"))
    for path in draw.sample(files, count):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        at = draw.randrange(PREFIX, max(PREFIX + 1, len(text) - HOLE - SUFFIX))
        yield os.path.relpath(path, ROOT), text[at - PREFIX:at], text[at + HOLE:at + HOLE + SUFFIX]


def fill(port, prefix, suffix, tokens):
    body = {"input_prefix": prefix, "input_suffix": suffix, "n_predict": tokens, "temperature": 0}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    connection.request("POST", "/infill", json.dumps(body), {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    if "content" not in answer:
        raise SystemExit(f"/infill: {answer}")
    return answer["tokens_evaluated"], answer["content"]


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("llama")
    parser.add_argument("model")
    parser.add_argument("--mnem", default=os.path.join(ROOT, "build/release/tools/mnem/mnem"))
    parser.add_argument("--holes", type=int, default=14)
    parser.add_argument("--tokens", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    servers = {
        "mnem": [a.mnem, "serve", a.model, "--ctx", 1024, "--parallel", 1, "--threads", a.threads,
                 "--kv", "f32"],
        "llama-server": [a.llama, "-m", a.model, "-c", 1024, "-np", 1, "-t", a.threads, "-ctk",
                         "f32", "-ctv", "f32", "--host", "127.0.0.1"]}
    found = list(holes(a.holes, a.seed))
    answers = {}
    for name, arguments in servers.items():
        with Server(arguments, os.path.join(tempfile.gettempdir(), f"infill-{name}.log")) as s:
            answers[name] = [fill(s.port, prefix, suffix, a.tokens) for _, prefix, suffix in found]
    pairs = list(zip(found, answers["mnem"], answers["llama-server"]))
    print(f"{len(pairs)} holes: {sum(x[0] == y[0] for _, x, y in pairs)} prompts have the same "
          f"number of tokens, {sum(x[1] == y[1] for _, x, y in pairs)} texts are equal")
    for (path, _, _), ours, theirs in pairs:
        if ours != theirs:
            print(f"{path}\n  mnem          {ours[0]} tokens, {ours[1]!r}\n"
                  f"  llama-server  {theirs[0]} tokens, {theirs[1]!r}")


main()
