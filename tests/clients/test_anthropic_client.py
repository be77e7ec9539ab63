"""anthropic's own client against `mnem serve`, unchanged."""
import anthropic
import pytest

HI = [{"role": "user", "content": "In the beginning"}]


@pytest.fixture(scope="module")
def client(address):
    return anthropic.Anthropic(base_url=address, api_key="none", max_retries=0)


def test_a_message_is_whole_and_streamed(client):
    ask = dict(model="x", messages=HI, max_tokens=16, extra_body={"temperature": 0})
    answer = client.messages.create(**ask)
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.stop_reason in ("end_turn", "max_tokens")
    with client.messages.stream(**ask) as stream:
        assert "".join(stream.text_stream) == answer.content[0].text


def test_tools_are_used(client, tools):
    function = tools[0]["function"]
    answer = client.messages.create(
        model="x", messages=HI, max_tokens=100, extra_body={"temperature": 0},
        tool_choice={"type": "any"},
        tools=[{"name": "weather", "input_schema": function["parameters"]}],
    )
    assert answer.content[0].type == "tool_use"
    assert answer.content[0].input["city"] in ("Ur", "Nod")
