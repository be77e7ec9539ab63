"""What extensions of editors ask a server of Ollama for, and what they read of the answers: GitHub
Copilot (its Ollama provider of 2026), Zed (crates/ollama), Continue (core/llm/llms/Ollama.ts)."""
import json
import re
import urllib.request

HI = [{"role": "user", "content": "In the beginning"}]


# ---- GitHub Copilot ----

def numbers(version):
    return [int(part) for part in version.split(".")]


def test_copilot_accepts_the_version_and_reads_the_model(send):
    assert numbers(send("/api/version")["version"]) >= numbers("0.6.4")
    for model in send("/api/tags")["models"]:
        shown = send("/api/show", {"model": model["model"]})
        info = shown["model_info"]
        context = info[info["general.architecture"] + ".context_length"]
        assert context == send("/v1/models")["data"][0]["max_model_len"]
        assert isinstance(shown["template"], str) and isinstance(shown["details"]["family"], str)
        assert isinstance(shown["capabilities"], list) and "vision" not in shown["capabilities"]


def test_copilot_chats_as_with_openai(address, shown):
    body = {"model": shown["model"], "messages": HI, "stream": True, "n": 1, "temperature": 0,
            "top_p": 1, "max_tokens": 12, "stream_options": {"include_usage": True}}
    request = urllib.request.Request(address + "/v1/chat/completions", json.dumps(body).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer "})
    with urllib.request.urlopen(request) as answer:
        events = [line[6:] for line in answer.read().decode().split("\n") if line[:6] == "data: "]
    assert events[-1] == "[DONE]" and json.loads(events[-2])["usage"]["completion_tokens"] > 0


# ---- Zed ----

def test_zed_lists_and_chats(send):
    listed = send("/api/tags", headers={"Accept": "application/json"})["models"][0]
    assert {"name", "modified_at", "size", "digest", "details"} <= set(listed)
    assert {"format", "family", "families", "parameter_size",
            "quantization_level"} <= set(listed["details"])
    lines = send("/api/chat", {
        "model": listed["name"], "messages": HI, "stream": True, "keep_alive": -1, "think": None,
        "options": {"num_ctx": 4096, "num_predict": 8, "stop": [], "temperature": 0.0,
                    "top_p": None}, "tools": []})
    for line in lines:
        assert line["message"]["role"] == "assistant" and isinstance(line["created_at"], str)
        assert isinstance(line["message"]["content"], str)
    assert lines[-1]["done"] and lines[-1]["prompt_eval_count"] > 0 and lines[-1]["eval_count"] > 0


def test_zed_calls_tools(send, shown, tools):
    ask = {"model": shown["model"], "messages": HI, "stream": True, "keep_alive": -1,
           "tools": tools, "tool_choice": "required",
           "options": {"num_predict": 200, "temperature": 0}}
    calls = [call for line in send("/api/chat", ask)
             for call in line["message"].get("tool_calls", [])]
    assert calls[0]["id"] and calls[0]["function"]["arguments"]["city"] in ("Ur", "Nod")
    back = {"role": "tool", "tool_name": "weather", "content": "dry"}
    said = {"role": "assistant", "content": "", "tool_calls": calls, "thinking": None}
    assert send("/api/chat", ask | {"messages": [*HI, said, back],
                                    "tool_choice": "none"})[-1]["done"]


# ---- Continue ----

def test_continue_reads_the_settings(send, shown):
    again = send("/api/show", {"name": shown["name"]})
    lines = again["parameters"].split("\n")
    parts = [re.match(r'^(\S+)\s+((?:".*")|\S+)$', line) for line in lines]
    assert all(parts)  # Continue reads no line that doesn't match
    settings = dict(part.groups() for part in parts)
    assert int(settings["num_ctx"]) == again["details"]["context_length"]
    assert (".Suffix" in again["template"]) == ("insert" in again["capabilities"])


def test_continue_completes_chats_and_embeds(send, shown):
    options = {"temperature": 0.01, "num_predict": 12, "stop": ["\n\n\n"], "num_ctx": 4096}
    ask = {"model": shown["name"], "keep_alive": 1800, "options": options}
    said = send("/api/generate", ask | {"prompt": "In the beginning", "raw": True, "stream": True})
    assert "".join(line["response"] for line in said)
    said = send("/api/chat", ask | {"messages": HI})
    assert all("error" not in line for line in said) and said[-1]["done_reason"]
    assert len(send("/api/embed", {"model": shown["name"], "input": ["a", "b"]})["embeddings"]) == 2


def test_continue_fills_holes(send, shown):
    if "insert" not in shown["capabilities"]:
        return
    said = send("/api/generate", {
        "model": shown["name"], "prompt": "def add(a, b):\n    return ",
        "suffix": "\n\nprint(add(1, 2))\n", "keep_alive": 1800, "stream": True,
        "options": {"temperature": 0.01, "num_predict": 12, "stop": ["/src/", "```"]}})
    assert "".join(line["response"] for line in said).strip().startswith("a + b")
