/* arch_jamba.c: Jamba (Lieber et al. 2024): scans of Mamba in most layers, whose steps, B and C
 * are normed; attention without RoPE in others; a mixture in some layers, a feed-forward in the
 * rest. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_jamba = {
    MNEM__LIKE_GRANITEHYBRID,
    .names = {"jamba"},
    .tensors = {MNEM__HAS(EMBEDDING),
                MNEM__HAS(ATTN_NORM),
                MNEM__IN(RECURRENT, STATE_IN),
                MNEM__IN(RECURRENT, STATE_CONV),
                MNEM__IN(RECURRENT, STATE_CONV_BIAS),
                MNEM__IN(RECURRENT, STATE_X),
                MNEM__IN(RECURRENT, STATE_STEP_NORM),
                MNEM__IN(RECURRENT, STATE_B_NORM),
                MNEM__IN(RECURRENT, STATE_C_NORM),
                MNEM__IN(RECURRENT, STATE_STEP),
                MNEM__IN(RECURRENT, STATE_DT_BIAS),
                MNEM__IN(RECURRENT, STATE_A),
                MNEM__IN(RECURRENT, STATE_SKIP),
                MNEM__IN(RECURRENT, STATE_OUT),
                MNEM__IN(ATTENTION, Q),
                MNEM__IN(ATTENTION, K),
                MNEM__IN(ATTENTION, V),
                MNEM__IN(ATTENTION, O),
                MNEM__HAS(FFN_NORM),
                MNEM__LIST_LEADING,
                MNEM__IN(LATER, ROUTER),
                MNEM__IN(LATER, GATE_EXPERTS),
                MNEM__IN(LATER, UP_EXPERTS),
                MNEM__IN(LATER, DOWN_EXPERTS),
                MNEM__LIST_END},
    .takes = MNEM__TAKES_STATES | MNEM__TAKES_LAYER_HEADS | MNEM__TAKES_EXPERTS |
             MNEM__TAKES_SOME_EXPERTS,
    .parts[0].state_norm = MNEM__ROLE_NONE,
    .parts[0].x = MNEM__ROLE_STATE_X,
    .parts[0].x_norms = {MNEM__ROLE_STATE_STEP_NORM, MNEM__ROLE_STATE_B_NORM,
                         MNEM__ROLE_STATE_C_NORM},
    .parts[0].step = MNEM__ROLE_STATE_STEP,
    .parts[2].layers = MNEM__LAYERS_LEADING,
    .parts[3] = MNEM__MIXTURE,
    .parts[3].layers = MNEM__LAYERS_LATER,
};
