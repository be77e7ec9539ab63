/* mnem/forecast.h: the time of a run before it runs: its work at the machine's roofs, times what
 * the history says of such work.
 *
 * Work is split into classes: what kind of operator, on which type, from which level. A class's
 * time is the larger of its multiply-adds and its bytes at the machine's rates, times a factor that
 * is learned from finished runs of this machine; a class that wasn't seen has the mean factor of
 * those that were. The band holds 95 of 100 runs: by ranks of how far off each run was from what
 * the runs before it said (conformal; Vovk, Gammerman and Shafer, 2005; of the first eight from
 * what all others say) from 19 runs on, by Student's t of the same from 8 on, and below that it is
 * the plan's time and a fifth.
 * Times are the processors' (all threads' over their number) where that is known, so that what else
 * a machine runs isn't learned; runs that wait for a disk count by the wall's clock.
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

/* ---- work; each returns how many of MNEM_HISTORY_WORKS are filled ---- */

/* Of so many tokens in a phase (PROMPT, TOKENS), each seeing so many positions in the mean. */
int32_t mnem_work_of_tokens(const mnem_model *model, const mnem_engine_plan *plan, mnem_phase phase,
                            double tokens, double positions, mnem_work *work);
/* Of so many steps of training. */
int32_t mnem_work_of_steps(const mnem_train_options *options, const mnem_train_plan *plan,
                           double steps, mnem_work *work);

/* ---- forecasts ---- */

typedef enum mnem_forecast_band {
    MNEM_BAND_NONE,      /* nothing is known: seconds is 0 */
    MNEM_BAND_PLAN,      /* the plan's, a fifth on both sides */
    MNEM_BAND_STUDENT,   /* 8 to 18 runs */
    MNEM_BAND_CONFORMAL, /* 19 runs or more */
} mnem_forecast_band;

typedef struct mnem_forecast {
    double seconds, low, high;
    mnem_forecast_band band;
    int32_t runs; /* of this phase that it is learned from */
    double error; /* median of |measured / predicted - 1| over them, each as the band's */
} mnem_forecast;

enum { MNEM_FORECAST_RUNS = 96, MNEM_FORECAST_CLASSES = 32 }; /* the newest; the first seen */

typedef struct mnem_forecaster mnem_forecaster;
/* profile: rates of the machine (NULL or zeros: those of a plain one); machine: whose runs count.
 */
mnem_status mnem_forecaster_create(const mnem_machine_profile *profile, const char *machine,
                                   mnem_forecaster **forecaster);
void mnem_forecaster_destroy(mnem_forecaster *forecaster); /* NULL is fine */
/* The phases of a run of this machine, oldest run first; true (a mnem_on_history). */
bool mnem_forecaster_add(void *forecaster, const mnem_history_run *run);
void mnem_forecaster_learn(mnem_forecaster *forecaster);
/* plan_seconds: what a plan says; 0: nothing. */
mnem_forecast mnem_forecast_make(const mnem_forecaster *forecaster, mnem_phase phase,
                                 const mnem_work *work, int32_t works, int32_t threads,
                                 double plan_seconds);

#ifdef __cplusplus
}
#endif
#endif
