/* reference.c: two models inside one budget.
 *
 * The idea: each model's ways to run, from the least bytes to the fastest, are what a budget can
 * buy of it. Of all pairs that fit together the one is taken that needs the least time for a text;
 * then each is planned as usual, with what the other will take charged meanwhile. Where weights are
 * read from disk, a larger buffer of logits saves passes, so its size is chosen with the pair.
 * Where ranks run the model the reference is rank 0's alone: a few of its ways are tried, each with
 * a plan of all ranks, who cut the model by what it leaves.
 *
 *     budget  [ live | the reference's share | the model's share | logits ]
 *
 * Invariant: both plans are made before anything is loaded, so a refusal costs nothing.
 * Cost: pairs of at most WAYS each, for a few sizes of the buffer. */
#include "verbs/measure/reference.h"

#include <stdlib.h>
#include <string.h>

#define SHARE_TAG  "the other model"
#define LOGITS_TAG "reference logits"

enum { WAYS = 128, ROWS_MOST = 512, TRIES = 8 };

/* One that a budget can buy. */
typedef struct way {
    uint64_t bytes; /* beyond what is live */
    double seconds; /* of a token of a text, chunks whole */
    double plain;   /* as predicted_seconds of a plan */
    int32_t chunk;
    bool streamed;
} way;

typedef struct ways {
    way way[WAYS]; /* from the least bytes to the fastest */
    int count;
    uint64_t live, step;
} ways;

/* ---- opening ---- */

static int refuse_vocabulary(const tool_stage *model, const tool_stage *reference,
                             const char *what) {
    mnem_model_info m, r;
    mnem_model_info_get(model->model, &m);
    mnem_model_info_get(reference->model, &r);
    return tool_failed(
        "the vocabularies of %s and %s differ (%s): --kl needs a model with the same "
        "vocabulary",
        m.path, r.path, what);
}

/* Ids must mean the same in both, for the text is cut into them once. */
static int check_vocabulary(const tool_stage *model, const tool_stage *reference) {
    char what[96];
    const int32_t vocab = model->transformer.vocab;
    mnem_value ours, theirs;
    if (reference->transformer.vocab != vocab) {
        snprintf(what, sizeof what, "%d tokens and %d", vocab, reference->transformer.vocab);
        return refuse_vocabulary(model, reference, what);
    }
    if (!mnem_model_key_find(model->model, "tokenizer.ggml.tokens", &ours))
        return refuse_vocabulary(model, reference, "the first has none");
    if (!mnem_model_key_find(reference->model, "tokenizer.ggml.tokens", &theirs))
        return refuse_vocabulary(model, reference, "the second has none");
    for (uint64_t i = 0; i < ours.count || i < theirs.count; i++) {
        const mnem_text a = mnem_value_text(&ours, i), b = mnem_value_text(&theirs, i);
        if (a.length == b.length && (a.length == 0 || !memcmp(a.bytes, b.bytes, a.length)))
            continue;
        snprintf(what, sizeof what, "token %llu differs", (unsigned long long)i);
        return refuse_vocabulary(model, reference, what);
    }
    return TOOL_OK;
}

int tool_reference_open(tool_reference *reference, const tool_stage *model, const char *path) {
    tool_stage *s = &reference->stage;
    *reference = (tool_reference){
        .stage = {.args = model->args, .asked = model->asked, .ledger = model->ledger}, .kv = -1};
    mnem_status status = mnem_model_open(path, &s->model);
    if (status == MNEM_OK) status = mnem_model_transformer(s->model, &s->transformer);
    if (status != MNEM_OK) return tool_fail(status);
    const int code = tool_stage_needs_text(s);
    return code == TOOL_OK ? check_vocabulary(model, s) : code;
}

void tool_reference_close(tool_reference *reference) {
    mnem_ledger *ledger = reference->stage.ledger;
    free(reference->logits);
    if (reference->logits)
        mnem_ledger_release(ledger, MNEM_KIND_HOST, LOGITS_TAG, reference->logits_bytes);
    reference->stage.ledger = NULL; /* the verb's */
    tool_stage_close(&reference->stage);
    *reference = (tool_reference){0};
}

/* ---- what a budget can buy of one model ---- */

/* Ways that are nearer than a step to one with fewer bytes take its place, but for the least. */
static bool keep_way(void *context, const mnem_engine_way *told) {
    ways *w = context;
    const way next = {.bytes = told->peak_bytes - w->live,
                      .seconds = 1 / told->prompt_tokens_per_s,
                      .plain = told->seconds,
                      .chunk = told->chunk,
                      .streamed = told->bytes_streamed_per_pass > 0};
    const bool near = w->count > 2 && next.bytes < w->way[w->count - 2].bytes + w->step;
    if (!near && w->count < WAYS) w->count++;
    w->way[w->count - 1] = next;
    return true;
}

