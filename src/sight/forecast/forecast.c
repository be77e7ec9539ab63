/* forecast.c: factors of classes of work, learned from finished runs, and forecasts with them.
 *
 * The idea: log y = log sum_c exp(theta_c) x_c, with x_c the class's time at the roofs. theta is
 * found by Gauss-Newton steps on squared residuals (those beyond a tenth count by their root, Huber
 * 1964), pulled to its own mean, so that what hardly shows in the totals stays where the others
 * are. Each run's residual is what was told before it: of a fit to the earlier runs; of the first
 * ones, which have few before them, of a fit to all others.
 * Cost: 32 classes, 96 runs: some 20 million multiply-adds to learn, 60 KiB. */
#include "mnem/forecast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "plan/plan_machine.h"

enum { C = MNEM_FORECAST_CLASSES, N = MNEM_FORECAST_RUNS, STEPS = 12, STEPS_WITHOUT = 3, TAG = 40 };
enum { EARLIER = 8 }; /* runs of its phase before one that is judged by those alone */

static const double pull = 0.01, huber = 0.1, most = 4; /* of a step, and of theta: e^4 */
static const double pass_seconds = 1e-6;                /* of an operator that does nothing */

typedef struct sample {
    mnem_phase phase;
    double log_y, residual; /* measured over predicted, logarithms */
    float x[C];             /* seconds at the roofs */
} sample;

struct mnem_forecaster {
    mnem_machine_profile roof;
    char machine[24];
    char name[C][TAG]; /* "matmul Q8_0 memory 2" */
    int32_t classes;
    int32_t samples; /* in order; the oldest goes when there is one too many */
    sample sample[N];
    double theta[C], mean;
};

/* ---- roofs ---- */

mnem_status mnem_forecaster_create(const mnem_machine_profile *profile, const char *machine,
                                   mnem_forecaster **forecaster) {
    mnem_forecaster *f = mnem__calloc("history", 1, sizeof *f);
    *forecaster = f;
    if (!f) return mnem__heap_status();
    if (profile) f->roof = *profile;
    if (f->roof.read_bytes_per_s <= 0)
        f->roof.read_bytes_per_s = mnem__plain_machine.read_bytes_per_s;
    if (f->roof.disk_bytes_per_s <= 0)
        f->roof.disk_bytes_per_s = mnem__plain_machine.disk_bytes_per_s;
    if (f->roof.macs_per_s <= 0) f->roof.macs_per_s = mnem__plain_machine.packed_macs_per_s;
    snprintf(f->machine, sizeof f->machine, "%s", machine);
    return MNEM_OK;
}

void mnem_forecaster_destroy(mnem_forecaster *forecaster) {
    mnem__free(forecaster);
}

static double roof_seconds(const mnem_forecaster *f, const mnem_work *w) {
    if (strcmp(w->op, "pass") == 0) return w->macs * pass_seconds;
    const bool disk = strcmp(w->level, "disk") == 0;
    const double rate = disk ? f->roof.disk_bytes_per_s : f->roof.read_bytes_per_s;
    return fmax(w->macs / f->roof.macs_per_s, w->bytes / rate);
}

/* Which class it is; below 0: none of those there are, and no room (or no wish) for another. */
static int class_of(mnem_forecaster *f, const mnem_work *w, int32_t threads, bool add) {
    char name[TAG];
    snprintf(name, sizeof name, "%.11s %.11s %.11s %d", w->op, w->type, w->level, threads);
    for (int i = 0; i < f->classes; i++)
        if (strcmp(f->name[i], name) == 0) return i;
    if (!add || f->classes == C) return -1;
    memcpy(f->name[f->classes], name, sizeof name);
    return f->classes++;
}

/* ---- samples ---- */

/* As a quiet machine would have taken. */
static double quiet_seconds(const mnem_history_run *run, const mnem_history_phase *p) {
    const bool waits = run->streamed || run->threads <= 0 || p->cpu_seconds <= 0;
    return waits ? p->seconds : fmin(p->seconds, p->cpu_seconds / run->threads);
}

