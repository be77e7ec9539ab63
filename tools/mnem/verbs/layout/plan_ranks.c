/* plan_ranks.c: `mnem plan --ranks N`: what each of N ranks would hold, send and wait for.
 *
 * Idea: ranks may be threads (mnem/comm.h). So the plan on paper is the plan of a run, made by the
 * same code: a thread for each rank, with a ledger of its own that has what such a process has, and
 * no engine at the end.
 * What MPI takes isn't known before it runs: it is what `mnem bench` measured under mpirun here, or
 * an estimate that is named as one. */
#include "verbs/layout/plan_ranks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ranks/link.h"

/* Beyond this process's own code and libraries; seen: 12 MiB with two ranks of one machine. */
enum { RANK_ESTIMATE = 12 << 20 };

typedef struct paper_rank {
    pthread_t thread;
    mnem_comm *comm;
    mnem_ledger *ledger;
    const mnem_model *model;
    mnem_engine_options options;
    mnem_engine_plan plan;
    mnem_status status;
    uint64_t budget;
    char text[400];
} paper_rank;

typedef struct paper {
    tool_stage *stage;
    int32_t count;
    paper_rank *ranks;   /* [count] */
    uint64_t rank_bytes; /* of each: code, libraries, MPI */
    bool measured;
    mnem_comm_link link;
} paper;

/* ---- planning ---- */

static void *plan_one(void *context) {
    paper_rank *r = context;
    r->status = mnem_engine_plan_ranks(r->model, &r->options, &r->plan);
    if (r->status != MNEM_OK) snprintf(r->text, sizeof r->text, "%s", mnem_last_error());
    return NULL;
}

static uint64_t code_bytes(const mnem_ledger *ledger) {
    mnem_account_info a;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &a); i++)
        if (a.kind == MNEM_KIND_RUNTIME && strcmp(a.tag, "code and libraries") == 0)
            return a.bytes_live;
    return 0;
}

/* What such a process has before it plans. */
static mnem_status open_rank(const paper *p, int32_t i, uint64_t live) {
    paper_rank *r = &p->ranks[i];
    const mnem_ledger_options budget = {.budget_bytes = r->budget};
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
    if (status != MNEM_OK) snprintf(r->text, sizeof r->text, "%s", mnem_last_error());
    return status;
}

static void close_paper(paper *p) {
    const uint64_t bytes = p->rank_bytes;
    for (int32_t i = 0; i < p->count && p->ranks; i++) {
        paper_rank *r = &p->ranks[i];
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
        mnem_comm_abort(p->ranks[0].comm, "plan: the machine has no thread for each rank");
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
        paper_rank *r = &p->ranks[i];
        if (tool_budget_of("plan", list, i, &r->budget) != TOOL_OK) status = MNEM_INVALID;
        if (status == MNEM_OK) status = open_rank(p, i, live[i > 0]);
        if (status == MNEM_OVER_BUDGET) { /* not even that */
            char text[300];
            snprintf(text, sizeof text, "%.299s", r->text);
            snprintf(p->ranks[0].text, sizeof r->text, "rank %d of %d: %s", i, p->count, text);
        }
    }
    return status == MNEM_OK ? run_threads(p) : status;
}

/* ---- refusing ---- */

/* The least number of ranks above those asked for that would do; 0: none was found. */
static int32_t more_ranks(const paper *p, const char *list, const uint64_t live[2]) {
    enum { TRIED = 8 };
    const int32_t layers = p->stage->transformer.layers;
    for (int32_t n = p->count + 1; n <= p->count + TRIED && n <= layers; n++) {
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
    const paper_rank *r = &p->ranks[0];
    char more[80] = "";
    const int32_t n = more_ranks(p, list, live);
    if (n == p->count + 1)
        snprintf(more, sizeof more, "one more rank would do (--ranks %d), or ", n);
    else if (n)
        snprintf(more, sizeof more, "--ranks %d would do, or ", n);
    return tool_fail_rank(r->text, r->plan.needed_bytes, r->plan.budget_bytes, r->plan.knob, more);
}

/* ---- the table ---- */

static uint64_t bytes_of(const mnem_engine_plan *plan, mnem_kind kind, const char *tag) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < plan->lines; i++)
        if (plan->line[i].kind == kind && (!tag || strcmp(plan->line[i].tag, tag) == 0))
            bytes += plan->line[i].bytes;
    return bytes;
}

