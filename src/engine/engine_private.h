/* engine_private.h: the engine itself: what it took, where everything of it is, and its sequences.
 */
#ifndef MNEM_SRC_ENGINE_ENGINE_PRIVATE_H
#define MNEM_SRC_ENGINE_ENGINE_PRIVATE_H

#include "engine/engine_parts.h"
#include "engine/pages/kv_ahead.h"
#include "engine/pages/page_count.h"
#include "engine/pages/snapshots.h"
#include "mnem/engine.h"

/* Positions where a step is to take snapshots. */
enum { MNEM__MARKS = 8 };

struct mnem_sequence {
    mnem_engine *engine;
    mnem__kv_table table[MNEM__KV_KINDS];
    int32_t length;
    int32_t ready; /* tokens whose states are known: length, or less (sequence.c) */
    bool open, in_step;
    int32_t base; /* its length when the step began */
    int32_t marks, mark[MNEM__MARKS];
    /* Pages that are being filled from a file: entries that the table doesn't have yet (saved/). */
    struct {
        int32_t begin[MNEM__KV_PAGED], end[MNEM__KV_PAGED], keep[MNEM__KV_PAGED];
        int32_t n;
        bool on;
        /* Where there are states: the one that is read, its position and the page for it. */
        int32_t state, ready, state_page;
    } load;
    /* What counting the pages of a step knows of it (engine_step.c). */
    struct {
        mnem__kv_ahead table[MNEM__KV_KINDS];
        int32_t ready;
    } ahead;
};

/* The façade of one sequence. */
struct mnem_session {
    mnem_engine *engine;
    mnem_sequence *sequence;
};

/* Tokens of one part of a step that go through one pass. */
typedef struct mnem__segment {
    int32_t part, at, n; /* which part, its first token, how many */
    int32_t row;         /* of the pass */
} mnem__segment;

/* A pass whose logits come later: whom they are told, and what rows they are of. */
typedef struct mnem__awaited {
    mnem_on_step_logits *on_logits;
    void *context;
    int32_t segments, wanted, row; /* row: of the place of logits, where they come */
    mnem_comm_request request;
    mnem__segment *segment; /* [sequences]: those with rows that are wanted, and only these rows */
} mnem__awaited;

/* The engine's tables, in one allocation with it. */
typedef struct mnem__engine_tables {
    bool *resident;              /* [matrices] */
    int32_t *ids;                /* [chunk] */
    int32_t *positions;          /* [chunk] */
    mnem_kv_sequence *kv;        /* [layers][segments of the pass] */
    mnem__segment *segments;     /* [sequences] */
    mnem_sequence *sequences;    /* [sequences] */
    mnem_comm_request *requests; /* of the relay, where there are ranks; */
    mnem_step_part *parts;       /* [sequences], of those that follow */
    mnem__awaited *awaited;      /* [mnem__relay_ahead], of rank 0 */
    struct {
        int32_t *pages;       /* [sequences][table_pages] */
        int32_t *free_pages;  /* [count] */
        uint16_t *references; /* [count] */
        int32_t *ids;         /* [count][page tokens]; NULL: no layer of the kind has a state */
        mnem__kv_need need;
        int32_t count; /* of all sequences */
    } kind[MNEM__KV_KINDS];
    int32_t table_pages; /* of positions: a whole context's */
    int32_t window;      /* that a token sees where a kind forgets; 0: none does */
    int32_t *history;    /* [sequences][context]: the tokens of each; NULL: there are no states */
    mnem__snapshots snapshots; /* but for its pages */
} mnem__engine_tables;
/* Lays them out from base (NULL measures) and returns the bytes. */
uint64_t mnem__engine_tables_lay_out(const mnem__setup *setup, const mnem__choice *choice,
                                     uint8_t *base, mnem__engine_tables *tables);

/* Of a sequence's tokens, those before ready of which count, the first that must run before one
 * behind position n can: n itself; the begin of its page where what n's page keeps is gone; 0 where
 * a recurrent state is. */
int32_t mnem__engine_ready(const mnem_engine *engine, int32_t ready, int32_t n);
/* The same of a sequence, which may have snapshots of its states: the nearest one. */
int32_t mnem__sequence_ready(const mnem_sequence *sequence, int32_t n);
/* Whether the state that it would go on from, cut to n, is in the store of snapshots alone: who
 * cuts or forks it there needs a free page for it, and reads it. */
bool mnem__sequence_is_stored(const mnem_sequence *sequence, int32_t n);
/* The position of the nearest snapshot in memory at or before n; 0: none. */
int32_t mnem__sequence_in_memory(const mnem_sequence *sequence, int32_t n);
/* Gives its live state's page back: the state becomes a snapshot, in the store unless there is one
 * already. Then it is neither stepped nor saved, until a cut fetches a state. False: nothing
 * changed. */
bool mnem__sequence_put_away(mnem_sequence *sequence);
/* A cut of a sequence that isn't about to go on: a snapshot stays where it is, and may go. Then the
 * sequence is neither stepped nor saved, until another cut takes a state. */
mnem_status mnem__sequence_truncate_away(mnem_sequence *sequence, int32_t n);
/* Its snapshots. */
mnem__snapshot_list *mnem__sequence_snapshots(const mnem_sequence *sequence);
/* Where a pass that begins at this position must end at the latest, so that a snapshot can be taken
 * there; INT32_MAX: anywhere. */
int32_t mnem__sequence_stop(const mnem_sequence *sequence, int32_t position);
/* After a pass: takes the snapshot that is wanted where the sequence is now, if one is; other ranks
 * are told. */
