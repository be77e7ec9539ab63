/* ranks_plan.c: a plan for all ranks at once.
 *
 * Idea: rank 0 cuts the layers so that no rank takes longer than it must (ranks_work.c). Where that
 * costs something (weights from disk, a smaller context) it cuts by what each rank has room for
 * (engine_split.c), or where that isn't enough by the share that each has of all. Then each plans
 * its part as an engine alone does. What must be the same (context, chunk, type of keys, pages,
 * states, snapshots) is the least of what they chose, and each plans once more with it: bytes never
 * grow where these shrink.
 * Cost: two plans of a part, or three; four messages between each two ranks. */
#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "engine/ranks/ranks_private.h"
#include "engine/ranks/ranks_rows.h"
#include "engine/saved/saved_private.h"
#include "mnem/supports.h"
#include "model/architecture/architecture.h"
#include "plan/plan_budget.h"

/* What an engine takes beside what a split counts: reserve, stacks, tables, a ring to load by. */
enum { BESIDE = 3 << 20, PROMPT_USUAL = 512 };
/* Of a prompt, where nothing is streamed: while a rank computes a chunk the next one computes the
 * one before, so that the first and the last chunk are what ranks wait for. */
enum { CHUNK_RANKS = 64 };

/* What each rank tells of its plan. */
typedef struct answer {
    int32_t status, streamed;
    int32_t context, chunk, kv, pages, states, snapshots;
    uint64_t needed_bytes, budget_bytes;
    double prompt, generate; /* tokens a second of its part; 0: not known */
    double together;         /* seconds of its part of a step of those that run together */
    mnem_knob knob;
    char text[200];
} answer;

typedef struct ranks {
    const mnem_model *model;
    mnem_engine_options options; /* of this rank */
    mnem_comm *comm;
    int32_t rank, size, layers;
    size_t *begin;  /* [size + 1], of what is gathered */
    uint64_t *room; /* [size] */
    double *speed;  /* [size]: of their machines, to each other's */
    int32_t *cut;   /* [size + 1]: layers */
    bool by_work;
    mnem_row_part *parts; /* [size]: or rows */
    answer *answers;      /* [size] */
} ranks;

/* ---- told to all ---- */

/* Each rank's row of bytes of a table. */
static mnem_status gather_rows(ranks *x, void *table, size_t bytes) {
    for (int32_t i = 0; i <= x->size; i++) x->begin[i] = (size_t)i * bytes;
    return mnem_comm_gather(x->comm, table, x->begin);
}

/* Rank 0's bytes, on all. */
static mnem_status share(ranks *x, void *data, size_t bytes) {
    x->begin[0] = 0;
    for (int32_t i = 1; i <= x->size; i++) x->begin[i] = bytes;
    return mnem_comm_gather(x->comm, data, x->begin);
}

/* Rank 0 knows what is asked for; others may not: a prompt, a text. */
static mnem_status share_options(ranks *x) {
    mnem_engine_options *o = &x->options;
    int32_t asked[] = {o->context,     o->context_wanted, o->context_needed, o->chunk,
                       o->sequences,   o->pages_tokens,   o->pages_fill,     o->logits_rows,
                       (int32_t)o->kv, (int32_t)o->cut,   o->snapshots,      o->snapshot_tokens};
    MNEM__TRY(share(x, asked, sizeof asked));
    o->context = asked[0];
    o->context_wanted = asked[1];
    o->context_needed = asked[2];
    o->chunk = asked[3];
    o->sequences = asked[4];
    o->pages_tokens = asked[5];
    o->pages_fill = asked[6] != 0;
    o->logits_rows = asked[7];
    o->kv = (mnem_kv_choice)asked[8];
    o->cut = (mnem_cut)asked[9];
    o->snapshots = asked[10];
    o->snapshot_tokens = asked[11];
    return MNEM_OK;
}

/* ---- what must be the same ---- */

