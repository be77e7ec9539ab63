/* adam.c: which kernels of AdamW the level in force has. */
#include "ops/optimizer/adam.h"

#include "ops/core/op_impl.h"

const mnem__adam_kernels *mnem__adam_kernels_get(void) {
    return MNEM__AT_BEST_LEVEL(mnem__adam_kernels);
}
