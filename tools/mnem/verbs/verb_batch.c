/* verb_batch.c: `mnem batch`: answers a file of requests into a file, inside one budget.
 *
 * The order: count the requests; open the model; read the answers of earlier runs; make the plan,
 * as for a server; create the engine, unless no request is left. Then the main thread runs the
 * scheduler, until the feeding thread stops it. After the first signal no more requests are sent,
 * and those under way are finished. The second signal ends the process at once: only requests under
 * way are lost. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "server/http/http_thread.h"
#include "verbs/batch/batch.h"

enum { WAITING = 8, QUEUE = 64 };
static const char tag[] = "batch";

static batch run; /* one in a process; so chunk is static, too */
static batch_options own;
static char chunk[BATCH_CHUNK];

/* ---- before the plan ---- */

static int check(const serve_options *o) {
    if (!serve_parallel_most(o))
        return tool_usage("batch", "--parallel takes auto, or 1 to %d; not \"%s\"",
                          SERVE_PARALLEL_MOST, o->parallel);
    if (o->dry_run && tool_ranks())
        return tool_usage("batch", "--dry-run plans for one process: mnem plan --ranks N plans for "
                                   "several");
    return serve_check_arguments("batch", o->template.arguments);
}

static bool on_counted(void *context, uint64_t bytes) {
    batch *b = context;
    struct stat about;
    if (fstat(b->in, &about) == 0)
        tool_progress_step(&b->progress, bytes, (uint64_t)about.st_size, NULL);
    return !tool_interrupted();
}

