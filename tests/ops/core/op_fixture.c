/* op_fixture.c: see op_fixture.h. */
#include "ops/core/op_fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"

uint64_t rng_next(rng *r) {
    r->state += 0x9e3779b97f4a7c15u;
    uint64_t z = r->state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float rng_float(rng *r) {
    return (float)((double)(rng_next(r) >> 11) * 0x1p-52 - 1.0);
}

int rng_int(rng *r, int least, int most) {
    return least + (int)(rng_next(r) % (uint64_t)(most - least + 1));
}

void rng_fill(rng *r, float *x, int64_t n, float size) {
    for (int64_t i = 0; i < n; i++) x[i] = rng_float(r) * size;
}

typedef struct call {
    const mnem_op *op;
    const mnem_op_args *args;
} call;

static void run_call(const mnem_worker *worker, void *context) {
    const call *c = context;
    mnem_op_run(c->op, c->args, worker);
}

void op_run_prepared(const mnem_op *op, int workers, mnem_op_args args) {
    mnem_team *team = NULL;
    assert_int_equal(mnem_team_create(workers, &team), MNEM_OK);
    void *workspace = aligned_alloc(64, (op->workspace_bytes + 63) / 64 * 64);
    if (op->workspace_bytes) memset(workspace, 0xff, op->workspace_bytes);
    args.workspace = workspace;
    mnem_team_run(team, run_call, &(call){op, &args});
    mnem_team_destroy(team);
    free(workspace);
}

void op_run(mnem_op_desc desc, int workers, mnem_op_args args) {
    mnem_op op;
    desc.workers = workers;
    if (mnem_op_prepare(&desc, &op) != MNEM_OK) fail_msg("%s", mnem_last_error());
    op_run_prepared(&op, workers, args);
}

void op_refused(const mnem_op_desc *desc, const char *text) {
    mnem_op op;
    assert_int_equal(mnem_op_prepare(desc, &op), MNEM_INVALID);
    if (!strstr(mnem_last_error(), text)) fail_msg("%s", mnem_last_error());
}

double op_difference(const float *a, const float *b, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double difference = fabs((double)a[i] - b[i]) / (1.0 + fabs((double)b[i]));
        if (!(difference <= most)) most = difference; /* a NaN stays */
        if (isnan(difference)) return difference;
    }
    return most;
}
