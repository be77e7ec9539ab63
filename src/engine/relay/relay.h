/* relay.h: what the ranks that run one model tell each other while it runs.
 *
 *     rank 0    order ──────────┬───────────────┐            orders: what runs, the same for all
 *               embedding, 0..k │               │
 *                 states ──► rank 1, k..m       │            states: hidden rows, to the next rank
 *                                 states ──► rank 2, m..L
 *               logits ◄──────────────────── head            logits: to rank 0
 *
 * Rank 0 decides: it steps as an engine alone does, and tells each pass, and what is done to
 * sequences, to the others before it does its own part. They do the same to sequences and pages of
 * their own, in the same order, so that all books are the same on every rank.
 * States are received into memory of their own while the pass before them runs, so that ranks work
 * on several chunks of a prompt at once, and on steps of other sequences while logits are awaited;
 * nothing else waits for more than it needs. As many orders are under way as ranks can be behind.
 * Nothing here knows an engine; nothing is allocated. */
#ifndef MNEM_SRC_ENGINE_RELAY_RELAY_H
#define MNEM_SRC_ENGINE_RELAY_RELAY_H

#include "engine/pages/kept.h"
#include "engine/relay/relay_gather.h"

/* An order is op, a, b, c; a pass has segments and ids behind them. What is done to pages that are
 * set aside is another layer's (serve/swap_ranks.h): its function is called for those orders. */
typedef enum mnem__relay_op {
    MNEM__RELAY_PASS = 1, /* a: segments, b: rows */
    MNEM__RELAY_HIDDEN,   /* the same, whose hidden rows are wanted, not logits */
    MNEM__RELAY_CREATE,   /* the first sequence that isn't open */
    MNEM__RELAY_FORK,     /* the first n of one: a: sequence, b: n */
    MNEM__RELAY_TRUNCATE, /* a: sequence, b: n */
    MNEM__RELAY_DESTROY,  /* a: sequence */
    MNEM__RELAY_SNAPSHOT, /* of its states, where it is now: a: sequence, b: whether asked for */
    MNEM__RELAY_DOUBT,    /* a pass failed, before which b tokens were ready: a: sequence, b */
    MNEM__RELAY_END,
    MNEM__RELAY_SWAP_OPEN,     /* a file for pages; is answered */
    MNEM__RELAY_SWAP_WRITE,    /* a: sequence, b: its place in the file, c: a number of its own */
    MNEM__RELAY_SWAP_READ,     /* a: sequence, b: place */
    MNEM__RELAY_SWAP_READ_END, /* a: sequence, b: place, c: whether all ranks could read */
    MNEM__RELAY_SWAP_DONE,     /* b: place, what was begun there last is waited for; is answered */
    MNEM__RELAY_SWAP_DROP      /* b: place */
} mnem__relay_op;
enum { MNEM__RELAY_HEAD = 4 };

/* A segment of a pass: so many rows of one sequence, logits wanted of the last ones. */
typedef struct mnem__relay_segment {
    int32_t sequence, rows, wanted;
} mnem__relay_segment;

/* What another rank answers to an order that asks. */
typedef struct mnem__relay_answer {
    int32_t status;
    char text[220]; /* of a failure */
    double seconds;
    uint64_t bytes[MNEM__KV_KINDS]; /* of a page, by kind */
} mnem__relay_answer;
_Static_assert(sizeof(mnem__relay_answer) == 256, "no holes");

enum { MNEM__RELAY_ORDERS_MAX = 16, MNEM__RELAY_AHEAD_MAX = 8 };
typedef struct mnem__relay {
    mnem_comm *comm; /* NULL: the engine is alone, and nothing below is */
    int32_t rank, size;
    size_t order_bytes; /* room of one */
    int orders;
    int32_t *order[MNEM__RELAY_ORDERS_MAX];
    float *states;               /* those of the next pass; rank 0: NULL */
    size_t states_bytes;         /* room of them */
    mnem_comm_request *requests; /* [orders][size]; others than rank 0 use the first of each */
    mnem_comm_request *asked;    /* [size] */
    mnem__relay_answer *answers; /* [size]; others than rank 0 have their own in the first */
    mnem_comm_request in, out, logits;
    int at;                            /* the order that is next */
    bool open[MNEM__RELAY_ORDERS_MAX]; /* under way */
    bool out_open, logits_open, answer_open;
    bool together; /* every rank has a part of all layers: no states go from one to the next */
    mnem__gather gather;
} mnem__relay;

