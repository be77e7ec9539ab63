/* mnem/compress.h: a model walked over a text layer by layer, and what that counts.
 *
 * A walk keeps the hidden states of all tokens, in memory or in a file, and takes a layer at a
 * time: its weights are loaded once, every sequence runs through it, and a watcher sees what each
 * matrix is multiplied with. So a model that doesn't fit is walked as well, and statistics that
 * need all tokens of a layer before the next one can be made. mnem_calibrate counts what
 * mnem_quantize_options takes as an importance.
 * What is seen is the same to the bit for any budget and any number of threads.
 * Not here: generating text (engine.h), rounding weights (model.h).
 * Threads: a walk runs on a team of its own; watchers are told by which member they are called.
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
    mnem_ledger *ledger;  /* required; everything is charged to it, and its budget is kept. It is
                            held to that (mnem_ledger_hold) when the way is chosen */
    int32_t threads;      /* default: the processors this process may use */
    int32_t chunk;        /* tokens of a sequence (default 512) */
    int32_t pass;         /* tokens run together (default: chunk, or what fits) */
    const char *spill;    /* a file that must not be there yet, for states that don't fit in memory;
                            it has no name any more while it is used. NULL: all must fit */
    uint64_t later_bytes; /* what the caller takes behind the walk, with what it holds now: it must
                             fit, too, before anything is run */
    bool plan_only;       /* nothing is run, held or written: the report says what would be */
    bool page_cache;      /* read weights through the page cache */
    mnem_progress progress; /* of tokens times layers */
} mnem_walk_options;

typedef struct mnem_walk_layer {
    int32_t layer, layers;
    int32_t matrices;
    const mnem_tensor_info *matrix; /* [matrices], in the order of their use */
    const int32_t *same;            /* [matrices]: as mnem_walk_input has it */
    void *walker;                   /* private */
} mnem_walk_layer;

/* What one of a layer's matrices is multiplied with: rows of a sequence. */
typedef struct mnem_walk_input {
    int32_t matrix; /* of the layer's */
    int32_t same;   /* the first of them that has these very rows: matrix, or one before it */
    int64_t sequence;
    int32_t position;              /* of the first row in its sequence */
    const float *x;                /* [rows, columns], valid during the call */
    int64_t rows, columns, stride; /* stride: from row to row, in floats */
} mnem_walk_input;

/* Any of the functions may be NULL. A status other than MNEM_OK ends the walk with it. */
typedef struct mnem_walk_watcher {
    mnem_status (*begin)(void *context, const mnem_walk_layer *layer);
    /* By every member of the team at once, for the same input: they can share the work. Sequences
     * come in order, and so do the rows of each. */
    void (*input)(void *context, const mnem_walk_input *input, const mnem_worker *worker);
    /* All sequences have been through the layer. */
    mnem_status (*end)(void *context, const mnem_walk_layer *layer);
    /* Behind the last layer, each sequence's hidden rows [chunk, embd], before the last norm. */
    mnem_status (*states)(void *context, int64_t sequence, const float *rows);
    void *context;
    /* Behind `end` a layer runs again, with the weights that were replaced there, and what comes of
     * that is the next one's input: what is lost can be made up for in the layers behind. Nothing
     * is seen of the second run. A layer's weights must fit in memory then. */
    bool again;
    uint64_t bytes; /* of the heap that it will take, so that the walk leaves room */
} mnem_walk_watcher;

/* In `end` of a watcher with `again`: rows [first, first + rows) of one of the layer's matrices are
 * these from now on, whole groups of 16 (the last rows of a matrix may be fewer), raw rows of a
 * type. MNEM_UNSUPPORTED where the file's own type isn't F32, F16 or BF16, as which they are held;
 * MNEM_INVALID for anything else. */
mnem_status mnem_walk_replace(const mnem_walk_layer *layer, int32_t matrix, int64_t first,
                              int64_t rows, mnem_type type, const void *raw);

