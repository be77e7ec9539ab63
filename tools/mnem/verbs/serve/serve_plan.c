/* serve_plan.c: how many conversations at a time, and what they cost.
 *
 * What the budget leaves beside weights and one conversation becomes pages for all of them: that
 * many run together costs little (a row of logits each), what they hold is what they share. So by
 * default there are eight, and fewer only where not even their rows fit. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/serve/serve_tool.h"

enum { DEFAULT_CONTEXT = 4096, QUEUE_BYTES = 1 << 20 };

/* Beside those that run an engine has sequences that only keep what they hold, for others. Of an
 * encoder nothing is kept: a text is a pass. */
static int32_t sequences_of(const served_model *m, int32_t parallel) {
    return m->stage.transformer.encoder ? 1 : 2 * parallel;
}

static mnem_scheduler_options scheduler_options(const served_model *m) {
    return (mnem_scheduler_options){.running = m->parallel,
                                    .queue_requests = m->o->queue,
                                    .queue_bytes = QUEUE_BYTES,
                                    .swap = m->o->swap,
                                    .keep_cache = m->o->keep_cache,
                                    .swap_bytes = m->swap_bytes ? m->swap_bytes : m->o->swap_max,
                                    .on_work = m->on_work,
                                    .work_context = m->work_context};
}

static uint64_t books_of(void *context, int32_t tokens) {
    const served_model *m = context;
    const mnem_scheduler_options options = scheduler_options(m);
    return mnem_scheduler_bytes(&options, sequences_of(m, m->parallel), tokens,
                                m->stage.transformer.vocab);
}

/* The largest context that ranks may choose, where it isn't chosen yet. */
static int32_t context_most(const served_model *m) {
    const int32_t model = m->stage.transformer.context, asked = m->o->session.context;
    return asked ? asked : model < DEFAULT_CONTEXT ? model : DEFAULT_CONTEXT;
}

static void release_books(served_model *m) {
    mnem_ledger_release(m->stage.ledger, MNEM_KIND_HOST, "scheduler", m->books_bytes);
    m->books_bytes = 0;
}

mnem_status serve_scheduler_create(served_model *m, int32_t end) {
    mnem_scheduler_options options = scheduler_options(m);
    options.engine = m->engine;
    options.tokenizer = m->stage.tokenizer;
    options.ends = &end;
    options.end_count = end >= 0;
    if (options.swap) options.swap_bytes_per_s = tool_profile_swap();
    release_books(m);
    return mnem_scheduler_create(&options, &m->scheduler);
}

static mnem_status charge(served_model *m, uint64_t bytes) {
    const mnem_status status =
        mnem_ledger_charge(m->stage.ledger, MNEM_KIND_HOST, "scheduler", bytes);
    if (status == MNEM_OK) m->books_bytes = bytes;
    return status;
}

/* The books are a part of the plan, for the context that it chooses. Ranks cut a model by what is
 * live before they plan: there they are charged before, for any context. */
static mnem_status set_books(served_model *m, int32_t parallel) {
    m->parallel = parallel;
    m->stage.options.sequences = sequences_of(m, parallel);
    m->stage.options.logits_rows = parallel;
    m->stage.options.pages_fill = !m->stage.transformer.encoder;
    m->stage.options.snapshots = MNEM_SNAPSHOTS_FILL;
    if (m->stage.options.comm) return charge(m, books_of(m, context_most(m)));
    m->stage.options.scheduler_bytes = books_of;
    m->stage.options.scheduler_context = m;
    return MNEM_OK;
}

static bool fits(served_model *m, int32_t parallel) {
    if (set_books(m, parallel) != MNEM_OK) return false;
    const mnem_status status = tool_stage_try(&m->stage);
    if (m->books_bytes) release_books(m);
    return status == MNEM_OK;
}

/* Whether a batch gains from running more requests together than a server. It gains a little from
 * twice as many, and from more only if each step streams weights. It gains nothing if there are too
 * few pages or states for them, or if these displace weights. streamed: bytes that a pass streams
 * with a server's number of requests. */
