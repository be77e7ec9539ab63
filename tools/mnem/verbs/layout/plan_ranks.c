/* plan_ranks.c: `mnem plan --ranks N`: what each of N ranks would hold, send and wait for.
 *
 * Idea: ranks may be threads (mnem/comm.h). So the plan on paper is the plan of a run, made by the
 * same code: a thread for each rank, with a ledger of its own that has what such a process has, and
 * no engine at the end. Without --cut both are made, and the faster one of a usual job is chosen.
 * What MPI takes isn't known before it runs: it is what `mnem bench` measured under mpirun here, or
 * an estimate that is named as one. */
#include "verbs/layout/plan_ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/layout/plan_paper.h"

/* Beyond this process's own code and libraries; seen: 12 MiB with two ranks of one machine. */
/* SPARE: what a plan of ranks needs differs by some pages with the budget that it is made for. */
enum { RANK_ESTIMATE = 12 << 20, SPARE = 32 << 10 };

/* ---- planning ---- */

/* What all refuse alike any of them may have said first: "comm: rank 1: why". */
static const char *own_words(const char *text) {
    int end = 0;
    return sscanf(text, "comm: rank %*d: %n", &end) == 0 && end > 0 ? text + end : text;
}

static void *plan_one(void *context) {
    plan_rank *r = context;
    r->status = mnem_engine_plan_ranks(r->model, &r->options, &r->plan);
    if (r->status != MNEM_OK) snprintf(r->text, sizeof r->text, "%s", own_words(mnem_last_error()));
    return NULL;
}

static uint64_t code_bytes(const mnem_ledger *ledger) {
    mnem_account_info a;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &a); i++)
        if (a.kind == MNEM_KIND_RUNTIME && strcmp(a.tag, "code and libraries") == 0)
            return a.bytes_live;
    return 0;
}

/* What such a process has before it plans, which may be more than its budget, as there. */
static mnem_status open_rank(const paper *p, int32_t i, uint64_t live) {
    plan_rank *r = &p->ranks[i];
    const mnem_ledger_options budget = {.budget_bytes = r->budget, .preparing = true};
    mnem_status status = mnem_ledger_create(&budget, &r->ledger);
    if (status == MNEM_OK)
        status =
            mnem_ledger_charge(r->ledger, MNEM_KIND_RUNTIME, "code, libraries, MPI", p->rank_bytes);
    if (status == MNEM_OK) status = mnem_ledger_charge(r->ledger, MNEM_KIND_HOST, "model", live);
    r->model = p->stage->model;
    r->options = p->stage->options;
    r->options.ledger = r->ledger;
    r->options.comm = r->comm;
    r->options.link = p->link;
    r->options.cut = p->cut;
    if (status != MNEM_OK) snprintf(r->text, sizeof r->text, "%s", mnem_last_error());
    return status;
}

static void close_paper(paper *p) {
    const uint64_t bytes = p->rank_bytes;
    for (int32_t i = 0; i < p->count && p->ranks; i++) {
        plan_rank *r = &p->ranks[i];
        mnem_account_info a;
        mnem_comm_destroy(r->comm);
        for (unsigned k = 0; r->ledger && mnem_ledger_account_get(r->ledger, k, &a); k++)
            if (a.kind == MNEM_KIND_HOST)
                mnem_ledger_release(r->ledger, MNEM_KIND_HOST, a.tag, a.bytes_live);
            else
                mnem_ledger_release(r->ledger, MNEM_KIND_RUNTIME, a.tag, bytes);
        mnem_ledger_destroy(r->ledger);
    }
    free(p->ranks);
    p->ranks = NULL;
}

/* All ranks at once: they wait for each other. */
static mnem_status run_threads(paper *p) {
    int32_t started = 0;
    for (; started < p->count; started++)
        if (pthread_create(&p->ranks[started].thread, NULL, plan_one, &p->ranks[started])) break;
    if (started < p->count)
        mnem_comm_abort(p->ranks[0].comm, "plan: can't create a thread for each rank");
    for (int32_t i = 0; i < started; i++) pthread_join(p->ranks[i].thread, NULL);
    return started < p->count ? MNEM_NO_MEMORY : p->ranks[0].status;
}

/* The list's budgets for count ranks; what each has beside, live [rank 0, others]. */
static mnem_status make_paper(paper *p, const char *list, const uint64_t live[2]) {
    mnem_status status = MNEM_OK;
    mnem_comm *comms[MNEM_COMM_RANKS_MAX];
    p->ranks = calloc((size_t)p->count, sizeof *p->ranks);
    if (!p->ranks) return MNEM_NO_MEMORY;
    status = mnem_comm_thread_create(p->count, comms);
    for (int32_t i = 0; i < p->count && status == MNEM_OK; i++) p->ranks[i].comm = comms[i];
    for (int32_t i = 0; i < p->count && status == MNEM_OK; i++) {
        plan_rank *r = &p->ranks[i];
        if (tool_budget_of("plan", list, i, &r->budget) != TOOL_OK) status = MNEM_INVALID;
        if (status == MNEM_OK) status = open_rank(p, i, live[i > 0]);
    }
    return status == MNEM_OK ? run_threads(p) : status;
}

