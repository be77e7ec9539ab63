/* gguf_recipe.h: a tiny transformer written through the public writer, with one thing changed. */
#ifndef MNEM_TESTS_MODEL_GGUF_RECIPE_H
#define MNEM_TESTS_MODEL_GGUF_RECIPE_H

#include "mnem/model.h"

/* llama: 2 layers, 64 wide, 4 heads of 16, 2 KV heads, ffn 96, 40 tokens, context 128, all F32.
 * gpt2: the same with q, k and v in one and positions for the context. Zero means unchanged. */
typedef struct recipe {
    const char *architecture;
    const char *omit; /* a key without its prefix, or a tensor */
    const char *key;  /* a key (without its prefix when it begins with a dot) to set */
    mnem_value value;
    const char *tensor; /* one to declare otherwise, or to add */
    mnem_type type;
    int dims;
    int64_t shape[4];
    bool tied, biases, qk_norm, out_bias;
    float fill;       /* every weight; 0: small pseudo-random numbers */
    int32_t embd, ff; /* other widths (multiples of 4) */
    uint32_t window;  /* of attention */
} recipe;

/* Writes it to path; fails the test when that fails. */
void recipe_write(const recipe *r, const char *path);

mnem_value recipe_u32(uint32_t number);
mnem_value recipe_f32(float number);
mnem_value recipe_text(const char *text);

#endif
