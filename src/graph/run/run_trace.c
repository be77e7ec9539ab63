/* run_trace.c: the events of a run: when each node began, its name, bytes and products.
 *
 * Idea: worker 0 records its own walk. An operator's event has its name, bytes and multiply-adds; a
 * program that runs again with the same number of tokens repeats most of them, so that only the
 * times of its operators are recorded then.
 * Cost: an event takes about 2 % of the time of a small model's operator; nothing is allocated. */
#include <stdio.h>
#include <string.h>

#include "base/event.h"
#include "graph/run/run_private.h"
#include "mnem/op_query.h"

/* The matrix's name in the file, without ".weight"; NULL: it has none. */
static const char *matrix_name(const mnem__run *r, const mnem__graph_step *step, char made[64]) {
    const mnem_graph_weights *weights = r->args->weights;
    const mnem_op_kind kind = step->op.desc.kind;
    if (!weights || !weights->name || (kind != MNEM_OP_MATMUL && kind != MNEM_OP_EXPERTS))
        return NULL;
    const char *name = weights->name(weights->context, step->matrix);
    if (!name) return NULL;
    const size_t n = strlen(name);
    const bool plain = n > 7 && !strcmp(name + n - 7, ".weight");
    snprintf(made, 64, "%.*s", (int)(plain ? n - 7 : n), name);
    return made;
}

/* "matmul blk.0.attn_q", "rms_norm blk.3 hidden": an operator with its matrix or its output. */
static uint32_t node_name(mnem__event_sink *sink, const mnem__run *r, int32_t i) {
    char made[64];
    const mnem__graph_step *step = &r->graph->step[i];
    const mnem__graph_tensor *out = &r->graph->tensor[step->out];
    const char *more = matrix_name(r, step, made);
    if (!more && out->name) {
        more = made;
        if (out->number >= 0)
            snprintf(made, sizeof made, "blk.%d %s", out->number, out->name);
        else
            snprintf(made, sizeof made, "%s", out->name);
    }
    const mnem__event_key key = {
        .sort = MNEM__NAME_PLAIN, .text = mnem_op_text(step->op.desc.kind), .more = more};
    return sink->name(sink, &key);
}

/* The cost of the whole matrix, whichever chunks of it this walk multiplies by. */
static mnem_op_cost cost_asked(const mnem__run *r, const mnem__graph_step *step) {
    mnem__bound b;
    mnem__run_bind(r, step, &b);
    b.args.row_end = step->op.desc.in[1].shape[0];
    return mnem_op_cost_get(&step->op, &b.args);
}

/* Bytes and multiply-adds of a node. */
static void cost_of(const mnem__run *r, const mnem__graph_step *step, uint64_t *bytes,
                    uint64_t *products) {
    const mnem__op_rate *rate = &step->rate;
    const int64_t first = step->tail ? r->args->first_row : 0;
    const int64_t tokens = r->args->tokens - first;
    *bytes = *products = 0;
    if (tokens <= 0) return;
    if (!rate->known) {
        const mnem_op_cost cost = cost_asked(r, step);
        *bytes = cost.bytes_read + cost.bytes_written;
        *products = cost.multiply_adds;
        return;
    }
    *bytes = rate->bytes + (uint64_t)tokens * rate->token_bytes;
    *products = (uint64_t)tokens * rate->token_products;
    if ((!rate->position_bytes && !rate->state_bytes) || !r->args->kv) return;
    const mnem_kv_sequence *kv = r->args->kv + (int64_t)step->layer * r->args->kv_count;
    mnem_kv_sequence of_tail;
    if (first > 0) {
        of_tail = *kv;
        of_tail.first_position += (int32_t)first;
        of_tail.rows -= (int32_t)first;
        kv = &of_tail;
    }
    mnem__op_rate_pages(rate, &step->op, kv, r->args->kv_count, bytes, products);
}

/* The name is composed for the first event only, since that takes ten times as long as an event.
 * Two runs of one graph may both compose it, with the same result. */
static uint32_t name_of(mnem__event_sink *sink, const mnem__run *r, int32_t i) {
    _Atomic uint64_t *named = &r->graph->step[i].named;
    const uint64_t there = atomic_load_explicit(named, memory_order_relaxed);
    if (__builtin_expect(there >> 32 == sink->generation, 1)) return (uint32_t)there;
    const uint32_t name = node_name(sink, r, i);
    atomic_store_explicit(named, (uint64_t)sink->generation << 32 | name, memory_order_relaxed);
    return name;
}

