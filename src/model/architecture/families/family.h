/* family.h: tables that families start from, and lists for them.
 *
 * A family's table starts with one of those below and then names the differences: a later
 * initializer of a field, even of a single field of a part, replaces an earlier one (C17 6.7.9):
 *
 *     const mnem__architecture mnem__architecture_smollm3 = {
 *         MNEM__LIKE_LLAMA,
 *         .names = {"smollm3"},
 *         .unturned = MNEM__EVERY(4),
 *     };
 *
 * A family with other tensors writes a new list, from the lists here. A family that differs in n
 * facts has at most n + 8 lines. */
#ifndef MNEM_SRC_MODEL_ARCHITECTURE_FAMILIES_FAMILY_H
#define MNEM_SRC_MODEL_ARCHITECTURE_FAMILIES_FAMILY_H

#include "model/architecture/architecture.h"

#pragma GCC diagnostic ignored "-Woverride-init" /* that is how a table begins with another */

/* ---- schedules of layers ---- */

/* The last of every `layers` layers. */
#define MNEM__EVERY(layers)                                                                        \
    { .kind = MNEM_LAYERS_EVERY, .n = (layers) }
#define MNEM__ALL_BUT_EVERY(layers)                                                                \
    { .kind = MNEM_LAYERS_BUT_EVERY, .n = (layers) }

/* ---- lists of tensors ---- */

#define MNEM__LIST_QKV      MNEM__HAS(Q), MNEM__HAS(K), MNEM__HAS(V)
#define MNEM__LIST_QKV_BIAS MNEM__HAS(Q_BIAS), MNEM__HAS(K_BIAS), MNEM__HAS(V_BIAS)
#define MNEM__LIST_QKV_MAY_HAVE_BIAS                                                               \
    MNEM__MAY_HAVE(Q_BIAS, QKV_BIAS), MNEM__MAY_HAVE(K_BIAS, QKV_BIAS),                            \
        MNEM__MAY_HAVE(V_BIAS, QKV_BIAS)
#define MNEM__LIST_HEAD_NORMS MNEM__HAS(Q_NORM), MNEM__HAS(K_NORM)
#define MNEM__LIST_GATED      MNEM__HAS(GATE), MNEM__HAS(UP), MNEM__HAS(DOWN)
#define MNEM__LIST_EXPERTS                                                                         \
    MNEM__HAS(ROUTER), MNEM__HAS(GATE_EXPERTS), MNEM__HAS(UP_EXPERTS), MNEM__HAS(DOWN_EXPERTS)
#define MNEM__LIST_SHARED MNEM__HAS(GATE_SHARED), MNEM__HAS(UP_SHARED), MNEM__HAS(DOWN_SHARED)
/* Dense layers first, then experts. */
#define MNEM__LIST_LEADING MNEM__IN(LEADING, GATE), MNEM__IN(LEADING, UP), MNEM__IN(LEADING, DOWN)
#define MNEM__LIST_LATER                                                                           \
    MNEM__IN(LATER, ROUTER),                                                                       \
        {MNEM__ROLE_CHOICE_BIAS, MNEM__OPTION_CHOICE_BIAS, MNEM__LAYERS_LATER},                    \
        MNEM__IN(LATER, GATE_EXPERTS), MNEM__IN(LATER, UP_EXPERTS), MNEM__IN(LATER, DOWN_EXPERTS)
#define MNEM__LIST_LATER_SHARED                                                                    \
    MNEM__IN(LATER, GATE_SHARED), MNEM__IN(LATER, UP_SHARED), MNEM__IN(LATER, DOWN_SHARED)
#define MNEM__LIST_ERNIE_MOE                                                                       \
    MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O),                      \
        MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING,                 \
        MNEM__LIST_LATER
#define MNEM__LIST_END MNEM__HAS(OUTPUT_NORM), MNEM__MAY_HAVE(OUTPUT, OUTPUT)

/* ---- differences of several families ---- */

#define MNEM__HEADS_NORMED                                                                         \
    .parts[0].q_norm = MNEM__ROLE_Q_NORM, .parts[0].k_norm = MNEM__ROLE_K_NORM
