/* awq.c: tries exponents of the scales, each with all given rows.
 *
 * Scales of an exponent are divided by their geometric mean, so that they lie around 1. Sums of
 * errors are added in the order of rows: the choice doesn't depend on the team.
 * Cost: for each exponent the rounding of the rows, and with a factor a plane of them. */
#include "compress/solve/awq.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/minmax.h"
#include "compress/solve/gptq.h"

enum { EXPONENTS = 20 };

typedef struct job {
    const mnem__awq *awq;
    float *scales;  /* [k]: of this trial */
    float *weights; /* [k]: squares / scales^2 */
    float *mean;    /* [k]: root mean squares, equal for columns that share a scale */
    float *chosen;  /* [rows, k]: rounded rows, with the scales undone */
    float *copy;    /* [rows, k]: a copy of the rows, for the plane */
    double *losses; /* [rows] */
    uint8_t *raw;   /* [rows]: rounded */
    void *plane;
    const mnem__awq_matrix *matrix;
    mnem_status status[MNEM_TEAM_MAX];
} job;

static int64_t most_rows(const mnem__awq *awq) {
    int64_t most = 0;
    for (int i = 0; i < awq->count; i++) most = mnem__max_i64(most, awq->matrices[i].rows);
    return most;
}

static uint64_t most_raw(const mnem__awq *awq) {
    uint64_t most = 0;
    for (int i = 0; i < awq->count; i++) {
        const mnem__awq_matrix *m = &awq->matrices[i];
        most = mnem__max_u64(most, (uint64_t)m->rows * mnem_type_row_bytes(m->type, awq->k));
    }
    return most;
}

/* base NULL: only measures. */
static uint64_t carve(job *j, const mnem__awq *awq, int workers, char *base) {
    const int64_t k = awq->k, rows = most_rows(awq);
    uint64_t at = 0;
#define TAKE(pointer, count)                                                                       \
    do {                                                                                           \
        if (base) (pointer) = (void *)(base + at);                                                 \
        at += mnem__align_up((uint64_t)(count) * sizeof *(pointer), 64);                           \
    } while (0)
    TAKE(j->scales, k);
    TAKE(j->weights, k);
    TAKE(j->mean, k);
    TAKE(j->chosen, rows * k);
    TAKE(j->copy, awq->factor ? rows * k : 0);
    TAKE(j->losses, rows);
    TAKE(j->raw, most_raw(awq));
#undef TAKE
    if (base) j->plane = base + at;
    return at + (awq->factor ? mnem__gptq_bytes(k, rows, workers) : 0);
}

uint64_t mnem__awq_bytes(const mnem__awq *awq, int workers) {
    job j;
    return carve(&j, awq, workers, NULL);
}

/* ---- scales ---- */

/* The column that holds the sum of all columns with the same scale: the first of them. */
static int64_t first_sharer(const mnem__awq *awq, int64_t c) {
    if (awq->shared <= 1) return c;
    const int64_t all = awq->shared * awq->width;
    return c / all * all + c % awq->width;
}

/* Columns without any input count as a ten-thousandth of the largest. */
static void find_means(const job *j) {
    const mnem__awq *awq = j->awq;
    float most = 0;
    memset(j->mean, 0, (size_t)awq->k * sizeof(float));
    for (int64_t c = 0; c < awq->k; c++) j->mean[first_sharer(awq, c)] += awq->squares[c];
    for (int64_t c = 0; c < awq->k; c++) most = j->mean[c] > most ? j->mean[c] : most;
    for (int64_t c = awq->k - 1; c >= 0;
         c--) /* descending, since the first sharer holds the sum and must be last */
        j->mean[c] = sqrtf(fmaxf(j->mean[first_sharer(awq, c)], most * 1e-8f));
}

static void set_scales(const job *j, double exponent) {
    const mnem__awq *awq = j->awq;
    double sum = 0;
    for (int64_t c = 0; c < awq->k; c++) sum += log(fmax((double)j->mean[c], 1e-30));
    const double centre = sum / (double)awq->k;
    for (int64_t c = 0; c < awq->k; c++) {
        const double x = log(fmax((double)j->mean[c], 1e-30)) - centre;
        j->scales[c] = (float)exp(exponent * x);
        j->weights[c] = awq->squares[c] / (j->scales[c] * j->scales[c]);
    }
}

