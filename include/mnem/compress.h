/* mnem/compress.h: runs a model over a text layer by layer (a walk), collects statistics of its
 * activations, and quantizes or prunes with them.
 *
 * A walk keeps the hidden states of all tokens, in memory or in a file, and processes one layer at
 * a time: it loads the layer's weights once, runs every sequence through it, and passes the inputs
 * of each matrix to a watcher. So models larger than memory can be walked, and statistics of a
 * layer over all tokens are complete before the next layer runs. mnem_calibrate computes the
 * importance matrix for mnem_quantize_options.
 * Watchers see the same bits for any budget and any number of threads.
 * Not here: generating text (engine.h), rounding weights (model.h).
 * Threads: a walk runs on its own team of threads; watchers get the member that calls them.
 *
 *     // ids [sequences][512]: the text's tokens, cut; sequences: how many
 *     mnem_walk_options o = {.ledger = ledger, .chunk = 512, .spill = "states.tmp"};
 *     mnem_imatrix *imatrix;
 *     mnem_imatrix_create(&imatrix);
 *     if (mnem_calibrate(model, &o, ids, sequences, imatrix, NULL) != MNEM_OK)
 *         fprintf(stderr, "%s\n", mnem_last_error());
 *     mnem_imatrix_write(imatrix, "model.imatrix.gguf");
 */
#ifndef MNEM_COMPRESS_H
#define MNEM_COMPRESS_H

#include "mnem/imatrix.h"
#include "mnem/ledger.h"
#include "mnem/model.h"
#include "mnem/prune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero means default. */
typedef struct mnem_walk_options {
    mnem_ledger *ledger;  /* required; charged for all memory; its budget is kept, and enforced
                            (mnem_ledger_hold) once the plan is made */
    mnem_device *device;  /* where layers run (default: a host device of its own) */
    int32_t threads;      /* default: the processors this process may use */
    int32_t chunk;        /* tokens per sequence (default 512) */
    int32_t pass;         /* tokens run together (default: chunk, or fewer to fit the budget) */
    const char *spill;    /* path of a temporary file for states that don't fit in memory; must not
                            exist; it is unlinked at once. NULL: all states must fit in memory */
    uint64_t later_bytes; /* bytes that the caller will need after the walk, including what it holds
                             now; must fit in the budget, too */
    bool plan_only;       /* only fill the report: run, hold and write nothing */
    bool page_cache;      /* read weights through the page cache */
    mnem_progress progress; /* in tokens times layers */
} mnem_walk_options;

typedef struct mnem_walk_layer {
    int32_t layer, layers;
    int32_t matrices;
    const mnem_tensor_info *matrix; /* [matrices], in order of use */
    const int32_t *same;            /* [matrices]: as in mnem_walk_input */
    void *walker;                   /* private */
} mnem_walk_layer;

/* Input rows of one matrix of a layer, from one sequence. */
typedef struct mnem_walk_input {
    int32_t matrix; /* index in the layer */
    int32_t same;   /* first matrix of the layer with the same input: matrix, or an earlier one */
    int64_t sequence;
    int32_t position;              /* of the first row in its sequence */
    const float *x;                /* [rows, columns], valid during the call */
    int64_t rows, columns, stride; /* stride: from row to row, in floats */
} mnem_walk_input;

/* Callbacks; each may be NULL. A status other than MNEM_OK ends the walk, which returns it. */
typedef struct mnem_walk_watcher {
    mnem_status (*begin)(void *context, const mnem_walk_layer *layer);
    /* Called by every member of the team at the same time, with the same input, so that they can
     * share the work. Sequences come in order, and so do the rows of each. */
    void (*input)(void *context, const mnem_walk_input *input, const mnem_worker *worker);
    /* Called when all sequences have been through the layer. */
    mnem_status (*end)(void *context, const mnem_walk_layer *layer);
    /* Called after the last layer with the hidden states [chunk, embd] of each sequence, before the
     * final norm. */
    mnem_status (*states)(void *context, int64_t sequence, const float *rows);
    void *context;
    /* After `end`, run the layer again with the weights replaced there (mnem_walk_replace), without
     * calls of `input`; the next layer gets the result, so that it can compensate for errors. The
     * layer's weights must fit in memory. */
    bool again;
    uint64_t bytes; /* of heap that the watcher will allocate; the walk leaves them free */
} mnem_walk_watcher;

/* To be called in `end` of a watcher with `again`: replaces rows [first, first + rows) of a matrix
 * of the layer by raw rows of a type. Rows are replaced in whole groups of 16; the last group of a
 * matrix may be smaller. MNEM_UNSUPPORTED where the matrix in the file isn't F32, F16 or BF16 (new
 * rows are converted to the file's type); MNEM_INVALID for other errors. */
