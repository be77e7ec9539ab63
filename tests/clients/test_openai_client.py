"""openai-python against `mnem serve`, unchanged."""
import json

import openai
import pytest

HI = [{"role": "user", "content": "In the beginning"}]


@pytest.fixture(scope="module")
def client(address):
    return openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0)


def test_models_are_listed(client):
    models = client.models.list().data
    assert len(models) == 1 and models[0].id
    assert client.models.retrieve(models[0].id).id == models[0].id


def test_chat_is_whole(client):
    answer = client.chat.completions.create(model="x", messages=HI, max_tokens=16, temperature=0)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_stream_says_what_the_whole_says(client):
    ask = dict(model="x", messages=HI, max_tokens=16, temperature=0)
    whole = client.chat.completions.create(**ask).choices[0].message.content
    told, usage = "", None
    for chunk in client.chat.completions.create(
        **ask, stream=True, stream_options={"include_usage": True}
    ):
        if chunk.choices:
            told += chunk.choices[0].delta.content or ""
        else:
            usage = chunk.usage
    assert told == whole
    assert usage.completion_tokens > 0


def test_logprobs_belong_to_tokens(client):
    answer = client.chat.completions.create(
        model="x", messages=HI, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3
    )
    content = answer.choices[0].logprobs.content
    assert "".join(c.token for c in content) == answer.choices[0].message.content
    assert all(len(c.top_logprobs) == 3 for c in content)
    assert all(c.top_logprobs[0].token == c.token for c in content)


def test_completions_take_lists(client):
    answer = client.completions.create(
        model="x", prompt=["In the", "And God"], max_tokens=4, n=2, temperature=1, seed=1
    )
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]


def test_answers_follow_a_schema(client):
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Abel", "Seth"]}},
        "required": ["name"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model="x", messages=HI, temperature=0, max_tokens=64,
        response_format={"type": "json_schema",
                         "json_schema": {"name": "person", "strict": True, "schema": schema}},
    )
    assert json.loads(answer.choices[0].message.content)["name"] in ("Abel", "Seth")


def test_tools_are_called(client, tools):
    answer = client.chat.completions.create(
        model="x", messages=HI[:1], tools=tools, tool_choice="required", temperature=0
    )
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in ("Ur", "Nod")
    back = HI + [
        answer.choices[0].message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "sun"},
    ]
    answer = client.chat.completions.create(model="x", messages=back, max_tokens=4)
    assert answer.choices[0].message.role == "assistant"


def test_calls_are_streamed(client, tools):
    names, arguments = [], ""
    for chunk in client.chat.completions.create(
        model="x", messages=HI, tools=tools, tool_choice="required", temperature=0, stream=True,
        parallel_tool_calls=False,
    ):
        for call in chunk.choices[0].delta.tool_calls or []:
            assert call.index == 0
            if call.function.name:
                names.append((call.id, call.function.name))
            arguments += call.function.arguments or ""
    assert len(names) == 1 and names[0][0] and names[0][1] == "weather"
    assert json.loads(arguments)["city"] in ("Ur", "Nod")


def test_responses_are_whole_and_streamed(client):
    answer = client.responses.create(model="x", input="In the", max_output_tokens=16, temperature=0)
    assert answer.output_text
    told = ""
    with client.responses.stream(
        model="x", input="In the", max_output_tokens=16, temperature=0
    ) as stream:
        for event in stream:
            if event.type == "response.output_text.delta":
                told += event.delta
    assert told == answer.output_text


def test_what_is_wrong_names_its_field(client):
    with pytest.raises(openai.BadRequestError) as error:
        client.chat.completions.create(model="x", messages=HI, temperature=-3)
    assert error.value.param == "temperature"


def test_vectors_are_floats_or_refused_with_the_way_out(address):
    client = openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0)
    try:
        answer = client.embeddings.create(model="any", input=["a cat", "a dog"])
    except openai.BadRequestError as error:
        assert "--pooling" in str(error)
        return
    assert [row.index for row in answer.data] == [0, 1]
    assert abs(sum(x * x for x in answer.data[0].embedding) - 1) < 1e-3


def test_holes_are_filled(client, shown):
    ask = dict(model="x", prompt="def add(a, b):\n    return ", suffix="\n\nprint(add(1, 2))\n",
               max_tokens=12, temperature=0)
    if "insert" in shown["capabilities"]:
        assert client.completions.create(**ask).choices[0].text.strip().startswith("a + b")
        return
    with pytest.raises(openai.BadRequestError, match="fill-in-the-middle"):
        client.completions.create(**ask)
