"""The engine of an LLM token by token: run some tokens, look at the logits, choose the next one.

llama-cpp-python's users call eval, sample and generate themselves, and change logits between the two; so a
step and a choice are two calls here. The functions of this file that use the library's objects run in the
LLM's worker thread (`Steps.call`); callbacks of users run in theirs."""
import ctypes as C
import os
import threading

from .. import _declarations as D
from .._grammar import Match
from .._library import Error, check, lib, text_of


class Steps:
    """One sequence of an LLM.

    ids: the tokens that it holds. logits: a copy of those that follow the last one (ctypes, [vocab]);
    live: they are those of the last one (after load or truncate they aren't)."""

    def __init__(self, llm):
        self.llm, self.engine = llm, llm._engine
        self.sequence = C.POINTER(D.mnem_sequence)()
        self.tokens = {}  # by the token that ends a text besides the model's own
        self.choices = set()
        self.vocab = self.engine.vocab
        self.logits = (C.c_float * self.vocab)()
        self.ids, self.live = [], False
        self.on_row = self.failure = None
        self.told = D.mnem_on_step_logits(self.tell)

    def call(self, function):
        """Runs function(job) in the worker thread."""
        if threading.current_thread() is self.llm._worker.thread:  # the collector may run there
            return function(None)
        return self.llm._call(function)

    def end(self, choice):
        """Ends a choice, also where Ctrl-C comes meanwhile."""
        try:
            if choice in self.choices and not self.llm._worker.last:
                self.call(lambda job: choice.end())
        finally:
            if choice in self.choices and not self.llm._worker.last:
                self.call(lambda job: choice.end())

    # ---- in the worker thread ----

    def close(self):
        """Before the engine's close."""
        for choice in list(self.choices):
            choice.end()
        for tokens in self.tokens.values():
            lib.mnem_token_set_destroy(tokens)
        self.tokens.clear()
        self.drop()
        self.told = None  # which refers to this object

    def open(self):
        if not self.engine.engine:
            raise Error("mnem.compat: this Llama has no weights: it was opened with vocab_only=True",
                        D.MNEM_NOT_READY)
        if not self.sequence:
            self.ids, self.live = [], False
            check(lib.mnem_sequence_create(self.engine.engine, C.byref(self.sequence)))

    def drop(self):
        lib.mnem_sequence_destroy(self.sequence)
        self.sequence = C.POINTER(D.mnem_sequence)()
        self.ids, self.live = [], False

    def truncate(self, n):
        """Keeps the first n tokens, or as many as can be kept."""
        if n == len(self.ids):
            return
        self.open()
        if lib.mnem_sequence_truncate(self.sequence, n) != D.MNEM_OK:
            n = 0
            check(lib.mnem_sequence_truncate(self.sequence, n))
        self.ids, self.live = self.ids[:n], False

    def tell(self, _context, _part, index, logits):
        try:
            if self.on_row:
                self.on_row(self.first + index, C.cast(logits, C.POINTER(C.c_float * self.vocab)).contents)
            if self.first + index == self.past - 1:
                C.memmove(self.logits, logits, C.sizeof(self.logits))
                self.live = True
        except BaseException as failure:  # ctypes would print it
            self.failure = failure
            return False
        return True

    def run(self, job, ids, on_row=None):
        """Appends ids. on_row(position, logits): called for each of them; otherwise only the last one has
        logits. A request to cancel that an earlier job's end left over stops nothing."""
        if not ids:
            return
        self.open()
        begin = len(self.ids)
        self.past, self.on_row, self.live, self.failure = begin + len(ids), on_row, False, None
        try:
            while True:
                self.first = at = lib.mnem_sequence_length(self.sequence)
                rest = ids[at - begin:]
                n = len(rest)
                part = D.mnem_step_part(self.sequence, (C.c_int32 * n)(*rest), n, 0 if on_row else n - 1)
                status = lib.mnem_engine_step(self.engine.engine, C.byref(part), 1, self.told, None)
                if self.failure:
                    raise self.failure
                if status != D.MNEM_CANCELLED or not job or job.cancelled:
                    check(status)
                    return
        finally:
            self.ids += ids[:lib.mnem_sequence_length(self.sequence) - begin]
            self.on_row = self.failure = None

    def refresh(self, job):
        """Runs the last token again where its logits aren't there any more."""
        if self.ids and not self.live:
            last = self.ids
            self.truncate(len(last) - 1)
            self.run(job, last[len(self.ids):])

    def save(self):
        """The sequence as bytes."""
        if not self.ids:
            return b""
        fd = os.memfd_create("mnem-state")
        try:
            check(lib.mnem_sequence_save(self.sequence, (C.c_int32 * len(self.ids))(*self.ids), 0, fd, 0))
            return _read_all(fd)
        finally:
            os.close(fd)

    def restore(self, ids, data):
        self.open()
        self.truncate(0)
        if not data:
            return
        fd = os.memfd_create("mnem-state")
        try:
            with os.fdopen(os.dup(fd), "wb") as file:
                file.write(data)
            saved = D.mnem_saved()
            check(lib.mnem_saved_open(self.engine.engine, fd, 0, C.byref(saved)))
            check(lib.mnem_sequence_load(self.sequence, C.byref(saved), saved.length))
            self.ids, self.live = list(ids), False
        finally:
            os.close(fd)

    def embed(self, lists, pooling):
        """An embedding for each list of ids, not scaled."""
        self.open()
        self.drop()  # they take its place
        width = self.width()
        parts = (D.mnem_embed_text * len(lists))()
        for part, ids in zip(parts, lists):
            part.ids, part.n = (C.c_int32 * len(ids))(*ids), len(ids)
        out = (C.c_float * (len(lists) * width))()
        how = D.mnem_embed_options(pooling=pooling, raw=True)
        check(lib.mnem_engine_embed(self.engine.engine, parts, len(lists), C.byref(how), out))
        return [out[i * width:(i + 1) * width] for i in range(len(lists))]

    def about(self):
        about = D.mnem_transformer()
        check(lib.mnem_model_transformer(self.engine.model, C.byref(about)))
        return about

    def width(self):
        return self.about().embd

    # ---- tokens, in the worker thread ----

    def encode(self, data, add_special, parse_special):
        ids, count = C.POINTER(C.c_int32)(), C.c_size_t()
        flags = ((0 if add_special else D.MNEM_ENCODE_NO_SPECIAL)
                 | (0 if parse_special else D.MNEM_ENCODE_PLAIN))
        check(lib.mnem_tokenizer_encode(self.engine.tokenizer, data, len(data), flags, C.byref(ids),
                                        C.byref(count)))
        return ids[:count.value]

    def piece(self, token, special=False):
        """A token's bytes. Safe in any thread: a tokenizer's pieces are constant."""
        return text_of(lib.mnem_tokenizer_piece(self.engine.tokenizer, token, special))

    def is_end(self, token):
        return lib.mnem_tokenizer_is_end(self.engine.tokenizer, token)

    def token_set(self, end):
        if end not in self.tokens:
            made = C.POINTER(D.mnem_token_set)()
            check(lib.mnem_token_set_create(self.engine.tokenizer, end, C.byref(made)))
            self.tokens[end] = made
        return self.tokens[end]

    def info(self):
        info = D.mnem_tokenizer_info()
        lib.mnem_tokenizer_info_get(self.engine.tokenizer, C.byref(info))
        return info


