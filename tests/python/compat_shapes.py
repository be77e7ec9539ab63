"""What the tests of mnem.compat share: the model, and the shape of results."""
import json
import os
import sys
import unittest

import mnem.compat as llama_cpp

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
PROMPT = "In the beginning"
ROOM = "2G"  # more than any build takes


def open_llama(**given):
    return llama_cpp.Llama(MODEL, **{"n_ctx": 128, "memory": ROOM, "verbose": False, **given})


class Shapes(unittest.TestCase):
    """Members and their types, as OpenAI's API has them and llama-cpp-python's results."""

    def check_completion(self, found, chat=False):
        self.assertEqual(sorted(found), ["choices", "created", "id", "model", "object", "usage"])
        self.assertEqual(found["object"], "chat.completion" if chat else "text_completion")
        self.assertRegex(found["id"], r"^(chat)?cmpl-[0-9a-f-]{36}$")
        self.assertIs(type(found["created"]), int)
        used = found["usage"]
        self.assertEqual(used["prompt_tokens"] + used["completion_tokens"], used["total_tokens"])
        choice, = found["choices"]
        self.assertEqual(sorted(choice), ["finish_reason", "index", "logprobs", "message" if chat else "text"])
        self.assertIn(choice["finish_reason"], ("stop", "length", "tool_calls"))
        json.dumps(found)
        return choice


class open_llama_closed:
    """A Llama that is closed at the end."""

    def __init__(self, **given):
        self.given = given

    def __enter__(self):
        self.llm = open_llama(**self.given)
        return self.llm

    def __exit__(self, *_):
        self.llm.close()


class without:
    """sys.modules with another module under a name; None: none."""

    def __init__(self, name, module=None):
        self.name, self.module = name, module

    def __enter__(self):
        self.before = sys.modules.get(self.name, self)
        sys.modules[self.name] = self.module

    def __exit__(self, *_):
        del sys.modules[self.name]
        if self.before is not self:
            sys.modules[self.name] = self.before
