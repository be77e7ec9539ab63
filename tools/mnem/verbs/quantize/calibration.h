/* calibration.h: `mnem quantize --calibrate`: what a text says of a model's matrices, and rounding
 * by it. */
#ifndef MNEM_TOOLS_MNEM_VERBS_QUANTIZE_CALIBRATION_H
#define MNEM_TOOLS_MNEM_VERBS_QUANTIZE_CALIBRATION_H

#include <limits.h>

#include "stage.h"

typedef struct calibration_asked {
    const char *text;           /* NULL: no calibration */
    const char *imatrix_out;    /* NULL: not kept */
    const char *spill;          /* NULL: beside what is written */
    const char *method;         /* NULL: auto */
    int32_t chunks;             /* at the most; 0: all of the text */
    tool_session_asked session; /* memory, context, pre */
    int32_t context;            /* where session has none; 0: CALIBRATION_CONTEXT */
} calibration_asked;
extern const tool_option calibration_options[];
enum { CALIBRATION_CONTEXT = 512 }; /* at the most, where none is asked for */

/* The model's context, at most so many: what it wasn't trained for would be fitted to as well. */
int32_t calibration_context(const char *model);

/* What is cut from the text. */
typedef struct calibration_cut {
    int32_t *ids; /* [sequences][context] */
    int64_t sequences, apart;
    int32_t context;
    uint64_t bytes; /* charged */
} calibration_cut;

/* What is solved behind a calibration, to be planned with it; from NULL: nothing. */
typedef struct calibration_solve {
    const char *from, *to;
    const mnem_quantize_options *quantize;
    const mnem_prune_options *prune; /* NULL: quantized */
} calibration_solve;

typedef struct calibration {
    tool_stage stage; /* its ledger stays, so that what comes next keeps to the budget too */
    calibration_cut cut;
    const calibration_asked *asked;
    char spill[PATH_MAX];
    mnem_imatrix *imatrix;   /* NULL: not counted */
    bool zeros;              /* the model is 2:4 */
    calibration_solve solve; /* the caller's */
    bool writes;             /* the caller's: a model is written behind it */
    uint64_t write_bytes;    /* what that takes at the most */
    uint64_t needed_bytes;   /* where a walk was refused: the least budget */
    double *influence; /* of each layer, [MNEM_LAYERS_MAX]; the caller's. NULL: not measured */
} calibration;

/* How many of a text's tokens a calibration sees; asked: a calibration_asked. What measures on the
 * rest leaves these out. */
int64_t calibration_sees(const void *asked, int64_t tokens);
/* Reads the text, and plans all that is run over it; the states that don't fit go to a file beside
 * `out`, what is written. An exit code; close is needed in any case. */
int calibration_plan(calibration *c, const tool_args *args, const calibration_asked *asked,
                     int32_t threads, const char *out);
/* Runs the model over the text, behind a plan. */
int calibration_run(calibration *c);
/* Writes a model by the method that was asked for; options->imatrix is set here. A zeroed
 * calibration: by its imatrix, or to nearest. */
mnem_status calibration_quantize(calibration *c, const char *in, const char *out,
                                 mnem_quantize_options *options);
/* Writes a model with two of four weights, by SparseGPT, after a run with "sparsegpt" as its
 * method. */
mnem_status calibration_prune(calibration *c, const char *in, const char *out,
                              const mnem_prune_options *options);
/* As tool_fail_plan, where a walk or what was written by it failed. */
int calibration_fail(const calibration *c, mnem_status status);
void calibration_close(calibration *c); /* a zeroed one is fine */

#endif
