"""train: a model, or an adapter, from text, inside a budget; the steps run in a thread of their own.

The folder of a run is the one of `mnem train`: config.json, vocabulary.gguf, tokens, checkpoint, log.jsonl
and the result, so that the command continues a run of Python's and the other way round. What a run begins
with is made in OUT/.mnem-tmp and moved when step 1 is near: a refusal leaves the disk as it was."""
# mypy: allow-untyped-calls
import fcntl
import json
import math
import os
import shutil
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._library import Error, size_text
from ._progress import log
from ._tables import _table
from ._train_config import config_is_run, config_length, config_make, config_read, config_write
from ._train_engine import TrainEngine
from ._train_records import data_kind
from ._worker import Worker

_MADE = "vocabulary.gguf", "tokens", "config.json"
_OWN = (*_MADE, "text", "log.jsonl", "loss.svg", "model.gguf", "adapter.gguf")
_SAVE_SECONDS = 60
_MEAN = 20  # losses, of which the first and the last ones are compared
_Path = Union[str, "os.PathLike[str]"]


class TrainStep(NamedTuple):
    """A step that is done. loss: mean over its tokens, in nats; seconds: of this step; rate: the learning
    rate; norm: of the gradient; of: how many steps the run has; heldout_loss: measured after this step
    (evaluate_every), else None."""

    step: int
    loss: float
    tokens: int
    seconds: float
    rate: float
    norm: float
    of: int
    heldout_loss: Optional[float] = None


class TrainPlan:
    """What a run takes, decided before its weights are read; the lines sum to `peak`."""

    def __init__(self, plan: Any, lines: List[Any]) -> None:
        self.budget: int = plan.budget_bytes
        self.peak: int = plan.peak_bytes
        self.parameters: int = plan.parameters
        self.micro_batch: int = plan.micro_batch
        self.accumulation: int = plan.accumulation
        self.layers: int = plan.layers
        self.layers_recomputed: int = plan.layers_recomputed
        self.lines = lines

    def __str__(self) -> str:
        end = [("peak", "", self.peak)] + ([("budget", "", self.budget)] if self.budget else [])
        return (f"{_table(self.lines, end)}\n{self.parameters:,} weights are trained, {self.micro_batch} "
                f"sequences at once, {self.layers_recomputed} of {self.layers} layers recomputed")


class Training:
    """What a run has done. losses: of each step, those before resume=True too; heldout_loss: of the text that
    is held out, None where there is none; heldout_losses: (step, loss) of each time that it was measured;
    finished: all steps are done; path: the model or the adapter that
    was written; checkpoint: where resume=True continues; folder: of the run."""

    def __init__(self, folder: str, plan: TrainPlan, config: Dict[str, Any]) -> None:
        self.folder, self.plan, self.config = folder, plan, config
        self.losses: List[float] = []
        self.heldout_losses: List[Tuple[int, float]] = []
        self.finished = False
        self.path: Optional[str] = None
        self.checkpoint = os.path.join(folder, "checkpoint")
        self.seconds = 0.0

    @property
    def steps(self) -> int:
        return len(self.losses)

    @property
    def heldout_loss(self) -> Optional[float]:
        return self.heldout_losses[-1][1] if self.heldout_losses else None

    @property
    def loss(self) -> Optional[float]:
        return self.losses[-1] if self.losses else None

    def __repr__(self) -> str:
        loss = "" if self.loss is None else f", loss {self.loss:.4f}"
        return f"<mnem.Training: {self.steps} of {self.config['steps']} steps{loss}, {self.path or self.folder}>"


