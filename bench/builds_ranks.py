"""Group of compare_builds.py: two and three ranks, cut by layers and by rows; needs MPI in both
builds. The tokens of ranks are also those of one process.
"""
import itertools
import os
import shutil

from builds_setup import GREEDY, SEEDED, tokens_of
from two_builds import SLACK, Case, compare_lines, same_file, same_way, size

ROOM = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1"}
WIDE = "100M"  # what holds everything on each rank


def run_job(group, case, alone):
    """All in memory, and the least that the old build names, which streams."""
    pair = case.pair
    lone = tokens_of(pair.new.run(alone, "--memory", "200M"))
    refused = case.plus("1M", "--memory", "1M")
    old, new = pair.both(refused)
    group.check(refused, "exit code", str(old.code), str(new.code), old.code == new.code == 3)
    pair.refusal(case, 1 << 20, old.last, new.last)
    for budget in (WIDE, f"{size(old.last['least']) + SLACK}"):
        one = case.plus(budget, "--memory", budget)
        old, new = pair.both(one)
        group.check(one, "exit code", str(old.code), str(new.code), old.code == new.code == 0)
        group.check(one, "tokens", tokens_of(old), tokens_of(new))
        group.check(one, "tokens of one process", lone, tokens_of(new))
        if old.code or new.code:
            continue
        was, now = old.last["plan"], new.last["plan"]
        if same_way(group, one, size(budget), was, now):
            compare_lines(group, one, was, now)


def perplexity_job(group, case):
    for budget in (WIDE, "40M"):
        one = case.plus(budget, "--memory", budget)
        old, new = case.pair.both(one)
        group.check(one, "exit code", str(old.code), str(new.code))
        for key in ("perplexity", "error", "tokens", "windows"):
            group.check(one, key, old.last.get(key), new.last.get(key))


def train_job(group, case, folder):
    for build in (case.pair.old, case.pair.new):
        shutil.rmtree(build.folder / folder, ignore_errors=True)
    old, new = case.pair.both(case)
    group.check(case, "exit code", str(old.code), str(new.code))
    for a, b in zip(old.objects, new.objects):
        for key in sorted(k for k in a if k in ("step", "loss", "norm", "rate", "validation_loss")):
            group.check(case, f"{key} {a.get('step')}", a[key], b.get(key))
    same_file(group, case, f"{folder}/model.gguf")


def ranks(s, group):
    os.environ.update(ROOM)
    if not s.pair.have_ranks():
        print("ranks are left out: mpirun, or mnem-mpi of a build, isn't there")
        return
    for model, count, cut in itertools.product(s.extent.ranked, (2, 3), ("layers", "rows")):
        if cut == "rows" and count == 3 and "gpt2" in model:
            continue  # it has two heads
        for kv, chunk, words in (("f16", 7, GREEDY), ("q8_0", 32, SEEDED))[:s.extent.rank_ways]:
            args = ["run", f"../models/{model}.gguf", *words, "--ctx", 96, "--kv", kv, "--chunk",
                    chunk, "--threads", 1, "--json"]
            label = f"{count} ranks by {cut} run {model}, {kv}, chunk {chunk}"
            yield run_job, group, Case(s.pair, label, [*args, "--cut", cut], ranks=count), \
                Case(s.pair, label, args)
        yield perplexity_job, group, Case(s.pair, f"{count} ranks by {cut} perplexity {model}", [
            "perplexity", f"../models/{model}.gguf", "../text/short.txt", "--ctx", 48, "--threads",
            1, "--json", "-q", "--cut", cut], ranks=count)
    for count, name in itertools.product((2, 3), ("gpt2", "llama")):
        folder = f"ranks-{count}-{name}"
        yield train_job, group, Case(s.pair, f"{count} ranks train {name}", [
            "train", "--data", "../text/train.txt", "--config", f"../text/{name}.json", "--threads",
            1, "--memory", WIDE, "--json", "-q", "--out", folder], ranks=count), folder
