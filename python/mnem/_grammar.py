"""Grammars of one model: GBNF or a JSON schema, compiled once for the texts that follow one another."""
import ctypes as C

from . import _declarations as D
from ._library import Error, check, last_error, lib


class Grammars:
    """The model's tokens in the order of their bytes, and the last grammar. Both are made when they are
    first asked for, and take of what the budget has left."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.tokens = C.POINTER(D.mnem_token_set)()
        self.grammar = C.POINTER(D.mnem_grammar)()
        self.key = self.end = None
        self.users = 0  # matches that there are

    def close(self):
        lib.mnem_grammar_destroy(self.grammar)
        lib.mnem_token_set_destroy(self.tokens)
        self.tokens = self.grammar = self.key = None

    def match(self, schema, text, end):
        """A match at the beginning of a text. end: a token that ends a text besides the model's; -1: none."""
        self._compile(schema, text.encode(), end)
        return Match(self)

    def _compile(self, schema, text, end):
        if self.key == (schema, text, end):
            return
        if self.users:
            raise Error("mnem: texts that run together must have one grammar", D.MNEM_UNSUPPORTED)
        lib.mnem_grammar_destroy(self.grammar)
        self.grammar, self.key = C.POINTER(D.mnem_grammar)(), None
        if self.end != end:
            lib.mnem_token_set_destroy(self.tokens)
            self.tokens, self.end = C.POINTER(D.mnem_token_set)(), None
            check(lib.mnem_token_set_create(self.tokenizer, end, C.byref(self.tokens)))
            self.end = end
        create = lib.mnem_grammar_create_schema if schema else lib.mnem_grammar_create
        check(create(self.tokens, text, len(text), None, C.byref(self.grammar)))
        self.key = schema, text, end


class Match:
    """A text on its way through the grammar."""

    def __init__(self, grammars):
        self.grammars = grammars
        self.match = C.POINTER(D.mnem_match)()
        self.id = C.c_int32()
        check(lib.mnem_match_create(grammars.grammar, C.byref(self.match)))
        grammars.users += 1

    def close(self):
        if self.match:
            lib.mnem_match_destroy(self.match)
            self.match = None
            self.grammars.users -= 1

    def choose(self, sampler, logits):
        """The next token; -1: the text is complete, and none can follow."""
        self._check(lib.mnem_match_choose(self.match, sampler, logits, C.byref(self.id)))
        return self.id.value

    def accept(self, token):
        """Goes on by a token; True: the text is complete, and none can follow."""
        self._check(lib.mnem_match_accept(self.match, token))
        return lib.mnem_match_is_done(self.match)

    @staticmethod
    def _check(status):
        """A limit of the grammar's own, not of the budget: matching takes no memory."""
        if status == D.MNEM_OVER_BUDGET:
            raise Error(last_error(), D.MNEM_UNSUPPORTED)
        check(status)
