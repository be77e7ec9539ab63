"""Plans and ledgers as objects that print as tables."""
# mypy: ignore-errors
from ._library import lib, size_text


class Line:
    """Bytes of one kind and tag; of a ledger also the most there were."""

    def __init__(self, kind, tag, bytes, peak=None):
        self.kind, self.tag, self.bytes, self.peak = kind, tag, bytes, peak

    def __repr__(self):
        return f"Line({self.kind!r}, {self.tag!r}, {self.bytes})"


def _kind(kind):
    return lib.mnem_kind_text(kind).decode()


def _table(lines, last):
    rows = [(line.kind, line.tag, line.bytes) for line in lines if line.bytes]
    return "\n".join(f"{kind:<11} {tag:<24} {n:>15,}  {size_text(n):>10}" for kind, tag, n in rows + last)


class Plan:
    """What a model takes, decided before a weight is read; the lines sum to `peak`."""

    def __init__(self, plan):
        self.context, self.chunk, self.threads = plan.context, plan.chunk, plan.threads
        self.budget, self.peak = plan.budget_bytes, plan.peak_bytes
        self.layers, self.layers_resident = plan.layers, plan.layers_resident
        self.streamed = plan.streamed
        self.why = plan.why.decode(errors="replace")
        self.lines = [Line(_kind(at.kind), at.tag.decode(), at.bytes) for at in plan.line[:plan.lines]]

    def __str__(self):
        end = [("peak", "", self.peak)] + ([("budget", "", self.budget)] if self.budget else [])
        return (f"{_table(self.lines, end)}\ncontext {self.context} tokens, {self.chunk} prompt tokens at "
                f"once, {self.layers_resident} of {self.layers} layers resident")

    def __repr__(self):
        return f"<mnem.Plan of {size_text(self.peak)}, context {self.context}>"


class Ledger:
    """What the process has charged at the moment it was asked; the lines sum to `live`."""

    def __init__(self, info, accounts):
        self.budget, self.live, self.peak = info.budget_bytes, info.bytes_live, info.bytes_peak
        self.lines = [Line(_kind(at.kind), at.tag.decode(), at.bytes_live, at.bytes_peak)
                      for at in accounts]

    def __str__(self):
        return _table(self.lines, [("live", "", self.live), ("peak", "", self.peak),
                                   ("budget", "", self.budget)])

    def __repr__(self):
        return f"<mnem.Ledger: {size_text(self.live)} of {size_text(self.budget)}>"