static int open_requests(batch *b) {
    struct stat about;
    b->in = open(b->in_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (b->in < 0) return tool_failed("can't read %s: %s", b->in_path, strerror(errno));
    if (fstat(b->in, &about) != 0 || !S_ISREG(about.st_mode))
        return tool_failed("%s is not a plain file; the requests are read twice, so save them in a "
                           "file first",
                           b->in_path);
    tool_progress_begin(&b->progress, "counting requests");
    const bool fine = batch_count_lines(b->in, chunk, on_counted, b, &b->counted);
    const int error = errno;
    tool_progress_end(&b->progress);
    if (!fine && error == ECANCELED) return TOOL_INTERRUPTED;
    if (!fine) return tool_failed("can't read %s: %s", b->in_path, strerror(error));
    if (!b->counted.lines)
        return tool_failed("%s has no requests; it needs one JSON object on each line", b->in_path);
    return TOOL_OK;
}

/* Sets what the plan begins with if --parallel is auto: no more requests together than about the
 * lines of the file, and pages for a mean prompt of this file and ANSWER tokens each. With several
 * ranks it sets nothing, since the other ranks don't know the file. */
static void set_auto(batch *b) {
    enum { ANSWER = 128, CHARACTERS = 4 };
    serve_options *o = &own.serve;
    int32_t most = BATCH_PARALLEL;
    if (tool_ranks()) return;
    while (most > 1 && (uint64_t)most / 2 >= b->counted.lines) most /= 2;
    o->auto_most = most;
    const uint64_t prompt = b->counted.bytes / b->counted.lines / CHARACTERS;
    o->auto_tokens = ANSWER + (int32_t)(prompt < 1 << 20 ? prompt : 1 << 20);
}

static size_t line_room(const batch *b) {
    return b->counted.longest < BATCH_LINE_MOST ? (size_t)b->counted.longest : BATCH_LINE_MOST;
}

/* One block: [ slots | again | ids | line ]. */
static int take_memory(batch *b, uint64_t answers) {
    const uint64_t n = (uint64_t)serve_parallel_most(&own.serve) + WAITING;
    const uint64_t slots = n * sizeof *b->slot, again = 2 * n * sizeof *b->again;
    const uint64_t most = b->counted.lines + answers, ids = batch_ids_bytes(most);
    const uint64_t bytes = slots + again + ids + line_room(b) + 1;
    mnem_ledger *ledger = b->serve.model.stage.ledger;
    b->slots = (int32_t)n;
    b->serve.budget_bytes = tool_budget_bytes(ledger);
    if (serve_plans_without(&b->serve, bytes)) return TOOL_OK;
    const mnem_status status = mnem_ledger_charge(ledger, MNEM_KIND_HOST, tag, bytes);
    if (status != MNEM_OK) return tool_fail(status);
    b->memory_bytes = bytes;
    char *at = b->memory = calloc(1, bytes);
    if (!at) return tool_failed("out of memory for the list of requests: end other programs");
    b->slot = (batch_slot *)(void *)at;
    b->again = (batch_place *)(void *)(at + slots);
    batch_ids_init(&b->ids, at + slots + again, most);
    batch_reader_init(&b->reader, b->in, chunk, at + slots + again + ids, line_room(b));
    return TOOL_OK;
}

static int open_answers(batch *b) {
    uint64_t lines = 0;
    int code = b->o->serve.dry_run ? TOOL_OK : batch_output_open(b);
    if (code == TOOL_OK) code = batch_output_count(b, chunk, &lines);
    if (code == TOOL_OK) code = take_memory(b, lines);
    if (code == TOOL_OK && b->memory) code = batch_output_read(b);
    return code;
}

/* ---- the plan ---- */

static int make_http(batch *b) {
    serve *s = &b->serve;
    const http_route *rows;
    const char *why;
    const size_t count = api_routes(&rows);
    if (count >= SERVE_ROUTES) return tool_failed("the API has too many routes: a bug in mnem");
    memcpy(s->routes, rows, count * sizeof *rows);
    http_server_options options = {
        .connections = b->slots, .ledger = s->model.stage.ledger, .handler = api_handler(s->api)};
    options.handler.routes = s->routes;
    const mnem_status status = http_local_create(&options, batch_feed_answer(), &s->http, &why);
    return status == MNEM_OK            ? TOOL_OK
           : status == MNEM_OVER_BUDGET ? tool_fail(status)
                                        : tool_failed("%s", why);
}

static int charge_thread(serve *s) {
    const mnem_status status = mnem_ledger_charge(s->model.stage.ledger, MNEM_KIND_RUNTIME,
                                                  "thread of requests", HTTP_THREAD_BYTES);
    if (status == MNEM_OK) s->thread_bytes = HTTP_THREAD_BYTES;
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* Sends a few more requests than run together, so that one can start when another ends. */
static void set_slots(batch *b) {
    const int32_t parallel = b->serve.model.parallel, quarter = parallel / 4;
    const int32_t waiting = quarter < 2 ? 2 : quarter > WAITING ? WAITING : quarter;
    if (parallel + waiting < b->slots) b->slots = parallel + waiting;
    b->most = b->slots;
}

static int open_all(batch *b, const tool_args *args) {
    serve *s = &b->serve;
    int code = open_requests(b);
    if (code == TOOL_OK) set_auto(b);
    if (code == TOOL_OK) code = serve_model_open(s, args);
    if (code == TOOL_OK) code = open_answers(b);
    if (code == TOOL_OK) code = serve_api_create(s, NULL);
    if (code == TOOL_OK) code = make_http(b);
    if (code == TOOL_OK) code = charge_thread(s);
    if (code == TOOL_OK) code = serve_plan(s);
    if (code != TOOL_OK) return code;
    set_slots(b);
    b->run = batch_run_of(b);
    return batch_output_check(b);
}

static void say_plan(const batch *b, const char *lead) {
    const serve *s = &b->serve;
    const mnem_engine_plan *p = &s->model.stage.plan;
    char text[200], held[TOOL_TEXT];
    int n = snprintf(text, sizeof text, "up to %d request%s at a time, of up to %d tokens each",
                     s->model.parallel, tool_s((uint64_t)s->model.parallel), p->context);
    if (p->page_bytes && !s->model.stage.transformer.encoder)
        snprintf(text + n, sizeof text - (size_t)n, "; the KV cache has space for %s tokens",
                 tool_exact((uint64_t)p->pages * (uint64_t)p->page_tokens, held));
    if (lead)
        tool_wrap(stdout, lead, text);
    else
        tool_message("%s", text);
}

static int print_plan(const batch *b) {
    const tool_stage *stage = &b->serve.model.stage;
    if (stage->args->json) {
        json_t *plan = tool_report_plan_json(&stage->plan, stage);
        if (plan) json_object_set_new(plan, "parallel", json_integer(b->serve.model.parallel));
        if (plan) json_object_set_new(plan, "lines", json_integer((json_int_t)b->counted.lines));
        tool_out_json("plan", plan);
        return TOOL_OK;
    }
    tool_report_model(stdout, stage);
    if (stage->args->verbose)
        tool_report_plan(stdout, &stage->plan, stage);
    else
        tool_report_plan_short(stdout, &stage->plan, stage);
    say_plan(b, "  batch    ");
    return TOOL_OK;
}

/* ---- the run ---- */

/* A signal's handler. */
static void drain(void *context) {
    batch *b = context;
    atomic_store(&b->draining, true);
    http_server_wake(b->serve.http);
}

static int run_requests(batch *b) {
    serve *s = &b->serve;
    api_begin(s->api, s->http, s->model.scheduler, s->model.stage.plan.context);
    tool_progress_begin(&b->progress, "requests");
    b->progress.before = (double)b->kept / (double)b->counted.lines;
    b->begun = tool_clock();
    const int error = http_thread_start(&s->thread, batch_feed, b);
    if (error) return tool_failed("can't start the thread of requests: %s", strerror(error));
    const mnem_status status = mnem_scheduler_run(s->model.scheduler);
    http_server_stop(s->http, false);
    pthread_join(s->thread, NULL);
    tool_progress_end(&b->progress);
    if (status != MNEM_OK) return tool_fail(status);
    return b->code;
}

static int answer_all(batch *b) {
    serve *s = &b->serve;
    int code = TOOL_OK;
    /* The other ranks wait for the engine even if there is no request. */
    if (!batch_feed_prepare(b) && (b->code != TOOL_OK || !tool_ranks())) return b->code;
    tool_report_start(&s->model.stage);
    if (!s->model.stage.args->quiet && !s->model.stage.args->json) say_plan(b, NULL);
    code = serve_plan_keep(s);
    if (code == TOOL_OK) code = serve_engine_create(s);
    if (code == TOOL_OK) code = run_requests(b);
    return code;
}

/* ---- messages at the end ---- */

static void say_failed(const batch *b) {
    const uint64_t failed = b->failed + b->kept_failed, all = b->done + b->kept;
    if (b->failed)
        tool_message("%" PRIu64 " of %" PRIu64 " requests failed; the first one is on line %" PRIu64
                     ": %s",
                     failed, all, b->first_failed, b->first_why);
    else if (failed)
        tool_message("%" PRIu64 " of %" PRIu64 " requests failed, in an earlier run", failed, all);
}

static void say_end(const batch *b, int code) {
    const char *out = b->out_keeps ? b->o->out : "standard output";
    char kept[64] = "", time[TOOL_TEXT];
    const double seconds = b->begun > 0 ? tool_clock() - b->begun : 0;
    if (b->kept) snprintf(kept, sizeof kept, ", %" PRIu64 " of them in earlier runs", b->kept);
    if (code == TOOL_INTERRUPTED && b->out_keeps)
        tool_message("stopped after %" PRIu64 " of %" PRIu64
                     " requests%s: run the same command again to continue",
                     b->done + b->kept, b->counted.lines - b->blank, kept);
    else if (code == TOOL_INTERRUPTED)
        tool_message("stopped after %" PRIu64 " of %" PRIu64
                     " requests; with --out FILE a stopped run can be continued",
                     b->done, b->counted.lines - b->blank);
    else if (!b->done && !b->kept)
        tool_message("%s has only blank lines, so it has no requests", b->in_path);
    else if (!b->done)
        tool_message("%s already has all %" PRIu64 " answers", out, b->kept);
    else
        tool_message("%" PRIu64 " request%s answered in %s%s", b->done + b->kept,
                     tool_s(b->done + b->kept), tool_seconds(seconds, time), kept);
    say_failed(b);
}

static void print_end(const batch *b, int code) {
    if (batch_output_is_stdout(b)) return;
    json_t *end = json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:b, s:f}", "type", "batch", "requests",
        (json_int_t)(b->counted.lines - b->blank), "answered", (json_int_t)(b->done + b->kept),
        "kept", (json_int_t)b->kept, "failed", (json_int_t)(b->failed + b->kept_failed), "stopped",
        code == TOOL_INTERRUPTED, "seconds", b->begun > 0 ? tool_clock() - b->begun : 0.0);
    tool_out_json("batch", end);
}

