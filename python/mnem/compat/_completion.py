"""A completion: tokens become text up to a stop text, and dicts of OpenAI's shape."""
import codecs
import contextlib
import random
import time
import uuid

from ._sampling import logprobs_of


class Reader:
    """The text of tokens as they come: whole characters, held back where a stop text may have begun."""

    def __init__(self, stops):
        self.decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self.stops = [stop for stop in stops if stop]
        self.held, self.stopped = "", False

    def add(self, data, last=False):
        self.held += self.decoder.decode(data, last)
        found = [self.held.find(stop) for stop in self.stops if stop in self.held]
        self.stopped = bool(found)
        if found:
            end = min(found)
        elif last:
            end = len(self.held)
        else:
            end = len(self.held) - max([0] + [tail(self.held, stop) for stop in self.stops])
        text, self.held = self.held[:end], "" if found else self.held[end:]
        return text


def tail(text, mark):
    """How many characters at the end of a text are the beginning of a mark."""
    for n in range(min(len(mark) - 1, len(text)), 0, -1):
        if text.endswith(mark[:n]):
            return n
    return 0


class Logprobs:
    """What OpenAI's completions say of each token. offset: of the first one, in the text."""

    def __init__(self, llama, count, offset):
        self.llama, self.count, self.offset = llama, count, offset
        self.clear()

    def clear(self):
        self.out = {"tokens": [], "text_offset": [], "token_logprobs": [], "top_logprobs": []}

    def take(self):
        out = self.out
        self.clear()
        return out

    def text(self, token):
        return self.llama._piece(token).decode("utf-8", "ignore")

    def add(self, token, logits):
        """A token, and the logits that it was chosen from; None: it is the first of all."""
        text = self.text(token)
        value = top = None
        if logits is not None:
            value, best = logprobs_of(logits, self.llama.n_vocab(), token, self.count)
            top = {self.text(one): logprob for one, logprob in best}
            top[text] = value
        out = self.out
        out["tokens"].append(text)
        out["text_offset"].append(self.offset)
        out["token_logprobs"].append(value)
        out["top_logprobs"].append(top)
        self.offset += len(text)


_MIDDLE = (("fim_pre_token_id", "fim_suf_token_id", "fim_mid_token_id"),
           ("prefix_token_id", "suffix_token_id", "middle_token_id"))  # keys, the older ones last
