from os import PathLike
from types import TracebackType
from typing import (Any, Iterator, List, Literal, Mapping, Optional, Sequence, Tuple, Type, Union,
                    overload)

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
from ._train import Training as Training
from ._train import TrainPlan as TrainPlan
from ._train import TrainStep as TrainStep
from ._train import train as train

__all__ = ["LLM", "plan", "Plan", "Ledger", "Line", "Error", "OverBudget", "Cancelled", "__version__",
           "place", "Placement", "Pool", "PoolStats", "Block",
           "train", "Training", "TrainPlan", "TrainStep",
           "report", "Report", "ReportOwner", "ReportLeak", "ReportOperator"]

__version__: str

class Error(RuntimeError):
    status: Optional[int]

class OverBudget(Error):
    needed: Optional[int]
    budget: Optional[int]
    least: Optional[str]
    knob: Optional[Tuple[str, int]]

class Cancelled(Error): ...

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

_Size = Union[int, str, None]
_KV = Literal["f16", "q8_0", "auto", "f32"]
_Pooling = Optional[Literal["mean", "cls", "last"]]
_Messages = Union[str, Sequence[Mapping[str, Any]]]

class LLM:
    plan: Plan
    def __init__(self, path: Union[str, PathLike[str]], memory: _Size = None, ctx: int = 0, *,
                 kv: _KV = "f16", threads: int = 0, template: Optional[str] = None,
                 load: bool = True) -> None: ...
    @property
    def ledger(self) -> Ledger: ...
    def load(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> LLM: ...
    def __exit__(self, kind: Optional[Type[BaseException]], value: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None: ...
    def tokenize(self, text: str, special: bool = True) -> List[int]: ...
    def detokenize(self, ids: Sequence[int]) -> str: ...
    @overload
    def embed(self, texts: str, pooling: _Pooling = None) -> List[float]: ...
    @overload
    def embed(self, texts: Union[List[str], Tuple[str, ...]],
              pooling: _Pooling = None) -> List[List[float]]: ...
    @overload
    def generate(self, prompt: Union[str, Sequence[int]], max_tokens: int = 256, *,
                 temperature: Optional[float] = None, seed: int = 0, top_k: Optional[int] = None,
                 top_p: Optional[float] = None, min_p: Optional[float] = None,
                 repeat_penalty: Optional[float] = None, stream: Literal[False] = False) -> str: ...
    @overload
    def generate(self, prompt: Union[str, Sequence[int]], max_tokens: int = 256, *,
                 temperature: Optional[float] = None, seed: int = 0, top_k: Optional[int] = None,
                 top_p: Optional[float] = None, min_p: Optional[float] = None,
                 repeat_penalty: Optional[float] = None, stream: Literal[True]) -> Iterator[str]: ...
    @overload
    def chat(self, messages: _Messages, max_tokens: int = 0, *,
             tools: Optional[Sequence[Mapping[str, Any]]] = None, temperature: Optional[float] = None,
             seed: int = 0, top_k: Optional[int] = None, top_p: Optional[float] = None,
             min_p: Optional[float] = None, repeat_penalty: Optional[float] = None,
             stream: Literal[False] = False) -> str: ...
    @overload
    def chat(self, messages: _Messages, max_tokens: int = 0, *,
             tools: Optional[Sequence[Mapping[str, Any]]] = None, temperature: Optional[float] = None,
             seed: int = 0, top_k: Optional[int] = None, top_p: Optional[float] = None,
             min_p: Optional[float] = None, repeat_penalty: Optional[float] = None,
             stream: Literal[True]) -> Iterator[str]: ...

def plan(path: Union[str, PathLike[str]], memory: _Size = None, ctx: int = 0, *, kv: _KV = "f16",
         threads: int = 0, template: Optional[str] = None) -> Plan: ...
