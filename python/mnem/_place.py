"""place: offsets for buffers whose sizes and lifetimes are known before a run.

The search runs in a thread of its own, so that Ctrl-C ends it between two of its milliseconds."""
# mypy: allow-untyped-calls
import array
import ctypes as C
import operator
from typing import Any, Iterable, List, Optional, Sequence, Tuple, Union

from . import _declarations_more as D
from ._library import check, declare, lib, size_parse, size_text
from ._worker import Worker

declare(D.FUNCTIONS)
_Numbers = Union[Sequence[int], Any]  # a list, a NumPy array, anything with a buffer
_Gap = Union[Tuple[int, int], Tuple[int, int, int, int]]
_FIELDS = 5  # of mnem_place_buffer, 8 bytes each: lower, upper, bytes, alignment, offset


def _whole(name: str, row: int, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"mnem: {name}[{row}] is {value!r}, expected a whole number") from None
    if not -2**63 <= number < 2**63:
        raise ValueError(f"mnem: {name}[{row}] is {number}, expected a number of 64 bits")
    return number


def _column(name: str, values: _Numbers, n: Optional[int] = None, least: int = -2**63) -> "array.array[int]":
    """The numbers of a list, an array or a buffer; n: how many there must be."""
    if not isinstance(values, (list, tuple, range)):
        try:
            buffer: Any = values
            values = memoryview(buffer).tolist()
        except TypeError:
            values = list(values)
    if n is not None and len(values) != n:
        raise ValueError(f"mnem: {name} has {len(values)} rows, but lower has {n}")
    try:
        column = array.array("q", values)
    except (TypeError, OverflowError):
        column = array.array("q", [_whole(name, row, value) for row, value in enumerate(values)])
    if column and min(column) < least:
        row = next(row for row, value in enumerate(column) if value < least)
        raise ValueError(f"mnem: {name}[{row}] is {column[row]}, expected {least} or more")
    return column


class Placement:
    """Where each buffer begins, and how good that is.

    offsets: a list; peak: the highest offset + size; lower_bound: no placement has a lower peak; total: all
    sizes together; proven: no placement has a lower peak than this one, or, with a capacity, this one is
    within it or none is; fits: the peak is within the capacity; decisions: of the exact search."""

    def __init__(self, offsets: List[int], result: Any, capacity: int) -> None:
        self.offsets = offsets
        self.peak: int = result.peak_bytes
        self.lower_bound: int = result.lower_bound_bytes
        self.total: int = result.total_bytes
        self.capacity = capacity or None
        self.fits: bool = not capacity or self.peak <= capacity
        self.proven: bool = result.verdict != D.MNEM_PLACE_FEASIBLE or (bool(capacity) and self.fits)
        self.decisions: int = result.nodes

    def __len__(self) -> int:
        return len(self.offsets)

    def __str__(self) -> str:
        rows = [("buffers", f"{len(self):,}", ""), ("peak", f"{self.peak:,}", size_text(self.peak)),
                ("lower bound", f"{self.lower_bound:,}", size_text(self.lower_bound)),
                ("without reuse", f"{self.total:,}", size_text(self.total))]
        if self.capacity:
            rows.append(("capacity", f"{self.capacity:,}", "fits" if self.fits else "too small"))
        rows.append(("proven", "yes" if self.proven else "no", ""))
        return "\n".join(f"{name:<14} {number:>20}  {text}".rstrip() for name, number, text in rows)

    def __repr__(self) -> str:
        return (f"<mnem.Placement of {len(self)} buffers, peak {size_text(self.peak)}"
                f"{', proven' if self.proven else ''}>")


def _others(rows: Any, n: int, name: str, given: Any) -> None:
    """Of each row the number of another one, or None."""
    if given is None:
        return
    if len(given) != n:
        raise ValueError(f"mnem: {name} has {len(given)} rows, but lower has {n}")
    for row, other in enumerate(given):
        if other is not None:
            if not 0 <= _whole(name, row, other) < n or other == row:
                raise ValueError(f"mnem: {name}[{row}] is {other}, expected the number of another row, or None")
            setattr(rows[row], name, int(other) + 1)


