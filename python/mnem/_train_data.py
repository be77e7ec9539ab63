"""Conversations to rows of tokens in which only the answers count, as `mnem train` makes them.

An answer is what the template writes between the text up to where an answer begins and the text with the
answer at its end. Text that grows so is one row for a whole conversation; a template that writes earlier
messages anew gives a row for each answer."""
import ctypes as C
import json
from typing import Any, Iterator, List, Optional, Tuple

from . import _declarations_more as D
from ._library import check, lib, text_of

_DAY = 1721952000  # what a template that asks for the date gets, on every day of a run
_Row = Tuple[List[int], List[bool]]


def data_kind(path: str) -> str:
    """"chat" for JSON lines of messages, "text" for text."""
    with open(path, "rb") as file:
        begin = file.read(1 << 16)
    if begin.lstrip()[:1] not in (b"{", b"["):
        return "text"
    try:
        line = json.loads(begin.lstrip().split(b"\n", 1)[0])
    except ValueError:
        line = None
    if isinstance(line, dict) and isinstance(line.get("messages"), list):
        return "chat"
    raise ValueError(f"mnem: {path} is JSON, but not lines of {{\"messages\": [...]}}: the command mnem "
                     "train reads other records, too")


def conversations(paths: List[str]) -> Iterator[Tuple[Any, Any, str]]:
    """Messages and tools of each line, and where it stands."""
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                where = f"{path}, line {number}"
                try:
                    record = json.loads(line)
                except ValueError as wrong:
                    raise ValueError(f"mnem: {where}: {wrong}") from None
                messages = record.get("messages") if isinstance(record, dict) else None
                if not messages or not all(isinstance(m, dict) and "role" in m for m in messages):
                    raise ValueError(f"mnem: {where} has no list of messages, each with a role")
                yield messages, record.get("tools"), where


def _common(a: List[int], b: List[int]) -> int:
    n = min(len(a), len(b))
    return next((i for i in range(n) if a[i] != b[i]), n)


class Rows:
    """The rows of conversations, by a template that stays open until close."""

    def __init__(self, tokenizer: Any, source: bytes) -> None:
        self.tokenizer = tokenizer
        self.template = C.POINTER(D.mnem_template)()
        self.key = 0xcbf29ce484222325  # FNV-1a
        for byte in source:
            self.key = (self.key ^ byte) * 0x100000001b3 & 2**64 - 1
        options = D.mnem_template_options(clock=_DAY)
        check(lib.mnem_template_open(source, len(source), C.byref(options), C.byref(self.template)))

    def close(self) -> None:
        lib.mnem_template_close(self.template)

    def render(self, messages: Any, tools: Any, opening: bool) -> List[int]:
        ids, n = C.POINTER(C.c_int32)(), C.c_size_t()
        data = D.mnem_template_input(messages=json.dumps(messages).encode(),
                                     tools=json.dumps(tools).encode() if tools else None,
                                     add_generation_prompt=opening)
        check(lib.mnem_template_encode(self.template, self.tokenizer, C.byref(data), C.byref(ids),
                                       C.byref(n)))
        return ids[:n.value]

    def answer_begin(self, messages: Any, tools: Any, ids: List[int], at: int) -> int:
        before = self.render(messages[:at], tools, True)
        begin = _common(before, ids)
        if begin == len(before):
            return begin
        return max(begin, _common(self.render(messages[:at], tools, False), ids))

    def answer_end(self, ids: List[int], begin: int) -> int:
        """Behind the control token that ends an answer, not the white space after it."""
        for at in range(len(ids), begin, -1):
            piece = text_of(lib.mnem_tokenizer_piece(self.tokenizer, ids[at - 1], False))
            if not piece:
                return at
            if piece.strip(b" \t\r\n"):
                return len(ids)
        return len(ids)

    def of(self, messages: Any, tools: Any) -> Iterator[_Row]:
        row: List[int] = []
        counted: List[bool] = []
        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            ids = self.render(messages[:at + 1], tools, False)
            begin = self.answer_begin(messages, tools, ids, at)
            if _common(row, ids) < len(row):
                yield row, counted
                row, counted = [], []
            end = self.answer_end(ids, begin)
            counted = counted + [begin <= i < end for i in range(len(row), len(ids))]
            row = ids
        if row:
            yield row, counted


class RowSource:
    """The source of rows of a corpus (mnem_corpus_rows), from the lines of files."""

    def __init__(self, rows: Rows, paths: List[str], job: Any) -> None:
        self.failure: Optional[BaseException] = None
        self.job = job
        self.held: Any = None
        self.rows = self._all(rows, paths)
        self.next = D.mnem_corpus_rows._fields_[0][1](self._next)

    def _all(self, rows: Rows, paths: List[str]) -> Iterator[_Row]:
        found = False
        for messages, tools, _ in conversations(paths):
            for ids, counted in rows.of(messages, tools):
                if any(counted[1:]):
                    found = True
                    yield ids, counted
        if not found:
            raise ValueError("mnem: no conversation has an answer to train on, which is a message with the "
                             "role \"assistant\"")

    def _next(self, _: Any, out: Any) -> int:
        if self.job.cancelled:
            return int(D.MNEM_CANCELLED)
        try:
            ids, counted = next(self.rows)
        except StopIteration:
            return int(D.MNEM_NOT_FOUND)
        except BaseException as failure:  # it can't pass through C
            self.failure = failure
            return int(D.MNEM_INVALID)
        self.held = (C.c_int32 * len(ids))(*ids), (C.c_bool * len(ids))(*counted)
        out[0].ids, out[0].counted, out[0].count = self.held[0], self.held[1], len(ids)
        return int(D.MNEM_OK)
