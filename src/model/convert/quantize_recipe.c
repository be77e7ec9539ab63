/* quantize_recipe.c: which type each tensor of a quantized file gets.
 *
 * The mixes are those that files in circulation use, so that sizes and qualities can be compared:
 * the output matrix gets 6 bits in files of 2 to 4 bits; in Q4_K_M the values and the down
 * projections of some layers do, because errors there weigh most, and values that share a matrix
 * with queries and keys get 5. Q3_K_M and Q2_K do likewise with fewer bits; Q3_K_L gives values,
 * down projections and what attention gives 5 bits in every layer, Q3_K_S (which is Q3_K) nothing.
 */
#include <stdio.h>
#include <strings.h>

#include "base/error.h"
#include "model/architecture/roles.h"
#include "model/convert/quantize.h"

/* One type for all matrices. */
#define PLAIN(name, file_type)                                                                     \
    {                                                                                              \
#name, file_type, MNEM_TYPE_##name, MNEM_TYPE_##name, MNEM_TYPE_##name, MNEM_TYPE_##name,  \
            MNEM_TYPE_##name, false                                                                \
    }

/* One type for all matrices but the output's, whose errors meet every token. */
#define BUT_OUTPUT(label, name, file_type, output)                                                 \
    {                                                                                              \
        label, file_type, MNEM_TYPE_##name, output, MNEM_TYPE_##name, MNEM_TYPE_##name,            \
            MNEM_TYPE_##name, false                                                                \
    }

/* A mix with these types of its layers' matrices; the output matrix has 6 bits. */
#define MIX(label, file_type, matrices, better, fused, attention_out, always)                      \
    {                                                                                              \
        label, file_type, MNEM_TYPE_##matrices, MNEM_TYPE_Q6_K, MNEM_TYPE_##better,                \
            MNEM_TYPE_##fused, MNEM_TYPE_##attention_out, always                                   \
    }

/* Plain ones of Q4_K and Q5_K have the numbers of llama.cpp's small mixes, which are nearest. */
static const mnem__recipe recipes[] = {
    PLAIN(F32, 0),
    PLAIN(F16, 1),
    PLAIN(BF16, 32),
    PLAIN(Q8_0, 7),
    BUT_OUTPUT("Q4_0", Q4_0, 2, MNEM_TYPE_Q6_K),
    PLAIN(Q4_1, 3),
    PLAIN(Q5_0, 8),
    PLAIN(Q5_1, 9),
    MIX("Q4_K_M", 15, Q4_K, Q6_K, Q5_K, Q4_K, false),
    PLAIN(Q4_K, 14),
    PLAIN(Q5_K, 16),
    PLAIN(Q6_K, 18),
    MIX("Q2_K", 10, Q2_K, Q4_K, Q3_K, Q2_K, false),
    BUT_OUTPUT("Q3_K", Q3_K, 11, MNEM_TYPE_Q6_K),
    BUT_OUTPUT("Q3_K_S", Q3_K, 11, MNEM_TYPE_Q6_K),
    MIX("Q3_K_M", 12, Q3_K, Q5_K, Q4_K, Q3_K, false),
    MIX("Q3_K_L", 13, Q3_K, Q5_K, Q4_K, Q5_K, true),
    BUT_OUTPUT("IQ4_NL", IQ4_NL, 25, MNEM_TYPE_Q6_K),
    BUT_OUTPUT("IQ4_XS", IQ4_XS, 30, MNEM_TYPE_Q6_K),
    BUT_OUTPUT("MXFP4", MXFP4, 38, MNEM_TYPE_Q8_0),
};

mnem_status mnem__recipe_find(const char *what, const char *name, const mnem__recipe **recipe) {
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        *recipe = &recipes[i];
        if (strcasecmp(name, recipes[i].name) == 0) return MNEM_OK;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 recipes[i].name);
    }
    *recipe = NULL;
    return mnem__fail(MNEM_INVALID, "%s: type \"%.32s\" is unknown; there are: %s", what, name,
                      names);
}

bool mnem__recipe_is_mix(const mnem__recipe *recipe) {
    return recipe->better != recipe->matrices || recipe->fused != recipe->matrices;
}

/* Is this layer in the first or last eighth, or every third between? */
static bool matters(int32_t layer, int32_t layers) {
    int32_t eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

static mnem_type wanted_type(const mnem__recipe *recipe, const mnem_transformer *t,
                             const char *name) {
    int32_t layer;
    const mnem__role role = mnem__role_find(name, &layer);
    if (role == (t->tied ? MNEM__ROLE_EMBEDDING : MNEM__ROLE_OUTPUT)) return recipe->output;
    if (role == MNEM__ROLE_O) return recipe->attention_out;
    switch (mnem__role_get(role)->precision) {
    case MNEM__PRECISION_HALF:
        return mnem_type_get(recipe->matrices)->block_elements == 1 ? recipe->matrices
                                                                    : MNEM_TYPE_F16;
    case MNEM__PRECISION_WHOLE: return MNEM_TYPE_F32;
    case MNEM__PRECISION_FUSED: return recipe->fused;
    case MNEM__PRECISION_BETTER:
        return recipe->better_always || matters(layer, t->layers) ? recipe->better
                                                                  : recipe->matrices;
    case MNEM__PRECISION_USUAL: break;
    }
    return recipe->matrices;
}

/* The type of blocks of 32 that is no coarser. */
static mnem_type in_small_blocks(mnem_type type) {
    switch (type) {
    case MNEM_TYPE_Q2_K:
    case MNEM_TYPE_Q3_K:
    case MNEM_TYPE_IQ4_XS: return MNEM_TYPE_IQ4_NL;
    case MNEM_TYPE_Q4_K: return MNEM_TYPE_Q5_0;
    case MNEM_TYPE_Q5_K: return MNEM_TYPE_Q5_1;
    case MNEM_TYPE_Q6_K: return MNEM_TYPE_Q8_0;
    default: return type;
    }
}

mnem_type mnem__recipe_fitting(mnem_type type, int64_t k) {
    if (mnem_type_row_bytes(type, k)) return type;
    type = in_small_blocks(type);
    return mnem_type_row_bytes(type, k) ? type : MNEM_TYPE_F16;
}

bool mnem__recipe_is_matrix(const mnem_tensor_info *tensor) {
    int32_t layer;
    const mnem__role role = mnem__role_find(tensor->name, &layer);
    return tensor->dims > 1 && (!role || mnem__role_is_matrix(role));
}

mnem_type mnem__recipe_type(const mnem__recipe *recipe, const mnem_transformer *t,
                            const mnem_tensor_info *tensor) {
    if (!mnem__recipe_is_matrix(tensor)) return MNEM_TYPE_F32;
    return mnem__recipe_fitting(wanted_type(recipe, t, tensor->name),
                                tensor->shape[tensor->dims - 1]);
}

uint32_t mnem__recipe_file_type(mnem_type matrices) {
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        if (recipes[i].matrices == matrices && !mnem__recipe_is_mix(&recipes[i]))
            return recipes[i].file_type;
    return 1;
}
