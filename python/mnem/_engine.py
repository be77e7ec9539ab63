"""Engine: the library's objects of one LLM. All of it runs in the LLM's worker thread (_worker.py)."""
import ctypes as C
import functools
import json
import os
import threading

from . import _declarations as D
from ._budget import process
from ._library import Error, OverBudget, check, lib, text_of, value_text
from ._grammar import Grammars
from ._logits import Copied, Shown
from ._progress import Progress, log
from ._run import Run
from ._sequences import Sequences, adapter_path

_ROOM = b"texts and samplers"
_KNOBS = {D.MNEM_KNOB_CHUNK: "chunk", D.MNEM_KNOB_KV: "kv", D.MNEM_KNOB_CONTEXT: "ctx",
          D.MNEM_KNOB_MODEL: "model"}


def knob_of(knob):
    """(option, value) of a mnem_knob, or None."""
    name, value = _KNOBS.get(knob.kind), knob.value
    if name == "kv":
        value = lib.mnem_kv_text(value).decode()
    return name and (name, None if name == "model" else value)


class Engine:
    """The library's objects of one LLM, in the order in which they are opened."""

    def __init__(self, path, memory, options, template=None, lora=()):
        self.path, self.options, self.given_template, self.lora = path, options, template, lora
        self.cancel_lock = threading.Lock()
        with process.lock:
            share = process.share(memory)
            options.ledger = process.ledger
            try:
                self.open(share)
            except OverBudget as refusal:
                self.close()
                if refusal.needed is None:
                    self.refuse(share, refusal)
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
        self.adapters = []
        self.plan = D.mnem_engine_plan()
        self.sequences = None
        self.room = 0

    def open(self, share):
        self.clear()
        check(lib.mnem_model_open(os.fsencode(self.path), C.byref(self.model)))
        check(lib.mnem_tokenizer_create(self.model, C.byref(self.tokenizer)))
        info = D.mnem_tokenizer_info()
        lib.mnem_tokenizer_info_get(self.tokenizer, C.byref(info))
        self.vocab, self.bos, self.eos = info.vocab, info.bos, info.eos
        self.open_template()
        self.open_adapters()
        self.reserve()
        share.opened()
        self.share = share
        self.make_plan(self.plan)
        self.sequences = Sequences(self, self.plan.sequences)

    def make_plan(self, plan):
        self.options.budget_bytes = self.share.plan_bytes()
        try:
            check(lib.mnem_engine_plan_make(self.model, C.byref(self.options), C.byref(plan)))
        except OverBudget as refusal:
            refusal.knob = knob_of(plan.knob)
            if plan.needed_bytes:
                self.share.explain(refusal, plan.needed_bytes)
            raise

    def refuse(self, share, refusal):
        """Where not even the model's tables have room: opens it again, beyond the budget, for the
        numbers of its plan."""
        with share.raised():
            try:
                self.open(share)
                share.explain(refusal, max(process.info().bytes_peak, process.size + 1))
            except OverBudget as other:
                refusal.args, refusal.knob = other.args, other.knob
                refusal.needed, refusal.budget, refusal.least = other.needed, other.budget, other.least
            finally:
                self.close()

    def open_template(self):
        value = D.mnem_value()
        if self.given_template:
            source = self.given_template.encode()
        elif lib.mnem_model_key_find(self.model, b"tokenizer.chat_template", C.byref(value)):
            source = text_of(value.text)
        else:
            source = lib.mnem_chat_format_template(lib.mnem_tokenizer_chat_format(self.tokenizer))
        if source:
            check(lib.mnem_template_open(source, len(source), None, C.byref(self.template)))

    def open_adapters(self):
        for path, _ in self.lora:
            adapter = C.POINTER(D.mnem_model)()
            check(lib.mnem_adapter_open(os.fsencode(adapter_path(path)), self.model, C.byref(adapter)))
            self.adapters.append(adapter)
        n = len(self.adapters)
        self.options.adapters = (D.mnem_adapter * n)(
            *(D.mnem_adapter(adapter, scale) for adapter, (_, scale) in zip(self.adapters, self.lora)))
        self.options.adapter_count = n

    def reserve(self):
        """What texts, templates and samplers take for a while is charged before the plan, so that the
        plan has a line for it, and given back to them once there is an engine."""
        each = 16 * self.vocab + 32 * (self.options.context or 4096)
        room = (256 << 10) + each * max(1, self.options.sequences)
        check(lib.mnem_ledger_charge(self.options.ledger, D.MNEM_KIND_HOST, _ROOM, room))
        self.room = room

    def release(self):
        lib.mnem_ledger_release(self.options.ledger, D.MNEM_KIND_HOST, _ROOM, self.room)
        self.room = 0

    def load(self, job):
        if self.engine:
            return
        self.progress = Progress(job)  # which the library may call as long as there is the engine
        self.options.progress = self.progress.options
        try:
            check(lib.mnem_engine_create(self.model, C.byref(self.options), C.byref(self.plan),
                                         C.byref(self.engine)))
        except OverBudget:
            with process.lock:  # others took what the plan had: the refusal of a plan made now has numbers
                self.share.moved()
                self.make_plan(D.mnem_engine_plan())
            raise
        finally:
            self.progress.end()
            self.options.progress = D.mnem_progress()
        self.release()
        log("%s is loaded: %s", self.path, self.plan.why.decode(errors="replace"))

    def cancel(self):
        """Stops a step, from any thread."""
        with self.cancel_lock:
            if self.engine:
                lib.mnem_engine_cancel(self.engine)

    def close(self):
        process.engines.discard(id(self))
        if self.room:
            self.release()
        if "grammars" in self.__dict__:
            self.grammars.close()
        if self.sequences:
            self.sequences.close()
        with self.cancel_lock:
            engine, self.engine = self.engine, None
        lib.mnem_engine_destroy(engine)
        lib.mnem_template_close(self.template)
        lib.mnem_tokenizer_destroy(self.tokenizer)
        for adapter in self.adapters:
            lib.mnem_model_close(adapter)
        lib.mnem_model_close(self.model)
        self.template = self.tokenizer = self.model = self.sequences = None
        self.adapters = []

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

    def piece(self, token):
        """The bytes that a token prints; a special one prints none."""
        return text_of(lib.mnem_tokenizer_piece(self.tokenizer, token, False))

    def text(self, token):
        """What a token prints, alone."""
        return self.piece(token).decode(errors="replace")

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

    def template_input(self, messages, tools, arguments, ask=True):
        """ask: with the words that ask for an answer. arguments: further variables of the template."""
        if not self.template:
            raise Error("mnem: this model has no chat template: use generate", D.MNEM_UNSUPPORTED)
        return D.mnem_template_input(messages=json.dumps(messages).encode(), add_generation_prompt=ask,
                                     tools=json.dumps(tools).encode() if tools else None,
                                     arguments=json.dumps(arguments).encode() if arguments else None)

    def encode_chat(self, messages, tools=None, arguments=None, ask=True):
        given = self.template_input(messages, tools, arguments, ask)
        ids, count = C.POINTER(C.c_int32)(), C.c_size_t()
        check(lib.mnem_template_encode(self.template, self.tokenizer, C.byref(given), C.byref(ids),
                                       C.byref(count)))
        return ids[:count.value]

    def render(self, messages, tools, arguments):
        given, text = self.template_input(messages, tools, arguments), D.mnem_text()
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
                                    {"role": "assistant", "content": "Yes"}], ask=False)
        except Error:  # which a template may refuse
            return end
        for token in reversed(ids):
            text = self.text(token)
            if not text:
                end = token
            elif text.strip(" \t\r\n"):
                break
        return end

    # ---- texts ----

    def check_prompt(self, ids):
        if not ids:
            raise Error("mnem: the prompt is empty, and the model has no BOS token", D.MNEM_INVALID)
        if len(ids) > self.plan.context:
            raise OverBudget(f"mnem: the prompt has {len(ids)} tokens, the context {self.plan.context}: "
                             f"ctx={len(ids) + 1} would hold it", knob=("ctx", len(ids) + 1))

    def run(self, job, prompts, options, tell=None):
        """The Texts that follow prompts of ids; tell: called with the pieces of the only one instead."""
        self.load(job)
        runs = []
        try:
            for ids in prompts:
                self.check_prompt(ids)
            for ids in prompts:
                runs.append(Run(self, ids, options, tell))
            self.sequences.run(job, runs)
            return None if tell else [run.result for run in runs]
        finally:
            for run in runs:
                run.close()

    def logits(self, job, ids):
        """A copy of the logits that follow ids."""
        self.load(job)
        self.check_prompt(ids)
        copied = Copied(ids, self.vocab)
        self.sequences.run(job, [copied])
        return copied.result

    def embed(self, job, texts, pooling):
        self.load(job)
        how = D.mnem_embed_options(pooling=pooling)
        self.sequences.drop()  # whose places they take
        about = D.mnem_transformer()
        check(lib.mnem_model_transformer(self.model, C.byref(about)))
        parts = (D.mnem_embed_text * len(texts))()
        for part, text in zip(parts, texts):
            ids = self.encode(text)
            part.ids, part.n = (C.c_int32 * len(ids))(*ids), len(ids)
        out = (C.c_float * (len(texts) * about.embd))()
        check(lib.mnem_engine_embed(self.engine, parts, len(texts), C.byref(how), out))
        return [out[i * about.embd:(i + 1) * about.embd] for i in range(len(texts))]
