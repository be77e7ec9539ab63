#!/usr/bin/env python3
"""compare_grammar.py PYTHON VOCABULARY.gguf DATA: JSON schemas here and in LLGuidance.

PYTHON is an interpreter that has the package llguidance, VOCABULARY.gguf any file with a vocabulary,
DATA the folder maskbench/data of the public repository guidance-ai/jsonschemabench: files that each
hold a schema and documents which are valid or not. Every --every-th file is taken, from --first on.

Both sides get the same vocabulary, one thread and the processor time of that thread. A schema
compiles; then each document is walked as json.dumps writes it, token by token: a mask, and the step
past the token. A document that this text doesn't have accepted may be accepted in another form of it
(without blanks; members in the order of the schema), which isn't timed. A schema passes when it
compiles and all of its documents are judged right. Times are those of the tokens that both sides came
past. Needs build/release/libmnem.so. --worse FILE: a line for every schema on which the two differ.
"""
import argparse
import collections
import ctypes
import glob
import json
import os
import select
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_SPECIAL, PLAIN = 1, 2


class Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    def get(self):
        return ctypes.string_at(self.bytes, self.length) if self.length else b""


class Info(ctypes.Structure):
    _fields_ = [("model", ctypes.c_char_p), ("pre", ctypes.c_char_p), ("vocab", ctypes.c_int32),
                ("bos", ctypes.c_int32), ("eos", ctypes.c_int32), ("rest", ctypes.c_int32 * 8)]


class Vocabulary:
    """The tokenizer of a file, by libmnem."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(os.path.join(ROOT, "build/release/libmnem.so"))
        self.lib.mnem_last_error.restype = ctypes.c_char_p
        self.lib.mnem_tokenizer_piece.restype = Text
        self.lib.mnem_match_may_end.restype = ctypes.c_bool
        self.model, self.tokenizer = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.mnem_model_open(path.encode(), ctypes.byref(self.model)))
        self.check(self.lib.mnem_tokenizer_create(self.model, ctypes.byref(self.tokenizer)))
        info = Info()
        self.lib.mnem_tokenizer_info_get(self.tokenizer, ctypes.byref(info))
        self.count, self.end = info.vocab, info.eos

    def check(self, status):
        if status:
            raise ValueError(self.lib.mnem_last_error().decode(errors="replace"))

    def piece(self, token, special):
        return self.lib.mnem_tokenizer_piece(self.tokenizer, token, ctypes.c_bool(special)).get()

    def encode(self, text):
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        self.check(self.lib.mnem_tokenizer_encode(self.tokenizer, text, len(text),
                                                  NO_SPECIAL | PLAIN, ctypes.byref(ids),
                                                  ctypes.byref(count)))
        return ids[:count.value]


# ---- the two sides: compile, reset, mask (whether a token has its bit), step, whole, text ----

class Ours:
    def __init__(self, vocabulary):
        self.v, self.lib = vocabulary, vocabulary.lib
        self.set, self.grammar, self.match = (ctypes.c_void_p() for _ in range(3))
        self.bits, self.fits = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_size_t()
        self.v.check(self.lib.mnem_token_set_create(self.v.tokenizer, -1, ctypes.byref(self.set)))

    def compile(self, schema):
        self.lib.mnem_match_destroy(self.match)
        self.lib.mnem_grammar_destroy(self.grammar)
        self.match, self.grammar = ctypes.c_void_p(), ctypes.c_void_p()
        self.v.check(self.lib.mnem_grammar_create_schema(
            self.set, schema, ctypes.c_size_t(len(schema)), None, ctypes.byref(self.grammar)))
        self.v.check(self.lib.mnem_match_create(self.grammar, ctypes.byref(self.match)))

    def reset(self):
        self.lib.mnem_match_reset(self.match)

    def mask(self):
        if self.lib.mnem_match_mask(self.match, ctypes.byref(self.bits)):
            raise ValueError(self.lib.mnem_last_error().decode(errors="replace"))

    def allows(self, token):
        return self.bits[token // 64] >> token % 64 & 1

    def step(self, token):
        return self.lib.mnem_match_accept(self.match, token) == 0

    def whole(self):
        return self.lib.mnem_match_may_end(self.match)

    def accepts(self, text):
        self.reset()
        self.v.check(self.lib.mnem_match_accept_text(self.match, text, ctypes.c_size_t(len(text)),
                                                     ctypes.byref(self.fits)))
        return self.fits.value == len(text) and self.whole()


class Theirs:
    def __init__(self, vocabulary):
        import llguidance
        self.v, self.peer = vocabulary, llguidance
        tokens = [self.v.piece(t, True) for t in range(self.v.count)]
        controls = [t for t in range(self.v.count) if tokens[t] and not self.v.piece(t, False)]

        class Wrapped:
            eos_token_id, bos_token_id, special_token_ids = self.v.end, None, controls

            def __call__(self, text):
                return vocabulary.encode(text if isinstance(text, bytes) else text.encode())

        Wrapped.tokens = tokens
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()),
                                                n_vocab=self.v.count)
        self.words = (ctypes.c_uint32 * ((self.v.count + 31) // 32))()

    def compile(self, schema):
        grammar = self.peer.LLMatcher.grammar_from_json_schema(schema.decode())
        self.match = self.peer.LLMatcher(self.tokenizer, grammar, log_level=0)
        self.check()

    def check(self):
        if self.match.is_error():
            raise ValueError(self.match.get_error())

    def reset(self):
        self.match.reset()
        self.check()

    def mask(self):
        self.match.unsafe_compute_mask_ptr(ctypes.addressof(self.words), ctypes.sizeof(self.words))

    def allows(self, token):
        return self.words[token // 32] >> token % 32 & 1

    def step(self, token):
        return self.match.consume_token(token)

    def whole(self):
        return self.match.is_accepting()

    def accepts(self, text):
        self.reset()
        tokens = self.v.encode(text)
        return self.match.try_consume_tokens(tokens) == len(tokens) and self.whole()


# ---- documents ----

def ordered(schema, value):
    """Members in the order of the schema's properties."""
    schema = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        known = schema.get("properties")
        known = known if isinstance(known, dict) else {}
        names = [k for k in known if k in value] + [k for k in value if k not in known]
        return {k: ordered(known.get(k), value[k]) for k in names}
    if isinstance(value, list):
        return [ordered(schema.get("items"), x) for x in value]
    return value