/* Of a token and of a chunk the part that a rank waits for others; 0 where it isn't known. */
static double waits(double own, double all) {
    return own > 0 && all > own ? all - own : 0;
}

static double token_seconds(const paper *p) {
    const double rate = p->ranks[0].plan.predicted_generate;
    return rate > 0 ? 1 / rate : 0;
}

static double slowest_chunk(const paper *p) {
    double most = 0;
    for (int32_t i = 0; i < p->count; i++)
        if (p->ranks[i].plan.part_chunk_seconds > most) most = p->ranks[i].plan.part_chunk_seconds;
    return most;
}

static void print_rank(const paper *p, int32_t i) {
    char size[8][TOOL_TEXT], layers[32], wait[2][24] = {"-", "-"};
    const mnem_engine_plan *q = &p->ranks[i].plan;
    const double token = waits(q->part_token_seconds, token_seconds(p));
    snprintf(layers, sizeof layers, "%d to %d", q->layer_begin, q->layer_end - 1);
    if (q->part_token_seconds > 0) {
        snprintf(wait[0], sizeof wait[0], "%.1f ms", 1e3 * token);
        snprintf(wait[1], sizeof wait[1], "%.1f ms",
                 1e3 * waits(q->part_chunk_seconds, slowest_chunk(p)));
    }
    const uint64_t weights = bytes_of(q, MNEM_KIND_WEIGHTS, NULL),
                   kv = bytes_of(q, MNEM_KIND_KV, NULL);
    tool_outf("  %4d %11s %10s %10s %10s %10s %10s %10s %9s %9s %9s\n", i, layers,
              tool_size(weights, size[0]), tool_size(kv, size[1]),
              tool_size(p->rank_bytes, size[2]), tool_size(q->peak_bytes, size[3]),
              tool_size(q->budget_bytes, size[4]), tool_size(q->part_token_sent, size[5]), wait[0],
              tool_size(q->part_chunk_sent, size[6]), wait[1]);
}

static int32_t count_streaming(const paper *p) {
    int32_t n = 0;
    for (int32_t i = 0; i < p->count; i++) n += p->ranks[i].plan.streamed;
    return n;
}

static void print_why(const paper *p) {
    const mnem_engine_plan *q = &p->ranks[0].plan;
    char text[300], size[TOOL_TEXT], link[TOOL_TEXT];
    const int32_t n = count_streaming(p);
    if (q->part_by_work)
        snprintf(text, sizeof text,
                 "so that the slowest rank is as fast as it can be: all weights "
                 "stay in memory, and the whole context fits so");
    else if (n == 0)
        snprintf(text, sizeof text,
                 "so that the fullest rank has the most room left: a cut by "
                 "speed would cost context or weights from disk");
    else
        snprintf(text, sizeof text,
                 "by what each has room for: %d of %d read weights from their disks for every "
                 "token; more --memory, or more --ranks, would hold them",
                 n, p->count);
    tool_wrap(stdout, "  cut      ", text);
    snprintf(text, sizeof text, "%s of each for code, libraries and MPI: %s",
             tool_size(p->rank_bytes, size),
             p->measured ? "as mnem bench measured it under mpirun"
                         : "an estimate; mnem bench under mpirun measures and keeps it");
    tool_wrap(stdout, "  MPI      ", text);
    if (q->predicted_generate > 0)
        snprintf(text, sizeof text,
                 "about %.*f tokens/s, prompt %.*f tokens/s, with links of %s, and this machine's "
                 "speed for every rank",
                 q->predicted_generate < 100, q->predicted_generate, q->predicted_prompt < 100,
                 q->predicted_prompt, tool_link_text(&p->link, link));
    else
        snprintf(text, sizeof text,
                 "not known: how fast this machine's kernels are, `mnem bench` measures once");
    tool_wrap(stdout, "  speed    ", text);
}

