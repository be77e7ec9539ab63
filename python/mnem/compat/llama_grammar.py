"""LlamaGrammar: GBNF or a JSON schema that an answer is held to (mnem/grammar.h says which)."""
import ctypes as C
import json

from .. import _declarations as D
from .._library import check, lib


class LlamaGrammar:
    """`from_string` and `from_json_schema` compile once without a vocabulary, so that a mistake is
    reported here, with its line, and not when text is generated."""

    def __init__(self, *_ignored, _grammar, _schema=False, _parts=(), **_kwargs):
        self._grammar, self._schema, self._parts = _grammar, _schema, _parts
        lib.mnem_grammar_destroy(self._compile(None))

    @classmethod
    def from_string(cls, grammar, verbose=True):
        return cls(_grammar=grammar)

    @classmethod
    def from_file(cls, file, verbose=True):
        with open(file, encoding="utf-8") as opened:
            return cls.from_string(opened.read(), verbose=verbose)

    @classmethod
    def from_json_schema(cls, json_schema, verbose=True):
        return cls(_grammar=json_schema, _schema=True)

    @classmethod
    def _of_calls(cls, tools):
        """A call of one of the tools, as `<tool_call>{"name": ..., "arguments": ...}</tool_call>`."""
        calls, parts = [], []
        for i, tool in enumerate(tools):
            name = json.dumps(json.dumps(tool["function"]["name"], ensure_ascii=False),
                              ensure_ascii=False)
            calls.append(f'"{{\\"name\\": " {name} ", \\"arguments\\": " arguments-{i} "}}"')
            parts.append((f"arguments-{i}", json.dumps(tool["function"].get("parameters") or
                                                       {"type": "object"})))
        text = ('root ::= "<tool_call>\\n" object "\\n</tool_call>"\n'
                f'object ::= {" | ".join(calls)}\n')
        return cls(_grammar=text, _parts=tuple(parts))

    def _compile(self, tokens):
        grammar, text = C.POINTER(D.mnem_grammar)(), self._grammar.encode()
        if self._schema:
            check(lib.mnem_grammar_create_schema(tokens, text, len(text), None, C.byref(grammar)))
        elif self._parts:
            parts = (D.mnem_grammar_part * len(self._parts))()
            for part, (name, schema) in zip(parts, self._parts):
                part.name, part.json = name.encode(), schema.encode()
                part.length = len(part.json)
            check(lib.mnem_grammar_create_with(tokens, text, len(text), parts, len(parts), None,
                                               C.byref(grammar)))
        else:
            check(lib.mnem_grammar_create(tokens, text, len(text), None, C.byref(grammar)))
        return grammar


def _any_json():
    return LlamaGrammar.from_json_schema('{"type": "object"}')