#define MNEM__PARTS_NORMED_BEHIND                                                                  \
    .parts[0].post_norm = MNEM__ROLE_ATTN_POST_NORM, .parts[1].post_norm = MNEM__ROLE_FFN_POST_NORM
#define MNEM__MIXTURE                                                                              \
    {                                                                                              \
        .norm = MNEM__ROLE_FFN_NORM, .router = MNEM__ROLE_ROUTER,                                  \
        .in = {MNEM__ROLE_GATE_EXPERTS, MNEM__ROLE_UP_EXPERTS}, .core = MNEM_OP_SILU_MUL,          \
        .out = MNEM__ROLE_DOWN_EXPERTS                                                             \
    }
#define MNEM__SHARED_IN                                                                            \
    { MNEM__ROLE_GATE_SHARED, MNEM__ROLE_UP_SHARED }
/* Dense layers first, then a mixture. */
#define MNEM__LATER_MIXTURE                                                                        \
    .parts[1].layers = MNEM__LAYERS_LEADING, .parts[2] = MNEM__MIXTURE,                            \
    .parts[2].layers = MNEM__LAYERS_LATER, .parts[2].choice_bias = MNEM__ROLE_CHOICE_BIAS
#define MNEM__LATER_MIXTURE_SHARED                                                                 \
    MNEM__LATER_MIXTURE, .parts[2].shared_in = MNEM__SHARED_IN,                                    \
                         .parts[2].shared_out = MNEM__ROLE_DOWN_SHARED

/* ---- tables to begin with ---- */

/* Norms before attention and a gated feed-forward; RoPE of adjacent elements. */
#define MNEM__LIKE_LLAMA                                                                           \
    .epsilon_key = "attention.layer_norm_rms_epsilon", .norm = MNEM_OP_RMS_NORM,                   \
    .turn = MNEM__TURN_NEIGHBOURS,                                                                 \
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM),                                        \
                MNEM__LIST_QKV,       MNEM__LIST_QKV_MAY_HAVE_BIAS,                                \
                MNEM__HAS(O),         MNEM__MAY_HAVE(O_BIAS, OUT_BIAS),                            \
                MNEM__HAS(FFN_NORM),  MNEM__LIST_GATED,                                            \
                MNEM__LIST_END,       MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},                 \
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,                                                       \
               .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},                                   \
               .core = MNEM_OP_ATTENTION,                                                          \
               .out = MNEM__ROLE_O},                                                               \
              {.norm = MNEM__ROLE_FFN_NORM,                                                        \
               .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},                                             \
               .core = MNEM_OP_SILU_MUL,                                                           \
               .out = MNEM__ROLE_DOWN}}

/* Biases of q, k and v; RoPE of halves. */
#define MNEM__LIKE_QWEN2                                                                           \
    MNEM__LIKE_LLAMA,                                                                              \
        .turn = MNEM__TURN_HALVES,                                                                 \
        .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,                    \
                    MNEM__LIST_QKV_BIAS,  MNEM__HAS(O),         MNEM__MAY_HAVE(O_BIAS, OUT_BIAS),  \
                    MNEM__HAS(FFN_NORM),  MNEM__LIST_GATED,     MNEM__LIST_END},                   \
        .fixed_heads = true

/* Norms of heads before RoPE. */
#define MNEM__LIKE_QWEN3                                                                           \
    MNEM__LIKE_LLAMA, .turn = MNEM__TURN_HALVES,                                                   \
                      .tensors = {MNEM__HAS(EMBEDDING),                                            \
                                  MNEM__HAS(ATTN_NORM),                                            \
                                  MNEM__LIST_QKV,                                                  \
                                  MNEM__LIST_QKV_MAY_HAVE_BIAS,                                    \
                                  MNEM__LIST_HEAD_NORMS,                                           \
                                  MNEM__HAS(O),                                                    \
                                  MNEM__MAY_HAVE(O_BIAS, OUT_BIAS),                                \
                                  MNEM__HAS(FFN_NORM),                                             \
                                  MNEM__LIST_GATED,                                                \
                                  MNEM__LIST_END},                                                 \
                      MNEM__HEADS_NORMED

