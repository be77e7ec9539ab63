"""Group of compare_builds.py: a server and a scripted load of requests, one after another and at
once. What an answer says of the moment (ids, times, speeds) isn't compared, all else is.
"""
import concurrent.futures
import http.client
import json
import re
import signal
import subprocess

from builds_setup import PROMPT
from two_builds import Case, Result

GREEDY = {"temperature": 0, "seed": 1}
COMPLETIONS = "/v1/completions"
# What differs from run to run, and lengths of the page, which is a text.
MOMENT = re.compile(r"^(id|.*_id|created|created_at|completed_at|timings|.*_per_s(econd)?|.*seconds.*"
                    r"|.*_ms|address|port|live_bytes|peak_bytes|available.*|obfuscation|free_.*"
                    r"|signature)$")
# Counters that requests one after another decide; not tokens that were generated: those behind a
# stop are as many as the scheduler is ahead of who looks for it.
COUNTED = re.compile(r"^mnem_(prompt_tokens|prefix_cache_(queries|hits)|"
                     r"requests_refused_\w+|num_preemptions|recomputed_tokens)_total")


def sequence():
    """Requests one after another: path and body; None: GET."""
    ask = {"prompt": PROMPT, "max_tokens": 12}
    chat = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 8, **GREEDY}
    return [
        ("/health", None), ("/v1/models", None), ("/props", None), ("/nowhere", None),
        (COMPLETIONS, {**ask, **GREEDY}),
        (COMPLETIONS, {**ask, **GREEDY, "prompt": PROMPT + " And"}),  # with a prefix that is kept
        (COMPLETIONS, {**ask, "temperature": 0.9, "top_k": 20, "seed": 7, "repeat_penalty": 1.1}),
        (COMPLETIONS, {**ask, **GREEDY, "logprobs": 3, "echo": True}),
        (COMPLETIONS, {**ask, **GREEDY, "stop": ["e"], "n": 2}),
        (COMPLETIONS, {**ask, **GREEDY, "stream": True, "stream_options": {"include_usage": True}}),
        (COMPLETIONS, {**ask, **GREEDY, "logit_bias": {"5": -100}, "presence_penalty": 1}),
        ("/v1/chat/completions", chat), ("/v1/chat/completions", {**chat, "stream": True}),
        ("/v1/chat/completions", {**chat, "response_format": {"type": "json_schema", "json_schema": {
            "name": "a", "schema": {"type": "object", "properties": {"a": {"type": "integer"}},
                                    "required": ["a"], "additionalProperties": False}}}}),
        ("/v1/messages", chat), ("/v1/responses", {"input": PROMPT, "max_output_tokens": 6, **GREEDY}),
        ("/v1/embeddings", {"input": [PROMPT, "a"]}), ("/tokenize", {"content": PROMPT}),
        (COMPLETIONS, {**ask, "max_tokens": -3}), (COMPLETIONS, {**ask, "temperature": "hot"}),
        (COMPLETIONS, {"prompt": PROMPT * 200}), (COMPLETIONS, {"prompt": 5}),
        (COMPLETIONS, {**ask, **GREEDY, "prompt": [1, 2, 10 ** 9]}),
        ("/v1/chat/completions", {"messages": "none"}), ("/v1/messages", {"messages": []}),
    ]


def at_once():
    """Requests beside each other, whose texts are those that they have alone."""
    return [(COMPLETIONS, {"prompt": PROMPT[:20 + 3 * i], "max_tokens": 10 + i % 5, **GREEDY})
            for i in range(12)]


def still(value):
    """Without what differs from run to run."""
    if isinstance(value, dict):
        return {k: still(x) for k, x in value.items() if not MOMENT.match(k)}
    return [still(x) for x in value] if isinstance(value, list) else value


def parse(kind, text):
    """JSON, or the events of a stream, whose pieces of text are put together: where a text is cut
    is the moment's."""
    if kind.startswith("application/json"):
        return still(json.loads(text))
    if not kind.startswith("text/event-stream"):
        return f"{len(text)} bytes of {kind}" if "html" not in kind else kind
    events = [json.loads(x[6:]) for x in text.splitlines()
              if x.startswith("data: ") and x != "data: [DONE]"]
    pieces = "".join((c.get("delta") or {}).get("content") or c.get("text") or ""
                     for e in events for c in e.get("choices") or [])
    return [pieces, still(events[-1]) if events else None, text.count("[DONE]")]


