"""Conversations to rows of tokens in which only the answers count, as `mnem train` makes them.

An answer is what the template writes between the text up to where an answer begins and the text with the
answer at its end. Text that grows so is one row for a whole conversation; a template that writes earlier
messages anew gives a row for each answer."""
# mypy: allow-untyped-calls
import ctypes as C
import json
from typing import Any, Iterator, List, Optional, Tuple

from . import _declarations_more as D
from ._library import check, lib, text_of
from ._train_records import records, turns

_DAY = 1721952000  # what a template that asks for the date gets, on every day of a run
TEXTS_KEY = 0x7465787473
_Row = Tuple[List[int], Optional[List[bool]], int]  # ids, which of them count, bytes of text


def conversations(paths: List[str]) -> Iterator[Tuple[Any, Any]]:
    """Messages and tools of each record."""
    for path in paths:
        for record, where in records(path):
            try:
                messages = turns(record)
            except (ValueError, TypeError, AttributeError) as wrong:
                raise ValueError(f"mnem: {where}: {wrong}") from None
            tools = record.get("tools") if isinstance(record, dict) else None
            yield messages, json.loads(tools) if isinstance(tools, str) and tools else tools


def texts(paths: List[str]) -> Iterator[str]:
    for path in paths:
        for record, where in records(path):
            text = record.get("text") if isinstance(record, dict) else None
            if not isinstance(text, str):
                raise ValueError(f"mnem: {where} has no \"text\"")
            if text:
                yield text


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

    def of(self, messages: Any, tools: Any) -> Iterator[Tuple[List[int], List[bool]]]:
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


def document_rows(tokenizer: Any, paths: List[str]) -> Iterator[_Row]:
    """Each text as a row, all of whose tokens count."""
    ids, n = C.POINTER(C.c_int32)(), C.c_size_t()
    for text in texts(paths):
        data = text.encode()
        check(lib.mnem_tokenizer_encode(tokenizer, data, len(data),
                                        D.MNEM_ENCODE_NO_SPECIAL | D.MNEM_ENCODE_PLAIN, C.byref(ids),
                                        C.byref(n)))
        yield ids[:n.value], None, len(data)


def answer_rows(rows: Rows, paths: List[str]) -> Iterator[_Row]:
    """The rows of all conversations that have something to learn."""
    found = False
    for messages, tools in conversations(paths):
        for ids, counted in rows.of(messages, tools):
            if any(counted[1:]):
                found = True
                yield ids, counted, 0
    if not found:
        raise ValueError("mnem: no conversation has an answer to train on, which is a message with the role "
                         "\"assistant\"")


class RowSource:
    """The source of rows of a corpus (mnem_corpus_rows)."""

    def __init__(self, rows: Iterator[_Row], job: Any) -> None:
        self.failure: Optional[BaseException] = None
        self.rows, self.job = rows, job
        self.held: Any = None
        self.next = D.mnem_corpus_rows._fields_[0][1](self._next)

    def _next(self, _: Any, out: Any) -> int:
        if self.job.cancelled:
            return int(D.MNEM_CANCELLED)
        try:
            ids, counted, size = next(self.rows)
        except StopIteration:
            return int(D.MNEM_NOT_FOUND)
        except BaseException as failure:  # it can't pass through C
            self.failure = failure
            return int(D.MNEM_INVALID)
        tokens = (C.c_int32 * len(ids))(*ids)
        flags = None if counted is None else (C.c_bool * len(ids))(*counted)
        self.held = tokens, flags  # until the next call
        row = out[0]
        row.ids, row.counted, row.count, row.text_bytes = tokens, flags, len(ids), size
        return int(D.MNEM_OK)
