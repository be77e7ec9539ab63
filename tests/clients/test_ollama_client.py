"""Ollama's own client against `mnem serve`, unchanged."""
import json

import ollama
import pytest

HI = [{"role": "user", "content": "In the beginning"}]
GREEDY = {"temperature": 0, "num_predict": 12}


@pytest.fixture(scope="module")
def client(address):
    return ollama.Client(host=address)


@pytest.fixture(scope="module")
def model(client):
    return client.list().models[0].model


def test_models_are_listed_and_shown(client, model):
    listed = client.list().models[0]
    assert model.endswith(":latest")
    assert listed.size > 0 and len(listed.digest) == 64 and listed.modified_at.year > 2000
    shown = client.show(model)
    assert "completion" in shown.capabilities and shown.template
    assert shown.modelinfo["general.architecture"] == shown.details.family == listed.details.family
    running = client.ps().models[0]
    assert running.model == model and running.digest == listed.digest and running.size_vram == 0


def test_a_chat_is_whole_and_streamed(client, model):
    whole = client.chat(model, HI, options=GREEDY)
    assert whole.done and whole.message.role == "assistant" and whole.message.content
    assert whole.done_reason in ("stop", "length")
    assert whole.prompt_eval_count > 0 and 0 < whole.eval_count <= 12
    assert whole.total_duration >= whole.prompt_eval_duration + whole.eval_duration > 0
    parts = list(client.chat(model, HI, options=GREEDY, stream=True))
    assert "".join(part.message.content for part in parts) == whole.message.content
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]
    assert parts[-1].done_reason == whole.done_reason and parts[-1].eval_count == whole.eval_count


def test_a_prompt_is_a_turn_or_raw(client, model):
    turn = client.generate(model, "In the beginning", options=GREEDY)
    assert turn.response == client.chat(model, HI, options=GREEDY).message.content
    raw = client.generate(model, "In the beginning", raw=True, options=GREEDY)
    assert raw.response and raw.prompt_eval_count < turn.prompt_eval_count + 1
    parts = client.generate(model, "In the beginning", raw=True, options=GREEDY, stream=True)
    assert "".join(part.response for part in parts) == raw.response
    ruled = client.generate(model, "Who?", system="Answer in one word.", options=GREEDY)
    assert ruled.prompt_eval_count > 0


def test_stops_and_lengths_are_kept(client, model):
    said = client.generate(model, "In the beginning", raw=True, options=GREEDY).response
    stop = said.split()[2]
    cut = client.generate(model, "In the beginning", raw=True, options=GREEDY | {"stop": [stop]})
    assert cut.done_reason == "stop" and stop not in cut.response
    short = client.generate(model, "In the beginning", raw=True, options=GREEDY | {"num_predict": 2})
    assert short.done_reason == "length" and short.eval_count == 2


def test_answers_have_the_format(client, model):
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
              "additionalProperties": False}
    answer = client.chat(model, HI, format=schema, options=GREEDY | {"num_predict": 50})
    assert json.loads(answer.message.content)["a"] in (1, 2)


def test_tools_are_called(client, model, tools):
    schema = {"temperature": 0, "num_predict": 100}
    answer = client.chat(model, HI, tools=tools, options=schema)
    for call in answer.message.tool_calls or []:
        assert call.function.arguments["city"] in ("Ur", "Nod")
    history = HI + [
        {"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "weather", "arguments": {"city": "Ur"}}}]},
        {"role": "tool", "tool_name": "weather", "content": "dry"},
    ]
    assert client.chat(model, history, tools=tools, options=schema).done


def test_texts_become_vectors(client, model):
    try:
        answer = client.embed(model, ["light", "darkness"])
    except ollama.ResponseError as error:
        assert error.status_code == 400 and "--pooling" in error.error
        return
    one = client.embeddings(model, "light")
    assert len(answer.embeddings) == 2 and answer.embeddings[0] == one.embedding
    assert sum(x * x for x in one.embedding) == pytest.approx(1, abs=1e-3)


def test_nothing_is_written_or_unloaded(client, model):
    for call in (lambda: client.pull("a"), lambda: client.delete("a"), lambda: client.copy("a", "b"),
                 lambda: client.create("a", from_=model), lambda: client.push("a")):
        with pytest.raises(ollama.ResponseError, match="is not supported"):
            call()
    assert client.generate(model).done_reason == "load"
    with pytest.raises(ollama.ResponseError, match="does not unload"):
        client.generate(model, keep_alive=0)


def test_images_and_bad_settings_are_refused(client, model):
    with pytest.raises(ollama.ResponseError, match="images"):
        client.chat(model, [{"role": "user", "content": "Who?", "images": [b"x"]}])
    with pytest.raises(ollama.ResponseError, match="temperature"):
        client.generate(model, "Who?", options={"temperature": -1})
    with pytest.raises(ollama.ResponseError, match="think"):
        client.generate(model, "Who?", think=True)
