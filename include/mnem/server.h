/* mnem/server.h: a server of a model: OpenAI's API, Anthropic's messages, Ollama's API and
 * llama.cpp's own routes over HTTP/1.1, as `mnem serve` has them. Of libmnem-serve (-lmnem-serve),
 * which links jansson and http-parser; libmnem doesn't need it.
 *
 * A server has connections, and turns their requests into those of a scheduler (serve.h). All of
 * its memory is charged to the ledger when it is created: create it before the engine is planned.
 * Not here: the engine and the scheduler, which are the caller's; TLS (a proxy's).
 * Threads: mnem_server_stop from any thread and from a signal's handler; the functions that only
 * read from any thread; all else from one thread, the one that runs the scheduler.
 *
 *     mnem_server_options o = {.ledger = ledger, .model = model, .tokenizer = tokenizer,
 *                              .name = "mine", .port = 8080};
 *     mnem_server_create(&o, &server);         // takes connections from now on: they wait
 *     // ... plan and create the engine, and a scheduler with mnem_server_end_token as an end
 *     mnem_server_start(server);               // clients get 503 until there is a scheduler
 *     mnem_server_run(server, scheduler, plan.context); // until mnem_server_stop
 *     mnem_scheduler_destroy(scheduler);
 *     mnem_server_destroy(server);
 */
#ifndef MNEM_SERVER_H
#define MNEM_SERVER_H

#include "mnem/serve.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_server mnem_server;

/* Zero means default. All pointers are borrowed until mnem_server_destroy. */
typedef struct mnem_server_options {
    mnem_ledger *ledger;       /* required, as are model and tokenizer */
    const mnem_model *model;   /* the engine's */
    mnem_tokenizer *tokenizer; /* the server's alone between start and the end of run */
    const char *name;          /* of the model, for clients ("model") */

    const char *host; /* an IPv4 or IPv6 address, or "localhost" (127.0.0.1) */
    int32_t port;     /* 0: a free one, see mnem_server_port */
    int listener;     /* descriptor of a socket that listens already, in place of host and port; the
                         server closes it. 0: none */
    int32_t connections;             /* open at a time, 1 to 4096 (64) */
    int32_t connections_per_address; /* of one client's address (connections) */
    size_t body_bytes;               /* limit of a request's body, up to 1 GiB (1 MiB) */
    const char *const *keys; /* [key_count] up to 64 API keys of 1 to 255 bytes, any of which a
                                client must send; NULL: none is needed */
    int32_t key_count;
    bool no_auth;     /* accepts clients of other machines without a key */
    const char *cors; /* origin of browser pages that may ask ("*": any); NULL: none */

    mnem_text template;           /* of chats, as Jinja; no bytes: the model's */
    const char *template_args;    /* its variables where a request names none: a JSON object */
    mnem_sampler_options sampler; /* where a request says nothing; all zero: mnem_sampler_usual.
                                   * seed 0: a random one for each request */
    mnem_pooling pooling;         /* of embeddings; 0: the file's */
    bool truncate;           /* prompts that exceed the context are truncated, instead of refused */
    bool strict_model;       /* requests that name another model are refused */
    bool metrics_vllm;       /* /metrics has vLLM's names in addition */
    const char *slot_folder; /* folder of the conversations that POST /slots/N saves and restores;
                              * borrowed while the server lives. NULL: they are refused */
    /* Bytes for the requests and answers that are being served, and for their renderings and their
     * grammars each; twice as much for the JSON of one body (8 MiB). */
    uint64_t request_bytes;

    /* A line for a log, such as a field of a request that is ignored. Called on the thread of the
     * connections; it must not call functions of the server. NULL: no log */
    void (*on_note)(void *context, const char *text);
    void *context;
} mnem_server_options;

/* Charges and takes all memory, binds the address and listens. MNEM_INVALID: an option is out of
 * range, the address is invalid, or it accepts other machines without keys and without no_auth;
 * MNEM_IO: the address can't be listened at; MNEM_OVER_BUDGET, MNEM_NO_MEMORY; statuses of
 * mnem_template_open. */
mnem_status mnem_server_create(const mnem_server_options *options, mnem_server **server);
/* After mnem_scheduler_destroy. Stops the server if it runs. NULL is fine. */
void mnem_server_destroy(mnem_server *server);

/* "http://127.0.0.1:8080"; borrowed until destroy. */
const char *mnem_server_address(const mnem_server *server);
int32_t mnem_server_port(const mnem_server *server);
/* The token that the chat template writes after an answer, for mnem_scheduler_options.ends; -1:
 * none. */
int32_t mnem_server_end_token(const mnem_server *server);

/* Starts the thread of the connections, whose signals are blocked. Clients get 503 until run has a
 * scheduler. MNEM_INVALID: it runs already, or step was called; MNEM_NO_MEMORY. */
mnem_status mnem_server_start(mnem_server *server);
/* Serves the requests of clients with scheduler on this thread until mnem_server_stop, then stops
 * scheduler and ends the thread of the connections; starts that thread where start wasn't called.
 * context: tokens of a conversation, of mnem_engine_plan. Statuses of start and of
 * mnem_scheduler_run. A server runs once. */
mnem_status mnem_server_run(mnem_server *server, mnem_scheduler *scheduler, int32_t context);
/* In place of start and run, for callers with a loop of their own: serves what clients have sent,
 * waits up to `milliseconds` for more (0: doesn't wait) where scheduler has nothing to do, and runs
 * one of its steps. *more becomes false when the server was stopped and has ended. MNEM_INVALID:
 * start was called. Statuses of mnem_scheduler_step. */
mnem_status mnem_server_step(mnem_server *server, mnem_scheduler *scheduler, int32_t context,
                             int32_t milliseconds, bool *more);
/* Makes run return. drain: requests that are being answered are finished, and new ones get 503;
 * otherwise they are ended at once. */
void mnem_server_stop(mnem_server *server, bool drain);

#ifdef __cplusplus
}
#endif
#endif