/* The same with experts, whose weights add up to 1. */
#define MNEM__LIKE_QWEN3MOE                                                                        \
    MNEM__LIKE_QWEN3,                                                                              \
        .tensors = {MNEM__HAS(EMBEDDING),  MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV,                   \
                    MNEM__LIST_HEAD_NORMS, MNEM__HAS(O),         MNEM__HAS(FFN_NORM),              \
                    MNEM__LIST_EXPERTS,    MNEM__LIST_END},                                        \
        .parts[1] = MNEM__MIXTURE, .normalized_weights = true, .takes = MNEM__TAKES_EXPERTS

/* Experts, whose weights add up to 1. */
#define MNEM__LIKE_MIXTRAL                                                                         \
    MNEM__LIKE_LLAMA,                                                                              \
        .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O),      \
                    MNEM__HAS(FFN_NORM),  MNEM__LIST_EXPERTS,   MNEM__LIST_END},                   \
        .parts[1] = MNEM__MIXTURE, .normalized_weights = true, .takes = MNEM__TAKES_EXPERTS

/* Layer norms, and a feed-forward without a gate, with GELU. */
#define MNEM__LIKE_GPT                                                                             \
    MNEM__LIKE_LLAMA, .epsilon_key = "attention.layer_norm_epsilon", .norm = MNEM_OP_LAYER_NORM,   \
                      .parts[1].in = {MNEM__ROLE_UP}, .parts[1].core = MNEM_OP_GELU

/* Parallel attention and feed-forward; layer norms without bias. */
#define MNEM__LIKE_COHERE                                                                          \
    MNEM__LIKE_LLAMA, .epsilon_key = "attention.layer_norm_epsilon", .norm = MNEM_OP_LAYER_NORM,   \
                      .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM),                      \
                                  MNEM__LIST_QKV,       MNEM__LIST_QKV_MAY_HAVE_BIAS,              \
                                  MNEM__HAS(O),         MNEM__MAY_HAVE(O_BIAS, OUT_BIAS),          \
                                  MNEM__LIST_GATED,     MNEM__LIST_END},                           \
                      .parts[1].norm = MNEM__ROLE_NONE, .parts[1].beside = true,                   \
                      .takes = MNEM__TAKES_LOGIT_FACTOR, .fixed_heads = true

/* The same with dense layers first, then experts; some layers have a window, and only these and the
 * dense ones have RoPE. RMS norms, if files say so. */
#define MNEM__LIST_COHERE2MOE                                                                      \
    MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O), MNEM__LIST_LEADING,  \
        MNEM__LIST_LATER
#define MNEM__LIKE_COHERE2MOE                                                                      \
    MNEM__LIKE_COHERE,                                                                             \
        .tensors = {MNEM__LIST_COHERE2MOE, MNEM__LIST_END}, MNEM__LATER_MIXTURE,                   \
        .parts[2].norm = MNEM__ROLE_NONE, .parts[2].beside = true,                                 \
        .windowed = MNEM__ALL_BUT_EVERY(4), .windows_turn = MNEM__WINDOWS_ALWAYS_TURN,             \
        .leading_turn = true, .sigmoid_weights = true,                                             \
        .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_LOGIT_FACTOR | MNEM__TAKES_EITHER_NORM

/* Norms before and after attention and feed-forward; GELU; embeddings times sqrt(embd). */
#define MNEM__LIKE_GEMMA                                                                           \
    MNEM__LIKE_LLAMA, .turn = MNEM__TURN_HALVES, MNEM__PARTS_NORMED_BEHIND,                        \
                      .parts[1].core = MNEM_OP_GELU_MUL, .root_scale = true

/* Short convolutions in most layers, attention in others. */
#define MNEM__LIST_LFM2                                                                            \
    MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__IN(CONV, CONV_IN), MNEM__IN(CONV, CONV),     \
        MNEM__IN(CONV, CONV_OUT), MNEM__IN(ATTENTION, Q), MNEM__IN(ATTENTION, K),                  \
        MNEM__IN(ATTENTION, V), MNEM__IN(ATTENTION, Q_NORM), MNEM__IN(ATTENTION, K_NORM),          \
        MNEM__IN(ATTENTION, O), MNEM__HAS(FFN_NORM)
