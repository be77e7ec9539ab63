/* quantize.h: names of types, and which type a tensor gets. */
#ifndef MNEM_SRC_MODEL_CONVERT_QUANTIZE_H
#define MNEM_SRC_MODEL_CONVERT_QUANTIZE_H

#include "mnem/model.h"

/* What a file is made of. */
typedef struct mnem__recipe {
    const char *name;   /* "Q4_K_M" */
    uint32_t file_type; /* general.file_type */
    mnem_type matrices;
    mnem_type output; /* of the output matrix, or the embedding when tied */
    mnem_type better; /* of the matrices that matter most: see mnem__recipe_type */
    mnem_type fused;  /* of q, k and v in one */
    mnem_type attention_out;
    bool better_always; /* in every layer */
} mnem__recipe;

/* By name, any case: a mix of types, or a type for all matrices. MNEM_INVALID lists the names;
 * what: who asks. */
mnem_status mnem__recipe_find(const char *what, const char *name, const mnem__recipe **recipe);
/* Does the type depend on more than that the tensor is a layer's matrix? */
bool mnem__recipe_is_mix(const mnem__recipe *recipe);

/* The type for one tensor of a model. Vectors stay F32. attn_v and ffn_down get recipe.better in
 * the first and the last eighth of the layers and in every third between, or always. A table of
 * positions gets F16 (F32 where all do): it is small, and added to everything. Rows that aren't
 * whole blocks get the next type that fits: Q2_K, Q3_K and IQ4_XS to IQ4_NL, Q4_K to Q5_0, Q5_K to
 * Q5_1, Q6_K to Q8_0, any to F16. */
mnem_type mnem__recipe_type(const mnem__recipe *recipe, const mnem_transformer *transformer,
                            const mnem_tensor_info *tensor);

typedef struct mnem__quantize_job {
    const mnem_model *model;
    const mnem__recipe *recipe;
    bool (*stays_f32)(const char *name, int dims); /* whatever the recipe says; NULL: none */
    const char *what, *doing;                      /* "quantize", "quantizing": who asks */
} mnem__quantize_job;
/* Writes an open model. */
mnem_status mnem__quantize_run(const mnem__quantize_job *job, const char *to,
                               const mnem_quantize_options *options);

#endif