class _Folder:
    """One run at a time, and nothing left of a run that never began."""

    def __init__(self, out: str, resume: bool) -> None:
        self.out, self.staging = out, os.path.join(out, ".mnem-tmp")
        self.made = False
        self.begun = resume
        self.spooled = False  # data that was given as objects is in OUT/text
        if not resume:
            self._refuse_foreign()
            self.made = not os.path.isdir(out)
            os.makedirs(out, exist_ok=True)
        elif not os.path.exists(self.path("config.json")):
            raise Error(f"mnem: the folder {out} holds no training run to resume")
        self.lock = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self.lock)
            raise Error(f"mnem: the folder {out} is in use by another training: choose another out") from None
        shutil.rmtree(self.staging, ignore_errors=True)
        if not resume:
            os.mkdir(self.staging)

    def _refuse_foreign(self) -> None:
        if os.path.exists(self.path("checkpoint")):
            raise Error(f"mnem: {self.out} holds a run: resume=True continues it, another out begins a new one")
        if config_is_run(self.path("config.json")):
            return  # without a checkpoint: this one replaces it
        for name in _OWN:
            if os.path.lexists(self.path(name)):
                raise Error(f"mnem: {self.path(name)} does not belong to a training run, and a run in "
                            f"{self.out} would replace it: choose another out")

    def path(self, name: str) -> str:
        return os.path.join(self.out, name)

    def new(self, name: str) -> str:
        return self.path(name) if self.begun else os.path.join(self.staging, name)

    def begin(self) -> None:
        if not self.begun:
            for name in _MADE:  # config.json last: a folder that has it has what it needs
                os.replace(os.path.join(self.staging, name), self.path(name))
            shutil.rmtree(self.staging)
            self.begun = True

    def close(self) -> None:
        if not self.begun:
            shutil.rmtree(self.staging, ignore_errors=True)
            if self.spooled:
                os.unlink(self.path("text"))
            if self.made:
                try:
                    os.rmdir(self.out)
                except OSError:
                    pass
        os.close(self.lock)


class _Log:
    """log.jsonl, a line for each step; lines of steps that a checkpoint hasn't done are dropped."""

    def __init__(self, path: str, steps: int) -> None:
        self.losses: List[float] = []
        self.heldout_losses: List[Tuple[int, float]] = []
        end = 0
        if steps and os.path.exists(path):
            with open(path, "rb") as old:
                for line in old:
                    try:
                        record = json.loads(line)
                    except ValueError:
                        break
                    if record.get("step", steps + 1) > steps:
                        break
                    end += len(line)
                    if record.get("validation_loss") is not None:
                        self.heldout_losses.append((record["step"], record["validation_loss"]))
                    if "loss" in record:  # null: not a number
                        self.losses.append(math.nan if record["loss"] is None else float(record["loss"]))
        self.file = open(path, "r+b" if end else "wb")
        self.file.truncate(end)
        self.file.seek(end)

    def write(self, kind: str, **numbers: Any) -> None:
        known = {key: None if isinstance(n, float) and not math.isfinite(n) else n
                 for key, n in numbers.items()}
        self.file.write(json.dumps({**known, "type": kind}, separators=(",", ":")).encode() + b"\n")
        self.file.flush()