#define MNEM__LIKE_LFM2                                                                            \
    MNEM__LIKE_LLAMA, .turn = MNEM__TURN_HALVES,                                                   \
                      .tensors = {MNEM__LIST_LFM2, MNEM__LIST_GATED, MNEM__HAS(EMBED_NORM),        \
                                  MNEM__MAY_HAVE(OUTPUT, OUTPUT)},                                 \
                      .parts = {{.layers = MNEM__LAYERS_CONV,                                      \
                                 .norm = MNEM__ROLE_ATTN_NORM,                                     \
                                 .in = {MNEM__ROLE_CONV_IN},                                       \
                                 .core = MNEM_OP_SHORT_CONV,                                       \
                                 .weight = MNEM__ROLE_CONV,                                        \
                                 .out = MNEM__ROLE_CONV_OUT},                                      \
                                {.layers = MNEM__LAYERS_ATTENTION,                                 \
                                 .norm = MNEM__ROLE_ATTN_NORM,                                     \
                                 .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},                 \
                                 .core = MNEM_OP_ATTENTION,                                        \
                                 .q_norm = MNEM__ROLE_Q_NORM,                                      \
                                 .k_norm = MNEM__ROLE_K_NORM,                                      \
                                 .out = MNEM__ROLE_O},                                             \
                                {.norm = MNEM__ROLE_FFN_NORM,                                      \
                                 .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},                           \
                                 .core = MNEM_OP_SILU_MUL,                                         \
                                 .out = MNEM__ROLE_DOWN}},                                         \
                      .last_norm = MNEM__ROLE_EMBED_NORM, .takes = MNEM__TAKES_CONV,               \
                      .fixed_heads = true

/* A feed-forward with experts, whose weights add up to 1, and a shared expert with its own gate. */
#define MNEM__LIST_QWEN35MOE                                                                       \
    MNEM__LIST_ATTENTION, MNEM__HAS(ATTN_POST_NORM), MNEM__LIST_EXPERTS, MNEM__LIST_SHARED,        \
        MNEM__HAS(SHARED_GATE), MNEM__LIST_END
#define MNEM__LIKE_QWEN35MOE                                                                       \
    MNEM__LIKE_QWEN35,                                                                             \
        .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_DELTA,                  \
                    MNEM__LIST_QWEN35MOE},                                                         \
        .parts[2] = MNEM__MIXTURE, .parts[2].norm = MNEM__ROLE_ATTN_POST_NORM,                     \
        .parts[2].shared_in = MNEM__SHARED_IN, .parts[2].shared_out = MNEM__ROLE_DOWN_SHARED,      \
        .parts[2].shared_gate = MNEM__ROLE_SHARED_GATE, .normalized_weights = true,                \
        .takes = MNEM__TAKES_STATES | MNEM__TAKES_SECTIONS | MNEM__TAKES_EXPERTS

/* Gated delta nets in most layers, attention with an output gate in the others. */
#define MNEM__LIST_STATE                                                                           \
    MNEM__IN(RECURRENT, STATE_CONV), MNEM__IN(RECURRENT, STATE_A),                                 \
        MNEM__IN(RECURRENT, STATE_DT_BIAS), MNEM__IN(RECURRENT, STATE_NORM),                       \
        MNEM__IN(RECURRENT, STATE_OUT)
#define MNEM__LIST_DELTA                                                                           \
    MNEM__IN(RECURRENT, QKV), MNEM__IN(RECURRENT, STATE_GATE), MNEM__IN(RECURRENT, BETA),          \
        MNEM__IN(RECURRENT, ALPHA), MNEM__LIST_STATE
#define MNEM__LIST_ATTENTION                                                                       \
    MNEM__IN(ATTENTION, Q), MNEM__IN(ATTENTION, K), MNEM__IN(ATTENTION, V),                        \
        MNEM__IN(ATTENTION, Q_NORM), MNEM__IN(ATTENTION, K_NORM), MNEM__IN(ATTENTION, O)
