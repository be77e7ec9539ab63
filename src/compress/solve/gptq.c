/* gptq.c: chooses for each column the code nearest to the value that the plane requests.
 *
 * Cost: that of the plane, and a scale and a minimum for each 16 weights in the workspace. */
#include "compress/solve/gptq.h"

#include "base/checked.h"
#include "compress/solve/plane.h"
#include "compress/solve/type_codes.h"

typedef struct job {
    const mnem__gptq *g;
    const mnem__pack_form *form;
    uint64_t row_bytes;
    mnem__code_scale *scales; /* [rows, k / 16] */
} job;

bool mnem__gptq_takes(mnem_type type) {
    return mnem__codes_form(type) != NULL;
}

static uint64_t scales_bytes(int64_t k, int64_t rows) {
    return mnem__align_up((uint64_t)(rows * (k / 16)) * sizeof(mnem__code_scale), 64);
}

uint64_t mnem__gptq_bytes(int64_t k, int64_t rows, int workers) {
    return scales_bytes(k, rows) + mnem__plane_bytes(k, rows, workers);
}

static float choose_code(void *context, int64_t row, int64_t column, float want) {
    const job *j = context;
    const mnem__gptq *g = j->g;
    const mnem__code_scale scale = j->scales[row * (g->factor->k / 16) + column / 16];
    const float times = (g->across ? g->across[column] : 1) * (g->down ? g->down[row] : 1);
    uint8_t *raw = g->raw + (uint64_t)row * j->row_bytes;
    return mnem__codes_put(j->form, scale, raw, column, want * times) / times;
}

static void read_scales(const mnem_worker *worker, void *context) {
    const job *j = context;
    const int64_t k = j->g->factor->k;
    int64_t begin, end;
    mnem_team_split(worker, j->g->rows, 1, &begin, &end);
    for (int64_t row = begin; row < end; row++)
        mnem__codes_scales(j->form, k, j->g->raw + (uint64_t)row * j->row_bytes,
                           j->scales + row * (k / 16));
}

void mnem__gptq_run(const mnem__gptq *gptq, void *workspace, mnem_team *team) {
    const int64_t k = gptq->factor->k;
    job j = {.g = gptq,
             .form = mnem__codes_form(gptq->type),
             .row_bytes = mnem_type_row_bytes(gptq->type, k),
             .scales = workspace};
    mnem_team_run(team, read_scales, &j);
    mnem__plane_run(&(mnem__plane){.factor = gptq->factor,
                                   .rows = gptq->rows,
                                   .weights = gptq->weights,
                                   .losses = gptq->losses,
                                   .context = &j,
                                   .choose = choose_code},
                    (char *)workspace + scales_bytes(k, gptq->rows), team);
}

typedef struct given {
    const float *chosen;
    int64_t k;
} given;

static float choose_given(void *context, int64_t row, int64_t column, float want) {
    const given *g = context;
    (void)want;
    return g->chosen ? g->chosen[row * g->k + column] : 0;
}

void mnem__loss_run(const mnem__factor *factor, int64_t rows, float *weights, const float *chosen,
                    double *losses, void *workspace, mnem_team *team) {
    given g = {chosen, factor->k};
    mnem__plane_run(&(mnem__plane){.factor = factor,
                                   .rows = rows,
                                   .weights = weights,
                                   .losses = losses,
                                   .context = &g,
                                   .choose = choose_given},
                    workspace, team);
}
