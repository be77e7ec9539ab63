/* api_models.h: several models behind one API: their list, their states, and requests that wait.
 *
 *     server's thread                              stepping thread
 *     a request names an unloaded model: parked ── on_want ──►  loads: model, engine, scheduler,
 *     api_model_begin: attached, parked ones start ◄── wake ──  api_served_open
 *     api_model_end until true: detached           ◄── wake ──  decides to unload
 *                                                   ─ done ──►  api_served_close, scheduler, ...
 *
 * Several listed names may share one engine and its scheduler (names of one file): each has an
 * api_served of its own, with its own limit of the context and its own adapters. They are attached,
 * and end, together.
 *
 * A server with one model has one listing, which is loaded from the start (api.h). The headings
 * below name the thread of each function. A wake is http_server_wake, which calls
 * api_options.on_wake on the server's thread: in that callback the command passes on to the API
 * what the stepping thread has done. */
#ifndef MNEM_SRC_SERVER_API_API_MODELS_H
#define MNEM_SRC_SERVER_API_API_MODELS_H

#include "mnem/serve.h"

struct api;

enum {
    API_MODELS = 64,     /* limit of listed models */
    API_MODEL_NAME = 128 /* limit of a name in bytes, including its zero */
};

typedef enum api_model_state {
    API_MODEL_UNLOADED,
    API_MODEL_LOADING, /* requested: its requests are parked */
    API_MODEL_LOADED,
    API_MODEL_LEAVING /* will be unloaded: new requests are parked, running ones are finished */
} api_model_state;

const char *api_state_text(api_model_state state);

/* What listings show about a model, apart from its file. It has no pointers: it can be copied. */
typedef struct api_known {
    bool read;       /* false: nothing below is known */
    char digest[72]; /* api_file.h */
    char format[16]; /* "gguf" */
    char family[32]; /* "llama" */
    char size[16];   /* "1.5B" */
    char level[16];  /* "Q4_K_M" */
    uint64_t parameters;
    int32_t context, vocab, embd, layers; /* context: limit that it was trained for */
    bool encoder, embeds, tools, thinks, fills;
} api_known;

/* What is known about a model before it is loaded. api_create copies the texts. */
typedef struct api_listing {
    const char *name, *path;
    uint64_t file_bytes;
    int64_t modified; /* seconds since 1970-01-01; 0: not known */
    int32_t modified_part;
    /* The name whose pin keeps it loaded: its own, or another of its engine; NULL: none. Not
     * copied: borrowed while it is listed. */
    const char *pinned_by;
    int32_t idle_seconds; /* idle time before it is unloaded; 0: no limit */
    int32_t context;      /* requested; 0: the plan's */
    uint64_t least_bytes; /* the smallest budget it runs in; 0: not planned yet */
    uint64_t bytes;       /* its size while it is loaded; 0: not planned yet */
    /* The name whose engine it uses, with whose bytes and numbers its own are counted; NULL: it has
     * an engine of its own. Not copied: borrowed while it is listed. */
    const char *shares_with;
    api_known known; /* zeros: filled in when it is first loaded */
} api_listing;

/* What the server's thread tells the stepping thread. Each function is called on the server's
 * thread, and must only record the order and wake the stepping thread. NULL: there is one model. */
typedef struct api_model_calls {
    /* A request, or POST /models/load, needs a model that isn't loaded. waiting_since_ms: arrival
     * of the model's oldest request, by api_clock_ms. It isn't called again for this model before
     * the model is loaded, refused or unloaded. */
    void (*on_want)(void *context, int32_t index, int64_t waiting_since_ms);
    /* The model is to be unloaded as soon as no request uses it (keep_alive 0,
     * POST /models/unload). */
    void (*on_unwant)(void *context, int32_t index);
    /* The model stays loaded for this many seconds after its last request, instead of its listing's
     * idle_seconds. Negative: until a request unloads it, or another model needs its bytes. */
    void (*on_keep)(void *context, int32_t index, int64_t seconds);
    void *context;
} api_model_calls;

/* ---- a loaded model ---- */

typedef struct api_served api_served;

/* One of the engine's adapters, and its scale for requests that give none. */
typedef struct api_adapter {
    int32_t number; /* in the engine */
    float scale;
} api_adapter;

/* Zero means default. */
typedef struct api_served_options {
    const mnem_model *model;
    mnem_tokenizer *tokenizer;    /* while attached, others may only read its constant parts */
    mnem_text template;           /* empty: the model's; borrowed */
    const char *template_args;    /* a JSON object; NULL: none. Borrowed */
    mnem_sampler_options sampler; /* defaults of requests; all zero: mnem_sampler_usual */
    mnem_pooling pooling;         /* 0: the file's */
    uint64_t template_bytes;      /* limit of a rendering, as api_options.template_bytes (8 MiB) */
    /* The adapters that this name has of an engine that several share; requests of this name don't
     * see the others. NULL: all of the engine, with its scales. Borrowed until it is closed. */
    const api_adapter *adapters;
    int32_t adapter_count;
} api_served_options;

