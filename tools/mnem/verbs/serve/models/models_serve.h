/* models_serve.h: shared by the files of `mnem serve --models`.
 *
 *     models_list.c    reads the list of models
 *     models_check.c   refuses options that don't apply to several models
 *     models_choice.c  the bytes of each model, and which ones make room (numbers only)
 *     models_names.c   several names of one file as one model
 *     models_team.c    the threads that all models share
 *     models_plan.c    plans each model, before any is loaded
 *     models_load.c    loads and unloads a model, and keeps its prefix cache on disk
 *     models_say.c     --dry-run, messages, mnem top
 *     models_orders.c  what the two threads tell each other
 *     models_idle.c    whether anybody holds a loaded model
 *     models_serve.c   the loop: steps the loaded models, loads wanted ones
 *
 * Clients are answered while models are planned: listings at once, requests when their model is
 * loaded.
 *
 * Two threads, as with one model: the thread of the connections calls the API, the main thread does
 * everything else. Under the lock they exchange orders to the API (models_order) and wishes of
 * clients. Bytes are decided before the first load. So a model takes the same bytes at each load,
 * and the sum of the loaded models is known without the ledger, which the other thread changes as
 * it lends bytes and takes them back. */
#ifndef MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_SERVE_H
#define MNEM_TOOLS_MNEM_VERBS_SERVE_MODELS_MODELS_SERVE_H

#include <sys/stat.h>

#include "verbs/serve/models/models_choice.h"
#include "verbs/serve/models/models_list.h"
#include "verbs/serve/serve_tool.h"

enum { MODELS_TEXT = 320 };

/* The next call of the API about a model, for the thread of the connections. */
typedef enum models_order {
    MODELS_NOTHING,
    MODELS_BEGIN,
    MODELS_END,  /* repeated at each wake and tick, until api_model_end returns true */
    MODELS_STAY, /* cancels MODELS_END */
    MODELS_REFUSE
} models_order;

/* A listed name. The first name of a model leads: it has the model's state. Its other names
 * (models_names.c) have only what is marked with "each name". */
typedef struct models_one {
    struct models_all *of;           /* each name */
    int32_t index;                   /* each name */
    models_entry *entry;             /* each name */
    struct models_one *_Atomic lead; /* each name: the first name of its file; itself: it leads */
    int32_t asked_context;           /* each name; 0: the plan's */
    api_adapter adapter[TOOL_ADAPTERS_MAX]; /* each name: its adapters in the joint list */
    int32_t context_least;                  /* of the plan, if asked.context is 0 */
    tool_session_asked asked;
    served_model served;         /* its plan is used for each load, */
    mnem_engine_options options; /* and so are these options */
    api_served *api;             /* each name: while the model is open */
    struct stat file;            /* when it was opened last */

    /* least: of any plan; whole: the least in which it is as fast as in all of the room; bytes:
     * its size while it is loaded; tables: the part of model, tokenizer and API. */
    uint64_t least_bytes, whole_bytes, bytes, tables_bytes;
    mnem_status failed; /* why it can't be loaded; MNEM_OK: it can */
    bool planned;       /* options and bytes are those of the file */
    bool again;         /* another try may succeed with the same file */
    char failure[MODELS_TEXT];

    /* Its prefix cache while it is unloaded; fd -1: none. */
    int cache_fd;
    uint64_t cache_bytes;
    int64_t cache_since;
    uint64_t swap_part; /* of all bytes on disk; of names that are parted, each has a part of it */

    /* Used by the main thread only. */
    bool loaded, leaving;
    uint64_t loads;
    int64_t since; /* each name: time of the load, or when it was let go last, ms */

    /* Under the lock. */
    models_order order;
    bool ended; /* the API has detached it */
    bool work;  /* its scheduler has something to do */
    /* Of each name. */
    bool wanted, unwanted;
    bool called;          /* it was wanted since the model was loaded, or is wanted now */
    int64_t wanted_since; /* ms */
    int64_t keep_ms;      /* time it stays loaded after its last request; -1: no limit */
    bool kept;            /* a request has set keep_ms */
    bool told;            /* planned_as has news for the API */
    api_planned planned_as;
    int refusal_status;
    const char *refusal_code;
    char refusal[MODELS_TEXT];
} models_one;