static void trace_end(const mnem__run *r, int32_t i) {
    uint64_t bytes, products;
    cost_of(r, &r->graph->step[i], &bytes, &products);
    mnem__event_sink *sink = mnem__event_enter();
    if (sink)
        mnem__event_put(sink, MNEM__EVENT_END, name_of(sink, r, i), MNEM__SPAN_OPERATOR, products);
}

/* How a walk is recorded: with every operator in full, or only with the times of a program whose
 * operators an earlier walk has recorded. */
typedef struct recording {
    mnem__event_program program;
    int again;  /* index of that earlier record; -1: this walk is recorded in full */
    int whole;  /* index of the record that this walk makes; -1: none is kept */
    bool named; /* every operator so far has a name */
} recording;

/* Samples the resident bytes between two nodes, so that no node's time includes it: node i - 1 is
 * ended first. Returns the sink to go on with; NULL: tracing has ended meanwhile. */
static mnem__event_sink *sample_between(mnem__event_sink *sink, const mnem__run *r, int32_t i,
                                        uint64_t *now) {
    uint64_t bytes, products;
    cost_of(r, &r->graph->step[i - 1], &bytes, &products);
    mnem__event_put_at(sink, *now, MNEM__EVENT_END, name_of(sink, r, i - 1), MNEM__SPAN_OPERATOR,
                       products);
    mnem__event_sample();
    sink = mnem__event_enter();
    *now = mnem__event_counter();
    return sink;
}

/* Begins node i, which also ends node i - 1: one event for both, because two events take 2 % of the
 * time of a small model's operator. Where an earlier walk has recorded the operators, one event
 * holds the times of four. */
static void trace_begin(recording *t, const mnem__run *r, int32_t i, bool within) {
    const mnem__graph_step *step = &r->graph->step[i];
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    uint64_t now = mnem__event_counter(), bytes, products, value;
    if (__builtin_expect(within && mnem__event_sample_due(now), 0))
        if (!(sink = sample_between(sink, r, i, &now))) return;
    if (t->again >= 0 && step->steady && mnem__event_put_again(sink, now, t->again, (uint32_t)i))
        return;
    cost_of(r, step, &bytes, &products);
    const uint32_t small = mnem__event_operator(bytes, products, &value);
    const uint32_t name = name_of(sink, r, i);
    t->named = t->named && name != MNEM__NAME_NONE;
    mnem__event_put_at(sink, now, MNEM__EVENT_OPERATOR, name, small, value);
}

static mnem__event_program program_of(const mnem__run *r) {
    return (mnem__event_program){.number = r->graph->number,
                                 .from = r->from,
                                 .to = r->to,
                                 .tokens = r->args->tokens,
                                 .first_row = r->args->first_row};
}

mnem_status mnem__run_traced(mnem__walk *w, int32_t *i) {
    const mnem__run *r = w->run;
    const int32_t first = *i;
    const uint64_t begun = mnem__event_counter();
    mnem_status status = MNEM_OK;
    recording t = {.program = program_of(r), .whole = -1, .named = true};
    t.again = mnem__event_program_told(&t.program);
    if (t.again < 0 && first == r->from) t.whole = mnem__event_program_begin(&t.program);
    while (*i < r->to && status == MNEM_OK) {
        trace_begin(&t, r, *i, *i > first);
        status = mnem__run_step(w, *i);
        *i += status == MNEM_OK;
    }
    if (*i > first || status != MNEM_OK) trace_end(r, status == MNEM_OK ? *i - 1 : *i);
    if (t.named && status == MNEM_OK) mnem__event_program_end(t.whole, &t.program);
    if (t.again >= 0) mnem__event_program_again(t.again, mnem__event_counter() - begun, *i - first);
    mnem__event_sample();
    return status;
}

bool mnem__run_is_traced(const mnem__run *r) {
    if (!mnem__event_told()) return false;
    const mnem__event_program p = program_of(r);
    return r->at > r->from || !mnem__event_program_leave_out(&p);
}
