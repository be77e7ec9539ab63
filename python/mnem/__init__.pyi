from os import PathLike
from types import TracebackType
from typing import (Any, AsyncGenerator, Callable, Coroutine, Dict, Iterator, List, Literal, Mapping,
                    NamedTuple, Optional,
                    Protocol, Sequence, Tuple, Type, TypedDict, Union, overload)
from typing_extensions import Unpack

__all__ = ["Budget", "LLM", "plan", "Text", "TokenLogprob", "Plan", "Ledger", "Line", "Error",
           "OverBudget", "Cancelled", "__version__"]

__version__: str

class Error(RuntimeError):
    status: Optional[int]
    def __init__(self, text: str, status: Optional[int] = None) -> None: ...

class OverBudget(Error):
    needed: Optional[int]
    budget: Optional[int]
    least: Optional[str]
    knob: Optional[Tuple[str, Union[int, str, None]]]
    def __init__(self, text: str, needed: Optional[int] = None, budget: Optional[int] = None,
                 least: Optional[str] = None,
                 knob: Optional[Tuple[str, Union[int, str, None]]] = None) -> None: ...

class Cancelled(Error): ...

from ._place import Placement as Placement
from ._place import place as place
from ._pool import Block as Block
from ._pool import Pool as Pool
from ._pool import PoolStats as PoolStats
from ._report import Report as Report
from ._report import ReportLeak as ReportLeak
from ._report import ReportOperator as ReportOperator
from ._report import ReportOwner as ReportOwner
from ._report import report as report
from ._trace import Trace as Trace
from ._train import Training as Training
from ._train import TrainPlan as TrainPlan
from ._train import TrainStep as TrainStep
from ._train import train as train

__all__ += ["place", "Placement", "Pool", "PoolStats", "Block", "train", "Training", "TrainPlan", "TrainStep",
            "report", "Report", "ReportOwner", "ReportLeak", "ReportOperator", "Trace"]

class Line:
    kind: str
    tag: str
    bytes: int
    peak: Optional[int]

class Plan:
    context: int
    chunk: int
    threads: int
    budget: int
    peak: int
    layers: int
    layers_resident: int
    streamed: bool
    why: str
    lines: List[Line]

class Ledger:
    budget: int
    live: int
    peak: int
    lines: List[Line]

class TokenLogprob(NamedTuple):
    token: int
    text: str
    logprob: float
    top: List[Tuple[int, str, float]]

class Text(str):
    tokens: List[int]
    finish: Optional[Literal["stop", "length"]]
    logprobs: Optional[List[TokenLogprob]]
    prompt_tokens: int
    def __new__(cls, text: str = "", tokens: Sequence[int] = (),
                finish: Optional[Literal["stop", "length"]] = None,
                logprobs: Optional[List[TokenLogprob]] = None, prompt_tokens: int = 0) -> Text: ...

_Size = Union[int, str, None]
_KV = str  # "f16", "q8_0", "q4_0", "f32", "auto", or two of the first four: "q8_0:q4_0"
_Pooling = Optional[Literal["mean", "cls", "last"]]
_Messages = Union[str, Sequence[Mapping[str, Any]]]
_Tools = Optional[Sequence[Mapping[str, Any]]]
_Arguments = Optional[Mapping[str, Any]]
_Prompt = Union[str, Sequence[int]]

class _Schema(Protocol):
    @classmethod
    def model_json_schema(cls) -> Dict[str, Any]: ...

class _Options(TypedDict, total=False):
    temperature: Optional[float]
    seed: Optional[int]
    top_k: Optional[int]
    top_p: Optional[float]
    min_p: Optional[float]
    repeat_penalty: Optional[float]
    repeat_last: Optional[int]
    presence_penalty: Optional[float]
    frequency_penalty: Optional[float]
    dry_multiplier: Optional[float]
    dry_base: Optional[float]
    dry_allowed_length: Optional[int]
    dry_penalty_last: Optional[int]
    dry_breakers: Optional[Sequence[str]]
    xtc_probability: Optional[float]
    xtc_threshold: Optional[float]
    logit_bias: Union[Mapping[int, float], Mapping[str, float], None]
    stop: Union[str, Sequence[str], None]
    logprobs: Optional[int]
    ignore_end: bool
    schema: Union[Mapping[str, Any], Type[_Schema], None]
    grammar: Optional[str]
    on_logits: Optional[Callable[[List[int], Any], Optional[Sequence[float]]]]

class Budget:
    def __init__(self, size: _Size) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def used(self) -> int: ...
    @property
    def peak(self) -> int: ...
    @property
    def ledger(self) -> Ledger: ...

