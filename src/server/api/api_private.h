/* api_private.h: shared by the files of the API.
 *
 *     api.c          creation, routes, callbacks of the server
 *     api_start.c    from a body to submitted requests
 *     api_job.c      a running request: sends its tokens, ends it
 *     api_embed.c    embeddings of texts (api_embed_input.c: the texts of a body)
 *     api_seats.c    conversations in files, as slots of llama.cpp's server
 *     api_limit.c    grammars of answers, and their memory
 *     api_pages.c    answers to GET
 *     api_ollama.c   Ollama's routes that generate nothing
 *     api_metrics.c  numbers for dashboards
 *     api_texts.c    tokens of texts and back
 *     adapters/      the adapters that a request uses
 *     models/        the listed models, and requests that wait for one */
#ifndef MNEM_SRC_SERVER_API_API_PRIVATE_H
#define MNEM_SRC_SERVER_API_API_PRIVATE_H

#include <pthread.h>

#include "server/api/api.h"
#include "server/api/api_model.h"
#include "server/api/file/api_file.h"
#include "server/api/tell/tell.h"

/* A loaded model, and what answers its requests. */
struct api_served {
    api_model model;
    api_file file;
    mnem_transformer transformer;
    mnem_sampler_options sampler; /* defaults of requests */
    mnem_pooling pooling;         /* of embeddings; 0: the file's */
    mnem_scheduler *scheduler;    /* NULL: not yet */
    const api_adapter *adapters;  /* [adapter_count]; NULL: all of the engine */
    int32_t adapter_count;
    bool limited;          /* model.context is less than the engine's */
    bool shares;           /* the scheduler's numbers are shown with another name */
    uint64_t kept;         /* bytes of the reserve that its template and tokenizer keep */
    struct api_slot *slot; /* NULL: it isn't attached */
};

/* A listed model. */
typedef struct api_slot {
    api_listing listing;
    int32_t index;
    api_served *served;        /* attached; NULL: it isn't loaded */
    api_model_use use;         /* under the api's lock; only the server's thread changes it */
    int64_t keep_seconds;      /* set by a request's keep_alive; 0: not set */
    bool again;                /* it was requested while it was leaving */
    uint64_t loads;            /* number so far */
    char failure[API_FAILURE]; /* message of the last plan or load; "": it succeeded */
    /* Set by POST /lora-adapters, of the adapters that the name has; adapter_count 0: not set. */
    float *adapter_scales;
    int32_t adapter_count;
    /* Counters of its earlier schedulers; gauges are zero. */
    mnem_scheduler_stats past;
} api_slot;

/* A copy of a request that waits for its model to be loaded, followed by its path, query and
 * body. */
typedef struct api_parked api_parked;

enum {
    API_RING = 4096, /* limit of an answer's unsent tokens; those of an echoed prompt are extra */
    API_TREES = 64,  /* number of remembered salts and keys */
    API_SALT = 257,
    API_PING_SECONDS = 15
};

/* Bytes that are charged to the ledger in advance, so that they are available later. */
typedef struct api_reserve {
    mnem_ledger *ledger;
    const char *tag;
    uint64_t bytes, bytes_lent, bytes_whole; /* whole: the bytes charged at the start */
} api_reserve;
uint64_t api_reserve_left(const api_reserve *reserve);
/* Releases the charge of up to `most` bytes; false: fewer are left. */
bool api_reserve_lend(api_reserve *reserve, uint64_t most);
/* So many of the lent bytes are in use; the others are charged again. */
void api_reserve_settle(api_reserve *reserve, uint64_t most, uint64_t used);

/* The grammar of an answer during generation. */
typedef struct api_limit {
    mnem_grammar *grammar;
    mnem_match *match;
    uint64_t bytes; /* taken from the reserve */
} api_limit;

/* A token of a ring; top_count of mnem_token_logprob follow. */
typedef struct api_ring_token {
    double ms; /* when it was chosen, by tell_now_ms */
    int32_t id, index, top_count;
    float logprob;
    bool end;
} api_ring_token;

enum { API_STEPS = 16 };
typedef struct api_progress {
    int32_t tokens, cached;
    double ms; /* by tell_now_ms */
} api_progress;