/* As though there were no budget. */
static mnem_status list_ways(tool_stage *stage, ways *w) {
    mnem_ledger_info info;
    const uint64_t budget = tool_budget_bytes(stage->ledger);
    mnem_ledger_info_get(stage->ledger, &info);
    *w = (ways){.live = info.bytes_live, .step = budget / (WAYS / 2)};
    mnem_status status = mnem_ledger_budget_set(stage->ledger, 0);
    if (status == MNEM_OK)
        status = mnem_engine_plan_make(stage->model, &stage->options, &stage->plan);
    if (status == MNEM_OK)
        status = mnem_engine_frontier(stage->model, &stage->options, &stage->plan, keep_way, w);
    const mnem_status back = mnem_ledger_budget_set(stage->ledger, budget);
    return status == MNEM_OK ? back : status;
}

/* ---- the pair ---- */

typedef struct pair {
    uint64_t model_bytes, reference_bytes;
    int32_t rows;
    double seconds; /* of a token */
} pair;

/* Half of a window's tokens go in whole chunks; the others as many together as logits may wait. */
static double token_seconds(const way *w, int32_t rows) {
    const bool cut = w->streamed && rows < w->chunk;
    return w->seconds * (1 + (cut ? (double)w->chunk / rows : 1)) / 2;
}

/* The fastest pair within these bytes, if it is faster than the best one so far. */
static void choose_pair(const ways *model, const ways *reference, int32_t rows, uint64_t bytes,
                        pair *best) {
    for (int i = 0; i < model->count; i++)
        for (int k = 0; k < reference->count; k++) {
            const way *m = &model->way[i], *r = &reference->way[k];
            if (m->bytes > bytes || r->bytes > bytes - m->bytes) continue;
            const double seconds = token_seconds(m, rows) + token_seconds(r, rows);
            if (best->rows && seconds >= best->seconds) continue;
            *best = (pair){m->bytes, r->bytes, rows, seconds};
        }
}

static uint64_t logits_bytes(const tool_stage *stage, int32_t rows) {
    return (uint64_t)rows * (uint64_t)stage->transformer.vocab * sizeof(float);
}

/* With so few logits that the bytes of the smallest pair don't depend on the budget. */
static int refuse_pair(const tool_stage *model, const ways *m, const ways *r, int32_t rows) {
    mnem_ledger_info info;
    mnem_ledger_info_get(model->ledger, &info);
    uint64_t needed = m->live + m->way[0].bytes + r->way[0].bytes + logits_bytes(model, rows);
    if (needed < info.bytes_peak) needed = info.bytes_peak;
    return tool_fail_bytes("the model and its reference", needed, info.budget_bytes);
}

static int find_pair(tool_stage *reference, tool_stage *model, int32_t logits, pair *best) {
    ways m, r;
    mnem_ledger_info info;
    const int32_t least = model->options.logits_rows < logits ? model->options.logits_rows : logits;
    const int32_t most = logits < ROWS_MOST ? logits : ROWS_MOST;
    mnem_status status = list_ways(model, &m);
    if (status == MNEM_OK) status = list_ways(reference, &r);
    if (status != MNEM_OK) return tool_fail_asked(status);
    mnem_ledger_info_get(model->ledger, &info);
    *best = (pair){0};
    for (int32_t rows = least; rows <= most; rows *= 2) {
        const uint64_t taken = m.live + logits_bytes(model, rows);
        if (taken > info.budget_bytes) break;
        choose_pair(&m, &r, rows, info.budget_bytes - taken, best);
    }
    if (best->rows && info.bytes_peak <= info.budget_bytes) return TOOL_OK;
    return refuse_pair(model, &m, &r, least);
}

static int take_logits(tool_reference *reference, int32_t rows) {
    const uint64_t bytes = logits_bytes(&reference->stage, rows);
    mnem_ledger *ledger = reference->stage.ledger;
    const mnem_status status =
        mnem_ledger_charge_planned(ledger, MNEM_KIND_HOST, LOGITS_TAG, bytes);
    if (status != MNEM_OK) return tool_fail(status);
    reference->logits = malloc(bytes);
    if (!reference->logits) {
        mnem_ledger_release(ledger, MNEM_KIND_HOST, LOGITS_TAG, bytes);
        return tool_failed(
            "out of memory for the logits of %d tokens: end other programs, or use a smaller --ctx",
            rows);
    }
    reference->rows = rows;
    reference->logits_bytes = bytes;
    return TOOL_OK;
}

/* Plans with the other one's bytes taken. */
static int plan_beside(tool_stage *stage, uint64_t other) {
    const mnem_status status =
        mnem_ledger_charge_planned(stage->ledger, MNEM_KIND_WEIGHTS, SHARE_TAG, other);
    if (status != MNEM_OK) return tool_fail(status);
    const int code = tool_stage_plan(stage);
    mnem_ledger_release(stage->ledger, MNEM_KIND_WEIGHTS, SHARE_TAG, other);
    return code;
}

/* What the plan adds to what was live. */
static uint64_t share(const tool_stage *stage, uint64_t other) {
    mnem_ledger_info info;
    mnem_ledger_info_get(stage->ledger, &info);
    return stage->plan.peak_bytes - info.bytes_live - other;
}