/* Reads the template, the vocabulary and the file's digest. Any thread may call it while no other
 * thread uses the tokenizer. Statuses: as mnem_template_open. */
mnem_status api_served_open(const api_served_options *options, api_served **made);
/* Call it when served isn't attached, and before its tokenizer and model are destroyed. Accepts
 * NULL. */
void api_served_close(api_served *served);
/* The token that the template puts after answers, for the scheduler's `ends`; -1: none. */
int32_t api_served_end_token(const api_served *served);
/* What listings show about it. */
void api_served_known(const api_served *served, api_known *known);

enum { API_FAILURE = 200 };
/* What was found out about a listed model before it is loaded. It can be copied to the server's
 * thread: its pointers are to names of the list. */
typedef struct api_planned {
    api_known known; /* read false: nothing is known about its file */
    uint64_t file_bytes;
    int64_t modified;
    int32_t modified_part;
    int32_t context;      /* 0: not known */
    uint64_t least_bytes; /* these two as in api_listing */
    uint64_t bytes;
    const char *shares_with; /* these two as in api_listing */
    const char *pinned_by;
    char failure[API_FAILURE]; /* why it can't be loaded; "": it can */
} api_planned;

/* Sets what of it describes the file. Any thread. */
void api_served_planned(const api_served *served, api_planned *planned);

/* ---- on the server's thread ---- */

/* The parts of a model that was just loaded. */
typedef struct api_loaded {
    api_served *served;
    mnem_scheduler *scheduler;
    int32_t context;         /* limit of a conversation in tokens */
    uint64_t bytes;          /* its size, for listings */
    bool limited;            /* the engine's context is larger */
    const char *shares_with; /* as in api_listing */
} api_loaded;

/* Call it when a model was planned, or before api_begin. Until then its listings show its name, its
 * file and its state. */
void api_model_know(struct api *a, int32_t index, const api_planned *planned);
/* Call it from on_wake. Attaches the model: it answers requests, and its parked requests start,
 * oldest first. It stays attached until api_model_end returns true. */
void api_model_begin(struct api *a, int32_t index, const api_loaded *loaded);
/* Parks new requests from now on. True: no job uses the model, it is detached, and all its parts
 * may be closed; if requests wait for it, on_want was called. False: call it again after the next
 * wake or tick. True, too, if the model isn't loaded. */
bool api_model_end(struct api *a, int32_t index);
/* Parks new requests from now on, as api_model_end does, and detaches nothing. True: no job uses
 * the model, or it isn't loaded. Names that share an engine end when this is true for all. */
bool api_model_leave(struct api *a, int32_t index);
/* Cancels api_model_end and api_model_leave: a model in API_MODEL_LEAVING takes requests again, and
 * its parked ones start. */
void api_model_stay(struct api *a, int32_t index);
/* Call it when the model can't be loaded: its parked requests end with this error (code NULL:
 * none), and its state is API_MODEL_UNLOADED again. Status 429 or 503: the error says when to
 * retry. */
void api_model_refuse(struct api *a, int32_t index, int status, const char *code, const char *text);

/* The present state of a listed model; valid until the next call of the API. */
typedef struct api_model_view {
    const char *name;
    api_model_state state;
    bool pin;                           /* the name, or another of its engine, is pinned */
    uint64_t bytes;                     /* its size while it is loaded; 0: not known yet */
    int32_t context, requests, waiting; /* context 0: not known yet */
    mnem_scheduler *scheduler;          /* NULL: it isn't loaded */
} api_model_view;
/* false: there is no model with this index. */
bool api_model_view_get(const struct api *a, int32_t index, api_model_view *view);
/* The index of the model that a query ("model=NAME") names; 0 if it names none. */
int32_t api_model_of_query(const struct api *a, const char *query);

/* ---- on any thread ---- */

typedef struct api_model_use {
    api_model_state state;
    int32_t requests;         /* number that use it now: a request counts until its answer ends */
    int32_t waiting;          /* number of parked requests */
    int64_t waiting_since_ms; /* arrival of the oldest of those; 0: none */
    int64_t last_ms;          /* last beginning or end of a request; 0: never */
} api_model_use;
void api_model_use_get(struct api *a, int32_t index, api_model_use *use);
int64_t api_clock_ms(void);
/* Between these two calls the reserves of the requests are whole: none of their bytes are lent. So
 * bytes that the ledger reports as free are free. Between them the stepping thread opens what it
 * measures, and charges. The server's thread may have to wait: don't load or plan. */
void api_plan_begin(struct api *a);
void api_plan_end(struct api *a);

#endif
