/* solver_private.h: solves a model's matrices during a walk; shared by the solver's files.
 *
 *     solver_layout.c  the memory for a model, the positions of rows in the file
 *     solver.c         Hessians of a layer's inputs, then its matrices one after another
 *     solver_scales.c  scales of a layer's inputs, and the norms that take their inverse
 *     solver_matrix.c  rows of one matrix
 *     solver_output.c  the output matrix, and its input
 *     solver_file.c    the solved rows, until the model is written
 *     quantize_solved.c, prune_solved.c  the whole process, and writing */
#ifndef MNEM_SRC_COMPRESS_SOLVER_PRIVATE_H
#define MNEM_SRC_COMPRESS_SOLVER_PRIVATE_H

#include "compress/solve/awq_folds.h"
#include "compress/solve/factor.h"
#include "mnem/compress.h"

/* Rows of a matrix solved together, rows for the search of scales, the most matrices of a layer. */
enum { MNEM__SOLVER_ROWS = 256, MNEM__SOLVER_SAMPLE = 128, MNEM__SOLVER_MATRICES = 32 };

typedef enum mnem__solver_way {
    MNEM__SOLVER_AUTO = MNEM_SOLVE_AUTO,
    MNEM__SOLVER_GPTQ = MNEM_SOLVE_GPTQ,
    MNEM__SOLVER_AWQ = MNEM_SOLVE_AWQ,
    MNEM__SOLVER_SPARSE /* 2:4 by SparseGPT */
} mnem__solver_way;

/* An input of some of a layer's matrices. */
typedef struct mnem__solver_input {
    float *h;      /* [k, k]; NULL: none of these matrices is solved */
    float *rows;   /* [chunk, k] of the current sequence */
    float *square; /* [k]: H's diagonal */
    float *scale;  /* [k]: of columns before they are rounded */
    mnem__factor factor;
    double damping; /* added to the diagonal */
    float exponent; /* of the scales; 0: all are 1; -1: they must be */
} mnem__solver_input;

/* A tensor that is solved or takes scales, with its bytes in the file. */
typedef struct mnem__solver_tensor {
    uint64_t at;         /* +1; 0: neither */
    double lost, output; /* sums of squares of outputs: of their errors, of their values */
    float exponent;      /* of its inputs' scales */
} mnem__solver_tensor;

typedef struct mnem__solver {
    const mnem_model *model;
    const mnem_type *types; /* the new types of all tensors */
    mnem__solver_way way;
    int32_t chunk, threads;
    bool again;      /* layers run again with the solved weights */
    mnem_team *team; /* between layers; the walk has its own */
    mnem_transformer shape;
    mnem__solver_tensor *tensors; /* of the model */
    uint64_t bytes;               /* of the file; 0: nothing is solved */
    int fd;
    char path[256];
    /* memory */
    mnem_ledger *ledger; /* charged for the team's stacks; NULL: no team */
    uint64_t block_bytes;
    uint8_t *block; /* the memory of the following fields */
    float *pool;    /* Hessians and rows of a layer's inputs, and workspace of factors */
    float *weights, *chosen, *importance;
    float *down;        /* [MNEM__SOLVER_ROWS]: of the current rows, as in mnem__gptq */
    uint8_t *from, *to; /* MNEM__SOLVER_ROWS raw rows */
    void *workspace;
    mnem__solver_input input[MNEM__SOLVER_MATRICES]; /* of the layer, by its first matrix */
    mnem__awq_fold fold[MNEM__AWQ_FOLDS];            /* of the layer, with scales */
    const mnem__solver_input *fold_input[MNEM__AWQ_FOLDS];
    int fold_count;
    /* of the rows at hand */
    const mnem_tensor_info *tensor;
    const mnem__solver_input *by;
    mnem_type type;
    int64_t k, rows;
    double *losses; /* [MNEM__SOLVER_ROWS] */
    mnem_status status[MNEM_TEAM_MAX];
} mnem__solver;