static void add_phase(mnem_forecaster *f, const mnem_history_run *run, mnem_phase phase) {
    const mnem_history_phase *p = &run->phase[phase];
    const double y = quiet_seconds(run, p);
    sample s = {.phase = phase};
    double all = 0;
    if (!p->works || y <= 0) return;
    for (int32_t i = 0; i < p->works; i++) {
        const int c = class_of(f, &p->work[i], run->threads, true);
        const double x = roof_seconds(f, &p->work[i]);
        if (c < 0) return; /* of no known class: it would be learned into the others */
        s.x[c] += (float)x;
        all += x;
    }
    if (!(all > 0)) return;
    s.log_y = log(y);
    if (f->samples == N) {
        memmove(f->sample, f->sample + 1, (N - 1) * sizeof s);
        f->samples--;
    }
    f->sample[f->samples++] = s;
}

bool mnem_forecaster_add(void *forecaster, const mnem_history_run *run) {
    mnem_forecaster *f = forecaster;
    if (strcmp(run->machine, f->machine) != 0) return true;
    for (int i = 0; i < MNEM_PHASE_COUNT; i++) add_phase(f, run, (mnem_phase)i);
    return true;
}

/* ---- learning ---- */

static double predicted(const mnem_forecaster *f, const double *theta, const sample *s) {
    double y = 0;
    for (int c = 0; c < f->classes; c++) y += exp(theta[c]) * (double)s->x[c];
    return y;
}

static double mean_of(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return n ? sum / n : 0;
}

/* a x = b, a symmetric and positive; x in b. By Cholesky, in place. */
static void solve(double a[C][C], double *b, int n) {
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++) a[j][j] -= a[j][k] * a[j][k];
        a[j][j] = sqrt(fmax(a[j][j], 1e-12));
        for (int i = j + 1; i < n; i++) {
            for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[j][k];
            a[i][j] /= a[j][j];
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) b[i] -= a[i][k] * b[k];
        b[i] /= a[i][i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) b[i] -= a[k][i] * b[k];
        b[i] /= a[i][i];
    }
}

typedef struct normal {
    double a[C][C], b[C];
} normal;

/* Adds one sample's part: its gradient is the share of each class in what is predicted. */
static void add_sample(const mnem_forecaster *f, const double *theta, const sample *s, normal *e) {
    double g[C];
    const double y = predicted(f, theta, s), r = s->log_y - log(y);
    const double w = fabs(r) > huber ? huber / fabs(r) : 1;
    for (int c = 0; c < f->classes; c++) g[c] = exp(theta[c]) * (double)s->x[c] / y;
    for (int i = 0; i < f->classes; i++) {
        e->b[i] += w * g[i] * r;
        for (int k = 0; k <= i; k++) e->a[i][k] += w * g[i] * g[k];
    }
}

/* To the samples before `end`, without `left` (-1: with all of them). */
static void fit(const mnem_forecaster *f, int end, int left, int steps, double *theta, normal *e) {
    for (int step = 0; step < steps; step++) {
        const double mean = mean_of(theta, f->classes);
        memset(e, 0, sizeof *e);
        for (int i = 0; i < end; i++)
            if (i != left) add_sample(f, theta, &f->sample[i], e);
        for (int c = 0; c < f->classes; c++) {
            e->a[c][c] += pull;
            e->b[c] += pull * (mean - theta[c]);
        }
        solve(e->a, e->b, f->classes);
        for (int c = 0; c < f->classes; c++)
            theta[c] = fmax(-most, fmin(most, theta[c] + fmax(-1, fmin(1, e->b[c]))));
    }
}

/* All factors alike: where the steps begin. */
static double level(const mnem_forecaster *f, int end) {
    double sum = 0;
    const double zero[C] = {0};
    for (int i = 0; i < end; i++)
        sum += f->sample[i].log_y - log(predicted(f, zero, &f->sample[i]));
    return end ? fmax(-most, fmin(most, sum / end)) : 0;
}

