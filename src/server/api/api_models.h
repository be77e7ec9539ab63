/* api_models.h: several models behind one API: which there are, which are loaded, who waits.
 *
 *     server's thread                              stepping thread
 *     a request names an unloaded model: parked ── on_want ──►  loads: model, engine, scheduler,
 *     api_model_begin: attached, parked ones start ◄── wake ──  api_served_open
 *     api_model_end until true: detached           ◄── wake ──  decides to unload
 *                                                   ─ done ──►  api_served_close, scheduler, ...
 *
 * A server of one model has one listing, which is loaded from the start (api.h). Each function says
 * its thread. A wake is http_server_wake, which calls api_options.on_wake on the server's thread:
 * there the command hands over what the stepping thread has done. */
#ifndef MNEM_SRC_SERVER_API_API_MODELS_H
#define MNEM_SRC_SERVER_API_API_MODELS_H

#include "mnem/serve.h"

struct api;

enum {
    API_MODELS = 64,     /* that are listed, at most */
    API_MODEL_NAME = 128 /* bytes of a name, with its zero */
};

typedef enum api_model_state {
    API_MODEL_UNLOADED,
    API_MODEL_LOADING, /* asked for: requests of it are parked */
    API_MODEL_LOADED,
    API_MODEL_LEAVING /* new requests are parked; those that run are finished */
} api_model_state;

const char *api_state_text(api_model_state state);

/* What listings say of a model beside its file: no pointers, copied freely. */
typedef struct api_known {
    bool read;       /* false: nothing below is known */
    char digest[72]; /* api_file.h */
    char format[16]; /* "gguf" */
    char family[32]; /* "llama" */
    char size[16];   /* "1.5B" */
    char level[16];  /* "Q4_K_M" */
    uint64_t parameters;
    int32_t context, vocab, embd, layers; /* context: that it was trained with */
    bool encoder, embeds, tools, thinks, fills;
} api_known;

/* What is known of a model before it is loaded. Texts are copied by api_create. */
typedef struct api_listing {
    const char *name, *path;
    uint64_t file_bytes;
    int64_t modified; /* seconds since 1970 began; 0: not known */
    int32_t modified_part;
    bool pin;
    int32_t idle_seconds; /* until it is unloaded; 0: no limit */
    int32_t context;      /* that was asked for; 0: the plan's */
    uint64_t least_bytes; /* it runs in; 0: not planned yet */
    uint64_t bytes;       /* that it takes while it is loaded; 0: not planned yet */
    api_known known;      /* zeros: once it has been loaded */
} api_listing;

/* What the server's thread tells the stepping thread. Each function is called on the server's
 * thread and must only note it and wake the other; NULL where there is one model. */
typedef struct api_model_calls {
    /* A request, or POST /models/load, needs a model that isn't loaded. waiting_since_ms: when the
     * oldest of its requests came, of the clock of api_clock_ms. Called once until it is loaded,
     * refused or unloaded. */
    void (*on_want)(void *context, int32_t index, int64_t waiting_since_ms);
    /* It is to be unloaded as soon as nobody uses it (keep_alive 0, POST /models/unload). */
    void (*on_unwant)(void *context, int32_t index);
    /* It stays for so many seconds behind its last request, whatever its listing's idle says; below
     * 0: until it is asked to leave, or others need its bytes. */
    void (*on_keep)(void *context, int32_t index, int64_t seconds);
    void *context;
} api_model_calls;

/* ---- a loaded model ---- */

typedef struct api_served api_served;

/* Zero means default. */
typedef struct api_served_options {
    const mnem_model *model;
    mnem_tokenizer *tokenizer; /* the API's alone while it is attached, but for what is constant */
    mnem_text template;        /* no bytes: the model's; borrowed */
    const char *template_args; /* an object as JSON; NULL: none. Borrowed */
    mnem_sampler_options sampler; /* where a request doesn't say; all zero: mnem_sampler_usual */
    mnem_pooling pooling;         /* 0: the file's */
    uint64_t template_bytes;      /* of a rendering, as api_options.template_bytes (8 MiB) */
} api_served_options;

/* Any thread that nobody else uses the tokenizer on: template, vocabulary and the file's digest are
 * read. Statuses of mnem_template_open. */
mnem_status api_served_open(const api_served_options *options, api_served **made);
/* Of one that isn't attached, before its tokenizer and model go. NULL is fine. */
void api_served_close(api_served *served);
/* The token that the template puts behind answers, for the scheduler's `ends`; -1: none. */
int32_t api_served_end_token(const api_served *served);
/* What listings say of it. */
void api_served_known(const api_served *served, api_known *known);

/* What was found out of a listed model before it is loaded: before api_begin, or on the server's
 * thread. served NULL: nothing more of its file; context 0: not known yet. */
void api_model_know(struct api *a, int32_t index, const api_served *served, int32_t context,
                    uint64_t least_bytes, uint64_t bytes);

/* ---- on the server's thread ---- */

/* What comes with a model that is loaded now. */
typedef struct api_loaded {
    api_served *served;
    mnem_scheduler *scheduler;
    int32_t context; /* tokens of a conversation */
    uint64_t bytes;  /* that it takes, for those who look */
} api_loaded;

/* From on_wake: the model answers from now on, and its parked requests start, oldest first. It is
 * attached until api_model_end is true. */
void api_model_begin(struct api *a, int32_t index, const api_loaded *loaded);
/* New requests are parked from now on; true: no job uses it, it is detached, and everything of it
 * may be closed. False: call it again behind the next wake or tick. If requests wait, on_want is
 * called from here. Of a model that isn't loaded: true. */
bool api_model_end(struct api *a, int32_t index);
/* Ends that: a model which is leaving takes requests again, and its parked ones start. */
void api_model_stay(struct api *a, int32_t index);
/* The model can't be loaded: its parked requests end with this error (code NULL: none), and it is
 * unloaded again. status 503: they are told to come again. */
void api_model_refuse(struct api *a, int32_t index, int status, const char *code, const char *text);

/* A listed model as it is now; valid until the next call of the API. */
typedef struct api_model_view {
    const char *name;
    api_model_state state;
    bool pin;
    uint64_t bytes;                     /* that it takes while it is loaded; 0: not known yet */
    int32_t context, requests, waiting; /* context 0: not known yet */
    mnem_scheduler *scheduler;          /* NULL: it isn't loaded */
} api_model_view;
/* false: past the last. */
bool api_model_view_get(const struct api *a, int32_t index, api_model_view *view);
/* The model that a query ("model=NAME") names; the first one where it names none. */
int32_t api_model_of_query(const struct api *a, const char *query);

/* ---- on any thread ---- */

typedef struct api_model_use {
    api_model_state state;
    int32_t requests;         /* that use it now, until their answers have ended */
    int32_t waiting;          /* that are parked */
    int64_t waiting_since_ms; /* the oldest of those; 0: none */
    int64_t last_ms;          /* when a request of it came or ended; 0: never */
} api_model_use;
void api_model_use_get(struct api *a, int32_t index, api_model_use *use);
int64_t api_clock_ms(void);
/* Between these nothing of what requests have in reserve is lent: so what the ledger shows as free
 * is free. The stepping thread plans between them; the server's thread may wait meanwhile, so a
 * plan only, no loading. */
void api_plan_begin(struct api *a);
void api_plan_end(struct api *a);

#endif