struct api_job;
/* One answer of a request: a request of the scheduler. */
typedef struct api_answer {
    struct api_job *job;
    int32_t index;
    uint64_t request; /* 0: not submitted */
    api_limit limit;
    /* Under the lock: unsent tokens, and the end. */
    char *ring; /* [room] of stride bytes */
    uint32_t room, first, count;
    size_t stride;
    /* How much of the prompt is processed, after each step that wasn't sent yet; if there are more
     * than API_STEPS, the newest replaces the last entry. */
    api_progress progress[API_STEPS];
    int32_t steps;
    bool ended, slow;
    mnem_request_end end;
    int32_t cached_tokens;
    char why[200]; /* of MNEM_END_ERROR */
    mnem_status status;
    bool told_end; /* the server's thread has handled the end */
} api_answer;

/* The first member of all data of exchanges. */
typedef enum api_kind {
    API_BODY, /* a body that is being sent */
    API_JOB,
    API_SEAT, /* an action of a slot */
    API_EMBED,
    API_PARKED
} api_kind;
typedef struct api_owner {
    api_kind kind;
    bool woken; /* under the lock, as is next */
    struct api_owner *next;
} api_owner;
typedef struct api_embed api_embed; /* api_embed.c */

/* A slot as in llama.cpp's server, and the last conversation in it. */
enum { API_SEATS = 64 };
typedef struct api_seat {
    const api_served *served; /* NULL: the entry is free */
    int32_t number, key;
    uint64_t tree, used;
    int32_t *ids; /* [room] */
    int32_t count, room;
    struct api_job *job; /* a running job of this conversation; NULL: none */
} api_seat;
typedef struct api_seat_call api_seat_call;

typedef struct api_job {
    api_owner owner;
    struct api *api;
    api_served *served;      /* NULL: its answers have ended */
    http_exchange *exchange; /* NULL: the client is gone */
    struct api_job *next, *before;
    bool preempted; /* under the API's lock: preempted since the last look */
    bool aside;     /* preempted, and the client wasn't informed yet */
    tell tell;
    char *stops;        /* what tell.stop points into */
    api_answer *answer; /* [answers] */
    int32_t answers, answers_open;
    bool streaming; /* the head was sent */
    ask_keep keep;
    bool over;      /* the answer, or an error, was sent */
    int quiet;      /* ticks since the last sent bytes */
    api_seat *seat; /* NULL: it has none */
} api_job;

struct api {
    api_options options;
    api_memory memory;
    api_slot *slot; /* [slots] */
    int32_t slots;
    char *names;        /* texts of the listings */
    api_parked *parked; /* in the order they came */
    int32_t parked_count;
    uint64_t parked_bytes;
    bool resumed_stream;             /* the present request was parked, and its head was sent */
    api_reserve templates, grammars; /* templates: renderings and tokens of prompts */
    uint64_t templates_kept;         /* lent and in use between requests */
    uint64_t charged;                /* of memory and JSON */
    http_server *server;
    bool draining;
    int64_t started;  /* seconds since 1970 began */
    uint64_t numbers; /* for ids and seeds */
    api_job *jobs;
    api_embed *embeds;
    pthread_mutex_t lending; /* held while bytes of the reserves are lent, and during a plan */
    pthread_mutex_t lock;
    api_owner *woken; /* under the lock */
    struct {
        int32_t key;
        uint64_t number, used;
        char salt[API_SALT];
    } tree[API_TREES];
    uint64_t trees;
    api_seat seat[API_SEATS];
    uint64_t seat_clock;
    api_seat_call *seat_calls;
};

/* Answers with JSON; extra headers NULL: none. */
void api_answer_error(api *a, http_exchange *exchange, const api_error *error, api_error_form form);
/* Answers with the contents of text, and owns it until the exchange is gone. */
void api_answer_text(api *a, http_exchange *exchange, int status, const char *type, api_text *text);

/* Call them around rendering and tokenizing: begin takes bytes from the reserve, end returns
 * those that aren't kept. */
