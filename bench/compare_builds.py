#!/usr/bin/env python3
"""Nothing lost: an old build's command beside the one of this checkout, answer by answer.

    bench/compare_builds.py OLD [--new NEW] [--quick] [--only GROUP,...] [--jobs N] [--work DIR]

OLD, NEW: a source tree with build/release in it, a build folder, or the command itself (NEW: this
checkout). Both run the same command lines, each in a folder of its own, and must give
  tokens       the same greedy and seeded tokens, for models x budgets x chunk x KV type x threads
  perplexity   the same number to the bit, over the same product
  least        for each least --memory that the old names: the new one accepts it, within the slack
  plans        for each way of --explain and each budget: every line but `runtime` equal or smaller,
               page tables 4 KiB and `runtime` 256 KiB more at most, and no worse way chosen
  train-plans  the same of `train --dry-run`
  train        losses, norms and validation to the bit, and the same model.gguf
  lora         the same of adapters, and of what `merge` makes of them
  resume       the old build's checkpoints go on in both, with the same losses and files
  quantize     the same files and reports
  verbs        the same of info, tokenize, and of plans for devices that aren't here
  errors       exit codes and JSON of what can't work
and, counted while those run,
  refusals     the same text and budget_bytes; needed_bytes and least within the slack
  memory       a process within its budget (VmHWM, as `run` and `train` report it).

Models: those of the tests and random weights in four architectures (make_model) at 30 budgets, from
just below the least to all resident; at fewer budgets the shipped model, random ones of all types,
LoRA, and forced levels. The slack is what a plan may need more, 260 KiB: a new build that refuses
an old budget is asked again with so much more.
The address space isn't randomized here: what is loaded where changes a peak by 4 KiB.

Levels of the processor (plain C, AVX2) are forced in builds of their own, of both trees, in
WORK/levels: a header that is included first takes a bit from what CPUID's header knows. The command
needs no switch for it. Where a tree isn't known, or on another processor, these are left out.
Tokens, perplexities, training, adapters and quantization are compared there, at fewer budgets.

EXCEPTIONS lists what may differ, and why: it is told, and no failure. Exit code 1 when anything
else differs; the command lines that do are printed, and WORK keeps what they read.
Half an hour on two quiet cores, 3 minutes with --quick; building the levels takes as long, once.
"""
import argparse
import concurrent.futures
import ctypes
import itertools
import os
import shlex
import shutil
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # no folder of it beside the sources
from builds_input import TRAINED, TYPES, make_models, make_texts
from two_builds import (ALL, NOTHING, SLACK, Build, Case, Pair, compare_lines, executable,
                        force_levels, frontier, plan_at, same_file, size, way, wording)

ROOT = Path(__file__).resolve().parent.parent


def near(limit):
    """Numbers that differ by a relative limit at most."""
    def allows(old, new):
        return isinstance(old, float) and isinstance(new, float) and \
            abs(new - old) <= limit * abs(old)
    return allows


def more(limit):
    """Bytes that grow by a limit at most."""
    def allows(old, new):
        return isinstance(old, int) and isinstance(new, int) and new - old <= limit
    return allows


def as_long(old, new):
    """Files of one size (same_file)."""
    return new.startswith(f"{old},")


def anything(_old, _new):
    return True


TIED = "defect 17: a tied matrix gets the head's and the embedding's gradients in one order"
EXCEPTIONS = [  # group, label of the case, field (patterns); what is allowed, and why
    *((group, f"*train*{kind}*", field, near(limit), TIED)
      for group in ("train", "resume") for kind, limit in (("f32", 1e-6), ("bf16", 1e-3))
      for field in ("step * [2-9]", "validation *")),
    ("train", "*", "model.gguf", as_long, TIED),
    ("resume", "*", "model.gguf", as_long, TIED),
    *((group, "*", field, more(limit), "defect 14: what notices that a file is written to")
      for group in ("plans", "train-plans", "verbs")
      for field, limit in (("line host metadata", 64), ("line host weights", 4096))),
    *(("train-plans", "*", field, more(4096), "defect 17: what waits for the head's gradients")
      for field in ("line host train", "line host graph")),
    ("tokens", "*any context*", "*", anything,
     "defect 15: without --ctx the context holds the prompt and -n, or the run is refused"),
]

