/* session_private.h: the session itself: what it took, and where everything of it is. */
#ifndef MNEM_SRC_ENGINE_SESSION_PRIVATE_H
#define MNEM_SRC_ENGINE_SESSION_PRIVATE_H

#include "engine/kv_pool.h"
#include "engine/session_parts.h"
#include "mnem/pool.h"

/* The session's tables, in one allocation with it. */
typedef struct mnem__session_tables {
    bool *resident;       /* [matrices] */
    int32_t *ids;         /* [chunk] */
    int32_t *positions;   /* [chunk] */
    mnem_kv_sequence *kv; /* [layers] */
    int32_t *pages;       /* [pages]: the sequence's */
    int32_t *free_pages;  /* [pages]: the pool's */
} mnem__session_tables;
/* Lays them out from base (NULL measures) and returns the bytes. */
uint64_t mnem__session_tables_lay_out(const mnem__setup *setup, const mnem__choice *choice,
                                      uint8_t *base, mnem__session_tables *tables);

struct mnem_session {
    const mnem_model *model;
    mnem_ledger *ledger;
    mnem_device *device;
    bool owns_device, can_run;
    mnem__transformer_map *map;
    mnem__graph_pair graphs;
    mnem__weights *weights;
    mnem_team *team;
    mnem__choice choice;
    int32_t logits_rows;
    mnem__parts parts;
    mnem_pool *blocks; /* where the parts' blocks come from */
    mnem_pool_block block[MNEM__PARTS];
    bool charged[MNEM__PARTS];
    mnem__session_tables tables;
    mnem_kv_layout kv;
    mnem__kv_pool pool;
    uint64_t row_bytes; /* of the embedding matrix in the file */
    void *external[MNEM__SLOTS];
    mnem_graph_weights source;
    int32_t length, pages_used; /* of the sequence */
    int cancel;                 /* atomic */
    mnem_session_stats stats;
};

#endif
