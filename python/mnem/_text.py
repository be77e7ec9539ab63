"""Text: what an answer is, and how it is put together from tokens."""
import codecs
from collections import namedtuple

TokenLogprob = namedtuple("TokenLogprob", "token text logprob top")
TokenLogprob.__doc__ = """How likely a chosen token was in the model's own distribution, before biases, penalties, cuts
and temperature: its id, its text, the natural logarithm of its probability, and the likeliest tokens as
(id, text, logprob), best first, as many as were asked for."""


class Text(str):
    """A str that knows how it came about.

    tokens: the ids that were chosen, without the one that ended it. finish: "stop" (the model, a stop text
    or the grammar ended it) or "length" (max_tokens, or the context is full); of a stream's pieces only the
    last has it, the others have None. logprobs: a TokenLogprob for each of tokens, or None where not asked
    for. prompt_tokens: how many the prompt has."""

    __slots__ = ("tokens", "finish", "logprobs", "prompt_tokens")

    def __new__(cls, text="", tokens=(), finish=None, logprobs=None, prompt_tokens=0):
        made = super().__new__(cls, text)
        made.tokens, made.finish = list(tokens), finish
        made.logprobs, made.prompt_tokens = logprobs, prompt_tokens
        return made


class Joiner:
    """Bytes of tokens to text: whole characters, up to the first stop text. What may become a stop text,
    or a character, is held back until it is decided."""

    def __init__(self, stop):
        self.stop = stop
        self.held = ""
        self.stopped = False
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, data):
        """The text that is decided with these bytes."""
        text = self.decoder.decode(data)
        return self._find(text) if self.stop and text else text

    def end(self, cut):
        """The text that was held back. cut: the end came from outside, and a character that isn't
        whole is dropped; otherwise it is U+FFFD."""
        text = self.held + ("" if cut else self.decoder.decode(b"", True))
        self.held = ""
        return "" if self.stopped else text

    def _find(self, text):
        held = self.held + text
        at = min((i for i in map(held.find, self.stop) if i >= 0), default=-1)
        self.stopped = at >= 0
        keep = 0
        if not self.stopped:
            for stop in self.stop:
                for n in range(min(len(stop) - 1, len(held)), keep, -1):
                    if held.endswith(stop[:n]):
                        keep = n
                        break
            at = len(held) - keep
        self.held = held[at:]
        return held[:at]
