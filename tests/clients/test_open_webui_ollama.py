"""Open WebUI's requests to a server of Ollama, as the backend of its version 0.12.4 sends them
(routers/ollama.py, utils/payload.py, retrieval/utils.py), and what it reads of the answers
(utils/response.py)."""
import json
import re
import urllib.error
import urllib.request

import pytest

HEADERS = {
    "Content-Type": "application/json",
    "X-OpenWebUI-User-Name": "ann%20b",
    "X-OpenWebUI-User-Id": "0c5b",
    "X-OpenWebUI-User-Email": "ann@example.com",
    "X-OpenWebUI-User-Role": "admin",
    "X-OpenWebUI-Chat-Id": "1f2e",
}


@pytest.fixture(scope="module")
def post(address):
    """The lines of an answer."""
    def call(path, body):
        request = urllib.request.Request(address + path, json.dumps(body).encode(), HEADERS)
        with urllib.request.urlopen(request) as answer:
            if body.get("stream"):
                assert answer.headers["Content-Type"] == "application/x-ndjson"
            return [json.loads(line) for line in answer]
    return call


def as_openai(line):
    """How it turns a line into a chunk; what it would fail at fails here."""
    message = line.get("message") or {}
    calls = [{"index": call.get("index", call["function"].get("index", 0)),
              "id": call["id"], "name": call["function"]["name"],
              "arguments": json.dumps(call["function"]["arguments"])}
             for call in message.get("tool_calls") or []]
    usage = None
    if line["done"]:
        usage = {"prompt": int(line["prompt_eval_count"]), "completion": int(line["eval_count"]),
                 "speed": line["eval_count"] / (line["eval_duration"] / 1e9),
                 "prompt_speed": line["prompt_eval_count"] / (line["prompt_eval_duration"] / 1e9),
                 "seconds": (line["total_duration"] or 0) // 1_000_000_000}
    return message["content"], calls, usage, line.get("done_reason")


def test_a_connection_is_verified(send):
    version = send("/api/version", headers=HEADERS)["version"]
    assert tuple(map(int, re.sub(r"^v|-.*", "", version).split("."))) > (0, 1)
    models = send("/api/tags", headers=HEADERS)["models"]
    running = send("/api/ps", headers=HEADERS)["models"]
    assert models[0]["model"] == running[0]["model"] and running[0]["expires_at"]


@pytest.mark.parametrize("way", ["HEAD", "GET"])
def test_the_address_answers(address, way):
    with urllib.request.urlopen(urllib.request.Request(address, method=way)) as answer:
        assert answer.status == 200


def test_a_chat_is_streamed_with_its_usage(post, shown):
    lines = post("/api/chat", {
        "model": shown["model"], "stream": True, "keep_alive": "5m",
        "messages": [{"role": "system", "content": "Be brief."},
                     {"role": "user", "content": "Who?"}],
        "options": {"temperature": 0, "top_k": 40, "top_p": 0.9, "min_p": 0.0, "seed": 3,
                    "num_ctx": 2048, "num_predict": 16, "repeat_last_n": 64, "num_keep": 24,
                    "repeat_penalty": 1.1, "num_gpu": 0, "num_thread": 2, "num_batch": 512,
                    "use_mmap": True, "use_mlock": False, "tfs_z": 1, "mirostat": 0,
                    "mirostat_eta": 0.1, "mirostat_tau": 5.0, "stop": ["~~"]},
        "metadata": {"chat_id": "1f2e"}})
    parts = [as_openai(line) for line in lines]
    assert "".join(part[0] for part in parts)
    assert all(part[2] is None for part in parts[:-1])
    assert 0 < parts[-1][2]["completion"] <= 16 and parts[-1][2]["prompt"] > 0
    assert parts[-1][3] in ("stop", "length")


def test_titles_and_tags_are_whole_answers(post, shown):
    for words in ("### Task: Generate a concise title", "### Task: Generate 1-3 tags"):
        [line] = post("/api/chat", {
            "model": shown["model"], "stream": False, "options": {"num_predict": 20},
            "messages": [{"role": "user", "content": words}]})
        assert isinstance(as_openai(line)[0], str)


def test_a_history_of_calls_goes_back(post, shown, tools):
    ask = {"model": shown["model"], "stream": True, "tools": tools,
           "options": {"num_predict": 200, "temperature": 0}}
    user = {"role": "user", "content": "The weather in Ur?"}
    lines = post("/api/chat", ask | {"messages": [user], "tool_choice": "required"})
    calls = [call for line in lines for call in as_openai(line)[1]]
    assert calls[0]["name"] == "weather"
    said = {"role": "assistant", "content": "", "tool_calls": [
        {"index": 0, "id": calls[0]["id"], "function": {
            "name": "weather", "arguments": json.loads(calls[0]["arguments"])}}]}
    back = {"role": "tool", "content": "dry", "tool_call_id": calls[0]["id"]}
    assert post("/api/chat", ask | {"messages": [user, said, back]})[-1]["done"]


def test_a_format_is_followed(post, shown):
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"],
              "additionalProperties": False}
    [line] = post("/api/chat", {
        "model": shown["model"], "stream": False, "format": schema,
        "messages": [{"role": "user", "content": "Which?"}],
        "options": {"num_predict": 100, "temperature": 0}})
    assert json.loads(line["message"]["content"])["a"] in (1, 2)


def test_documents_become_vectors(post, shown):
    [answer] = post("/api/embed", {"input": ["a cat", "a dog"], "model": shown["model"],
                                   "truncate": True})
    assert len(answer["embeddings"]) == 2
    [answer] = post("/api/embeddings", {"model": shown["model"], "prompt": "a cat"})
    assert len(answer["embedding"]) > 2


def test_other_protocols_pass_through(post, shown):
    ask = {"model": shown["model"], "max_tokens": 4}
    user = [{"role": "user", "content": "Who?"}]
    assert post("/v1/chat/completions", ask | {"messages": user})[0]["choices"]
    assert post("/v1/completions", ask | {"prompt": "Who"})[0]["choices"]
    assert post("/v1/messages", ask | {"messages": user})[0]["content"]
    assert post("/v1/responses", {"model": shown["model"], "input": "Who?",
                                  "max_output_tokens": 16})[0]["output"]
    assert post("/v1/embeddings", {"model": shown["model"], "input": "a"})[0]["data"]


def test_errors_have_their_text(post, shown):
    """It shows `error` of an answer whose status isn't 200."""
    for path, body in (
            ("/api/chat", {"model": shown["model"], "messages": [
                {"role": "user", "content": "Who?", "images": ["eA=="]}]}),
            ("/api/create", {"model": "a", "from": shown["model"]}),
            ("/api/push", {"model": shown["model"]})):
        with pytest.raises(urllib.error.HTTPError) as error:
            post(path, body)
        assert error.value.code == 400
        assert isinstance(json.load(error.value)["error"], str)