/* What was chosen. */
typedef struct mnem_walk_report {
    int32_t threads, pass;
    int64_t sequences, sequences_in_memory; /* the others' states are in the file */
    bool streamed;         /* no layer fits: its weights are read again for every pass */
    uint64_t bytes_states; /* of all sequences */
    uint64_t bytes_spilled;
    uint64_t peak_bytes, budget_bytes; /* budget 0: none */
    uint64_t needed_bytes;             /* on MNEM_OVER_BUDGET: the least budget; else 0 */
} mnem_walk_report;

/* Walks over ids [sequences][chunk]. report may be NULL. MNEM_OVER_BUDGET: the text says what is
 * needed, with a file for states and without; MNEM_UNSUPPORTED: encoders, mixtures of experts,
 * attention through a latent; MNEM_INVALID: ids that the vocabulary lacks; MNEM_IO: the file;
 * MNEM_BAD_FILE: weights that aren't finite; MNEM_CANCELLED. Nothing stays taken. */
mnem_status mnem_walk(const mnem_model *model, const mnem_walk_options *options, const int32_t *ids,
                      int64_t sequences, const mnem_walk_watcher *watcher,
                      mnem_walk_report *report);

/* Adds to imatrix, for every matrix of every layer, the sums of the squares of its inputs. Sums are
 * in f64 until they are added. As mnem_walk. */
mnem_status mnem_calibrate(const mnem_model *model, const mnem_walk_options *options,
                           const int32_t *ids, int64_t sequences, mnem_imatrix *imatrix,
                           mnem_walk_report *report);

/* influence [layers]: 1 - cos of the angle by which each turns a token's hidden state, the mean
 * over up to 2048 tokens of the text (ShortGPT: Men et al. 2024); mnem_prune_options takes it. As
 * mnem_walk. */
mnem_status mnem_influence(const mnem_model *model, const mnem_walk_options *options,
                           const int32_t *ids, int64_t sequences, double *influence,
                           mnem_walk_report *report);

/* ---- codes that make up for each other ---- */

typedef enum mnem_solve_method {
    MNEM_SOLVE_AUTO, /* GPTQ, and AWQ's scales of an input where codes lose least so */
    MNEM_SOLVE_GPTQ, /* codes make up for the errors of those before (Frantar et al. 2022) */
    MNEM_SOLVE_AWQ   /* columns are scaled before they are rounded (Lin et al. 2023) */
} mnem_solve_method;

typedef struct mnem_solve_options {
    mnem_walk_options walk;
    const int32_t *ids; /* [sequences][chunk] */
    int64_t sequences;
    mnem_walk_report *report; /* or NULL */
    mnem_solve_method method; /* of mnem_quantize_solved */
} mnem_solve_options;

/* As mnem_quantize_file, and the layers' matrices are solved on the inputs that they have in the
 * text; but for AWQ the output's, too, or the embedding that is it. Takes Q2_K to Q8_0, IQ4_NL and
 * IQ4_XS; tensors of other types are rounded as usual. Scales are folded into norms and into the
 * matrices before, so that the file is an ordinary one: where an input comes from neither
 * (attention's queries and keys aside), or where what makes it or reads it isn't solved, there are
 * none. What was solved waits in a file without a name beside `to`. As mnem_quantize_file and
 * mnem_walk; MNEM_UNSUPPORTED: AWQ where nothing can be scaled. */
mnem_status mnem_quantize_solved(const char *from, const char *to,
                                 const mnem_quantize_options *options,
                                 const mnem_solve_options *solve);

/* As mnem_prune_file with MNEM_PRUNE_2_4, by SparseGPT (Frantar and Alistarh 2023): the two of four
 * weights go that cost least when those behind them make up for it, and the others are changed so.
 * A layer's inputs are those that the pruned layers before it give (those of the model as it was,
 * where it is quantized). As mnem_prune_file and mnem_walk; MNEM_INVALID: another pattern. */
mnem_status mnem_prune_solved(const char *from, const char *to, const mnem_prune_options *options,
                              const mnem_solve_options *solve);

#ifdef __cplusplus
}
#endif
#endif
