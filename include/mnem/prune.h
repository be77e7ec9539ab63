/* mnem/prune.h: makes a model smaller: fewer heads, feed-forward channels or layers, or 2:4
 * sparsity.
 *
 * The result is an ordinary GGUF file, which any program opens that opens the original. Heads are
 * removed together with the others that share their keys and values, so that the ratio of the two
 * stays; every layer loses the same number. 2:4 writes zeros: at most two of every four
 * neighbouring weights of a row stay, with unchanged values. A matrix that is 2:4 already stays as
 * it is. With an imatrix, the weights with the smallest effect on its text are removed: |weight|
 * times the norm of the inputs of its column (Wanda: Sun et al. 2023; summed over a column that is
 * removed as a whole: An et al. 2023). Without an imatrix, all directions of inputs count as
 * equally strong; for 2:4 the smallest weights are removed then. Layers: those of least influence
 * are removed, as measured by the caller (ShortGPT: Men et al. 2024; mnem_influence) or estimated
 * from weights.
 * Not here: training after pruning, which is always advisable; measuring the loss of quality.
 *
 *     mnem_prune_options options = {.ffn = 0.25};
 *     mnem_prune_plan plan;
 *     if (mnem_prune_measure("model.gguf", &options, &plan) != MNEM_OK) puts(mnem_last_error());
 *     mnem_prune_file("model.gguf", "less.gguf", &options);
 */
#ifndef MNEM_PRUNE_H
#define MNEM_PRUNE_H

#include "mnem/imatrix.h"
#include "mnem/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mnem_prune_pattern {
    MNEM_PRUNE_DENSE,
    MNEM_PRUNE_2_4 /* of all matrices of layers but those that choose experts */
} mnem_prune_pattern;

typedef struct mnem_prune_plan {
    mnem_transformer from, to;
    uint64_t bytes_from, bytes_to;               /* of all tensors */
    uint8_t layers_removed[MNEM_LAYERS_MAX / 8]; /* bits: of the source */
    uint32_t requantized; /* tensors that were already quantized and are quantized again */
} mnem_prune_plan;

typedef struct mnem_prune_report {
    const char *tensor; /* as in the new file */
    uint32_t index, count;
    mnem_type from, to;
    uint64_t bytes_from, bytes_to;
    double relative_removed; /* root mean square of the removed over that of the old weights */
} mnem_prune_report;

typedef struct mnem_prune_options {
    /* Fractions to remove, 0 to below 1, of the heads and channels of each layer, and of the
     * layers. Removed parts are rounded to whole groups of heads, to layers, and so that the number
     * of channels left is a multiple of 32, or of 256 where there are 2048 or more (blocks of
     * types). */
    double heads, ffn, layers;
    mnem_prune_pattern pattern; /* alone */
    /* 2:4 without its zeros in the file, too, where types are Q4_0, Q8_0 or F16: for streaming.
     * Only mnem opens it; pruning it to 2:4 once more without this makes the ordinary file. */
    bool compact;
    /* As mnem_quantize_options says. NULL, "same": types stay. 2:4 wants types that have a zero:
     * F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q6_K, Q3_K and MXFP4. */
    const char *type;
    /* NULL: none. It must contain every matrix that the choice depends on. */
    const mnem_imatrix *imatrix;
    const double *influence; /* [layers]: the least go first. NULL: estimated from weights */
    int32_t threads; /* default: the processors this process may use; doesn't change a byte */
    mnem_progress progress;                                            /* bytes read */
    void (*on_plan)(void *context, const mnem_prune_plan *plan);       /* before it writes */
    void (*on_report)(void *context, const mnem_prune_report *report); /* a tensor is done */
    void *context;                                                     /* of both */
} mnem_prune_options;

/* Computes the result of pruning, without writing it. Reads the header, and matrices if layers are
 * removed without a given influence. MNEM_INVALID: nothing to remove, with the numbers; rows that
 * aren't whole blocks of their type; a type without a zero; an imatrix that lacks a matrix or has
 * another shape. MNEM_UNSUPPORTED: parts that an architecture can't lose, by name; and models that
 * mnem_model_transformer refuses. */
mnem_status mnem_prune_measure(const char *from, const mnem_prune_options *options,
                               mnem_prune_plan *plan);
/* Writes the pruned model. Matrices are read twice where parts are removed: to rank the parts and
 * to write. Streams row by row; memory doesn't grow with the model. `to` appears only when it is
 * complete. Keys are kept except those of changed values. The statuses above; MNEM_INVALID when
 * `to` is the source under any name; MNEM_BAD_FILE for numbers that aren't finite; MNEM_CANCELLED.
 */
mnem_status mnem_prune_file(const char *from, const char *to, const mnem_prune_options *options);

#ifdef __cplusplus
}
#endif
#endif
