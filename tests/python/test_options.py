"""Random options: the tokens are the command's, and so are the numbers of a refusal.

Of bytes, what a model takes is compared: the process of the command has bytes of its own (code and libraries,
the tables of the command), and the package charges a room for texts to an LLM, so `needed` of both differs by
what each takes besides the model, and by nothing else.

MNEM_OPTIONS: how many (default 10); MNEM_SEED: of which (default 1)."""
import json
import os
import random
import re
import subprocess
import unittest

import mnem

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
COMMAND = os.environ["MNEM_COMMAND"]
CASES, SEED = int(os.environ.get("MNEM_OPTIONS", 10)), int(os.environ.get("MNEM_SEED", 1))
WORDS = "In the beginning God created heaven and earth , Noah ; ark of 40 days: thou shalt not \u00e9 Zion".split()

# Each option of generate: its name in the command, and values.
SAMPLING = {
    "temperature": ("--temp", [0, 0.3, 0.8, 1, 1.7]),
    "top_k": ("--top-k", [0, 1, 5, 40, 4000]),
    "top_p": ("--top-p", [0.1, 0.5, 0.95, 1]),
    "min_p": ("--min-p", [0, 0.05, 0.3]),
    "repeat_penalty": ("--repeat-penalty", [0.9, 1, 1.3]),
    "repeat_last": ("--repeat-last-n", [0, 4, 64]),
    "presence_penalty": ("--presence-penalty", [0, 0.7, -0.5]),
    "frequency_penalty": ("--frequency-penalty", [0, 0.4]),
    "dry_multiplier": ("--dry-multiplier", [0, 0.8]),
    "dry_allowed_length": ("--dry-allowed-length", [1, 2]),
    "xtc_probability": ("--xtc-probability", [0, 0.5]),
    "xtc_threshold": ("--xtc-threshold", [0.02, 0.1]),
}
MODEL_KINDS = {"weights", "kv", "activation", "workspace", "runtime"}


def command(*words):
    """What it prints as JSON, one object a line."""
    done = subprocess.run([COMMAND, *map(str, words), "--json"], capture_output=True, text=True,
                          env=dict(os.environ, MNEM_HISTORY="off"))
    return [json.loads(line) for line in done.stdout.splitlines()]


def model_bytes(lines):
    """What a model takes, by line: without the process's own, and without tables on the heap."""
    return {(kind, tag): size for kind, tag, size in lines
            if kind in MODEL_KINDS and tag != "code and libraries"}


def engine(draw):
    """Options of LLM, and the same of the command."""
    ctx, kv, threads = draw.choice([128, 300, 1024, 4096]), draw.choice(["f16", "q8_0", "q4_0", "f32", "auto", "q8_0:q4_0"]), (
        draw.choice([1, 2, 4]))
    return dict(ctx=ctx, kv=kv, threads=threads), ["--ctx", ctx, "--kv", kv, "--threads", threads]


def refusal(memory, **options):
    try:
        mnem.plan(MODEL, memory, **options)
    except mnem.OverBudget as refused:
        return refused
    raise AssertionError(f"{memory} bytes are enough for {options}")


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        mnem.Budget("4G")

    def test_tokens_are_the_commands(self):
        draw, lengths = random.Random(SEED), set()
        for case in range(CASES):
            given, words = engine(draw)
            sampling = {"seed": draw.randrange(1 << 32)}
            words += ["--seed", sampling["seed"], "-n", draw.randint(1, 40)]
            for name in draw.sample(sorted(SAMPLING), draw.randint(0, 6)):
                sampling[name] = draw.choice(SAMPLING[name][1])
                words += [SAMPLING[name][0], sampling[name]]
            if draw.random() < 0.3:
                sampling["ignore_end"] = True
                words.append("--ignore-eos")
            prompt = " ".join(draw.choices(WORDS, k=draw.randint(1, 60)))
            # So that weights are streamed by one of the two; "auto" would choose another type then.
            tight = given["kv"] != "auto" and draw.random() < 0.5
            memory = refusal(1, **given).needed if tight else draw.choice([None, "64M", "1G"])
            with self.subTest(case=case, words=words, memory=memory, prompt=prompt):
                said = command("run", MODEL, "--raw", "-p", prompt, "--memory", "1G", *words)
                with mnem.LLM(MODEL, memory, **given) as llm:
                    text = llm.generate(prompt, words[words.index("-n") + 1], **sampling)
                self.assertEqual(text.tokens, [line["token"] for line in said if line["type"] == "token"])
                lengths.add(len(text.tokens))
        self.assertGreater(len(lengths), min(CASES, 20) // 4)

    def their_plan(self, words):
        """The bytes that the command needs, and its plan in as many. Two processes differ by a page of code
        now and then: then it is asked again."""
        for _ in range(50):
            needed, again = (command("plan", MODEL, *words, "--memory", "1M")[0]["needed_bytes"]
                             for _ in range(2))
            plan = command("plan", MODEL, *words, "--memory", needed)[0]
            if needed == again and "lines" in plan:
                return needed, plan
        self.fail(f"{needed} bytes are never enough")

    def their_refusal(self, words, needed, missing):
        """Of a process that needs as many."""
        for _ in range(50):
            refused = command("plan", MODEL, *words, "--memory", needed - missing)[0]
            if refused["needed_bytes"] == needed:
                break
        self.assertEqual((refused["needed_bytes"], refused["budget_bytes"]), (needed, needed - missing))
        return refused

    def same_refusal(self, draw, given, words):
        """One that is refused by both with the same bytes for the model."""
        needed, (theirs, plan) = refusal(1, **given).needed, self.their_plan(words)
        lines = [(line.kind, line.tag, line.bytes)
                 for line in mnem.plan(MODEL, needed, **given).lines]
        other = [(line["kind"], line["tag"], line["bytes"]) for line in plan["lines"]]
        self.assertEqual(model_bytes(lines), model_bytes(other))
        model = sum(model_bytes(lines).values())
        missing = draw.randint(1, model - 1)
        mine, refused = refusal(needed - missing, **given), self.their_refusal(words, theirs, missing)
        self.assertEqual((mine.needed, mine.budget), (needed, needed - missing))
        for least, bytes_ in (mine.least, mine.needed), (refused["least"], refused["needed_bytes"]):
            self.assertRegex(least, r"^\d+(\.\d+)?[KMG]$")
            size = float(least[:-1]) * (1 << {"K": 10, "M": 20, "G": 30}[least[-1]])
            self.assertTrue(0 <= size - bytes_ <= bytes_ / 100 + 8192, f"{least} for {bytes_}")
        return mine.knob, refused["error"]

    def test_numbers_of_a_refusal_are_the_commands(self):
        draw, knobs = random.Random(SEED), set()
        for case in range(CASES):
            given, words = engine(draw)
            with self.subTest(case=case, words=words):
                knob, said = self.same_refusal(draw, given, words)
                found = re.search(r": --(\w+) (\w+) would fit", said)
                theirs = found and (found[1], int(found[2]) if found[2].isdigit() else found[2])
                self.assertEqual(knob, theirs, said)
                knobs.add(knob)
        self.assertGreater(len(knobs), CASES // 10)


if __name__ == "__main__":
    unittest.main()
