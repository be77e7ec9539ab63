/* serve_tool.h: what the files of `mnem serve` share.
 *
 *     clients <--> http/ (a thread of its own) <--> api/ <--> scheduler (main thread) --> engine
 *
 * What is taken is taken before the plan, or by it: connections, requests, books, the thread. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_SERVE_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_SERVE_TOOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "mnem/serve.h"
#include "server/api/api.h"
#include "server/http/http.h"
#include "stage.h"

/* As many keys, of as many bytes, as http.h takes. */
enum { SERVE_KEY_MOST = 255 };
enum {
    SERVE_ROUTES = 64,
    SERVE_KEYS = 64,
    SERVE_KEY_BYTES = 16 << 10,
    SERVE_BODY_BYTES = 1 << 20,
    SERVE_PARALLEL = 8,
    SERVE_PARALLEL_MOST = 256
};

typedef struct serve_options {
    tool_args args;
    tool_session_asked session;
    mnem_sampler_options sampling; /* where a request doesn't say */
    tool_texts breakers;
    tool_template_asked template;
    int32_t pooling; /* mnem_pooling, of embeddings */
    const char *host, *parallel, *swap, *key_file, *alias, *cors, *slots;
    const char *models; /* a list of several */
    int32_t port, queue, wait;
    uint64_t swap_max;
    int32_t metrics; /* 1: with vLLM's names */
    bool no_auth, truncate, no_history, keep_cache, dry_run;
    /* Set by mnem batch for --parallel auto: the limit of requests that run together (0:
     * SERVE_PARALLEL), and the tokens of each that need pages. */
    int32_t auto_most, auto_tokens;
} serve_options;

typedef struct serve_keys {
    char text[SERVE_KEY_BYTES];
    const char *key[SERVE_KEYS];
    int32_t count;
} serve_keys;

/* A model that is served, alone or beside others: what there is of it once it is open. */
typedef struct served_model {
    tool_stage stage;
    const serve_options *o;
    int32_t parallel; /* conversations that run together */
    char name[128];   /* that clients see */
    mnem_engine *engine;
    mnem_scheduler *scheduler;
    uint64_t books_bytes;           /* charged for the scheduler until it is created */
    uint64_t swap_bytes;            /* its part of --swap-max; 0: the default */
    void (*on_work)(void *context); /* of the scheduler's options */
    void *work_context;
} served_model;

typedef struct serve {
    served_model model; /* of several models: the ledger in its stage, and nothing else */
    const serve_options *o;
    serve_keys keys;
    api *api;
    http_server *http;
    http_route routes[SERVE_ROUTES];
    uint64_t thread_bytes, connections_bytes; /* charged here; the last: dry run */
    uint64_t budget_bytes;                    /* as it was asked for */
    uint64_t all_bytes;    /* a budget for all conversations at full length; 0: there is none */
    bool all_streams;      /* it, too, reads weights from disk */
    uint64_t absent_bytes; /* of connections that don't fit; 0: they do */
    pthread_t thread;
    bool started; /* the thread */
    /* Between the threads: the scheduler once it is there; the thread has ended; a signal came. */
    _Atomic(mnem_scheduler *) ready;
    atomic_bool over, draining;
    bool said_draining;              /* by the thread of the connections */
    void (*api_wake)(void *context); /* the API's on_wake */
    void (*api_tick)(void *context);
    void (*on_over)(void *context); /* called by the thread of the connections at its end */
    char swap_failure[160];         /* that was said last */
    bool begun;                     /* the thread's: the API has the scheduler */
} serve;

/* Reads API keys, one a line; # begins a comment. Exit code, with the message printed. */
int serve_keys_read(serve_keys *keys, const char *path);

/* ---- verb_serve.c ---- */
/* Opens the model with its tokenizer, DRY breakers and chat template, and chooses the name that
 * clients see: "SmolLM2-135M" of ".../SmolLM2-135M.gguf", or --alias. Exit code, with the message
 * printed. */
int serve_model_open(serve *s, const tool_args *args);
/* Loads the model by its plan, with progress, and creates its scheduler. Exit code, with the
 * message printed. */
int serve_engine_create(serve *s);
/* Are they (--template-args; NULL: none) an object? Exit code, with the message printed. */
int serve_check_arguments(const char *verb, const char *arguments);
/* The API of that model, with its parts of the budget. on_note: NULL: nothing is said. Exit code,
 * with the message printed. */
int serve_api_create(serve *s, void (*on_note)(void *context, const char *text));

/* ---- serve_http.c ---- */
bool serve_is_loopback(const char *host); /* NULL: the default */
/* Whether others may connect without a key. Exit code, with the message printed; so are these. */
int serve_check_open(bool loopback, const serve_options *o);
/* Writes a line of the API to the log, standard error. */
void serve_on_note(void *context, const char *text);
/* The API's handler with its routes and the page's, bound to the address, and charged, as is its
 * thread. on_wake and on_tick call those of the API (api_wake, api_tick). */
int serve_http_create(serve *s, void (*on_wake)(void *), void (*on_tick)(void *));
/* Starts the thread of the connections, which calls on_over at its end; signals drain from then on
 * without a gap. */
int serve_thread_start(serve *s, void (*on_over)(void *context));
void serve_thread_end(serve *s); /* ends it, if it was started */

/* ---- serve_plan.c ---- */
/* The most that may run together: --parallel's number, or what auto begins with; 0: neither. */
int32_t serve_parallel_most(const serve_options *o);
/* --parallel auto: fewer where not all fit. */
bool serve_parallel_is_auto(const serve_options *o);
/* How many of a model's conversations a plan is tried with first; an engine of so many. */
int32_t serve_parallel_first(const served_model *m);
void serve_model_books(served_model *m, int32_t parallel);
/* The parts of a budget that requests, their JSON, renderings and grammars have; their sum. */
uint64_t serve_parts(uint64_t budget_bytes, api_options *options);
/* Where the budget has no room for so many bytes of connections the plan is refused without them,
 * and names the least with them: they may be more than a ledger that prepares lets pass. */
bool serve_plans_without(serve *s, uint64_t connections_bytes);
/* Chooses the number of conversations, and plans for them, with the scheduler's tables. Returns
 * an exit code; prints the error. */
int serve_plan(serve *s);
/* Charges the books as planned, until the scheduler is created; plans that come later don't count
 * them. Exit code, so too. */
int serve_plan_keep(serve *s);
/* The scheduler of the engine, in what was charged for it. end: a token that ends answers; -1:
 * none. */
mnem_status serve_scheduler_create(served_model *m, int32_t end);
/* A rank that isn't 0: plans, and does what rank 0's scheduler says. Exit code. */
int serve_follow(serve *s);
/* The plan, as messages: what conversations cost, and what more would buy. */
void serve_plan_say(const serve *s);
/* For --dry-run: the plan of `mnem plan` and the same lines, or JSON, on standard output. */
void serve_plan_print(const serve *s);

/* Routes of `/` and `/page.json`, behind `count` others; how many there are then. */
size_t serve_page_routes(serve *s, size_t count);

/* Tells the service manager ("READY=1"), where there is one ($NOTIFY_SOCKET). */
void serve_notify(const char *state);

/* ---- serve_address.c ---- */
/* Of an address at which http_server_create can't listen: why, and what to do. An exit code. */
int serve_address_fail(const serve_options *o, mnem_status status, const char *why);
/* Names a variable of another server that says another one. */
void serve_address_say_other(const serve_options *o);

#endif