typedef struct models_all {
    serve *s;
    models_list list;
    models_one *model;   /* [list.count] */
    uint64_t room_bytes; /* for all models together */
    uint64_t next_bytes; /* charged in advance, so that any model can be opened and planned */
    uint64_t reserve_bytes;
    bool next_charged, reserve_charged;
    mnem_team *team; /* of all engines */
    uint64_t team_bytes;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the main thread has something to do */
} models_all;

/* Refuses options that apply to one model only. Returns an exit code, and prints the message. */
int models_check(const serve_options *o);
/* Runs the server. Returns the exit code of the verb. */
int models_serve(serve *s, const tool_args *args);

/* ---- models_names.c ---- */
/* Finds the names of each file, before anything is opened. */
void models_join_names(models_all *v);
/* Makes models of their own of the names that have another file now than the first name, or of all
 * names but the first. The model isn't loaded. All that changed are planned again. */
void models_part_names(models_one *m, bool all);
/* The names of a model: the first one is the model itself. name NULL: the first; NULL: no more. */
models_one *models_next_name(const models_one *m, const models_one *name);
bool models_has_names(const models_one *m); /* more than one */
bool models_is_pinned(const models_one *m); /* any name is */
/* The name whose pin keeps a name's model loaded, its own before others; NULL: none. */
const char *models_pinned_by(const models_one *name);
/* The limit of a name's conversations in tokens, by the model's plan. */
int32_t models_context(const models_one *name);
/* The name that leads its model; NULL: it leads. */
const char *models_shares_with(const models_one *name);

/* Whether names that have another file now than the first one must be parted. */
bool models_names_differ(const models_one *m);

/* ---- models_idle.c ---- */
/* The requests of all names of a model, and the last beginning or end of one. */
api_model_use models_use(const models_one *m);
/* Whether no name holds the loaded model. */
bool models_has_idled(models_one *m);
/* Whether that may come with time alone. */
bool models_is_timed(models_one *m);

/* ---- models_orders.c ---- */
void models_listen(models_all *v); /* call it before the functions below */
api_model_calls models_wishes(models_all *v);
void models_on_wake(void *context);
void models_on_tick(void *context);
void models_on_over(void *context);
/* On the main thread: sets the next order for a model with all its names, and wakes the other
 * thread. */
void models_give(models_one *m, models_order order);
/* On the main thread: copies what is known about a model for the listings of its names. A model
 * that is planned is open; of one that isn't open and hasn't failed nothing is known. */
void models_tell(models_one *m);

/* ---- models_team.c ---- */
/* Charges and creates the team for the plans and engines of all models. Returns an exit code, and
 * prints the message. */
int models_team_create(models_all *v);
/* Call it when no engine is left; also after an error. */
void models_team_destroy(models_all *v);

/* ---- models_plan.c ---- */
/* Opens each model, decides its bytes and plans it. A model that fails stays in the list with its
 * failure. Returns an exit code: TOOL_OK if at least one model can be served. */
int models_plan(models_all *v);
/* Opens the model, the tokenizer and the API's part; *tables: their bytes. Call close after an
 * error, too. */
mnem_status models_open(models_one *m, uint64_t *tables);
void models_close(models_one *m);
/* Decides bytes and plan of a model whose file was replaced, before any model is unloaded for it,
 * in the bytes that are charged for opening a model. A failure is stored in the model. */
mnem_status models_look_again(models_one *m);
bool models_file_is_new(const models_one *m);

/* ---- models_load.c ---- */
/* Loads a model for which there is room. After an error none of its parts stay. MNEM_BUSY: its file
 * was replaced since it was planned. */
mnem_status models_load(models_one *m);
/* Unloads a model that the API has detached. save: its prefix cache is kept if there is a --swap
 * folder. */
void models_unload(models_one *m, bool save);
void models_drop_cache(models_one *m);
/* Gives each model an equal part of the bytes of --swap-max. */
void models_divide_swap(models_all *v);
/* Charges the bytes that opening and planning a model takes, and what requests kept of unloaded
 * models; releases the former, for doing so. */
mnem_status models_next_charge(models_all *v);
void models_next_release(models_all *v);
/* Makes one step of each model that has work; false: none has. */
bool models_step(models_all *v);

/* ---- models_say.c ---- */
void models_say_plan(const models_all *v); /* --dry-run */
void models_say_models(const models_all *v);
void models_tell_monitor(const models_all *v); /* mnem top */

#endif