static mnem_status refuse_model(const ranks *x) {
    mnem_transformer t;
    MNEM__TRY(mnem_model_transformer(x->model, &t));
    const bool rows = x->options.cut == MNEM_CUT_ROWS;
    const uint32_t adapters = x->options.adapter_count ? MNEM_FEATURE_ADAPTERS : 0;
    const uint32_t draft = x->options.draft > 0 ? MNEM_FEATURE_DRAFT : 0;
    MNEM__TRY(mnem_transformer_supports(
        &t, adapters | draft | (rows ? MNEM_FEATURE_RANKS_ROWS : MNEM_FEATURE_RANKS_LAYERS)));
    if (rows) return mnem__ranks_rows_check(x->model, x->size);
    const int32_t runs = mnem__layer_runs(&t);
    if (runs >= x->size) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "ranks: %d ranks are too many to split by layers: the model has %d layers%s, "
                      "so use at most %d ranks",
                      x->size, t.layers,
                      runs < t.layers ? " in groups that share the choice of an indexer" : "",
                      runs);
}

static mnem_status agree(ranks *x) {
    uint64_t identity;
    bool bf16 = false;
    char text[MNEM_COMM_TEXT_MAX];
    mnem_status status = mnem__saved_model_identity(x->model, &bf16, &identity);
    if (status != MNEM_OK) {
        mnem_comm_abort(x->comm, mnem_last_error());
        return status;
    }
    MNEM__TRY(mnem_comm_agree(x->comm, "the version of mnem", MNEM_VERSION));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)identity);
    MNEM__TRY(mnem_comm_agree(x->comm, "the model's file", text));
    const bool pairs = bf16 && mnem__cpu_level_get() == MNEM__CPU_AVX512_BF16;
    MNEM__TRY(mnem_comm_agree(x->comm, "the processor's method of multiplying BF16",
                              pairs  ? "pairs"
                              : bf16 ? "f32"
                                     : "not at all"));
    return share_options(x);
}

/* ---- where it is cut ---- */

/* Memory's rate, which generation goes by, where all know it; else they are alike. */
static mnem_status gather_speed(ranks *x) {
    const mnem_machine_profile *p = x->options.profile;
    bool known = true;
    x->speed[x->rank] = p ? p->read_bytes_per_s : 0;
    MNEM__TRY(gather_rows(x, x->speed, sizeof *x->speed));
    for (int32_t i = 0; i < x->size; i++) known = known && x->speed[i] > 0;
    for (int32_t i = 0; i < x->size && !known; i++) x->speed[i] = 1;
    return MNEM_OK;
}

static mnem_status gather_room(ranks *x) {
    const uint64_t budget = mnem__min_u64(
        mnem__plan_share(x->options.ledger, x->options.budget_bytes), UINT64_C(1) << 50);
    const uint64_t taken = mnem__plan_live(x->options.ledger) + BESIDE;
    x->room[x->rank] = budget > taken ? budget - taken : 1;
    return gather_rows(x, x->room, sizeof *x->room);
}

/* By each rank's share of all room, in runs of equal size; each gets one at least. */
static void cut_by_share(ranks *x, const mnem_transformer *t) {
    const int32_t runs = mnem__layer_runs(t);
    double total = 0, before = 0;
    for (int32_t i = 0; i < x->size; i++) total += (double)x->room[i];
    x->cut[0] = 0;
    for (int32_t i = 0; i < x->size; i++) {
        before += (double)x->room[i];
        const int32_t end = (int32_t)((double)runs * before / total + 0.5);
        const int32_t least = x->cut[i] + 1, most = runs - (x->size - 1 - i);
        x->cut[i + 1] = i == x->size - 1 ? runs : mnem__min_i32(mnem__max_i32(end, least), most);
    }
    for (int32_t i = 1; i <= x->size; i++) x->cut[i] = mnem__layer_run_begin(t, x->cut[i]);
}