/* Whether scales are searched. */
static inline bool mnem__solver_scales(const mnem__solver *s) {
    return s->way == MNEM__SOLVER_AUTO || s->way == MNEM__SOLVER_AWQ;
}

/* ---- solver_layout.c ---- */

/* Whether a tensor is a matrix to be solved. */
bool mnem__solver_takes(const mnem__solver *s, int32_t tensor, const mnem_tensor_info *info);
/* Finds the matrices to solve, and their memory. types is borrowed. MNEM_UNSUPPORTED: AWQ on a
 * model without an input that can be scaled. */
mnem_status mnem__solver_init(mnem__solver *s);
/* The memory of solving besides the walk: the block, and a separate team. */
uint64_t mnem__solver_memory(const mnem__solver *s);
/* Takes that memory, and charges block and stacks to the ledger. */
mnem_status mnem__solver_take(mnem__solver *s, mnem_ledger *ledger);
/* Frees it: writing needs only the codes. */
void mnem__solver_give_back(mnem__solver *s);
void mnem__solver_fini(mnem__solver *s);
/* The bytes of the pool for an input of k columns. */
uint64_t mnem__solver_input_bytes(const mnem__solver *s, int64_t k);

/* ---- solver.c ---- */

/* Plans the walk including the solver's memory, before that is taken, so that a refusal names a
 * sufficient budget. Then walks, unless nothing is solved or only the plan is wanted. The solved
 * rows are in a file beside `to`. */
mnem_status mnem__solver_walk(mnem__solver *s, const mnem_solve_options *o, const char *to);
int32_t mnem__solver_tensor_of(const mnem__solver *s, const mnem_tensor_info *matrix);
/* Lays out an input of k columns from `at` on, without rows yet; returns its end. */
float *mnem__solver_lay_input(const mnem__solver *s, mnem__solver_input *input, int64_t k,
                              float *at);
/* Factors an input after all rows were added; matrix: the first with this input. */
mnem_status mnem__solver_factor(mnem__solver *s, mnem__solver_input *input,
                                const mnem_tensor_info *matrix);
/* Runs over s->rows on all members; s->status has their results. */
mnem_status mnem__solver_run(mnem__solver *s, void (*run)(const mnem_worker *, void *));

/* ---- solver_scales.c ---- */

/* Does all that a fold of a layer touches change, or can it? */
bool mnem__solver_folds(const mnem__solver *s, const mnem__awq_fold *fold, int32_t layer);
/* Scales of the layer's inputs where they pay; its norms and biases go to the file. */
mnem_status mnem__solver_scale(mnem__solver *s, const mnem_walk_layer *layer);
/* Fills s->down for rows [first, first + s->rows) of a role. */
void mnem__solver_down(const mnem__solver *s, mnem__role role, int64_t first);

/* ---- solver_matrix.c ---- */

/* Solves a matrix, to the file and into the current layer. */
mnem_status mnem__solver_matrix(mnem__solver *s, const mnem_walk_layer *layer, int32_t matrix);

/* ---- solver_output.c ---- */

/* The output matrix, or the tied embedding; -1: none. */
mnem__role mnem__solver_output_role(const mnem__solver *s);
int32_t mnem__solver_output_tensor(const mnem__solver *s);
bool mnem__solver_takes_output(const mnem__solver *s, int32_t tensor, const mnem_tensor_info *info);
/* The watcher's function. */
mnem_status mnem__solver_states(void *solver, int64_t sequence, const float *rows);
/* After the walk: solves the output matrix to the file, if wanted. */
mnem_status mnem__solver_output(mnem__solver *s);

/* ---- solver_file.c ---- */

/* Opens a file without a name. MNEM_IO. */
mnem_status mnem__solver_file_open(mnem__solver *s, const char *path);
mnem_status mnem__solver_file_write(const mnem__solver *s, uint64_t at, const void *rows,
                                    uint64_t bytes);
/* Gives rows of a tensor that is in the file, for writing the model. */
mnem_status mnem__solver_give(void *solver, uint32_t tensor, int64_t first, int64_t rows,
                              uint8_t *out, bool *given);

#endif
