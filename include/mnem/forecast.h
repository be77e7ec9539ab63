/* mnem/forecast.h: predicts the time of a run before it starts: a roofline estimate of its work on
 * this machine, corrected by factors learned from the history.
 *
 * Work is split into classes by kind of operator, type of operand and level of memory. The time of
 * a class is the larger of the times of its multiply-adds and its bytes at the machine's rates,
 * times a factor that is learned from finished runs of this machine; a class without any finished
 * run gets the mean factor of the others. The band covers 95 % of runs. From 19 runs on it uses the
 * ranks of the errors of each run against the prediction from the runs before it (conformal; Vovk,
 * Gammerman and Shafer, 2005; the first eight runs are predicted from all others); from 8 runs on
 * Student's t of the same errors; with fewer runs it is the plan's time plus and minus a fifth.
 * Times are CPU times (the sum over all threads divided by their number) where known, so that other
 * load on the machine has no influence; runs that wait for a disk are measured in wall-clock time.
 * Threads: a forecaster belongs to one thread at a time.
 *
 *     mnem_forecaster *f;
 *     mnem_forecaster_create(&profile, "machine", &f);
 *     mnem_history_read(path, mnem_forecaster_add, f);
 *     mnem_forecaster_learn(f);
 *     mnem_forecast t = mnem_forecast_make(f, MNEM_PHASE_TOKENS, work, works, 2, 0.5);
 *     printf("%.2f s, %.2f to %.2f\n", t.seconds, t.low, t.high);
 *     mnem_forecaster_destroy(f);
 */
#ifndef MNEM_FORECAST_H
#define MNEM_FORECAST_H

#include "mnem/engine.h"
#include "mnem/history.h"
#include "mnem/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- work; each returns the number of filled entries of MNEM_HISTORY_WORKS ---- */

/* The work of `tokens` tokens in a phase (PROMPT, TOKENS), each attending to `positions` positions
 * on average. */
int32_t mnem_work_of_tokens(const mnem_model *model, const mnem_engine_plan *plan, mnem_phase phase,
                            double tokens, double positions, mnem_work *work);
/* The work of `steps` steps of training. */
int32_t mnem_work_of_steps(const mnem_train_options *options, const mnem_train_plan *plan,
                           double steps, mnem_work *work);

/* ---- forecasts ---- */

typedef enum mnem_forecast_band {
    MNEM_BAND_NONE,      /* nothing is known: seconds is 0 */
    MNEM_BAND_PLAN,      /* the plan's time, plus and minus a fifth */
    MNEM_BAND_STUDENT,   /* 8 to 18 runs */
    MNEM_BAND_CONFORMAL, /* 19 runs or more */
} mnem_forecast_band;

typedef struct mnem_forecast {
    double seconds, low, high;
    mnem_forecast_band band;
    int32_t runs; /* runs of this phase that were learned from */
    double error; /* median of |measured / predicted - 1| over them, each as the band's */
} mnem_forecast;

enum { MNEM_FORECAST_RUNS = 96, MNEM_FORECAST_CLASSES = 32 }; /* the newest; the first seen */

typedef struct mnem_forecaster mnem_forecaster;
/* profile: rates of the machine (NULL or zeros: those of a reference machine); machine: only runs
 * of this machine are learned from. */
mnem_status mnem_forecaster_create(const mnem_machine_profile *profile, const char *machine,
                                   mnem_forecaster **forecaster);
void mnem_forecaster_destroy(mnem_forecaster *forecaster); /* NULL is fine */
/* Adds the phases of a run of this machine, oldest run first; always returns true (a
 * mnem_on_history). */
bool mnem_forecaster_add(void *forecaster, const mnem_history_run *run);
void mnem_forecaster_learn(mnem_forecaster *forecaster);
/* plan_seconds: the time that a plan predicts; 0: none. */
mnem_forecast mnem_forecast_make(const mnem_forecaster *forecaster, mnem_phase phase,
                                 const mnem_work *work, int32_t works, int32_t threads,
                                 double plan_seconds);

#ifdef __cplusplus
}
#endif
#endif
