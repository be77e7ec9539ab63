"""llama-cpp-python's classes over mnem: `import mnem.compat as llama_cpp` is the only change in a program.

    import mnem.compat as llama_cpp
    llm = llama_cpp.Llama(model_path="model.gguf", memory="1G")
    print(llm("The planets are ", max_tokens=32, stop=["\n"])["choices"][0]["text"])

Submodules have the names of llama_cpp's (llama_grammar, llama_chat_format, ...). docs/python-compat.md says
what each parameter does here, and what is refused: images, functionary, and llama.cpp's C API."""
import sys

from .._library import VERSION as __version__
from . import (llama, llama_cache, llama_chat_format, llama_grammar, llama_speculative, llama_tokenizer,
               llama_types)
from . import llama_cpp as _names
from .llama import (Llama, LlamaState, LogitsProcessorList, MinTokensLogitsProcessor, StoppingCriteriaList)
from .llama_cache import BaseLlamaCache, LlamaCache, LlamaDiskCache, LlamaRAMCache
from .llama_cpp import *  # noqa: F401,F403
from .llama_grammar import LlamaGrammar
from .llama_tokenizer import BaseLlamaTokenizer, LlamaHFTokenizer, LlamaTokenizer
from .llama_types import *  # noqa: F401,F403


def install_as_llama_cpp():
    """Makes `import llama_cpp` in any module of this process mean this package: for libraries that import
    it themselves, such as LangChain. Call it before they do."""
    found = sys.modules.get("llama_cpp")
    if found not in (None, sys.modules[__name__]):
        raise ImportError("mnem.compat: llama_cpp is imported already: call install_as_llama_cpp before")
    sys.modules["llama_cpp"] = sys.modules[__name__]
    for module in (llama, llama_cache, llama_chat_format, _names, llama_grammar, llama_speculative,
                   llama_tokenizer, llama_types):
        sys.modules["llama_cpp." + module.__name__.rpartition(".")[2]] = module


def __getattr__(name):
    return getattr(_names, name)
