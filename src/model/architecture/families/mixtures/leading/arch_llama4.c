/* arch_llama4.c: the text of Llama 4: three layers of four see chunks of the text, the fourth sees
 * all of it and turns no heads, but cools its scores; the last of every so many layers has experts,
 * whose weights multiply what they read, and one that every token uses. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_llama4 = {
    MNEM__LIKE_LLAMA,
    .names = {"llama4"},
    .tensors = {MNEM__HAS(EMBEDDING), MNEM__HAS(ATTN_NORM), MNEM__LIST_QKV, MNEM__HAS(O),
                MNEM__HAS(FFN_NORM), MNEM__LIST_LEADING, MNEM__IN(LATER, ROUTER),
                MNEM__IN(LATER, GATE_EXPERTS), MNEM__IN(LATER, UP_EXPERTS),
                MNEM__IN(LATER, DOWN_EXPERTS), MNEM__LIST_LATER_SHARED, MNEM__LIST_END,
                MNEM__MAY_HAVE(ROPE_FACTORS, ROPE_FACTORS)},
    MNEM__LATER_MIXTURE_SHARED,
    .parts[2].choice_bias = MNEM__ROLE_NONE,
    .window = 8192,
    .windowed = MNEM__ALL_BUT_EVERY(4),
    .window_chunks = true,
    .unturned = MNEM__EVERY(4),
    .temperature = 0.1f,
    .temperature_every = 8192,
    .plain_heads_experts = 128,
    .sigmoid_weights = true,
    .weights_on_input = true,
    .takes = MNEM__TAKES_EXPERTS | MNEM__TAKES_INTERLEAVED | MNEM__TAKES_TEMPERATURE,
};
