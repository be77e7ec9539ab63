/* models_serve.h: what the files of `mnem serve --models` share.
 *
 *     models_list.c    which models there are
 *     models_choice.c  how many bytes each takes, which ones make room (numbers only)
 *     models_plan.c    each model's bytes, before any is loaded
 *     models_load.c    loading and unloading one, and what stays of it on disk
 *     models_say.c     --dry-run, messages
 *     models_orders.c  what the two threads tell each other
 *     models_serve.c   the loop: steps the loaded models, loads what is wanted
 *
 * Two threads, as with one model: the thread of the connections calls the API, the main thread
 * everything else. What they tell each other is under the lock: orders to the API (models_order)
 * and wishes of clients. Bytes are decided before the first load, so that a model takes the same at
 * each load, and that the sum of the loaded ones is known without asking the ledger, in which the
 * other thread lends and takes back. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_SERVE_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_SERVE_H

#include <sys/stat.h>

#include "verbs/serve/models/models_choice.h"
#include "verbs/serve/models/models_list.h"
#include "verbs/serve/serve_tool.h"

enum { MODELS_TEXT = 320 };

/* What the thread of the connections is to tell the API of a model. */
typedef enum models_order {
    MODELS_NOTHING,
    MODELS_BEGIN,
    MODELS_END,  /* again at each wake, until the API has let it go */
    MODELS_STAY, /* takes that back */
    MODELS_REFUSE
} models_order;

typedef struct models_one {
    struct models_all *of;
    int32_t index;
    models_entry *entry;
    tool_session_asked asked;
    served_model served;         /* its plan is that of every load; */
    mnem_engine_options options; /* so are these */
    api_served *api;             /* while it is open */
    struct stat file;

    /* Bytes: without any weight on disk or in the least memory; what it takes. */
    uint64_t least_bytes, whole_bytes, bytes, tables_bytes;
    mnem_status failed; /* it can't be loaded, and why */
    bool again;         /* that may change without another file */
    char failure[MODELS_TEXT];

    /* Its prefix cache while it is unloaded; fd below 0: none. */
    int cache_fd;
    uint64_t cache_bytes;
    int64_t cache_since;

    /* Of the main thread. */
    bool loaded, leaving;
    int64_t since; /* it was loaded */
    uint64_t loads;

    /* Under the lock. */
    models_order order;
    bool ended; /* the API has let it go */
    bool wanted, unwanted;
    bool work;            /* its scheduler has something to do */
    int64_t wanted_since; /* ms */
    int64_t keep_ms;      /* stays behind its last request; below 0: no limit */
    bool kept;            /* keep_ms was said by a request */
    int refusal_status;
    const char *refusal_code;
    char refusal[MODELS_TEXT];
} models_one;

typedef struct models_all {
    serve *s;
    models_list list;
    models_one *model;   /* [list.count] */
    uint64_t room_bytes; /* of all models together */
    uint64_t next_bytes; /* charged, so that the largest tables can be opened and planned */
    uint64_t reserve_bytes;
    bool next_charged, reserve_charged;
    bool begun; /* the API's */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is something to do for the main thread */
} models_all;

/* Options that one model only has. Exit code, with the message printed. */
int models_check(const serve_options *o);
/* Exit code of the whole verb. */
int models_serve(serve *s, const tool_args *args);

/* ---- models_orders.c ---- */
void models_listen(models_all *v); /* before all that follow */
api_model_calls models_wishes(models_all *v);
void models_on_wake(void *context);
void models_on_tick(void *context);
void models_on_over(void *context);
/* Of the main thread: what the API is to be told next of a model. */
void models_give(models_one *m, models_order order);

/* ---- models_plan.c ---- */
/* Opens each model, decides its bytes and plans it. A model that fails stays in the list with its
 * failure. Exit code: whether any can be served. */
int models_plan(models_all *v);
/* Model, tokenizer, and what the API has of it; *tables: their bytes. close is needed in any
 * case. */
mnem_status models_open(models_one *m, uint64_t *tables);
void models_close(models_one *m);
/* Of a model whose file was replaced, before anybody leaves for it: its bytes and its plan, in what
 * is charged for opening a model. A failure is the model's from then on. */
mnem_status models_look_again(models_one *m);
bool models_file_is_new(const models_one *m);

/* ---- models_load.c ---- */
/* Loads a model that there is room for. After an error nothing of it stays. MNEM_BUSY: its file has
 * been replaced since it was planned. */
mnem_status models_load(models_one *m);
/* Of one that the API has let go. save: its prefix cache is kept, where there is a place. */
void models_unload(models_one *m, bool save);
void models_drop_cache(models_one *m);
/* Charges what opening and planning a model takes, or gives it back for that. */
mnem_status models_next_charge(models_all *v);
void models_next_release(models_all *v);
/* Steps what has work; false: nothing has. */
bool models_step(models_all *v);

/* ---- models_say.c ---- */
void models_say_plan(const models_all *v); /* --dry-run */
void models_say_models(const models_all *v);

#endif