def forms(schema, value):
    seen = []
    for one in (value, ordered(schema, value)):
        for separators in ((", ", ": "), (",", ":")):
            text = json.dumps(one, separators=separators, ensure_ascii=False)
            text = text.encode("utf-8", "surrogatepass")
            if text not in seen:
                seen.append(text)
    return seen


def timed(call, *args):
    start = time.thread_time_ns()
    result = call(*args)
    return time.thread_time_ns() - start, result


def walk(side, text, times):
    """Whether the text is accepted; the time of each token's mask and step."""
    side.reset()
    for token in side.v.encode(text):
        spent, _ = timed(side.mask)
        if not side.allows(token):
            return False
        more, good = timed(side.step, token)
        if not good:
            return False
        times.append(spent + more)
    return bool(side.whole())


def judge(side, schema, value):
    times, good, error = [], False, ""
    texts = forms(schema, value)
    try:
        good = walk(side, texts[0], times) or any(side.accepts(t) for t in texts[1:])
    except ValueError as failure:
        error = str(failure)
    return {"good": bool(good), "times": times, "error": error}


def work(side):
    """Answers a line that names a file by a line of JSON."""
    for line in sys.stdin:
        with open(line.strip(), encoding="utf-8") as file:
            group = json.load(file)
        said = {"compile": 0, "error": "", "tests": []}
        try:
            said["compile"], _ = timed(side.compile, json.dumps(group["schema"]).encode())
            said["tests"] = [judge(side, group["schema"], test["data"]) for test in group["tests"]]
        except ValueError as failure:
            said["error"] = str(failure)[:200]
        print(json.dumps(said), flush=True)


# ---- both ----

