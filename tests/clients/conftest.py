"""A server for the tests of clients: `mnem serve` on a free port, with the model of
MNEM_CLIENT_MODEL, or the one that ships. MNEM_CLIENT_ADDRESS names one that runs already."""
import json
import os
import subprocess
import urllib.request

import pytest


@pytest.fixture(scope="session")
def address():
    running = os.environ.get("MNEM_CLIENT_ADDRESS")
    if running:
        yield running
        return
    command = [os.environ["MNEM_COMMAND"], "serve", "--port", "0", "--quiet"]
    if os.environ.get("MNEM_CLIENT_MODEL"):
        command.insert(2, os.environ["MNEM_CLIENT_MODEL"])
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        assert server.wait(timeout=60) == 0


@pytest.fixture(scope="session")
def tools(address):
    with urllib.request.urlopen(address + "/v1/models") as answer:
        context = json.load(answer)["data"][0]["max_model_len"]
    if context < 1024:
        pytest.skip(f"a context of {context} is too short for tools")
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
