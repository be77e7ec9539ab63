"""What the examples of Ollama's Python client do (those of its repository at the version of
requirements.txt), each in a test of its own. Not here: images, searches of the web, and
`create`, which writes a model."""
import asyncio
import json

import ollama
import pydantic
import pytest

SKY = [{"role": "user", "content": "Why is the sky blue?"}]
SUM = [{"role": "user", "content": "What is three plus one?"}]
SHORT = {"temperature": 0, "num_predict": 12}
CALLS = {"temperature": 0, "num_predict": 300}


@pytest.fixture(scope="module")
def client(address):
    return ollama.Client(host=address)


@pytest.fixture(scope="module")
def model(shown):
    return shown["model"]


def add_two_numbers(a: int, b: int) -> int:
    """
    Add two numbers

    Args:
      a (int): The first number
      b (int): The second number

    Returns:
      int: The sum of the two numbers
    """
    return int(a) + int(b)


SUBTRACT = {
    "type": "function",
    "function": {
        "name": "subtract_two_numbers",
        "description": "Subtract two numbers",
        "parameters": {
            "type": "object",
            "required": ["a", "b"],
            "properties": {
                "a": {"type": "integer", "description": "The first number"},
                "b": {"type": "integer", "description": "The second number"},
            },
        },
    },
}
KNOWN = {"add_two_numbers": add_two_numbers, "subtract_two_numbers": lambda a, b: int(a) - int(b)}


class Friend(pydantic.BaseModel):
    name: str
    age: int
    is_available: bool


class Friends(pydantic.BaseModel):
    friends: list[Friend]


# ---- chats and texts ----

def test_chat_and_chat_stream(client, model):
    whole = client.chat(model, messages=SKY, options=SHORT)
    assert whole["message"]["content"] == whole.message.content != ""
    parts = client.chat(model, messages=SKY, stream=True, options=SHORT)
    assert "".join(part["message"]["content"] for part in parts) == whole.message.content


def test_chat_with_history(client, model):
    messages = SKY + [{"role": "assistant", "content": "The air scatters light."}]
    for _ in range(2):
        said = client.chat(model, messages=[*messages, *SUM], options=SHORT)
        messages += [*SUM, {"role": "assistant", "content": said.message.content}]
    assert said.prompt_eval_count > 20


def test_generate_and_generate_stream(client, model):
    whole = client.generate(model, "Why is the sky blue?", options=SHORT)
    parts = client.generate(model, "Why is the sky blue?", stream=True, options=SHORT)
    assert "".join(part["response"] for part in parts) == whole["response"] != ""


def test_async_chat_and_async_generate(address, model):
    async def ask():
        client = ollama.AsyncClient(host=address)
        parts = [part async for part in await client.chat(model, messages=SKY, stream=True,
                                                          options=SHORT)]
        whole = await client.generate(model, "Why is the sky blue?", options=SHORT)
        return "".join(part.message.content for part in parts), whole.response
    told, whole = asyncio.run(ask())
    assert told == whole != ""


@pytest.mark.parametrize("route", ["chat", "generate"])
def test_logprobs(client, model, route):
    ask = {"messages": SKY} if route == "chat" else {"prompt": "hi! be concise."}
    answer = getattr(client, route)(model=model, logprobs=True, top_logprobs=3, options=SHORT, **ask)
    assert 0 < len(answer.logprobs) <= 12
    for entry in answer["logprobs"]:
        assert entry["logprob"] <= 0 and len(entry["top_logprobs"]) == 3
        assert entry["top_logprobs"][0]["token"] == entry["token"]


def test_fill_in_middle(client, model, shown):
    ask = dict(model=model, prompt="def add(a, b):\n    return ", suffix="\n\nprint(add(1, 2))\n",
               options={"num_predict": 16, "temperature": 0, "top_p": 0.9, "stop": ["<EOT>"]})
    if "insert" not in shown["capabilities"]:
        with pytest.raises(ollama.ResponseError, match="fill-in-the-middle"):
            client.generate(**ask)
        return
    assert client.generate(**ask)["response"].strip().startswith("a + b")


# ---- formats ----

def test_structured_outputs(client, model):
    options = {"temperature": 0, "num_predict": 400}
    answer = client.chat(model, messages=SKY, format=Friends.model_json_schema(), options=options)
    if answer.done_reason == "stop":  # a small model may list friends without an end
        Friends.model_validate_json(answer.message.content)
    one = client.chat(model, messages=SKY, format=Friend.model_json_schema(), options=options)
    if one.done_reason == "stop":
        Friend.model_validate_json(one.message.content)


