"""The library's objects of a training run, in the order in which they are opened, because the bytes of each
are part of the plan: ledger, vocabulary, tokens, plan, trainer, feeds. Everything here runs in the worker."""
# mypy: allow-untyped-calls
import ctypes as C
import math
import os
from typing import Any, Callable, Dict, List, Optional

from . import _declarations_more as D
from ._budget import process
from ._library import Error, OverBudget, check, declare, lib, size_parse, text_of
from ._tables import Line
from ._train_data import TEXTS_KEY, Rows, RowSource, answer_rows, document_rows, texts

declare(D.FUNCTIONS)
_CONTEXT_LEAST, _CONTEXT_STEP, _CONTEXT_LORA = 32, 16, 512
_VOCABULARY_LEAST, _VOCABULARY_MOST = 16 << 20, 64 << 20
_COMPUTE = {"f32": D.MNEM_TYPE_F32, "bf16": D.MNEM_TYPE_BF16, "f16": D.MNEM_TYPE_F16}
_STACK = D.MNEM_FEED_STACK_BYTES
_FEED, _BATCHES = b"feed stack", b"batches"


def _knob(knob: Any) -> Any:
    """The option that would help, as (name, value)."""
    if knob.kind == D.MNEM_KNOB_MOMENTS:
        return "moments", "8bit"
    if knob.kind == D.MNEM_KNOB_COMPUTE:
        return "precision", "bf16" if knob.value == D.MNEM_TYPE_BF16 else "f16"
    names = {D.MNEM_KNOB_MICRO_BATCH: "micro_batch", D.MNEM_KNOB_CONTEXT: "ctx", D.MNEM_KNOB_MODEL: "init"}
    return (names[knob.kind], knob.value) if knob.kind in names else None


