#!/usr/bin/env python3
"""compare_serve.py LLAMA_SERVER MODEL [options]: many clients at once, mnem serve and llama-server.

Both serve the same file with f16 keys and values to the same requests (ids of tokens, greedy, the
end of a turn ignored), in turn, a fresh server for each; medians over --rounds, and of each pair's
ratio. Scenes, all of them or those of --only:
  closed   1, 4 and 8 clients, each one request after another of 128 tokens in, 128 out: all tokens
           a second; time to the first token and gaps between tokens, p50 and p99; VmHWM
  shared   8 requests at once that begin with the same 1,024 tokens: all tokens a second
  gap      7 clients generate while a prompt of --long tokens arrives: their longest gap (needs a
           model whose context holds it)
  alone    mnem only: 8 clients against 1, and every answer the same as alone
  budget   8 clients on a budget that holds the pages of three sequences: completed, failed, VmHWM
--peer-only leaves mnem out, --ours-only llama-server.
"""
import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile

from serve_client import Server, complete

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MIB = 1 << 20
IN, OUT = 128, 128
BOOKS = 6 * MIB  # of connections, requests and their JSON


def ids(seed, n):
    """Tokens that every vocabulary of some size has, none of them a special one."""
    draw = random.Random(seed)
    return [draw.randrange(1000, 20000) for _ in range(n)]


def ours(a, context, memory=None, parallel=8, more=()):
    return [a.mnem, "serve", a.model, "--memory", memory or a.memory, "--ctx", context,
            "--parallel", parallel, "--threads", a.threads, "--kv", "f16", *more]


def peers(a, context, parallel=8):
    return [a.llama, "-m", a.model, "-np", parallel, "-cb", "--kv-unified", "-c", context, "-t",
            a.threads, "-fa", "on", "--host", "127.0.0.1"]


async def loop_clients(port, clients, requests, seed):
    async def client(k):
        return [await complete(port, ids(seed + 100 * k + i, IN), OUT) for i in range(requests)]
    return sum(await asyncio.gather(*(client(k) for k in range(clients))), [])


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p * len(values)))] if values else float("nan")


def figures(server, answers):
    """Of answers that ran at the same time."""
    bad = [x.error for x in answers if not x.whole]
    if bad:
        sys.exit(f"{server.arguments[0]}: {bad[0]}")
    begun = min(x.begun for x in answers)
    ended = max(x.times[-1] for x in answers)
    gaps = sum((x.gaps for x in answers), [])
    first = [x.first for x in answers]
    return {
        "tokens/s": sum(x.prompt + x.generated for x in answers) / (ended - begun),
        "first p50 ms": 1e3 * percentile(first, .5), "first p99 ms": 1e3 * percentile(first, .99),
        "gap p50 ms": 1e3 * percentile(gaps, .5), "gap p99 ms": 1e3 * percentile(gaps, .99),
        "longest gap ms": 1e3 * max(gaps), "cached": sum(x.cached for x in answers),
        "VmHWM MiB": server.peak_bytes() / MIB,
    }


def scene(a, name, arguments, play, rows):
    """Plays it with both in turn and prints rows (figure: whether more is better)."""
    seen = {"mnem": [], "llama-server": []}
    for r in range(a.rounds):
        for who in arguments if r % 2 == 0 else reversed(arguments):
            with Server(arguments[who], os.path.join(a.folder, f"{who}.log")) as server:
                asyncio.run(complete(server.port, ids(1, 8), 4))
                seen[who].append(figures(server, asyncio.run(play(server, 1000 * r))))
    print(f"\n{name}")
    for row in rows:
        line = f"  {row:16}"
        for who in arguments:
            line += f"  {who} {statistics.median(x[row] for x in seen[who]):9.1f}"
        if len(arguments) == 2:
            ratios = [m[row] / max(p[row], 1e-9)
                      for m, p in zip(seen["mnem"], seen["llama-server"])]
            line += f"   ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
        print(line, flush=True)


def both(a, context):
    arguments = {}
    if not a.peer_only:
        arguments["mnem"] = ours(a, context)
    if not a.ours_only:
        arguments["llama-server"] = peers(a, 8 * context)
    return arguments


def closed(a):
    rows = ("tokens/s", "first p50 ms", "first p99 ms", "gap p50 ms", "gap p99 ms", "VmHWM MiB")
    for clients in a.clients:
        async def play(server, seed, clients=clients):
            return await loop_clients(server.port, clients, a.requests, seed)
        scene(a, f"{clients} clients, {IN} in, {OUT} out", both(a, 2048), play, rows)


