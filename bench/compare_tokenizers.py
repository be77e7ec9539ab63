#!/usr/bin/env python3
"""compare_tokenizers.py LLAMA_CPP BUILD [FILE.gguf ...]: our token ids beside llama.cpp's.

LLAMA_CPP is its source, BUILD its build with static libraries. Without files: every vocabulary of
its tests, with their strings (.inp, .out) too, and then every pre-tokenizer that we know, with
vocabularies made here that carry the name: a small one that was learned, and one that has all pairs
of bytes, so that ids show where words begin. Each gets random texts (--texts, 2000): scripts
and spaces mixed, digits, contractions, emoji, combining marks, control tokens, rare characters.
Needs build/release (libmnem.so) and a C++ compiler. Prints a line for each and exits 1 if any differ.
"""
import argparse
import ctypes
import glob
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
ADD, PARSE = 1, 2  # the peer's flags
NO_SPECIAL, PLAIN = 1, 2  # ours


class Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    def get(self):
        return ctypes.string_at(self.bytes, self.length) if self.length else b""


class Ours:
    """A tokenizer of libmnem."""

    lib = None

    @classmethod
    def load(cls):
        if not cls.lib:
            cls.lib = ctypes.CDLL(os.path.join(ROOT, "build/release/libmnem.so"))
            cls.lib.mnem_last_error.restype = ctypes.c_char_p
            cls.lib.mnem_tokenizer_piece.restype = Text
        return cls.lib

    def __init__(self, path):
        self.load()
        self.model, self.tokenizer = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.mnem_model_open(path.encode(), ctypes.byref(self.model)))
        self.check(self.lib.mnem_tokenizer_create(self.model, ctypes.byref(self.tokenizer)))

    def check(self, status):
        if status:
            raise ValueError(self.lib.mnem_last_error().decode())

    def piece(self, token, special):
        return self.lib.mnem_tokenizer_piece(self.tokenizer, token, ctypes.c_bool(special)).get()

    def controls(self):
        """Texts of tokens that are shown only when they are asked for."""
        found = []
        for token in range(1 << 19):
            if self.piece(token, True) and not self.piece(token, False):
                found.append(self.piece(token, True))
        return found

    def encode(self, text, flags):
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        ours = (0 if flags & ADD else NO_SPECIAL) | (0 if flags & PARSE else PLAIN)
        self.check(self.lib.mnem_tokenizer_encode(self.tokenizer, text, len(text), ours,
                                                  ctypes.byref(ids), ctypes.byref(count)))
        return ids[:count.value]


class VocabularyOptions(ctypes.Structure):
    _fields_ = [("tokens", ctypes.c_int32), ("pre", ctypes.c_char_p), ("end", ctypes.c_char_p),
                ("bytes_max", ctypes.c_uint64), ("on_progress", ctypes.c_void_p),
                ("context", ctypes.c_void_p)]


def names_of_pre_tokenizers():
    lib = Ours.load()
    lib.mnem_tokenizer_pre_names.restype = ctypes.c_char_p
    lib.mnem_tokenizer_pre_names.argtypes = [ctypes.c_size_t]
    rows = iter(lambda index=iter(range(1000)): lib.mnem_tokenizer_pre_names(next(index)), None)
    return [[name.decode() for name in row.split()] for row in rows]


def write_learned(path, name):
    """A vocabulary of 2,000 tokens that carries the name; False where none can be learned."""
    lib, learned, tokenizer, writer = Ours.load(), *(ctypes.c_void_p() for _ in range(3))
    options = VocabularyOptions(tokens=2000, pre=name.encode())
    text = os.path.join(ROOT, "tests/data/vocabulary/mixed.txt").encode()
    if lib.mnem_vocabulary_learn(ctypes.byref(options), ctypes.byref(ctypes.c_char_p(text)),
                                 ctypes.c_size_t(1), ctypes.byref(learned)):
        return False
    lib.mnem_tokenizer_create_from(learned, ctypes.byref(tokenizer))
    lib.mnem_gguf_create(path.encode(), ctypes.byref(writer))
    lib.mnem_gguf_key_text(writer, b"general.architecture", b"llama")
    lib.mnem_tokenizer_write(tokenizer, writer)
    lib.mnem_gguf_finish(writer)
    lib.mnem_tokenizer_destroy(tokenizer)
    lib.mnem_vocabulary_destroy(learned)
    return True


