/* engine_private.h: the engine: the memory that it took, its tables, and its sequences. */
#ifndef MNEM_SRC_ENGINE_ENGINE_PRIVATE_H
#define MNEM_SRC_ENGINE_ENGINE_PRIVATE_H

#include "engine/engine_parts.h"
#include "engine/pages/kv_ahead.h"
#include "engine/pages/page_count.h"
#include "engine/pages/snapshots.h"
#include "mnem/engine.h"

/* The most positions per sequence at which a step takes snapshots. */
enum { MNEM__MARKS = 8 };

struct mnem_sequence {
    mnem_engine *engine;
    mnem__kv_table table[MNEM__KV_KINDS];
    int32_t length;
    int32_t ready; /* tokens that the states include: length, or fewer (sequence.c) */
    bool open, in_step;
    int32_t base; /* its length when the step began */
    int32_t marks, mark[MNEM__MARKS];
    /* Pages that are being filled from a file; the table has no entries for them yet (saved/). */
    struct {
        int32_t begin[MNEM__KV_PAGED], end[MNEM__KV_PAGED], keep[MNEM__KV_PAGED];
        int32_t n;
        bool on;
        /* With states: the state that is being read, its position and its page. */
        int32_t state, ready, state_page;
    } load;
    /* Its tables after the passes that were counted so far (engine_step.c). */
    struct {
        mnem__kv_ahead table[MNEM__KV_KINDS];
        int32_t ready;
    } ahead;
};

/* An engine with one sequence, as one object. */
struct mnem_session {
    mnem_engine *engine;
    mnem_sequence *sequence;
};

/* The tokens of one part of a step that one pass computes. */
typedef struct mnem__segment {
    int32_t part, at, n; /* which part, its first token, how many */
    int32_t row;         /* of the pass */
} mnem__segment;

/* A pass whose logits arrive later: the callback that receives them, and their rows. */
typedef struct mnem__awaited {
    mnem_on_step_logits *on_logits;
    void *context;
    int32_t segments, wanted, row; /* row: where they arrive in the buffer of logits */
    mnem_comm_request request;
    mnem__segment *segment; /* [sequences]: those with wanted rows, and only these rows */
} mnem__awaited;

/* The engine's tables, in the same allocation as the engine. */
typedef struct mnem__engine_tables {
    bool *resident;               /* [matrices] */
    int32_t *ids;                 /* [chunk] */
    int32_t *positions;           /* [chunk] */
    mnem_kv_sequence *kv;         /* [layers][segments of the pass] */
    mnem__segment *segments;      /* [sequences] */
    mnem_low_rank_rows *low_rows; /* [sequences], with adapters: the stretches of a pass */
    float *scales;                /* [sequences][adapters] */
    mnem_sequence *sequences;     /* [sequences] */
    mnem_comm_request *requests;  /* of the relay, where there are ranks */
    mnem_step_part *parts;        /* [sequences], on ranks other than 0 */
    mnem__awaited *awaited;       /* [mnem__relay_ahead], on rank 0 */
    struct {
        int32_t *pages;       /* [sequences][table_pages] */
        int32_t *free_pages;  /* [count] */
        uint16_t *references; /* [count] */
        int32_t *ids;         /* [count][page tokens]; NULL: no layer of the kind has a state */
        mnem__kv_need need;
        int32_t count; /* for all sequences */
    } kind[MNEM__KV_KINDS];
    int32_t table_pages;       /* pages of a whole context */
    int32_t window;            /* of the kind that forgets pages; 0: none does */
    int32_t *history;          /* [sequences][context]: the tokens of each; NULL: no states */
    mnem__snapshots snapshots; /* without its pages */
} mnem__engine_tables;
/* Lays the tables out from base (NULL: only measures) and returns the bytes. */
uint64_t mnem__engine_tables_lay_out(const mnem__setup *setup, const mnem__choice *choice,
                                     uint8_t *base, mnem__engine_tables *tables);

/* The position from which a sequence must run again so that it can continue at n, if its states
 * include `ready` tokens: n itself; the first position of n's page, where what that page keeps is
 * gone; 0, where a recurrent state is gone. */
