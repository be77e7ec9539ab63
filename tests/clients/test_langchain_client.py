"""langchain and langchain-openai against `mnem serve`, unchanged."""
import pytest
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_openai import ChatOpenAI


@pytest.fixture(scope="module")
def model(address):
    return ChatOpenAI(base_url=address + "/v1", api_key="none", model="x", temperature=0,
                      max_tokens=200, max_retries=0)


def test_an_answer_comes(model):
    assert model.invoke("In the beginning").content


def test_a_stream_comes(model):
    whole = model.invoke("In the beginning").content
    assert "".join(part.content for part in model.stream("In the beginning")) == whole


def test_tools_are_bound(model, tools):
    answer = model.bind_tools(tools, tool_choice="weather").invoke("Go")
    assert answer.tool_calls[0]["name"] == "weather"
    assert answer.tool_calls[0]["args"]["city"] in ("Ur", "Nod")


def test_output_is_structured(model):
    schema = {
        "title": "Person",
        "type": "object",
        "properties": {"name": {"enum": ["Abel", "Seth"]}},
        "required": ["name"],
        "additionalProperties": False,
    }
    answer = model.with_structured_output(schema, method="json_schema").invoke("Who?")
    assert answer["name"] in ("Abel", "Seth")


def test_an_agent_calls_its_tool(address):
    asked = []

    def weather(city: str) -> str:
        """Tells the weather."""
        asked.append(city)
        return "sun"

    model = init_chat_model("x", model_provider="openai", base_url=address + "/v1", api_key="none",
                            temperature=0, max_tokens=32, max_retries=0)
    agent = create_agent(model, tools=[weather], system_prompt="Be brief")
    messages = agent.invoke({"messages": [("user", "In the beginning")]},
                            {"recursion_limit": 8})["messages"]
    assert messages[-1].type == "ai"
    assert len(asked) == sum(m.type == "tool" for m in messages)
