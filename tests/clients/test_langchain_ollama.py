"""langchain-ollama against `mnem serve`, unchanged."""
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_ollama import ChatOllama, OllamaEmbeddings, OllamaLLM

ASK = "In the beginning"


@pytest.fixture(scope="module")
def settings(address, shown):
    return dict(base_url=address, model=shown["model"], temperature=0, num_predict=100,
                num_ctx=2048, seed=1, keep_alive=600, validate_model_on_init=True)


@pytest.fixture(scope="module")
def chat(settings):
    return ChatOllama(**settings)


def test_an_answer_comes_whole_and_streamed(chat):
    whole = chat.invoke(ASK)
    assert whole.content and whole.usage_metadata["output_tokens"] > 0
    assert whole.response_metadata["done_reason"] in ("stop", "length")
    assert "".join(part.content for part in chat.stream(ASK)) == whole.content


def test_texts_are_completed(settings):
    text = OllamaLLM(**settings)
    assert "".join(text.stream(ASK)) == text.invoke(ASK) != ""


def test_tools_are_bound_and_answered(chat, tools):
    bound = chat.bind_tools(tools)
    for call in bound.invoke(ASK).tool_calls:
        assert call["name"] == "weather"
    called = AIMessage("", tool_calls=[{"name": "weather", "args": {"city": "Ur"}, "id": "a"}])
    history = [HumanMessage(ASK), called, ToolMessage("dry", tool_call_id="a")]
    assert bound.invoke(history).response_metadata["done"]


def test_output_is_structured(chat):
    schema = {"title": "Person", "type": "object", "required": ["name"],
              "properties": {"name": {"enum": ["Abel", "Seth"]}}, "additionalProperties": False}
    answer = chat.with_structured_output(schema, method="json_schema").invoke("Who?")
    assert answer["name"] in ("Abel", "Seth")


def test_logprobs_are_told(settings):
    chat = ChatOllama(**settings, logprobs=True, top_logprobs=2)
    entries = chat.invoke(ASK).response_metadata["logprobs"]
    assert len(entries[0]["top_logprobs"]) == 2


def test_texts_become_vectors(address, shown):
    embeddings = OllamaEmbeddings(model=shown["model"], base_url=address,
                                  validate_model_on_init=True)
    many = embeddings.embed_documents(["light", "darkness"])
    assert len(many) == 2 and many[0] == pytest.approx(embeddings.embed_query("light"))