typedef struct mnem__relay_shape {
    int32_t rank, size, sequences, chunk, embd;
    uint64_t
        gather_bytes; /* of the widest row that is gathered (relay_gather.h); 0: ranks have layers,
                              which hidden rows go through */
    const mnem__gather_member *mine; /* where there is such a row; only for start, as the next */
    mnem_device *device;             /* mnem__gather's */
} mnem__relay_shape;
/* Of the block that it works in, and of the requests. */
uint64_t mnem__relay_block_bytes(const mnem__relay_shape *shape);
uint64_t mnem__relay_requests(const mnem__relay_shape *shape);
/* Takes comm, block (64-byte aligned) and requests; posts what a rank receives first. */
mnem_status mnem__relay_start(mnem__relay *relay, mnem_comm *comm, const mnem__relay_shape *shape,
                              void *block, mnem_comm_request *requests);
/* Passes whose logits may be awaited at once: one for each rank. */
static inline int32_t mnem__relay_ahead(int32_t size) {
    return size < MNEM__RELAY_AHEAD_MAX ? size : MNEM__RELAY_AHEAD_MAX;
}
static inline bool mnem__relay_leads(const mnem__relay *relay) {
    return relay->comm && relay->rank == 0;
}
static inline bool mnem__relay_first(const mnem__relay *relay) {
    return !relay->comm || relay->rank == 0;
}
static inline bool mnem__relay_last(const mnem__relay *relay) {
    return !relay->comm || relay->rank == relay->size - 1;
}
/* Whether hidden rows come from another rank, go to one. */
static inline bool mnem__relay_receives(const mnem__relay *relay) {
    return !mnem__relay_first(relay) && !relay->together;
}
static inline bool mnem__relay_sends(const mnem__relay *relay) {
    return !mnem__relay_last(relay) && !relay->together;
}

/* ---- orders ---- */

/* Of rank 0, to all others; nothing on another rank, or alone. */
mnem_status mnem__relay_tell(mnem__relay *relay, mnem__relay_op op, int32_t a, int32_t b,
                             int32_t c);
/* A pass: where its segments are written, [sequences]; then it is told, with ids [rows]. */
mnem_status mnem__relay_segments(mnem__relay *relay, mnem__relay_segment **segments);
mnem_status mnem__relay_tell_pass(mnem__relay *relay, int32_t count, const int32_t *ids,
                                  int32_t rows, bool hidden);
/* Tells that nothing follows, on rank 0; on others: was told so. Nothing is under way then. */
mnem_status mnem__relay_end(mnem__relay *relay);
/* Where it hasn't ended so: the ranks fail, and what is under way is let go; memory may go. */
void mnem__relay_let_go(mnem__relay *relay);
/* Of the others: the next order, until mnem__relay_done. */
mnem_status mnem__relay_next(mnem__relay *relay, const int32_t **order);
mnem_status mnem__relay_done(mnem__relay *relay);
static inline const mnem__relay_segment *mnem__relay_order_segments(const int32_t *order) {
    return (const mnem__relay_segment *)(const void *)(order + MNEM__RELAY_HEAD);
}
static inline const int32_t *mnem__relay_order_ids(const int32_t *order) {
    return order + MNEM__RELAY_HEAD + order[1] * (int32_t)(sizeof(mnem__relay_segment) / 4);
}

/* ---- answers ---- */

/* Of rank 0: tells an order that every other rank answers; nothing else is asked until they
 * have. */
mnem_status mnem__relay_ask(mnem__relay *relay, mnem__relay_op op, int32_t a, int32_t b);
/* *done: all have, wait: until they have; a rank's answer is in relay->answers then. */
mnem_status mnem__relay_asked(mnem__relay *relay, bool wait, bool *done);
/* Of the others; copied. */
mnem_status mnem__relay_answer_send(mnem__relay *relay, const mnem__relay_answer *answer);

/* ---- a pass ---- */

/* Hidden rows [rows, embd] from the rank before; *stopped: it ended the pass, there are none. */
mnem_status mnem__relay_receive(mnem__relay *relay, float *hidden, int32_t rows, int32_t embd,
                                bool *stopped);
/* To the next rank; hidden stays as it is until mnem__relay_sent. rows 0: the pass was stopped. */
mnem_status mnem__relay_send(mnem__relay *relay, const float *hidden, int32_t rows, int32_t embd);
mnem_status mnem__relay_sent(mnem__relay *relay);
/* From the last rank to rank 0, or hidden rows in their place; they stay as they are until
 * mnem__relay_logits_sent. */
mnem_status mnem__relay_logits_send(mnem__relay *relay, const float *logits, size_t bytes);
mnem_status mnem__relay_logits_sent(mnem__relay *relay);
mnem_status mnem__relay_logits_receive(mnem__relay *relay, float *logits, size_t bytes);
/* The same for later: until it is waited for the request and logits stay where they are. */
mnem_status mnem__relay_logits_post(mnem__relay *relay, float *logits, size_t bytes,
                                    mnem_comm_request *request);
mnem_status mnem__relay_logits_wait(mnem__relay *relay, mnem_comm_request *request, size_t bytes);

#endif