/* Prints the summary. The exit code is TOOL_OK even if some requests failed, since each has its
 * answer; it is TOOL_FAILED if all did. */
static int end_of(batch *b, int code) {
    if (code == TOOL_OK && (atomic_load(&b->draining) || tool_interrupted()) && !tool_out_closed())
        code = TOOL_INTERRUPTED;
    if (code != TOOL_OK && code != TOOL_INTERRUPTED) return code;
    if (b->o->serve.args.json)
        print_end(b, code);
    else if (!b->o->serve.args.quiet)
        say_end(b, code);
    const uint64_t all = b->done + b->kept;
    const bool none = all > 0 && b->failed + b->kept_failed == all;
    return code == TOOL_OK && none ? TOOL_FAILED : code;
}

static void take_down(batch *b) {
    serve *s = &b->serve;
    mnem_ledger *ledger = s->model.stage.ledger;
    mnem_scheduler_destroy(s->model.scheduler);
    mnem_engine_destroy(s->model.engine);
    http_server_destroy(s->http);
    api_destroy(s->api);
    free(b->memory);
    if (b->memory_bytes) mnem_ledger_release(ledger, MNEM_KIND_HOST, tag, b->memory_bytes);
    if (s->model.books_bytes)
        mnem_ledger_release(ledger, MNEM_KIND_HOST, "scheduler", s->model.books_bytes);
    if (s->thread_bytes)
        mnem_ledger_release(ledger, MNEM_KIND_RUNTIME, "thread of requests", s->thread_bytes);
    if (b->in >= 0) close(b->in);
}

