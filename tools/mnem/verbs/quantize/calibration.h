/* calibration.h: `mnem quantize --calibrate`: statistics of a model's matrices over a text, and
 * rounding with them. */
#ifndef MNEM_TOOLS_MNEM_VERBS_QUANTIZE_CALIBRATION_H
#define MNEM_TOOLS_MNEM_VERBS_QUANTIZE_CALIBRATION_H

#include <limits.h>

#include "stage.h"

typedef struct calibration_asked {
    const char *text;           /* NULL: no calibration */
    const char *imatrix_out;    /* NULL: not written */
    const char *spill;          /* NULL: beside the output */
    const char *method;         /* NULL: auto */
    int32_t chunks;             /* limit of chunks; 0: all of the text */
    tool_session_asked session; /* memory, context, pre */
    int32_t context;            /* if session has none; 0: CALIBRATION_CONTEXT */
} calibration_asked;
extern const tool_option calibration_options[];
enum { CALIBRATION_CONTEXT = 512 }; /* largest default */

/* The model's context, at most CALIBRATION_CONTEXT: longer ones would fit contexts that it wasn't
 * trained for. */
int32_t calibration_context(const char *model);

/* The sequences cut from the text. */
typedef struct calibration_cut {
    int32_t *ids; /* [sequences][context] */
    int64_t sequences, apart;
    int32_t context;
    uint64_t bytes; /* charged */
} calibration_cut;

/* The solver behind a calibration, to be planned with it; from NULL: none. */
typedef struct calibration_solve {
    const char *from, *to;
    const mnem_quantize_options *quantize;
    const mnem_prune_options *prune; /* NULL: quantize */
} calibration_solve;

typedef struct calibration {
    tool_stage stage; /* its ledger stays, so that later work keeps the budget, too */
    calibration_cut cut;
    const calibration_asked *asked;
    char spill[PATH_MAX];
    mnem_imatrix *imatrix;   /* NULL: not collected */
    bool zeros;              /* the model is 2:4 */
    calibration_solve solve; /* the caller's */
    bool writes;             /* set by the caller: a model is written afterwards */
    uint64_t write_bytes;    /* largest memory of that */
    uint64_t needed_bytes;   /* after a refusal: the least budget */
    double *influence; /* of each layer, [MNEM_LAYERS_MAX]; the caller's. NULL: not measured */
} calibration;

/* The number of a text's tokens that a calibration uses; asked: a calibration_asked. A test on
 * the same text skips these. */
int64_t calibration_sees(const void *asked, int64_t tokens);
/* Reads the text, and plans all passes over it; states that don't fit go to a file beside `out`,
 * the output. Returns an exit code; call close in any case. */
int calibration_plan(calibration *c, const tool_args *args, const calibration_asked *asked,
                     int32_t threads, const char *out);
/* Runs the model over the text, after calibration_plan. */
int calibration_run(calibration *c);
/* Writes a model with the requested method; sets options->imatrix. With a zeroed calibration: with
 * options->imatrix, or by rounding to nearest. */
mnem_status calibration_quantize(calibration *c, const char *in, const char *out,
                                 mnem_quantize_options *options);
/* Writes a 2:4 model with SparseGPT, after a run with the method "sparsegpt". */
mnem_status calibration_prune(calibration *c, const char *in, const char *out,
                              const mnem_prune_options *options);
/* As tool_fail_plan, for a failed walk or a failed write after it. */
int calibration_fail(const calibration *c, mnem_status status);
void calibration_close(calibration *c); /* a zeroed one is allowed */

#endif
