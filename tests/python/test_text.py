"""mnem.Text on the shipped model: pieces, stop texts, logprobs and options of sampling."""
import math
import os
import pickle
import subprocess
import unittest

import mnem
from mnem._text import Joiner

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODEL = os.path.join(ROOT, "models", "mnem-kjv-5m-q8_0.gguf")
ROOM = "2G"  # more than any build takes
PROMPT = "In the beginning"


def joined(stop, pieces, cut=False):
    """What a joiner tells for each piece, and at the end."""
    joiner, told = Joiner(stop), []
    for piece in pieces:
        told.append(joiner.take(piece))
        if joiner.stopped:
            break
    return told + [joiner.end(cut)], joiner.stopped


class Pieces(unittest.TestCase):
    def test_a_stop_text_may_span_pieces(self):
        self.assertEqual(joined(("END",), [b"a", b"E", b"N", b"Dx"]), (["a", "", "", "", ""], True))

    def test_what_is_no_stop_text_is_told(self):
        self.assertEqual(joined(("END",), [b"E", b"N", b"E", b"x"]), (["", "", "EN", "Ex", ""], False))
        self.assertEqual(joined(("END",), [b"aE"]), (["a", "E"], False))

    def test_the_earliest_of_several_stops(self):
        self.assertEqual(joined(("cd", "bc"), [b"abcd"]), (["a", ""], True))

    def test_characters_are_whole(self):
        data = "é".encode()
        self.assertEqual(joined((), [data[:1], data[1:]]), (["", "é", ""], False))
        self.assertEqual(joined((), [data[:1]])[0], ["", "\ufffd"])
        self.assertEqual(joined((), [data[:1]], cut=True)[0], ["", ""])


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = mnem.LLM(MODEL, memory=ROOM, ctx=256)
        cls.whole = cls.llm.generate(PROMPT, 24, temperature=0)

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def greedy(self, n=24, **options):
        return self.llm.generate(PROMPT, n, temperature=0, **options)

    def test_a_text_knows_its_tokens(self):
        text = self.whole
        self.assertIsInstance(text, str)
        self.assertEqual(len(text.tokens), 24)
        self.assertEqual(self.llm.detokenize(text.tokens), text)
        self.assertEqual((text.finish, text.logprobs), ("length", None))
        self.assertEqual(text.prompt_tokens, len(self.llm.tokenize(PROMPT)))
        again = pickle.loads(pickle.dumps(text))
        self.assertEqual((again, again.tokens, again.finish), (text, text.tokens, text.finish))

    def test_pieces_of_a_stream_make_up_the_text(self):
        pieces = list(self.greedy(stream=True, logprobs=1))
        self.assertEqual("".join(pieces), self.whole)
        self.assertEqual([token for piece in pieces for token in piece.tokens], self.whole.tokens)
        self.assertEqual(sum(len(piece.logprobs) for piece in pieces), 24)
        self.assertEqual([piece.finish for piece in pieces], [None] * (len(pieces) - 1) + ["length"])

    def test_a_text_ends_before_its_stop_text(self):
        for stop in "he LORD", ["never here", "morning, and"]:
            first = stop if isinstance(stop, str) else stop[1]
            text = self.greedy(stop=stop)
            self.assertEqual((text, text.finish), (self.whole[:self.whole.index(first)], "stop"))
            self.assertEqual("".join(self.greedy(stop=stop, stream=True)), text)
        self.assertEqual(self.greedy(stop=self.whole[:3]), "")
        with self.assertRaisesRegex(ValueError, "stop"):
            self.greedy(stop=[""])

    def test_a_stop_text_that_does_not_come_changes_nothing(self):
        self.assertEqual(self.greedy(stop=self.whole[-2:] + "?"), self.whole)

    def test_the_context_ends_a_text(self):
        text = self.llm.generate(PROMPT, 0, temperature=0, ignore_end=True)
        self.assertEqual(text.finish, "length")
        self.assertEqual(text.prompt_tokens + len(text.tokens), self.llm.ctx + 1)

    def test_logprobs_are_of_the_chosen_and_the_likeliest(self):
        text = self.greedy(logprobs=3)
        self.assertEqual([at.token for at in text.logprobs], text.tokens)
        for at in text.logprobs:
            self.assertEqual(at.top[0], (at.token, at.text, at.logprob))  # it is greedy
            self.assertEqual(sorted(at.top, key=lambda one: -one[2]), at.top)
            self.assertEqual(len(at.top), 3)
            self.assertLess(at.logprob, 0)
        self.assertEqual([at.top for at in self.greedy(4, logprobs=0).logprobs], [[]] * 4)
        whole = self.greedy(1, logprobs=1000).logprobs[0]
        self.assertLess(sum(math.exp(one[2]) for one in whole.top), 1.0001)
        with self.assertRaisesRegex(ValueError, "logprobs"):
            self.greedy(logprobs=-1)

    def test_a_bias_forbids_a_token(self):
        first = self.whole.tokens[0]
        text = self.greedy(logit_bias={first: -100})
        self.assertNotIn(first, text.tokens)
        self.assertEqual(self.greedy(4, logit_bias={"5": 100}).tokens, [5] * 4)
        with self.assertRaisesRegex(mnem.Error, "bias"):
            self.greedy(logit_bias={self.llm.vocab: 1})

    def test_options_are_the_samplers(self):
        free = dict(max_tokens=40, seed=3)
        whole = self.llm.generate(PROMPT, **free)
        for option in ({"frequency_penalty": 2}, {"presence_penalty": 2}, {"repeat_penalty": 1.5},
                       {"top_k": 1}, {"top_p": 0.1}, {"min_p": 0.9}, {"seed": 4},
                       {"xtc_probability": 1, "xtc_threshold": 0.05}):
            self.assertNotEqual(self.llm.generate(PROMPT, **{**free, **option}), whole, option)
        self.assertEqual(self.llm.generate(PROMPT, **free), whole)
        dry = dict(dry_multiplier=4, dry_allowed_length=1, dry_penalty_last=256)
        self.assertNotEqual(self.greedy(40, dry_breakers=[], **dry), self.greedy(40))
        self.assertNotEqual(self.greedy(40, **dry), self.greedy(40))
        with self.assertRaisesRegex(TypeError, "no option 'temprature'.*temperature"):
            self.llm.generate(PROMPT, temprature=1)

    def test_what_a_model_is(self):
        llm = self.llm
        self.assertEqual((llm.vocab, llm.ctx, llm.bos, llm.eos, llm.path), (2048, 256, 2047, 2047, MODEL))
        self.assertEqual(llm.metadata["general.architecture"], "llama")
        self.assertEqual(llm.metadata["llama.attention.layer_norm_rms_epsilon"], "1e-05")
        self.assertNotIn("tokenizer.ggml.tokens", llm.metadata)

    def test_after_a_reset_the_text_is_the_same(self):
        self.llm.reset()
        self.assertEqual(self.greedy(), self.whole)