def _diverged(losses: List[float], steps: int) -> bool:
    n = min(max(steps // 10, 1), _MEAN)
    if len(losses) < 2 * n:
        return False
    return sum(losses[-n:]) / n > 1.25 * sum(losses[:n]) / n + 4 / math.sqrt(n)


def _paths(data: Any, folder: _Folder) -> List[str]:
    """Paths of files; records that are given as objects are written into the run's folder."""
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if not data:
        raise ValueError("mnem: data is missing: a path, a list of paths, or a list of conversations")
    if all(isinstance(one, (str, os.PathLike)) for one in data):
        return [os.path.realpath(one) for one in data]
    path = folder.path("text")
    folder.spooled = True
    with open(path, "w", encoding="utf-8") as file:
        for one in data:
            file.write(json.dumps(one if isinstance(one, dict) else {"messages": one}) + "\n")
    return [os.path.realpath(path)]


class _Shown:
    """A line on a terminal for each step, where no callback is told of them."""

    def __init__(self, on_step: Any) -> None:
        self.watched = on_step is None and sys.stderr is not None and sys.stderr.isatty()
        self.any = False

    def step(self, at: TrainStep) -> None:
        if self.watched:
            self.any = True
            sys.stderr.write(f"\r\033[Kmnem: step {at.step} of {at.of}, loss {at.loss:.4f}, "
                             f"{at.tokens / at.seconds:.0f} tokens/s")
            sys.stderr.flush()

    def end(self) -> None:
        if self.any:
            sys.stderr.write("\n")


class _Run:
    def __init__(self, folder: _Folder, worker: Worker, on_step: Any, every: Tuple[int, int]) -> None:
        self.folder, self.worker, self.on_step = folder, worker, on_step
        self.save_every, self.evaluate_every = every
        self.shown = _Shown(on_step)
        self.engine: Any = None
        self.saved = time.monotonic()
        self.log: Any = None

    def steps(self, result: Training) -> bool:
        """Runs what is left; whether the callback let it."""
        total, engine = result.config["steps"], self.engine
        while result.steps < total:
            begin = time.monotonic()
            self.worker.cancel = engine.cancel
            report = self.worker.call(engine.step)
            seconds = time.monotonic() - begin
            result.seconds += seconds
            result.losses.append(report.loss)
            self.log.write("step", step=report.step, loss=report.loss,
                           tokens_per_s=result.config["batch"] * result.config["context"] / seconds,
                           bytes_peak=engine.bytes_peak, rate=report.rate,
                           norm=report.norm if math.isfinite(report.norm) else -1.0,
                           loss_scale=report.loss_scale, applied=bool(report.applied))
            heldout = None
            if self.evaluate_every and report.step % self.evaluate_every == 0:
                heldout = self.evaluate(result)
            step = TrainStep(report.step, report.loss, report.tokens, seconds, report.rate, report.norm, total,
                             heldout)
            self.shown.step(step)
            goes_on = self.on_step is None or self.on_step(step) is not False
            if not goes_on:
                return False
            self.save_now_and_then(result)
        return True

    def save_now_and_then(self, result: Training) -> None:
        due = (result.steps % self.save_every == 0 if self.save_every
               else time.monotonic() - self.saved > _SAVE_SECONDS)
        if due and not _diverged(result.losses, result.config["steps"]):
            self.save()

    def save(self) -> None:
        path = self.folder.path("checkpoint")
        self.worker.call(lambda job: self.engine.save(path))
        self.saved = time.monotonic()

    def finish(self, result: Training, whole: bool) -> None:
        config = result.config
        if _diverged(result.losses, config["steps"]):
            raise Error(f"mnem: the training diverged: the loss rose from {result.losses[0]:.4g} to "
                        f"{result.losses[-1]:.4g}; no result is written. Start again with a rate below "
                        f"{config['rate']:g}")
        self.save()
        path = self.folder.path("adapter.gguf" if config["lora"] else "model.gguf")
        name = config["name"] or os.path.basename(os.path.realpath(self.folder.out))
        self.worker.call(lambda job: self.engine.write(path, name, config["license"]))
        result.path, result.finished = path, whole
        if not result.heldout_losses or result.heldout_losses[-1][0] < result.steps:
            self.evaluate(result)

    def evaluate(self, result: Training) -> Optional[float]:
        """Measures and logs the loss of the text that is held out."""
        self.worker.cancel = self.engine.cancel
        loss: Optional[float] = self.worker.call(self.engine.evaluate)
        if loss is not None:
            result.heldout_losses.append((result.steps, loss))
            self.log.write("validation", step=result.steps, validation_loss=loss,
                           perplexity=math.exp(loss) if loss < 700 else math.inf,
                           bits_per_byte=self.engine.bits_per_byte(loss))
        return loss

    def run(self) -> Training:
        engine = self.engine
        result = Training(self.folder.out, TrainPlan(engine.plan, engine.lines), engine.config)
        self.log = _Log(self.folder.path("log.jsonl"), engine.steps_done)
        result.losses, result.heldout_losses = self.log.losses, self.log.heldout_losses
        result.losses += [math.nan] * (engine.steps_done - len(result.losses))  # of lines that were lost
        self.saved = time.monotonic()
        log("train: %s of %s, steps %d to %d", size_text(result.plan.peak), size_text(result.plan.budget),
            result.steps + 1, result.config["steps"])
        try:
            whole = self.steps(result)
        except BaseException:  # Ctrl-C, or what the callback raised: the work is kept
            if result.steps > engine.steps_done and not _diverged(result.losses, result.config["steps"]):
                self.worker.cancel = None
                self.save()
            raise
        finally:
            self.shown.end()
        self.finish(result, whole)
        log("train: %s after step %d, loss %.4f", result.path, result.steps, result.losses[-1])
        return result

    def close(self) -> None:
        if self.log:
            self.log.file.close()
        self.worker.end(lambda job: self.engine and self.engine.close())


def _resumed(folder: _Folder, given: Dict[str, Any], steps: Optional[int]) -> Dict[str, Any]:
    config = config_read(folder.path("config.json"))
    for key, value in given.items():
        if value is not None and value != config.get(key):
            raise ValueError(f"mnem: {key} is {value!r}, but the run in {folder.out} has "
                             f"{config.get(key)!r}: leave it out")
    if config["masked"] or config["distill"]:
        raise Error(f"mnem: the run in {folder.out} is one that only the command continues (masked, distill)")
    if steps is not None:
        if steps < config["steps"]:
            raise ValueError(f"mnem: the run in {folder.out} has {config['steps']} steps, which can be raised "
                             f"but not lowered to {steps}")
        config["steps"] = steps
    if not config["steps"]:
        raise Error(f"mnem: the length of the run in {folder.out} isn't known yet: give steps")
    return config


def train(data: Any = None, *, init: Optional[_Path] = None, config: Union[str, Dict[str, Any], None] = None,
          out: _Path = "mnem-train", resume: bool = False, memory: Union[int, str, None] = None,
          threads: int = 0, steps: Optional[int] = None, epochs: Optional[float] = None,
          batch: Optional[int] = None, micro_batch: int = 0, ctx: Optional[int] = None, lora: int = 0,
          lora_alpha: Optional[float] = None, lora_targets: Union[str, Sequence[str], None] = None,
          rate: Optional[float] = None, warmup: Optional[int] = None, weight_decay: Optional[float] = None,
          clip: Optional[float] = None, dropout: Optional[float] = None, heldout: Optional[float] = None,
          vocab: Optional[int] = None, precision: Optional[str] = None, moments: Optional[str] = None,
          seed: Optional[int] = None, template: Optional[str] = None, save_every: int = 0, evaluate_every: int = 0,
          on_step: Optional[Callable[[TrainStep], Any]] = None) -> Training:
    """Trains a model, or with lora=RANK an adapter of `init`, and writes it as GGUF into the folder `out`.

    data: files of text; or JSON (lines, or an array) of texts, {"text": ...}, or of conversations, for a
    model with a chat template, of which only the answers are learned: {"messages": [...]}, ShareGPT's
    {"conversations": ...}, Alpaca's {"instruction", "input", "output"}, {"prompt", "completion"} and the
    like. Records may be given as a list of objects, too. init: the model to start
    from; without it a new one of the shape `config` ("tiny", "5m", "gpt2-10m", "gpt2-124m" or a dict of
    keys as in config.json), whose vocabulary is learned from the text. The other options are those of
    `mnem train`, with its defaults. lora_targets: "q,v" or a list.

    save_every: steps between checkpoints (0: about a minute's). evaluate_every: steps between measurements of
    the held-out loss (0: at the end only).

    on_step is called after each step, in the calling thread; if it returns False, the run ends there, and the
    model so far is written. Ctrl-C ends the step, writes a checkpoint and raises KeyboardInterrupt.
    resume=True continues the run in `out` from its checkpoint, as if it hadn't been interrupted.

    mnem.OverBudget before a weight is read where the run doesn't fit in `memory`."""
    if lora_targets is not None and not isinstance(lora_targets, str):
        lora_targets = ",".join(lora_targets)
    given: Dict[str, Any] = dict(
        batch=batch, context=ctx, lora=lora or None, lora_alpha=lora_alpha, rate=rate, warmup=warmup,
        weight_decay=weight_decay, clip=clip, dropout=dropout, heldout=heldout, vocab=vocab,
        precision=precision, moments=moments, seed=seed,
        lora_targets=lora_targets.replace("_proj", "") if lora_targets is not None else None,
        init=os.path.realpath(init) if init is not None else None)
    chosen = {} if resume else config_make(config, given)
    folder = _Folder(os.fspath(out), resume)
    worker: Any = Worker("mnem train")
    run = _Run(folder, worker, on_step, (save_every, evaluate_every))
    try:
        if resume:
            chosen = _resumed(folder, given, steps)
        else:
            chosen["files"] = _paths(data, folder)
            kinds = {data_kind(path) for path in chosen["files"]}
            if len(kinds) > 1:
                raise ValueError("mnem: the files of data are of several kinds: text, texts in JSON, conversations")
            chosen["data"] = kinds.pop()
        open_length = not (isinstance(config, dict) and ("steps" in config or "epochs" in config))

        def length(one: Dict[str, Any]) -> None:
            if not resume:
                config_length(one, steps, epochs, warmup, open_length and not isinstance(config, str))

        said = isinstance(config, dict) and "context" in config or isinstance(config, str)
        run.engine = TrainEngine(chosen, folder, memory, threads, micro_batch, template)
        worker.call(lambda job: run.engine.open(job, length, not (resume or ctx or said)))
        if not resume:
            config_write(folder.new("config.json"), chosen)
            folder.begin()
        elif steps is not None:
            config_write(folder.path("config.json"), chosen)
        return run.run()
    finally:
        try:
            run.close()
        finally:
            folder.close()