class Choice:
    """A sampler, and the state of a text in a grammar. grammar: a LlamaGrammar or None; end: a token that
    ends its text besides the model's own."""

    def __init__(self, steps, options, grammar=None, end=-1):
        self.steps, self.given = steps, (options, grammar, end)
        self.sampler = C.POINTER(D.mnem_sampler)()
        self.grammar = C.POINTER(D.mnem_grammar)()
        self.match = C.POINTER(D.mnem_match)()

    def open(self):
        """Apart, so that whoever ends it has it already when Ctrl-C comes."""
        options, grammar, end = self.given
        self.steps.choices.add(self)
        check(lib.mnem_sampler_create(C.byref(options), self.steps.vocab, C.byref(self.sampler)))
        if grammar is not None:
            self.grammar = grammar._compile(self.steps.token_set(end))
            check(lib.mnem_match_create(self.grammar, C.byref(self.match)))

    def choose(self, logits):
        """The next token; None: the grammar's text is complete."""
        if not self.match:
            token = lib.mnem_sampler_choose(self.sampler, logits)
        else:
            found = C.c_int32()
            Match._check(lib.mnem_match_choose(self.match, self.sampler, logits, C.byref(found)))
            token = found.value
            if token < 0:
                return None
            Match._check(lib.mnem_match_accept(self.match, token))
        lib.mnem_sampler_accept_chosen(self.sampler, token)
        return token

    def end(self):
        if self in self.steps.choices:
            self.steps.choices.discard(self)
            lib.mnem_match_destroy(self.match)
            lib.mnem_grammar_destroy(self.grammar)
            lib.mnem_sampler_destroy(self.sampler)


def _read_all(fd):
    size, parts = os.fstat(fd).st_size, []
    at = 0
    while at < size:
        parts.append(os.pread(fd, min(size - at, 1 << 30), at))
        if not parts[-1]:
            raise Error("mnem: a saved state ends early", D.MNEM_IO)
        at += len(parts[-1])
    return b"".join(parts)
