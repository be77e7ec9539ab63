"""Clients of a server that has several models, and loads those that are asked for."""
import json
import os
import pathlib
import urllib.request

import anthropic
import ollama
import openai
import pytest

from conftest import CONTEXT, longer, serving

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # asks nobody for prices
import litellm  # noqa: E402

HI = [{"role": "user", "content": "In the beginning"}]
GREEDY = {"temperature": 0, "num_predict": 8}
NAMES = ["one", "two"]


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Two names of the model that ships."""
    folder = tmp_path_factory.mktemp("models")
    first = pathlib.Path(longer(folder))
    for name in NAMES:
        os.link(first, folder / f"{name}.gguf")
    first.unlink()
    with serving("--models", str(folder)) as address:
        yield address


@pytest.fixture(scope="module")
def client(several):
    return ollama.Client(host=several)


@pytest.fixture
def unloaded(client):
    """Nothing is loaded before the test."""
    for model in client.ps().models:
        client.generate(model.model, keep_alive=0)
    for _ in range(600):
        if not client.ps().models:
            return
    raise AssertionError("a model stays loaded")


def test_ollama_lists_shows_and_chats(client, unloaded):
    assert sorted(model.model for model in client.list().models) == [f"{n}:latest" for n in NAMES]
    shown = client.show("two")  # not loaded
    assert "completion" in shown.capabilities and shown.details.family == "llama"
    assert shown.modelinfo["llama.context_length"] == CONTEXT
    said = client.chat("two", HI, options=GREEDY)
    assert said.model == "two:latest" and said.message.content
    assert [model.model for model in client.ps().models] == ["two:latest"]
    assert client.chat("one:latest", HI, options=GREEDY).message.content == said.message.content


def test_ollama_loads_and_unloads(client, unloaded):
    assert client.generate("one").done_reason == "load"
    running = client.ps().models[0]
    assert running.model == "one:latest" and running.size > 0
    assert client.generate("one", prompt="", keep_alive=0).done_reason == "unload"  # Open WebUI's
    parts = list(client.chat("one", HI, options=GREEDY, stream=True, keep_alive="5m"))
    assert parts[-1].done and client.pull("one").status == "success"
    assert client.embed("two", "light").embeddings


def test_openai_waits_for_a_model_in_a_stream(several, unloaded):
    client = openai.OpenAI(base_url=several + "/v1", api_key="none", max_retries=0)
    assert sorted(model.id for model in client.models.list()) == NAMES
    ask = dict(messages=HI, max_tokens=8, temperature=0)
    parts = client.chat.completions.create(model="two", stream=True, **ask)
    told = "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    assert told == client.chat.completions.create(model="one", **ask).choices[0].message.content
    assert client.models.retrieve("one").id == "one"


def test_anthropic_names_a_model(several, unloaded):
    client = anthropic.Anthropic(base_url=several, api_key="none", max_retries=0)
    assert client.messages.count_tokens(model="one", messages=HI).input_tokens > 0
    with client.messages.stream(model="two", messages=HI, max_tokens=8) as stream:
        assert "".join(stream.text_stream)
        assert stream.get_final_message().model == "two"


@pytest.mark.parametrize("provider", ["ollama", "ollama_chat"])
def test_litellm_names_a_model(several, provider):
    for name in NAMES:
        answer = litellm.completion(model=f"{provider}/{name}", api_base=several, messages=HI,
                                    max_tokens=8, temperature=0)
        assert answer.choices[0].message.content


def test_a_name_that_is_none_is_not_found(several, client):
    with pytest.raises(ollama.ResponseError, match="three") as error:
        client.chat("three", HI)
    assert error.value.status_code == 404 and "one, two" in error.value.error
    with pytest.raises(ollama.ResponseError, match="not supported"):
        client.pull("three")
    with pytest.raises(openai.NotFoundError):
        openai.OpenAI(base_url=several + "/v1", api_key="none", max_retries=0).chat.completions.create(
            model="three", messages=HI)
    with pytest.raises(anthropic.NotFoundError):
        anthropic.Anthropic(base_url=several, api_key="none", max_retries=0).messages.create(
            model="three", messages=HI, max_tokens=4)


def test_the_states_are_listed(several, client, unloaded):
    client.generate("one")
    with urllib.request.urlopen(several + "/v1/models") as answer:
        states = {model["id"]: model["status"]["value"] for model in json.load(answer)["data"]}
    assert states == {"one": "loaded", "two": "unloaded"}
