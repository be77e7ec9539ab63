"""llm (its command and its Python interface) against `mnem serve`, unchanged."""
import json
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def folder(address, tmp_path_factory):
    """LLM_USER_PATH, where a model of the server stands in extra-openai-models.yaml."""
    folder = tmp_path_factory.mktemp("llm")
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: mnem\n  model_name: x\n  api_base: {address}/v1\n"
        "  supports_schema: true\n  supports_tools: true\n"
        f"- model_id: mnem-text\n  model_name: x\n  api_base: {address}/v1\n  completion: true\n")
    return folder


def ask(folder, *args):
    run = subprocess.run([sys.executable, "-m", "llm", *args, "--key", "none", "-o", "temperature",
                          "0", "-o", "max_tokens", "64"], env=os.environ | {"LLM_USER_PATH": str(folder)},
                         capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("model", ["mnem", "mnem-text"])
def test_what_is_streamed_is_what_comes_whole(folder, model):
    whole = ask(folder, "-m", model, "In the beginning", "--no-stream")
    assert whole.strip()
    assert ask(folder, "-m", model, "In the beginning") == whole


def test_answers_follow_a_schema(folder):
    schema = {"type": "object", "properties": {"name": {"enum": ["Abel", "Seth"]}},
              "required": ["name"], "additionalProperties": False}
    for stream in ([], ["--no-stream"]):
        answer = json.loads(ask(folder, "-m", "mnem", "Who?", "--schema", json.dumps(schema), *stream))
        assert answer["name"] in ("Abel", "Seth")


def test_a_conversation_goes_on(folder):
    ask(folder, "-m", "mnem", "In the beginning")
    assert ask(folder, "-c", "And then?")


def test_tools_are_given(folder):
    functions = 'def weather(city: str) -> str:\n    "Tells the weather"\n    return "sun in " + city\n'
    assert ask(folder, "-m", "mnem", "Weather in Ur?", "--functions", functions, "--chain-limit", "3",
               "--no-stream") is not None
