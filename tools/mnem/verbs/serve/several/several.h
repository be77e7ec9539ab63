/* several.h: what the files of `mnem serve --models` share.
 *
 *     models_list.c    which models there are
 *     models_choice.c  how many bytes each takes, who leaves (numbers only)
 *     models_plan.c    each model's bytes, before any is loaded
 *     models_load.c    loading and unloading one, and what stays of it on disk
 *     models_say.c     --dry-run, messages
 *     several_orders.c what the two threads tell each other
 *     several.c        the loop: steps the loaded models, loads what is wanted
 *
 * Two threads, as with one model: the thread of the connections calls the API, the main thread
 * everything else. What they tell each other is under the lock: orders to the API (several_order)
 * and wishes of clients. Bytes are decided before the first load, so that a model takes the same at
 * each load, and that the sum of the loaded ones is known without asking the ledger, in which the
 * other thread lends and takes back. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_SEVERAL_SEVERAL_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_SEVERAL_SEVERAL_H

#include <sys/stat.h>

#include "verbs/serve/serve_tool.h"
#include "verbs/serve/several/models_choice.h"
#include "verbs/serve/several/models_list.h"

enum { SEVERAL_TEXT = 320 };

/* What the thread of the connections is to tell the API of a model. */
typedef enum several_order {
    SEVERAL_NOTHING,
    SEVERAL_BEGIN,
    SEVERAL_END,  /* again at each wake, until the API has let it go */
    SEVERAL_STAY, /* takes that back */
    SEVERAL_REFUSE
} several_order;

typedef struct several_model {
    struct several *of;
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
    char failure[SEVERAL_TEXT];

    /* Its prefix cache while it is unloaded; fd below 0: none. */
    int cache_fd;
    uint64_t cache_bytes;
    int64_t cache_since;

    /* Of the main thread. */
    bool loaded, leaving;
    int64_t since; /* it was loaded */
    uint64_t loads;

    /* Under the lock. */
    several_order order;
    bool ended; /* the API has let it go */
    bool wanted, unwanted;
    bool work;            /* its scheduler has something to do */
    int64_t wanted_since; /* ms */
    int64_t keep_ms;      /* stays behind its last request; below 0: no limit */
    bool kept;            /* keep_ms was said by a request */
    int refusal_status;
    const char *refusal_code;
    char refusal[SEVERAL_TEXT];
} several_model;

typedef struct several {
    serve *s;
    models_list list;
    several_model *model; /* [list.count] */
    uint64_t room_bytes;  /* of all models together */
    uint64_t next_bytes;  /* charged, so that the largest tables can be opened and planned */
    uint64_t reserve_bytes;
    bool next_charged, reserve_charged;
    bool begun; /* the API's */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is something to do for the main thread */
} several;

/* Exit code of the whole verb. */
int several_serve(serve *s, const tool_args *args);

/* ---- several_orders.c ---- */
void several_listen(several *v); /* before all that follow */
api_model_calls several_wishes(several *v);
void several_on_wake(void *context);
void several_on_tick(void *context);
void several_on_over(void *context);
/* Of the main thread: what the API is to be told next of a model. */
void several_give(several_model *m, several_order order);

/* ---- models_plan.c ---- */
/* Opens each model, decides its bytes and plans it; a model that can't be had stays in the list with
 * its failure. Exit code: whether any can be had. */
int several_plan(several *v);
/* Model, tokenizer, and what the API has of it; *tables: their bytes. close is needed in any case. */
mnem_status several_open(several_model *m, uint64_t *tables);
void several_close(several_model *m);
/* Plans a model that is open and whose file is another one than it was, in the bytes that it had. */
mnem_status several_plan_again(several_model *m);
bool several_file_is_new(const several_model *m);

/* ---- models_load.c ---- */
/* Loads a model that there is room for. After an error nothing of it stays. */
mnem_status several_load(several_model *m);
/* Of one that the API has let go. save: its prefix cache is kept, where there is a place. */
void several_unload(several_model *m, bool save);
void several_drop_cache(several_model *m);
/* Charges what opening and planning a model takes, or gives it back for that. */
mnem_status several_next_charge(several *v);
void several_next_release(several *v);
/* Steps what has work; false: nothing has. */
bool several_step(several *v);

/* ---- models_say.c ---- */
void several_say_plan(const several *v); /* --dry-run */
void several_say_models(const several *v);

#endif
