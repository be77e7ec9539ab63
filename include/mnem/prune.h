/* mnem/prune.h: a model with less in it: fewer heads, channels of feed-forwards or layers, or two
 * of every four weights.
 *
 * What is left is an ordinary GGUF file, which everything opens that opened the first. Heads go
 * with the others that share their keys and values, so that a file's ratio of the two stays; the
 * same number goes in every layer. 2:4 writes zeros: of four weights beside each other in a row two
 * at most stay, and every other number is what it was. A matrix that is 2:4 already stays as it is.
 * Which go, with an imatrix: what gives least on its text, |weight| times the length of the inputs
 * that its column meets (Wanda: Sun et al. 2023; added up over a column that goes whole: An et al.
 * 2023). Without one: what would give least were all directions of inputs alike; for 2:4 that is
 * the smallest weight. Layers: those of least influence, which the caller has measured (ShortGPT:
 * Men et al. 2024; mnem_influence) or weights tell about.
 * Not here: training what is left, which any pruning wants; measuring what was lost.
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
    uint32_t requantized; /* tensors that were quantized already and are rounded once more */
} mnem_prune_plan;

typedef struct mnem_prune_report {
    const char *tensor; /* as in the new file */
    uint32_t index, count;
    mnem_type from, to;
    uint64_t bytes_from, bytes_to;
    double relative_removed; /* root mean square of what went over that of what was there */
} mnem_prune_report;

typedef struct mnem_prune_options {
    /* Parts that go, 0 to below 1, of a layer's heads and channels, and of the layers. What goes is
     * rounded to whole groups of heads, to layers, and so that 32 channels are left, or 256 where
     * there are 2048 or more (blocks of types). */
    double heads, ffn, layers;
    mnem_prune_pattern pattern; /* alone */
    /* 2:4 without its zeros in the file, too, where types are Q4_0, Q8_0 or F16: for streaming.
     * Only mnem opens it; pruning it to 2:4 once more without this makes the ordinary file. */
    bool compact;
    /* As mnem_quantize_options says. NULL, "same": types stay. 2:4 wants types that have a zero:
     * F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q6_K, Q3_K and MXFP4. */
    const char *type;
    /* NULL: none. It must have every matrix by which is chosen. */
    const mnem_imatrix *imatrix;
    const double *influence; /* [layers]: those of least go. NULL: as weights say */
    int32_t threads; /* default: the processors this process may use; doesn't change a byte */
    mnem_progress progress;                                            /* bytes read */
    void (*on_plan)(void *context, const mnem_prune_plan *plan);       /* before it writes */
    void (*on_report)(void *context, const mnem_prune_report *report); /* a tensor is done */
    void *context;                                                     /* of both */
} mnem_prune_options;

/* What pruning would make. Reads the header, and matrices where layers go without an influence that
 * says which. MNEM_INVALID: nothing to remove, with the numbers; rows that aren't whole blocks of
 * their type; a type without a zero; an imatrix that lacks a matrix or has another shape.
 * MNEM_UNSUPPORTED: what an architecture can't lose, by name; and what mnem_model_transformer
 * refuses. */
mnem_status mnem_prune_measure(const char *from, const mnem_prune_options *options,
                               mnem_prune_plan *plan);
/* Writes it. Matrices are read twice where parts go: to weigh and to write. Streams row by row;
 * memory doesn't grow with the model. `to` appears when it is whole. Keys are kept but for those of
 * what changed. The statuses above; MNEM_INVALID when `to` is the source by any name; MNEM_BAD_FILE
 * for numbers that aren't finite; MNEM_CANCELLED. */
mnem_status mnem_prune_file(const char *from, const char *to, const mnem_prune_options *options);

#ifdef __cplusplus
}
#endif
#endif
