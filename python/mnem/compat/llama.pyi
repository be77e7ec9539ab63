from os import PathLike
from typing import Any, Callable, Deque, Dict, Generator, List, Mapping, Optional, Sequence, Union

from .llama_cache import BaseLlamaCache
from .llama_grammar import LlamaGrammar
from .llama_tokenizer import BaseLlamaTokenizer, LlamaTokenizer
from .llama_types import (ChatCompletionRequestFunctionCall, ChatCompletionRequestMessage,
                          ChatCompletionToolChoiceOption, CreateEmbeddingResponse)

__all__ = ["Llama", "LlamaState", "LogitsProcessorList", "MinTokensLogitsProcessor",
           "StoppingCriteriaList"]

_Array = Any  # of NumPy where it is installed, otherwise of the module array
_Processor = Callable[[_Array, _Array], Any]
_Criterion = Callable[[_Array, _Array], bool]
_Messages = Sequence[Union[ChatCompletionRequestMessage, Mapping[str, Any]]]
_Stop = Union[str, Sequence[str], None]

class LogitsProcessorList(List[_Processor]):
    def __call__(self, input_ids: _Array, scores: _Array) -> Any: ...

class StoppingCriteriaList(List[_Criterion]):
    def __call__(self, input_ids: _Array, logits: _Array) -> bool: ...

class MinTokensLogitsProcessor:
    def __init__(self, min_tokens: int, token_eos: int) -> None: ...
    def __call__(self, input_ids: _Array, scores: _Array) -> Any: ...

class LlamaState:
    input_ids: _Array
    scores: Any
    n_tokens: int
    llama_state: bytes
    llama_state_size: int
    seed: int
    def __init__(self, input_ids: _Array, scores: Any, n_tokens: int, llama_state: bytes,
                 llama_state_size: int, seed: int) -> None: ...