#define MNEM__LIKE_QWEN35                                                                          \
    MNEM__LIKE_LLAMA,                                                                              \
        .turn = MNEM__TURN_HALVES,                                                                 \
        .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM),      MNEM__LIST_DELTA,             \
                    MNEM__LIST_ATTENTION, MNEM__HAS(ATTN_POST_NORM), MNEM__LIST_GATED,             \
                    MNEM__LIST_END},                                                               \
        .parts = {{.layers = MNEM__LAYERS_RECURRENT,                                               \
                   .norm = MNEM__ROLE_ATTN_NORM,                                                   \
                   .in = {MNEM__ROLE_QKV, MNEM__ROLE_STATE_GATE, MNEM__ROLE_BETA,                  \
                          MNEM__ROLE_ALPHA},                                                       \
                   .core = MNEM_OP_DELTA,                                                          \
                   .weight = MNEM__ROLE_STATE_CONV,                                                \
                   .a = MNEM__ROLE_STATE_A,                                                        \
                   .dt_bias = MNEM__ROLE_STATE_DT_BIAS,                                            \
                   .state_norm = MNEM__ROLE_STATE_NORM,                                            \
                   .out = MNEM__ROLE_STATE_OUT},                                                   \
                  {.layers = MNEM__LAYERS_ATTENTION,                                               \
                   .norm = MNEM__ROLE_ATTN_NORM,                                                   \
                   .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},                               \
                   .core = MNEM_OP_ATTENTION,                                                      \
                   .q_norm = MNEM__ROLE_Q_NORM,                                                    \
                   .k_norm = MNEM__ROLE_K_NORM,                                                    \
                   .out = MNEM__ROLE_O},                                                           \
                  {.norm = MNEM__ROLE_ATTN_POST_NORM,                                              \
                   .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},                                         \
                   .core = MNEM_OP_SILU_MUL,                                                       \
                   .out = MNEM__ROLE_DOWN}},                                                       \
        .output_gate = true, .state_tiled = true,                                                  \
        .takes = MNEM__TAKES_STATES | MNEM__TAKES_SECTIONS

/* Narrow values, windows with a sink in each head, dense layers first, then experts. */
#define MNEM__LIST_MIMO2                                                                           \
    MNEM__IN(WINDOWED, SINKS), MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING,              \
        MNEM__LIST_LATER, MNEM__LIST_END
#define MNEM__LIKE_MIMO2                                                                           \
    MNEM__LIKE_LLAMA,                                                                              \
        .turn = MNEM__TURN_HALVES,                                                                 \
        .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_MIMO2}, \
        MNEM__LATER_MIXTURE, .parts[0].sinks = MNEM__ROLE_SINKS, .sigmoid_weights = true,          \
        .normalized_weights = true,                                                                \
        .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_KINDS | MNEM__TAKES_NARROW_VALUES

/* Granite with windows, a sink in each head, and layers that turn no heads. */
#define MNEM__LIST_GRANITE_SWA                                                                     \
    MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__LIST_QKV_MAY_HAVE_BIAS,      \
        MNEM__HAS(SINKS), MNEM__HAS(O), MNEM__MAY_HAVE(O_BIAS, OUT_BIAS), MNEM__HAS(FFN_NORM)
#define MNEM__LIST_GRANITE_SWA_END MNEM__LIST_END, MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)
#define MNEM__LIKE_GRANITE_SWA                                                                     \
    MNEM__LIKE_LLAMA,                                                                              \
        .tensors = {MNEM__LIST_GRANITE_SWA, MNEM__LIST_GATED, MNEM__LIST_GRANITE_SWA_END},         \
        .parts[0].sinks = MNEM__ROLE_SINKS, .windows_behind = 4,                                   \
        .takes = MNEM__TAKES_SCALES | MNEM__TAKES_TURNS

/* The same with experts whose gates and ups are one matrix. */
#define MNEM__LIST_GRANITE_SWA_MOE                                                                 \
    MNEM__LIST_GRANITE_SWA, MNEM__HAS(ROUTER), MNEM__HAS(GATE_UP_EXPERTS), MNEM__HAS(DOWN_EXPERTS)