int32_t mnem__engine_ready(const mnem_engine *engine, int32_t ready, int32_t n);
/* The same for a sequence, whose snapshots count too: the nearest at or before n. */
int32_t mnem__sequence_ready(const mnem_sequence *sequence, int32_t n);
/* Whether the state from which it would continue, cut to n, is only in the store of snapshots: a
 * cut or fork there reads it, and needs a free page for it. */
bool mnem__sequence_is_stored(const mnem_sequence *sequence, int32_t n);
/* The position of the nearest snapshot in memory at or before n; 0: none. */
int32_t mnem__sequence_in_memory(const mnem_sequence *sequence, int32_t n);
/* Frees the page of its live state: the state becomes a snapshot in the store, unless there is one
 * already. The sequence can't be stepped then, until a cut fetches a state. false: nothing
 * changed. */
bool mnem__sequence_put_away(mnem_sequence *sequence);
/* Cuts a sequence that will not continue soon: the snapshot at the cut isn't fetched, and may be
 * evicted. The sequence can't be stepped then, until another cut fetches a state. */
mnem_status mnem__sequence_truncate_away(mnem_sequence *sequence, int32_t n);
/* Its list of snapshots. */
mnem__snapshot_list *mnem__sequence_snapshots(const mnem_sequence *sequence);
/* The position at which a pass that begins at `position` must end, because a snapshot is taken
 * there; INT32_MAX: none. */
int32_t mnem__sequence_stop(const mnem_sequence *sequence, int32_t position);
/* After a pass: takes a snapshot if one is due at the sequence's position, and tells the other
 * ranks. */
void mnem__sequence_take_snapshot(mnem_sequence *sequence);
/* The same on a rank that was told. false: it has no state, or no snapshots are planned. */
bool mnem__sequence_follow_snapshot(mnem_sequence *sequence, bool asked);
/* Whether window pages that begin at position `held` hold all that the token at `ready` sees. */
bool mnem__engine_holds(const mnem_engine *engine, int32_t ready, int32_t held);
/* The first position that pages of all kinds hold; 0 where no kind forgets pages. */
int32_t mnem__sequence_held(const mnem_sequence *sequence);
/* Whether it can be cut or forked at n: its windows still hold what a token there sees. */
bool mnem__sequence_holds(const mnem_sequence *sequence, int32_t n);
/* After a stopped pass, before which `ready` tokens were included in the states: states behind the
 * last whole page may include tokens that are not the sequence's, so they count as unknown. Other
 * ranks, which may have completed the pass, are told. */
void mnem__sequence_doubt(mnem_sequence *sequence, int32_t ready);

/* ---- engine_adapters.c ---- */

/* The scales of a sequence, and those of a new sequence, [adapters]. */
float *mnem__sequence_scales(const mnem_sequence *sequence);
const float *mnem__engine_scales(const mnem_engine *engine);
/* Sets the scales of an empty sequence, without a check. */
void mnem__sequence_scales_copy(mnem_sequence *sequence, const float *scales);
/* MNEM_INVALID: a scale isn't finite. scales may be NULL. */
mnem_status mnem__adapters_check(const mnem_engine *engine, const float *scales);
/* A checksum of the scales; 0 for an engine without adapters. */
uint64_t mnem__adapters_choice(const mnem_engine *engine, const float *scales);

/* MNEM_UNSUPPORTED: the engine's model or ranks lack a feature (mnem/supports.h). */
mnem_status mnem__engine_supports(const mnem_engine *engine, uint32_t features);

/* A step that gives all hidden rows instead of logits: on_hidden is called for each pass and
 * part, in order, with the rows of tokens [at, at + n) as the body leaves them; it may change
 * them. With ranks by layers, the last rank's function is called first, then rank 0's with the
 * changed rows. */
typedef mnem_status mnem__on_hidden(void *context, int32_t part, int32_t at, int32_t n,
                                    float *rows);
mnem_status mnem__engine_step_hidden(mnem_engine *engine, const mnem_step_part *parts,
                                     int32_t count, mnem__on_hidden *on_hidden, void *context);
/* The function of ranks other than 0; context: the engine. */
mnem__on_hidden mnem__embed_follow;

/* On ranks other than 0: handles the orders of another layer (relay.h). */
typedef mnem_status mnem__on_order(void *context, const int32_t *order);