/* ---- beside a model of several ranks ---- */

/* Up to a sixteenth of the budget. */
static int32_t rows_of(const tool_stage *model, int32_t logits) {
    const int32_t most = logits < ROWS_MOST ? logits : ROWS_MOST;
    int32_t rows = model->options.logits_rows < logits ? model->options.logits_rows : logits;
    while (2 * rows <= most &&
           logits_bytes(model, 2 * rows) <= tool_budget_bytes(model->ledger) / 16)
        rows *= 2;
    return rows;
}

/* Whether ranks have a plan beside this way; *seconds: what rank 0 takes for both. */
static mnem_status try_beside(tool_stage *model, const way *w, double *seconds) {
    mnem_status status =
        mnem_ledger_charge_planned(model->ledger, MNEM_KIND_WEIGHTS, SHARE_TAG, w->bytes);
    if (status != MNEM_OK) return status;
    status = tool_stage_try(model);
    mnem_ledger_release(model->ledger, MNEM_KIND_WEIGHTS, SHARE_TAG, w->bytes);
    *seconds = w->plain + model->plan.predicted_seconds;
    return status;
}

/* The way with which rank 0 needs the least time; below 0: there is none. */
static mnem_status choose_beside(tool_stage *model, const ways *w, int *best) {
    double least = 0;
    int last = -1;
    *best = -1;
    for (int i = 0; i < TRIES; i++) {
        const int at = (w->count - 1) * (TRIES - 1 - i) / (TRIES - 1);
        double seconds;
        if (at == last) continue;
        last = at;
        const mnem_status status = try_beside(model, &w->way[at], &seconds);
        if (status != MNEM_OK && status != MNEM_OVER_BUDGET) return status;
        if (status != MNEM_OK || (*best >= 0 && seconds >= least)) continue;
        least = seconds;
        *best = at;
    }
    return MNEM_OK;
}

/* Within these bytes, of which it takes *bytes; others know nothing of it. */
static int plan_alone(tool_stage *reference, uint64_t *bytes) {
    mnem_ledger_info info;
    mnem_ledger *ledger = reference->ledger;
    mnem_ledger_info_get(ledger, &info);
    const uint64_t left = info.budget_bytes - info.bytes_live;
    const uint64_t other = left > *bytes ? left - *bytes : 0;
    mnem_status status = mnem_ledger_charge_planned(ledger, MNEM_KIND_WEIGHTS, SHARE_TAG, other);
    if (status != MNEM_OK) return tool_fail(status);
    status = mnem_engine_plan_make(reference->model, &reference->options, &reference->plan);
    mnem_ledger_release(ledger, MNEM_KIND_WEIGHTS, SHARE_TAG, other);
    if (status != MNEM_OK)
        return tool_fail_plan(status, reference->plan.needed_bytes, info.budget_bytes,
                              reference->plan.knob);
    *bytes = share(reference, other);
    return TOOL_OK;
}

static int plan_ranks(tool_reference *reference, tool_stage *model, int32_t logits) {
    tool_stage *r = &reference->stage;
    ways w;
    int best;
    r->options.comm = NULL;
    mnem_status status = list_ways(r, &w);
    if (status != MNEM_OK) return tool_fail_asked(status);
    int code = take_logits(reference, rows_of(model, logits));
    if (code != TOOL_OK) return code;
    status = choose_beside(model, &w, &best);
    if (status != MNEM_OK) return tool_fail(status);
    uint64_t taken = w.way[best < 0 ? 0 : best].bytes;
    if (best >= 0) code = plan_alone(r, &taken); /* else the model is refused beside the least */
    return code == TOOL_OK ? plan_beside(model, taken) : code;
}

int tool_reference_plan(tool_reference *reference, tool_stage *model, int32_t logits) {
    tool_stage *r = &reference->stage;
    pair best;
    r->options = model->options;
    r->options.adapters = NULL;
    r->options.adapter_count = 0;
    r->options.shares_reserve = true; /* the model's plan has it */
    if (reference->kv >= 0) r->options.kv = (mnem_kv_choice)reference->kv;
    if (model->options.comm) return plan_ranks(reference, model, logits);
    int code = find_pair(r, model, logits, &best);
    if (code == TOOL_OK) code = take_logits(reference, best.rows);
    if (code == TOOL_OK) code = plan_beside(r, best.model_bytes);
    if (code == TOOL_OK) code = plan_beside(model, share(r, best.model_bytes));
    return code;
}

/* A signal stops what the model runs. Ranks have begun together before anything else may fail. */
int tool_reference_create(tool_reference *reference, tool_stage *model) {
    tool_stage *first = model->options.comm ? model : &reference->stage;
    int code = tool_stage_create(first);
    if (code == TOOL_OK) code = tool_stage_create(first == model ? &reference->stage : model);
    if (code == TOOL_OK) tool_interrupt_watch(model->session);
    return code;
}