static bool gains(served_model *m, int32_t parallel, uint64_t streamed) {
    const mnem_engine_plan *p = &m->stage.plan;
    if (!fits(m, parallel) || (!streamed && parallel > 2 * SERVE_PARALLEL)) return false;
    const int32_t asked = m->o->auto_tokens, each = asked < p->context ? asked : p->context;
    return p->bytes_streamed_per_pass <= streamed + streamed / 8 &&
           (p->states <= 0 || p->states >= parallel) &&
           (!p->page_bytes || (int64_t)p->pages * p->page_tokens >= (int64_t)parallel * each);
}

/* The number of requests that a batch runs together, up to `most`; 0: choose it as for a server. */
static int32_t batch_parallel(served_model *m, int32_t most) {
    if (most <= SERVE_PARALLEL || !fits(m, SERVE_PARALLEL)) return 0;
    const uint64_t streamed = m->stage.plan.bytes_streamed_per_pass;
    while (most > SERVE_PARALLEL && !gains(m, most, streamed)) most /= 2;
    return most;
}

int serve_plan_keep(serve *s) {
    if (s->model.books_bytes) return TOOL_OK; /* with ranks they are charged already */
    s->model.stage.options.scheduler_bytes = NULL;
    const mnem_status status = charge(&s->model, books_of(&s->model, s->model.stage.plan.context));
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

bool serve_parallel_is_auto(const serve_options *o) {
    return !o->parallel || strcmp(o->parallel, "auto") == 0;
}

void serve_model_books(served_model *m, int32_t parallel) {
    (void)set_books(m, parallel); /* nothing is charged without ranks */
}

int32_t serve_parallel_first(const served_model *m) {
    return m->stage.transformer.encoder ? 1 : serve_parallel_most(m->o);
}

int32_t serve_parallel_most(const serve_options *o) {
    char *end;
    if (serve_parallel_is_auto(o)) return o->auto_most ? o->auto_most : SERVE_PARALLEL;
    const long n = strtol(o->parallel, &end, 10);
    return *o->parallel && !*end && n >= 1 && n <= SERVE_PARALLEL_MOST ? (int32_t)n : 0;
}

uint64_t serve_parts(uint64_t budget_bytes, api_options *options) {
    uint64_t part = budget_bytes / API_PARTS;
    if (part < API_PART_LEAST) part = API_PART_LEAST;
    if (part > API_PART_MOST) part = API_PART_MOST;
    options->memory_bytes = options->template_bytes = options->grammar_bytes = part;
    options->json_bytes = 2 * part;
    return options->memory_bytes + options->template_bytes + options->grammar_bytes +
           options->json_bytes;
}

/* The least budget, of 4 KiB, where `needed` includes the parts of `budget`: those of a larger one
 * are larger, by less than a twelfth of what it has more. */
static uint64_t least_of(uint64_t needed, uint64_t budget) {
    enum { PAGE = 4 << 10 };
    api_options parts;
    const uint64_t fixed = needed - serve_parts(budget, &parts);
    uint64_t least = needed, last;
    do {
        last = least;
        least = (fixed + serve_parts(last, &parts) + PAGE - 1) / PAGE * PAGE;
    } while (least > last);
    return least;
}

/* Of a budget of what is there already the plan is refused for certain. */
bool serve_plans_without(serve *s, uint64_t connections_bytes) {
    mnem_ledger *ledger = s->model.stage.ledger;
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    if (s->model.stage.device || info.bytes_live + connections_bytes <= s->budget_bytes)
        return false;
    if (mnem_ledger_budget_set(ledger, info.bytes_live) != MNEM_OK) return false;
    s->absent_bytes = connections_bytes;
    return true;
}

static int plan(serve *s) {
    tool_stage *stage = &s->model.stage;
    const mnem_status status = tool_stage_choose(stage);
    const uint64_t needed = stage->plan.needed_bytes + s->absent_bytes;
    const bool own = status == MNEM_OVER_BUDGET && stage->plan.needed_bytes &&
                     stage->plan.needed_rank == 0 && !stage->device; /* rank 0's, or the only */
    if (!own) return tool_stage_chosen(stage, status);
    return tool_fail_needs(least_of(needed, s->budget_bytes), s->budget_bytes, stage->plan.knob);
}

/* ---- the budget for all ---- */

/* Tokens for which a plan has no pages, if all conversations had their full length. */
static int64_t lacking(const serve *s, const mnem_engine_plan *p) {
    return (int64_t)s->model.parallel * p->context - (int64_t)p->pages * p->page_tokens;
}

/* The plan of this context with another budget, of which the server's parts are larger, too. */
static bool plan_with(serve *s, uint64_t budget, mnem_engine_plan *with) {
    mnem_engine_options o = s->model.stage.options;
    api_options parts;
    const uint64_t more = serve_parts(budget, &parts) - serve_parts(s->budget_bytes, &parts);
    o.context = s->model.stage.plan.context;
    return mnem_ledger_budget_set(s->model.stage.ledger, budget - more) == MNEM_OK &&
           mnem_engine_plan_make(s->model.stage.model, &o, with) == MNEM_OK;
}

/* A budget that has pages for all conversations at full length. It is found by planning, because
 * larger parts, and weights that are streamed now, take of a larger one before pages do. Of states,
 * ranks and devices none is named. */
static void find_budget_of_all(serve *s) {
    enum { TRIES = 16 };
    mnem_engine_plan with = s->model.stage.plan;
    uint64_t budget = s->budget_bytes;
    s->all_bytes = 0;
    if (!budget || with.states > 0 || !with.page_tokens || s->model.stage.options.comm ||
        s->model.stage.device || s->model.stage.transformer.encoder)
        return;
    const uint64_t token_bytes = with.page_bytes / (uint64_t)with.page_tokens;
    for (int i = 0; i < TRIES && lacking(s, &with) > 0; i++) {
        budget += (uint64_t)lacking(s, &with) * token_bytes + (256 << 10);
        if (!plan_with(s, budget, &with)) break;
    }
    if (lacking(s, &with) <= 0 && budget > s->budget_bytes) s->all_bytes = budget;
    s->all_streams = with.streamed;
    (void)mnem_ledger_budget_set(s->model.stage.ledger, s->budget_bytes);
}

int serve_plan(serve *s) {
    int32_t parallel = s->model.stage.transformer.encoder ? 1 : serve_parallel_most(s->o);
    const bool is_auto = serve_parallel_is_auto(s->o);
    const int32_t batch = is_auto ? batch_parallel(&s->model, parallel) : 0;
    if (is_auto && !batch)
        while (parallel > 1 && !fits(&s->model, parallel)) parallel /= 2;
    if (batch) parallel = batch;
    const mnem_status status = set_books(&s->model, parallel);
    const int code = status == MNEM_OK ? plan(s) : tool_fail(status);
    if (code == TOOL_OK) find_budget_of_all(s);
    return code;
}

static mnem_status follow_scheduler(void *context, mnem_engine *engine) {
    serve *s = context;
    mnem_scheduler_options options = scheduler_options(&s->model);
    options.engine = engine;
    release_books(&s->model);
    return mnem_scheduler_follow(&options);
}

/* How many run together is rank 0's to say: as many as may. */
int serve_follow(serve *s) {
    const mnem_scheduler_options options = scheduler_options(&s->model);
    const int32_t most = sequences_of(&s->model, serve_parallel_most(s->o));
    const mnem_status status = charge(&s->model, mnem_scheduler_follow_bytes(&options, most));
    if (status != MNEM_OK) return tool_fail(status);
    return tool_stage_follow_with(&s->model.stage, follow_scheduler, s);
}

/* ---- what it says ---- */

/* A message; for --dry-run a line of the plan. */
static void __attribute__((format(printf, 3, 4)))
say(const serve *s, const char *lead, const char *format, ...) {
    static const char self[] = "this server ";
    char text[320];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (s->o->dry_run)
        tool_wrap(stdout, lead, strncmp(text, self, strlen(self)) ? text : text + strlen(self));
    else
        tool_message("%s", text);
}

static void say_states(const serve *s) {
    const mnem_engine_plan *p = &s->model.stage.plan;
    char size[TOOL_TEXT];
    if (p->states <= 0) return;
    say(s, "           ",
        p->states < s->model.parallel
            ? "the model's recurrent layers have %d live state%s and up to %d snapshot%s, %s each; "
              "further conversations wait"
            : "the model's recurrent layers have %d live state%s and up to %d snapshot%s, %s each",
        p->states, tool_s((uint64_t)p->states), p->snapshots, tool_s((uint64_t)p->snapshots),
        tool_size(mnem_transformer_state_bytes(&s->model.stage.transformer), size));
}

static void say_conversations(const serve *s) {
    const mnem_engine_plan *p = &s->model.stage.plan;
    char held[TOOL_TEXT], each[TOOL_TEXT], more[TOOL_TEXT], context[24];
    if (!p->page_tokens) return;
    if (s->model.stage.transformer.encoder) {
        say(s, "  server   ",
            "this server computes embeddings, of one text at a time, with up to %d tokens each",
            p->context);
        return;
    }
    const int64_t tokens = (int64_t)p->pages * p->page_tokens;
    const uint64_t bytes = p->page_bytes / (uint64_t)p->page_tokens;
    if (bytes == 0) { /* no layer attends */
        say(s, "  server   ",
            "this server runs up to %d conversation%s at a time, of up to %d tokens each; "
            "the state of each takes %s at any length",
            s->model.parallel, tool_s((uint64_t)s->model.parallel), p->context,
            tool_size(mnem_transformer_state_bytes(&s->model.stage.transformer), each));
        say_states(s);
        return;
    }
    say(s, "  server   ",
        "this server runs up to %d conversation%s at a time, of up to %d tokens each; its "
        "KV cache has space for %s tokens in total (%s per token)",
        s->model.parallel, tool_s((uint64_t)s->model.parallel), p->context,
        tool_exact((uint64_t)tokens, held), tool_size(bytes, each));
    say_states(s);
    const uint64_t enough = s->all_bytes;
    if (!enough) return;
    tool_budget_of_other(enough, more);
    context[0] = 0;
    if (!p->context_fixed) snprintf(context, sizeof context, " --ctx %d", p->context);
    say(s, "           ",
        "for all %d conversations at full length%s, use --memory %s%s; with the present "
        "budget, long ones wait or are preempted",
        s->model.parallel, p->streamed && !s->all_streams ? " and all weights in memory" : "", more,
        context);
}

/* Planned memory is touched before a weight is read: of a large server that takes many seconds. */
static void say_touching(const serve *s) {
    const uint64_t large = (uint64_t)2 << 30, bytes = s->model.stage.plan.peak_bytes;
    char size[TOOL_TEXT];
    if (bytes < large) return;
    tool_message("allocating %s of memory; after that, the weights are read",
                 tool_size(bytes - s->model.stage.kept_bytes, size));
}

void serve_plan_say(const serve *s) {
    if (s->model.stage.args->quiet || s->model.stage.args->json) return;
    say_conversations(s);
    say_touching(s);
}

/* ---- --dry-run ---- */

static json_t *plan_json(const serve *s) {
    const mnem_engine_plan *p = &s->model.stage.plan;
    const uint64_t enough = s->all_bytes;
    const int64_t tokens = (int64_t)p->pages * p->page_tokens;
    json_t *plan = tool_report_plan_json(p, &s->model.stage);
    json_t *more =
        json_pack("{s:s, s:i, s:I, s:I, s:o, s:o}", "model_name", s->model.name, "parallel",
                  s->model.parallel, "kv_tokens", (json_int_t)tokens, "kv_bytes_per_token",
                  (json_int_t)(p->page_tokens ? p->page_bytes / (uint64_t)p->page_tokens : 0),
                  "memory_for_all", enough ? json_integer((json_int_t)enough) : json_null(),
                  "predicted_together_tokens_per_s", tool_json_known(p->predicted_together));
    if (plan && more) json_object_update(plan, more);
    json_decref(more);
    return plan;
}

static void print_together(const serve *s) {
    const mnem_engine_plan *p = &s->model.stage.plan;
    if (s->model.parallel < 2 || p->predicted_together <= 0) return;
    say(s, "           ", "%d conversations that generate at once: about %.*f tokens/s together",
        p->together, p->predicted_together < 100, p->predicted_together);
}

void serve_plan_print(const serve *s) {
    const tool_stage *stage = &s->model.stage;
    if (stage->args->json) {
        tool_out_json("plan", plan_json(s));
        return;
    }
    tool_report_model(stdout, stage);
    if (stage->args->verbose)
        tool_report_plan(stdout, &stage->plan, stage);
    else
        tool_report_plan_short(stdout, &stage->plan, stage);
    say_conversations(s);
    print_together(s);
}