/* Runs a rank that follows rank 0. */
static int follow(serve *s, const tool_args *args) {
    int code = tool_stage_open(args, &s->o->session, &s->model.stage);
    if (code == TOOL_OK) code = serve_follow(s);
    if (s->model.books_bytes)
        mnem_ledger_release(s->model.stage.ledger, MNEM_KIND_HOST, "scheduler",
                            s->model.books_bytes);
    tool_stage_close(&s->model.stage);
    return code;
}

static int verb_batch(const tool_args *args) {
    batch *b = &run;
    own = *(const batch_options *)args;
    own.serve.queue = QUEUE;
    b->o = &own;
    b->serve.o = b->serve.model.o = &own.serve;
    b->in_path = args->operand[1];
    b->in = b->out = -1;
    int code = check(&own.serve);
    if (code != TOOL_OK) return code;
    tool_interrupt_watch(NULL);
    if (tool_ranks_follows()) return follow(&b->serve, args);
    code = open_all(b, args);
    if (code == TOOL_OK && own.serve.dry_run) {
        code = print_plan(b);
    } else if (code == TOOL_OK) {
        tool_interrupt_call(drain, b);
        if (tool_interrupted()) drain(b); /* the signal came before tool_interrupt_call */
        code = batch_output_create(b);
        if (code == TOOL_OK) code = answer_all(b);
        tool_interrupt_call(NULL, NULL);
        const int closed = batch_output_close(b);
        if (code == TOOL_OK) code = closed;
        code = end_of(b, code);
    }
    if (b->serve.model.engine && args->verbose && !args->quiet)
        tool_report_end(stderr, &b->serve.model.stage);
    take_down(b);
    code = tool_stage_end_trace(&b->serve.model.stage, code);
    tool_stage_close(&b->serve.model.stage);
    const int out = tool_out_end();
    return code == TOOL_OK ? out : code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(batch_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"out", 'o', "FILE", TOOL_VALUE_TEXT, AT(out), .path = TOOL_PATH_WRITE | TOOL_PATH_IN_PLACE,
     .also = "output output-file",
     .help = "append answers to FILE as they come; those of an earlier run are kept, and their "
             "requests skipped (default: -, standard output)"},
    {"parallel", 0, "N", TOOL_VALUE_TEXT, AT(serve.parallel), .also = "np n-parallel max-num-seqs",
     .help = "number of requests that run concurrently, or auto: 16, up to 64 if weights are "
             "streamed, or fewer if the budget is small (default: auto)"},
    {"dry-run", 0, NULL, TOOL_VALUE_FLAG, AT(serve.dry_run),
     .help = "print the plan (requests at a time, bytes, predicted speed) and exit, without "
             "loading the model or writing FILE"},
    TOOL_GROUP(tool_session_options, AT(serve.session)),
    TOOL_GROUP(tool_cut_options, AT(serve.session)),
    TOOL_GROUP(tool_pre_options, AT(serve.session.pre)),
    {"alias", 'a', "NAME", TOOL_VALUE_TEXT, AT(serve.alias), .also = "served-model-name",
     .help = "model name in answers (default: the name of its file)"},
    {"truncate", 0, NULL, TOOL_VALUE_FLAG, AT(serve.truncate),
     .help = "truncate prompts that exceed the context, instead of refusing them"},
    {"pooling", 0, "HOW", TOOL_VALUE_CHOICE, AT(serve.pooling), .choices = "file mean cls last",
     .help = "how the hidden states of a text's tokens become its embedding: their mean, the first "
             "one (cls) or the last (default: file, the pooling that the model file names)"},
    TOOL_GROUP(tool_template_options, AT(serve.template)),
    TOOL_GROUP(tool_sampling_options, AT(serve.sampling)),
    TOOL_GROUP(tool_breaker_options, AT(serve.breakers)),
    TOOL_GROUP(tool_trace_options, AT(serve.session.trace)),
    TOOL_JSON_OPTION("one object at the end, with the numbers of requests and failures (with "
                     "--dry-run the plan)"),
    TOOL_GROUP(tool_quiet_options, 0),
    TOOL_GROUP(tool_verbose_options, 0),
    {0},
};