/* ---- refusing ---- */

/* The least number of ranks above those asked for that would do; 0: none was found. */
static int32_t more_ranks(const paper *p, const char *list, const uint64_t live[2]) {
    enum { TRIED = 8 };
    const bool rows = p->cut == MNEM_CUT_ROWS; /* refused where there are too many */
    const int32_t most = rows ? MNEM_COMM_RANKS_MAX : p->stage->transformer.layers;
    for (int32_t n = p->count + 1; n <= p->count + TRIED && n <= most; n++) {
        paper more = *p;
        more.count = n;
        const mnem_status status =
            n <= MNEM_COMM_RANKS_MAX ? make_paper(&more, list, live) : MNEM_INVALID;
        close_paper(&more);
        if (status == MNEM_OK) return n;
    }
    return 0;
}

static int refuse(const paper *p, const char *list, const uint64_t live[2]) {
    const plan_rank *r = &p->ranks[0];
    char more[80] = "";
    const int32_t n = more_ranks(p, list, live);
    if (n == p->count + 1)
        snprintf(more, sizeof more, "one more rank would do (--ranks %d), or ", n);
    else if (n)
        snprintf(more, sizeof more, "--ranks %d would do, or ", n);
    return tool_fail_rank(r->text, r->plan.needed_rank, r->plan.needed_bytes + SPARE,
                          r->plan.budget_bytes, r->plan.knob, more);
}

/* ---- both cuts ---- */

/* A prompt and what is generated of a usual job, as a plan of one process has it. */
static double job_seconds(const paper *p) {
    enum { PROMPT = 512, GENERATED = 128 };
    const mnem_engine_plan *q = &p->ranks[0].plan;
    if (p->status != MNEM_OK || !(q->predicted_prompt > 0)) return 0;
    return PROMPT / q->predicted_prompt + GENERATED / q->predicted_generate;
}

/* The one that can be, then the faster one; layers, which a run has by itself, where neither is. */
static int faster(const paper *both) {
    const double layers = job_seconds(&both[0]), rows = job_seconds(&both[1]);
    if (both[0].status != MNEM_OK || both[1].status != MNEM_OK) return both[0].status != MNEM_OK;
    return rows > 0 && rows < layers;
}

/* ---- the way in ---- */

static uint64_t live_bytes(const tool_stage *stage) {
    mnem_ledger_info info;
    mnem_ledger_info_get(stage->ledger, &info);
    return info.bytes_live;
}

static int choose_link(paper *p, const char *link) {
    tool_link_kept kept;
    p->measured = tool_link_load(&kept);
    p->link = kept.link;
    p->rank_bytes = p->measured ? kept.rank_bytes : code_bytes(p->stage->ledger) + RANK_ESTIMATE;
    return link ? tool_link_parse("plan", link, &p->link) : TOOL_OK;
}

static int tell(const paper *p, const paper *other, const char *list, const uint64_t live[2]) {
    if (p->status == MNEM_OK) return tool_paper_print(p, other);
    if (p->status == MNEM_OVER_BUDGET) return refuse(p, list, live);
    return tool_failed("%s", p->ranks && *p->ranks[0].text ? p->ranks[0].text
                                                           : mnem_status_text(p->status));
}

int tool_plan_ranks(tool_stage *stage, const tool_ranks_asked *asked) {
    paper both[2] = {{.stage = stage, .count = asked->count, .cut = MNEM_CUT_LAYERS}};
    uint64_t budget;
    int code = choose_link(&both[0], asked->link);
    for (int32_t i = 0; i < asked->count && code == TOOL_OK; i++)
        code = tool_budget_of("plan", asked->memory, i, &budget);
    if (code != TOOL_OK) return code;
    const uint64_t others = live_bytes(stage) - code_bytes(stage->ledger);
    code = tool_stage_tokenizer(stage); /* which rank 0 has */
    if (code != TOOL_OK) return code;
    const uint64_t live[2] = {live_bytes(stage) - code_bytes(stage->ledger), others};
    both[1] = both[0];
    both[1].cut = MNEM_CUT_ROWS;
    for (int i = 0; i < 2; i++)
        if (!asked->cut_given || (int)asked->cut == i)
            both[i].status = make_paper(&both[i], asked->memory, live);
    const int chosen = asked->cut_given ? (int)asked->cut : faster(both);
    code = tell(&both[chosen], asked->cut_given ? NULL : &both[!chosen], asked->memory, live);
    for (int i = 0; i < 2; i++) close_paper(&both[i]);
    return code;
}
