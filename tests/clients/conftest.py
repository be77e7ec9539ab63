"""A server for the tests of clients: `mnem serve` on a free port, with the model of
MNEM_CLIENT_MODEL, or the one that ships with a longer context. MNEM_CLIENT_ADDRESS names one that
runs already."""
import contextlib
import json
import os
import pathlib
import struct
import subprocess
import urllib.request

import pytest

SHIPPED = pathlib.Path(__file__).parents[2] / "models" / "mnem-kjv-5m-q8_0.gguf"
CONTEXT = 4096


def longer(folder):
    """The model that ships, whose file says 4,096 tokens: its own 256 hold no tools."""
    key = b"llama.context_length" + struct.pack("<I", 4)  # a u32
    data = SHIPPED.read_bytes()
    assert data.count(key) == 1
    at = data.index(key) + len(key)
    path = folder / "long.gguf"
    path.write_bytes(data[:at] + struct.pack("<I", CONTEXT) + data[at + 4:])
    return str(path)


@contextlib.contextmanager
def serving(*models):
    """The address of a server of its own."""
    command = [os.environ["MNEM_COMMAND"], "serve", *models, "--port", "0", "--quiet", "--ctx",
               str(CONTEXT), "--memory", "1G", "--pooling", "last"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        assert server.wait(timeout=60) == 0


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    running = os.environ.get("MNEM_CLIENT_ADDRESS")
    if running:
        yield running
        return
    model = os.environ.get("MNEM_CLIENT_MODEL") or longer(tmp_path_factory.mktemp("model"))
    with serving(model) as started:
        yield started


@pytest.fixture(scope="session")
def send(address):
    """One request, its answer as JSON; a stream as a list of its lines."""
    def call(path, body=None, method=None, headers=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(address + path, data, headers or {
            "Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as answer:
            lines = [json.loads(line) for line in answer]
            is_stream = answer.headers["Content-Type"] == "application/x-ndjson"
        return lines if is_stream else lines[0] if lines else None
    return call


@pytest.fixture(scope="session")
def shown(send):
    """What Ollama's routes say of the model: its entry of the list, with the members of /api/show."""
    listed = send("/api/tags")["models"][0]
    return listed | send("/api/show", {"model": listed["model"]})


@pytest.fixture(scope="session")
def tools():
    return [{
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Ur", "Nod"]}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }]
