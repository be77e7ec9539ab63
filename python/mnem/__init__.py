"""mnem: language models inside a byte budget.

    import mnem
    with mnem.LLM("model.gguf", memory="300M", ctx=512) as llm:
        print(llm.plan)
        print(llm.generate("In the beginning", max_tokens=32))
"""
from ._library import VERSION as __version__
from ._library import Cancelled, Error, OverBudget
from ._budget import Budget
from ._llm import LLM, plan
from ._tables import Ledger, Line, Plan
from ._text import Text, TokenLogprob

__all__ = ["Budget", "LLM", "plan", "Text", "TokenLogprob", "Plan", "Ledger", "Line", "Error",
           "OverBudget", "Cancelled", "__version__"]
