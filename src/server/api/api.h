/* api.h: the server's APIs: the routes of OpenAI's API, Anthropic's messages, Ollama's API and
 * llama.cpp's own, between HTTP (http.h) and the scheduler (mnem/serve.h).
 *
 *     body ──► ask/ (checked) ──► api_prompt.c (ids) ──► api_job.c ──► scheduler
 *     bytes ◄── tell/ (a protocol's events) ◄── api_job.c ◄── tokens, an end
 *
 * All of it runs on the thread of the HTTP server, except two functions of api_job.c that the
 * scheduler calls: these store a token, or an end, for the server's thread, and wake it. Memory:
 * JSON bodies, requests, answers, renderings and grammars have limits, all of them charged to
 * the ledger at api_create, before the plan. A request that exceeds one is refused; no other
 * request is affected. */
#ifndef MNEM_SRC_SERVER_API_API_H
#define MNEM_SRC_SERVER_API_API_H

#include "mnem/serve.h"
#include "server/api/api_models.h"
#include "server/http/http.h"

typedef struct api api;

/* Zero means default. */
/* Each limit (grammars, renderings, ...) is a 64th of the server's budget, within bounds. */
enum { API_PARTS = 64, API_PART_LEAST = 1 << 20, API_PART_MOST = 8 << 20 };

typedef struct api_options {
    mnem_ledger *ledger; /* required, as are model and tokenizer, or models */
    const mnem_model *model;
    mnem_tokenizer *tokenizer;    /* from now on only the API may use it, except constant data */
    const char *name;             /* the name that clients see */
    mnem_text template;           /* no bytes: the model's; borrowed */
    const char *template_args;    /* its variables unless a request sets them: a JSON object.
                                     NULL: none */
    mnem_sampler_options sampler; /* default of requests; all zero: mnem_sampler_usual */
    bool truncate;                /* a prompt beyond the context is cut, not refused */
    bool strict_model;            /* refuse other names of a model */
    bool metrics_vllm;
    const char *slot_folder; /* where conversations of slots are saved; borrowed. NULL: nowhere */
    /* Writes a line to the log; NULL: no log. Gets context. */
    void (*on_note)(void *context, const char *text);
    void *context;
    /* Called on the server's thread before tokens and ends are sent after a wake; NULL: no call. */
    void (*on_wake)(void *context);
    void *wake_context;
    /* Several models, none of them loaded yet. Then the fields for one model (model, tokenizer,
     * name, template, sampler, pooling) are ignored. Borrowed until api_create returns. */
    const api_listing *models;
    int32_t model_count; /* 0: one model, given by the fields above */
    api_model_calls model_calls;
    int32_t waiting_most;    /* requests that wait for models to be loaded (32) */
    mnem_pooling pooling;    /* of embeddings; 0: as in the model file */
    uint64_t memory_bytes;   /* of requests and answers (8 MiB) */
    uint64_t json_bytes;     /* of one body's JSON (16 MiB) */
    uint64_t template_bytes; /* of a rendering (8 MiB) */
    uint64_t grammar_bytes;  /* of grammars, those of all requests (8 MiB) */
    size_t body_bytes;       /* limit of a body (1 MiB); its tokens may need as much again */
} api_options;

/* Charges the memory of requests; statuses of mnem_template_open and the ledger. */
mnem_status api_create(const api_options *options, api **made);
/* Call it after the server is destroyed: for one model after its scheduler is, for several models
 * before their schedulers are and before api_served_close. Accepts NULL. */
void api_destroy(api *made);

/* The token that the template puts behind answers, for the scheduler's `ends`; -1: none. */
int32_t api_end_token(const api *made);
/* Writes rows of the server's table, without the last empty one; returns their number. */
size_t api_routes(const http_route **routes);
/* The handler without its routes; a is its context. */
http_handler api_handler(api *made);
/* The text of a 404: the equivalent of a path of another server. Static storage, overwritten by
 * the next call. */
const char *api_unknown_path(const char *path);
/* What answers come from, once it is there: requests are 503 before. context: tokens of a
 * conversation. With several models, scheduler is NULL, and requests are taken from now on. */
void api_begin(api *made, http_server *server, mnem_scheduler *scheduler, int32_t context);
/* Refuses new requests; running ones are completed. */
void api_drain(api *made);

#endif
