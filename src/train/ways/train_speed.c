/* train_speed.c: how long a step will take on this machine, told before the first one.
 *
 * Idea: nearly all of a step is products, and the plan counts everything else as the products that
 * take the same time. So time a product of the model's own width with both of its gradients, and
 * multiply; the update of the weights is traffic, at a nominal rate.
 * Invariant: what it takes for a moment is given back before it returns. Cost: 0.1 s. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/team/team.h"
#include "plan/plan_machine.h"
#include "train/ways/train_plan.h"

enum { TOKENS_MOST = 512, ROW_STEP = 16 };
static const double macs_most = 3e8, seconds_least = 0.1;
static const char TAG[] = "speed test";

typedef struct probe {
    mnem_op op[3]; /* LINEAR and its gradients of input and weight */
    mnem_op_args args[3];
    double macs; /* of all three */
    mnem_block block;
} probe;

static mnem_status prepare(probe *p, const mnem_train_options *o, int64_t tokens, int threads) {
    const int64_t k = o->shape.embd;
    int64_t rows = (int64_t)(macs_most / (3 * (double)tokens * (double)k)) / ROW_STEP * ROW_STEP;
    if (rows < ROW_STEP) rows = ROW_STEP;
    if (rows > o->shape.ff) rows = o->shape.ff;
    const mnem_tensor x = mnem_tensor_2d(o->compute, tokens, k);
    const mnem_tensor y = mnem_tensor_2d(o->compute, tokens, rows);
    const mnem_tensor w = mnem_tensor_2d(MNEM_TYPE_F32, rows, k);
    const mnem_op_desc descs[3] = {
        {.kind = MNEM_OP_LINEAR, .in = {x, w}, .out = y, .workers = threads},
        {.kind = MNEM_OP_LINEAR_GRAD_INPUT, .in = {y, w}, .out = x, .workers = threads},
        {.kind = MNEM_OP_LINEAR_GRAD_WEIGHT, .in = {y, x}, .out = w, .workers = threads}};
    mnem_status status = MNEM_OK;
    for (int i = 0; i < 3 && status == MNEM_OK; i++) status = mnem_op_prepare(&descs[i], &p->op[i]);
    p->macs = 3 * (double)tokens * (double)rows * (double)k;
    return status;
}

static uint64_t room_of(const mnem_tensor *tensor) {
    return (mnem_tensor_bytes(tensor) + 63) / 64 * 64;
}

/* x, y, the weight, its gradient, and the largest workspace, one behind the other. */
static mnem_status take_probe(probe *p, mnem_ledger *ledger, mnem_device *device) {
    const mnem_op_desc *forward = &p->op[0].desc;
    const uint64_t x = room_of(&forward->in[0]), w = room_of(&forward->in[1]);
    const uint64_t y = room_of(&forward->out);
    uint64_t workspace = 0;
    for (int i = 0; i < 3; i++)
        if (p->op[i].workspace_bytes > workspace) workspace = p->op[i].workspace_bytes;
    MNEM__TRY(mnem_ledger_alloc(ledger, device, MNEM_KIND_WORKSPACE, TAG, x + y + 2 * w + workspace,
                                64, &p->block));
    uint8_t *at = mnem_block_host(&p->block);
    memset(at, 0, x + y + 2 * w + workspace);
    uint8_t *const at_y = at + x, *const at_w = at_y + y, *const at_dw = at_w + w;
    p->args[0] = (mnem_op_args){.in = {at, at_w}, .out = at_y};
    p->args[1] = (mnem_op_args){.in = {at_y, at_w}, .out = at};
    p->args[2] = (mnem_op_args){.in = {at_y, at}, .out = at_dw};
    for (int i = 0; i < 3; i++) {
        p->args[i].tokens = forward->in[0].shape[0];
        p->args[i].workspace = at_dw + w;
    }
    return MNEM_OK;
}

static void run_probe(const mnem_worker *worker, void *context) {
    const probe *p = context;
    for (int i = 0; i < 3; i++) {
        mnem_op_run(&p->op[i], &p->args[i], worker);
        mnem_team_barrier(worker);
    }
}

/* Multiply-adds a second of the fastest run, after a first one that warms up: what else the machine
 * does only ever makes one slower. */
static double rate(probe *p, mnem_team *team) {
    mnem_team_run(team, run_probe, p);
    const double begin = mnem__seconds();
    double fastest = INFINITY;
    for (double at = begin, now; at - begin < seconds_least; at = now) {
        mnem_team_run(team, run_probe, p);
        now = mnem__seconds();
        fastest = mnem__min_f64(fastest, now - at);
    }
    return p->macs / mnem__max_f64(fastest, 1e-9);
}

static double seconds_of(const mnem_train_plan *plan, double rate) {
    /* weights, gradients and moments: read and written */
    const uint64_t traffic =
        2 * (plan->weight_bytes + plan->gradient_bytes + plan->optimizer_bytes);
    return plan->macs_per_step / rate + (double)traffic / mnem__plain_machine.traffic_bytes_per_s;
}

mnem_status mnem_train_seconds(const mnem_train_options *options, const mnem_train_plan *plan,
                               double *seconds) {
    mnem__train_setup setup;
    mnem_device *device = NULL;
    mnem_team *team = NULL;
    probe p = {.macs = 0};
    *seconds = 0;
    MNEM__TRY(mnem__train_setup_init(&setup, options));
    const int64_t tokens = (int64_t)plan->micro_batch * setup.o.sequence;
    mnem_status status =
        prepare(&p, &setup.o, tokens < TOKENS_MOST ? tokens : TOKENS_MOST, plan->threads);
    if (status == MNEM_OK) status = mnem_device_open("host", NULL, &device);
    if (status == MNEM_OK) status = take_probe(&p, options->ledger, device);
    if (status == MNEM_OK) status = mnem_team_create(plan->threads, &team);
    if (status == MNEM_OK) {
        mnem__team_adapt(team);
        *seconds = seconds_of(plan, rate(&p, team));
    }
    mnem_team_destroy(team);
    if (p.block.bytes) mnem_ledger_free(options->ledger, MNEM_KIND_WORKSPACE, TAG, &p.block);
    mnem_device_close(device);
    mnem__train_setup_fini(&setup);
    return status;
}
