"""Constants of llama.cpp that parameters of Llama take. Its C API isn't here: any other name of it raises
an error that says so."""
from typing import NoReturn as _NoReturn

LLAMA_DEFAULT_SEED = 0xFFFFFFFF

LLAMA_SPLIT_MODE_NONE, LLAMA_SPLIT_MODE_LAYER, LLAMA_SPLIT_MODE_ROW = range(3)

LLAMA_ROPE_SCALING_TYPE_UNSPECIFIED = -1
LLAMA_ROPE_SCALING_TYPE_NONE, LLAMA_ROPE_SCALING_TYPE_LINEAR, LLAMA_ROPE_SCALING_TYPE_YARN = range(3)

LLAMA_POOLING_TYPE_UNSPECIFIED = -1
(LLAMA_POOLING_TYPE_NONE, LLAMA_POOLING_TYPE_MEAN, LLAMA_POOLING_TYPE_CLS, LLAMA_POOLING_TYPE_LAST,
 LLAMA_POOLING_TYPE_RANK) = range(5)

LLAMA_ATTENTION_TYPE_UNSPECIFIED = -1
LLAMA_ATTENTION_TYPE_CAUSAL, LLAMA_ATTENTION_TYPE_NON_CAUSAL = range(2)

GGML_NUMA_STRATEGY_DISABLED, GGML_NUMA_STRATEGY_DISTRIBUTE = range(2)

GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1 = range(4)
GGML_TYPE_Q5_0, GGML_TYPE_Q5_1, GGML_TYPE_Q8_0, GGML_TYPE_Q8_1 = range(6, 10)


def __getattr__(name: str) -> _NoReturn:
    if name.lower().startswith(("llama_", "ggml_", "mtmd_", "llava_")):
        raise AttributeError(f"mnem.compat: {name} belongs to llama.cpp's C API, which mnem does not have: "
                             "use the class Llama")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