/* With all resident, where that fits and gives each rank a layer. */
static bool cut_by_split(ranks *x) {
    mnem_engine_options o = x->options;
    mnem_engine_split split;
    mnem_transformer t;
    o.comm = NULL;
    o.layer_begin = o.layer_end = 0; /* of all */
    if (mnem_model_transformer(x->model, &t) != MNEM_OK) return false;
    if (!o.context)
        o.context =
            mnem__min_i32(t.context, o.context_wanted ? o.context_wanted : MNEM__CONTEXT_MODEST);
    mnem_engine_device *devices = mnem__calloc("plan", (size_t)x->size, sizeof *devices);
    if (!devices) return false;
    for (int32_t i = 0; i < x->size; i++) devices[i].capacity_bytes = x->room[i];
    bool whole = mnem_engine_split_make(x->model, &o, devices, x->size, &split) == MNEM_OK;
    for (int32_t i = 0; i < x->size && whole; i++) {
        whole = devices[i].layers > 0;
        x->cut[i] = devices[i].layer_begin;
    }
    x->cut[0] = 0;
    x->cut[x->size] = x->layers;
    mnem__free(devices);
    return whole;
}

static mnem_status cut_rows(ranks *x) {
    if (x->rank == 0) {
        const mnem_status status =
            mnem__ranks_rows_cut(x->model, &x->options, x->size, x->room, x->parts);
        if (status != MNEM_OK) mnem_comm_abort(x->comm, mnem_last_error());
        MNEM__TRY(status);
    }
    MNEM__TRY(share(x, x->parts, (size_t)x->size * sizeof *x->parts));
    x->options.rows = x->parts[x->rank];
    return MNEM_OK;
}

static void take_part(ranks *x) {
    x->options.layer_begin = x->cut[x->rank];
    x->options.layer_end = x->cut[x->rank + 1];
}

static mnem_status cut_by_room(ranks *x, const mnem_transformer *t) {
    if (x->rank == 0 && !cut_by_split(x)) cut_by_share(x, t);
    MNEM__TRY(share(x, x->cut, ((size_t)x->size + 1) * sizeof *x->cut));
    take_part(x);
    return MNEM_OK;
}

/* ---- plans of parts ---- */

static mnem_status plan_part(ranks *x, mnem_engine_plan *plan) {
    answer *mine = &x->answers[x->rank];
    const mnem_status status = mnem_engine_plan_make(x->model, &x->options, plan);
    *mine = (answer){.status = (int32_t)status,
                     .streamed = plan->streamed,
                     .context = plan->context,
                     .chunk = plan->chunk,
                     .kv = (int32_t)plan->kv,
                     .pages = plan->pages,
                     .states = plan->states,
                     .snapshots = plan->snapshots,
                     .needed_bytes = plan->needed_bytes,
                     .budget_bytes = plan->budget_bytes,
                     .prompt = plan->predicted_prompt,
                     .generate = plan->predicted_generate,
                     .together = plan->part_together_seconds,
                     .knob = plan->knob};
    if (status != MNEM_OK) snprintf(mine->text, sizeof mine->text, "%s", mnem_last_error());
    return gather_rows(x, x->answers, sizeof *x->answers);
}

/* What of the model a rank has. */
static const char *part_text(const ranks *x, int32_t rank, char text[60]) {
    if (x->options.cut == MNEM_CUT_ROWS)
        snprintf(text, 60, "heads %d to %d", x->parts[rank].heads.begin,
                 x->parts[rank].heads.end - 1);
    else
        snprintf(text, 60, "layers %d to %d", x->cut[rank], x->cut[rank + 1] - 1);
    return text;
}

/* The context that is chosen where there is room for all. */
static int32_t context_most(const ranks *x) {
    const mnem_engine_options *o = &x->options;
    mnem_transformer t;
    if (o->context) return o->context;
    if (o->context_wanted) return o->context_wanted;
    if (mnem_model_transformer(x->model, &t) != MNEM_OK) return 0;
    return mnem__context_most(&t);
}

/* Whether no rank gave something up for its part. */
static bool costs_nothing(const ranks *x) {
    bool free = true;
    for (int32_t i = 0; i < x->size; i++) {
        const answer *a = &x->answers[i];
        const int32_t chunk = x->options.chunk ? x->options.chunk : CHUNK_RANKS;
        free = free && a->status == MNEM_OK && !a->streamed && a->context >= context_most(x) &&
               a->chunk >= mnem__min_i32(chunk, a->context) &&
               (x->options.kv != MNEM_KV_AUTO || a->kv == (int32_t)MNEM_KV_F16);
    }
    return free;
}

