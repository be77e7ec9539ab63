"""mnem: language models inside a byte budget.

    import mnem
    with mnem.LLM("model.gguf", memory="300M", ctx=512) as llm:
        print(llm.plan)
        print(llm.generate("In the beginning", max_tokens=32))
"""
from importlib import import_module as _import

from ._library import VERSION as __version__
from ._library import Cancelled, Error, OverBudget
from ._llm import LLM, plan
from ._tables import Ledger, Line, Plan

__all__ = ["LLM", "plan", "Plan", "Ledger", "Line", "Error", "OverBudget", "Cancelled", "__version__",
           "place", "Placement", "Pool", "PoolStats", "Block",
           "train", "Training", "TrainPlan", "TrainStep",
           "report", "Report", "ReportOwner", "ReportLeak", "ReportOperator"]
_LATER = {"place": "_place", "Placement": "_place", "Pool": "_pool", "PoolStats": "_pool",
          "Block": "_pool", "train": "_train", "Training": "_train", "TrainPlan": "_train",
          "TrainStep": "_train", "report": "_report", "Report": "_report", "ReportOwner": "_report",
          "ReportLeak": "_report", "ReportOperator": "_report"}  # loaded when it is first used


def __getattr__(name):
    if name not in _LATER:
        raise AttributeError(f"module 'mnem' has no attribute {name!r}")
    found = globals()[name] = getattr(_import("." + _LATER[name], __name__), name)
    return found