/* ---- a trial ---- */

static double diagonal_loss(const job *j, const float *row, const float *chosen) {
    double loss = 0;
    for (int64_t c = 0; c < j->awq->k; c++) {
        const double e = (double)row[c] - (double)chosen[c];
        loss += (double)j->awq->squares[c] * e * e;
    }
    return loss;
}

static mnem_status round_row(const job *j, int64_t r) {
    const mnem__awq *awq = j->awq;
    const mnem_type type = j->matrix->type;
    const int64_t k = awq->k;
    const float *row = j->matrix->weights + r * k;
    float *chosen = j->chosen + r * k;
    uint8_t *raw = j->raw + (uint64_t)r * mnem_type_row_bytes(type, k);
    for (int64_t c = 0; c < k; c++) chosen[c] = row[c] * j->scales[c];
    MNEM__TRY(awq->round(type, k, chosen, j->weights, raw));
    if (awq->factor) memcpy(j->copy + r * k, row, (size_t)k * sizeof(float));
    if (awq->codes) return MNEM_OK;
    MNEM__TRY(mnem_dequantize_row(type, k, raw, chosen));
    for (int64_t c = 0; c < k; c++) chosen[c] /= j->scales[c];
    if (!awq->factor) j->losses[r] = diagonal_loss(j, row, chosen);
    return MNEM_OK;
}

static void round_rows(const mnem_worker *worker, void *context) {
    job *j = context;
    int64_t begin, end;
    mnem_status status = MNEM_OK;
    mnem_team_split(worker, j->matrix->rows, 1, &begin, &end);
    for (int64_t r = begin; status == MNEM_OK && r < end; r++) status = round_row(j, r);
    j->status[worker->index] = status;
}

/* Computes the losses of rounded rows from the factor, or of their codes chosen by the plane. */
static void lose(const job *j, mnem_team *team) {
    const mnem__awq *awq = j->awq;
    const int64_t rows = j->matrix->rows;
    if (!awq->codes) {
        mnem__loss_run(awq->factor, rows, j->copy, j->chosen, j->losses, j->plane, team);
        return;
    }
    mnem__gptq_run(&(mnem__gptq){.factor = awq->factor,
                                 .type = j->matrix->type,
                                 .rows = rows,
                                 .weights = j->copy,
                                 .raw = j->raw,
                                 .losses = j->losses,
                                 .across = j->scales},
                   j->plane, team);
}

static mnem_status try_exponent(job *j, double exponent, mnem_team *team, double *loss) {
    const mnem__awq *awq = j->awq;
    *loss = 0;
    set_scales(j, exponent);
    for (int i = 0; i < awq->count; i++) {
        j->matrix = &awq->matrices[i];
        memset(j->status, 0, sizeof j->status);
        mnem_team_run(team, round_rows, j);
        for (int w = 0; w < MNEM_TEAM_MAX; w++) MNEM__TRY(j->status[w]);
        if (awq->factor) lose(j, team);
        double sum = 0;
        for (int64_t r = 0; r < j->matrix->rows; r++) sum += j->losses[r];
        *loss += sum * j->matrix->each;
    }
    return MNEM_OK;
}

mnem_status mnem__awq_search(mnem__awq *awq, void *workspace, mnem_team *team) {
    job j = {.awq = awq};
    carve(&j, awq, mnem_team_count(team), workspace);
    find_means(&j);
    const int trials = awq->exponents > 0 ? awq->exponents : EXPONENTS;
    for (int trial = 0; trial < trials; trial++) {
        const double exponent = (double)trial / trials;
        double loss;
        MNEM__TRY(try_exponent(&j, exponent, team, &loss));
        if (trial == 0) awq->loss_unscaled = loss;
        if (trial > 0 && !(loss < awq->loss)) continue;
        awq->loss = loss;
        awq->exponent = exponent;
        memcpy(awq->scales, j.scales, (size_t)awq->k * sizeof(float));
    }
    return MNEM_OK;
}
