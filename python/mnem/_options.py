"""Options of an answer: what generate and chat are asked for, checked before anything runs."""
import json

from . import _declarations as D
from ._library import lib

_SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last",
             "presence_penalty", "frequency_penalty", "dry_multiplier", "dry_base",
             "dry_allowed_length", "dry_penalty_last", "xtc_probability", "xtc_threshold", "seed")
_OTHERS = ("stop", "logprobs", "logit_bias", "dry_breakers", "schema", "grammar", "on_logits",
           "ignore_end")
LOGPROBS_MOST = 1000


def _texts(name, given):
    """None, one text or several, none of them empty."""
    texts = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    for text in texts:
        if not isinstance(text, str) or not text:
            raise ValueError(f"mnem: {name} has {text!r}, expected texts that aren't empty")
    return texts


def _schema(given):
    """A JSON schema as a text, of a dict or of a class as Pydantic's."""
    if hasattr(given, "model_json_schema"):
        given = given.model_json_schema()
    if not isinstance(given, (dict, bool)):
        raise TypeError(f"mnem: schema is {given!r}, expected a dict, or a class with "
                        "model_json_schema()")
    return json.dumps(given, ensure_ascii=False)


class Options:
    """max_tokens: 0 for no limit. answers: tokens that end a turn of the chat template end the text."""

    def __init__(self, max_tokens, given, answers=False):
        for name in given:
            if name not in _SAMPLING and name not in _OTHERS:
                raise TypeError(f"mnem: there is no option {name!r}; there are "
                                f"{', '.join(_SAMPLING + _OTHERS)}")
        self.max_tokens = max_tokens or 0
        self.answers = answers
        self.sampler = lib.mnem_sampler_usual()
        for name in _SAMPLING:
            if given.get(name) is not None:
                setattr(self.sampler, name, given[name])
        self.stop = _texts("stop", given.get("stop"))
        self.breakers = None if given.get("dry_breakers") is None else _texts(
            "dry_breakers", given["dry_breakers"])
        self.logprobs = given.get("logprobs")
        if self.logprobs is not None:
            self.logprobs = int(self.logprobs)
            if not 0 <= self.logprobs <= LOGPROBS_MOST:
                raise ValueError(f"mnem: logprobs is {self.logprobs}, expected 0 to {LOGPROBS_MOST}")
        self.bias = given.get("logit_bias") or {}
        self.ignore_end = bool(given.get("ignore_end"))
        self.on_logits = given.get("on_logits")
        self.grammar = self._grammar(given.get("grammar"), given.get("schema"))

    @staticmethod
    def _grammar(grammar, schema):
        """None, or whether it is a schema, and its text."""
        if grammar is not None and schema is not None:
            raise ValueError("mnem: grammar and schema can't be combined: give one of them")
        if schema is not None:
            return True, _schema(schema)
        return None if grammar is None else (False, str(grammar))

    def lend(self, breakers):
        """The sampler's options with what they point to, which must live as long as they are used."""
        bias = (D.mnem_logit_bias * len(self.bias))(*((int(i), b) for i, b in self.bias.items()))
        self.sampler.bias, self.sampler.bias_count = bias, len(bias)
        self.sampler.dry_breakers = breakers
        return self.sampler