QUANTIZE_TO = "Q8_0 Q4_0 Q4_K_M F16 F32 BF16 Q4_1 Q5_0 Q5_1 Q4_K Q5_K Q6_K".split()
PROMPT = "In the beginning God created the heaven and the earth."
GREEDY = ["-p", PROMPT, "-n", 12, "--temp", 0, "--seed", 1, "-q"]
SEEDED = ["-p", PROMPT, "-n", 12, "--temp", 0.9, "--repeat-penalty", 1.1, "--seed", 7, "-q"]
FEW = [(7, "f16", 1), (0, "q8_0", 2), (1, "q8_0", 1), (32, "f16", 2)]  # chunk, KV type, threads


class Extent:
    """How much is compared."""

    def __init__(self, quick):
        self.budgets, self.few = (6, 3) if quick else (30, 5)
        self.ways = 5 if quick else 40  # of a frontier
        self.threads = [2] if quick else [1, 2]
        self.options = FEW[:2] if quick else list(
            itertools.product((1, 7, 32, 0), ("f16", "q8_0"), (1, 2)))
        self.forced = FEW[:1] if quick else FEW
        self.files = ["mnem-kjv-5m-q8_0", "kjv-5m-q4_k_m"] + ([] if quick else ["kjv-5m-f16"])
        self.fewer = [] if quick else ["kjv-5m-q4_0"]  # shaped as those
        self.types = TYPES[::4] if quick else TYPES
        self.kinds = QUANTIZE_TO[::2] if quick else QUANTIZE_TO
        self.trained, self.forced_every = (3, 3) if quick else (4, 1)
        self.lora = ["own-gpt2", "own-qwen3", "mnem-kjv-5m-q8_0"]
        self.lora += [] if quick else ["kjv-5m-f16", "kjv-5m-q4_k_m"]
        self.merges = 2 if quick else 4


class Setup:
    """What the groups read: extent, models, and the levels that are forced."""

    def __init__(self, pair, extent, models, of_types, forced):
        self.pair, self.extent = pair, extent
        self.models, self.of_types, self.forced = models, of_types, forced
        self.levels = ["native", *forced]

    def others(self):
        """Models, levels and options besides the whole product."""
        for level in self.levels:
            models = self.of_types if level == "native" else self.models + self.of_types
            yield from itertools.product(models, [level], self.extent.forced)

    def case(self, label, args, level="native"):
        return Case(self.pair, label, args, level)


# ---- sessions ----

def session(s, verb, model, options, more, level="native"):
    chunk, kv, threads = options
    label = f"{level} {verb} {model}, chunk {chunk or 'any'}, {kv}, {threads} threads"
    label += "" if "--ctx" in more else ", any context"
    return s.case(label, [verb, f"../models/{model}.gguf", *more, "--json", "--kv", kv,
                          *(["--chunk", chunk] if chunk else []), "--threads", threads], level)


def plan_of(case):
    """The plan of a session's options."""
    args = [a for a in case.args[1:] if not a.endswith(".txt")]
    return case.like("", ["plan", *args])


def run_at(group, case, budget):
    case, old, new, given = case.pair.within(group, case, budget)
    if not old:
        return
    group.check(case, "tokens", *([(x["token"], x["text"]) for x in r.objects if "token" in x]
                                  for r in (old, new)))
    was, now = old.last, new.last
    for key in ("end", "prompt_tokens", "tokens", "seed"):
        group.check(case, key, str(was["stats"][key]), str(now["stats"][key]))
    case.pair.held(case, given, was["stats"]["vmhwm"], now["stats"]["vmhwm"])
    if way(was["plan"]) == way(now["plan"]):
        compare_lines(case.pair.groups["plans"], case, was["plan"], now["plan"])


def run_job(group, case, count):
    seeded = case.like(", seeded", [*case.args[:2], *SEEDED, *case.args[2 + len(GREEDY):]])
    for i, budget in enumerate(case.pair.budgets(case, count, plan_of(case))):
        run_at(group, case, budget)
        if i % 3 == 0:
            run_at(group, seeded, budget)


def tokens(s, group):
    context, count, few = ["--ctx", 96], s.extent.budgets, s.extent.few
    for model, options in itertools.product(s.models, s.extent.options):
        yield run_job, group, session(s, "run", model, options, GREEDY + context), count
    for model, kv in itertools.product(s.models, ("f16", "auto")):
        for more in ([], [*context, "--page-cache"]):
            yield run_job, group, session(s, "run", model, (0, kv, 2), GREEDY + more), count // 2
    for model, level, options in s.others():
        yield run_job, group, session(s, "run", model, options, GREEDY + context, level), few


