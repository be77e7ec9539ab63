"""A model's tokenizer alone (vocab_only), in place of an LLM: no plan, no budget, and no weights, which the
file need not have."""
import ctypes as C
import os
from types import SimpleNamespace

from .. import _declarations as D
from .._engine import Engine
from .._library import check, lib
from .._worker import Worker


class _Tokens:
    """What Steps and templates use of an Engine."""

    engine, template_end = None, -1

    def __init__(self, path):
        self.model, self.tokenizer = C.POINTER(D.mnem_model)(), C.POINTER(D.mnem_tokenizer)()
        try:
            check(lib.mnem_model_open(os.fsencode(path), C.byref(self.model)))
            check(lib.mnem_tokenizer_create(self.model, C.byref(self.tokenizer)))
        except BaseException:
            self.close()
            raise
        info = D.mnem_tokenizer_info()
        lib.mnem_tokenizer_info_get(self.tokenizer, C.byref(info))
        self.vocab = info.vocab

    def close(self):
        lib.mnem_tokenizer_destroy(self.tokenizer)
        lib.mnem_model_close(self.model)
        self.tokenizer = self.model = None


class Vocabulary:
    def __init__(self, path, context):
        self.plan = SimpleNamespace(context=context)
        self._worker = Worker("mnem")
        try:
            self._engine = self._call(lambda job: _Tokens(path))
        except BaseException:
            self._worker.end()
            raise

    def _call(self, function):
        return self._worker.call(function)

    @property
    def metadata(self):
        return self._call(lambda job: Engine.metadata(self._engine))

    def close(self):
        self._worker.end(lambda job: self._engine.close())