#define MNEM__LIKE_GRANITE_SWA_MOE                                                                 \
    MNEM__LIKE_GRANITE_SWA, .tensors = {MNEM__LIST_GRANITE_SWA_MOE, MNEM__LIST_GRANITE_SWA_END},   \
                            .parts[1] = MNEM__MIXTURE,                                             \
                            .parts[1].in = {MNEM__ROLE_GATE_UP_EXPERTS},                           \
                            .normalized_weights = true,                                            \
                            .takes = MNEM__TAKES_SCALES | MNEM__TAKES_TURNS | MNEM__TAKES_EXPERTS

/* Only a selective scan in each layer. */
#define MNEM__LIKE_MAMBA2                                                                          \
    .epsilon_key = "attention.layer_norm_rms_epsilon", .norm = MNEM_OP_RMS_NORM,                   \
    .takes = MNEM__TAKES_STATES, .tensors = {MNEM__HAS(EMBEDDING),                                 \
                                             MNEM__HAS(ATTN_NORM),                                 \
                                             MNEM__HAS(STATE_IN),                                  \
                                             MNEM__HAS(STATE_CONV),                                \
                                             MNEM__HAS(STATE_CONV_BIAS),                           \
                                             MNEM__HAS(STATE_DT_BIAS),                             \
                                             MNEM__HAS(STATE_A),                                   \
                                             MNEM__HAS(STATE_SKIP),                                \
                                             MNEM__HAS(STATE_NORM),                                \
                                             MNEM__HAS(STATE_OUT),                                 \
                                             MNEM__LIST_END},                                      \
    .parts = {{.norm = MNEM__ROLE_ATTN_NORM,                                                       \
               .in = {MNEM__ROLE_STATE_IN},                                                        \
               .core = MNEM_OP_SCAN,                                                               \
               .weight = MNEM__ROLE_STATE_CONV,                                                    \
               .conv_bias = MNEM__ROLE_STATE_CONV_BIAS,                                            \
               .a = MNEM__ROLE_STATE_A,                                                            \
               .skip = MNEM__ROLE_STATE_SKIP,                                                      \
               .dt_bias = MNEM__ROLE_STATE_DT_BIAS,                                                \
               .state_norm = MNEM__ROLE_STATE_NORM,                                                \
               .out = MNEM__ROLE_STATE_OUT}}

/* Scans of Mamba 2 in most layers, attention without positions in others; a feed-forward in all. */
#define MNEM__LIST_SCAN                                                                            \
    MNEM__IN(RECURRENT, STATE_IN), MNEM__IN(RECURRENT, STATE_CONV),                                \
        MNEM__IN(RECURRENT, STATE_CONV_BIAS), MNEM__IN(RECURRENT, STATE_DT_BIAS),                  \
        MNEM__IN(RECURRENT, STATE_A), MNEM__IN(RECURRENT, STATE_SKIP),                             \
        MNEM__IN(RECURRENT, STATE_NORM), MNEM__IN(RECURRENT, STATE_OUT)
#define MNEM__LIST_GRANITEHYBRID                                                                   \
    MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_SCAN, MNEM__IN(ATTENTION, Q),           \
        MNEM__IN(ATTENTION, K), MNEM__IN(ATTENTION, V), MNEM__IN(ATTENTION, O),                    \
        MNEM__HAS(FFN_NORM)
#define MNEM__LIKE_GRANITEHYBRID                                                                   \
    MNEM__LIKE_MAMBA2, .tensors = {MNEM__LIST_GRANITEHYBRID, MNEM__LIST_GATED, MNEM__LIST_END},    \
                       .takes = MNEM__TAKES_STATES | MNEM__TAKES_LAYER_HEADS | MNEM__TAKES_SCALES, \
                       .parts[0].layers = MNEM__LAYERS_RECURRENT,                                  \
                       .parts[1] = {.layers = MNEM__LAYERS_ATTENTION,                              \
                                    .norm = MNEM__ROLE_ATTN_NORM,                                  \
                                    .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},              \
                                    .core = MNEM_OP_ATTENTION,                                     \
                                    .out = MNEM__ROLE_O},                                          \
                       .parts[2] = {.norm = MNEM__ROLE_FFN_NORM,                                   \
                                    .in = {MNEM__ROLE_GATE, MNEM__ROLE_UP},                        \
                                    .core = MNEM_OP_SILU_MUL,                                      \
                                    .out = MNEM__ROLE_DOWN}

