/* verb_serve.c: `mnem serve`: many conversations inside one budget, for clients of several APIs.
 *
 * The order: what requests and connections take is charged, and the address is bound; the plan; the
 * thread of the connections (which answers 503 until the model is loaded); the engine; then this
 * thread runs the scheduler. The first signal drains: what runs is finished, new requests get 503.
 * The second one leaves at once. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks/ranks.h"
#include "sight/history_file.h"
#include "sight/monitor_file.h"
#include "verbs/serve/models/models_serve.h"
#include "verbs/serve/serve_tool.h"

enum { DEFAULT_PORT = 8080, DEFAULT_QUEUE = 32, DEFAULT_WAIT = 10 };

static serve served; /* one in a process, as handlers have the API's context */

/* ---- the thread of the connections ---- */

static void say_draining(serve *s, const mnem_scheduler *ready) {
    mnem_scheduler_stats stats;
    if (s->said_draining || !ready || tool_ranks() || s->model.stage.args->quiet) return;
    s->said_draining = true;
    if (isatty(STDERR_FILENO)) fputc('\n', stderr); /* the terminal shows ^C */
    mnem_scheduler_stats_get(ready, &stats);
    const int32_t left = stats.running + stats.waiting;
    if (left > 0)
        tool_message("finishing %d request%s; a second Ctrl-C or SIGTERM stops the server at once",
                     left, tool_s((uint64_t)left));
}

/* It is the only one that calls the API. */
static void on_wake(void *context) {
    serve *s = &served;
    mnem_scheduler *ready = atomic_load(&s->ready);
    if (ready && !s->begun) {
        s->begun = true;
        api_begin(s->api, s->http, ready, s->model.stage.plan.context);
    }
    if (atomic_load(&s->draining)) {
        api_drain(s->api);
        say_draining(s, ready);
    }
    s->api_wake(context);
    if (s->begun) {
        mnem_scheduler_stats stats;
        mnem_scheduler_stats_get(ready, &stats);
        tool_monitor_scheduler(&stats);
    }
}

/* A swap file that fails costs time, no request: it is said, and again for another reason. */
static void on_tick(void *context) {
    serve *s = &served;
    mnem_scheduler_stats stats;
    const mnem_scheduler *ready = atomic_load(&s->ready);
    s->api_tick(context);
    if (!ready || !s->o->swap) return;
    mnem_scheduler_stats_get(ready, &stats);
    if (strcmp(stats.swap_failure, s->swap_failure) == 0) return;
    snprintf(s->swap_failure, sizeof s->swap_failure, "%s", stats.swap_failure);
    tool_message(
        "the swap file failed (%s), so what could not be offloaded is recomputed, which is "
        "slower; free some space in %s, or lower --swap-max",
        stats.swap_failure, s->o->swap);
}

/* The thread of the connections has ended. */
static void stop_scheduler(void *context) {
    const serve *s = context;
    mnem_scheduler *ready = atomic_load(&s->ready);
    if (ready) mnem_scheduler_stop(ready, false);
}

/* ---- before the plan ---- */

int serve_check_arguments(const char *verb, const char *arguments) {
    json_t *value = arguments ? json_loads(arguments, 0, NULL) : NULL;
    const bool fine = !arguments || json_is_object(value);
    json_decref(value);
    if (fine) return TOOL_OK;
    return tool_usage(
        verb, "--template-args takes a valid JSON object, such as '{\"enable_thinking\": false}'");
}

static int check(const serve_options *o) {
    const int code = serve_check_open(serve_is_loopback(o->host), o);
    if (code != TOOL_OK) return code;
    if (!serve_parallel_most(o))
        return tool_usage("serve", "--parallel takes auto, or 1 to %d; not \"%s\"",
                          SERVE_PARALLEL_MOST, o->parallel);
    if (o->key_file && o->no_auth)
        return tool_usage("serve", "--api-key-file and --no-auth can't be combined: leave one out");
    if (serve_check_arguments("serve", o->template.arguments) != TOOL_OK) return TOOL_USAGE;
    if (o->swap_max && !o->swap)
        return tool_usage(
            "serve",
            "--swap-max sets the size of a swap file and needs --swap FILE or --swap FOLDER");
    const uint32_t kept = MNEM_FEATURE_SAVED | MNEM_FEATURE_RANKS_LAYERS;
    if (o->keep_cache && tool_ranks() && mnem_transformer_supports(NULL, kept) != MNEM_OK)
        return tool_usage("serve", "--keep-cache can't be used: %s", mnem_last_error());
    if (o->dry_run && tool_ranks())
        return tool_usage("serve", "--dry-run plans for one process: mnem plan --ranks N plans for "
                                   "several");
    struct stat info;
    if (o->slots && (stat(o->slots, &info) != 0 || !S_ISDIR(info.st_mode)))
        return tool_usage("serve", "--slot-save-path '%s' must be a folder that exists", o->slots);
    if (o->models) return models_check(o);
    if (tool_given(&o->args, "wait"))
        return tool_usage("serve", "--wait applies to several models only: add --models");
    if (o->keep_cache && (!o->swap || (stat(o->swap, &info) == 0 && S_ISDIR(info.st_mode))))
        return tool_usage(
            "serve",
            "--keep-cache needs a swap file with a name: use --swap FILE, not --swap FOLDER");
    return TOOL_OK;
}