def test_async_structured_outputs(address, model):
    class Answer(pydantic.BaseModel):
        yes: bool
    answer = asyncio.run(ollama.AsyncClient(host=address).chat(
        model, messages=SKY, format=Answer.model_json_schema(),
        options={"temperature": 0, "num_predict": 60}))
    assert answer.done_reason == "length" or Answer.model_validate_json(answer.message.content)


# ---- tools ----

def short(tool):
    """With arguments that no model writes without end."""
    tool = json.loads(json.dumps(tool))
    parameters = tool["function"]["parameters"]
    parameters["additionalProperties"] = False
    for schema in parameters["properties"].values():
        schema["enum"] = [1, 3]
    return tool


def called(send, model, messages, **more):
    """A chat that must call, which the client has no word for: its answer as the client's types."""
    add = ollama._utils.convert_function_to_tool(add_two_numbers).model_dump(exclude_none=True)
    lines = send("/api/chat", {
        "model": model, "messages": messages, "tools": [short(add), short(SUBTRACT)],
        "tool_choice": "required", "options": CALLS, **more})
    return [ollama.ChatResponse(**line) for line in (lines if isinstance(lines, list) else [lines])]


def answered(response):
    """The messages of the tools."""
    made = []
    for call in response.message.tool_calls:
        output = KNOWN[call.function.name](**call.function.arguments)
        made.append({"role": "tool", "content": str(output), "tool_name": call.function.name})
    return made


def test_tools(client, send, model):
    tools = [add_two_numbers, SUBTRACT]
    messages = list(SUM)
    assert client.chat(model, messages=messages, tools=tools, options=CALLS).done
    [response] = called(send, model, messages, stream=False)
    assert response.message.tool_calls and response.done_reason == "stop"
    messages += [response.message, *answered(response)]
    final = client.chat(model, messages=messages, tools=tools, options=SHORT)
    assert final.message.role == "assistant" and final.prompt_eval_count > 0


def test_multi_tool_in_a_stream(client, send, model):
    messages = list(SUM)
    parts = called(send, model, SUM)
    for part in parts:
        if part.message.tool_calls:
            messages += [part.message, *answered(part)]
    assert messages[-1]["role"] == "tool" and parts[-1].done
    final = client.chat(model, messages=messages, tools=[add_two_numbers, SUBTRACT], stream=True,
                        options=SHORT)
    assert [part.done for part in final][-1]


def test_async_tools(address, model):
    answer = asyncio.run(ollama.AsyncClient(host=address).chat(
        model, messages=SUM, tools=[add_two_numbers, SUBTRACT], options=CALLS))
    for call in answer.message.tool_calls or []:
        assert call.function.name in KNOWN and set(call.function.arguments) == {"a", "b"}


# ---- thinking ----

@pytest.mark.parametrize("think", [True, "low", "medium", "high"])
def test_thinking_and_its_levels(client, model, shown, think):
    if "thinking" in shown["capabilities"]:
        answer = client.chat(model, messages=SKY, think=think, options={"num_predict": 40})
        assert answer.message.thinking
        return
    for ask in (lambda: client.chat(model, messages=SKY, think=think),
                lambda: client.generate(model, "why is the sky blue", think=think)):
        with pytest.raises(ollama.ResponseError, match="does not support thinking") as error:
            ask()
        assert error.value.status_code == 400


# ---- models ----

def test_list_and_show(client, model):
    listed = client.list().models[0]
    assert listed.size.real > 0 and listed.details.format == "gguf"
    assert listed.details.parameter_size and listed.details.quantization_level
    shown = client.show(model)
    assert shown.modified_at == listed.modified_at and shown.modelfile and shown.parameters
    assert shown.details.family == listed.details.family and shown.modelinfo


def test_ps_after_a_pull(client, model):
    assert [progress.status for progress in client.pull(model, stream=True)] == ["success"]
    assert client.pull(model).status == "success"
    running = client.ps().models[0]
    assert running.model == model and running.digest and running.expires_at.year > 2026
    assert running.size > 0 and running.context_length > 0 and running.details.family


def test_embed(client, model):
    one = client.embed(model=model, input="Hello, world!")
    many = client.embed(model=model, input=["Hello, world!", "Goodbye"], dimensions=8, truncate=True)
    assert len(one["embeddings"]) == 1 and one.total_duration > 0 and one.prompt_eval_count > 0
    assert [len(vector) for vector in many.embeddings] == [8, 8]
    assert client.embed(model=model, input=[]).embeddings == []
