"""Grammars, schemas and the callback with logits, on the shipped model."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import mnem

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
ROOM = "2G"  # more than any build takes
PROMPT = "In the beginning"
SCHEMA = {"type": "object", "properties": {"name": {"enum": ["Moses", "Aaron"]},
                                           "age": {"type": "integer", "minimum": 1, "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}


class Person:
    """What a Pydantic class has."""

    @classmethod
    def model_json_schema(cls):
        return SCHEMA


class Constrained(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = mnem.LLM(MODEL, memory=ROOM, ctx=256)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def ask(self, n=100, **options):
        return self.llm.generate(PROMPT, n, **{"temperature": 0, **options})

    def test_an_answer_is_valid_under_its_schema(self):
        for seed in range(5):
            text = self.ask(schema=SCHEMA, temperature=1, seed=seed)
            found = json.loads(text)
            self.assertEqual(text.finish, "stop")
            self.assertIn(found["name"], ("Moses", "Aaron"))
            self.assertTrue(1 <= found["age"] <= 120)
        self.assertEqual(self.ask(schema=Person), self.ask(schema=SCHEMA))
        self.assertEqual("".join(self.ask(schema=SCHEMA, stream=True)), self.ask(schema=SCHEMA))

    def test_an_answer_follows_its_grammar(self):
        text = self.ask(grammar='root ::= "yes" | "no"')
        self.assertIn(text, ("yes", "no"))
        self.assertEqual(text.finish, "stop")
        cut = self.ask(3, grammar="root ::= [0-9]+")
        self.assertTrue(re.fullmatch("[0-9]{3,}", cut))
        self.assertEqual(cut.finish, "length")

    def test_a_grammar_is_the_commands(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(SCHEMA, file)
            file.flush()
            found = subprocess.run(
                [os.environ["MNEM_COMMAND"], "run", MODEL, "-p", PROMPT, "--raw", "--temp", "0", "--ctx",
                 "256", "--json-schema", file.name], capture_output=True, text=True, check=True,
                env=dict(os.environ, MNEM_HISTORY="off"))
        self.assertEqual(self.ask(schema=SCHEMA), found.stdout.rstrip("\n"))

    def test_mistakes_are_named(self):
        with self.assertRaisesRegex(mnem.Error, "1:"):
            self.ask(grammar="root ::= (")
        with self.assertRaisesRegex(mnem.Error, "type"):
            self.ask(schema={"type": "nothing"})
        with self.assertRaisesRegex(TypeError, "model_json_schema"):
            self.ask(schema="text")
        with self.assertRaisesRegex(ValueError, "one of them"):
            self.ask(schema=SCHEMA, grammar="root ::= [a]")
        self.assertIn(self.ask(grammar='root ::= "yes" | "no"'), ("yes", "no"))

    def test_a_callback_sees_logits_that_it_can_not_write(self):
        seen, kept = [], []

        def look(ids, logits):
            seen.append((len(ids), max(range(len(logits)), key=logits.__getitem__)))
            kept.append(logits)
            with self.assertRaises((TypeError, ValueError)):
                logits[0] = 1

        text = self.ask(6, on_logits=look)
        self.assertEqual([best for _, best in seen], text.tokens)
        self.assertEqual([n for n, _ in seen], [text.prompt_tokens + i for i in range(6)])
        self.assertEqual(len(kept[0]), self.llm.vocab)
        self.assertEqual(text, self.ask(6))

    def test_a_callback_gives_others(self):
        def only(ids, logits):
            return [float(i == 7) for i in range(len(logits))]

        self.assertEqual(self.ask(3, on_logits=only).tokens, [7] * 3)
        with self.assertRaisesRegex(ValueError, "returned 1 logits, expected 2048"):
            self.ask(3, on_logits=lambda ids, logits: [1.0])

    def test_what_a_callback_raises_ends_the_call(self):
        def fails(ids, logits):
            raise KeyError("mine")

        whole = self.ask(6)
        with self.assertRaisesRegex(KeyError, "mine"):
            self.ask(6, on_logits=fails)
        with self.assertRaisesRegex(mnem.Error, "on_logits"):
            self.ask(6, on_logits=lambda ids, logits: self.llm.tokenize("a"))
        self.assertEqual(self.ask(6), whole)

    def test_logits_elsewhere_are_a_copy(self):
        one = self.llm.logits(PROMPT)
        before = list(one)
        two = self.llm.logits("And God said")
        self.assertEqual(list(one), before)
        self.assertNotEqual(list(two), before)
        self.assertEqual(max(range(len(before)), key=before.__getitem__), self.ask(1).tokens[0])

    @unittest.skipUnless("numpy" in sys.modules, "the program doesn't use NumPy")
    def test_with_numpy_they_are_its_arrays(self):
        import numpy
        kinds = []
        self.ask(1, on_logits=lambda ids, logits: kinds.append((type(logits), logits.dtype.name)))
        self.assertEqual(kinds, [(numpy.ndarray, "float32")])
        self.assertIsInstance(self.llm.logits(PROMPT), numpy.ndarray)
        self.assertEqual(self.ask(3, on_logits=lambda ids, logits: -logits).tokens,
                         self.ask(3, on_logits=lambda ids, logits: [-x for x in logits]).tokens)


if __name__ == "__main__":
    unittest.main()
