/* optimizer_avx512.c: the kernels of AdamW compiled for AVX-512. */
#define MNEM__LANES 512
#include "ops/optimizer/optimizer_body.h"

const mnem__adam_kernels mnem__adam_kernels_avx512 = ADAM_KERNELS;