static void defaults(tool_args *args) {
    batch_options *o = (batch_options *)args;
    o->serve.sampling = mnem_sampler_usual();
}

static batch_options asked;
TOOL_VERB_WITH(
    batch, defaults, "MODEL REQUESTS", 2, 2, "answer a file of requests, inside the budget",
    "Answers the requests of a file in OpenAI's batch format, without a server or a network. Each\n"
    "line of REQUESTS is an object with custom_id, method (POST), url and body; url is\n"
    "/v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses, and body is what\n"
    "mnem serve takes there, without stream. Each answer is a line with the same custom_id and\n"
    "the response that mnem serve gives, in the order in which they are completed.\n"
    "\n"
    "As many requests run together as the budget has space for. With --out FILE a run that was\n"
    "stopped in any way goes on when the same command is run again: answers in FILE are kept, an\n"
    "incomplete last line is removed, and the other requests are answered. FILE of another\n"
    "model, or of options that change texts, is refused.\n"
    "\n"
    "A line that is wrong is answered with status_code 400 and the reason; the others go on. The\n"
    "exit code is 0 if every line has an answer, also if some failed; 1 if all failed, or the\n"
    "run could not go on. Ctrl-C or SIGTERM finishes the requests in progress and ends with exit\n"
    "code 130 or 143; a second signal stops at once.\n",
    "mnem batch model.gguf requests.jsonl -o answers.jsonl  # run it again to go on\n"
    "mnem batch model.gguf requests.jsonl -o answers.jsonl --memory 2G  # stay inside 2 GiB\n"
    "mnem batch model.gguf requests.jsonl --dry-run  # print the plan only\n");
