/* run_experts.c: where an EXPERTS node gets its experts: from memory, or one by one from a source.
 *
 * Resident ones are pointers that every member makes for itself. Others come at a meeting each, as
 * chunks do: worker 0 takes the next one before it, and gives the last one back after it. A failure
 * is told in the notice, so that all members leave the operator at the same expert.
 * Cost: a meeting for each expert that isn't resident. */
#include "base/error.h"
#include "graph/run/run_private.h"
#include "ops/core/op_experts.h"

typedef struct experts {
    mnem__walk *walk;
    const mnem__graph_step *step;
    const mnem_op_args *args;
    const uint8_t *packed[3]; /* of expert 0, resident */
    uint64_t bytes[3];        /* of one expert */
    mnem_status status;
} experts;

/* ---- resident ---- */

static bool find_resident(experts *x) {
    const mnem_graph_weights *weights = x->walk->run->args->weights;
    const mnem_tensor *in = x->step->op.desc.in;
    const int64_t number = mnem__experts_count(&x->step->op.desc);
    int32_t handle = x->step->matrix;
    for (int i = 0; i < 3; i++) {
        const mnem_tensor *all = &in[1 + i];
        if (all->dims == 0) continue;
        x->packed[i] = weights->resident(weights->context, handle++);
        if (!x->packed[i]) return false;
        x->bytes[i] = mnem_pack_bytes(all->type, all->shape[0] / number, all->shape[1]);
    }
    return true;
}

static void want_nothing(void *context, const int32_t *numbers, int32_t count, bool in_order) {
    (void)context, (void)numbers, (void)count, (void)in_order;
}

static bool next_resident(void *context, const mnem_worker *worker, int32_t at,
                          mnem_op_expert *expert) {
    const experts *x = context;
    (void)worker, (void)at;
    for (int i = 0; i < 3; i++)
        expert->packed[i] =
            x->packed[i] ? x->packed[i] + (uint64_t)expert->number * x->bytes[i] : NULL;
    return true;
}

/* ---- from a source ---- */

enum { GUESSED_MOST = 512 };

/* The experts of all tokens' guesses; weight[number] is the sum of what a router gives it. */
static int32_t collect_guess(const experts *x, float weight[GUESSED_MOST], int32_t *numbers) {
    const mnem_tensor *routes = &x->step->op.desc.in[6];
    const int64_t used = routes->shape[1] / 2;
    const mnem_op_desc *d = &x->step->op.desc;
    const int32_t first = d->apart ? d->axis : 0;
    const int64_t here = mnem__experts_count(d);
    bool seen[GUESSED_MOST] = {false};
    int32_t count = 0;
    const char *row = (const char *)x->args->in[6] + routes->offset;
    for (int64_t t = 0; t < x->args->tokens; t++, row += routes->stride[0]) {
        const float *route = (const void *)row;
        for (int64_t i = 0; i < used; i++) {
            const float of = route[i] - (float)first; /* of those that are here */
            if (!(of >= 0 && of < GUESSED_MOST && of < (float)here)) continue;
            const int32_t number = (int32_t)of;
            if (!seen[number]) numbers[count++] = number;
            seen[number] = true;
            weight[number] += route[used + i];
        }
    }
    return count;
}

static void sort_by_weight(const float *weight, int32_t *numbers, int32_t count) {
    for (int32_t i = 1; i < count; i++) {
        const int32_t number = numbers[i];
        int32_t at = i;
        for (; at > 0 && weight[numbers[at - 1]] < weight[number]; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
}

/* Told after what is wanted for sure, the most certain first: there may be time for a few only. */
static void tell_guess(const experts *x) {
    const mnem_graph_weights *weights = x->walk->run->args->weights;
    float weight[GUESSED_MOST] = {0};
    int32_t numbers[GUESSED_MOST];
    if (!x->step->in[6] || !weights->experts->guess) return;
    const int32_t count = collect_guess(x, weight, numbers);
    sort_by_weight(weight, numbers, count);
    weights->experts->guess(weights->context, x->step->guess, numbers, count);
}

static void want(void *context, const int32_t *numbers, int32_t count, bool in_order) {
    experts *x = context;
    mnem__run *r = x->walk->run;
    const mnem_graph_weights *weights = r->args->weights;
    r->status = weights->experts->want(weights->context, x->step->matrix, numbers, count, in_order);
    if (r->status == MNEM_OK) tell_guess(x);
}

static bool next(void *context, const mnem_worker *worker, int32_t at, mnem_op_expert *expert) {
    experts *x = context;
    (void)worker, (void)at;
    const mnem__notice *n = mnem__run_meet(x->walk, MNEM__HOLDS_EXPERT, x->step->matrix);
    x->status = n->status;
    if (n->status == MNEM_OK) *expert = n->taken.expert.expert;
    return n->status == MNEM_OK;
}

static mnem_status no_source(mnem__walk *w) {
    const mnem_status status =
        mnem__fail(MNEM_INVALID, "graph: the experts are streamed, but args.weights->experts, "
                                 "which reads them, is NULL; set it");
    if (w->worker->index == 0) w->run->status = status;
    return status;
}

mnem_status mnem__run_experts(mnem__walk *w, const mnem__graph_step *step, mnem_op_args *args) {
    experts x = {.walk = w, .step = step, .args = args};
    if (args->tokens == 0) return MNEM_OK;
    const bool resident = find_resident(&x);
    if (!resident && !w->run->args->weights->experts) return no_source(w);
    const mnem_op_experts source = {resident ? want_nothing : want, resident ? next_resident : next,
                                    &x};
    args->experts = &source;
    mnem_op_run(&step->op, args, w->worker);
    return x.status;
}