/* Every rank cuts the same, from the same numbers. */
static mnem_status cut_and_plan(ranks *x, const mnem_transformer *t, mnem_engine_plan *plan) {
    if (x->options.cut == MNEM_CUT_ROWS) {
        MNEM__TRY(gather_room(x));
        MNEM__TRY(cut_rows(x));
        return plan_part(x, plan);
    }
    MNEM__TRY(gather_speed(x));
    const mnem_status status = mnem__ranks_cut_by_work(x->model, x->speed, x->size, x->cut);
    if (status != MNEM_OK) mnem_comm_abort(x->comm, mnem_last_error());
    if (status != MNEM_OK) return status;
    x->by_work = true;
    take_part(x);
    MNEM__TRY(plan_part(x, plan));
    if (costs_nothing(x)) return MNEM_OK;
    x->by_work = false;
    MNEM__TRY(gather_room(x));
    MNEM__TRY(cut_by_room(x, t));
    return plan_part(x, plan);
}

/* The rank that speaks for all that refuse: the first with another reason than its budget, or the
 * one that needs most, as one --memory is the budget of each. -1: none refuses. */
static int32_t who_refuses(const ranks *x) {
    int32_t found = -1;
    for (int32_t i = 0; i < x->size; i++) {
        const answer *a = &x->answers[i];
        if (a->status == MNEM_OK) continue;
        if (a->status != (int32_t)MNEM_OVER_BUDGET) return i;
        if (found < 0 || a->needed_bytes > x->answers[found].needed_bytes) found = i;
    }
    return found;
}

static mnem_status check_answers(const ranks *x, mnem_engine_plan *plan) {
    char part[60];
    const int32_t i = who_refuses(x);
    if (i < 0) return MNEM_OK;
    const answer *a = &x->answers[i];
    plan->needed_bytes = a->needed_bytes;
    plan->budget_bytes = a->budget_bytes;
    plan->knob = a->knob;
    plan->needed_rank = i;
    return mnem__fail((mnem_status)a->status, "rank %d of %d (%s): %s", i, x->size,
                      part_text(x, i, part), a->text);
}

/* What all can do. */
static void settle(ranks *x, const mnem_engine_plan *plan) {
    mnem_engine_options *o = &x->options;
    int32_t pages = plan->pages;
    if (plan->states > 0) o->snapshots = plan->snapshots;
    o->states = plan->states;
    bool q8 = false, streamed = false;
    const bool open = o->chunk == 0;
    o->context = plan->context;
    o->chunk = plan->chunk;
    for (int32_t i = 0; i < x->size; i++) {
        const answer *a = &x->answers[i];
        o->context = mnem__min_i32(o->context, a->context);
        o->chunk = mnem__min_i32(o->chunk, a->chunk);
        pages = mnem__min_i32(pages, a->pages);
        o->states = mnem__min_i32(o->states, a->states);
        if (a->states > 0) o->snapshots = mnem__min_i32(o->snapshots, a->snapshots);
        streamed = streamed || a->streamed;
        q8 = q8 || a->kv == (int32_t)MNEM_KV_Q8_0;
    }
    if (open && !streamed && o->cut == MNEM_CUT_LAYERS)
        o->chunk = mnem__min_i32(o->chunk, CHUNK_RANKS);
    if (o->kv == MNEM_KV_AUTO) o->kv = q8 ? MNEM_KV_Q8_0 : MNEM_KV_F16;
    if (o->pages_tokens || o->pages_fill) {
        o->pages_tokens = pages * plan->page_tokens;
        o->pages_fill = false;
    }
}

static mnem_status job_of(const ranks *x, const mnem_engine_plan *plan, mnem__ranks_job *job) {
    mnem_transformer t;
    MNEM__TRY(mnem_model_transformer(x->model, &t));
    *job = (mnem__ranks_job){.ranks = x->size,
                             .embd = t.embd,
                             .vocab = t.vocab,
                             .chunk = plan->chunk,
                             .prompt = mnem__min_i32(plan->context, PROMPT_USUAL),
                             .together = plan->together,
                             .link = x->options.link};
    return x->options.cut == MNEM_CUT_ROWS ? mnem__ranks_meet(x->model, x->parts, job) : MNEM_OK;
}

