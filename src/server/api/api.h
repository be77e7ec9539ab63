/* api.h: what clients speak: the routes of OpenAI's API, Anthropic's messages, Ollama's API and
 * llama.cpp's own, between HTTP (http.h) and the scheduler (mnem/serve.h).
 *
 *     body ──► ask/ (checked) ──► api_prompt.c (ids) ──► api_job.c ──► scheduler
 *     bytes ◄── tell/ (a protocol's events) ◄── api_job.c ◄── tokens, an end
 *
 * All of it runs on the thread of the HTTP server, but for two functions of api_job.c that the
 * scheduler calls: these put a token, or an end, where the server's thread finds it, and wake that.
 * Bytes: bodies as JSON, requests, answers, renderings and grammars have bounds, all of them
 * charged to the ledger at api_create, before the plan. Who meets one is refused, nobody else. */
#ifndef MNEM_SRC_SERVER_API_API_H
#define MNEM_SRC_SERVER_API_API_H

#include "mnem/serve.h"
#include "server/api/api_models.h"
#include "server/http/http.h"

typedef struct api api;

/* Zero means default. */
/* A part of the server's budget is a 64th, within bounds: for grammars, for renderings, ... */
enum { API_PARTS = 64, API_PART_LEAST = 1 << 20, API_PART_MOST = 8 << 20 };

typedef struct api_options {
    mnem_ledger *ledger; /* required, as are model and tokenizer, or models */
    const mnem_model *model;
    mnem_tokenizer *tokenizer;    /* the api's alone from now on, but for what is constant */
    const char *name;             /* that clients see */
    mnem_text template;           /* no bytes: the model's; borrowed */
    const char *template_args;    /* its variables, where a request doesn't say: an object as JSON.
                                     NULL: none */
    mnem_sampler_options sampler; /* where a request doesn't say; all zero: mnem_sampler_usual */
    bool truncate;                /* what is beyond the context is cut, not refused */
    bool strict_model;            /* other names of a model are refused */
    bool metrics_vllm;
    const char *slot_folder; /* where conversations of slots are saved; borrowed. NULL: nowhere */
    /* A line for the log; NULL: there is none. Gets context. */
    void (*on_note)(void *context, const char *text);
    void *context;
    /* Called on the server's thread before what a wake brings is told; NULL: nothing. */
    void (*on_wake)(void *context);
    void *wake_context;
    /* Several models, none of them loaded yet; model, tokenizer and what is of one model (name,
     * template, sampler, pooling) aren't looked at then. Borrowed until api_create returns. */
    const api_listing *models;
    int32_t model_count; /* 0: one model, of the fields above */
    api_model_calls model_calls;
    int32_t waiting_most;    /* requests that wait for models to be loaded (32) */
    mnem_pooling pooling;    /* of embeddings; 0: the file's */
    uint64_t memory_bytes;   /* of requests and answers (8 MiB) */
    uint64_t json_bytes;     /* of one body's JSON (16 MiB) */
    uint64_t template_bytes; /* of a rendering (8 MiB) */
    uint64_t grammar_bytes;  /* of grammars, those of all requests (8 MiB) */
    size_t body_bytes;       /* the server's (1 MiB); as much again is there for its tokens */
} api_options;

/* Charges what requests will take; statuses of mnem_template_open and the ledger. */
mnem_status api_create(const api_options *options, api **made);
/* After the server: of one model behind its scheduler, of several before their schedulers and
 * api_served_close. NULL is fine. */
void api_destroy(api *made);

/* The token that the template puts behind answers, for the scheduler's `ends`; -1: none. */
int32_t api_end_token(const api *made);
/* Rows for the server's table, without the last empty one; how many. */
size_t api_routes(const http_route **routes);
/* The handler but its routes, whose context this is. */
http_handler api_handler(api *made);
/* What an answer of 404 says: which of the paths does what this one does elsewhere. Static storage,
 * overwritten by the next call. */
const char *api_unknown_path(const char *path);
/* What answers come from, once it is there: requests are 503 before. context: tokens of a
 * conversation. Of several models: scheduler NULL, and requests are taken from now on. */
void api_begin(api *made, http_server *server, mnem_scheduler *scheduler, int32_t context);
/* No more requests are taken: those that run are finished. */
void api_drain(api *made);

#endif
