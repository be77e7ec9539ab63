/* causal_attention_plain.c: attention of training compiled for any processor. */
#define MNEM__LANES 0
#include "ops/attention/causal_attention_body.h"

const mnem__causal_kernels mnem__causal_kernels_plain = {
    .forward = forward,
    .gradient = gradient,
    .gradient_keys = gradient_keys,
    .gradient_queries = gradient_queries,
};
