/* quantize.h: recipes of quantization, and the type of each tensor. */
#ifndef MNEM_SRC_MODEL_CONVERT_QUANTIZE_H
#define MNEM_SRC_MODEL_CONVERT_QUANTIZE_H

#include "mnem/model.h"

/* The types of a file's tensors. */
typedef struct mnem__recipe {
    const char *name;   /* "Q4_K_M" */
    uint32_t file_type; /* general.file_type */
    mnem_type matrices;
    mnem_type output; /* of the output matrix, or the embedding when tied */
    mnem_type better; /* of the most important matrices: see mnem__recipe_type */
    mnem_type fused;  /* of q, k and v in one matrix */
    mnem_type attention_out;
    bool better_always; /* in every layer */
} mnem__recipe;

/* Finds a recipe by name, ignoring case: a mix of types, or a type for all matrices.
 * MNEM_INVALID lists the names; what: the caller, for the text. */
mnem_status mnem__recipe_find(const char *what, const char *name, const mnem__recipe **recipe);
/* Whether layers' matrices have different types. */
bool mnem__recipe_is_mix(const mnem__recipe *recipe);

/* The type for one tensor of a model. Vectors stay F32. attn_v and ffn_down get recipe.better in
 * the first and the last eighth of the layers and in every third between, or always. A table of
 * positions gets F16 (F32 if all matrices do): it is small, and added to all rows. Rows that aren't
 * whole blocks get the next type that fits: Q2_K, Q3_K and IQ4_XS to IQ4_NL, Q4_K to Q5_0, Q5_K to
 * Q5_1, Q6_K to Q8_0, any to F16. */
mnem_type mnem__recipe_type(const mnem__recipe *recipe, const mnem_transformer *transformer,
                            const mnem_tensor_info *tensor);

/* The type, or the next one that fits rows of k, as above. */
mnem_type mnem__recipe_fitting(mnem_type type, int64_t k);
/* Whether it is a matrix, not a vector or a norm. */
bool mnem__recipe_is_matrix(const mnem_tensor_info *tensor);
/* general.file_type of a file with mostly this type; 1 (F16): there is none for it. */
uint32_t mnem__recipe_file_type(mnem_type matrices);

typedef struct mnem__quantize_job {
    const mnem_model *model;
    const mnem__recipe *recipe;
    /* false: the recipe chooses the type; NULL: it does for all. */
    bool (*stays)(const mnem_tensor_info *tensor, mnem_type *type);
    uint32_t file_type;       /* 0: the recipe's */
    const char *what, *doing; /* "quantize", "quantizing": for texts */
    /* NULL, or gives rows [first, first + rows) of a tensor in its new type, if it has them. */
    mnem_status (*give)(void *context, uint32_t tensor, int64_t first, int64_t rows, uint8_t *out,
                        bool *given);
    /* NULL, or adds to the report of a tensor. */
    void (*tell)(void *context, uint32_t tensor, mnem_quantize_report *report);
    void *give_context; /* of both */
    /* NULL, or called with all buffers taken, before the file is begun; may refuse. */
    mnem_status (*ready)(void *context, int32_t threads);
    void *ready_context;
} mnem__quantize_job;
/* The recipe of the options' type or target. */
mnem_status mnem__quantize_recipe(const mnem_quantize_options *options,
                                  const mnem__recipe **recipe);
/* Writes an open model. */
mnem_status mnem__quantize_run(const mnem__quantize_job *job, const char *to,
                               const mnem_quantize_options *options);

#endif
