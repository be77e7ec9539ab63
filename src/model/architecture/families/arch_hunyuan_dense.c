/* arch_hunyuan_dense.c: Hunyuan: Qwen3's layer with norms of heads that are turned. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_hunyuan_dense = {
    MNEM__LIKE_QWEN3,
    .names = {"hunyuan-dense"},
    .turned_norms = true,
};