struct mnem_engine {
    const mnem_model *model;
    mnem_ledger *ledger;
    mnem_device *device;
    mnem__transformer_map *map;
    mnem__adapter_set *adapters; /* NULL: none */
    mnem__graph_pair graphs;
    mnem__weights *weights;
    mnem_team *team;
    bool owns_team;
    int32_t process; /* its creator: a forked child inherits the memory, but not the threads */
    mnem__choice choice;
    int32_t logits_rows, sequences;
    mnem__engine_parts parts;
    mnem__taken taken; /* the memory of the parts */
    mnem__engine_tables tables;
    mnem__kv_pages pages[MNEM__KV_KINDS];
    mnem__snapshots snapshots;
    int32_t snapshot_tokens; /* one snapshot at each multiple */
    mnem__relay relay;
    mnem__on_order *on_order; /* NULL: no such orders */
    void *on_order_context;
    mnem_graph_gather gather;       /* of the relay */
    int32_t awaited_first, awaited; /* the ring of awaited passes: its oldest, its count */
    int32_t awaited_row;            /* the next free row of the buffer of logits */
    bool page_cache;                /* rows of per-layer embeddings stay in the page cache */
    float *hidden, *logits; /* for the host; device apart: hidden is a copy in the staging part */
    uint8_t *rows;          /* of the embedding; likewise */
    void *external[MNEM__SLOTS]; /* operators' pointers: not for the host (device/location.h) */
    mnem_graph_weights source;
    /* What its passes consist of (pass_nodes.h). */
    uint32_t nodes;
    int32_t
        layer_rows_node;   /* of the body: per-layer embedding rows are added before it; 0: none */
    uint32_t features;     /* needed by every step (mnem/supports.h) */
    mnem_graph_args args;  /* common to all runs of its graphs */
    mnem_low_rank_run low; /* of the program that runs next */
    int cancel;            /* atomic */
    uint64_t identity;     /* of the model, atomic; 0: not computed yet (saved/) */
    mnem_engine_stats stats;
    mnem_session session; /* of mnem_session_create */
};

/* The sum of what the layers of one kind of pages need. */
static inline const mnem__kv_need *mnem__engine_need(const mnem_engine *engine, int kind) {
    return &engine->tables.kind[kind].need;
}
/* Whether a sequence keeps a page of the kind for all of its positions: the model uses the kind,
 * and none of its layers forgets. */
static inline bool mnem__engine_keeps(const mnem_engine *engine, int kind) {
    const mnem__kv_need *need = mnem__engine_need(engine, kind);
    return need->pages > 0 && !need->forgets && !need->one;
}
static inline bool mnem__engine_has_states(const mnem_engine *engine) {
    return mnem__engine_need(engine, MNEM__KV_STATES)->pages > 0;
}
/* All tokens of the sequence [length], in models with states. */
static inline int32_t *mnem__sequence_history(const mnem_sequence *sequence) {
    const mnem__engine_tables *t = &sequence->engine->tables;
    return t->history + (sequence - t->sequences) * (int64_t)sequence->engine->choice.context;
}
/* The kind whose pages store the ids of their tokens; below 0: none. */
static inline int mnem__engine_ids_kind(const mnem_engine *engine) {
    int kind = MNEM__KV_KINDS - 1;
    while (kind >= 0 && !mnem__engine_need(engine, kind)->ids) kind--;
    return kind;
}
/* The pages of a kind that tables may use, and how many are free; those of snapshots don't
 * count. */
static inline int32_t mnem__engine_pages_all(const mnem_engine *engine, int kind) {
    const int32_t all = engine->pages[kind].count;
    return kind == MNEM__KV_STATES ? all - engine->snapshots.most : all;
}
static inline int32_t mnem__engine_pages_free(const mnem_engine *engine, int kind) {
    return kind == MNEM__KV_STATES && engine->snapshots.most > 0
               ? mnem__snapshots_free(&engine->snapshots)
               : engine->pages[kind].free_count;
}
/* Positions per page, equal for all kinds. */
static inline int32_t mnem__engine_page_tokens(const mnem_engine *engine) {
    return engine->pages[0].layout.page_tokens;
}

#endif
