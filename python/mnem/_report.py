"""report: where the bytes of a trace went, as an object that prints as a table.

A file is read by the library (report.h). A finished run of the history, by its number or its folder, is what
only the command knows: `mnem report --json` is called for it."""
# mypy: allow-untyped-calls
import ctypes as C
import json
import os
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Union

from . import _declarations_more as D
from .__main__ import command_path
from ._library import Error, check, declare, lib, size_text
from ._worker import Worker

declare(D.FUNCTIONS)


class ReportOwner(NamedTuple):
    """Who held bytes: at the peak of all, at the owner's own peak, and at the end. site: a line of code."""

    kind: str
    tag: str
    site: str
    bytes_at_peak: int
    bytes_peak: int
    bytes_end: int
    blocks_at_peak: int


class ReportLeak(NamedTuple):
    """Blocks that were never freed. growing: some of them came in each quarter of the record."""

    kind: str
    tag: str
    site: str
    bytes: int
    blocks: int
    growing: bool


class ReportOperator(NamedTuple):
    """Spans of one name. ns: of all of them, what runs within included; bytes: moved, 0: not recorded."""

    name: str
    sort: str
    times: int
    ns: int
    bytes: int


class Report:
    """metrics: the numbers of docs/report.md by name, None where the record doesn't tell; peak and budget in
    bytes (budget 0: none); tags and sites: the owners of bytes, most first; leaks; operators, most time first;
    format and program: what the file is, and of which program."""

    def __init__(self, name: str, about: Dict[str, Any]) -> None:
        self.name = name
        self.format: str = about["format"]
        self.program: str = about["program"] or ""
        self.metrics: Dict[str, Optional[float]] = about["metrics"]
        self.budget: int = about["budget_bytes"] or 0
        self.peak = int(self.metrics["peak"] or 0)
        self.tags = [_pick(ReportOwner, row) for row in about["tags"]]
        self.sites = [_pick(ReportOwner, row) for row in about["sites"]]
        self.leaks = [_pick(ReportLeak, row) for row in about["leaks"]]
        self.operators = [_pick(ReportOperator, row) for row in about["operators"]]

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.format}" + (f" of {self.program}" if self.program else "")]
        for name, number in self.metrics.items():
            if number is not None:
                shown = f"{number:,.6g}" if isinstance(number, float) and number % 1 else f"{int(number):,}"
                lines.append(f"{name:<17} {shown:>18}")
        lines += _table("at peak", self.tags) + _table("by line of code", self.sites)
        for leak in self.leaks[:_SHOWN]:
            lines.append(f"leak  {_owner(leak):<40} {leak.bytes:>15,}  {leak.blocks} blocks"
                         + (", growing" if leak.growing else ""))
        for at in self.operators[:_SHOWN]:
            lines.append(f"{at.name[:46]:<46} {at.ns / 1e6:>12,.2f} ms  {at.times:,} times")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<mnem.Report of {self.name}: peak {size_text(self.peak)}>"


_SHOWN = 10


def _pick(kind: Any, row: Dict[str, Any]) -> Any:
    return kind(*(row.get(key) for key in kind._fields))


def _owner(at: Any) -> str:
    return " ".join(part for part in (at.kind, at.tag, at.site) if part)


def _table(title: str, rows: List[ReportOwner]) -> List[str]:
    found = [f"{_owner(at):<46} {at.bytes_at_peak:>15,}  {size_text(at.bytes_at_peak):>10}"
             for at in rows[:_SHOWN]]
    return [title, *found] if found else []


# ---- a file ----

def _text(text: Optional[bytes]) -> str:
    return text.decode(errors="replace") if text else ""


def _owners(first: Any, count: int) -> List[Dict[str, Any]]:
    return [dict(kind=_text(at.kind), tag=_text(at.tag), site=_text(at.site), bytes_at_peak=at.bytes_at_peak,
                 bytes_peak=at.bytes_most, bytes_end=at.bytes_end, blocks_at_peak=at.blocks_at_peak)
            for at in first[:count]]


def _metrics(facts: Any) -> Dict[str, Optional[float]]:
    found: Dict[str, Optional[float]] = {}
    value = C.c_double()
    for metric in range(D.MNEM_REPORT_METRICS):
        about = lib.mnem_report_metric_get(metric)
        known = lib.mnem_report_measure(facts, metric, C.byref(value))
        whole = about.unit != b"%" and value.value == int(value.value)
        found[_text(about.key)] = (int(value.value) if whole else value.value) if known else None
    return found


def _read(path: str, rank: int, device: Optional[int], job: Any) -> Dict[str, Any]:
    report = C.POINTER(D.mnem_report)()
    tell = D.mnem_progress._fields_[0][1](lambda *_: not job.cancelled)
    options = D.mnem_report_options(device_given=device is not None, device=device or 0, rank=rank + 1 if rank else 0,
                                    progress=D.mnem_progress(tell=tell))
    check(lib.mnem_report_create(os.fsencode(path), C.byref(options), C.byref(report)))
    try:
        facts = lib.mnem_report_facts_get(report)
        at = facts[0]
        return dict(
            format=_text(at.format), program=_text(at.program), budget_bytes=at.budget_bytes,
            metrics=_metrics(facts), tags=_owners(at.account, at.accounts), sites=_owners(at.site, at.sites),
            leaks=[dict(kind=_text(one.kind), tag=_text(one.tag), site=_text(one.site), bytes=one.bytes,
                        blocks=one.blocks, growing=one.growing) for one in at.leak[:at.leaks]],
            operators=[dict(name=_text(one.name), sort=_text(one.sort), times=one.count, ns=one.ns_total,
                            bytes=one.bytes) for one in at.op[:at.ops]])
    finally:
        lib.mnem_report_destroy(report)


# ---- a run of the history ----

def _ask(name: str) -> Dict[str, Any]:
    done = subprocess.run([command_path(), "report", "--json", "--", name], capture_output=True, text=True)
    if done.returncode:
        raise Error(done.stderr.strip() or f"mnem: mnem report {name} ended with {done.returncode}")
    found: Dict[str, Any] = json.loads(done.stdout)
    rows = found.get("operators") or []
    found["operators"] = [{**row, "ns": row["ns_total"], "times": row["count"]} for row in rows]
    return {**found, "sites": found.get("sites") or [], "leaks": found.get("leaks") or []}


def report(path: Union[str, "os.PathLike[str]", int], *, rank: int = 0, device: Optional[int] = None) -> Report:
    """The report of a trace (what --trace of the command writes, a PyTorch memory snapshot, or text), or of
    a finished run of the command's history: its number, or the folder of a training run.

    rank: of a trace of several ranks. device: of a snapshot of several devices (default: the one with most
    events)."""
    if isinstance(path, int) or os.path.isdir(path):
        return Report(str(path), _ask(str(path)))
    worker: Any = Worker("mnem report")
    name = os.fspath(path)
    try:
        return Report(name, worker.call(lambda job: _read(name, rank, device, job)))
    finally:
        worker.end()
