from . import (llama as llama, llama_cache as llama_cache, llama_chat_format as llama_chat_format,
               llama_cpp as llama_cpp, llama_grammar as llama_grammar, llama_speculative as llama_speculative,
               llama_tokenizer as llama_tokenizer, llama_types as llama_types)
from .llama import (Llama as Llama, LlamaState as LlamaState, LogitsProcessorList as LogitsProcessorList,
                    MinTokensLogitsProcessor as MinTokensLogitsProcessor,
                    StoppingCriteriaList as StoppingCriteriaList)
from .llama_cache import (BaseLlamaCache as BaseLlamaCache, LlamaCache as LlamaCache,
                          LlamaDiskCache as LlamaDiskCache, LlamaRAMCache as LlamaRAMCache)
from .llama_cpp import *
from .llama_grammar import LlamaGrammar as LlamaGrammar
from .llama_tokenizer import (BaseLlamaTokenizer as BaseLlamaTokenizer, LlamaHFTokenizer as LlamaHFTokenizer,
                              LlamaTokenizer as LlamaTokenizer)
from .llama_types import *

__version__: str

def install_as_llama_cpp() -> None: ...
