"""litellm against `mnem serve`, unchanged: as OpenAI's, vLLM's, Anthropic's and Ollama's server."""
import json
import os
from typing import Literal

import pydantic
import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # asks nobody for prices
import litellm  # noqa: E402

HI = [{"role": "user", "content": "In the beginning"}]


def settings(provider, address):
    base = address if provider in ("anthropic", "ollama", "ollama_chat") else address + "/v1"
    return dict(model=provider + "/x", api_base=base, api_key="none", max_retries=0)


@pytest.fixture(params=["openai", "hosted_vllm", "anthropic"])
def ask(request, address):
    return settings(request.param, address)


@pytest.fixture(params=["ollama", "ollama_chat"])
def ollama(request, address):
    return settings(request.param, address)


@pytest.fixture(params=["openai", "hosted_vllm", "anthropic", "ollama", "ollama_chat"])
def any_of_them(request, address):
    return settings(request.param, address)


def test_an_answer_comes_whole_and_streamed(any_of_them):
    ask = dict(messages=HI, max_tokens=16, temperature=0, **any_of_them)
    answer = litellm.completion(**ask)
    whole = answer.choices[0].message.content
    assert whole and answer.usage.completion_tokens > 0
    told = ""
    for chunk in litellm.completion(stream=True, **ask):
        told += chunk.choices[0].delta.content or ""
    assert told == whole


def test_tools_are_called(ask, tools):
    answer = litellm.completion(messages=HI, tools=tools, tool_choice="required", temperature=0,
                                max_tokens=200, **ask)
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "weather"
    assert json.loads(call.function.arguments)["city"] in ("Ur", "Nod")
    back = HI + [answer.choices[0].message.model_dump(exclude_none=True),
                 {"role": "tool", "tool_call_id": call.id, "content": "sun"}]
    assert litellm.completion(messages=back, tools=tools, max_tokens=8, tool_choice="none",
                              **ask).choices[0].message.role == "assistant"


class Person(pydantic.BaseModel):
    name: Literal["Abel", "Seth"]


def test_answers_follow_a_schema(address):
    answer = litellm.completion(model="openai/x", api_base=address + "/v1", api_key="none",
                                messages=HI, response_format=Person, max_tokens=64, temperature=0)
    assert Person.model_validate_json(answer.choices[0].message.content)


def test_answers_of_ollama_follow_a_schema(ollama):
    answer = litellm.completion(messages=HI, response_format=Person, max_tokens=64, temperature=0,
                                **ollama)
    assert Person.model_validate_json(answer.choices[0].message.content)


def test_tools_of_ollama_go_and_come_back(ollama, tools):
    """`ollama` writes them into the prompt itself and asks for JSON; no model must call one."""
    ask = dict(messages=HI, tools=tools, max_tokens=100, temperature=0, **ollama)
    for call in litellm.completion(**ask).choices[0].message.tool_calls or []:
        assert json.loads(call.function.arguments) is not None
    assert list(litellm.completion(stream=True, **ask))
    called = {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function",
         "function": {"name": "weather", "arguments": "{\"city\": \"Ur\"}"}}]}
    back = HI + [called, {"role": "tool", "tool_call_id": "c1", "content": "dry"}]
    assert litellm.completion(**ask | {"messages": back}).usage.prompt_tokens > 0


def test_models_and_vectors_of_ollama_are_found(address, shown, monkeypatch):
    monkeypatch.setenv("OLLAMA_API_BASE", address)
    assert litellm.get_valid_models(check_provider_endpoint=True, custom_llm_provider="ollama") == [
        "ollama/" + shown["model"]]
    info = litellm.get_model_info("ollama/" + shown["model"])
    assert info["max_input_tokens"] == shown["details"]["context_length"]
    assert info["supports_function_calling"] == ("tools" in shown["capabilities"])
    vectors = litellm.embedding(model="ollama/x", api_base=address, input=["a", "b"]).data
    assert len(vectors) == 2


def test_texts_are_completed(address):
    answer = litellm.text_completion(model="text-completion-openai/x", api_base=address + "/v1",
                                     api_key="none", prompt="In the beginning", max_tokens=8,
                                     temperature=0)
    assert answer.choices[0].text


def test_what_is_wrong_is_a_bad_request(address):
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(model="openai/x", api_base=address + "/v1", api_key="none", messages=HI,
                           temperature=-3, max_retries=0)
