/* solver.c: collects the Hessians of a layer's inputs, then solves the layer's matrices with
 * them.
 *
 *     walk, sequence by sequence:  rows of a sequence ─► H += X^T X       of each input
 *     end of the layer:            H ─► factor ─► scales, if asked for ─► of each matrix:
 *                                  rows ─► rounded, weighed by H's diagonal ─► GPTQ ─► the file
 *
 * Invariant: each sequence is added at once, however many tokens the walk runs together, so that
 * codes depend neither on the budget nor on the team. Cost: H of a layer's inputs, k^2 numbers
 * each; GPTQ's products. */
#include <string.h>

#include "base/error.h"
#include "base/minmax.h"
#include "compress/solve/hessian.h"
#include "compress/solver_private.h"

/* More than GPTQ's 0.01, which improves other texts after calibration on a text as long as a
 * book. */
static const double DAMPING = 0.05;

int32_t mnem__solver_tensor_of(const mnem__solver *s, const mnem_tensor_info *matrix) {
    return mnem_model_tensor_find(s->model, matrix->name);
}

static bool is_solved(const mnem__solver *s, const mnem_tensor_info *matrix) {
    const int32_t tensor = mnem__solver_tensor_of(s, matrix);
    return tensor >= 0 && s->tensors[tensor].at;
}

mnem_status mnem__solver_run(mnem__solver *s, void (*run)(const mnem_worker *, void *)) {
    memset(s->status, 0, sizeof s->status);
    mnem_team_run(s->team, run, s);
    for (int i = 0; i < MNEM_TEAM_MAX; i++) MNEM__TRY(s->status[i]);
    return MNEM_OK;
}

/* ---- inputs ---- */

/* [h][rows][square][scale][d][order], as mnem__solver_input_bytes counts them. */
float *mnem__solver_lay_input(const mnem__solver *s, mnem__solver_input *input, int64_t k,
                              float *at) {
    input->h = at;
    input->rows = input->h + k * k;
    input->square = input->rows + k * s->chunk;
    input->scale = input->square + k;
    input->factor.d = input->scale + k;
    input->factor.order = (uint32_t *)(void *)(input->factor.d + k);
    memset(input->h, 0, (size_t)(k * k) * sizeof(float));
    for (int64_t c = 0; c < k; c++) input->scale[c] = 1;
    input->exponent = mnem__solver_scales(s) ? -1 : 0;
    return at + mnem__solver_input_bytes(s, k) / sizeof(float);
}

static mnem_status begin(void *context, const mnem_walk_layer *layer) {
    mnem__solver *s = context;
    float *at = s->pool;
    if (layer->matrices > MNEM__SOLVER_MATRICES)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "solve: a layer has %d matrices, more than this version supports",
                          layer->matrices);
    memset(s->input, 0, sizeof s->input);
    for (int32_t i = 0; i < layer->matrices; i++) {
        const mnem_tensor_info *matrix = &layer->matrix[i];
        mnem__solver_input *input = &s->input[layer->same[i]];
        if (input->h || !is_solved(s, matrix)) continue;
        at = mnem__solver_lay_input(s, input, matrix->shape[matrix->dims - 1], at);
    }
    return MNEM_OK;
}

static void see(void *context, const mnem_walk_input *seen, const mnem_worker *worker) {
    const mnem__solver *s = context;
    const mnem__solver_input *input = &s->input[seen->matrix];
    const int64_t k = seen->columns;
    int64_t first, last;
    if (seen->same != seen->matrix || !input->h) return;
    mnem_team_split(worker, seen->rows, 1, &first, &last);
    for (int64_t t = first; t < last; t++)
        memcpy(input->rows + (seen->position + t) * k, seen->x + t * seen->stride,
               (size_t)k * sizeof(float));
    if (seen->position + seen->rows < s->chunk) return;
    mnem_team_barrier(worker);
    mnem__hessian_add(s->chunk, k, input->rows, k, input->h, s->workspace, worker);
    mnem_team_barrier(worker); /* the next input uses the same workspace */
}

/* ---- the end of a layer ---- */

mnem_status mnem__solver_factor(mnem__solver *s, mnem__solver_input *input,
                                const mnem_tensor_info *matrix) {
    mnem__factor *f = &input->factor;
    const int64_t k = matrix->shape[matrix->dims - 1];
    double sum = 0;
    for (int64_t c = 0; c < k; c++) {
        input->square[c] = input->h[c * k + c];
        sum += (double)input->square[c];
    }
    f->k = k;
    f->h = input->h;
    f->damping = DAMPING;
    f->in_order = s->way == MNEM__SOLVER_SPARSE; /* groups of four must stay adjacent */
    const mnem_status status = mnem__factor_make(f, s->workspace, s->team);
    if (status != MNEM_OK) return mnem__fail_in(status, "%s", matrix->name);
    input->damping = sum > 0 ? f->damping * sum / (double)k : 1;
    return MNEM_OK;
}

static mnem_status end(void *context, const mnem_walk_layer *layer) {
    mnem__solver *s = context;
    for (int32_t i = 0; i < layer->matrices; i++)
        if (s->input[i].h) MNEM__TRY(mnem__solver_factor(s, &s->input[i], &layer->matrix[i]));
    MNEM__TRY(mnem__solver_scale(s, layer));
    for (int32_t i = 0; i < layer->matrices; i++)
        if (is_solved(s, &layer->matrix[i])) MNEM__TRY(mnem__solver_matrix(s, layer, i));
    return MNEM_OK;
}

/* Whether the walk can use the solved weights, in the types of the file. */
static bool holds_solved(const mnem__solver *s) {
    mnem_tensor_info t;
    const int32_t output = mnem__solver_output_tensor(s);
    for (int32_t i = 0; mnem_model_tensor_get(s->model, (uint32_t)i, &t); i++)
        if (i != output && s->tensors[i].at && mnem_type_get(t.type)->block_elements > 1)
            return false;
    return true;
}

static mnem_walk_watcher watcher_of(mnem__solver *s) {
    const int32_t output = mnem__solver_output_tensor(s);
    s->again = holds_solved(s);
    return (mnem_walk_watcher){.begin = begin,
                               .input = see,
                               .end = end,
                               .states = output >= 0 && s->tensors[output].at ? mnem__solver_states
                                                                              : NULL,
                               .context = s,
                               .again = s->again};
}

/* ---- the walk ---- */

/* Plans as if the block and the team were allocated. */
static mnem_status plan(mnem__solver *s, const mnem_solve_options *o) {
    mnem_walk_watcher watcher = watcher_of(s);
    mnem_walk_options options = o->walk;
    watcher.bytes = mnem__solver_memory(s);
    options.plan_only = true;
    return mnem_walk(s->model, &options, o->ids, o->sequences, &watcher, o->report);
}

mnem_status mnem__solver_walk(mnem__solver *s, const mnem_solve_options *o, const char *to) {
    mnem_walk_options options = o->walk;
    MNEM__TRY(mnem__solver_init(s));
    if (s->bytes == 0) return MNEM_OK;
    MNEM__TRY(plan(s, o));
    if (o->walk.plan_only) return MNEM_OK;
    MNEM__TRY(mnem__solver_take(s, options.ledger));
    MNEM__TRY(mnem__solver_file_open(s, to));
    const mnem_walk_watcher watcher = watcher_of(s);
    /* Both are freed by then. */
    options.later_bytes -= mnem__min_u64(options.later_bytes, mnem__solver_memory(s));
    return mnem_walk(s->model, &options, o->ids, o->sequences, &watcher, o->report);
}