static double rate(double n, double seconds) {
    return seconds > 0 ? n / seconds : 0;
}

static mnem_status predict(const ranks *x, mnem_engine_plan *plan) {
    mnem__rank_seconds *parts = mnem__calloc("plan", (size_t)x->size, sizeof *parts);
    if (!parts) return mnem__heap_status();
    mnem__ranks_job job;
    const mnem_status status = job_of(x, plan, &job);
    for (int32_t i = 0; i < x->size; i++) {
        const answer *a = &x->answers[i];
        parts[i].together = a->together;
        if (a->generate > 0) parts[i].token = 1 / a->generate;
        if (a->prompt > 0) parts[i].chunk = a->chunk / a->prompt;
    }
    plan->part_by_work = x->by_work;
    plan->part_token_seconds = parts[x->rank].token;
    plan->part_chunk_seconds = parts[x->rank].chunk;
    if (status == MNEM_OK) {
        const mnem__ranks_seconds s = mnem__ranks_speed(&job, parts);
        plan->part_token_sent = mnem__ranks_sent(&job, x->rank, 1);
        plan->part_chunk_sent = mnem__ranks_sent(&job, x->rank, plan->chunk);
        plan->ranks_token_seconds = s.token;
        plan->ranks_chunk_seconds = s.chunk;
        plan->predicted_generate = rate(1, s.token);
        plan->predicted_prompt = rate(job.prompt, s.prompt);
        plan->predicted_together = rate(job.together, s.together);
    }
    mnem__free(parts);
    return status;
}

static mnem_status plan_ranks(ranks *x, const mnem_transformer *t, mnem_engine_plan *plan) {
    MNEM__TRY(agree(x));
    MNEM__TRY(cut_and_plan(x, t, plan));
    MNEM__TRY(check_answers(x, plan));
    const uint64_t wanted = plan->wanted_bytes;
    settle(x, plan);
    MNEM__TRY(plan_part(x, plan));
    plan->wanted_bytes = wanted;
    MNEM__TRY(check_answers(x, plan));
    return predict(x, plan);
}

mnem_status mnem_engine_plan_ranks(const mnem_model *model, const mnem_engine_options *options,
                                   mnem_engine_plan *plan) {
    *plan = (mnem_engine_plan){0};
    if (!options->comm || mnem_comm_size(options->comm) == 1)
        return mnem_engine_plan_make(model, options, plan);
    ranks x = {.model = model,
               .options = *options,
               .comm = options->comm,
               .rank = mnem_comm_rank(options->comm),
               .size = mnem_comm_size(options->comm)};
    x.options.draft_wanted = 0;
    mnem_transformer t;
    mnem_status status = refuse_model(&x);
    if (status == MNEM_OK) status = mnem_model_transformer(model, &t);
    if (status != MNEM_OK) { /* another rank may have another file, and wait */
        mnem_comm_abort(x.comm, mnem_last_error());
        return status;
    }
    x.layers = t.layers;
    const size_t n = (size_t)x.size;
    x.begin = mnem__calloc("plan", n + 1, sizeof *x.begin);
    x.room = mnem__calloc("plan", n, sizeof *x.room);
    x.speed = mnem__calloc("plan", n, sizeof *x.speed);
    x.cut = mnem__calloc("plan", n + 1, sizeof *x.cut);
    x.answers = mnem__calloc("plan", n, sizeof *x.answers);
    x.parts = mnem__calloc("plan", n, sizeof *x.parts);
    const bool whole = x.begin && x.room && x.speed && x.cut && x.parts && x.answers;
    status = whole ? plan_ranks(&x, &t, plan) : mnem__heap_status();
    if (!whole) mnem_comm_abort(x.comm, mnem_last_error());
    mnem__free(x.begin);
    mnem__free(x.room);
    mnem__free(x.speed);
    mnem__free(x.cut);
    mnem__free(x.parts);
    mnem__free(x.answers);
    return status;
}
