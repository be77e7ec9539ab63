"""Open WebUI's requests, as its backend sends them (routers/openai.py, utils/middleware.py,
retrieval/utils.py), and its reading of the stream."""
import json
import urllib.error
import urllib.request

HEADERS = {
    "Content-Type": "application/json",
    "Authorization": "Bearer ",
    "X-OpenWebUI-User-Name": "ann%20b",
    "X-OpenWebUI-User-Id": "0c5b",
    "X-OpenWebUI-User-Email": "ann@example.com",
    "X-OpenWebUI-User-Role": "admin",
    "X-OpenWebUI-Chat-Id": "1f2e",
}


def send(address, path, body=None):
    data = json.dumps(body).encode() if body is not None else None
    return urllib.request.urlopen(urllib.request.Request(address + "/v1" + path, data, HEADERS))


def model_of(address):
    with send(address, "/models") as answer:
        listed = json.load(answer)
    assert listed["object"] == "list"
    return listed["data"][0]["id"]


def read_stream(answer):
    """As its middleware does: lines, their prefix, choices that may be empty, tool calls by index."""
    text, reasoning, calls, usage, finish = "", "", [], None, None
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    for line in answer:
        line = line.decode().strip()
        if not line.startswith("data:"):
            assert line == "" or line.startswith(":")
            continue
        line = line[len("data:"):].strip()
        if line == "[DONE]":
            return text, reasoning, calls, usage, finish
        data = json.loads(line)
        assert "error" not in data
        usage = data.get("usage") or usage
        if not data.get("choices"):
            continue
        delta = data["choices"][0].get("delta", {})
        finish = data["choices"][0].get("finish_reason") or finish
        text += delta.get("content") or ""
        reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or []:
            if call["index"] == len(calls):
                calls.append({"id": call["id"], **call["function"]})
            else:
                calls[call["index"]]["arguments"] += call["function"]["arguments"]
    raise AssertionError("the stream has no [DONE]")


def test_a_chat_is_streamed_with_its_usage(address):
    with send(address, "/chat/completions", {
            "stream": True,
            "model": model_of(address),
            "messages": [{"role": "user", "content": [{"type": "text", "text": "And"}]}],
            "stream_options": {"include_usage": True},
            "temperature": 0, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "seed": 3,
            "frequency_penalty": 0, "presence_penalty": 0, "repeat_penalty": 1.1, "stop": ["~~"],
            "max_tokens": 24, "logit_bias": {}, "user": {"name": "ann"}}) as answer:
        text, _, calls, usage, finish = read_stream(answer)
    assert text and not calls and finish in ("stop", "length")
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_titles_and_tags_are_whole_answers(address):
    for words in ("### Task: Generate a concise title", "### Task: Generate 1-3 tags"):
        with send(address, "/chat/completions", {
                "model": model_of(address),
                "messages": [{"role": "user", "content": words}],
                "stream": False,
                "max_completion_tokens": 20}) as answer:
            message = json.load(answer)["choices"][0]["message"]
        assert message["role"] == "assistant" and isinstance(message["content"], str)


def test_tools_are_called_natively(address, tools):
    with send(address, "/chat/completions", {
            "stream": True,
            "model": model_of(address),
            "messages": [{"role": "system", "content": "Be brief."},
                         {"role": "user", "content": "The weather in Ur?"}],
            "tools": tools, "tool_choice": "required", "max_tokens": 80, "temperature": 0,
            "parallel_tool_calls": False,
            "stream_options": {"include_usage": True}}) as answer:
        _, _, calls, _, finish = read_stream(answer)
    assert finish == "tool_calls" and calls[0]["name"] == "weather"
    assert json.loads(calls[0]["arguments"])["city"] in ("Ur", "Nod")


def test_vectors_of_documents_come_in_order_or_are_refused_clearly(address):
    try:
        with send(address, "/embeddings", {"input": ["a cat", "a dog"],
                                           "model": model_of(address)}) as answer:
            data = json.load(answer)["data"]
        assert [row["index"] for row in data] == [0, 1]
        assert len(data[0]["embedding"]) == len(data[1]["embedding"])
    except urllib.error.HTTPError as error:
        assert error.code == 400
        assert "--pooling" in json.load(error)["error"]["message"]