def character_of(byte):
    """What stands for a byte in a byte-level file."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in kept]
    return chr(byte if byte in kept else 256 + others.index(byte))


def write_pairs(path, name):
    """Every two bytes of a word are a token, so that ids show where each word begins."""
    bytes_ = [character_of(byte) for byte in range(256)]
    pairs = [(a, b) for a in bytes_ for b in bytes_]
    tokens = bytes_ + [a + b for a, b in pairs] + ["<s>"]
    types = [1] * (len(tokens) - 1) + [3]

    def text(value):
        return struct.pack("<Q", len(value.encode())) + value.encode()

    def texts(values):
        return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(map(text, values))

    keys = {
        "general.architecture": struct.pack("<I", 8) + text("llama"),
        "tokenizer.ggml.model": struct.pack("<I", 8) + text("gpt2"),
        "tokenizer.ggml.pre": struct.pack("<I", 8) + text(name),
        "tokenizer.ggml.tokens": texts(tokens),
        "tokenizer.ggml.token_type": struct.pack("<IIQ", 9, 5, len(types)) +
                                     struct.pack(f"<{len(types)}i", *types),
        "tokenizer.ggml.merges": texts([f"{a} {b}" for a, b in pairs]),
        "tokenizer.ggml.bos_token_id": struct.pack("<II", 4, len(tokens) - 1),
    }
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)))
        file.write(b"".join(text(key) + value for key, value in keys.items()))


class Peer:
    """llama.cpp as a program that is built once."""

    def __init__(self, source, build, folder):
        self.program = os.path.join(folder, "tokenize_peer")
        libraries = [os.path.join(build, name) for name in
                     ("src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a",
                      "ggml/src/libggml-base.a")]
        subprocess.run(["c++", "-O1", f"-I{source}/include", f"-I{source}/ggml/include",
                        os.path.join(HERE, "tokenize_peer.cpp"), "-o", self.program, *libraries,
                        "-fopenmp", "-lpthread", "-ldl"], check=True)

    def encode(self, path, texts):
        data = b"".join(struct.pack("<BI", flags, len(text)) + text for text, flags in texts)
        out = subprocess.run([self.program, path], input=data, stdout=subprocess.PIPE, check=True)
        return [[int(word) for word in line.split()] for line in out.stdout.decode().splitlines()]


# ---- texts ----

PARTS = [
    " ", "  ", "   ", "\n", "\n\n", "\n\n\n", "\r\n", "\t", " \n", "\n ", "\t\t", "\u00a0", "\u3000",
    "\u2028", "\u2003", "\x85", "\v", "'s", "'T", "'re", "'VE", "'m", "'Ll", "'d", "'", "\u2019s",
    "don't", "I'LL", "0", "7", "12", "345", "6789", "12345678", "1,234.56", "\u0663\u0664", "\u00bd",
    "\u2167", "\u0967\u0968", "Hello", "world", "the", "CamelCase", "ABCdef", "XMLHttp", "x_1", "_",
    "na\u00efve", "\u00c9t\u00e9", "e\u0301", "a\u0308o\u0327", "\u0130", "\u01c5", "stra\u00dfe",
    "\u041f\u0440\u0438\u0432\u0435\u0442", "\u0434\u043e\u043c", "\u0391\u03b8\u03ae\u03bd\u03b1",
    "\u05e9\u05dc\u05d5\u05dd", "\u0645\u0631\u062d\u0628\u0627", "\u0645\u064f\u062d\u064e",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u4f60\u597d",
    "\u4e16\u754c\u3002", "\uff0c", "\u65e5\u672c\u8a9e", "\u3053\u3093\u306b\u3061\u306f",
    "\u30ab\u30bf\u30ab\u30ca", "\ud55c\uad6d\uc5b4", "\u1112\u1161\u11ab", "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd", "\u2764\ufe0f",
    "\U0001f1e9\U0001f1ea", "!", "!!", "...", "?!", "--", "->", "==", "//", "/*", "$", "$5", "+", "~",
    "`", "\u20ac", "\u00a9", "\u2260", "(", ")", "[x]", "{}", "<b>", "</b>", "\"q\"", "\u201cq\u201d",
    "\u2014", "\u2026", "\u3001", "\u060c", "#", "@me", "%", "&amp;", "\\n", "\u2581", "\u2581a",
    "\u200b", "\ufeff", "\u00ad", "\x00", "\x01", "\x1c", "\x7f", "\ufffd", "\ue000", "\U0001d4d0",
    "\U00020000", "\ufb01", "\uff21\uff42", "\u212b", "\uf900",
]


def rare(source):
    """Any character that is assigned, so that versions of Unicode don't matter."""
    while True:
        char = chr(source.randrange(0x110000 if source.random() < 0.5 else 0x3000))
        if unicodedata.category(char) not in ("Cn", "Cs"):
            return char


