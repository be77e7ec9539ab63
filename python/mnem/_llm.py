"""LLM: one model under the process's budget, and text from it.

Everything that touches the library's objects runs in the LLM's worker thread (_worker.py)."""
import os
import queue
import threading

from . import _declarations as D
from ._budget import process
from ._engine import Engine
from ._library import lib, size_parse, text_of
from ._options import Options
from ._tables import Ledger, Plan
from ._worker import Worker

_KV = {"f16": D.MNEM_KV_F16, "q8_0": D.MNEM_KV_Q8_0, "auto": D.MNEM_KV_AUTO, "f32": D.MNEM_KV_F32}
_POOLING = {None: D.MNEM_POOLING_NONE, "mean": D.MNEM_POOLING_MEAN, "cls": D.MNEM_POOLING_CLS,
            "last": D.MNEM_POOLING_LAST}


def _conversation(messages):
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)


class LLM:
    """A model inside the process's budget.

    memory: its share of a mnem.Budget, such as "300M" or bytes (default: what is left). Without a Budget, the
    first LLM's memory is the budget of the process, Python included (default: 85 % of the memory that there
    is); a later LLM's is its share, and raises the budget if it is larger. ctx: tokens of context (default: as
    many as fit, up to 4096 and the model's). kv: the type of keys and values, "f16", "q8_0", "auto" or "f32".
    threads: default as many as processors. chunk: tokens of a prompt that are computed
    at once (default: as many as fit well, up to 512). template: Jinja, instead of the model's chat template. load: False
    makes the plan alone, and the weights are read when they are first used. OverBudget: it doesn't fit; no
    weight has been read. Methods may be called from any thread; they run one after another."""

    def __init__(self, path, memory=None, ctx=0, *, kv="f16", threads=0, chunk=0,
                 template=None, load=True):
        self._worker = None
        self.path = os.fspath(path)
        if kv not in _KV:
            raise ValueError(f"mnem: kv is {kv!r}, expected one of {', '.join(_KV)}")
        options = D.mnem_engine_options(context=ctx, kv=_KV[kv], threads=threads, chunk=chunk)
        size = size_parse(memory)
        worker = Worker("mnem")
        try:
            self._engine = worker.call(lambda job: Engine(path, size, options, template))
            self._worker = worker
            self.plan = Plan(self._engine.plan)
            if load:
                self.load()
        except BaseException:
            worker.close()
            raise

    def load(self):
        """Reads the weights, if they aren't there yet."""
        self._call(lambda job: self._engine.load())

    @property
    def ledger(self):
        """What the process has charged now."""
        return Ledger(process.info(), process.accounts())

    @property
    def vocab(self):
        """The number of token ids."""
        return self._engine.vocab

    @property
    def ctx(self):
        """Tokens of context that the plan has."""
        return self.plan.context

    @property
    def bos(self):
        """The id of the token that begins a text, or None."""
        return None if self._engine.bos < 0 else self._engine.bos

    @property
    def eos(self):
        """The id of the token that ends a text, or None."""
        return None if self._engine.eos < 0 else self._engine.eos

    @property
    def metadata(self):
        """The file's keys and their values as texts, lists left out."""
        return self._call(lambda job: self._engine.metadata())

    def _call(self, function):
        self._worker.cancel = self._cancel
        return self._worker.call(function)

    def _cancel(self):
        engine = self._engine.engine
        if engine:
            lib.mnem_engine_cancel(engine)

    def tokenize(self, text, special=True):
        """Ids of a text; special: with the BOS that the model asks for."""
        return self._call(lambda job: self._engine.encode(text, special))

    def detokenize(self, ids):
        pieces = self._call(lambda job: [text_of(lib.mnem_tokenizer_piece(self._engine.tokenizer, i, False))
                                         for i in ids])
        return b"".join(pieces).decode(errors="replace")

    def embed(self, texts, pooling=None):
        """The embedding of a text as a list of floats; of a list of texts, a list of them. pooling:
        "mean", "cls" or "last"; the file's where it isn't given."""
        if pooling not in _POOLING:
            raise ValueError(f"mnem: pooling is {pooling!r}, expected mean, cls or last")
        one = isinstance(texts, str)
        found = self._call(lambda job: self._engine.embed(
            [texts] if one else list(texts), _POOLING[pooling]))
        return found[0] if one else found

    def template(self, messages, tools=None):
        """The text of a conversation as the model's chat template writes it, with what asks for an
        answer. Error: there is no template, or it refuses the messages."""
        return self._call(lambda job: self._engine.render(_conversation(messages), tools))

    def reset(self):
        """Drops what the model holds of the last text: the next prompt runs whole."""
        self._call(lambda job: self._engine.reset())

    def _ids(self, prompt):
        return self._engine.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def _answer(self, ids, options, stream):
        """Text from the ids that ids() gives, in the worker; stream: an iterator of its pieces."""
        engine = self._engine
        if stream:
            return self._stream(lambda job, tell: engine.run(job, ids(), options, tell))
        return self._call(lambda job: engine.run(job, ids(), options))

    def _stream(self, run):
        pieces = queue.SimpleQueue()

        def function(job):
            try:
                run(job, pieces.put)
            finally:
                pieces.put(None)

        self._worker.cancel = self._cancel
        job = self._worker.submit(function)
        try:
            while True:
                text = pieces.get()
                if text is None:
                    break
                yield text
        except BaseException:  # left half-read, or Ctrl-C
            self._worker.stop(job)
            raise
        job.done.wait()
        if job.failure:
            raise job.failure

    def generate(self, prompt, max_tokens=256, *, stream=False, **options):
        """The Text that continues a prompt, a str or ids; stream: an iterator of its pieces, as Texts.

        max_tokens: 0 until the end. Options that aren't given are mnem run's: temperature (0: the
        likeliest token), seed, top_k, top_p, min_p, repeat_penalty, repeat_last, presence_penalty,
        frequency_penalty, dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last, dry_breakers,
        xtc_probability, xtc_threshold, logit_bias ({id: added to its logit}). stop: a text or several,
        before the first of which the text ends. logprobs: how many of the likeliest tokens are told with
        each. ignore_end: the model doesn't end the text. schema: the text is JSON that is valid under this
        schema, a dict or a class as Pydantic's; grammar: it follows this GBNF. on_logits(ids, logits) is
        called before each token with all tokens so far and a read-only view of llm.vocab floats, valid
        inside the call (NumPy's if the program has imported it), and may return others to choose from.
        Error: what the library refuses, such as an
        option out of range; OverBudget: the prompt doesn't fit the context."""
        return self._answer(lambda: self._ids(prompt), Options(max_tokens, options), stream)

    def logits(self, prompt):
        """The logits of the token that follows a prompt: an array of llm.vocab floats, NumPy's if the
        program has imported it. It is a copy."""
        return self._call(lambda job: self._engine.logits(job, self._ids(prompt)))

    def chat(self, messages, max_tokens=0, *, tools=None, stream=False, **options):
        """The answer to a conversation, a list of {"role": ..., "content": ...} or one user's text, as a
        Text; options as in generate. tools: a list for the chat template. Of a conversation that goes on,
        only what is new is computed."""
        messages = _conversation(messages)
        return self._answer(lambda: self._engine.encode_chat(messages, tools),
                            Options(max_tokens, options, answers=True), stream)

    def close(self):
        """Gives back what it took; calling it again does nothing."""
        worker = self._worker
        if worker is None or os.getpid() != worker.process or not worker.thread.is_alive():
            return
        if threading.current_thread() is worker.thread:  # the collector may run there
            self._engine.close()
            worker.jobs.put(None)
            return
        worker.call(lambda job: self._engine.close())
        worker.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter is ending
            pass


def plan(path, memory=None, ctx=0, **options):
    """The plan of LLM(path, memory, ctx), of which only the file's header is read. The budget of LLMs that
    are open stays as it is."""
    before = process.size
    try:
        with LLM(path, memory, ctx, load=False, **options) as llm:
            return llm.plan
    finally:
        with process.lock:
            if process.engines and not process.given:
                process.size = before
                process.limit()
