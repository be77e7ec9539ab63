"""Groups of compare_builds.py: training, its plans, adapters, and what goes on from a checkpoint."""
import itertools
import shlex
import shutil
import sys

from builds_input import TRAINED
from builds_setup import equal_output
from two_builds import ALL, compare_lines, frontier, plan_at, same_file


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


def accounts_of(ledger):
    """What was used at the most, as lines of a plan."""
    return {"lines": [{**x, "bytes": x["bytes_peak"]} for x in ledger.get("accounts", [])]}


def steps_equal(group, case, old, new, folder):
    """Every number of every step but its speed and bytes, and the files."""
    group.check(case, "lines", str(len(old.objects)), str(len(new.objects)))
    for a, b in zip(old.objects, new.objects):
        checked = "validation" if "validation_loss" in a else "step"
        for key in sorted(a.keys() - {"tokens_per_s", "bytes_peak", "predicted_bytes",
                                      "budget_bytes", "ledger"}):
            group.check(case, f"{checked} {key} {a.get('step')}", a[key], b.get(key))
        if "ledger" in a and a["budget_bytes"] == ALL:  # else another way may have been taken
            compare_lines(group, case, *(accounts_of(x.get("ledger", {})) for x in (a, b)))
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
