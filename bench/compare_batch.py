#!/usr/bin/env python3
"""compare_batch.py MODEL [options]: a file of requests, by `mnem batch` and by clients of `mnem serve`.

The same requests (ids of tokens, greedy, the end of a turn ignored, lengths drawn from a seed), the
same model, budget and context: `mnem batch` answers their file; --clients clients send them to
`mnem serve`, each one after another, with --parallel for all of them. Both are started for each round, in turn; what is
timed begins when the model is loaded. Prints requests a minute of each round, medians, the ratio of
each pair, VmHWM, and whether all answers are the same.
"""
import argparse
import asyncio
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from serve_client import Server

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def requests_of(a):
    draw = random.Random(a.seed)
    return [{"prompt": [draw.randrange(1000, 20000) for _ in range(draw.randint(*a.prompt))],
             "max_tokens": draw.randint(*a.answer), "temperature": 0, "ignore_eos": True}
            for _ in range(a.requests)]


def text_of(answer):
    return answer["choices"][0]["text"]


def batch(a, bodies, folder):
    """Seconds for all, peak bytes, texts."""
    asked, answered = os.path.join(folder, "asked.jsonl"), os.path.join(folder, "answered.jsonl")
    if os.path.exists(answered):
        os.remove(answered)
    with open(asked, "w") as file:
        for i, body in enumerate(bodies):
            line = {"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}
            file.write(json.dumps(line) + "\n")
    command = [a.mnem, "batch", a.model, asked, "-o", answered, "--json", "--memory", a.memory,
               "--ctx", str(a.ctx), "--threads", str(a.threads), *a.batch_options.split()]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = child.stdout.read()
    used = os.wait4(child.pid, 0)[2]
    end = json.loads(said)
    if end["failed"] or end["answered"] != len(bodies):
        sys.exit(f"batch: {end}")
    with open(answered) as file:
        lines = [json.loads(line) for line in file]
    texts = {int(x["custom_id"]): text_of(x["response"]["body"]) for x in lines}
    return end["seconds"], used.ru_maxrss * 1024, used.ru_utime, texts


async def ask(port, body):
    sent = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                 b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent)
    got = await reader.read()
    writer.close()
    head, _, answer = got.partition(b"\r\n\r\n")
    if not re.match(rb"HTTP/1.1 200", head):
        sys.exit(f"serve: {got[:300]}")
    return text_of(json.loads(answer))


async def clients(a, port, bodies):
    texts, rest = {}, list(enumerate(bodies))[::-1]

    async def client():
        while rest:
            i, body = rest.pop()
            texts[i] = await ask(port, body)
    begun = time.monotonic()
    await asyncio.gather(*(client() for _ in range(a.clients)))
    return time.monotonic() - begun, texts


def serve(a, bodies, folder):
    command = [a.mnem, "serve", a.model, "--memory", a.memory, "--ctx", a.ctx, "--threads", a.threads,
               "--parallel", a.clients]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with Server(command, os.path.join(folder, "serve.log")) as server:
        asyncio.run(ask(server.port, {"prompt": [1], "max_tokens": 1}))
        seconds, texts = asyncio.run(clients(a, server.port, bodies))
        peak = server.peak_bytes()
    return seconds, peak, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before, texts


def span(text):
    low, _, high = text.partition("-")
    return int(low), int(high or low)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    p.add_argument("model")
    p.add_argument("--mnem", default=os.path.join(ROOT, "build/release/tools/mnem/mnem"))
    p.add_argument("--memory", default="1G")
    p.add_argument("--ctx", type=int, default=1024)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--clients", type=int, default=16)
    p.add_argument("--requests", type=int, default=64)
    p.add_argument("--prompt", type=span, default=(32, 128), help="tokens, such as 32-128")
    p.add_argument("--answer", type=span, default=(16, 64))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--batch-options", default="", help="more options of mnem batch")
    a = p.parse_args()
    bodies = requests_of(a)
    seen = {"batch": [], "serve": []}
    with tempfile.TemporaryDirectory() as folder:
        for r in range(a.rounds):
            for who in ("batch", "serve") if r % 2 == 0 else ("serve", "batch"):
                seconds, peak, user, texts = (batch if who == "batch" else serve)(a, bodies, folder)
                seen[who].append((60 * len(bodies) / seconds, texts, peak))
                print(f"round {r + 1}: {who} {60 * len(bodies) / seconds:8.1f} requests a minute, "
                      f"user time {user:6.1f} s, VmHWM {peak / (1 << 20):7.1f} MiB", flush=True)
    ratios = [x[0] / y[0] for x, y in zip(seen["batch"], seen["serve"])]
    same = all(x[1] == y[1] for x, y in zip(seen["batch"], seen["serve"]))
    for who, rows in seen.items():
        print(f"{who}: {statistics.median(x[0] for x in rows):.1f} requests a minute")
    print(f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); answers "
          f"{'are the same' if same else 'DIFFER'}")


main()
