#!/usr/bin/env python3
"""compare_models.py LLAMA_SERVER MODELS MEMORY [options]: several models in one budget.

MODELS is a folder of GGUF files that don't fit MEMORY together. `mnem serve --models` and
llama-server's router serve it in a cgroup with a memory limit of MEMORY, one after another, the page
cache dropped first. --clients clients take turns at random: each turn goes on with one of the
client's conversations, one per model, which is begun again after --turns turns. A turn adds
--words words and asks for --tokens tokens, greedy, the end of a turn ignored.

Printed for mnem, and for llama-server with --models-max 1, 2 and 3 (or those of --models-max):
requests per minute, failures (an error, or no answer within --patience seconds), waiting times of
requests (p50, p99, longest) and, for mnem, the peak that the kernel counted (VmHWM). The exit code
is 1 if mnem answers fewer requests per minute than the best of llama-server, fails one, or has a
peak over MEMORY; 77 where no control group can be made.
"""
import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time

from control_group import ControlGroup, drop_caches
from serve_client import Server

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
WORDS = ("the river ran below a hill where two men had built their house of stone and every year "
         "when snow began they went down to sell wool bread iron and a few books").split()


def bytes_of(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1] in UNITS else int(text)


class Group(Server):
    """A server that runs in a control group."""

    def __init__(self, group, arguments, log):
        super().__init__(arguments, log)
        self.group = group

    def begin(self, out):
        return self.group.begin(self.arguments, out)

    def __exit__(self, *rest):
        super().__exit__(*rest)
        self.group.kill()


async def post(port, body, patience):
    """The answer's JSON, or the text of an error."""
    data = json.dumps(body).encode()

    async def ask():
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                     b"application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                     % len(data) + data)
        head = (await reader.readuntil(b"\r\n\r\n")).decode(errors="replace")
        rest = await reader.read()
        writer.close()
        if "chunked" in head.lower():
            rest = b"".join(x for x in rest.split(b"\r\n") if x.startswith(b"{"))
        if head.split()[1] != "200":
            return None, f"{head.split()[1]}: {rest.decode(errors='replace')[-200:]}"
        return json.loads(rest), None

    try:
        return await asyncio.wait_for(ask(), patience)
    except asyncio.TimeoutError:
        return None, f"no answer within {patience} s"
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        return None, str(error) or type(error).__name__


async def client(a, port, seed, until, waits, failures):
    draw = random.Random(seed)
    talks = {}
    while time.monotonic() < until:
        name = draw.choice(a.names)
        turn, text = talks.get(name, (0, ""))
        text += " " + " ".join(draw.choice(WORDS) for _ in range(a.words))
        begun = time.monotonic()
        answer, error = await post(port, {
            "model": name, "prompt": text, "max_tokens": a.tokens, "temperature": 0,
            "ignore_eos": True}, a.patience)
        if error:
            failures.append(error)
            await asyncio.sleep(1)
            continue
        waits.append(time.monotonic() - begun)
        turn, text = turn + 1, text + answer["choices"][0]["text"]
        talks[name] = (0, "") if turn == a.turns else (turn, text)


async def play(a, port):
    waits, failures = [], []
    begun = time.monotonic()
    await asyncio.gather(*(client(a, port, k, begun + a.seconds, waits, failures)
                           for k in range(a.clients)))
    return 60 * len(waits) / (time.monotonic() - begun), sorted(waits), failures


def measure(a, group, who, arguments):
    drop_caches()
    with Group(group, arguments, os.path.join(a.folder, "log")) as server:
        rate, waits, failures = asyncio.run(play(a, server.port))
        try:
            peak = server.peak_bytes() if who == "mnem" else 0
        except (OSError, StopIteration):
            peak = 0
    at = [waits[min(len(waits) - 1, int(p * len(waits)))] if waits else float("nan")
          for p in (.5, .99, 1)]
    print(f"{who:28} {rate:7.1f} requests/min  {len(failures):4} failed  wait p50 {at[0]:.1f} s, "
          f"p99 {at[1]:.1f} s, longest {at[2]:.1f} s"
          + (f"  VmHWM {peak / (1 << 20):.1f} MiB" if peak else ""), flush=True)
    for error in sorted(set(failures))[:3]:
        print(f"    {error}")
    return rate, failures, peak


def ours(a):
    return [a.mnem, "serve", "--models", a.models, "--memory", a.memory, "--ctx", a.context,
            "--threads", a.threads, "--swap", a.folder, *a.more]


def peers(a, most):
    return [a.llama, "--models-dir", a.models, "--models-max", most, "-c", a.context * 4, "-np", 4,
            "--kv-unified", "-t", a.threads, "-fa", "on", "--host", "127.0.0.1", *a.peer_more]


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("llama")
    p.add_argument("models")
    p.add_argument("memory")
    p.add_argument("--mnem", default=os.path.join(ROOT, "build/release/tools/mnem/mnem"))
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--context", type=int, default=2048)
    p.add_argument("--clients", type=int, default=16)
    p.add_argument("--seconds", type=float, default=120)
    p.add_argument("--turns", type=int, default=4)
    p.add_argument("--words", type=int, default=60)
    p.add_argument("--tokens", type=int, default=32)
    p.add_argument("--patience", type=float, default=300)
    p.add_argument("--models-max", type=lambda x: [int(y) for y in x.split(",")], default=[1, 2, 3])
    p.add_argument("--more", type=str.split, default=[], help="further options of mnem")
    p.add_argument("--peer-more", type=str.split, default=[], help="further ones of llama-server")
    a = p.parse_args()
    a.names = sorted(x[:-5] for x in os.listdir(a.models) if x.endswith(".gguf"))
    if not a.names:
        sys.exit(f"{a.models} has no GGUF file")
    limit = bytes_of(a.memory)
    group = ControlGroup("mnem-models")
    try:
        with tempfile.TemporaryDirectory() as a.folder:
            group.limit(limit)
            rate, failures, peak = measure(a, group, "mnem", ours(a))
            best = max((measure(a, group, f"llama-server, {n} at most", peers(a, n))[0]
                        for n in a.models_max), default=0)
    finally:
        group.remove()
    if best:
        print(f"mnem answers {rate / best:.2f} times as many requests as the best of them")
    sys.exit(1 if failures or rate < best or peak > limit else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
