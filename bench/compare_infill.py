#!/usr/bin/env python3
"""Compares the greedy text of /infill of `mnem serve` and of llama-server, for holes in real code.

    bench/compare_infill.py MNEM LLAMA_SERVER MODEL [--tokens 24] [--threads 2] [--memory 2G]

MODEL has fill-in-the-middle tokens (Qwen2.5-Coder). The holes are in files of this tree: the rest of
a line and the two lines behind it, in the middle of a file. Both servers have keys and values in f32.
A text that differs is judged by the first token that differs: it is a near tie if one of the servers
gives both candidates, and their logits differ by at most 0.1 there. The last line says how many are
equal, near ties, and neither; the status is 1 where there is one of neither."""
import argparse
import json
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILES = ["src/alloc/ledger/ledger.c", "src/base/heap.c", "src/base/checked.h", "src/base/sort.c",
         "src/place/greedy/greedy.c", "src/server/api/embed/api_embed.c",
         "src/server/api/api_error.c", "src/server/http/http_guard.c",
         "src/serve/request_queue.c", "src/serve/prefix_cache.c", "src/sampling/sampler.c",
         "src/engine/sequence.c", "tools/mnem/verbs/verb_embed.c",
         "tools/mnem/verbs/verb_serve.c", "bench/serve_client.py", "bench/compare_grammar.py",
         "bench/control_group.py", "bench/read_rate.py", "tests/clients/conftest.py",
         "fuzz/fuzz_api.c", "scripts/check_files", "src/trace/trace.c", "src/ops/core/types.c",
         "bench/bench_rows.c"]
HOLES, BEFORE, AFTER, TIE = 20, 6, 3, 0.1


def holes():
    """(name, prefix, suffix), of the first files that are here."""
    found = []
    for name in FILES:
        path = ROOT / name
        if not path.exists() or len(found) == HOLES:
            continue
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        at = len(lines) // 2
        while at + 3 < len(lines) and len(lines[at].strip()) < 12:
            at += 1
        line = lines[at]
        cut = len(line) - len(line.lstrip()) + len(line.strip()) // 3
        found.append((f"{name}:{at + 1}", "".join(lines[max(0, at - BEFORE):at]) + line[:cut],
                      "".join(lines[at + 3:at + 3 + AFTER])))
    return found


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait(process, address):
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"{process.args[0]} ended with {process.returncode}")
        try:
            with urllib.request.urlopen(address + "/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"{process.args[0]} does not answer")


def start(command):
    port = free_port()
    process = subprocess.Popen(command + ["--port", str(port)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    return process, f"http://127.0.0.1:{port}"


def fill(address, prefix, suffix, tokens):
    body = {"input_prefix": prefix, "input_suffix": suffix, "n_predict": tokens, "temperature": 0,
            "top_k": 0, "top_p": 1, "min_p": 0, "n_probs": 8, "cache_prompt": False, "seed": 1}
    request = urllib.request.Request(address + "/infill", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)


def gap(entry, ids):
    """How far apart both candidates are at a token; None: one isn't among the likeliest."""
    logs = {top["id"]: top["logprob"] for top in entry["top_logprobs"]}
    return abs(logs[ids[0]] - logs[ids[1]]) if all(i in logs for i in ids) else None


def judge(ours, theirs):
    """equal, tie or other; the first token that differs; the gaps of both servers there."""
    a, b = ours["completion_probabilities"], theirs["completion_probabilities"]
    if ours["content"] == theirs["content"]:
        return "equal", -1, None, None
    for i, (x, y) in enumerate(zip(a, b)):
        if x["id"] != y["id"]:
            gaps = gap(x, (x["id"], y["id"])), gap(y, (x["id"], y["id"]))
            tie = any(g is not None and g <= TIE for g in gaps)
            return ("tie" if tie else "other"), i, *gaps
    return "other", min(len(a), len(b)), None, None


def show(number):
    return "?" if number is None else f"{number:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("mnem", "peer", "model"):
        parser.add_argument(name)
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--threads", default="2")
    parser.add_argument("--memory", default="2G")
    o = parser.parse_args()
    wanted = holes()
    servers = [start([o.mnem, "serve", o.model, "--memory", o.memory, "--ctx", "4096", "--threads",
                      o.threads, "--kv", "f32", "--parallel", "1", "--quiet", "--no-history"]),
               start([o.peer, "--model", o.model, "--ctx-size", "4096", "--threads", o.threads,
                      "-ctk", "f32", "-ctv", "f32", "--parallel", "1", "--no-warmup"])]
    counts = {"equal": 0, "tie": 0, "other": 0}
    try:
        for process, address in servers:
            wait(process, address)
        for name, prefix, suffix in wanted:
            x, y = [fill(address, prefix, suffix, o.tokens) for _, address in servers]
            how, at, mine, its = judge(x, y)
            counts[how] += 1
            same = x["tokens_evaluated"] == y["tokens_evaluated"]
            print(f"{how:6} {name:40} {x['tokens_evaluated']:5} tokens of prompt"
                  + ("" if same else f" (peer {y['tokens_evaluated']})")
                  + ("" if how == "equal" else f", token {at}, apart by {show(mine)} (peer {show(its)})"),
                  flush=True)
    finally:
        for process, _ in servers:
            process.terminate()
    print(f"{len(wanted)} holes: {counts['equal']} equal, {counts['tie']} near ties, "
          f"{counts['other']} other")
    sys.exit(1 if counts["other"] else 0)


if __name__ == "__main__":
    main()
