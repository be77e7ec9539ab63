/* prune_private.h: shared by the files of pruning, in the order of their work:
 *
 *     prune_sizes.c   options ──► the numbers of heads, channels and layers that stay; refusals
 *     prune_layers.c  ──► the layers that stay
 *     prune_score.c   weights ──► the heads and channels that stay
 *     prune_cut.c     these   ──► rows, columns, name and type of each tensor
 *     prune_keys.c    keys of the new file
 *     prune.c         rows from file to file */
#ifndef MNEM_SRC_MODEL_PRUNE_PRUNE_PRIVATE_H
#define MNEM_SRC_MODEL_PRUNE_PRUNE_PRIVATE_H

#include "mnem/prune.h"
#include "model/architecture/architecture.h"
#include "model/convert/quantize.h"

/* The heads, channels and layers that stay. Lists are ascending. */
typedef struct mnem__prune_choice {
    const mnem_model *model;
    const mnem_prune_options *options;
    const mnem__architecture *architecture;
    const mnem__recipe *recipe; /* NULL: types stay */
    mnem_transformer from, to;
    int32_t layers[MNEM_LAYERS_MAX]; /* [to.layers] of the source */
    int32_t *groups;                 /* [from.layers, to.kv_heads]; NULL: all */
    int32_t *channels;               /* [from.layers, to.ff]; NULL: all */
} mnem__prune_choice;

/* Sets all fields but the lists. */
mnem_status mnem__prune_sizes(mnem__prune_choice *choice);
/* Sets layers; reads the matrices unless the options choose them. */
mnem_status mnem__prune_layers(mnem__prune_choice *choice);
/* Estimates the mean square of each layer's addition to x, for isotropic inputs. */
mnem_status mnem__prune_weigh_layers(const mnem__prune_choice *choice, double *squares);
/* Whether the layer of the source stays. *to: its new number. */
bool mnem__prune_layer(const mnem__prune_choice *choice, int32_t layer, int32_t *to);
/* Sets groups and channels, by reading the matrices. */
mnem_status mnem__prune_choose(mnem__prune_choice *choice);
void mnem__prune_choice_free(mnem__prune_choice *choice);

/* The sums of squares of a matrix's inputs [matrices, k] (several matrices: experts); NULL with
 * MNEM_OK: no imatrix. */
mnem_status mnem__prune_squares(const mnem__prune_choice *choice, const mnem_tensor_info *tensor,
                                const float **squares);

/* Gives rows [first, first + rows) of a masked tensor of the source in their new type, if it has
 * them: with two zeros of every four. */
typedef struct mnem__prune_giver {
    mnem_status (*give)(void *context, uint32_t tensor, int64_t first, int64_t rows, uint8_t *out,
                        bool *given);
    void *context;
} mnem__prune_giver;
/* mnem_prune_file for an open model; giver may be NULL. */
mnem_status mnem__prune_run(const mnem_model *model, const char *to,
                            const mnem_prune_options *options, const mnem__prune_giver *giver);
/* The new types of all tensors: types [tensors]. As mnem_prune_measure. */
mnem_status mnem__prune_types(const mnem_model *model, const mnem_prune_options *options,
                              mnem_type *types);

/* ---- a tensor ---- */

typedef struct mnem__prune_cut {
    mnem_tensor_info tensor;
    bool dropped; /* dropped with its layer; other fields aren't set */
    bool masked;  /* 2:4 */
    int32_t layer;
    mnem__width row_width, column_width; /* the lists that apply to rows and columns */
    char name[1024];                     /* in the new file */
    mnem_type to;
    int64_t shape[4];
    int64_t rows, k, rows_to, k_to;
    bool compact; /* written without its zeros, as an I8 tensor of this shape */
    int64_t compact_shape[2];
} mnem__prune_cut;

/* Needs only the sizes. */
mnem_status mnem__prune_cut_get(const mnem__prune_choice *choice, uint32_t index,
                                mnem__prune_cut *cut);
/* The bytes in the new file. */
uint64_t mnem__prune_cut_bytes(const mnem__prune_cut *cut);
/* The list [kept] of a width in that layer; false: all stay. */
bool mnem__prune_list(const mnem__prune_choice *choice, mnem__width width, int32_t layer,
                      int32_t *list);
/* The number of n that stay. */
int64_t mnem__prune_kept(const mnem__prune_choice *choice, mnem__width width, int64_t n);

/* ---- keys ---- */

mnem_status mnem__prune_keys(const mnem__prune_choice *choice, mnem_gguf_writer *writer);

#endif
