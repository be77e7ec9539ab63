/* optimizer_plain.c: the kernels of AdamW compiled for any processor. */
#define MNEM__LANES 0
#include "ops/optimizer/optimizer_body.h"

const mnem__adam_kernels mnem__adam_kernels_plain = ADAM_KERNELS;