void mnem__sequence_take_snapshot(mnem_sequence *sequence);
/* The same, as it is told. False: it has no state, or no snapshots are planned. */
bool mnem__sequence_follow_snapshot(mnem_sequence *sequence, bool asked);
/* Whether pages of windows that begin at position held have what the token at ready sees. */
bool mnem__engine_holds(const mnem_engine *engine, int32_t ready, int32_t held);
/* The first position that all its pages have; 0 where no kind forgets. */
int32_t mnem__sequence_held(const mnem_sequence *sequence);
/* Whether it can be cut or forked at n: what a token there sees of windows is still there. */
bool mnem__sequence_holds(const mnem_sequence *sequence, int32_t n);
/* After a pass that was stopped, before which so many tokens were ready: states behind the last
 * whole page may be of tokens that aren't the sequence's. Other ranks may have ended the pass, and
 * are told. */
void mnem__sequence_doubt(mnem_sequence *sequence, int32_t ready);

/* MNEM_UNSUPPORTED: its model, or its ranks, can't do that (mnem/supports.h). */
mnem_status mnem__engine_supports(const mnem_engine *engine, uint32_t features);

/* A step whose hidden rows are wanted, all of them: told for each pass and part, tokens at and
 * behind it, in order. Rows are as the body leaves them; they may be changed. Of
 * ranks with layers the last one's function sees them first, then rank 0's as it left them. */
typedef mnem_status mnem__on_hidden(void *context, int32_t part, int32_t at, int32_t n,
                                    float *rows);
mnem_status mnem__engine_step_hidden(mnem_engine *engine, const mnem_step_part *parts,
                                     int32_t count, mnem__on_hidden *on_hidden, void *context);
/* What a rank that follows does to them; context: its engine. */
mnem__on_hidden mnem__embed_follow;

/* Of a rank that follows, for orders of another layer (relay.h). */
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
    int32_t process; /* that created it: a forked child has its memory, but not its threads */
    mnem__choice choice;
    int32_t logits_rows, sequences;
    mnem__engine_parts parts;
    mnem__taken taken; /* the parts */
    mnem__engine_tables tables;
    mnem__kv_pages pages[MNEM__KV_KINDS];
    mnem__snapshots snapshots;
    int32_t snapshot_tokens; /* one at each multiple of so many */
    mnem__relay relay;
    mnem__on_order *on_order; /* NULL: there are none */
    void *on_order_context;
    mnem_graph_gather gather;       /* of the relay */
    int32_t awaited_first, awaited; /* of the ring of awaited passes: the oldest, how many */
    int32_t awaited_row;            /* of the place of logits, behind the newest one's */
    bool page_cache;                /* rows of layers stay there */
    float *hidden, *logits;         /* for the host; apart: hidden is a copy, in the staging part */
    uint8_t *rows;                  /* of the embedding, so too */
    void *external[MNEM__SLOTS];    /* what operators take: not for the host (device/location.h) */
    mnem_graph_weights source;
    /* What its passes are compiled to (pass_nodes.h). */
    uint32_t nodes;
    int32_t layer_rows_node; /* of the body: before it rows of layers are added; 0: it has none */
    uint32_t features;       /* of each step, besides what is done there (mnem/supports.h) */
    mnem_graph_args args;    /* what all runs of its graphs have in common */
    int cancel;              /* atomic */
    uint64_t identity;       /* of the model, atomic; 0: not asked for yet (saved/) */
    mnem_engine_stats stats;
    mnem_session session; /* of mnem_session_create */
};

/* What the layers of one kind of pages add up to. */
static inline const mnem__kv_need *mnem__engine_need(const mnem_engine *engine, int kind) {
    return &engine->tables.kind[kind].need;
}
/* Whether a sequence has a page of the kind for each page of its positions: layers need the kind,
 * and none forgets. */
static inline bool mnem__engine_keeps(const mnem_engine *engine, int kind) {
    const mnem__kv_need *need = mnem__engine_need(engine, kind);
    return need->pages > 0 && !need->forgets && !need->one;
}
static inline bool mnem__engine_has_states(const mnem_engine *engine) {
    return mnem__engine_need(engine, MNEM__KV_STATES)->pages > 0;
}
/* All tokens of the sequence [length]; where there are states. */
static inline int32_t *mnem__sequence_history(const mnem_sequence *sequence) {
    const mnem__engine_tables *t = &sequence->engine->tables;
    return t->history + (sequence - t->sequences) * (int64_t)sequence->engine->choice.context;
}
/* The kind whose pages know their tokens; below 0: none. */
static inline int mnem__engine_ids_kind(const mnem_engine *engine) {
    int kind = MNEM__KV_KINDS - 1;
    while (kind >= 0 && !mnem__engine_need(engine, kind)->ids) kind--;
    return kind;
}
/* Pages of a kind that tables may have, and those of them that are free: snapshots aside. */
static inline int32_t mnem__engine_pages_all(const mnem_engine *engine, int kind) {
    const int32_t all = engine->pages[kind].count;
    return kind == MNEM__KV_STATES ? all - engine->snapshots.most : all;
}
static inline int32_t mnem__engine_pages_free(const mnem_engine *engine, int kind) {
    return kind == MNEM__KV_STATES && engine->snapshots.most > 0
               ? mnem__snapshots_free(&engine->snapshots)
               : engine->pages[kind].free_count;
}
/* Positions of a page, of any kind. */
static inline int32_t mnem__engine_page_tokens(const mnem_engine *engine) {
    return engine->pages[0].layout.page_tokens;
}

#endif