_MIDDLE_TEXTS = (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
                 ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"))


def _middle_tokens(llama):
    """The tokens before a prefix, a suffix and the text between, by the file's keys or their usual texts."""
    for keys in _MIDDLE:
        found = [llama.metadata.get("tokenizer.ggml." + key) for key in keys]
        if all(found):
            return [int(token) for token in found]
    for texts in _MIDDLE_TEXTS:
        found = [llama.tokenize(text.encode(), add_bos=False, special=True) for text in texts]
        if all(len(ids) == 1 for ids in found):
            return [ids[0] for ids in found]
    raise NotImplementedError("mnem.compat: suffix needs a model with fill-in-the-middle tokens: this one has "
                              "none")


def prompt_ids(llama, prompt, suffix):
    if suffix:
        before, behind, between = _middle_tokens(llama)
        given = llama.tokenize(prompt.encode(), False, False) if isinstance(prompt, str) else list(prompt)
        parts = [before, *given], [behind, *llama.tokenize(suffix.encode(), False, False)]
        begin = [llama.token_bos()] if llama._add_bos else []
        first, second = reversed(parts) if llama._spm_infill else parts
        return begin + first + second + [between]
    if not isinstance(prompt, str):
        return [int(token) for token in prompt]
    ids = llama.tokenize(prompt.encode(), add_bos=True, special=True)
    if not ids:
        raise ValueError("mnem.compat: the prompt is empty, and the model has no BOS token")
    return ids


def _restore(llama, ids):
    """Takes the state that has more in common with ids than what is held, if the cache has one."""
    try:
        state = llama.cache[ids]
    except KeyError:
        return
    held = llama.longest_token_prefix(llama._input_ids, ids)
    if llama.longest_token_prefix(state.input_ids[:state.n_tokens], ids) > held:
        llama.load_state(state)


def _echoed(llama, ids, logprobs):
    """Runs the prompt as a whole, for the probabilities of its tokens."""
    llama.reset()
    begin = 1 if ids[0] == llama.token_bos() else 0  # which has no text
    if begin < len(ids):
        logprobs.add(ids[begin], None)

    def on_row(position, logits):
        if llama._logits_all:
            llama._keep_row(position, logits)
        if begin <= position < len(ids) - 1:
            logprobs.add(ids[position + 1], logits)

    llama._steps.call(lambda job: llama._steps.run(job, ids, on_row))


class _Form:
    """Chunks with what all of them have."""

    def __init__(self, model):
        self.head = {"id": f"cmpl-{uuid.uuid4()}", "object": "text_completion",
                     "created": int(time.time()), "model": model}

    def chunk(self, text, logprobs, finish, **more):
        choice = {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish}
        return {**self.head, "choices": [choice], **more}


def complete(llama, prompt, suffix, max_tokens, sampling, logprobs, echo, stop, stream, seed, model,
             criteria, processor, grammar, bias, show=(), end=-1):
    """Yields one dict, or, with stream, one for each piece of text and one for the end. show: control
    tokens whose text is part of the answer; end: a token that ends it besides the model's own."""
    form, ids, context = _Form(model), prompt_ids(llama, prompt, suffix), llama.n_ctx()
    if len(ids) >= context:
        raise ValueError(f"Requested tokens ({len(ids)}) exceed context window of {context}")
    room = context - len(ids)
    most = min(max_tokens, room) if max_tokens and max_tokens > 0 else room
    if llama.cache:
        _restore(llama, ids)
    llama.set_seed(seed if seed is not None else random.Random(llama._seed).randint(0, 1 << 32))
    before = prompt if isinstance(prompt, str) else llama.detokenize(ids).decode("utf-8", "ignore")
    reader = Reader([stop] if isinstance(stop, str) else stop or ())
    chances = None
    if logprobs is not None:
        chances = Logprobs(llama, logprobs, 0 if echo else len(before))
        if echo:
            _echoed(llama, ids, chances)
    answer = _Answer(llama, ids, most, reader, chances, show, end, prompt == "")
    tokens = llama._tokens(ids, llama._options(bias, **sampling), True, processor, criteria, grammar, end)
    texts = [before] if echo else []
    with contextlib.closing(tokens):
        if stream and echo:
            yield form.chunk(before, chances and chances.take(), None)
        for text in answer.pieces(tokens):
            if stream:
                yield form.chunk(text, chances and chances.take(), None)
            else:
                texts.append(text)
    if llama.cache is not None:
        llama.cache[ids + answer.tokens] = llama.save_state()
    if stream:
        yield form.chunk("", None, answer.finish)
        return
    used = {"prompt_tokens": len(ids), "completion_tokens": len(answer.tokens),
            "total_tokens": len(ids) + len(answer.tokens)}
    yield form.chunk("".join(texts), chances and chances.take(), answer.finish, usage=used)


class _Answer:
    """tokens: those that were generated, an end left out. finish: "stop" or "length"."""

    def __init__(self, llama, ids, most, reader, chances, show, end, first):
        self.llama, self.ids, self.most, self.reader, self.chances = llama, ids, most, reader, chances
        self.show, self.end, self.first = show, end, first  # first: nothing stands before the answer
        self.tokens, self.finish = [], "stop"

    def bytes_of(self, token):
        data = self.llama._piece(token, self.ids + self.tokens, token in self.show)
        if self.first and data.startswith(b" ") and not self.tokens:
            return data[1:]  # the space that SentencePiece begins a text with
        return data

    def pieces(self, tokens):
        """Texts that aren't empty, or, with probabilities of tokens, at least one for all of them."""
        reader, chances, steps = self.reader, self.chances, self.llama._steps
        for token in tokens:
            if token == self.end or steps.is_end(token):
                break
            text = reader.add(self.bytes_of(token))
            self.tokens.append(token)
            if chances:
                chances.add(token, steps.logits)
            if text:
                yield text
            if reader.stopped:
                return
            if len(self.tokens) >= self.most:
                self.finish = "length"
                break
        text = reader.add(b"", True)
        if reader.stopped:
            self.finish = "stop"
        if text or (chances and chances.out["tokens"]):
            yield text