int64_t api_prompt_begin(api *a);
void api_prompt_end(api *a, api_served *served, int64_t before);
/* forget: call it when a model is unloaded, whose kept bytes are freed then; refill: charges the
 * reserve's missing bytes again, before a plan. */
void api_prompt_forget(api *a, api_served *served);
void api_prompt_refill(api *a);
/* An unpredictable number, for seeds. */
uint64_t api_random(api *a);

/* Under the lock: queues owner for the server's thread; whether that thread must be woken. */
bool api_note(api *a, api_owner *owner);

/* ---- api_start.c ---- */
/* The tree of a key and a salt: only requests with the same tree share cached prefixes. */
uint64_t api_tree_of(api *a, int32_t key, const char *salt);
void api_job_start(api *a, http_exchange *exchange, const http_request *http, ask_form form);

/* ---- models/ ---- */
/* Count one user of the model more, or one fewer: a job, an embedding, or an action of a slot. */
void api_served_join(api *a, api_served *served);
void api_served_leave(api *a, api_served *served);
/* As a user that came and went. */
void api_served_use(api *a, api_served *served);
/* Opens the model of the options, or copies their listings. */
mnem_status api_slots_open(api *a);
/* Bytes that several models take, in addition to the memory for requests. */
uint64_t api_slots_bytes(const api_options *options);
void api_slots_close(api *a);
/* Whether there are several models. */
bool api_has_several(const api *a);
/* The model with this name, NAME or NAME:latest; NULL: there is none. name NULL: the request has
 * none. A server with one model takes any name, unless strict_model is set. Names of a path or a
 * query must be unescaped first. */
api_slot *api_find_model(const api *a, const char *name);
/* The same, but other names always give NULL. */
api_slot *api_listed(const api *a, const char *name);
/* As api_find_model; false: error lists the names. */
bool api_find_named(const api *a, const char *name, api_slot **slot, api_error *error);
/* A request that needs its model loaded. */
typedef struct api_call {
    http_exchange *exchange;
    const http_request *http;
    bool events; /* its answer is a stream of events, which may have comments */
} api_call;
/* Finds the loaded model that a body names. false: error says why not; or error->status is 0, and
 * the request is parked: its route is called again once the model is loaded. */
bool api_pick(api *a, const json_t *root, const api_call *call, api_slot **slot, api_error *error);
bool api_pick_name(api *a, const char *name, const api_call *call, api_slot **slot,
                   api_error *error);
/* The same, for "model" of the query. */
bool api_pick_query(api *a, http_exchange *exchange, const http_request *http, api_slot **slot,
                    api_error *error);
/* Decodes %XX of a path or a query. false: there is no room. */
bool api_unescape(const char *text, size_t n, char *out, size_t room);
/* A value of a query; false: it has none, or there is no room. */
bool api_query_get(const char *query, const char *name, char *out, size_t room);
/* Ask the stepping thread to load the model; to unload it; to keep it loaded for so many seconds
 * after its last request (0: unload it; negative: no limit). */
void api_want(api *a, api_slot *slot);
void api_unwant(api *a, api_slot *slot);
void api_keep(api *a, api_slot *slot, int64_t seconds);

/* ---- models/api_park.c ---- */
bool api_park(api *a, api_slot *slot, const api_call *call, api_error *error);
/* Start the parked requests of a slot; end them with an error (slot NULL: those of all slots). */
void api_unpark(api *a, const api_slot *slot);
void api_parked_fail(api *a, const api_slot *slot, const api_error *error);
void api_parked_gone(api *a, api_parked *parked);
void api_parked_tick(api *a);
/* Answers with an error; if the head of a stream was sent, as an event that ends the stream. */
void api_fail(api *a, http_exchange *exchange, const api_error *error, ask_form form);
bool api_check_ready(const api *a, api_error *error);
/* Whether the model is loaded; its numbers are unknown before. */
bool api_check_loaded(const api *a, api_error *error);

/* ---- api_job.c ---- */
/* Callbacks of the scheduler; context is an api_answer. */
bool api_on_token(void *context, const mnem_request_token *token);
void api_on_end(void *context, const mnem_request_result *result);
void api_on_event(void *context, uint64_t request, mnem_request_event event);
void api_on_prompt(void *context, int32_t tokens, int32_t cached);
/* Ends a job with an error: a status, or an event if a status was sent already. */
void api_job_fail(api_job *job, const api_error *error);
void api_job_gone(api_job *job);
/* Sends the tokens and the end that have arrived. */
void api_job_go_on(api_job *job);
void api_job_tick(api_job *job);