static double residual_of(const mnem_forecaster *f, const double *theta, const sample *s) {
    return s->log_y - log(predicted(f, theta, s));
}

/* Of runs in their order, so that a machine that drifts shows it. past: of the runs before, where
 * each fit begins. */
static void judge(mnem_forecaster *f) {
    normal e;
    double theta[C], past[C];
    int earlier[MNEM_PHASE_COUNT] = {0};
    for (int c = 0; c < f->classes; c++) past[c] = level(f, 1);
    for (int i = 0; i < f->samples; i++) {
        sample *s = &f->sample[i];
        fit(f, i, -1, STEPS_WITHOUT, past, &e);
        if (earlier[s->phase]++ < EARLIER) {
            memcpy(theta, f->theta, sizeof theta);
            fit(f, f->samples, i, STEPS_WITHOUT, theta, &e);
            s->residual = residual_of(f, theta, s);
        } else {
            s->residual = residual_of(f, past, s);
        }
    }
}

void mnem_forecaster_learn(mnem_forecaster *f) {
    normal e;
    if (!f->samples) return;
    for (int c = 0; c < f->classes; c++) f->theta[c] = level(f, f->samples);
    fit(f, f->samples, -1, STEPS, f->theta, &e);
    f->mean = mean_of(f->theta, f->classes);
    judge(f);
}

/* ---- forecasts ---- */

/* Of |residuals| of a phase, ascending. */
static int residuals(const mnem_forecaster *f, mnem_phase phase, double *out) {
    int n = 0;
    for (int i = 0; i < f->samples; i++) {
        const double r = fabs(f->sample[i].residual);
        int at = n;
        if (f->sample[i].phase != phase) continue;
        for (; at > 0 && out[at - 1] > r; at--) out[at] = out[at - 1];
        out[at] = r;
        n++;
    }
    return n;
}

/* Two-sided 95 % of Student's t, of 7 to 17 degrees of freedom. */
static double student(int n) {
    static const double t[] = {2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
                               2.160, 2.145, 2.131, 2.120, 2.110};
    return t[n - 8];
}

static double half_width(const double *r, int n, mnem_forecast_band *band) {
    double sum = 0;
    if (n < 8) return 0;
    *band = n < 19 ? MNEM_BAND_STUDENT : MNEM_BAND_CONFORMAL;
    if (n >= 19) return r[(int)ceil(0.95 * (n + 1)) - 1];
    for (int i = 0; i < n; i++) sum += r[i] * r[i];
    return fmax(r[n - 1], student(n) * sqrt(sum / n * (1 + 1.0 / n)));
}

static double learned(const mnem_forecaster *f, const mnem_work *work, int32_t works,
                      int32_t threads) {
    double y = 0;
    for (int32_t i = 0; i < works; i++) {
        const int c = class_of((mnem_forecaster *)f, &work[i], threads, false);
        y += exp(c < 0 ? f->mean : f->theta[c]) * roof_seconds(f, &work[i]);
    }
    return y;
}

mnem_forecast mnem_forecast_make(const mnem_forecaster *f, mnem_phase phase, const mnem_work *work,
                                 int32_t works, int32_t threads, double plan_seconds) {
    double r[N];
    mnem_forecast out = {.band = MNEM_BAND_NONE};
    const int n = residuals(f, phase, r);
    const double width = half_width(r, n, &out.band);
    out.runs = n;
    out.error = n ? expm1(r[n / 2]) : 0;
    if (out.band != MNEM_BAND_NONE) {
        out.seconds = learned(f, work, works, threads);
        out.low = out.seconds * exp(-width);
        out.high = out.seconds * exp(width);
        return out;
    }
    out.seconds = plan_seconds > 0 ? plan_seconds : n ? learned(f, work, works, threads) : 0;
    if (out.seconds <= 0) return out;
    out.band = MNEM_BAND_PLAN;
    out.low = out.seconds / 1.2;
    out.high = out.seconds * 1.2;
    return out;
}
