/* causal_attention_avx2.c: attention of training compiled for AVX2. */
#define MNEM__LANES 2
#include "ops/attention/causal_attention_body.h"

const mnem__causal_kernels mnem__causal_kernels_avx2 = {
    .forward = forward,
    .gradient = gradient,
    .gradient_keys = gradient_keys,
    .gradient_queries = gradient_queries,
};