/* Layers of one part each: a scan of Mamba 2, attention without positions, a feed-forward. */
#define MNEM__LIST_NEMOTRON_H                                                                      \
    MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_SCAN, MNEM__IN(ATTENTION, Q),           \
        MNEM__IN(ATTENTION, K), MNEM__IN(ATTENTION, V), MNEM__IN(ATTENTION, O)
#define MNEM__LIKE_NEMOTRON_H                                                                      \
    MNEM__LIKE_MAMBA2,                                                                             \
        .epsilon_else = "attention.layer_norm_epsilon",                                            \
        .tensors = {MNEM__LIST_NEMOTRON_H, MNEM__IN(FEEDING, UP), MNEM__IN(FEEDING, DOWN),         \
                    MNEM__LIST_END},                                                               \
        .takes = MNEM__TAKES_STATES | MNEM__TAKES_LAYER_HEADS | MNEM__TAKES_LAYER_FF,              \
        .parts[0].layers = MNEM__LAYERS_RECURRENT,                                                 \
        .parts[1] = {.layers = MNEM__LAYERS_ATTENTION,                                             \
                     .norm = MNEM__ROLE_ATTN_NORM,                                                 \
                     .in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},                             \
                     .core = MNEM_OP_ATTENTION,                                                    \
                     .out = MNEM__ROLE_O},                                                         \
        .parts[2] = {.layers = MNEM__LAYERS_FEEDING,                                               \
                     .norm = MNEM__ROLE_ATTN_NORM,                                                 \
                     .in = {MNEM__ROLE_UP},                                                        \
                     .core = MNEM_OP_RELU_SQUARED,                                                 \
                     .out = MNEM__ROLE_DOWN}

/* The same with experts without gates, and a shared expert. */
#define MNEM__LIST_NEMOTRON_H_SHARED MNEM__IN(FEEDING, UP_SHARED), MNEM__IN(FEEDING, DOWN_SHARED)
#define MNEM__LIST_NEMOTRON_H_ROUTE                                                                \
    MNEM__IN(FEEDING, ROUTER), {                                                                   \
        MNEM__ROLE_CHOICE_BIAS, MNEM__OPTION_CHOICE_BIAS, MNEM__LAYERS_FEEDING                     \
    }
#define MNEM__LIKE_NEMOTRON_H_MOE                                                                  \
    MNEM__LIKE_NEMOTRON_H,                                                                         \
        .takes = MNEM__TAKES_STATES | MNEM__TAKES_LAYER_HEADS | MNEM__TAKES_LAYER_FF |             \
                 MNEM__TAKES_EXPERTS,                                                              \
        .parts[2] = {.layers = MNEM__LAYERS_FEEDING,                                               \
                     .norm = MNEM__ROLE_ATTN_NORM,                                                 \
                     .router = MNEM__ROLE_ROUTER,                                                  \
                     .choice_bias = MNEM__ROLE_CHOICE_BIAS,                                        \
                     .in = {MNEM__ROLE_UP_EXPERTS},                                                \
                     .core = MNEM_OP_RELU_SQUARED,                                                 \
                     .out = MNEM__ROLE_DOWN_EXPERTS,                                               \
                     .shared_in = {MNEM__ROLE_UP_SHARED},                                          \
                     .shared_out = MNEM__ROLE_DOWN_SHARED},                                        \
        .normalized_weights = true, .sigmoid_weights = true

