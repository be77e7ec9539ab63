"""Engine: the library's objects of one LLM. All of it runs in the LLM's worker thread (_worker.py)."""
import ctypes as C
import functools
import json
import os

from . import _declarations as D
from ._budget import process
from ._library import Error, OverBudget, check, lib, text_of, value_text
from ._grammar import Grammars
from ._logits import Copied, Shown
from ._run import Run

_ROOM = b"texts and samplers"
_KNOBS = {D.MNEM_KNOB_CHUNK: "chunk", D.MNEM_KNOB_KV: "kv", D.MNEM_KNOB_CONTEXT: "ctx",
          D.MNEM_KNOB_MODEL: "model"}


def knob_of(knob):
    """(option, value) of a mnem_knob, or None."""
    name, value = _KNOBS.get(knob.kind), knob.value
    if name == "kv":
        value = "q8_0" if value == D.MNEM_KV_Q8_0 else "f16"
    return name and (name, None if name == "model" else value)


class Engine:
    """The library's objects of one LLM, in the order in which they are opened."""

    def __init__(self, path, memory, options, template):
        self.options = options
        with process.lock:
            share = process.share(memory)
            options.ledger = process.ledger
            try:
                self.open(path, template, share)
            except OverBudget as refusal:
                self.close()
                if refusal.needed is None:
                    self.refuse(path, template, share, refusal)
                raise
            except BaseException:
                self.close()
                raise
            process.engines.add(id(self))

    def clear(self):
        self.model = C.POINTER(D.mnem_model)()
        self.tokenizer = C.POINTER(D.mnem_tokenizer)()
        self.template = C.POINTER(D.mnem_template)()
        self.engine = C.POINTER(D.mnem_engine)()
        self.sequence = C.POINTER(D.mnem_sequence)()
        self.plan = D.mnem_engine_plan()
        self.room = 0
        self.held = []  # ids that the sequence holds
        self.active = []  # the runs of a step's parts
        self.failure = None  # of a choice inside of a step
        self.on_logits = D.mnem_on_step_logits(self.choose)

    def open(self, path, template, share):
        self.clear()
        check(lib.mnem_model_open(os.fsencode(path), C.byref(self.model)))
        check(lib.mnem_tokenizer_create(self.model, C.byref(self.tokenizer)))
        info = D.mnem_tokenizer_info()
        lib.mnem_tokenizer_info_get(self.tokenizer, C.byref(info))
        self.vocab, self.bos, self.eos = info.vocab, info.bos, info.eos
        self.open_template(template)
        self.reserve()
        self.options.budget_bytes = share.plan_bytes()
        try:
            check(lib.mnem_engine_plan_make(self.model, C.byref(self.options), C.byref(self.plan)))
        except OverBudget as refusal:
            refusal.knob = knob_of(self.plan.knob)
            if self.plan.needed_bytes:
                share.explain(refusal, self.plan.needed_bytes)
            raise

    def refuse(self, path, template, share, refusal):
        """Where not even the model's tables have room: opens it again, beyond the budget, for the
        numbers of its plan."""
        with share.raised():
            try:
                self.open(path, template, share)
                share.explain(refusal, max(process.info().bytes_peak, process.size + 1))
            except OverBudget as other:
                refusal.args, refusal.knob = other.args, other.knob
                refusal.needed, refusal.budget, refusal.least = other.needed, other.budget, other.least
            finally:
                self.close()

    def open_template(self, given):
        value = D.mnem_value()
        if given:
            source = given.encode()
        elif lib.mnem_model_key_find(self.model, b"tokenizer.chat_template", C.byref(value)):
            source = text_of(value.text)
        else:
            source = lib.mnem_chat_format_template(lib.mnem_tokenizer_chat_format(self.tokenizer))
        if source:
            check(lib.mnem_template_open(source, len(source), None, C.byref(self.template)))

    def reserve(self):
        """What texts, templates and samplers take for a while is charged before the plan, so that the
        plan has a line for it, and given back to them once there is an engine."""
        room = (256 << 10) + 16 * self.vocab + 32 * (self.options.context or 4096)
        check(lib.mnem_ledger_charge(self.options.ledger, D.MNEM_KIND_HOST, _ROOM, room))
        self.room = room

    def release(self):
        lib.mnem_ledger_release(self.options.ledger, D.MNEM_KIND_HOST, _ROOM, self.room)
        self.room = 0

    def load(self):
        if not self.engine:
            check(lib.mnem_engine_create(self.model, C.byref(self.options), C.byref(self.plan),
                                         C.byref(self.engine)))
            self.release()

    def close(self):
        process.engines.discard(id(self))
        if self.room:
            self.release()
        if "grammars" in self.__dict__:
            self.grammars.close()
        lib.mnem_engine_destroy(self.engine)
        lib.mnem_template_close(self.template)
        lib.mnem_tokenizer_destroy(self.tokenizer)
        lib.mnem_model_close(self.model)
        self.sequence = self.engine = self.template = self.tokenizer = self.model = None
        self.on_logits = None  # which refers to this object

    def metadata(self):
        found, key, value = {}, D.mnem_text(), D.mnem_value()
        while lib.mnem_model_key_get(self.model, len(found), C.byref(key), C.byref(value)):
            found[text_of(key).decode(errors="replace")] = value_text(value)
        return {name: text for name, text in found.items() if text is not None}

    # ---- tokens ----

    def encode(self, text, special=True):
        data = text.encode()
        ids, count = C.POINTER(C.c_int32)(), C.c_size_t()
        flags = 0 if special else D.MNEM_ENCODE_NO_SPECIAL
        check(lib.mnem_tokenizer_encode(self.tokenizer, data, len(data), flags, C.byref(ids),
                                        C.byref(count)))
        return ids[:count.value]

    @functools.cached_property
    def grammars(self):
        return Grammars(self.tokenizer)

    @functools.cached_property
    def shown(self):
        return Shown(self.vocab)

    def text(self, token):
        """What a token prints, alone."""
        return text_of(lib.mnem_tokenizer_piece(self.tokenizer, token, False)).decode(errors="replace")

    def breakers(self, options):
        """DRY's breakers, and the words that they borrow. None given: llama.cpp's four."""
        made = D.mnem_dry_breakers()
        texts = None if options.breakers is None else [text.encode() for text in options.breakers]
        if not options.sampler.dry_multiplier or texts == []:
            return made, None
        count = len(texts or ())
        given = (C.c_char_p * count)(*texts) if texts else None
        room = lib.mnem_dry_breakers_size(given, count)
        words = (C.c_int32 * max(room, 1))()
        check(lib.mnem_dry_breakers_init(self.tokenizer, given, count, words, room, C.byref(made)))
        return made, words

    # ---- the chat template ----

    def template_input(self, messages, tools, ask=True):
        if not self.template:
            raise Error("mnem: this model has no chat template: use generate", D.MNEM_UNSUPPORTED)
        return D.mnem_template_input(messages=json.dumps(messages).encode(), add_generation_prompt=ask,
                                     tools=json.dumps(tools).encode() if tools else None)

    def encode_chat(self, messages, tools, ask=True):
        given = self.template_input(messages, tools, ask)
        ids, count = C.POINTER(C.c_int32)(), C.c_size_t()
        check(lib.mnem_template_encode(self.template, self.tokenizer, C.byref(given), C.byref(ids),
                                       C.byref(count)))
        return ids[:count.value]

    def render(self, messages, tools):
        given, text = self.template_input(messages, tools), D.mnem_text()
        for name in "bos", "eos":
            piece = lib.mnem_tokenizer_piece(self.tokenizer, getattr(self, name), True)
            setattr(given, name, text_of(piece))
        check(lib.mnem_template_render(self.template, C.byref(given), C.byref(text)))
        return text_of(text).decode(errors="replace")

    @functools.cached_property
    def template_end(self):
        """The control token that the template writes behind an answer, where nothing but control tokens
        and white space follows: it ends an answer too. -1: there is none."""
        end = -1
        try:
            ids = self.encode_chat([{"role": "user", "content": "Hi"},
                                    {"role": "assistant", "content": "Yes"}], None, ask=False)
        except Error:  # which a template may refuse
            return end
        for token in reversed(ids):
            text = self.text(token)
            if not text:
                end = token
            elif text.strip(" \t\r\n"):
                break
        return end

    # ---- steps ----

    def choose(self, _context, part, _index, logits):
        try:
            self.active[part].choose(logits)
            return True
        except BaseException as failure:  # which can't pass through the library
            self.failure = failure
            return False

    def reset(self):
        """Forgets what the sequence holds."""
        if self.sequence:
            check(lib.mnem_sequence_truncate(self.sequence, 0))
        self.held = []

    def keep_common(self, ids):
        """Cuts the sequence to what it has in common with ids, of which one is left to run."""
        if not self.sequence:
            check(lib.mnem_sequence_create(self.engine, C.byref(self.sequence)))
            self.held = []
        common = 0
        while common < min(len(self.held), len(ids) - 1) and self.held[common] == ids[common]:
            common += 1
        common = min(common, lib.mnem_sequence_length(self.sequence))
        if lib.mnem_sequence_truncate(self.sequence, common) != D.MNEM_OK:
            check(lib.mnem_sequence_truncate(self.sequence, 0))

    def step(self, job, ids):
        """Runs what the sequence doesn't hold of its ids, the last of which gives the next token. A
        request to cancel that an earlier job's end left over stops nothing."""
        while True:
            at = lib.mnem_sequence_length(self.sequence)
            n = len(ids) - at
            part = D.mnem_step_part(self.sequence, (C.c_int32 * n)(*ids[at:]), n, n - 1)
            status = lib.mnem_engine_step(self.engine, C.byref(part), 1, self.on_logits, None)
            if self.failure:
                failure, self.failure = self.failure, None
                raise failure
            if status != D.MNEM_CANCELLED or job.cancelled:
                return check(status)

    def begin(self, ids):
        self.load()
        if not ids:
            raise Error("mnem: the prompt is empty, and the model has no BOS token", D.MNEM_INVALID)

    def run(self, job, ids, options, tell=None):
        """The Text that follows ids; tell: called with its pieces instead."""
        self.begin(ids)
        run = Run(self, ids, options, tell)
        try:
            self.keep_common(run.ids)
            self.held, self.active = run.ids, [run]
            self.step(job, run.ids)
            while run.take():
                self.step(job, run.ids)
            return None if tell else run.result
        finally:
            self.active = []
            run.close()

    def logits(self, job, ids):
        """A copy of the logits that follow ids."""
        self.begin(ids)
        copied = Copied(self.vocab)
        self.keep_common(ids)
        self.held, self.active = list(ids), [copied]
        try:
            self.step(job, self.held)
        finally:
            self.active = []
        return copied.result

    def embed(self, texts, pooling):
        self.load()
        how = D.mnem_embed_options(pooling=pooling)
        lib.mnem_sequence_destroy(self.sequence)  # whose place they take
        self.sequence = C.POINTER(D.mnem_sequence)()
        about = D.mnem_transformer()
        check(lib.mnem_model_transformer(self.model, C.byref(about)))
        parts = (D.mnem_embed_text * len(texts))()
        for part, text in zip(parts, texts):
            ids = self.encode(text)
            part.ids, part.n = (C.c_int32 * len(ids))(*ids), len(ids)
        out = (C.c_float * (len(texts) * about.embd))()
        check(lib.mnem_engine_embed(self.engine, parts, len(texts), C.byref(how), out))
        return [out[i * about.embd:(i + 1) * about.embd] for i in range(len(texts))]