def shared(a):
    async def play(server, seed):
        begin = ids(seed + 7, 1024)
        return await asyncio.gather(*(complete(server.port, begin + ids(seed + k, 16), 32)
                                      for k in range(8)))
    scene(a, "8 requests that begin with the same 1,024 tokens", both(a, 2048), play,
          ("tokens/s", "first p50 ms", "first p99 ms", "cached", "VmHWM MiB"))


def gap(a):
    async def play(server, seed):
        async def late():
            await asyncio.sleep(a.late)
            return await complete(server.port, ids(seed + 50, a.long), 4)
        answers = await asyncio.gather(*(complete(server.port, ids(seed + k, 64), a.gap_tokens)
                                         for k in range(7)), late())
        return answers[:7]
    scene(a, f"7 clients generate, a prompt of {a.long} arrives", both(a, a.long + 512), play,
          ("longest gap ms", "gap p50 ms", "gap p99 ms"))


def alone(a):
    """Every answer of 8 clients is the one that it is alone; and how much faster they are."""
    with Server(ours(a, 2048), os.path.join(a.folder, "mnem.log")) as server:
        one = asyncio.run(loop_clients(server.port, 1, 8, 0))
    with Server(ours(a, 2048), os.path.join(a.folder, "mnem.log")) as server:
        async def together():
            return await asyncio.gather(*(complete(server.port, ids(i, IN), OUT)
                                          for i in range(8)))
        eight = asyncio.run(together())
        speed = figures(server, eight)["tokens/s"]
    lone = sum(x.prompt + x.generated for x in one) / (one[-1].times[-1] - one[0].begun)
    same = sum(x.text == y.text for x, y in zip(one, eight))
    print(f"\n8 clients against 1: {speed / lone:.2f} times the tokens/s; {same} of 8 answers the "
          "same as alone", flush=True)
    return same == 8


def bytes_for(a, context, sequences):
    """What one sequence takes with all weights in memory, and the pages of the others; the
    server's own books are those of its connections."""
    plan = json.loads(subprocess.run(
        [a.mnem, "plan", a.model, "--ctx", str(context), "--kv", "f16", "--threads",
         str(a.threads), "--json"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    pages = sum(x["bytes"] for x in plan["lines"] if x["kind"] == "kv")
    return plan["peak_bytes"] + (sequences - 1) * pages + BOOKS


def budget(a):
    memory = bytes_for(a, IN + OUT, 3)
    with Server(ours(a, IN + OUT, memory), os.path.join(a.folder, "mnem.log")) as server:
        answers = asyncio.run(loop_clients(server.port, 8, a.requests, 0))
        done = sum(x.whole for x in answers)
        peak = server.peak_bytes()
    print(f"\n8 clients on {memory / MIB:.1f} MiB: {done} completed, {len(answers) - done} failed, "
          f"VmHWM {peak / MIB:.1f} MiB", flush=True)
    if not a.ours_only:
        with Server(peers(a, 3 * (IN + OUT)), os.path.join(a.folder, "llama.log")) as server:
            answers = asyncio.run(loop_clients(server.port, 8, a.requests, 0))
            done = sum(x.whole for x in answers)
            print(f"  llama-server with pages for as many tokens: {done} completed, "
                  f"{len(answers) - done} failed, VmHWM {server.peak_bytes() / MIB:.1f} MiB")
    return done == len(answers) and peak <= memory


SCENES = {"closed": closed, "shared": shared, "gap": gap, "alone": alone, "budget": budget}


def main():
    p = argparse.ArgumentParser(usage=__doc__)
    p.add_argument("llama")
    p.add_argument("model")
    p.add_argument("--mnem", default=os.path.join(ROOT, "build/release/tools/mnem/mnem"))
    p.add_argument("--memory", default="2G")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--requests", type=int, default=2, help="of each client")
    p.add_argument("--clients", type=lambda x: [int(y) for y in x.split(",")], default=[1, 4, 8])
    p.add_argument("--long", type=int, default=4000)
    p.add_argument("--late", type=float, default=3, help="seconds before the long prompt")
    p.add_argument("--gap-tokens", type=int, default=200)
    p.add_argument("--only", default=",".join(SCENES))
    p.add_argument("--ours-only", action="store_true")
    p.add_argument("--peer-only", action="store_true")
    a = p.parse_args()
    print(json.dumps({"model": os.path.basename(a.model), "threads": a.threads,
                      "rounds": a.rounds}))
    with tempfile.TemporaryDirectory() as a.folder:
        results = [SCENES[name](a) for name in a.only.split(",")]
    sys.exit(1 if False in results else 0)


if __name__ == "__main__":
    main()
