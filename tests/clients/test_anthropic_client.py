"""anthropic's own client against `mnem serve`, unchanged."""
import json

import anthropic
import pytest

HI = [{"role": "user", "content": "In the beginning"}]


@pytest.fixture(scope="module")
def client(address):
    return anthropic.Anthropic(base_url=address, api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def weather(tools):
    function = tools[0]["function"]
    return [{"name": "weather", "description": function["description"],
             "input_schema": function["parameters"]}]


def test_a_message_is_whole_and_streamed(client):
    ask = dict(model="x", messages=HI, max_tokens=16, extra_body={"temperature": 0})
    answer = client.messages.create(**ask)
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason in ("end_turn", "max_tokens")
    with client.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == answer.content[0].text


def test_events_come_in_their_order(client):
    with client.messages.stream(model="x", messages=HI, max_tokens=8) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_message()
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert final.usage.output_tokens > 0 and final.usage.input_tokens >= 0


def test_tools_are_used_and_answered(client, weather):
    ask = dict(model="x", max_tokens=100, tools=weather, extra_body={"temperature": 0})
    answer = client.messages.create(messages=HI, tool_choice={"type": "any"}, **ask)
    call = answer.content[0]
    assert answer.stop_reason == "tool_use" and call.type == "tool_use"
    assert call.input["city"] in ("Ur", "Nod")
    history = HI + [
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call.id, "content": "dry"}]}]
    assert client.messages.create(messages=history, **ask).role == "assistant"


def test_tools_are_used_in_a_stream(client, weather):
    with client.messages.stream(model="x", messages=HI, max_tokens=200, tools=weather,
                                tool_choice={"type": "tool", "name": "weather"},
                                extra_body={"temperature": 0}) as stream:
        parts = [event.partial_json for event in stream if event.type == "input_json"]
        call = stream.get_final_message().content[0]
    assert json.loads("".join(parts)) == call.input and call.input["city"] in ("Ur", "Nod")


def test_tokens_are_counted_as_they_are_charged(client, weather):
    count = client.messages.count_tokens
    bare = count(model="x", messages=HI).input_tokens
    answer = client.messages.create(model="x", messages=HI, max_tokens=1)
    assert bare == answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)
    ruled = count(model="x", messages=HI, system=[
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]).input_tokens
    tooled = count(model="x", messages=HI, tools=weather, tool_choice={"type": "auto"}).input_tokens
    assert ruled != bare < tooled
    longer = count(model="x", messages=[{"role": "user", "content": "and it was so " * 9000}])
    assert longer.input_tokens > 18000  # also of what the context has no space for


def test_output_has_its_format(client):
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
              "additionalProperties": False}
    answer = client.messages.create(
        model="x", messages=HI, max_tokens=200, extra_body={"temperature": 0},
        output_config={"format": {"type": "json_schema", "schema": schema}})
    assert json.loads(answer.content[0].text)["a"] in (1, 2)


def test_models_are_listed(client):
    listed = client.models.list().data[0]
    assert client.models.retrieve(listed.id).id == listed.id == listed.display_name
    assert listed.type == "model" and listed.created_at.year > 2000 and listed.max_input_tokens > 0


def test_what_is_wrong_is_a_bad_request(client):
    for wrong in (dict(messages=[]), dict(messages=HI, tools=[{"name": "a b", "input_schema": {}}])):
        with pytest.raises(anthropic.BadRequestError) as error:
            client.messages.create(model="x", max_tokens=4, **wrong)
        assert error.value.body["type"] == "error" and error.value.body["error"]["message"]
