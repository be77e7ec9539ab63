"""Groups of compare_builds.py: verbs that make files, the other verbs, and errors."""
import itertools
import shlex

from builds_setup import PROMPT, equal_output, session
from two_builds import ALL, amounts, compare_lines, same_file, wording


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
train --json -d ../text/train.txt --init {model} --batch 0 -o e3
info nothere --json
tokenize nothere a --json
replay nothere --json
place nothere --json
"""


def errors(s, group):
    def job(case):
        old, new = case.pair.both(case)
        group.check(case, "exit code", str(old.code), str(new.code))
        said = [[(sorted(o), o.get("status"), o.get("refused")) for o in r.objects]
                for r in (old, new)]
        group.check(case, "JSON", *said)
        for was, now in zip(old.objects, new.objects):
            if was.get("refused"):
                case.pair.advice(group, case, was["error"], now.get("error", ""))
            elif case.pair.free_texts:
                group.check(case, "error", *(amounts(o.get("error", "")) for o in (was, now)))
            else:
                group.check(case, "error", *(wording(o.get("error", "")) for o in (was, now)))
    for line in ERRORS.strip().format(model=f"../models/{s.models[0]}.gguf").splitlines():
        yield job, s.case(line, shlex.split(line))
