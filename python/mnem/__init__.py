"""mnem: language models inside a byte budget.

    import mnem
    with mnem.LLM("model.gguf", memory="300M", ctx=512) as llm:
        print(llm.plan)
        print(llm.generate("In the beginning", max_tokens=32))
"""
from importlib import import_module as _import

from ._library import VERSION as __version__
from ._library import Cancelled, Error, OverBudget
from ._budget import Budget
from ._llm import LLM, plan
from ._tables import Ledger, Line, Plan
from ._text import Text, TokenLogprob

__all__ = ["Budget", "LLM", "plan", "Text", "TokenLogprob", "Plan", "Ledger", "Line", "Error",
           "OverBudget", "Cancelled", "__version__"]

# Loaded when they are first used.
_LATER = {"_place": ["place", "Placement"], "_pool": ["Pool", "PoolStats", "Block"],
          "_train": ["train", "Training", "TrainPlan", "TrainStep"],
          "_report": ["report", "Report", "ReportOwner", "ReportLeak", "ReportOperator"],
          "_trace": ["Trace"]}
__all__ += [name for names in _LATER.values() for name in names]


def __getattr__(name):
    for module, names in _LATER.items():
        if name in names:
            found = globals()[name] = getattr(_import("." + module, __name__), name)
            return found
    raise AttributeError(f"module 'mnem' has no attribute {name!r}")
