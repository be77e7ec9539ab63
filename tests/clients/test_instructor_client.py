"""instructor against `mnem serve`, unchanged: Pydantic models in each of its ways to ask for one."""
import enum
from typing import Literal, Optional

import anthropic
import instructor
import openai
import pydantic
import pytest

ASK = dict(model="x", max_tokens=400, temperature=0, max_retries=0,
           messages=[{"role": "user", "content": "Who is it?"}])


class Tribe(enum.Enum):
    LEVI = "Levi"
    DAN = "Dan"


class Person(pydantic.BaseModel):
    """Somebody"""
    name: Literal["Abel", "Seth"]
    age: int = pydantic.Field(ge=1, le=120)
    tribe: Optional[Tribe] = None
    herds: list[Literal["sheep", "goats"]] = pydantic.Field(max_length=2)


MODES = [instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA,
         instructor.Mode.RESPONSES_TOOLS]


@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
def test_a_model_comes_back(address, mode):
    client = instructor.from_openai(
        openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0), mode=mode)
    person = client.create(response_model=Person, **ASK)
    assert person.name in ("Abel", "Seth") and 1 <= person.age <= 120


def test_a_model_comes_in_parts(address):
    client = instructor.from_openai(
        openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0),
        mode=instructor.Mode.JSON_SCHEMA)
    parts = list(client.create_partial(response_model=Person, **ASK))
    assert parts and parts[-1].name in ("Abel", "Seth")


def test_anthropics_tools_give_a_model(address):
    client = instructor.from_anthropic(
        anthropic.Anthropic(base_url=address, api_key="none", max_retries=0),
        mode=instructor.Mode.TOOLS)
    person = client.create(response_model=Person, **{k: v for k, v in ASK.items() if k != "temperature"})
    assert person.name in ("Abel", "Seth") and 1 <= person.age <= 120
