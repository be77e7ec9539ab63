#!/usr/bin/env python3
"""compare_chat.py LLAMA_SERVER MODEL.gguf: our first choices beside llama.cpp's, along its answers.

Five chats are rendered and encoded by both (its /apply-template and /tokenize). Along the tokens of
its greedy answers (--tokens, 64) our first choice must be its own, unless its first two logits are
closer than --margin (0.1). Needs build/release (mnem and libmnem.so). Prints a line for each chat
and exits 1 if one differs.
"""
import argparse
import ctypes
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NO_SPECIAL = 1
U, A, S = "user", "assistant", "system"
CHATS = [
    [(U, "What is the capital of France?")],
    [(S, "You are a pirate. Answer in one sentence."), (U, "Where is the treasure?")],
    [(U, "Write a short poem about the sea."), (A, "The sea is wide,\nthe sea is deep."),
     (U, "Another verse, please.")],
    [(U, "def add(a, b):\n    return a + b\n\nExplain this code, step by step.")],
    [(U, "Hello! My name is Ana."), (A, "Hello, Ana! How can I help you?"),
     (U, "I have 3 apples and eat 1. How many are left?"), (A, "You have 2 apples left."),
     (U, "And what is my name?")],
]
Logits = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int32,
                          ctypes.POINTER(ctypes.c_float))


class Ours:
    """A session of libmnem with default options."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(os.path.join(ROOT, "build/release/libmnem.so"))
        self.lib.mnem_last_error.restype = ctypes.c_char_p
        self.ledger, self.model, self.tokenizer, self.session = (ctypes.c_void_p() for _ in "1234")
        lib, ref = self.lib, ctypes.byref
        self.check(lib.mnem_ledger_create_process(None, ref(self.ledger)))
        self.check(lib.mnem_model_open(path.encode(), ref(self.model)))
        self.check(lib.mnem_tokenizer_create(self.model, ref(self.tokenizer)))
        options = (ctypes.c_void_p * 64)(self.ledger)  # the first field; zeros are defaults
        plan = (ctypes.c_uint64 * 4096)()
        self.check(lib.mnem_engine_plan_make(self.model, options, plan))
        self.check(lib.mnem_session_create(self.model, options, plan, ref(self.session)))

    def check(self, status):
        if status:
            raise SystemExit(f"mnem: {self.lib.mnem_last_error().decode()}")

    def encode(self, text):
        data, ids, count = text.encode(), ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        self.check(self.lib.mnem_tokenizer_encode(
            self.tokenizer, data, ctypes.c_size_t(len(data)), NO_SPECIAL, ctypes.byref(ids),
            ctypes.byref(count)))
        return ids[:count.value]

    def choices(self, ids, first, vocab):
        """The likeliest token behind each of ids[first:]."""
        found = []

        def on_logits(_, __, logits):
            row = logits[:vocab]
            found.append(row.index(max(row)))
            return True

        self.check(self.lib.mnem_session_truncate(self.session, 0))
        self.check(self.lib.mnem_session_eval(self.session, (ctypes.c_int32 * len(ids))(*ids),
                                              len(ids), first, Logits(on_logits), None))
        return found


class Peer:
    """llama-server on a port of its own."""

    def __init__(self, server, model, threads):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen(
            [server, "-m", model, "-t", str(threads), "-c", "2048", "-np", "1", "--jinja", "--port",
             str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                self.get("/health")
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit("llama-server doesn't answer")

    def get(self, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}",
                                         json.dumps(body).encode() if body else None,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def render(self, messages):
        return self.get("/apply-template", {"messages": messages})["prompt"]

    def encode(self, text):
        return self.get("/tokenize", {"content": text, "add_special": False})["tokens"]

    def answer(self, ids, tokens):
        """Its greedy tokens, and how far the first is before the second at each."""
        result = self.get("/completion", {"prompt": ids, "n_predict": tokens, "temperature": 0,
                                          "n_probs": 2, "cache_prompt": False, "ignore_eos": False})
        made = result["completion_probabilities"]
        margins = [t["top_logprobs"][0]["logprob"] - t["top_logprobs"][1]["logprob"] for t in made]
        return [t["top_logprobs"][0]["id"] for t in made], margins


def render(model, messages):
    mnem = os.path.join(ROOT, "build/release/tools/mnem/mnem")
    out = subprocess.run([mnem, "template", model, "--messages", "-"], check=True,
                         input=json.dumps(messages).encode(), stdout=subprocess.PIPE).stdout
    return out.decode()[:-1]


def vocabulary(model):
    mnem = os.path.join(ROOT, "build/release/tools/mnem/mnem")
    return json.loads(subprocess.check_output([mnem, "info", model, "--json"]))["tokenizer"]["vocab"]


def compare(ours, peer, model, chat, o):
    messages = [{"role": role, "content": text} for role, text in chat]
    text = render(model, messages)
    ids = ours.encode(text)
    same_text, same_ids = text == peer.render(messages), ids == peer.encode(text)
    made, margins = peer.answer(ids, o.tokens)
    chosen = ours.choices(ids + made[:-1], len(ids) - 1, o.vocab)
    other = [(i, margins[i]) for i in range(len(made)) if chosen[i] != made[i]]
    wrong = [pair for pair in other if pair[1] > o.margin]
    print(f"{len(ids):5} tokens: text {'equal' if same_text else 'DIFFERS'}, "
          f"ids {'equal' if same_ids else 'DIFFER'}; answer of {len(made)}: {len(other)} other "
          f"first choices, {len(wrong)} of them beyond {o.margin}"
          + "".join(f"; {i}: {m:.3f}" for i, m in other))
    return same_text and same_ids and not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--margin", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    o = parser.parse_args()
    o.vocab = vocabulary(o.model)
    peer = Peer(o.server, o.model, o.threads)
    try:
        ours = Ours(o.model)
        good = [compare(ours, peer, o.model, chat, o) for chat in CHATS]
    finally:
        peer.process.terminate()
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
