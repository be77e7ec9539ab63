"""Parameters of sampling as llama-cpp-python names them, logits as arrays, and what processors do."""
import ctypes as C
import math
from array import array

from .. import _declarations as D
from .._library import lib

try:
    import numpy
except ImportError:  # then ids and logits are arrays of the standard library
    numpy = None

# What every call takes, with llama-cpp-python's defaults.
SAMPLING = dict(top_k=40, top_p=0.95, min_p=0.05, typical_p=1.0, temp=0.8, repeat_penalty=1.0,
                frequency_penalty=0.0, presence_penalty=0.0, tfs_z=1.0, mirostat_mode=0, mirostat_eta=0.1,
                mirostat_tau=5.0, penalize_nl=True)


def options_of(seed, last_n, vocab, bias=None, **given):
    """A mnem_sampler_options. tfs_z and penalize_nl do nothing, as in llama.cpp since 2024; the parameters
    of Mirostat matter where its mode isn't 0, which is refused, and so is typical_p."""
    unknown = set(given) - set(SAMPLING)
    if unknown:
        raise TypeError(f"mnem.compat: unknown parameter {sorted(unknown)[0]!r}")
    at = {**SAMPLING, **given}
    if at["mirostat_mode"]:
        raise NotImplementedError("mnem.compat: mirostat_mode is not supported: leave it at 0, and use "
                                  "temperature, top_p or min_p")
    if at["typical_p"] != 1.0:
        raise NotImplementedError("mnem.compat: typical_p is not supported: leave it at 1.0, and use top_p "
                                  "or min_p")
    if at["temp"] < 0:  # llama-cpp-python's way of saying: as the model has it
        at.update(temp=1.0, top_k=0, top_p=1.0, min_p=0.0)
    options = lib.mnem_sampler_usual()
    options.temperature, options.top_k = at["temp"], max(at["top_k"], 0)
    options.top_p, options.min_p = min(at["top_p"], 1.0), at["min_p"]
    options.repeat_penalty, options.repeat_last = at["repeat_penalty"], last_n
    options.presence_penalty = at["presence_penalty"]
    options.frequency_penalty = at["frequency_penalty"]
    options.seed = int(seed) & (1 << 64) - 1
    if bias:
        pairs = sorted((int(token), float(value)) for token, value in bias.items())
        wrong = [token for token, _ in pairs if not 0 <= token < vocab]
        if wrong:
            raise ValueError(f"mnem.compat: logit_bias has token {wrong[0]}, but the vocabulary has {vocab}")
        options.bias = (D.mnem_logit_bias * len(pairs))(*pairs)
        options.bias_count = len(pairs)
    return options


def ids_array(ids, length=0):
    """ids, and zeros up to length."""
    ids = list(ids) + [0] * (length - len(ids))
    return numpy.array(ids, dtype=numpy.intc) if numpy else array("i", ids)


def row_array(logits):
    """A copy of ctypes logits."""
    if numpy:
        return numpy.ctypeslib.as_array(logits).copy()
    return array("f", bytes(logits))


def row_back(row, vocab):
    """ctypes logits of an array or a sequence."""
    out = (C.c_float * vocab)()
    if numpy and isinstance(row, numpy.ndarray):
        numpy.ctypeslib.as_array(out)[:] = row
    elif isinstance(row, array) and row.typecode == "f":
        C.memmove(out, (C.c_float * vocab).from_buffer(row), C.sizeof(out))
    else:
        out[:] = list(row)
    return out


def logprobs_of(logits, vocab, token, count):
    """(the logarithm of a token's probability, [(token, the same)] of the count likeliest ones)."""
    count = min(count, vocab)
    top = (D.mnem_token_logprob * max(count, 1))()
    value = lib.mnem_logprobs_get(logits, vocab, token, top, count)
    return value, [(one.id, one.logprob) for one in top[:count]]


def logits_to_logprobs(logits, axis=-1):
    """The logarithms of the probabilities of logits: an array, or a list of floats."""
    if numpy is None:
        most = max(logits)
        total = most + math.log(math.fsum(math.exp(x - most) for x in logits))
        return [x - total for x in logits]
    logits = numpy.asarray(logits, dtype=numpy.single)
    most = logits.max(axis=axis, keepdims=True)
    most = numpy.where(numpy.isfinite(most), most, 0)
    return logits - most - numpy.log(numpy.exp(logits - most).sum(axis=axis, keepdims=True))


class LogitsProcessorList(list):
    """Functions of (ids, logits) that return other logits, one after another."""

    def __call__(self, input_ids, scores):
        for processor in self:
            scores = processor(input_ids, scores)
        return scores


class StoppingCriteriaList(list):
    """Functions of (ids, logits) that say whether to stop."""

    def __call__(self, input_ids, logits):
        return any([criterion(input_ids, logits) for criterion in self])


class MinTokensLogitsProcessor:
    """No end before min_tokens tokens."""

    def __init__(self, min_tokens, token_eos):
        self.min_tokens, self.token_eos, self.prompt_tokens = min_tokens, token_eos, None

    def __call__(self, input_ids, scores):
        if self.prompt_tokens is None:
            self.prompt_tokens = len(input_ids)
        if len(input_ids) - self.prompt_tokens < self.min_tokens:
            scores[self.token_eos] = -math.inf
        return scores