/* "SmolLM2-135M" of ".../SmolLM2-135M.gguf", or --alias. */
static void name_choose(serve *s) {
    mnem_model_info info;
    mnem_model_info_get(s->model.stage.model, &info);
    snprintf(s->model.name, sizeof s->model.name, "%s",
             s->o->alias ? s->o->alias : tool_file_name(info.path));
    char *dot = strrchr(s->model.name, '.');
    if (!s->o->alias && dot && strcmp(dot, ".gguf") == 0) *dot = 0;
}

int serve_model_open(serve *s, const tool_args *args) {
    tool_stage *stage = &s->model.stage;
    int code = tool_stage_open(args, &s->o->session, stage);
    if (code == TOOL_OK) code = tool_stage_tokenizer(stage);
    if (code == TOOL_OK) code = tool_stage_breakers(stage, &s->o->breakers);
    if (code == TOOL_OK && s->o->template.file) code = tool_stage_read(stage, s->o->template.file);
    if (code == TOOL_OK) name_choose(s);
    return code;
}

int serve_api_create(serve *s, void (*on_note)(void *context, const char *text)) {
    api_options options = {.ledger = s->model.stage.ledger,
                           .model = s->model.stage.model,
                           .tokenizer = s->model.stage.tokenizer,
                           .name = s->model.name,
                           .template = {s->model.stage.prompt.text, s->model.stage.prompt.bytes},
                           .template_args = s->o->template.arguments,
                           .pooling = (mnem_pooling)s->o->pooling,
                           .sampler = s->o->sampling,
                           .truncate = s->o->truncate,
                           .metrics_vllm = s->o->metrics == 1,
                           .slot_folder = s->o->slots,
                           .on_note = on_note,
                           .body_bytes = SERVE_BODY_BYTES};
    options.sampler.dry_breakers = s->model.stage.breakers.of;
    s->budget_bytes = tool_budget_bytes(s->model.stage.ledger);
    s->model.stage.kept_bytes = serve_parts(s->budget_bytes, &options) + SERVE_BODY_BYTES;
    const mnem_status status = api_create(&options, &s->api);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int open_all(serve *s, const tool_args *args) {
    int code = s->o->key_file ? serve_keys_read(&s->keys, s->o->key_file) : TOOL_OK;
    if (code == TOOL_OK) code = serve_model_open(s, args);
    if (code == TOOL_OK)
        code = serve_api_create(s, s->model.stage.args->quiet ? NULL : serve_on_note);
    if (code == TOOL_OK) code = serve_http_create(s, on_wake, on_tick);
    if (code == TOOL_OK) code = serve_plan(s);
    return code;
}

/* ---- engine and scheduler ---- */

int serve_engine_create(serve *s) {
    tool_stage *stage = &s->model.stage;
    tool_progress progress;
    tool_progress_lines();
    tool_progress_begin(&progress, "loading");
    stage->options.progress = (mnem_progress){tool_progress_tell, &progress};
    mnem_status status =
        mnem_engine_create(stage->model, &stage->options, &stage->plan, &s->model.engine);
    tool_progress_end(&progress);
    if (status == MNEM_OK) status = serve_scheduler_create(&s->model, api_end_token(s->api));
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static void say_ready(const serve *s) {
    if (s->model.stage.args->json) {
        json_t *plan = tool_report_plan_json(&s->model.stage.plan, &s->model.stage);
        tool_out_json("serving", json_pack("{s:s, s:i, s:s, s:i, s:o}", "address",
                                           http_server_address(s->http), "port",
                                           http_server_port(s->http), "model", s->model.name,
                                           "parallel", s->model.parallel, "plan", plan));
    } else {
        tool_outf("%s\n", http_server_address(s->http));
    }
    (void)tool_out_end(); /* an address that can't be written is said now, not when it ends */
    if (!s->model.stage.args->quiet && !s->model.stage.args->json)
        tool_message("clients can use the model %s at the address above: %s", s->model.name,
                     s->model.stage.transformer.encoder
                         ? "/v1/embeddings"
                         : "a chat page for browsers, OpenAI's API under /v1, Ollama's under /api");
    serve_notify("READY=1");
}

/* Until a signal has drained it. */
static int serve_requests(serve *s) {
    atomic_store(&s->ready, s->model.scheduler);
    http_server_wake(s->http);
    if (atomic_load(&s->over)) mnem_scheduler_stop(s->model.scheduler, false);
    say_ready(s);
    const mnem_status status = mnem_scheduler_run(s->model.scheduler);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

/* What was computed since the start; not who asked for what. */
static void keep(const serve *s) {
    mnem_history_run run = {0};
    mnem_engine_stats e;
    mnem_scheduler_stats c;
    mnem_engine_stats_get(s->model.engine, &e);
    mnem_scheduler_stats_get(s->model.scheduler, &c);
    if (!e.tokens) return;
    tool_history_stage(&s->model.stage, &e, &run);
    tool_history_phase(&run, MNEM_PHASE_TOKENS, e.tokens, e.seconds_eval, 0, 0);
    run.seconds = e.seconds_eval;
    run.preemptions = c.preemptions;
    run.tokens_recomputed = c.tokens_recomputed;
    run.refused_full = c.refused_full;
    tool_history_add(s->model.stage.args, &run);
}

static void take_down(serve *s) {
    mnem_scheduler_destroy(s->model.scheduler);
    mnem_engine_destroy(s->model.engine);
    http_server_destroy(s->http);
    api_destroy(s->api);
    mnem_ledger *ledger = s->model.stage.ledger;
    if (s->model.books_bytes)
        mnem_ledger_release(ledger, MNEM_KIND_HOST, "scheduler", s->model.books_bytes);
    if (s->thread_bytes)
        mnem_ledger_release(ledger, MNEM_KIND_RUNTIME, "thread of clients", s->thread_bytes);
    if (s->connections_bytes)
        mnem_ledger_release(ledger, MNEM_KIND_IO, HTTP_TAG, s->connections_bytes);
}

/* A rank that does what rank 0 says. */
static int follow(serve *s, const tool_args *args) {
    int code = tool_stage_open(args, &s->o->session, &s->model.stage);
    if (code == TOOL_OK) code = serve_follow(s);
    if (s->model.books_bytes)
        mnem_ledger_release(s->model.stage.ledger, MNEM_KIND_HOST, "scheduler",
                            s->model.books_bytes);
    tool_stage_close(&s->model.stage);
    return code;
}

static int show_plan(serve *s, const tool_args *args) {
    int code = open_all(s, args);
    if (code == TOOL_OK) serve_plan_print(s);
    take_down(s);
    tool_stage_close(&s->model.stage);
    const int out = tool_out_end();
    return code == TOOL_OK ? out : code;
}

static int verb_serve(const tool_args *args) {
    serve *s = &served;
    s->o = s->model.o = (const serve_options *)args;
    int code = check(s->o);
    if (code != TOOL_OK) return code;
    tool_interrupt_watch(NULL);
    if (s->o->models) return models_serve(s, args);
    if (s->o->dry_run) return show_plan(s, args);
    if (tool_ranks_follows()) return follow(s, args);
    code = open_all(s, args);
    if (code == TOOL_OK) {
        tool_report_start(&s->model.stage);
        serve_plan_say(s);
        code = serve_plan_keep(s);
    }
    if (code == TOOL_OK) {
        code = serve_thread_start(s, stop_scheduler);
    }
    if (code == TOOL_OK) code = serve_engine_create(s);
    if (code == TOOL_OK) code = serve_requests(s);
    /* Ranks that were still loading have failed for it. */
    const bool in_order = s->model.engine || !tool_ranks();
    if (code == TOOL_INTERRUPTED && atomic_load(&s->draining) && in_order) code = TOOL_OK;
    serve_thread_end(s);
    if (s->model.engine && args->verbose && !args->quiet) tool_report_end(stderr, &s->model.stage);
    if (s->model.scheduler && code == TOOL_OK) keep(s);
    take_down(s);
    code = tool_stage_end_trace(&s->model.stage, code);
    tool_stage_close(&s->model.stage);
    const int out = tool_out_end();
    return code == TOOL_OK ? out : code;
}

/* ---- the command line ---- */

#define AT(field) offsetof(serve_options, field)
static const tool_option options[] = {
    TOOL_GROUP(tool_model_options, 0),
    {"models", 0, "FOLDER|FILE", TOOL_VALUE_TEXT, AT(models),
     .help =
         "serve several models, which are loaded and unloaded as clients ask for them: those of "
         "FOLDER, or those that FILE lists (JSON, see above)"},
    {"wait", 0, "SECONDS", TOOL_VALUE_COUNT, AT(wait), .least = 0, .most = 86400,
     .help = "with --models: seconds that a client waits for a model at most until the loaded ones "
             "that are in its way accept no new requests (default: 10)"},
    {"host", 0, "ADDRESS", TOOL_VALUE_TEXT, AT(host), .also = "bind listen",
     .help = "address to listen on, IPv4 or IPv6 (default: 127.0.0.1, this machine only)"},
    {"port", 0, "N", TOOL_VALUE_COUNT, AT(port), .least = 0, .most = 65535,
     .help = "port to listen on; 0 chooses a free one (default: 8080)"},
    {"parallel", 0, "N", TOOL_VALUE_TEXT, AT(parallel), .also = "np n-parallel max-num-seqs",
     .help = "number of conversations that run concurrently, or auto: 8, or fewer if the budget is "
             "small (default: auto)"},
    {"queue", 0, "N", TOOL_VALUE_COUNT, AT(queue), .least = 1, .most = 1024,
     .help =
         "number of requests that may wait; further ones are told to retry later (default: 32)"},
    {"dry-run", 0, NULL, TOOL_VALUE_FLAG, AT(dry_run),
     .help = "print the plan of the server (conversations, space of the KV cache, bytes, predicted "
             "speed) and exit, without loading the model or listening"},
    TOOL_GROUP(tool_session_options, AT(session)),
    TOOL_GROUP(tool_cut_options, AT(session)),
    TOOL_GROUP(tool_pre_options, AT(session.pre)),
    {"swap", 0, "FILE|FOLDER", TOOL_VALUE_TEXT, AT(swap),
     .help = "offload pages of preempted conversations, and recurrent states without room, to "
             "FILE, or to an unnamed file in FOLDER (default: none, they are recomputed)"},
    {"swap-max", 0, "SIZE", TOOL_VALUE_SIZE, AT(swap_max),
     .help = "maximum size of the swap file (default: 1G)"},
    {"keep-cache", 0, NULL, TOOL_VALUE_FLAG, AT(keep_cache),
     .help = "save the prefix cache in --swap FILE for the next start"},
    {"slot-save-path", 0, "FOLDER", TOOL_VALUE_TEXT, AT(slots),
     .help = "let clients save conversations to files in FOLDER and restore them (POST /slots/N)"},
    {"api-key-file", 0, "FILE", TOOL_VALUE_TEXT, AT(key_file), .path = TOOL_PATH_READ,
     .help = "require a key from clients: one of those in FILE, one per line"},
    {"no-auth", 0, NULL, TOOL_VALUE_FLAG, AT(no_auth),
     .help = "accept clients without a key if --host is not this machine only"},
    {"alias", 'a', "NAME", TOOL_VALUE_TEXT, AT(alias), .also = "served-model-name",
     .help = "model name for clients (default: the name of its file)"},
    {"cors", 0, "ORIGIN", TOOL_VALUE_TEXT, AT(cors),
     .help = "allow requests from browser pages of ORIGIN (https://example.com; localhost: of this "
             "machine, any port; * for all)"},
    {"metrics-compat", 0, "NAMES", TOOL_VALUE_CHOICE, AT(metrics), .choices = "mnem vllm",
     .help =
         "names of the metrics in /metrics: mnem, or vllm: the same metrics also by vLLM's names "
         "(default: mnem)"},
    {"truncate", 0, NULL, TOOL_VALUE_FLAG, AT(truncate),
     .help = "truncate prompts that exceed the context, instead of refusing them"},
    {"pooling", 0, "HOW", TOOL_VALUE_CHOICE, AT(pooling), .choices = "file mean cls last",
     .help = "how the hidden states of a text's tokens become its embedding: their mean, the first "
             "one (cls) or the last (default: file, the pooling that the model file names)"},
    TOOL_GROUP(tool_template_options, AT(template)),
    TOOL_GROUP(tool_sampling_options, AT(sampling)),
    TOOL_GROUP(tool_breaker_options, AT(breakers)),
    TOOL_GROUP(tool_trace_options, AT(session.trace)),
    TOOL_GROUP(tool_history_options, AT(no_history)),
    TOOL_JSON_OPTION("one object when the server is ready, with its address and the plan (with "
                     "--dry-run the plan)"),
    TOOL_GROUP(tool_quiet_options, 0),
    TOOL_GROUP(tool_verbose_options, 0),
    {0},
};

static void defaults(tool_args *args) {
    serve_options *o = (serve_options *)args;
    o->sampling = mnem_sampler_usual();
    o->port = DEFAULT_PORT;
    o->queue = DEFAULT_QUEUE;
    o->wait = DEFAULT_WAIT;
}

static serve_options asked;
TOOL_VERB_WITH(
    serve, defaults, "[MODEL]", 0, 1, "serve a model to many clients, inside the budget",
    "Serves a model over HTTP, with OpenAI's API (chat completions, text completions and\n"
    "responses), Anthropic's messages API, Ollama's API, and a chat page for browsers at the\n"
    "address that it prints on standard output. Weights, conversations, connections and requests\n"
    "all stay inside the budget. --port 11434 is where clients of Ollama look for it.\n"
    "\n"
    "The KV cache is divided into pages, which all conversations use; a prefix that several of\n"
    "them have in common is stored once (prefix cache). When free pages run out, some\n"
    "conversations wait, or are preempted (interrupted) and resumed later: none is dropped, and\n"
    "every answer has the tokens that it would have if its request were the only one. A request\n"
    "that could never fit is refused; the error shows the bytes that it needs. Weights that\n"
    "don't fit are streamed from disk, once per step for all conversations together.\n"
    "\n"
    "With --swap, pages of preempted conversations, and snapshots of recurrent states without\n"
    "room, are written to a file if that takes less time than recomputing them; recent times of\n"
    "both decide. To use a fixed speed of the file, not the measured one, add\n"
    "\"swap_bytes_per_s\" to the machine profile ($XDG_CACHE_HOME/mnem/profile.json).\n"
    "\n"
    "With --swap FILE --keep-cache, a server that was stopped by a signal restores its prefix\n"
    "cache at the next start; the FILE of a server that was killed is discarded.\n"
    "\n"
    "With --models several models share the budget. A request names its model; the first one "
    "loads\n"
    "it. Others are unloaded when their bytes are needed, the least recently used first, and none\n"
    "while it answers. With --swap FOLDER their prefix caches stay on disk, so no prompt is\n"
    "processed twice. FILE is JSON: {\"models\": [{\"path\": \"a.gguf\", \"name\": \"a\", "
    "\"adapters\":\n"
    "[\"poet.gguf:0.5\"], \"context\": 8192, \"pin\": true, \"idle\": 600}]}; only the path is "
    "needed.\n"
    "pin keeps a model loaded, idle unloads it after so many seconds without a request. Names of\n"
    "one file are loaded once, each with its context and adapters. All models share one team of\n"
    "threads.\n"
    "\n"
    "By default only clients on this machine can connect; another --host needs --api-key-file or\n"
    "--no-auth. After SIGTERM or Ctrl-C the server finishes the requests in progress and ends\n"
    "with exit code 0; a second signal ends it at once. Under mpirun the first signal ends it at\n"
    "once, because mpirun kills the processes soon after it.\n",
    "mnem serve  # the bundled model, at http://127.0.0.1:8080\n"
    "mnem serve model.gguf --memory 600M --ctx 8192  # all clients inside 600 MiB\n"
    "mnem serve model.gguf --memory 600M --parallel 4 --dry-run  # print the plan only\n"
    "mnem serve model.gguf --memory 600M --swap /var/tmp --swap-max 4G  # keep up to 4 GiB of "
    "pages on disk\n"
    "mnem serve --models /models --memory 4G --swap /var/tmp  # all models of a folder, loaded "
    "when "
    "asked for\n"
    "mnem serve model.gguf --host 0.0.0.0 --api-key-file keys.txt  # serve other machines, with "
    "API keys\n"
    "curl localhost:8080/v1/completions -d '{\"prompt\": \"In the beginning\"}'  # ask for one "
    "answer\n");