mnem_status mnem_walk_replace(const mnem_walk_layer *layer, int32_t matrix, int64_t first,
                              int64_t rows, mnem_type type, const void *raw);

/* The plan of a walk. */
typedef struct mnem_walk_report {
    int32_t threads, pass;
    int64_t sequences, sequences_in_memory; /* the states of the others are in the file */
    bool streamed;         /* a layer doesn't fit in memory: its weights are read for every pass */
    uint64_t bytes_states; /* of all sequences */
    uint64_t bytes_spilled;
    uint64_t peak_bytes, budget_bytes; /* budget 0: none */
    uint64_t needed_bytes;             /* on MNEM_OVER_BUDGET: the smallest budget; else 0 */
} mnem_walk_report;

/* Walks over ids [sequences][chunk]. report may be NULL. MNEM_OVER_BUDGET: the error text gives the
 * bytes needed, with a file for states and without; MNEM_UNSUPPORTED: encoders, mixtures of
 * experts, latent attention (MLA), a device for planning only; MNEM_INVALID: ids outside the
 * vocabulary; MNEM_IO: the temporary file; MNEM_BAD_FILE: weights that aren't finite;
 * MNEM_CANCELLED. All memory is freed at the end. */
mnem_status mnem_walk(const mnem_model *model, const mnem_walk_options *options, const int32_t *ids,
                      int64_t sequences, const mnem_walk_watcher *watcher,
                      mnem_walk_report *report);

/* Adds to imatrix, for every matrix of every layer, the sums of the squares of its input columns,
 * summed in f64. Statuses as mnem_walk. */
mnem_status mnem_calibrate(const mnem_model *model, const mnem_walk_options *options,
                           const int32_t *ids, int64_t sequences, mnem_imatrix *imatrix,
                           mnem_walk_report *report);

/* influence [layers]: 1 - the cosine similarity of a token's hidden states before and after each
 * layer, the mean over up to 2048 tokens of the text (block influence of ShortGPT: Men et al.
 * 2024), for mnem_prune_options. Statuses as mnem_walk. */
mnem_status mnem_influence(const mnem_model *model, const mnem_walk_options *options,
                           const int32_t *ids, int64_t sequences, double *influence,
                           mnem_walk_report *report);

/* ---- quantization and pruning with error compensation ---- */

typedef enum mnem_solve_method {
    MNEM_SOLVE_AUTO, /* GPTQ, with AWQ's scales of an input where they lower the loss */
    MNEM_SOLVE_GPTQ, /* later columns compensate for earlier errors (Frantar et al. 2022) */
    MNEM_SOLVE_AWQ   /* columns are scaled before they are rounded (Lin et al. 2023) */
} mnem_solve_method;

typedef struct mnem_solve_options {
    mnem_walk_options walk;
    const int32_t *ids; /* [sequences][chunk] */
    int64_t sequences;
    mnem_walk_report *report; /* or NULL */
    mnem_solve_method method; /* of mnem_quantize_solved */
} mnem_solve_options;

/* As mnem_quantize_file, but the matrices of the layers are solved with their inputs in the text;
 * so is the output matrix (or the embedding that is used as such), except with AWQ. Solves the
 * types Q2_K to Q8_0, IQ4_NL and IQ4_XS; tensors of other types are rounded as usual. AWQ's scales
 * are folded into the norm or matrix before, so that the file is an ordinary one. An input isn't
 * scaled where it comes from neither (except attention's queries and keys), or where a matrix that
 * makes or reads it isn't solved. Solved rows are kept in an unnamed temporary file beside `to`.
 * Statuses as mnem_quantize_file and mnem_walk; MNEM_UNSUPPORTED: AWQ where nothing can be scaled.
 * */
mnem_status mnem_quantize_solved(const char *from, const char *to,
                                 const mnem_quantize_options *options,
                                 const mnem_solve_options *solve);

/* As mnem_prune_file with MNEM_PRUNE_2_4, by SparseGPT (Frantar and Alistarh 2023): removes the two
 * of each four weights whose removal costs least when the weights behind them compensate, and
 * changes those accordingly. The inputs of a layer are outputs of the pruned layers before it (of
 * the original layers where the model is quantized). Statuses as mnem_prune_file and mnem_walk;
 * MNEM_INVALID: another pattern. */
mnem_status mnem_prune_solved(const char *from, const char *to, const mnem_prune_options *options,
                              const mnem_solve_options *solve);

#ifdef __cplusplus
}
#endif
#endif