TEMPLATE = ("{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ add }}{% endfor %}"
            "{% if add_generation_prompt %}[assistant]{% endif %}")


class Template(unittest.TestCase):
    def test_a_conversation_is_rendered(self):
        with mnem.LLM(MODEL, memory=ROOM, ctx=256, template=TEMPLATE) as llm:
            said = [{"role": "user", "content": "Good day"}]
            text = llm.template(said)
            self.assertEqual(text, "[user] Good day[assistant]")
            self.assertEqual(llm.template("Good day"), text)
            asked = llm.template(said, template_args={"add": "!"})
            self.assertEqual(asked, "[user] Good day![assistant]")
            answer = llm.chat(said, 8, temperature=0, template_args={"add": "!"})
            self.assertEqual(answer, llm.generate(asked, 8, temperature=0))
            answer = llm.chat(said, 8, temperature=0)
            self.assertEqual(answer, llm.generate(text, 8, temperature=0))
            self.assertEqual(answer.prompt_tokens, len(llm.tokenize(text)))


class Command(unittest.TestCase):
    def test_a_stopped_text_is_the_commands(self):
        found = subprocess.run(
            [os.environ["MNEM_COMMAND"], "run", MODEL, "-p", PROMPT, "--raw", "-n", "24", "--temp", "0",
             "--ctx", "256", "--stop", "he LORD"], capture_output=True, text=True, check=True,
            env=dict(os.environ, MNEM_HISTORY="off"))
        with mnem.LLM(MODEL, memory=ROOM, ctx=256) as llm:
            text = llm.generate(PROMPT, 24, temperature=0, stop="he LORD")
        self.assertEqual(text, found.stdout.rstrip("\n"))


if __name__ == "__main__":
    unittest.main()
