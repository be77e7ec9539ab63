"""Thoughts as clients get them and send them back, of a server whose template opens one."""
import os
import pathlib

import anthropic
import ollama
import openai
import pytest
from langchain_ollama import ChatOllama

from conftest import longer, serving

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # asks nobody for prices
import litellm  # noqa: E402

HI = [{"role": "user", "content": "In the beginning"}]
SHORT = {"temperature": 0, "num_predict": 12}
TEMPLATE = """{%- for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}assistant: <think>
{% if enable_thinking is defined and not enable_thinking %}
</think>
{% endif %}"""


@pytest.fixture(scope="module")
def thinking(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thinking")
    template = pathlib.Path(folder / "think.jinja")
    template.write_text(TEMPLATE)
    with serving(longer(folder), "--template", str(template)) as address:
        yield address


@pytest.fixture(scope="module")
def client(thinking):
    return ollama.Client(host=thinking)


@pytest.mark.parametrize("think", [True, "low", "medium", "high"])
def test_ollama_has_thoughts_and_their_levels(client, think):
    assert "thinking" in client.show("x").capabilities
    said = client.chat("x", HI, think=think, options=SHORT)
    assert said.message.thinking and not said.message.content
    parts = list(client.chat("x", HI, think=think, options=SHORT, stream=True))
    assert "".join(part.message.thinking or "" for part in parts) == said.message.thinking
    assert client.generate("x", "Why?", think=think, options=SHORT).thinking


def test_ollama_goes_without_a_thought(client):
    said = client.chat("x", HI, think=False, options=SHORT)
    assert said.message.content and not said.message.thinking
    assert client.generate("x", "Why?", think=False, options=SHORT).response


def test_ollama_gets_its_thoughts_back(client):
    said = client.chat("x", HI, think=True, options=SHORT)
    again = client.chat("x", [*HI, said.message, *HI], think=True, options=SHORT)
    assert again.message.thinking and again.prompt_eval_count > said.prompt_eval_count


def test_others_have_thoughts(thinking):
    def langchain(reasoning):
        return ChatOllama(base_url=thinking, model="x", temperature=0, num_predict=12,
                          reasoning=reasoning).invoke("Why?")
    assert langchain(True).additional_kwargs["reasoning_content"] and langchain(False).content
    answer = litellm.completion(model="ollama_chat/x", api_base=thinking, messages=HI,
                                reasoning_effort="low", max_tokens=12)
    assert answer.choices[0].message.reasoning_content
    answer = openai.OpenAI(base_url=thinking + "/v1", api_key="none").chat.completions.create(
        model="x", messages=HI, max_tokens=12)
    assert answer.choices[0].message.reasoning_content
    client = anthropic.Anthropic(base_url=thinking, api_key="none")
    with client.messages.stream(model="x", messages=HI, max_tokens=12,
                                thinking={"type": "adaptive"}) as stream:
        kinds = [event.type for event in stream]
        assert stream.get_final_message().content[0].type == "thinking"
    assert "thinking" in kinds
