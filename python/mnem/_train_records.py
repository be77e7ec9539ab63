"""Data sets as people have them: JSON lines, or one JSON array, of conversations or of texts.

    messages    {"messages": [{"role", "content"}]}, perhaps with "tools"; or the list alone
    ShareGPT    {"conversations": [{"from", "value"}]}, perhaps with "system"
    Alpaca      {"instruction", "input", "output"}, or Dolly's "context" and "response"
    pairs       {"prompt", "completion"}, and other names of the two
    texts       {"text"}: documents, not conversations"""
import json
from typing import Any, Dict, Iterator, List, Optional, Tuple

_PAIRS = (("prompt", "completion"), ("prompt", "response"), ("question", "answer"), ("question", "response"),
          ("input", "output"))
_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant",
          "bing": "assistant", "bard": "assistant", "model": "assistant", "system": "system", "tool": "tool",
          "function_response": "tool", "observation": "tool"}
_Messages = List[Dict[str, Any]]


def _is_messages(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) and isinstance(one.get("role"), str)
                                           for one in value)


def _pair(record: Dict[str, Any]) -> Optional[Tuple[str, str]]:
    return next((pair for pair in _PAIRS if pair[0] in record and pair[1] in record
                 and (pair == _PAIRS[0] or "text" not in record)), None)


def _is_instruction(record: Dict[str, Any]) -> bool:
    return "instruction" in record and ("output" in record or "response" in record)


def shape(record: Any) -> str:
    """"chat", "texts", or "" for what is neither."""
    if isinstance(record, list):
        return "chat" if record and _is_messages(record) else ""
    if not isinstance(record, dict):
        return ""
    if "messages" in record or "conversations" in record or _is_instruction(record) or _pair(record):
        return "chat"
    return "texts" if "text" in record else ""


def _said(role: str, content: Any) -> _Messages:
    if _is_messages(content):
        return list(content)
    if not isinstance(content, str):
        raise ValueError(f"the {role}'s part must be a text or a list of messages")
    return [{"role": role, "content": content}]


def _instruction(record: Dict[str, Any]) -> _Messages:
    more = record.get("input", record.get("context")) or ""
    question = "\n\n".join(part for part in (record["instruction"], more) if part)
    found: _Messages = []
    for asked, answered in record.get("history") or []:
        found += _said("user", asked) + _said("assistant", answered)
    return found + _said("user", question) + _said("assistant", record.get("output", record.get("response")))


def _speakers(record: Dict[str, Any]) -> _Messages:
    turns = record["conversations"]
    if turns and _is_messages(turns):
        return list(turns)
    found: _Messages = []
    for turn in turns:
        if turn.get("from") not in _ROLES:
            raise ValueError(f"\"from\" is {turn.get('from')!r}, expected human, gpt, system or tool")
        found += _said(_ROLES[turn["from"]], turn.get("value"))
    return found


def turns(record: Any) -> _Messages:
    """The messages of a record."""
    if isinstance(record, list) and _is_messages(record):
        return record
    if not isinstance(record, dict) or shape(record) != "chat":
        raise ValueError("it is no conversation")
    if "messages" in record:
        if not _is_messages(record["messages"]):
            raise ValueError("\"messages\" must be a list of objects with \"role\" and \"content\"")
        return list(record["messages"])
    system = record.get("system")
    before = _said("system", system) if system and ("conversations" in record or _is_instruction(record)) else []
    if "conversations" in record:
        return before + _speakers(record)
    if _is_instruction(record):
        return before + _instruction(record)
    pair = _pair(record)
    assert pair
    return _said("user", record[pair[0]]) + _said("assistant", record[pair[1]])


def records(path: str) -> Iterator[Tuple[Any, str]]:
    """The records of a file, and where each stands."""
    with open(path, encoding="utf-8-sig") as file:
        begin = file.read(1)
        while begin and begin.isspace():
            begin = file.read(1)
        file.seek(0)
        if begin == "[" and not _is_line(file.readline()):
            file.seek(0)
            for number, record in enumerate(json.load(file), 1):
                yield record, f"{path}, element {number}"
            return
        file.seek(0)
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    record = json.loads(line)
                except ValueError as wrong:
                    raise ValueError(f"mnem: {path}, line {number}: {wrong}") from None
                yield record, f"{path}, line {number}"


def _is_line(line: str) -> bool:
    """A list of messages alone, on a line of its own."""
    try:
        return _is_messages(json.loads(line))
    except ValueError:
        return False


def data_kind(path: str) -> str:
    """"chat", "texts" or "text", by the first record."""
    with open(path, "rb") as file:
        begin = file.read(1 << 12).lstrip(b"\xef\xbb\xbf \t\r\n")
    if begin[:1] not in (b"{", b"["):
        return "text"
    try:
        first, _ = next(records(path))
    except (ValueError, StopIteration):
        return "text" if begin[:1] == b"[" else _refuse(path)
    return shape(first) or _refuse(path)


def _refuse(path: str) -> str:
    raise ValueError(f"mnem: {path} is JSON, but its records are neither conversations (messages, conversations, "
                     "instruction and output, prompt and completion) nor texts")
