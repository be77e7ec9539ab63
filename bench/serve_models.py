#!/usr/bin/env python3
"""Clients that take random turns between the models of one server, in one memory budget.

    bench/serve_models.py MNEM MODEL... --memory 1100M [--seconds 60] [--clients 16] [--swap FOLDER]

Every request has one of a few prompts, without chance, and its answer is compared with the one that
it gets from a server that has its model alone. Prints requests per minute, failures, answers that
differ, waiting times until the first token (p50, p99, longest), prompt tokens that were found in the
cache, and the peak of memory as the kernel counts it. Exits 1 if a request fails, an answer differs,
or the peak is above the budget.

compare_models.py compares requests per minute with llama.cpp's router.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

PROMPTS = ["In the beginning God created the heaven and the earth, and the earth was",
           "The quick brown fox jumps over the lazy dog near the river bank, while the other animals of the",
           "def add(a, b):\n    \"\"\"Return the sum of two numbers.\"\"\"\n    return",
           "A list of the planets of the solar system, in order of their distance from the sun: Mercury,",
           "Once upon a time there was a small village at the foot of a mountain, and in that village there"]
TOKENS = 24


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnem")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--memory", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--swap")
    parser.add_argument("--wait", type=int, default=10)
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Server:
    """A process that prints its address."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            sys.exit(f"{' '.join(command)}: no address")
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/health", timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        sys.exit(f"{' '.join(command)}: never ready")

    def peak(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))

    def end(self):
        self.process.terminate()
        return self.process.wait()

    def ask(self, model, prompt):
        """(text, seconds until the first token, tokens of the prompt, of these cached)"""
        body = {"model": model, "prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        text, first, usage, start = "", 0, {}, time.monotonic()
        with urllib.request.urlopen(request, timeout=600) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                for choice in event.get("choices", []):
                    text += choice.get("text") or ""
                    if text and not first:
                        first = time.monotonic() - start
                usage = event.get("usage") or usage
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        return text, first or time.monotonic() - start, usage.get("prompt_tokens", 0), cached


class Load:
    def __init__(self, arguments, server, names, alone):
        self.arguments, self.server, self.names, self.alone = arguments, server, names, alone
        self.lock = threading.Lock()
        self.times, self.failed, self.differ, self.prompt, self.cached = [], [], 0, 0, 0

    def client(self, number):
        chance = random.Random(self.arguments.seed * 1000 + number)
        end = time.monotonic() + self.arguments.seconds
        while time.monotonic() < end:
            name, prompt = chance.choice(self.names), chance.choice(PROMPTS)
            try:
                text, first, tokens, cached = self.server.ask(name, prompt)
            except (OSError, ValueError) as error:
                with self.lock:
                    self.failed.append(f"{name}: {error}")
                continue
            with self.lock:
                self.times.append(first)
                self.differ += text != self.alone[name, prompt]
                self.prompt += tokens
                self.cached += cached

    def run(self):
        start = time.monotonic()
        threads = [threading.Thread(target=self.client, args=(i,)) for i in range(self.arguments.clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.monotonic() - start

    def tell(self, what, seconds, peak):
        times = sorted(self.times) or [0]
        print(f"{what}: {60 * len(self.times) / seconds:.0f} requests/min, {len(self.failed)} failed, "
              f"{self.differ} differ; first token p50 {times[len(times) // 2]:.2f} s, "
              f"p99 {times[len(times) * 99 // 100]:.2f} s, longest {times[-1]:.2f} s; "
              f"{self.cached} of {self.prompt} prompt tokens cached; peak {peak / 2**20:.0f} MiB", flush=True)
        for failure in self.failed[:3]:
            print(f"  {failure}")


def size_of(text):
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


def run_mnem(arguments, names):
    alone = {}
    for name, model in names.items():
        server = Server([arguments.mnem, "serve", model, "-q", "--port", "0", "--ctx", str(arguments.context)])
        for prompt in PROMPTS:
            alone[name, prompt] = server.ask(name, prompt)[0]
        server.end()
    with tempfile.TemporaryDirectory() as folder:
        for name, model in names.items():
            os.symlink(os.path.abspath(model), os.path.join(folder, name + ".gguf"))
        swap = arguments.swap or os.path.join(folder, "swap")
        os.makedirs(swap, exist_ok=True)
        command = [arguments.mnem, "serve", "--models", folder, "-q", "--port", "0", "--memory", arguments.memory,
                   "--swap", swap, "--wait", str(arguments.wait), "--ctx", str(arguments.context)]
        subprocess.run(command + ["--dry-run"], check=True)
        server = Server(command)
        load = Load(arguments, server, list(names), alone)
        seconds = load.run()
        peak = server.peak()
        load.tell("mnem", seconds, peak)
        code = server.end()
    return bool(load.failed or load.differ or code or peak > size_of(arguments.memory))


def main():
    arguments = parse()
    names = {os.path.splitext(os.path.basename(model))[0]: model for model in arguments.models}
    wrong = run_mnem(arguments, names)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
