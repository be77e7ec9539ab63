"""LLM: one model under the process's budget, and text from it.

Everything that touches the library's objects runs in the LLM's worker thread (_worker.py)."""
import ctypes as C
import operator
import os
import queue

from . import _declarations as D
from ._async import answer_of, pieces_of
from ._budget import process
from ._engine import Engine
from ._library import lib, size_parse
from ._options import Options
from ._tables import Ledger, Plan
from ._worker import Worker

_POOLING = {None: D.MNEM_POOLING_NONE, "mean": D.MNEM_POOLING_MEAN, "cls": D.MNEM_POOLING_CLS,
            "last": D.MNEM_POOLING_LAST}


def _kv_choice(kv):
    choice = C.c_int()
    if lib.mnem_kv_parse(str(kv).encode(), C.byref(choice)) != D.MNEM_OK:
        raise ValueError(f"mnem: kv is {kv!r}, expected f16, q8_0, q4_0, f32 or auto, or two of the first four "
                         "such as q8_0:q4_0, keys first")
    return choice.value


def _adapters(lora):
    """[(path, scale)] of a path, a (path, scale), or a list of these."""
    if lora is None:
        return []
    if isinstance(lora, (str, os.PathLike)):
        return [(lora, 1.0)]
    if isinstance(lora, tuple) and len(lora) == 2 and isinstance(lora[1], (int, float)):
        return [(lora[0], float(lora[1]))]
    return [one for each in lora for one in _adapters(each)]


def _is_prompt(prompt):
    """A str or ids; not a list of these."""
    return isinstance(prompt, str) or not len(prompt) or not isinstance(prompt[0], (str, list, tuple))


def _is_conversation(messages):
    return isinstance(messages, str) or not len(messages) or hasattr(messages[0], "keys")


def _check_one(one):
    if not one:
        raise ValueError("mnem: a stream is of one prompt: leave out stream=True, or give one")


def _conversation(messages):
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)


