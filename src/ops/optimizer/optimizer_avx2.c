/* optimizer_avx2.c: the kernels of AdamW compiled for AVX2. */
#define MNEM__LANES 2
#include "ops/optimizer/optimizer_body.h"

const mnem__adam_kernels mnem__adam_kernels_avx2 = ADAM_KERNELS;
