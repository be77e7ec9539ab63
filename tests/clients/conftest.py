"""A server for the tests of clients: `mnem serve` on a free port, with the model of
MNEM_CLIENT_MODEL, or the one that ships with a longer context. MNEM_CLIENT_ADDRESS names one that
runs already."""
import os
import pathlib
import struct
import subprocess

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


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    running = os.environ.get("MNEM_CLIENT_ADDRESS")
    if running:
        yield running
        return
    model = os.environ.get("MNEM_CLIENT_MODEL") or longer(tmp_path_factory.mktemp("model"))
    command = [os.environ["MNEM_COMMAND"], "serve", model, "--port", "0", "--quiet", "--ctx",
               str(CONTEXT), "--memory", "1G"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        assert server.wait(timeout=60) == 0


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