_Path = Union[str, PathLike[str]]
_Adapter = Union[_Path, Tuple[_Path, float]]
_Conversations = Sequence[Sequence[Mapping[str, Any]]]
_Prompts = Union[List[str], Tuple[str, ...], Sequence[Sequence[int]]]

class LLM:
    plan: Plan
    path: str
    def __init__(self, path: _Path, memory: _Size = None, ctx: int = 0, *, parallel: int = 1,
                 kv: _KV = "f16", threads: int = 0, chunk: int = 0,
                 lora: Union[_Adapter, List[_Adapter], None] = None, template: Optional[str] = None,
                 load: bool = True) -> None: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def vocab(self) -> int: ...
    @property
    def ctx(self) -> int: ...
    @property
    def bos(self) -> Optional[int]: ...
    @property
    def eos(self) -> Optional[int]: ...
    @property
    def metadata(self) -> Dict[str, str]: ...
    def load(self) -> None: ...
    def reset(self) -> None: ...
    def save(self, path: _Path) -> None: ...
    def load_state(self, path: _Path) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> LLM: ...
    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None: ...
    def tokenize(self, text: str, special: bool = True) -> List[int]: ...
    def detokenize(self, ids: Sequence[int]) -> str: ...
    def template(self, messages: _Messages, tools: _Tools = None,
                 template_args: _Arguments = None) -> str: ...
    @overload
    def embed(self, texts: str, pooling: _Pooling = None) -> List[float]: ...
    @overload
    def embed(self, texts: Union[List[str], Tuple[str, ...]],
              pooling: _Pooling = None) -> List[List[float]]: ...
    def logits(self, prompt: _Prompt) -> Sequence[float]: ...
    @overload
    def generate(self, prompt: _Prompt, max_tokens: Optional[int] = 256, *,
                 stream: Literal[False] = False, **options: Unpack[_Options]) -> Text: ...
    @overload
    def generate(self, prompt: _Prompts, max_tokens: Optional[int] = 256, *,
                 stream: Literal[False] = False, **options: Unpack[_Options]) -> List[Text]: ...
    @overload
    def generate(self, prompt: _Prompt, max_tokens: Optional[int] = 256, *, stream: Literal[True],
                 **options: Unpack[_Options]) -> Iterator[Text]: ...
    @overload
    def chat(self, messages: _Messages, max_tokens: Optional[int] = 0, *, tools: _Tools = None,
             template_args: _Arguments = None, stream: Literal[False] = False,
             **options: Unpack[_Options]) -> Text: ...
    @overload
    def chat(self, messages: _Conversations, max_tokens: Optional[int] = 0, *, tools: _Tools = None,
             template_args: _Arguments = None, stream: Literal[False] = False,
             **options: Unpack[_Options]) -> List[Text]: ...
    @overload
    def chat(self, messages: _Messages, max_tokens: Optional[int] = 0, *, tools: _Tools = None,
             template_args: _Arguments = None, stream: Literal[True],
             **options: Unpack[_Options]) -> Iterator[Text]: ...
    @overload
    def agenerate(self, prompt: _Prompt, max_tokens: Optional[int] = 256, *,
                  stream: Literal[False] = False,
                  **options: Unpack[_Options]) -> Coroutine[Any, Any, Text]: ...
    @overload
    def agenerate(self, prompt: _Prompts, max_tokens: Optional[int] = 256, *,
                  stream: Literal[False] = False,
                  **options: Unpack[_Options]) -> Coroutine[Any, Any, List[Text]]: ...
    @overload
    def agenerate(self, prompt: _Prompt, max_tokens: Optional[int] = 256, *, stream: Literal[True],
                  **options: Unpack[_Options]) -> AsyncGenerator[Text, None]: ...
    @overload
    def achat(self, messages: _Messages, max_tokens: Optional[int] = 0, *, tools: _Tools = None,
              template_args: _Arguments = None, stream: Literal[False] = False,
              **options: Unpack[_Options]) -> Coroutine[Any, Any, Text]: ...
    @overload
    def achat(self, messages: _Conversations, max_tokens: Optional[int] = 0, *, tools: _Tools = None,
              template_args: _Arguments = None, stream: Literal[False] = False,
              **options: Unpack[_Options]) -> Coroutine[Any, Any, List[Text]]: ...
    @overload
    def achat(self, messages: _Messages, max_tokens: Optional[int] = 0, *, tools: _Tools = None,
              template_args: _Arguments = None, stream: Literal[True],
              **options: Unpack[_Options]) -> AsyncGenerator[Text, None]: ...

def plan(path: _Path, memory: _Size = None, ctx: int = 0, *, parallel: int = 1, kv: _KV = "f16",
         threads: int = 0, chunk: int = 0, lora: Union[_Adapter, List[_Adapter], None] = None,
         template: Optional[str] = None) -> Plan: ...