class Worker:
    """A side as a process, which begins again where a schema takes too long."""

    def __init__(self, python, side, vocabulary):
        self.command = [python, os.path.abspath(__file__), "--side", side, "", vocabulary, ""]
        self.child = None

    def ask(self, path, limit):
        if not self.child:
            self.child = subprocess.Popen(self.command, stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, text=True)
        self.child.stdin.write(path + "\n")
        self.child.stdin.flush()
        line = ""
        if select.select([self.child.stdout], [], [], limit)[0]:
            line = self.child.stdout.readline()
        if line:
            return json.loads(line)
        self.child.kill()
        self.child.wait()
        self.child = None
        return {"compile": 0, "error": "no answer in time, or the process ended", "tests": []}


def part(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


class Sum:
    def __init__(self):
        self.count, self.compiles, self.times, self.firsts = collections.Counter(), [], [], []
        self.reasons = collections.Counter()

    def add(self, tests, said):
        """Returns whether the schema passes."""
        if said["error"]:
            self.count["refused"] += 1
            self.reasons[said["error"].split("\n")[0][:90]] += 1
            return False
        self.compiles.append(said["compile"])
        wrong = 0
        for test, got in zip(tests, said["tests"]):
            if got["good"] != test["valid"]:
                wrong += 1
                self.count["valid rejected" if test["valid"] else "invalid accepted"] += 1
        self.count["passing"] += not wrong
        return not wrong

    def line(self, name, schemas):
        micros = [self.times and part(self.times, s) / 1e3 for s in (0.5, 0.99, 1)]
        print(f"{name:<11} passing {self.count['passing']:5} ({100 * self.count['passing'] / schemas:.1f} %)"
              f"  refused {self.count['refused']:4}  invalid accepted {self.count['invalid accepted']:3}"
              f"  valid rejected {self.count['valid rejected']:4}\n"
              f"{'':<11} compile p50 {part(self.compiles, 0.5) / 1e6:.2f} ms, p99"
              f" {part(self.compiles, 0.99) / 1e6:.1f} ms, longest {part(self.compiles, 1) / 1e6:.1f} ms\n"
              f"{'':<11} a token with its mask: p50 {micros[0]:.1f} us, p99 {micros[1]:.1f} us,"
              f" longest {micros[2] / 1e3:.2f} ms, sum {sum(self.times) / 1e9:.2f} s")


def compare(args):
    paths = sorted(glob.glob(os.path.join(args.data, "*.json")))[args.first::args.every]
    sides = {"ours": Worker(sys.executable, "ours", args.vocabulary),
             "LLGuidance": Worker(args.python, "theirs", args.vocabulary)}
    sums = {name: Sum() for name in sides}
    tokens = 0
    worse = open(args.worse, "w", encoding="utf-8") if args.worse else None
    for path in paths:
        with open(path, encoding="utf-8") as file:
            tests = json.load(file)["tests"]
        said = {name: worker.ask(path, args.limit) for name, worker in sides.items()}
        good = {name: sums[name].add(tests, said[name]) for name in sides}
        for pair in zip(*(said[name]["tests"] for name in sides)):
            both = min(len(one["times"]) for one in pair)
            tokens += both
            for name, one in zip(sides, pair):
                sums[name].times += one["times"][:both]
        if worse and len(set(good.values())) > 1:
            worse.write(json.dumps([os.path.basename(path), good, {n: s["error"] for n, s in said.items()}])
                        + "\n")
    print(f"{len(paths)} schemas, {tokens} tokens that both came past")
    for name, one in sums.items():
        one.line(name, len(paths))
    for name, one in sums.items():
        for reason, count in one.reasons.most_common(args.reasons):
            print(f"{name} refused {count}: {reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("python")
    parser.add_argument("vocabulary")
    parser.add_argument("data")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=float, default=120, help="seconds for a schema with its documents")
    parser.add_argument("--reasons", type=int, default=0, help="refusals shown of each")
    parser.add_argument("--worse")
    parser.add_argument("--side", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.side:
        compare(args)
    else:
        work({"ours": Ours, "theirs": Theirs}[args.side](Vocabulary(args.vocabulary)))


if __name__ == "__main__":
    main()
