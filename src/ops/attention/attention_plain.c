/* attention_plain.c: the KV operators' kernels compiled for any processor. */
#define MNEM__LANES 0
#include "ops/attention/attention_body.h"
#include "ops/attention/kv_store_body.h"

const mnem__attention_kernels mnem__attention_kernels_plain = {
    .attend = attend,
    .store = store,
    .quantize = mnem__a8_quantize_plain,
};