def perplexity(s, group):
    def job(case, count):
        for budget in case.pair.budgets(case, count, plan_of(case)):
            one, old, new, _ = case.pair.within(group, case, budget)
            for key in ("perplexity", "error", "tokens", "windows") if old else ():
                group.check(one, key, old.last.get(key), new.last.get(key))
    more = ["../text/short.txt", "--ctx", 48, "-q"]
    for model, options in itertools.product(s.models, s.extent.options):
        yield job, session(s, "perplexity", model, options, more), s.extent.budgets
    for model, level, options in s.others():
        yield job, session(s, "perplexity", model, options, more, level), s.extent.few


def plans(s, group):
    def job(case):
        explained = case.plus("explained", "--explain", "--memory", ALL)
        old, new = (r.last["frontier"] for r in case.pair.both(explained))
        ways = frontier(group, explained, old, new, "seconds")
        some = ways[::max(1, len(ways) // s.extent.ways)]
        for budget in sorted({*some, *case.pair.budgets(case, s.extent.budgets)}):
            plan_at(group, case, budget)
    for model, kv, threads, more in itertools.product(
            s.models, ("f16", "q8_0", "auto"), s.extent.threads,
            (["--ctx", 96], [], ["--ctx", 96, "-p", PROMPT])):
        yield job, session(s, "plan", model, (0, kv, threads), more)


def least(s, group):
    def job(case):
        was = case.pair.old.run(case, "--memory", NOTHING).last["least"]
        one = case.plus(f"least {was}", "--memory", was)
        old, new = case.pair.both(one)
        if new.code == 3:
            new = case.pair.new.run(case, "--memory", size(was) + SLACK)
            group.note("accepted within the slack only")
        group.check(one, "exit code", str(old.code), str(new.code), old.code == new.code == 0)
    for model, options in itertools.product(s.models, s.extent.options):
        for verb, more in (("run", GREEDY), ("plan", []), ("perplexity", ["../text/short.txt"])):
            yield job, session(s, verb, model, options, [*more, "--ctx", 48])
    for label, more in train_options(s, few=True):
        yield job, train_case(s, label, [*more, "--dry-run", "--out", "least"])


# ---- training ----

def train_case(s, label, more, level="native"):
    return s.case(f"{level} train {label}", ["train", "--data", "../text/train.txt", *more,
                                             "--json", "-q"], level)


def train_options(s, few=False):
    """Labels and options: from random weights, and from a model's."""
    for name, precision, moments, threads, micro in itertools.product(
            TRAINED, ("f32", "bf16"), ("f32", "8bit"), s.extent.threads, (1, 4)):
        if few and (micro, threads) != (4, 2):
            continue
        label = f"{precision}, moments in {moments}, {threads} threads, {micro} together"
        options = ["--precision", precision, "--moments", moments, "--threads", threads,
                   "--micro-batch", micro]
        yield f"{name}, {label}", ["--config", f"../text/{name}.json", *options]
        yield f"{name} from a model, {label}", ["--init", f"../models/tied-{name}.gguf", "--steps",
                                                5, "--batch", 4, "--ctx", 32, *options]


def lora_options(s):
    for model, precision, threads in itertools.product(
            s.extent.lora, ("f32", "bf16"), s.extent.threads):
        yield f"lora on {model}, {precision}, {threads} threads", [
            "--init", f"../models/{model}.gguf", "--lora", 2, "--steps", 3, "--batch", 2, "--ctx",
            32, "--precision", precision, "--threads", threads, "--micro-batch", 1]


def steps_equal(group, case, old, new, folder):
    """Every number of every step but its speed and bytes, and the files."""
    group.check(case, "lines", str(len(old.objects)), str(len(new.objects)))
    for a, b in zip(old.objects, new.objects):
        checked = "validation" if "validation_loss" in a else "step"
        for key in sorted(a.keys() - {"tokens_per_s", "bytes_peak", "predicted_bytes"}):
            group.check(case, f"{checked} {key} {a.get('step')}", a[key], b.get(key))
    for name in ("model.gguf", "adapter.gguf"):
        same_file(group, case, f"{folder}/{name}")


def train_job(group, case, count, folder):
    """The first budget is refused; the last one holds everything."""
    dry = case.plus("planned", "--dry-run")
    for budget in case.pair.budgets(dry, count):
        for build in (case.pair.old, case.pair.new):
            shutil.rmtree(build.folder / folder, ignore_errors=True)
        one, old, new, given = case.pair.within(group, case, budget)
        if old:
            steps_equal(group, one, old, new, folder)
            case.pair.held(one, given, old.last["bytes_peak"], new.last["bytes_peak"])


def train(s, group):
    for level in s.levels:
        for i, (label, more) in enumerate(train_options(s, few=level != "native")):
            if level == "native" or i % s.extent.forced_every == 0:
                case = train_case(s, label, [*more, "--out", f"train-{level}-{i}"], level)
                yield train_job, group, case, s.extent.trained, f"train-{level}-{i}"
    for name in TRAINED:  # what is computed again changes no bit
        folder = f"train-budgets-{name}"
        case = train_case(s, f"{name} from a model, f32, budgets", [
            "--init", f"../models/tied-{name}.gguf", "--steps", 3, "--batch", 4, "--ctx", 32,
            "--micro-batch", 2, "--precision", "f32", "--dropout", 0.1, "--threads", 2, "--out",
            folder])
        yield train_job, group, case, s.extent.budgets, folder


def train_plans(s, group):
    def job(case):
        explained = case.plus("explained", "--memory", ALL)
        old, new = ([x for x in r.objects if "cost" in x] for r in case.pair.both(explained))
        ways = frontier(group, explained, old, new, "cost")
        some = ways[::max(1, len(ways) // s.extent.ways)]
        for budget in sorted({*some, *case.pair.budgets(case, s.extent.budgets)}):
            plan_at(group, case, budget)
    for label, more in train_options(s, few=True):
        at = more.index("--micro-batch")
        for label_of, options in ((label, more), (f"{label}, any", more[:at] + more[at + 2:])):
            yield job, train_case(s, label_of, [*options, "--dry-run", "--out", "dry"])


def lora(s, group):
    def job(label, more, level, folder):
        case = train_case(s, label, [*more, "--out", folder], level)
        train_job(group, case, 3, folder)
        kinds = [["--type", "same"], ["--type", "F16", "--threads", 1], ["--scale", 0.5], []]
        for kind in kinds[:s.extent.merges]:
            out = f"{folder}/merged.gguf"
            one = s.case(f"{level} merge of {label}, {shlex.join(map(str, kind))}", [
                "merge", more[1], f"../old/{folder}/adapter.gguf", "--out", out, "--json", *kind],
                level)
            equal_output(group, one)
            same_file(group, one, out)
    for level in s.levels:
        for i, (label, more) in enumerate(lora_options(s)):
            if level == "native" or i % 3 == 0:
                yield job, label, more, level, f"lora-{level}-{i}"


def resume(s, group):
    def job(label, more, folder):
        begin = train_case(s, label, [*more, "--out", folder, "--memory", ALL, "--stop-after", 2])
        if s.pair.old.run(begin).code not in (0, 130):
            sys.exit(f"compare_builds: no checkpoint from\n{begin.commands}")
        shutil.rmtree(s.pair.new.folder / folder, ignore_errors=True)
        shutil.copytree(s.pair.old.folder / folder, s.pair.new.folder / folder)
        case = s.case(f"train {label}, resumed", [
            "train", "--resume", "--out", folder, "--memory", ALL, "--json", "-q",
            *more[more.index("--threads"):]])
        old, new = s.pair.both(case)
        group.check(case, "exit code", str(old.code), str(new.code))
        went = [any(x.get("step") == 3 for x in r.objects) for r in (old, new)]
        group.check(case, "goes on with step 3", *went, all(went))
        steps_equal(group, case, old, new, folder)
    for i, (label, more) in enumerate([*train_options(s), *lora_options(s)]):
        yield job, label, more, f"resume-{i}"


# ---- files, and the rest ----

def equal_output(group, case):
    old, new = case.pair.both(case)
    group.check(case, "exit code", str(old.code), str(new.code))
    group.check(case, "output", old.out, new.out)


def quantize(s, group):
    def job(model, kind, threads, level):
        out = f"{model}-{kind}-{threads}-{level}.gguf"
        case = s.case(f"{level} quantize {model} to {kind}", [
            "quantize", f"../models/{model}.gguf", out, "--type", kind, "--threads", threads,
            "--json"], level)
        equal_output(group, case)
        same_file(group, case, out)
        for build in (s.pair.old, s.pair.new):
            (build.folder / out).unlink(missing_ok=True)
    of = s.of_types + s.models
    for i, (model, kind, level) in enumerate(itertools.product(of, s.extent.kinds, s.levels)):
        if level == "native" or model == of[0]:
            yield job, model, kind, 1 + i % 2, level


def verbs(s, group):
    def null(case):
        old, new = case.pair.both(case)
        group.check(case, "exit code", str(old.code), str(new.code))
        compare_lines(group, case, old.last, new.last)
    for model in s.models + s.of_types:
        name = f"../models/{model}.gguf"
        for args in (["info", name, "--json"], ["info", name, "--tensors", "--keys"],
                     ["tokenize", name, PROMPT, "--json"], ["tokenize", name, "--plain", "<s> a\n"],
                     ["plan", name, "--devices", "1G,1G,2G", "--json"],
                     ["graph", name, "--json", "--ctx", 64, "--threads", 2, "--memory", ALL]):
            yield equal_output, group, s.case(shlex.join(map(str, args)), args)
        yield null, session(s, "plan", model, (0, "f16", 2), ["--device", "null", "--ctx", 64])


ERRORS = """
nothing
run {model} --nop
run {model} --chunk 0
run {model} --kv q3
run {model} -n 0
run nothere.gguf --json -p a
run ../text/short.txt --json -p a
run {model} -p a -n 1 --json --ctx 100000000 --memory 64M
run {model} -p a -n 1 --json --ctx 200 --memory 7M
plan {model} --json --memory 1
plan {model} --json --device null --capacity 1M
plan {model} --json --device nothing
plan {model} --json --devices 1M,1M
perplexity {model} nothere.txt --json
perplexity {model} ../text/empty.txt --json
quantize {model} nowhere/a.gguf --type Q8_0 --json
quantize {model} a.gguf --type Q3 --json
quantize {model} a.gguf --json
merge {model} {model} -o a.gguf --json
merge {model} nothere.gguf -o a.gguf --json
train --json -d nothere.txt -o e5
train --json -d ../text/empty.txt -o e20
train --json -d {model} -o e10
train --json --resume -o nothere
train --json -d ../text/train.txt --config nothing -o e4
train --json -d ../text/train.txt --memory 1M --config tiny --dry-run -o e1
train --json -d ../text/train.txt --init {model} --lora-alpha 3 -o e2
train --json -d ../text/train.txt --init {model} -o e3
info nothere --json
tokenize nothere a --json
replay nothere --json
place nothere --json
"""


def errors(s, group):
    def job(case):
        old, new = case.pair.both(case)
        group.check(case, "exit code", str(old.code), str(new.code))
        said = [[(o.get("status"), o.get("refused"), wording(o.get("error", "")))
                 for o in r.objects] for r in (old, new)]
        group.check(case, "JSON", *said)
    for line in ERRORS.strip().format(model=f"../models/{s.models[0]}.gguf").splitlines():
        yield job, s.case(line, shlex.split(line))


GROUPS = {"tokens": tokens, "perplexity": perplexity, "least": least, "plans": plans,
          "train-plans": train_plans, "train": train, "lora": lora, "resume": resume,
          "quantize": quantize, "verbs": verbs, "errors": errors}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("old", type=Path, help="tree, build folder or command of the old build")
    parser.add_argument("--new", type=Path, default=ROOT, help="of the new one: this checkout")
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", metavar="GROUP,...", help=", ".join(GROUPS))
    parser.add_argument("--levels", choices=["all", "native"], default="all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, default=ROOT / "build/compare_builds")
    return parser.parse_args()


def main():
    args = arguments()
    only = args.only.split(",") if args.only else list(GROUPS)
    if not set(only) <= set(GROUPS):
        sys.exit(f"compare_builds: groups are {' '.join(GROUPS)}")
    work = args.work.resolve()
    ctypes.CDLL(None).personality(0x0040000)  # ADDR_NO_RANDOMIZE, inherited
    for name in ("MNEM_MODEL", "MNEM_MEMORY"):
        os.environ.pop(name, None)
    os.environ["XDG_CACHE_HOME"] = str(work / "cache")  # no profile of this machine: as planned
    pair = Pair(Build(args.old, work / "old"), Build(args.new, work / "new"),
                [*GROUPS, "refusals", "memory"], EXCEPTIONS)
    make_model = next(filter(None, (executable(p, "make_model") for p in (
        ROOT, args.new, args.old) if p.is_dir())), None)
    if not make_model:
        sys.exit("compare_builds: make_model isn't built (./test does)")
    make_texts(ROOT, work / "text")
    extent = Extent(args.quick)
    models, of_types = make_models(ROOT, make_model, work / "models", extent)
    setup = Setup(pair, extent, models, of_types,
                  force_levels(pair, work) if args.levels == "all" else [])
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for name in only:
            jobs = [pool.submit(*job) for job in GROUPS[name](setup, pair.groups[name])]
            try:
                for job in jobs:
                    job.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            pair.groups[name].report()
    for name in ("refusals", "memory"):
        pair.groups[name].report()
    failed = sum(g.failed for g in pair.groups.values())
    print(f"{failed} differences" if failed else "nothing lost")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
