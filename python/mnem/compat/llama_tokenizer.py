"""Tokenizers: the model's, or one's own in its place (`Llama(tokenizer=...)`)."""


class BaseLlamaTokenizer:
    def tokenize(self, text, add_bos=True, special=True):
        raise NotImplementedError

    def detokenize(self, tokens, prev_tokens=None, special=False):
        raise NotImplementedError


class LlamaTokenizer(BaseLlamaTokenizer):
    """The model's. add_bos: with what the file asks for before a text; special: texts of control tokens
    become these tokens."""

    def __init__(self, llama):
        self._steps = llama._steps

    def tokenize(self, text, add_bos=True, special=True):
        steps = self._steps
        return steps.call(lambda job: steps.encode(bytes(text), add_bos, special))

    def detokenize(self, tokens, prev_tokens=None, special=False):
        tokens = [int(token) for token in tokens]
        out = b"".join(self._steps.piece(token, special) for token in tokens)
        # SentencePiece adds a space at the beginning of a text, which a BOS token shows.
        cut = tokens and tokens[0] == self._steps.bos and out.startswith(b" ")
        return out[1:] if cut else out

    def encode(self, text, add_bos=True, special=True):
        return self.tokenize(text.encode("utf-8", "ignore"), add_bos, special)

    def decode(self, tokens):
        return self.detokenize(tokens).decode("utf-8", "ignore")

    @classmethod
    def from_ggml_file(cls, path):
        from .llama import Llama
        return Llama(model_path=path, vocab_only=True).tokenizer()


class LlamaHFTokenizer(BaseLlamaTokenizer):
    """A tokenizer of the package transformers."""

    def __init__(self, hf_tokenizer):
        self.hf_tokenizer = hf_tokenizer

    def tokenize(self, text, add_bos=True, special=True):
        return self.hf_tokenizer.encode(text.decode("utf-8", "ignore"), add_special_tokens=special)

    def _bytes(self, tokens, special):
        text = self.hf_tokenizer.decode(tokens, skip_special_tokens=not special)
        return text.encode("utf-8", "ignore")

    def detokenize(self, tokens, prev_tokens=None, special=False):
        if prev_tokens is None:
            return self._bytes(tokens, special)
        before = self._bytes(list(prev_tokens), special)
        return self._bytes(list(prev_tokens) + list(tokens), special)[len(before):]

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path):
        try:
            from transformers import AutoTokenizer
        except ImportError:
            raise ImportError("mnem.compat: LlamaHFTokenizer needs the package transformers: "
                              "pip install transformers") from None
        return cls(AutoTokenizer.from_pretrained(pretrained_model_name_or_path))
