/* causal_attention_avx512.c: attention of training compiled for AVX-512. */
#define MNEM__LANES 512
#include "ops/attention/causal_attention_body.h"

const mnem__causal_kernels mnem__causal_kernels_avx512 = {
    .forward = forward,
    .gradient = gradient,
    .gradient_keys = gradient_keys,
    .gradient_queries = gradient_queries,
};