class Llama:
    model_path: Union[str, PathLike[str]]
    verbose: bool
    cache: Optional[BaseLlamaCache]
    chat_format: Optional[str]
    chat_handler: Optional[Callable[..., Any]]
    metadata: Dict[str, str]
    n_batch: int
    n_tokens: int
    tokenizer_: BaseLlamaTokenizer
    def __init__(self, model_path: Union[str, PathLike[str]], *, vocab_only: bool = False,
                 seed: Optional[int] = ..., n_ctx: int = 512, n_batch: int = 512,
                 n_threads: Optional[int] = None, pooling_type: int = -1, logits_all: bool = False,
                 embedding: bool = False, last_n_tokens_size: int = 64, lora_scale: float = 1.0,
                 lora_path: Optional[str] = None, chat_format: Optional[str] = None,
                 chat_handler: Optional[Callable[..., Any]] = None,
                 tokenizer: Optional[BaseLlamaTokenizer] = None, type_k: Optional[int] = None,
                 type_v: Optional[int] = None, spm_infill: bool = False, verbose: bool = True,
                 memory: Union[int, str, None] = None, **others: Any) -> None: ...
    def tokenize(self, text: bytes, add_bos: bool = True, special: bool = False) -> List[int]: ...
    def detokenize(self, tokens: Sequence[int], prev_tokens: Optional[Sequence[int]] = None,
                   special: bool = False) -> bytes: ...
    def tokenizer(self) -> LlamaTokenizer: ...
    def n_ctx(self) -> int: ...
    def n_embd(self) -> int: ...
    def n_vocab(self) -> int: ...
    def token_bos(self) -> int: ...
    def token_eos(self) -> int: ...
    def token_nl(self) -> int: ...
    def pooling_type(self) -> int: ...
    @property
    def input_ids(self) -> _Array: ...
    @property
    def eval_tokens(self) -> Deque[int]: ...
    @property
    def scores(self) -> Any: ...
    @property
    def eval_logits(self) -> Deque[List[float]]: ...
    def eval(self, tokens: Sequence[int]) -> None: ...
    def reset(self) -> None: ...
    def set_cache(self, cache: Optional[BaseLlamaCache]) -> None: ...
    def set_seed(self, seed: int) -> None: ...
    def sample(self, top_k: int = 40, top_p: float = 0.95, min_p: float = 0.05, typical_p: float = 1.0,
               temp: float = 0.80, repeat_penalty: float = 1.0, frequency_penalty: float = 0.0,
               presence_penalty: float = 0.0, tfs_z: float = 1.0, mirostat_mode: int = 0,
               mirostat_eta: float = 0.1, mirostat_tau: float = 5.0, penalize_nl: bool = True,
               logits_processor: Optional[_Processor] = None, grammar: Optional[LlamaGrammar] = None,
               idx: Optional[int] = None) -> int: ...
    def generate(self, tokens: Sequence[int], top_k: int = 40, top_p: float = 0.95, min_p: float = 0.05,
                 typical_p: float = 1.0, temp: float = 0.80, repeat_penalty: float = 1.0,
                 reset: bool = True, frequency_penalty: float = 0.0, presence_penalty: float = 0.0,
                 tfs_z: float = 1.0, mirostat_mode: int = 0, mirostat_tau: float = 5.0,
                 mirostat_eta: float = 0.1, penalize_nl: bool = True,
                 logits_processor: Optional[_Processor] = None,
                 stopping_criteria: Optional[_Criterion] = None, grammar: Optional[LlamaGrammar] = None
                 ) -> Generator[int, Optional[Sequence[int]], None]: ...
    # stream: True gives Iterator[CreateCompletionResponse], False the response itself.
    def create_completion(
            self, prompt: Union[str, Sequence[int]], suffix: Optional[str] = None,
            max_tokens: Optional[int] = 16, temperature: float = 0.8, top_p: float = 0.95,
            min_p: float = 0.05, typical_p: float = 1.0, logprobs: Optional[int] = None, echo: bool = False,
            stop: _Stop = (), frequency_penalty: float = 0.0, presence_penalty: float = 0.0,
            repeat_penalty: float = 1.0, top_k: int = 40, stream: bool = False, seed: Optional[int] = None,
            tfs_z: float = 1.0, mirostat_mode: int = 0, mirostat_tau: float = 5.0, mirostat_eta: float = 0.1,
            model: Optional[str] = None, stopping_criteria: Optional[_Criterion] = None,
            logits_processor: Optional[_Processor] = None, grammar: Optional[LlamaGrammar] = None,
            logit_bias: Optional[Mapping[Any, float]] = None) -> Any: ...
    __call__ = create_completion
    # stream: True gives Iterator[CreateChatCompletionStreamResponse], False CreateChatCompletionResponse.
    def create_chat_completion(
            self, messages: _Messages, functions: Optional[Sequence[Mapping[str, Any]]] = None,
            function_call: Optional[ChatCompletionRequestFunctionCall] = None,
            tools: Optional[Sequence[Mapping[str, Any]]] = None,
            tool_choice: Optional[ChatCompletionToolChoiceOption] = None, temperature: float = 0.2,
            top_p: float = 0.95, top_k: int = 40, min_p: float = 0.05, typical_p: float = 1.0,
            stream: bool = False, stop: _Stop = (), seed: Optional[int] = None,
            response_format: Optional[Mapping[str, Any]] = None, max_tokens: Optional[int] = None,
            presence_penalty: float = 0.0, frequency_penalty: float = 0.0, repeat_penalty: float = 1.0,
            tfs_z: float = 1.0, mirostat_mode: int = 0, mirostat_tau: float = 5.0, mirostat_eta: float = 0.1,
            model: Optional[str] = None, logits_processor: Optional[_Processor] = None,
            grammar: Optional[LlamaGrammar] = None, logit_bias: Optional[Mapping[Any, float]] = None,
            logprobs: Optional[bool] = None, top_logprobs: Optional[int] = None) -> Any: ...
    def create_chat_completion_openai_v1(self, *args: Any, **kwargs: Any) -> Any: ...
    def create_embedding(self, input: Union[str, List[str]],
                         model: Optional[str] = None) -> CreateEmbeddingResponse: ...
    def embed(self, input: Union[str, List[str]], normalize: bool = False, truncate: bool = True,
              return_count: bool = False) -> Any: ...
    def save_state(self) -> LlamaState: ...
    def load_state(self, state: LlamaState) -> None: ...
    def close(self) -> None: ...
    @staticmethod
    def logits_to_logprobs(logits: Any, axis: int = -1) -> Any: ...
    @staticmethod
    def longest_token_prefix(a: Sequence[int], b: Sequence[int]) -> int: ...
    @classmethod
    def from_pretrained(cls, repo_id: str, filename: str, additional_files: Optional[List[str]] = None,
                        local_dir: Union[str, PathLike[str], None] = None,
                        local_dir_use_symlinks: Union[bool, str] = "auto",
                        cache_dir: Union[str, PathLike[str], None] = None, **kwargs: Any) -> Llama: ...
