/* arch_mamba.c: Mamba (Gu and Dao 2023), and FalconMamba: in each layer a selective scan, in which
 * every channel has a step and decays of its own. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mamba = {
    MNEM__LIKE_MAMBA2,
    .names = {"mamba"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__HAS(STATE_IN),
                MNEM__HAS(STATE_CONV), MNEM__HAS(STATE_CONV_BIAS), MNEM__HAS(STATE_X),
                MNEM__HAS(STATE_STEP), MNEM__HAS(STATE_DT_BIAS), MNEM__HAS(STATE_A),
                MNEM__HAS(STATE_SKIP), MNEM__HAS(STATE_OUT), MNEM__LIST_END},
    .parts[0].state_norm = MNEM__ROLE_NONE,
    .parts[0].x = MNEM__ROLE_STATE_X,
    .parts[0].step = MNEM__ROLE_STATE_STEP,
};