def _constrain(buffers: Any, n: int, gaps: Any, fixed: Any, hints: Any, in_place: Any,
               same_as: Any) -> Tuple[Any, List[Any]]:
    """The constraints of the rows, and what they point to."""
    if all(given is None for given in (gaps, fixed, hints, in_place, same_as)):
        return None, []
    rows = (D.mnem_place_constraint * n)()
    _others(rows, n, "in_place", in_place)
    _others(rows, n, "same_as", same_as)
    held: List[Any] = []
    for name, given, flag in ("hints", hints, "hinted"), ("fixed", fixed, "fixed"):
        if given is None:
            continue
        if len(given) != n:
            raise ValueError(f"mnem: {name} has {len(given)} rows, but lower has {n}")
        for row, offset in enumerate(given):
            if offset is None or _whole(name, row, offset) == -1:
                continue
            if _whole(name, row, offset) < 0:
                raise ValueError(f"mnem: {name}[{row}] is {offset}, expected 0 or more, or None")
            buffers[row].offset = int(offset)
            setattr(rows[row], flag, True)
    if gaps is None:
        return rows, held
    if len(gaps) != n:
        raise ValueError(f"mnem: gaps has {len(gaps)} rows, but lower has {n}")
    for row, given in enumerate(gaps):
        if given:
            held.append(_gaps(row, given))
            rows[row].gaps, rows[row].gap_count = held[-1], len(held[-1])
    return rows, held


def _gaps(row: int, given: Iterable[_Gap]) -> Any:
    found = []
    for gap in given:
        if len(gap) not in (2, 4):
            raise ValueError(f"mnem: gaps[{row}] has {gap!r}, expected (lower, upper) or "
                             "(lower, upper, window_lower, window_upper)")
        found.append(D.mnem_place_gap(*(_whole("gaps", row, number) for number in gap)))
    return (D.mnem_place_gap * len(found))(*found)


def place(lower: _Numbers, upper: _Numbers, size: _Numbers, *, alignment: Union[int, _Numbers] = 1,
          gaps: Optional[Sequence[Optional[Iterable[_Gap]]]] = None,
          fixed: Optional[Sequence[Optional[int]]] = None, hints: Optional[Sequence[Optional[int]]] = None,
          in_place: Optional[Sequence[Optional[int]]] = None,
          same_as: Optional[Sequence[Optional[int]]] = None, capacity: Union[int, str, None] = None, seconds: float = 1.0, seed: int = 0,
          steps: int = 0) -> Placement:
    """Offsets at which no two buffers that are alive at one time overlap, with a low peak.

    lower, upper, size: of each buffer, the lifetime [lower, upper) and the bytes; lists, NumPy arrays or
    anything with a buffer. alignment: of all or of each, powers of two. gaps: of each buffer None or a list
    of (lower, upper), in which it isn't used, or (lower, upper, a, b), in which only its bytes [a, b) are.
    fixed, hints: of each buffer the offset that it has, or should rather have; None: any. in_place: of each
    buffer another one, at whose offset it may begin although both are alive (an output over the input that
    dies in its step). same_as: another one whose offset it has. capacity: stop at the first placement within
    it. seconds: time limit. steps: limit of placements tried, which gives the
    same result on every machine (0: none).

    A ValueError or mnem.Error names the first row that is wrong. A capacity that is too small isn't an
    error: see Placement.fits."""
    begin = _column("lower", lower)
    n = len(begin)
    table = array.array("q", bytes(8 * _FIELDS * n))
    table[0::_FIELDS] = begin
    table[1::_FIELDS] = _column("upper", upper, n)
    table[2::_FIELDS] = _column("size", size, n, 0)
    every = [alignment] * n if isinstance(alignment, int) else alignment
    table[3::_FIELDS] = _column("alignment", every, n, 1)
    if not n:
        return Placement([], D.mnem_place_result(verdict=D.MNEM_PLACE_OPTIMAL), 0)
    buffers = (D.mnem_place_buffer * n).from_buffer(table)
    constraints, held = _constrain(buffers, n, gaps, fixed, hints, in_place, same_as)
    return _solve(table, buffers, constraints, size_parse(capacity), (seconds, seed, steps))


def _solve(table: "array.array[int]", buffers: Any, constraints: Any, capacity: int,
           limits: Tuple[float, int, int]) -> Placement:
    asked: List[bool] = []  # not empty: stop
    stop = D.mnem_place_options._fields_[4][1](lambda _: bool(asked))
    seconds, seed, steps = limits
    options = D.mnem_place_options(capacity_bytes=capacity, seconds=seconds, seed=seed, steps_max=steps,
                                   stop=stop)
    result = D.mnem_place_result()

    def run(job: Any) -> None:
        check(lib.mnem_place_solve_constrained(buffers, constraints, len(buffers), C.byref(options),
                                               C.byref(result)))

    worker = Worker("mnem place")
    worker.cancel = lambda: asked.append(True)
    try:
        worker.call(run)
    finally:
        worker.end()
    return Placement(list(table[_FIELDS - 1::_FIELDS]), result, capacity)
