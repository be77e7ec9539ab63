"""What the groups of compare_builds.py share: how much is compared, of which models, and the command
lines of a session and of a verb that writes the same to standard output.
"""
import itertools

from builds_input import ENCODERS, TYPES
from two_builds import Case

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
        self.calibrated = ["own-qwen3"] if quick else ["own-qwen3", "own-gpt2", "types-F32"]
        self.calibrations = 2 if quick else 4  # of the budgets the largest
        self.encoders = ENCODERS[:1] if quick else ENCODERS
        self.served = ["mnem-kjv-5m-q8_0"] if quick else ["mnem-kjv-5m-q8_0", "kjv-5m-q4_k_m"]
        self.ranked = ["llama-Q4_K"] if quick else ["llama-Q4_K", "gpt2-Q8_0", "kjv-5m-q4_k_m"]
        self.rank_ways = 1 if quick else 2


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


def session(s, verb, model, options, more, level="native"):
    chunk, kv, threads = options
    label = f"{level} {verb} {model}, chunk {chunk or 'any'}, {kv}, {threads} threads"
    label += "" if "--ctx" in more else ", any context"
    return s.case(label, [verb, f"../models/{model}.gguf", *more, "--json", "--kv", kv,
                          *(["--chunk", chunk] if chunk else []), "--threads", threads], level)


def tokens_of(result):
    return [(x["token"], x["text"]) for x in result.objects if "token" in x]


def plan_of(case):
    """The plan of a session's options."""
    args = [a for a in case.args[1:] if not a.endswith(".txt")]
    return case.like("", ["plan", *args])


def equal_output(group, case):
    old, new = case.pair.both(case)
    group.check(case, "exit code", str(old.code), str(new.code))
    case.pair.output(group, case, old, new)
