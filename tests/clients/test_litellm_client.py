"""litellm against `mnem serve`, unchanged: as OpenAI's, vLLM's and Anthropic's server."""
import json
import os
from typing import Literal

import pydantic
import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # asks nobody for prices
import litellm  # noqa: E402

HI = [{"role": "user", "content": "In the beginning"}]


@pytest.fixture(params=["openai/x", "hosted_vllm/x", "anthropic/x"])
def ask(request, address):
    base = address if request.param.startswith("anthropic") else address + "/v1"
    return dict(model=request.param, api_base=base, api_key="none", max_retries=0)


def test_an_answer_comes_whole_and_streamed(ask):
    answer = litellm.completion(messages=HI, max_tokens=16, temperature=0, **ask)
    whole = answer.choices[0].message.content
    assert whole and answer.usage.completion_tokens > 0
    told = ""
    for chunk in litellm.completion(messages=HI, max_tokens=16, temperature=0, stream=True, **ask):
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


def test_texts_are_completed(address):
    answer = litellm.text_completion(model="text-completion-openai/x", api_base=address + "/v1",
                                     api_key="none", prompt="In the beginning", max_tokens=8,
                                     temperature=0)
    assert answer.choices[0].text


def test_what_is_wrong_is_a_bad_request(address):
    with pytest.raises(litellm.BadRequestError):
        litellm.completion(model="openai/x", api_base=address + "/v1", api_key="none", messages=HI,
                           temperature=-3, max_retries=0)
