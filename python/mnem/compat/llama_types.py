"""The shapes of requests and results, as types. They are dicts; a checker sees their members."""
from typing import Any, Dict, List, Optional, TypedDict, Union

JsonType = Union[None, int, str, bool, List[Any], Dict[str, Any]]


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionLogprobs(TypedDict):
    text_offset: List[int]
    token_logprobs: List[Optional[float]]
    tokens: List[str]
    top_logprobs: List[Optional[Dict[str, float]]]


class CompletionChoice(TypedDict):
    text: str
    index: int
    logprobs: Optional[CompletionLogprobs]
    finish_reason: Optional[str]


class _Completion(TypedDict):
    id: str
    object: str
    created: int
    model: str
    choices: List[CompletionChoice]


class CreateCompletionResponse(_Completion, total=False):
    usage: CompletionUsage


class ChatCompletionMessageToolCallFunction(TypedDict):
    name: str
    arguments: str


class ChatCompletionMessageToolCall(TypedDict):
    id: str
    type: str
    function: ChatCompletionMessageToolCallFunction


class ChatCompletionResponseMessage(TypedDict, total=False):
    role: str
    content: Optional[str]
    tool_calls: List[ChatCompletionMessageToolCall]
    function_call: ChatCompletionMessageToolCallFunction


class ChatCompletionTopLogprobToken(TypedDict):
    token: str
    logprob: float
    bytes: Optional[List[int]]


class ChatCompletionLogprobToken(ChatCompletionTopLogprobToken):
    top_logprobs: List[ChatCompletionTopLogprobToken]


class ChatCompletionLogprobs(TypedDict):
    content: Optional[List[ChatCompletionLogprobToken]]
    refusal: Optional[List[ChatCompletionLogprobToken]]


class ChatCompletionResponseChoice(TypedDict):
    index: int
    message: ChatCompletionResponseMessage
    logprobs: Optional[ChatCompletionLogprobs]
    finish_reason: Optional[str]


class CreateChatCompletionResponse(TypedDict):
    id: str
    object: str
    created: int
    model: str
    choices: List[ChatCompletionResponseChoice]
    usage: CompletionUsage


class ChatCompletionStreamResponseChoice(TypedDict, total=False):
    index: int
    delta: Dict[str, Any]
    finish_reason: Optional[str]
    logprobs: Optional[ChatCompletionLogprobs]


class CreateChatCompletionStreamResponse(TypedDict):
    id: str
    object: str
    created: int
    model: str
    choices: List[ChatCompletionStreamResponseChoice]


class Embedding(TypedDict):
    index: int
    object: str
    embedding: Union[List[float], List[List[float]]]


class EmbeddingUsage(TypedDict):
    prompt_tokens: int
    total_tokens: int


class CreateEmbeddingResponse(TypedDict):
    object: str
    model: str
    data: List[Embedding]
    usage: EmbeddingUsage


class ChatCompletionRequestMessage(TypedDict, total=False):
    """Of every role: system, user, assistant, tool, function."""

    role: str
    content: Any
    name: str
    tool_call_id: str
    tool_calls: List[ChatCompletionMessageToolCall]
    function_call: ChatCompletionMessageToolCallFunction


class ChatCompletionFunction(TypedDict, total=False):
    name: str
    description: str
    parameters: Dict[str, Any]


class ChatCompletionTool(TypedDict):
    type: str
    function: ChatCompletionFunction


class ChatCompletionRequestResponseFormat(TypedDict, total=False):
    type: str
    schema: JsonType
    json_schema: Dict[str, Any]


# Further names of the same.
ChatCompletionRequestSystemMessage = ChatCompletionRequestMessage
ChatCompletionRequestUserMessage = ChatCompletionRequestMessage
ChatCompletionRequestAssistantMessage = ChatCompletionRequestMessage
ChatCompletionRequestToolMessage = ChatCompletionRequestMessage
ChatCompletionRequestFunctionMessage = ChatCompletionRequestMessage
ChatCompletionMessageToolCalls = List[ChatCompletionMessageToolCall]
ChatCompletionToolFunction = ChatCompletionFunction
ChatCompletionFunctions = ChatCompletionFunction
ChatCompletionToolChoiceOption = Union[str, Dict[str, Any]]
ChatCompletionRequestFunctionCall = Union[str, Dict[str, Any]]
CreateCompletionStreamResponse = CreateCompletionResponse
CompletionChunk = CreateCompletionResponse
Completion = CreateCompletionResponse
ChatCompletion = CreateChatCompletionResponse
ChatCompletionChunk = CreateChatCompletionStreamResponse
ChatCompletionStreamResponse = CreateChatCompletionStreamResponse
ChatCompletionMessage = ChatCompletionResponseMessage
ChatCompletionChoice = ChatCompletionResponseChoice
ChatCompletionChunkChoice = ChatCompletionStreamResponseChoice
EmbeddingData = Embedding
