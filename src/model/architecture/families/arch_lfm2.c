/* arch_lfm2.c: LFM2: most layers are gated short convolutions, the others attention with norms of
 * heads; a gated feed-forward in all. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_lfm2 = {
    MNEM__LIKE_LFM2,
    .names = {"lfm2"},
};