/* ---- api_embed.c ---- */
void api_embed_go_on(api_embed *embed);
void api_embed_gone(api_embed *embed);
void api_embeds_drop(api *a);

/* ---- seats/api_seats.c ---- */
/* Gives a request a slot, the one it asked for if that exists, and returns its number. The slot
 * keeps the prompt's tokens, and those added later, for an action. */
int32_t api_seat_take(api *a, api_job *job, int32_t asked, uint64_t tree, int32_t key,
                      const int32_t *ids, int32_t n);
void api_seat_add(const api_job *job, int32_t id);
void api_seat_leave(const api_job *job);
/* forget: frees the seats of a model that is unloaded; NULL: all. drop: frees running actions,
 * too. */
void api_seats_forget(api *a, const api_served *served);
void api_seats_drop(api *a);
void api_seat_call_go_on(api_seat_call *call);
void api_seat_call_gone(api_seat_call *call);

/* ---- api_limit.c ---- */
/* in_thought: the prompt has opened a thought. unsupported: gets the parts of the tools' schemas
 * that aren't enforced, as members of a JSON list; or NULL. */
bool api_limit_make(api *a, const api_model *model, const ask_request *ask, bool in_thought,
                    api_text *unsupported, api_limit *limit, api_error *error);
void api_limit_drop(api *a, api_limit *limit);

/* ---- api_ollama.c ---- */
/* Answers a request that only loads or unloads the model, or sets error. */
void api_ollama_loaded(api *a, http_exchange *exchange, ask_form form, const ask_keep *keep,
                       api_slot *slot, api_error *error);

/* ---- api_metrics.c ---- */
/* Adds what has been counted since a start; gauges stay. */
void api_stats_add(mnem_scheduler_stats *sum, const mnem_scheduler_stats *stats);

/* ---- routes ---- */
void api_on_health(void *context, http_exchange *exchange, const http_request *request);
void api_on_ready(void *context, http_exchange *exchange, const http_request *request);
void api_on_models(void *context, http_exchange *exchange, const http_request *request);
void api_on_load(void *context, http_exchange *exchange, const http_request *request);
void api_on_unload(void *context, http_exchange *exchange, const http_request *request);
void api_on_props(void *context, http_exchange *exchange, const http_request *request);
void api_on_slots(void *context, http_exchange *exchange, const http_request *request);
void api_on_slot_action(void *context, http_exchange *exchange, const http_request *request);
void api_on_metrics(void *context, http_exchange *exchange, const http_request *request);
void api_on_embeddings(void *context, http_exchange *exchange, const http_request *request);
void api_on_tokenize(void *context, http_exchange *exchange, const http_request *request);
void api_on_tokenizer(void *context, http_exchange *exchange, const http_request *request);
void api_on_detokenize(void *context, http_exchange *exchange, const http_request *request);
void api_on_template(void *context, http_exchange *exchange, const http_request *request);
void api_on_chat_count(void *context, http_exchange *exchange, const http_request *request);
void api_on_responses_count(void *context, http_exchange *exchange, const http_request *request);
void api_on_count(void *context, http_exchange *exchange, const http_request *request);
void api_on_version(void *context, http_exchange *exchange, const http_request *request);
void api_on_ollama_version(void *context, http_exchange *exchange, const http_request *request);
void api_on_ollama_embed(void *context, http_exchange *exchange, const http_request *request);
void api_on_ollama_embed_one(void *context, http_exchange *exchange, const http_request *request);
void api_on_tags(void *context, http_exchange *exchange, const http_request *request);
void api_on_running(void *context, http_exchange *exchange, const http_request *request);
void api_on_show(void *context, http_exchange *exchange, const http_request *request);
void api_on_write(void *context, http_exchange *exchange, const http_request *request);
void api_on_pull(void *context, http_exchange *exchange, const http_request *request);

#endif
