/* arch_falcon_h1.c: Falcon-H1: in each layer a scan of Mamba 2 and attention beside it, which read
 * the same norm. Factors of the class are in the weights of files. Few models norm what the scan
 * gives. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_falcon_h1 = {
    MNEM__LIKE_GRANITEHYBRID,
    .names = {"falcon-h1"},
    .turn = MNEM__TURN_HALVES,
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(STATE_IN),
                MNEM__HAS(STATE_CONV), MNEM__HAS(STATE_CONV_BIAS), MNEM__HAS(STATE_DT_BIAS),
                MNEM__HAS(STATE_A), MNEM__HAS(STATE_SKIP), MNEM__MAY_HAVE(STATE_NORM, STATE_NORM),
                MNEM__HAS(STATE_OUT), MNEM__LIST_QKV, MNEM__HAS(O), MNEM__HAS(FFN_NORM),
                MNEM__LIST_GATED, MNEM__LIST_END},
    .parts[0].layers = MNEM__LAYERS_ALL,
    .parts[1].layers = MNEM__LAYERS_ALL,
    .parts[1].norm = MNEM__ROLE_NONE,
    .parts[1].beside = true,
    .state_beside = true,
    .takes = MNEM__TAKES_STATES,
};
