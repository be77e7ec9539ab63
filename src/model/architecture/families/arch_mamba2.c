/* arch_mamba2.c: Mamba 2 (Dao and Gu 2024): in each layer a selective scan by heads, whose gated
 * norm is of groups. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mamba2 = {
    MNEM__LIKE_MAMBA2,
    .names = {"mamba2"},
};
