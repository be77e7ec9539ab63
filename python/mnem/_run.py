"""Run: one text on its way, from its prompt to its end.

The engine computes logits and calls choose with them; then take makes text of the token that was
chosen, and says whether the text goes on."""
import ctypes as C

from . import _declarations as D
from ._library import check, lib
from ._text import Joiner, Text, TokenLogprob


class Run:
    """tell: called with each piece of a stream as a Text; None: the whole text is the result."""

    silent = False

    def __init__(self, engine, ids, options, tell=None):
        self.engine, self.options, self.tell = engine, options, tell
        self.ids = list(ids)  # all tokens: the prompt's, then those that were chosen
        self.prompt_tokens = len(self.ids)
        self.next = -1
        self.chosen = False  # since the step began
        self.finish = None
        self.tokens, self.logprobs = [], []
        self.tokens_told = 0
        self.pieces = []
        self.joiner = Joiner(options.stop)
        self.logprob = None
        self.sampler = C.POINTER(D.mnem_sampler)()
        breakers, self.words = engine.breakers(options)
        check(lib.mnem_sampler_create(C.byref(options.lend(breakers)), engine.vocab,
                                      C.byref(self.sampler)))
        self.match = None
        try:
            if options.grammar is not None:
                end = engine.template_end if options.answers else -1
                self.match = engine.grammars.match(*options.grammar, end)
        except BaseException:
            self.close()
            raise
        for token in self.ids:
            lib.mnem_sampler_accept(self.sampler, token)

    def close(self):
        if self.match:
            self.match.close()
        lib.mnem_sampler_destroy(self.sampler)
        self.sampler = self.match = None

    # ---- a token ----

    def choose(self, logits):
        """Chooses the next token, inside of a step."""
        on_logits, given = self.options.on_logits, logits
        if on_logits:
            given = self.engine.shown.ask(on_logits, self.ids, logits)
        if self.match:
            self.next = self.match.choose(self.sampler, given)
        else:
            self.next = lib.mnem_sampler_choose(self.sampler, given)
        if self.options.logprobs is not None and self.next >= 0:
            self.logprob = self.measure(logits)

    def measure(self, logits):
        n = min(self.options.logprobs, self.engine.vocab)
        top = (D.mnem_token_logprob * n)()
        logprob = lib.mnem_logprobs_get(logits, self.engine.vocab, self.next, top, n)
        text = self.engine.text
        return TokenLogprob(self.next, text(self.next), logprob,
                            [(at.id, text(at.id), at.logprob) for at in top])

    def is_end(self):
        if self.options.ignore_end:
            return False
        return lib.mnem_tokenizer_is_end(self.engine.tokenizer, self.next) or (
            self.options.answers and self.next == self.engine.template_end)

    @property
    def plain(self):
        """The library may choose several tokens before one of them is looked at."""
        options = self.options
        return not (options.on_logits or self.match or options.stop) and options.logprobs is None

    def token_run(self, sequence):
        """What mnem_sequence_continue is asked for, all but the last token; and how many tokens at once,
        so that a stream is told what there is after 20 ms."""
        options, engine = self.options, self.engine
        ends = (C.c_int32 * 1)(engine.template_end if options.answers else -1)
        given = D.mnem_token_run(sequence=sequence, sampler=self.sampler,
                                 tokenizer=None if options.ignore_end else engine.tokenizer,
                                 ends=ends, end_count=not options.ignore_end,
                                 seconds=0.02 if self.tell else 0)
        return given, 64 if self.tell else 1024

    def room(self):
        """How many tokens may still come, of which the last isn't run."""
        room = self.engine.plan.context - len(self.ids) + 1
        most = self.options.max_tokens
        return min(room, most - len(self.tokens)) if most else room

    def take(self, accepted=False):
        """Makes text of the chosen token; False: it ended the text. accepted: by the sampler."""
        if self.next < 0 or self.is_end():
            return self.end("stop", cut=False)
        self.tokens.append(self.next)
        if self.logprob:
            self.logprobs.append(self.logprob)
        text = self.joiner.take(self.engine.piece(self.next))
        if self.joiner.stopped:
            return self.end("stop", text)
        if self.match and self.match.accept(self.next):
            return self.end("stop", text, cut=False)
        if len(self.tokens) == self.options.max_tokens or len(self.ids) >= self.engine.plan.context:
            return self.end("length", text)
        if text:
            self.say(text)
        self.ids.append(self.next)
        if not accepted:
            lib.mnem_sampler_accept_chosen(self.sampler, self.next)
        return True

    def say(self, text):
        if self.tell:
            self.tell(self.piece(text))
        else:
            self.pieces.append(text)

    def piece(self, text, finish=None):
        """A piece of a stream, with the tokens since the last one."""
        at, self.tokens_told = self.tokens_told, len(self.tokens)
        logprobs = self.logprobs[at:] if self.options.logprobs is not None else None
        return Text(text, self.tokens[at:], finish, logprobs, self.prompt_tokens)

    def end(self, finish, text="", cut=True):
        self.finish = finish
        text += self.joiner.end(cut)
        if self.tell:
            self.tell(self.piece(text, finish))
        else:
            self.pieces.append(text)
        return False

    @property
    def result(self):
        return self.piece("".join(self.pieces), self.finish)
