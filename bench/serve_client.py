"""serve_client.py: a small client of /v1/completions, which counts when tokens come, and the two
servers that compare_serve.py sets side by side."""
import asyncio
import json
import os
import signal
import socket
import subprocess
import time


class Answer:
    """What came back: seconds since the request at which pieces came, and how it ended."""

    def __init__(self):
        self.begun = time.monotonic()
        self.times, self.text = [], ""
        self.prompt = self.generated = self.cached = 0
        self.end, self.error = None, None

    def take(self, event):
        if "error" in event:
            self.error = event["error"].get("message", "?")
        for choice in event.get("choices") or []:
            if choice.get("text"):
                self.times.append(time.monotonic())
                self.text += choice["text"]
            self.end = choice.get("finish_reason") or self.end
        usage = event.get("usage")
        if usage:
            self.prompt, self.generated = usage["prompt_tokens"], usage["completion_tokens"]
            self.cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)

    @property
    def first(self):
        return self.times[0] - self.begun if self.times else None

    @property
    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]

    @property
    def whole(self):
        return self.error is None and self.end is not None


async def complete(port, ids, tokens):
    """One request, streamed."""
    body = json.dumps({"prompt": ids, "max_tokens": tokens, "temperature": 0, "ignore_eos": True,
                       "stream": True, "stream_options": {"include_usage": True}}).encode()
    answer = Answer()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                     b"application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
                     % len(body) + body)
        status = (await reader.readline()).split()
        if status[1:2] != [b"200"]:
            answer.error = (await reader.read()).decode(errors="replace")[-300:]
        async for line in reader:
            if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
                answer.take(json.loads(line[6:]))
        writer.close()
    except (OSError, ValueError) as e:
        answer.error = str(e)
    return answer


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A program that serves on a port of its own while the with-block runs."""

    def __init__(self, arguments, log):
        self.port = free_port()
        self.arguments = [str(x) for x in arguments] + ["--port", str(self.port)]
        self.log = log

    def begin(self, out):
        return subprocess.Popen(self.arguments, stdout=out, stderr=out)

    def __enter__(self):
        out = open(self.log, "w", encoding="utf-8")
        self.process = self.begin(out)
        out.close()
        for _ in range(1200):
            if self.process.poll() is not None:
                break
            if self.is_ready():
                return self
            time.sleep(0.1)
        self.process.kill()
        raise SystemExit(f"{' '.join(self.arguments)}: isn't ready; see {self.log}")

    def is_ready(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as s:
                s.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                return s.recv(64).split()[1:2] == [b"200"]
        except (OSError, IndexError):
            return False

    def peak_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return next(int(x.split()[1]) * 1024 for x in f if x.startswith("VmHWM"))

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if os.path.exists(self.log) and not os.environ.get("KEEP_LOGS"):
            os.remove(self.log)