class LLM:
    """A model inside the process's budget.

    memory: its share of a mnem.Budget, such as "300M" or bytes (default: what is left). Without a Budget, the
    first LLM's memory is the budget of the process, Python included (default: 85 % of the memory that there
    is); a later LLM's is its share, and raises the budget if it is larger. ctx: tokens of context (default: as
    many as fit, up to 4096 and the model's). parallel: how many texts run together, each with a context of
    its own. kv: the type of keys and values, "f16", "q8_0", "q4_0", "auto" or "f32", or one for each, such as
    "q8_0:q4_0". threads: default as many as processors. chunk: tokens of a prompt that are computed at once (default: as many as fit well, up to 512).
    lora: an adapter that is applied, the path of a GGUF file, of a training run's folder or of one of
    PEFT's, or (path, scale), or a list of these. template: Jinja, instead of the model's chat template. load:
    False makes the plan alone, and the weights are read when they are first used.

    Error: the file is bad, or not supported. OverBudget: it doesn't fit; no weight has been read. Methods may
    be called from any thread; they run one after another."""

    def __init__(self, path, memory=None, ctx=0, *, parallel=1, kv="f16", threads=0, chunk=0, lora=None,
                 template=None, load=True):
        self._worker = self._engine = None
        self.path = os.fspath(path)
        options = D.mnem_engine_options(context=ctx, sequences=parallel, kv=_kv_choice(kv), threads=threads,
                                        chunk=chunk)
        given = size_parse(memory), options, template, _adapters(lora)

        def opened(job):
            self._engine = Engine(self.path, *given)

        self._worker = Worker("mnem")
        try:
            self._worker.call(opened)
            self._worker.cancel = self._engine.cancel
            self.plan = Plan(self._engine.plan)
            if load:
                self.load()
        except BaseException:
            self.close()
            raise

    def load(self):
        """Reads the weights, if they aren't there yet. OverBudget: others took what the plan had."""
        self._call(self._engine.load)

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
        return self._worker.call(function)

    def tokenize(self, text, special=True):
        """Ids of a text; special: with the BOS that the model asks for."""
        return self._call(lambda job: self._engine.encode(text, special))

    def detokenize(self, ids):
        """The text of ids, without that of special tokens."""
        pieces = self._call(lambda job: [self._engine.piece(operator.index(token)) for token in ids])
        return b"".join(pieces).decode(errors="replace")

    def embed(self, texts, pooling=None):
        """The embedding of a text as a list of floats; of a list of texts, a list of them. pooling:
        "mean", "cls" or "last"; the file's where it isn't given."""
        if pooling not in _POOLING:
            raise ValueError(f"mnem: pooling is {pooling!r}, expected mean, cls or last")
        one = isinstance(texts, str)
        found = self._call(lambda job: self._engine.embed(
            job, [texts] if one else list(texts), _POOLING[pooling]))
        return found[0] if one else found

    def template(self, messages, tools=None, template_args=None):
        """The text of a conversation as the model's chat template writes it, with what asks for an
        answer. template_args: further variables of the template, such as {"enable_thinking": False}.
        Error: there is no template, or it refuses the messages."""
        return self._call(lambda job: self._engine.render(_conversation(messages), tools, template_args))

    def reset(self):
        """Drops what the model holds of the last texts: the next prompt runs whole."""
        self._call(lambda job: self._engine.sequences.reset())

    def save(self, path):
        """Writes what the model holds of the last text to a file. Error: nothing was run."""
        self._call(lambda job: self._engine.sequences.save(path))

    def load_state(self, path):
        """Holds what save wrote: a prompt that begins with that text runs only what follows it. Error: the
        file is damaged, or of another model or kv; OverBudget: the context is too small."""
        def load(job):
            self._engine.load(job)
            self._engine.sequences.load(path)

        self._call(load)

    # ---- answers ----

    def _prompts(self, prompts):
        """What gives the ids of prompts, each a str or ids, in the worker."""
        encode = self._engine.encode
        return lambda: [encode(one) if isinstance(one, str) else list(map(operator.index, one))
                        for one in prompts]

    def _conversations(self, several, tools, arguments):
        encode = self._engine.encode_chat
        return lambda: [encode(_conversation(one), tools, arguments) for one in several]

    def _work(self, ids, options):
        """What answers the prompts that ids() gives: work(job, tell)."""
        engine = self._engine
        return lambda job, tell=None: engine.run(job, ids(), options, tell)

    def _asked(self, prompt, max_tokens, options):
        """The work for a prompt or several, and whether it is one."""
        one = _is_prompt(prompt)
        ids = self._prompts([prompt] if one else prompt)
        return self._work(ids, Options(max_tokens, options)), one

    def _asked_chat(self, messages, max_tokens, tools, arguments, options):
        one = _is_conversation(messages)
        ids = self._conversations([messages] if one else messages, tools, arguments)
        return self._work(ids, Options(max_tokens, options, answers=True)), one

    def _answer(self, work, one, stream):
        if stream:
            _check_one(one)
            return self._stream(work)
        found = self._call(work)
        return found[0] if one else found

    def _stream(self, work):
        pieces = queue.SimpleQueue()
        job = self._worker.submit(lambda job: work(job, pieces.put), lambda: pieces.put(None))
        try:
            while True:
                text = pieces.get()
                if text is None:
                    break
                yield text
        except BaseException:  # left half-read, or Ctrl-C
            self._worker.stop(job)
            raise
        job.outcome()

    def generate(self, prompt, max_tokens=256, *, stream=False, **options):
        """The Text that continues a prompt, a str or ids; of a list of prompts, a list of Texts, which run
        together as far as parallel= allows. stream: an iterator of the pieces of one, as Texts.

        max_tokens: 0 until the end. Options that aren't given are mnem run's: temperature (0: the
        likeliest token), seed (default 0: the same text each time), top_k, top_p, min_p, repeat_penalty,
        repeat_last, presence_penalty, frequency_penalty, dry_multiplier, dry_base, dry_allowed_length,
        dry_penalty_last, dry_breakers, xtc_probability, xtc_threshold, logit_bias ({id: added to its
        logit}). stop: a text or several, before the first of which the text ends. logprobs: how many of
        the likeliest tokens are told with each. ignore_end: the model doesn't end the text. schema: the
        text is JSON that is valid under this schema, a dict or a class as Pydantic's; grammar: it follows
        this GBNF. on_logits(ids, logits) is called before each token with all tokens so far and a
        read-only view of llm.vocab floats, valid inside the call (NumPy's if the program has imported
        it), and may return others to choose from.

        Error: what the library refuses, such as an option out of range; OverBudget: the prompt doesn't fit
        the context; Cancelled: the LLM was closed meanwhile."""
        return self._answer(*self._asked(prompt, max_tokens, options), stream)

    def logits(self, prompt):
        """The logits of the token that follows a prompt: an array of llm.vocab floats, NumPy's if the
        program has imported it. It is a copy."""
        ids = self._prompts([prompt])
        return self._call(lambda job: self._engine.logits(job, ids()[0]))

    def chat(self, messages, max_tokens=0, *, tools=None, template_args=None, stream=False,
             **options):
        """The answer to a conversation, a list of {"role": ..., "content": ...} or one user's text, as a
        Text; of a list of conversations, a list of Texts. Options as in generate. tools: a list for the
        chat template. template_args: further variables of it, such as {"enable_thinking": False}. Of a
        conversation that goes on, only what is new is computed."""
        return self._answer(*self._asked_chat(messages, max_tokens, tools, template_args, options), stream)

    def agenerate(self, prompt, max_tokens=256, *, stream=False, **options):
        """generate for asyncio: to be awaited; with stream, an async iterator. Cancelling the task stops
        the engine, as leaving the iterator does."""
        return self._aanswer(*self._asked(prompt, max_tokens, options), stream)

    def achat(self, messages, max_tokens=0, *, tools=None, template_args=None, stream=False,
              **options):
        """chat for asyncio, as agenerate."""
        return self._aanswer(*self._asked_chat(messages, max_tokens, tools, template_args, options), stream)

    def _aanswer(self, work, one, stream):
        if stream:
            _check_one(one)
            return pieces_of(self._worker, work)
        return answer_of(self._worker, work, one)

    def close(self):
        """Gives back what it took; calling it again does nothing. A call or a stream that runs then is
        stopped, and raises mnem.Cancelled; one that waits raises mnem.Error."""
        worker, engine = self._worker, self._engine
        if worker:
            worker.end(lambda job: engine and engine.close())

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
