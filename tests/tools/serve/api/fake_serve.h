/* fake_serve.h: the API between a server without sockets and a scheduler without an engine: what a
 * client sends, and what it gets, in one thread.
 *
 * The scheduler says what it is told to (fake_serve.say), a token for each answer in a step; where
 * a grammar refuses that, a token that it allows. So no answer depends on a model. */
#ifndef MNEM_TESTS_TOOLS_SERVE_API_FAKE_SERVE_H
#define MNEM_TESTS_TOOLS_SERVE_API_FAKE_SERVE_H

#include "server/api/api.h"

enum { FAKE_REQUESTS = 64, FAKE_LINE = 256, FAKE_MODELS = 3, FAKE_CALLS = 16 };

typedef struct fake_answer {
    int status; /* 0: none yet */
    char type[FAKE_LINE], headers[FAKE_LINE];
    char *body; /* ends with a zero */
    size_t bytes, room;
    bool stream, over, aborted;
} fake_answer;

/* A request that was submitted, as the last one was. */
typedef struct fake_request {
    mnem_request request;
    const mnem_scheduler *scheduler;
    int32_t *prompt;
    uint64_t number;
    mnem_sampler *sampler;
    int32_t told, said; /* tokens; of what is to be said */
    bool live, cancelled, ending;
} fake_request;

/* Where a client's answer goes. */
struct http_exchange {
    struct fake_serve *fake;
    void *data;
    fake_answer *answer;
};
struct mnem_scheduler {
    struct fake_serve *fake;
    int32_t index; /* of its model */
};

typedef struct fake_serve {
    api *api;
    mnem_ledger *ledger;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    const char *say;              /* NULL: token 100, 101, ...; tokens of control are parsed */
    bool end_after;               /* ends the turn behind it; otherwise it says it again */
    bool quick;                   /* what is allowed instead is any, not what a sampler likes */
    mnem_status submit;           /* what submit answers, if not MNEM_OK */
    mnem_request_refusal refusal; /* with that */
    mnem_request_end end;         /* MNEM_END_ERROR: after the first token */
    int32_t context, room_bytes;  /* a client's, for a stream; 0: any */
    int32_t adapters;             /* of every model: "poet", "adapter" (a folder's), "poet", ... */
    int32_t embeds;               /* texts that were embedded */
    int32_t no_pages;             /* so many of the next ones find too few pages */
    mnem_status embed;            /* what comes of those behind, if not MNEM_OK */
    fake_request request[FAKE_REQUESTS];
    int32_t submitted, cancelled;
    uint64_t numbers;
    char *script_text; /* what say was when it became these ids */
    int32_t *script;
    size_t script_ids;
    bool woken;
    struct {
        void (*function)(void *context, mnem_engine *engine);
        void *context;
    } call[FAKE_MODELS][FAKE_CALLS]; /* that wait, of each scheduler */
    int calls[FAKE_MODELS];
    fake_answer answer; /* of the client at hand */
    struct http_exchange *exchange;
    http_handler handler;
    int32_t key;
} fake_serve;

/* options: ledger, model and tokenizer are set here. The model that ships where path is NULL. */
void fake_open(const api_options *options, fake_serve *fake);
/* The same with a context of so many tokens, not 256. */
void fake_open_with(const api_options *options, int32_t context, fake_serve *fake);
void fake_close(fake_serve *fake);
/* The parts of both, around the life of an API: ledger, model and tokenizer are there; all requests
 * end, and the API; what fake_make made is gone. */
#define FAKE_MODEL MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf"
void fake_make(int32_t context, fake_serve *fake);
void fake_end(fake_serve *fake);
void fake_drop(fake_serve *fake);
/* Sends a request, and runs until it is answered; the answer is the next one's later. */
const fake_answer *fake_send(fake_serve *fake, const char *method, const char *path,
                             const char *body, size_t bytes);
const fake_answer *fake_post(fake_serve *fake, const char *path, const char *body);
/* The parts of it: a request is sent, every answer gets a token, its client goes. */
void fake_begin(fake_serve *fake, const char *method, const char *target, const char *body,
                size_t bytes);
bool fake_step(fake_serve *fake); /* false: nothing is left to do */
void fake_leave(fake_serve *fake);

/* A client beside others: its request; answer is cleared, and lives until fake_part. */
void fake_ask(fake_serve *fake, struct http_exchange *exchange, fake_answer *answer,
              const char *method, const char *target, const char *body, size_t bytes);
void fake_part(fake_serve *fake, struct http_exchange *exchange);
/* What every API gets: where its wakes and requests go. */
http_server *fake_server(fake_serve *fake);

/* A template as an option. */
mnem_text fake_text(const char *text);

#endif