class TrainEngine:
    def __init__(self, config: Dict[str, Any], folder: Any, memory: Any, threads: int, micro_batch: int,
                 template: Optional[str]) -> None:
        self.config, self.folder, self.template = config, folder, template
        self.memory, self.threads, self.micro_batch = memory, threads, micro_batch
        self.device = C.POINTER(D.mnem_device)()
        self.base = C.POINTER(D.mnem_model)()  # of init, until its weights are read
        self.vocabulary = C.POINTER(D.mnem_model)()
        self.tokenizer = C.POINTER(D.mnem_tokenizer)()
        self.corpus = C.POINTER(D.mnem_corpus)()
        self.trainer = C.POINTER(D.mnem_trainer)()
        self.feed = C.POINTER(D.mnem_feed)()
        self.block = D.mnem_block()
        self.info = D.mnem_corpus_info()
        self.training, self.validation = D.mnem_windows(), D.mnem_windows()
        self.options, self.plan = D.mnem_train_options(), D.mnem_train_plan()
        self.lines: List[Line] = []
        self.steps_done = 0
        self.ledger: Any = None
        self.share: Any = None
        self.source = D.mnem_train_source(next=D.mnem_train_source._fields_[0][1](self._next))

    # ---- opening ----

    def open(self, job: Any, length: Callable[[Dict[str, Any]], None], context_open: bool) -> None:
        """Up to the weights. length: settles the steps, once the text is known; context_open: the context may
        become one that fits the text."""
        memory = size_parse(self.memory or self.config["memory"] or None)
        self.config["memory"] = memory
        with process.lock:
            self.share = process.share(memory)
            self.ledger = process.ledger
            process.engines.add(id(self))
            try:
                self.open_all(job, length, context_open)
            except OverBudget as refusal:
                refusal.budget = refusal.budget or process.size
                raise

    def open_all(self, job: Any, length: Callable[[Dict[str, Any]], None], context_open: bool) -> None:
        config, resume = self.config, self.folder.begun
        check(lib.mnem_device_open(b"host", None, C.byref(self.device)))
        if config["init"] and (not resume or config["lora"] or not self.saved()):
            check(lib.mnem_model_open(os.fsencode(config["init"]), C.byref(self.base)))
            if not resume:
                self.take_shape(context_open)
        if not resume:
            self.make_vocabulary(job)
        self.open_text(job)
        self.choose_windows(context_open)
        if not resume:
            config["windows"] = self.training.count
            length(config)
        self.make_plan()
        self.create()
        self.begin_weights()

    def saved(self) -> bool:
        return bool(self.folder.begun) and os.path.exists(self.folder.path("checkpoint"))

    def take_shape(self, context_open: bool) -> None:
        """The shape is the model's."""
        c, t = self.config, D.mnem_transformer()
        check(lib.mnem_model_transformer(self.base, C.byref(t)))
        check(lib.mnem_transformer_supports(C.byref(t), D.MNEM_FEATURE_TRAIN_ADAPTERS if c["lora"]
                                            else D.MNEM_FEATURE_TRAIN))
        rope = t.rope
        plain = (not rope.neox and rope.dims == t.head_dim and rope.yarn_ext == 0
                 and rope.scale in (0, 1) and t.rope_factors < 0)
        if not c["lora"] and t.architecture == b"llama" and not plain:
            raise Error(f"mnem: the model {c['init']} has scaled or partial rotary positions (RoPE), which "
                        "training all weights does not support: use lora, or another model")
        c.update(architecture=t.architecture.decode(), layers=t.layers, embd=t.embd, heads=t.heads,
                 kv_heads=t.kv_heads, head_dim=0 if t.head_dim * t.heads == t.embd else t.head_dim, ff=t.ff,
                 vocab=t.vocab, epsilon=t.epsilon)
        if rope.base > 0:
            c["rope_base"] = rope.base
        if context_open:
            c["context"] = t.window if 0 < t.window < t.context else t.context
            if c["lora"]:
                c["context"] = min(c["context"], _CONTEXT_LORA)

    def make_vocabulary(self, job: Any) -> None:
        path = self.folder.new("vocabulary.gguf")
        if self.base:
            return self.write_vocabulary(path, *self.base_tokenizer())
        if self.config["data"] == "chat":
            raise ValueError("mnem: conversations need init, for its chat template and vocabulary")
        info = D.mnem_ledger_info()
        lib.mnem_ledger_info_get(self.ledger, C.byref(info))
        room = (info.budget_bytes - info.bytes_live) // 4 * 3 if info.budget_bytes > info.bytes_live else 0
        tell = D.mnem_progress._fields_[0][1](lambda *_: not job.cancelled)
        options = D.mnem_vocabulary_options(
            tokens=self.config["vocab"], pre=self.config["pre"].encode(),
            bytes_max=min(max(room, _VOCABULARY_LEAST), _VOCABULARY_MOST),
            progress=D.mnem_progress(tell=tell))
        learned, tokenizer = C.POINTER(D.mnem_vocabulary)(), C.POINTER(D.mnem_tokenizer)()
        files = self.text_files()
        check(lib.mnem_vocabulary_learn(C.byref(options), files, len(files), C.byref(learned)))
        try:
            check(lib.mnem_tokenizer_create_from(learned, C.byref(tokenizer)))
            self.write_vocabulary(path, tokenizer)
        finally:
            lib.mnem_vocabulary_destroy(learned)
        return None

    def text_files(self) -> Any:
        """Files of text to learn a vocabulary from; of records a passing one."""
        if self.config["data"] != "texts":
            return self.c_files()
        path = self.folder.new("documents")
        with open(path, "w", encoding="utf-8") as file:
            for text in texts(self.config["files"]):
                file.write(text + "\n")
        return (C.c_char_p * 1)(os.fsencode(path))

    def c_files(self) -> Any:
        return (C.c_char_p * len(self.config["files"]))(*map(os.fsencode, self.config["files"]))

    def base_tokenizer(self) -> Any:
        """That of init; for conversations with the template that there is instead of its own."""
        tokenizer, value = C.POINTER(D.mnem_tokenizer)(), D.mnem_value()
        source = self.template.encode() if self.template else None
        if self.config["data"] == "chat" and not source and not lib.mnem_model_key_find(
                self.base, b"tokenizer.chat_template", C.byref(value)):
            check(lib.mnem_tokenizer_create(self.base, C.byref(tokenizer)))
            source = lib.mnem_chat_format_template(lib.mnem_tokenizer_chat_format(tokenizer))
            lib.mnem_tokenizer_destroy(tokenizer)
            if not source:
                raise Error(f"mnem: {self.config['init']} has no chat template, and its tokens match no known "
                            "chat format: give template, a text in Jinja")
        options = D.mnem_tokenizer_options(chat_template=source)
        check(lib.mnem_tokenizer_create_with(self.base, C.byref(options), C.byref(tokenizer)))
        return tokenizer, source  # which it borrows

    def write_vocabulary(self, path: str, tokenizer: Any, _: Any = None) -> None:
        try:
            self.gguf(path, [(b"general.architecture", b"vocabulary")],
                      lambda writer: lib.mnem_tokenizer_write(tokenizer, writer))
        finally:
            lib.mnem_tokenizer_destroy(tokenizer)

    def gguf(self, path: str, keys: Any, *parts: Any) -> None:
        writer = C.POINTER(D.mnem_gguf_writer)()
        check(lib.mnem_gguf_create(os.fsencode(path), C.byref(writer)))
        try:
            for key, text in keys:
                check(lib.mnem_gguf_key_text(writer, key, text))
            for part in parts:
                check(part(writer))
        except BaseException:
            lib.mnem_gguf_abort(writer)
            raise
        check(lib.mnem_gguf_finish(writer))

    # ---- text ----

    def open_text(self, job: Any) -> None:
        resume = self.folder.begun  # then the cache is the text, and the checkpoint's note has its checksum
        check(lib.mnem_model_open(os.fsencode(self.folder.new("vocabulary.gguf")), C.byref(self.vocabulary)))
        check(lib.mnem_tokenizer_create(self.vocabulary, C.byref(self.tokenizer)))
        tell = D.mnem_progress._fields_[0][1](lambda *_: not job.cancelled)
        files = (C.c_char_p * 0)() if resume else self.c_files()
        options = D.mnem_corpus_options(files=files, count=len(files),
                                        tokenizer=None if resume else self.tokenizer,
                                        cache=os.fsencode(self.folder.new("tokens")), threads=self.threads,
                                        progress=D.mnem_progress(tell=tell))
        if resume or self.config["data"] == "text":
            check(lib.mnem_corpus_open(C.byref(options), C.byref(self.corpus)))
        else:
            self.open_rows(options, job)
        lib.mnem_corpus_info_get(self.corpus, C.byref(self.info))
        about = D.mnem_tokenizer_info()
        lib.mnem_tokenizer_info_get(self.tokenizer, C.byref(about))
        if self.config["vocab"] != about.vocab:
            self.config["vocab_asked"], self.config["vocab"] = self.config["vocab"], about.vocab

    def open_rows(self, options: Any, job: Any) -> None:
        files = self.config["files"]
        if self.config["data"] == "texts":
            source = RowSource(document_rows(self.tokenizer, files), job)
            options.rows = D.mnem_corpus_rows(next=source.next, key=TEXTS_KEY, joined=True)
            return self.open_source(options, source)
        value = D.mnem_value()
        lib.mnem_model_key_find(self.vocabulary, b"tokenizer.chat_template", C.byref(value))
        rows = Rows(self.tokenizer, text_of(value.text))
        try:
            source = RowSource(answer_rows(rows, files), job)
            options.rows = D.mnem_corpus_rows(next=source.next, key=rows.key)
            return self.open_source(options, source)
        finally:
            rows.close()

    def open_source(self, options: Any, source: RowSource) -> None:
        try:
            check(lib.mnem_corpus_open(C.byref(options), C.byref(self.corpus)))
        except Error:
            if source.failure:
                raise source.failure from None
            raise

    def choose_windows(self, context_open: bool) -> None:
        c, info = self.config, self.info
        if info.rows:
            wanted = -(-(info.row_most - 1) // _CONTEXT_STEP) * _CONTEXT_STEP
            if context_open:
                c["context"] = min(c["context"], wanted)
            check(lib.mnem_windows_split_rows(info.rows, c["context"], c["heldout"], c["seed"],
                                              C.byref(self.training), C.byref(self.validation)))
            return
        while True:
            status = lib.mnem_windows_split(info.tokens, c["context"], c["heldout"], c["seed"],
                                            C.byref(self.training), C.byref(self.validation))
            if status == D.MNEM_OK or not context_open or c["context"] // 2 < _CONTEXT_LEAST:
                check(status)
                return
            c["context"] //= 2

    # ---- the plan ----

    def set_options(self) -> None:
        c, o = self.config, self.options
        o.ledger, o.sequence, o.batch, o.micro_batch = self.ledger, c["context"], c["batch"], self.micro_batch
        o.threads, o.dropout, o.seed, o.norm_max = self.threads, c["dropout"], c["seed"], c["clip"]
        o.schedule = D.mnem_schedule(c["rate"], c["rate_floor"], min(c["warmup"], c["steps"]), c["steps"])
        o.optimizer.weight_decay, o.optimizer.seed = c["weight_decay"], c["seed"]
        o.optimizer.moments = D.MNEM_MOMENTS_8BIT if c["moments"] == "8bit" else D.MNEM_MOMENTS_F32
        t = o.shape
        t.architecture = c["architecture"].encode()
        for key in "layers", "embd", "heads", "kv_heads", "ff", "vocab", "context", "epsilon":
            setattr(t, key, c[key])
        t.head_dim = c["head_dim"] or c["embd"] // c["heads"]
        t.rope.dims, t.rope.base = t.head_dim, c["rope_base"]
        t.rope_factors, t.tied = -1, True
        if c["lora"]:
            o.lora.rank, o.lora.alpha, o.lora.base = c["lora"], c["lora_alpha"], self.base
            if c["lora_targets"]:
                found = C.c_uint32()
                check(lib.mnem_lora_targets_parse(c["lora_targets"].encode(), C.byref(found)))
                o.lora.targets = found.value
        one, two = self.feed_bytes(1), self.feed_bytes(2)
        o.io_bytes_sequence = two - one + 64
        o.io_bytes = one + _STACK + 4096

    def feed_bytes(self, rows: int) -> int:
        return int(lib.mnem_feed_bytes(rows, self.config["context"], 0))

    def make_plan(self) -> None:
        """auto precision: f32 where it fits, else bf16; what was chosen stays for resume."""
        c = self.config
        self.set_options()
        try:
            live = process.info().bytes_live
            check(lib.mnem_ledger_budget_set(self.ledger, live + self.share.plan_bytes()))
            self.plan_in(["f32", "bf16"] if c["precision"] == "auto" else [c["precision"]])
            check(lib.mnem_ledger_hold(self.ledger))
        except OverBudget as refusal:
            refusal.knob = _knob(self.plan.knob)
            if self.plan.needed_bytes:
                self.share.explain(refusal, self.plan.needed_bytes)
            raise
        finally:
            process.limit()
        self.lines = [Line(lib.mnem_kind_text(at.kind).decode(), at.tag.decode(), at.bytes)
                      for at in self.plan.line[:self.plan.lines]]

    def plan_in(self, precisions: List[str]) -> None:
        for precision in precisions:
            self.options.compute = _COMPUTE[precision]
            status = lib.mnem_train_plan_make(C.byref(self.options), C.byref(self.plan))
            if status != D.MNEM_OVER_BUDGET:
                break
        check(status)
        self.config["precision"] = precision

    # ---- weights ----

    def create(self) -> None:
        check(lib.mnem_trainer_create(C.byref(self.options), C.byref(self.plan), C.byref(self.trainer)))
        self.take_feed()

    def begin_weights(self) -> None:
        """Frozen weights aren't in a checkpoint: they come from the base again."""
        saved = self.saved()
        if not saved:
            lib.mnem_trainer_init(self.trainer, self.config["seed"])
        if self.base:
            check(lib.mnem_trainer_load(self.trainer, self.base))
            lib.mnem_model_close(self.base)
            self.base = C.POINTER(D.mnem_model)()
        if not saved:
            return
        note = C.create_string_buffer(64)
        check(lib.mnem_trainer_resume(self.trainer, os.fsencode(self.folder.path("checkpoint")), note, 64))
        if note.value != self.note():
            raise Error(f"mnem: the run in {self.folder.out} was trained on other tokens")
        self.steps_done = int(lib.mnem_trainer_steps(self.trainer))

    def note(self) -> bytes:
        return b"mnem train, text %016x" % self.info.checksum

    # ---- batches ----

    def take_feed(self) -> None:
        check(lib.mnem_ledger_charge_planned(self.ledger, D.MNEM_KIND_IO, _FEED, _STACK))
        check(lib.mnem_ledger_alloc(self.ledger, self.device, D.MNEM_KIND_IO, _BATCHES,
                                    self.feed_bytes(self.plan.micro_batch), 4096, C.byref(self.block)))

    def give_feed(self) -> None:
        self.stop_feed()
        if self.block.bytes:
            lib.mnem_ledger_free(self.ledger, D.MNEM_KIND_IO, _BATCHES, C.byref(self.block))
            lib.mnem_ledger_release(self.ledger, D.MNEM_KIND_IO, _FEED, _STACK)

    def stop_feed(self) -> None:
        lib.mnem_feed_destroy(self.feed)
        self.feed = C.POINTER(D.mnem_feed)()

    def start_feed(self, windows: Any, first: int, end: int) -> None:
        self.stop_feed()
        options = D.mnem_feed_options(corpus=self.corpus, windows=windows, rows=self.plan.micro_batch,
                                      first=first, end=end)
        check(lib.mnem_feed_create(C.byref(options), self.block.address, C.byref(self.feed)))

    def _next(self, _: Any, out: Any) -> int:
        batch = D.mnem_batch()
        status = int(lib.mnem_feed_next(self.feed, C.byref(batch)))
        if status == D.MNEM_OK:
            out[0].ids, out[0].targets, out[0].sequences = batch.ids, batch.targets, batch.rows
        return status if status != D.MNEM_OK or batch.rows else int(D.MNEM_NOT_FOUND)

    # ---- steps ----

    def cancel(self) -> None:
        lib.mnem_trainer_cancel(self.trainer)

    def step(self, job: Any) -> Any:
        report = D.mnem_train_report()
        if not self.feed:
            steps = lib.mnem_trainer_steps(self.trainer)
            self.start_feed(self.training, steps * self.config["batch"], 0)
        check(lib.mnem_trainer_step(self.trainer, C.byref(self.source), C.byref(report)))
        return report

    def evaluate(self, job: Any) -> Optional[float]:
        """The loss of the held-out text."""
        loss, tokens = C.c_double(), C.c_int64()
        if not self.validation.count:
            return None
        if not self.block.bytes:  # given for the writer of the result
            self.take_feed()
        self.start_feed(self.validation, 0, self.validation.count)
        try:
            check(lib.mnem_trainer_evaluate(self.trainer, C.byref(self.source), C.byref(loss),
                                            C.byref(tokens)))
        finally:
            self.stop_feed()
        return loss.value

    def bits_per_byte(self, loss: float) -> float:
        if self.config["data"] == "chat":
            return math.nan
        return float(loss / math.log(2) / (self.info.text_bytes / self.info.tokens))

    @property
    def bytes_peak(self) -> int:
        info = D.mnem_ledger_info()
        lib.mnem_ledger_info_get(self.ledger, C.byref(info))
        return int(info.bytes_peak)

    def save(self, path: str) -> None:
        check(lib.mnem_trainer_save(self.trainer, os.fsencode(path), self.note()))

    def write(self, path: str, name: str, license: str) -> None:
        """The model or the adapter; the feed's memory is room for its writer."""
        self.give_feed()
        keys = [(b"general.name", name.encode())]
        if license:
            keys.append((b"general.license", license.encode()))
        lora = self.config["lora"]
        parts = [] if lora else [lambda writer: lib.mnem_tokenizer_write(self.tokenizer, writer)]
        kind = D.MNEM_TYPE_F32 if lora else D.MNEM_TYPE_F16
        self.gguf(path, keys, *parts, lambda writer: lib.mnem_trainer_write(self.trainer, kind, writer))

    def close(self) -> None:
        process.engines.discard(id(self))
        if self.ledger:
            self.give_feed()
        lib.mnem_trainer_destroy(self.trainer)
        lib.mnem_corpus_close(self.corpus)
        lib.mnem_tokenizer_destroy(self.tokenizer)
        lib.mnem_model_close(self.vocabulary)
        lib.mnem_model_close(self.base)
        lib.mnem_device_close(self.device)
        self.trainer = C.POINTER(D.mnem_trainer)()
        self.corpus, self.tokenizer = C.POINTER(D.mnem_corpus)(), C.POINTER(D.mnem_tokenizer)()
        self.vocabulary, self.base = C.POINTER(D.mnem_model)(), C.POINTER(D.mnem_model)()
        self.device = C.POINTER(D.mnem_device)()