class Served:
    """A build's server, while the with-block runs."""

    def __init__(self, build, case, budget):
        command = [build.binary[case.level], *case.args, "--memory", str(budget)]
        self.process = subprocess.Popen(command, cwd=build.folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.first = self.process.stdout.readline()
        self.port = json.loads(self.first)["port"] if b'"port"' in self.first else 0

    def __enter__(self):
        return self

    def ask(self, path, body):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        data = None if body is None else json.dumps(body)
        link.request("GET" if body is None else "POST", path, data,
                     {"Content-Type": "application/json"})
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, parse(answer.headers.get("Content-Type", ""), text)

    def metrics(self):
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        link.request("GET", "/metrics")
        lines = link.getresponse().read().decode().splitlines()
        link.close()
        types = [x for x in lines if x.startswith("# TYPE")]
        return types, {x.rsplit(" ", 1)[0]: x.rsplit(" ", 1)[1] for x in lines
                       if COUNTED.match(x)}

    def peak_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return next(int(x.split()[1]) * 1024 for x in f if x.startswith("VmHWM"))

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        rest, self.said = self.process.communicate(timeout=600)
        self.done = Result(subprocess.CompletedProcess([], self.process.returncode,
                                                       self.first + rest, self.said))


def load(build, case, budget):
    """What a server answers to the load; with its counters, peak, and end."""
    with Served(build, case, budget) as server:
        if not server.port:
            return None, server
        alone = [server.ask(*request) for request in sequence()]
        counted = server.metrics()
        with concurrent.futures.ThreadPoolExecutor(len(at_once())) as pool:
            beside = list(pool.map(lambda request: server.ask(*request), at_once()))
        again = [server.ask(*request) for request in at_once()]
        texts = [[x[1]["choices"][0]["text"] if x[0] == 200 else x for x in answers]
                 for answers in (beside, again)]
        peak = server.peak_bytes()
    return {"alone": alone, "counted": counted, "texts": texts, "peak": peak}, server


def serve_at(group, case, budget):
    one = case.plus(f"{budget} bytes", "--memory", budget)
    pair = case.pair
    (was, old), (now, new) = load(pair.old, case, budget), load(pair.new, case, budget)
    if (old.done.code, new.done.code) == (3, 0):
        group.note("refused by the old build only")
        return
    group.check(one, "exit code", str(old.done.code), str(new.done.code))
    if not was or not now:
        if old.done.code == new.done.code == 3:
            pair.refusal(case, budget, old.done.last, new.done.last)
        return
    for (path, body), a, b in zip(sequence(), was["alone"], now["alone"]):
        group.check(one, f"{path} {json.dumps(body)[:120]}", pair.said(a), pair.said(b))
    group.check(one, "metrics", *(x["counted"][0] for x in (was, now)))
    for name, value in was["counted"][1].items():
        group.check(one, name, value, now["counted"][1].get(name))
    for which, field in enumerate(("texts at once", "texts one by one")):
        group.check(one, field, was["texts"][0], now["texts"][which])
    group.check(one, "memory", was["peak"], now["peak"], now["peak"] <= budget)


def serve(s, group):
    def job(case):
        needed = s.pair.old.run(case, "--memory", "64K").last["needed_bytes"]
        for budget in (needed - 64 * 1024, needed + 512 * 1024, needed + needed // 3, 1 << 30):
            serve_at(group, case, budget)
    for model, (kv, more) in ((m, o) for m in s.extent.served for o in (
            ("f16", []), ("q8_0", ["--parallel", 3, "--pooling", "mean"]))):
        yield job, Case(s.pair, f"serve {model}, {kv} {more}", [
            "serve", f"../models/{model}.gguf", "--port", 0, "--ctx", 128, "--threads", 2, "--kv",
            kv, *more, "--no-history", "--json", "-q"])
