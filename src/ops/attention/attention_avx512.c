/* attention_avx512.c: the KV operators' kernels compiled for AVX-512. */
#define MNEM__LANES 512
#include "ops/attention/attention_body.h"
#include "ops/attention/kv_store_body.h"

const mnem__attention_kernels mnem__attention_kernels_avx512 = {
    .attend = attend,
    .store = store,
    .quantize = mnem__a8_quantize_avx512,
};