static int print_table(const paper *p) {
    const mnem_engine_plan *q = &p->ranks[0].plan;
    tool_report_model(stdout, p->stage);
    tool_outf("layers in a row over %d ranks: context %d token%s, KV %s, chunks of %d\n", p->count,
              q->context, tool_s((uint64_t)q->context), tool_kv_text(q->kv_type), q->chunk);
    tool_outf("                                                                            "
              "      for a token         for a chunk\n");
    tool_outf("  rank      layers    weights         kv   code+MPI       peak     budget      "
              "sends     waits     sends     waits\n");
    for (int32_t i = 0; i < p->count; i++) print_rank(p, i);
    print_why(p);
    return tool_out_end();
}

static json_t *rank_json(const paper *p, int32_t i) {
    const mnem_engine_plan *q = &p->ranks[i].plan;
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "rank", i,
        "layer_begin", q->layer_begin, "layers", q->layers, "layers_resident", q->layers_resident,
        "weight_bytes", (json_int_t)bytes_of(q, MNEM_KIND_WEIGHTS, NULL), "kv_bytes",
        (json_int_t)bytes_of(q, MNEM_KIND_KV, NULL), "rank_bytes", (json_int_t)p->rank_bytes,
        "bytes_streamed_per_pass", (json_int_t)q->bytes_streamed_per_pass, "peak_bytes",
        (json_int_t)q->peak_bytes, "budget_bytes", (json_int_t)q->budget_bytes, "token_bytes_sent",
        (json_int_t)q->part_token_sent, "chunk_bytes_sent", (json_int_t)q->part_chunk_sent,
        "token_seconds", tool_json_known(q->part_token_seconds), "chunk_seconds",
        tool_json_known(q->part_chunk_seconds));
}

static int print_json(const paper *p) {
    const mnem_engine_plan *q = &p->ranks[0].plan;
    json_t *list = json_array();
    for (int32_t i = 0; i < p->count; i++) json_array_append_new(list, rank_json(p, i));
    tool_out_json("ranks",
                  json_pack("{s:s, s:b, s:i, s:s, s:i, s:b, s:f, s:f, s:o, s:o, s:o}", "cut",
                            "layers", "cut_by_speed", q->part_by_work, "context", q->context, "kv",
                            tool_kv_text(q->kv_type), "chunk", q->chunk, "rank_bytes_measured",
                            p->measured, "link_seconds", p->link.seconds, "link_bytes_per_s",
                            p->link.bytes_per_second, "predicted_tokens_per_s",
                            tool_json_known(q->predicted_generate), "predicted_prompt_tokens_per_s",
                            tool_json_known(q->predicted_prompt), "ranks", list));
    return tool_out_end();
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

int tool_plan_ranks(tool_stage *stage, const char *memory, int32_t count, const char *link) {
    paper p = {.stage = stage, .count = count};
    uint64_t budget;
    int code = choose_link(&p, link);
    for (int32_t i = 0; i < count && code == TOOL_OK; i++)
        code = tool_budget_of("plan", memory, i, &budget);
    if (code != TOOL_OK) return code;
    const uint64_t others = live_bytes(stage) - code_bytes(stage->ledger);
    code = tool_stage_tokenizer(stage); /* which rank 0 has */
    if (code != TOOL_OK) return code;
    const uint64_t live[2] = {live_bytes(stage) - code_bytes(stage->ledger), others};
    const mnem_status status = make_paper(&p, memory, live);
    if (status == MNEM_OK)
        code = stage->args->json ? print_json(&p) : print_table(&p);
    else if (status == MNEM_OVER_BUDGET)
        code = refuse(&p, memory, live);
    else
        code = tool_failed("%s", p.ranks && *p.ranks[0].text ? p.ranks[0].text
                                                             : mnem_status_text(status));
    close_paper(&p);
    return code;
}