def random_text(source, controls):
    out = []
    for _ in range(source.randrange(1, 24)):
        kind = source.random()
        if kind < 0.08:
            out.append(rare(source))
        elif kind < 0.14 and controls:
            out.append(source.choice(controls))
        elif kind < 0.18:
            out.append(source.choice(PARTS) * source.randrange(2, 40))
        else:
            out.append(source.choice(PARTS))
    return "".join(out).encode()


# ---- comparing ----

def stored_texts(path):
    """llama.cpp's own texts and ids, which it makes without BOS and with special tokens parsed off."""
    if not os.path.exists(path + ".inp"):
        return [], []
    with open(path + ".inp", "rb") as file:
        texts = file.read().split(b"\n__ggml_vocab_test__\n")
    with open(path + ".out", encoding="ascii") as file:
        ids = [[int(word) for word in line.split()] for line in file.read().split("\n")]
    return texts, ids


def show(name, text, flags, ours, theirs):
    print(f"{name}: {text!r} (flags {flags})\n  ours   {ours}\n  theirs {theirs}")


def compare(path, name, peer, args):
    ours = Ours(path)
    texts, ids = stored_texts(path)
    stored = 0
    for text, expected in zip(texts, ids):
        got = ours.encode(text, 0)
        stored += got == expected
        if got != expected:
            show(name, text, 0, got, expected)
    source = random.Random(f"{name} {args.seed}")
    controls = [text.decode(errors="replace") for text in ours.controls()][:200]
    cases = [(random_text(source, controls), source.randrange(4)) for _ in range(args.texts)]
    equal = shown = 0
    for (text, flags), theirs in zip(cases, peer.encode(path, cases)):
        got = ours.encode(text, flags)
        equal += got == theirs
        if got != theirs and shown < args.show:
            show(name, text, flags, got, theirs)
            shown += 1
    print(f"{name:<24} stored {stored}/{len(texts)}, random {equal}/{len(cases)}", flush=True)
    return stored == len(texts) and equal == len(cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("source")
    parser.add_argument("build")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="differences shown of each")
    args = parser.parse_args()
    files = args.files or sorted(glob.glob(f"{args.source}/models/ggml-vocab-*.gguf"))
    good = True
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(args.source, args.build, folder)
        for row in [] if args.files else names_of_pre_tokenizers():
            for name in row:
                path = os.path.join(folder, f"learned-{name}.gguf")
                if write_learned(path, name):
                    files.append(path)
            if os.path.exists(path):  # the row has words
                files.append(os.path.join(folder, f"pairs-{row[0]}.gguf"))
                write_pairs(files[-1], row[0])
        for path in files:
            name = os.path.basename(path).removeprefix("ggml-vocab-").removesuffix(".gguf")
            try:
                good &= compare(path, name, peer, args)
            except ValueError as error:
                print(f"{name}: {error}")
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