/* An encoder: x is normalized after each addition. */
#define MNEM__LIKE_BERT                                                                            \
    .epsilon_key = "attention.layer_norm_epsilon", .norm = MNEM_OP_LAYER_NORM, .encoder = true,    \
    .fixed_heads = true,                                                                           \
    .parts = {{.in = {MNEM__ROLE_Q, MNEM__ROLE_K, MNEM__ROLE_V},                                   \
               .core = MNEM_OP_ATTENTION,                                                          \
               .out = MNEM__ROLE_O,                                                                \
               .sum_norm = MNEM__ROLE_ATTN_SUM_NORM},                                              \
              {.in = {MNEM__ROLE_UP},                                                              \
               .core = MNEM_OP_GELU_ERF,                                                           \
               .out = MNEM__ROLE_DOWN,                                                             \
               .sum_norm = MNEM__ROLE_FFN_SUM_NORM}}

/* Attention through a latent; dense layers first, then experts and shared experts. */
#define MNEM__LIST_DEEPSEEK2_LATER                                                                 \
    MNEM__HAS(K_B), MNEM__HAS(V_B), MNEM__HAS(O), MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING,         \
        MNEM__LIST_LATER, MNEM__LIST_LATER_SHARED, MNEM__LIST_END
#define MNEM__LIKE_DEEPSEEK2                                                                       \
    MNEM__LIKE_LLAMA,                                                                              \
        .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM),      MNEM__HAS(Q),                 \
                    MNEM__HAS(KV_LATENT), MNEM__HAS(KV_LATENT_NORM), MNEM__LIST_DEEPSEEK2_LATER},  \
        .takes = MNEM__TAKES_LATENT | MNEM__TAKES_EXPERTS,                                         \
        .parts[0].in = {MNEM__ROLE_Q, MNEM__ROLE_KV_LATENT},                                       \
        .parts[0].kv_norm = MNEM__ROLE_KV_LATENT_NORM, .parts[0].k_b = MNEM__ROLE_K_B,             \
        .parts[0].v_b = MNEM__ROLE_V_B, MNEM__LATER_MIXTURE_SHARED

/* The same, with queries through another latent. */
#define MNEM__LIKE_DEEPSEEK2_LARGE                                                                 \
    MNEM__LIKE_DEEPSEEK2,                                                                          \
        .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM),      MNEM__HAS(Q_LATENT),          \
                    MNEM__HAS(KV_LATENT), MNEM__HAS(Q_LATENT_NORM),  MNEM__HAS(KV_LATENT_NORM),    \
                    MNEM__HAS(Q_B),       MNEM__LIST_DEEPSEEK2_LATER},                             \
        .parts[0].in = {MNEM__ROLE_Q_LATENT, MNEM__ROLE_KV_LATENT},                                \
        .parts[0].q_norm = MNEM__ROLE_Q_LATENT_NORM, .parts[0].q_b = MNEM__ROLE_Q_B

/* Attention to positions that an indexer chooses, in layers with one. */
#define MNEM__LIKE_DEEPSEEK32                                                                      \
    MNEM__LIKE_DEEPSEEK2_LARGE,                                                                    \
        .tensors = {MNEM__HAS(EMBEDDING),          MNEM__HAS(ATTN_NORM),                           \
                    MNEM__HAS(Q_LATENT),           MNEM__HAS(KV_LATENT),                           \
                    MNEM__IN(INDEXED, INDEX_K),    MNEM__IN(INDEXED, INDEX_WEIGHT),                \
                    MNEM__IN(INDEXED, INDEX_NORM), MNEM__IN(INDEXED, INDEX_NORM_BIAS),             \
                    MNEM__HAS(Q_LATENT_NORM),      MNEM__HAS(KV_LATENT_NORM),                      \
                    MNEM__IN(INDEXED, INDEX_Q),    MNEM__HAS(Q_B),                                 \
                    MNEM__LIST_DEEPSEEK2_LATER},                                                   \
        .parts[0].index_k = MNEM__ROLE_INDEX_K, .parts[0].index_weight = MNEM__ROLE_INDEX_WEIGHT,  \
        .parts[0].index_q = MNEM__ROLE_INDEX_Q, .parts[0].index_norm = MNEM__ROLE_INDEX_NORM,      \
        .sigmoid_weights = true,                                                                   \
        .takes = MNEM__TAKES_LATENT | MNEM__TAKES_EXPERTS | MNEM__TAKES_INDEXER

#endif
