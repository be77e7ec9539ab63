/* arch_lfm2moe.c: LFM2 with experts behind a few dense layers, chosen by sigmoids and a bias. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_lfm2moe = {
    MNEM__LIKE_LFM2,
    .names = {"lfm2moe"},
    .tensors = {MNEM__LIST_LFM2, MNEM__LIST_LEADING, MNEM__LIST_LATER, MNEM__HAS(EMBED_NORM),
                MNEM__MAY_HAVE(OUTPUT, OUTPUT)},
    .parts[2].layers = MNEM__LAYERS_LEADING,
    .parts[3] = MNEM__MIXTURE,
    .parts[3].layers = MNEM__LAYERS_LATER,
    .parts[3].choice_bias = MNEM__ROLE_CHOICE_BIAS,
    .normalized_weights = true,
    .sigmoid_weights = true,
    .takes = MNEM__TAKES_CONV | MNEM__TAKES_EXPERTS,
};
