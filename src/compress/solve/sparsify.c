/* sparsify.c: two of each four columns become zeros.
 *
 * SparseGPT's price of a column is (w / U_jj)^2, where U is the Cholesky factor of the inverse
 * Hessian: d_j is 1 / U_jj. */
#include "compress/solve/sparsify.h"

#include <math.h>

#include "base/checked.h"
#include "compress/solve/plane.h"

enum { GROUP = MNEM__PLANE_GROUP };

/* A bit for each of the two columns that are kept. */
static unsigned dearest(const float *price) {
    unsigned kept = 0;
    for (int i = 0; i < GROUP; i++) {
        int dearer = 0;
        for (int s = 0; s < GROUP; s++)
            dearer += price[s] > price[i] || (price[s] == price[i] && s < i);
        if (dearer < GROUP / 2) kept |= 1u << i;
    }
    return kept;
}

typedef struct job {
    const mnem__sparsegpt *s;
    uint8_t *kept; /* [rows]: kept columns of the current group */
} job;

static uint64_t kept_bytes(int64_t rows) {
    return mnem__align_up((uint64_t)rows, 64);
}

uint64_t mnem__sparsegpt_bytes(int64_t k, int64_t rows, int workers) {
    return kept_bytes(rows) + mnem__plane_bytes(k, rows, workers);
}

static void look(void *context, int64_t row, int64_t column, const float *want, const float *d) {
    const job *j = context;
    float price[GROUP];
    (void)column;
    for (int i = 0; i < GROUP; i++) price[i] = fabsf(want[i] * d[i]);
    j->kept[row] = (uint8_t)dearest(price);
}

static float choose(void *context, int64_t row, int64_t column, float want) {
    const job *j = context;
    const bool stays = j->kept[row] >> column % GROUP & 1;
    return j->s->out[row * j->s->factor->k + column] = stays ? want : 0;
}

void mnem__sparsegpt_run(const mnem__sparsegpt *sparse, void *workspace, mnem_team *team) {
    job j = {.s = sparse, .kept = workspace};
    mnem__plane_run(&(mnem__plane){.factor = sparse->factor,
                                   .rows = sparse->rows,
                                   .weights = sparse->weights,
                                   .losses = sparse->losses,
                                   .context = &j,
                                   .choose = choose,
                                   .look = look},
                    (char *)workspace + kept_bytes(sparse->rows), team);
}
