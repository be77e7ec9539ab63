/* exchange.c: adds gradients over ranks (reduce-scatter) and shares the results (all-gather), in
 * pieces of bounded memory.
 *
 * Idea: a rank's parts are a stream of pieces, the same on every rank: bucket after bucket from
 * the last to the first (the order in which gradients become ready), each cut into chunks. To
 * add, every rank sends each peer that peer's stream, directly from the numbers, and receives
 * its own from all peers into a ring of chunks; once the chunk at the head has arrived from all,
 * it is added in the order of ranks and freed. To share, a rank sends its own stream to all
 * peers and receives each peer's directly into place.
 *
 *     ring of rank 1    [ chunk 7: from 0, from 2 | chunk 8: from 0, from 2 | 9 ... | 10 ... ]
 *                         all there: x0 + own x1 + x2, into own
 *
 * Invariant: sums are ((x0 + x1) + x2) + ..., whatever the order of arrival; a later round adds
 * to the present sums in the same way, without ranks that have nothing more. At most WINDOW
 * messages are open from and to each peer. A waiting rank continues all its transfers, so that
 * ranks can't deadlock. Cost: each number is sent once by every rank except its owner, and
 * shared once; if the host can't access the numbers, messages use copies: a second ring, and for
 * sharing the first one. */
#include "train/ranks/exchange.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"

enum {
    WINDOW = 4,
    ROOM = 4 << 20,       /* bytes of the ring, unless there are many ranks */
    CHUNK_MOST = 1 << 16, /* numbers */
    CHUNK_LEAST = 1 << 12,
    CHANNEL_ADD = 0,
    CHANNEL_SHARE = 1,
    TILE = 1024,
    SPIN_NANOSECONDS =
        5000000, /* messages of a chunk take a while, and go on only while one looks */
    YIELD_NANOSECONDS = 100000,
    SLEEP_NANOSECONDS = 20000
};

/* A position in a rank's stream of pieces. */
typedef struct stream {
    int32_t owner, step; /* step: number of finished buckets */
    int64_t at;          /* finished numbers of this bucket */
} stream;

typedef struct piece {
    int32_t step;
    int64_t place, count;
} piece;

/* Messages to and from a peer. */
typedef struct lane {
    int32_t peer, rounds;
    stream out, in, placed;  /* for sharing: in: posted receives; placed: copied into place */
    int32_t of_send[WINDOW]; /* [message]: buckets sent before its own */
    int64_t sent, sent_done, posted, arrived;
    mnem_comm_request sends[WINDOW], receives[WINDOW];
} lane;

struct mnem__exchange {
    mnem_comm *comm;
    const mnem__ranks_cut *cut;
    mnem_team *team;
    mnem__exchange_what what;
    int32_t rank, peers, ready;
    int32_t round, rounds; /* the present round, and this rank's number of rounds */
    int64_t chunk;
    mnem__location at;
    float *data; /* the same numbers, accessible by the host if copies is NULL, and for adding */
    float *ring, *copies; /* [WINDOW][peers][chunk]; copies: of sent numbers */
    stream own;           /* position of adding */
    piece pieces[WINDOW];
    int64_t posted, added;
    double waited;
    lane lanes[];
};

/* ---- sizes ---- */

static int64_t chunk_of(int32_t peers) {
    const int64_t room = ROOM / ((int64_t)sizeof(float) * WINDOW * peers) / TILE * TILE;
    return room < CHUNK_LEAST ? CHUNK_LEAST : room > CHUNK_MOST ? CHUNK_MOST : room;
}

static uint64_t ring_at(int32_t peers) {
    return mnem__align_up(sizeof(mnem__exchange) + (uint64_t)peers * sizeof(lane), 64);
}

static uint64_t ring_numbers(int32_t peers) {
    return (uint64_t)WINDOW * (uint64_t)peers * (uint64_t)chunk_of(peers);
}

uint64_t mnem__exchange_bytes(int32_t ranks, bool apart) {
    const int32_t peers = ranks - 1;
    if (peers < 1) return 0;
    return ring_at(peers) + (apart ? 2 : 1) * ring_numbers(peers) * sizeof(float);
}

mnem__exchange *mnem__exchange_init(void *memory, mnem_comm *comm, const mnem__ranks_cut *cut,
                                    mnem_team *team, bool apart) {
    mnem__exchange *x = memory;
    const int32_t size = mnem_comm_size(comm), rank = mnem_comm_rank(comm);
    memset(x, 0, ring_at(size - 1));
    x->comm = comm;
    x->cut = cut;
    x->team = team;
    x->rank = rank;
    x->peers = size - 1;
    x->chunk = chunk_of(x->peers);
    x->ring = (float *)((uint8_t *)memory + ring_at(x->peers));
    x->copies = apart ? x->ring + ring_numbers(x->peers) : NULL;
    /* Each rank begins with the next one, so that not all address the same rank. */
    x->rounds = 1;
    for (int32_t k = 0; k < x->peers; k++) {
        x->lanes[k].peer = (rank + 1 + k) % size;
        x->lanes[k].rounds = 1;
    }
    return x;
}

void mnem__exchange_rounds_set(mnem__exchange *x, const int32_t *rounds) {
    x->rounds = rounds[x->rank];
    for (int32_t k = 0; k < x->peers; k++) x->lanes[k].rounds = rounds[x->lanes[k].peer];
}

/* ---- pieces ---- */

/* Gets the next piece of the first `ready` buckets. */
static bool next_piece(const mnem__exchange *x, stream *s, int32_t ready, piece *out) {
    for (; s->step < ready; s->step++, s->at = 0) {
        const int64_t row = x->cut->buckets - 1 - s->step;
        const int64_t *bound = x->cut->bound + row * (x->cut->ranks + 1) + s->owner;
        const int64_t left = bound[1] - bound[0] - s->at;
        if (left <= 0) continue;
        *out = (piece){s->step, bound[0] + s->at, left < x->chunk ? left : x->chunk};
        s->at += out->count;
        return true;
    }
    return false;
}

static int32_t bucket_of(const mnem__exchange *x, const piece *p) {
    return x->cut->buckets - 1 - p->step;
}

/* The index of this rank's own numbers for a piece that is added. */
static int64_t local_of(const mnem__exchange *x, const piece *p) {
    return p->place - x->cut->local[bucket_of(x, p)];
}

/* Whether a rank has something for this round. */
static bool takes_part(const mnem__exchange *x, int32_t rounds) {
    return x->what != MNEM__EXCHANGE_ADD || x->round < rounds;
}

static int64_t slot_of(const mnem__exchange *x, int64_t number, int64_t k) {
    return ((number % WINDOW) * x->peers + k) * x->chunk;
}

static mnem__location place_at(const mnem__exchange *x, int64_t number) {
    return mnem__location_at(x->at, (uint64_t)number * sizeof(float));
}

/* ---- sending ---- */

/* Gets the source of the next message: the numbers themselves, or a copy. */
static mnem_status message_of(const mnem__exchange *x, const lane *l, int64_t number, size_t bytes,
                              const void **from) {
    float *copy = x->copies ? x->copies + slot_of(x, l->sent, l - x->lanes) : NULL;
    return mnem__location_get(place_at(x, number), copy, bytes, from);
}

static mnem_status move_sends(mnem__exchange *x, lane *l, bool *moved) {
    const bool adds = x->what == MNEM__EXCHANGE_ADD;
    const int32_t channel = adds ? CHANNEL_ADD : CHANNEL_SHARE;
    bool done = true;
    piece p;
    while (l->sent_done < l->sent) {
        MNEM__TRY(mnem_comm_test(x->comm, &l->sends[l->sent_done % WINDOW], &done));
        if (!done) break;
        l->sent_done++;
        *moved = true;
    }
    while (l->sent - l->sent_done < WINDOW && next_piece(x, &l->out, x->ready, &p)) {
        const size_t bytes = (size_t)p.count * sizeof(float);
        const void *from;
        MNEM__TRY(message_of(x, l, adds ? local_of(x, &p) : p.place, bytes, &from));
        MNEM__TRY(
            mnem_comm_send(x->comm, l->peer, channel, from, bytes, &l->sends[l->sent % WINDOW]));
        l->of_send[l->sent++ % WINDOW] = p.step;
        *moved = true;
    }
    return MNEM_OK;
}

/* ---- sharing ---- */

/* Copies the oldest arrived message into place. */
static mnem_status place_shared(mnem__exchange *x, lane *l) {
    piece p;
    if (!x->copies || !next_piece(x, &l->placed, x->cut->buckets, &p)) return MNEM_OK;
    return mnem__location_write(place_at(x, p.place),
                                x->ring + slot_of(x, l->arrived, l - x->lanes),
                                (size_t)p.count * sizeof(float));
}

static mnem_status move_shared(mnem__exchange *x, lane *l, bool *moved) {
    bool done = true;
    piece p;
    while (l->arrived < l->posted) {
        MNEM__TRY(mnem_comm_test(x->comm, &l->receives[l->arrived % WINDOW], &done));
        if (!done) break;
        MNEM__TRY(place_shared(x, l));
        l->arrived++;
        *moved = true;
    }
    while (l->posted - l->arrived < WINDOW && next_piece(x, &l->in, x->cut->buckets, &p)) {
        float *to = x->copies ? x->ring + slot_of(x, l->posted, l - x->lanes) : x->data + p.place;
        MNEM__TRY(mnem_comm_post(x->comm, l->peer, CHANNEL_SHARE, to,
                                 (size_t)p.count * sizeof(float),
                                 &l->receives[l->posted % WINDOW]));
        l->posted++;
        *moved = true;
    }
    return MNEM_OK;
}

/* ---- adding ---- */

/* A rank's numbers of the chunk that is added; NULL: none. Peers are counted from the next rank. */
static const float *numbers_of(const mnem__exchange *x, const piece *p, int32_t rank) {
    const int32_t k = (rank - x->rank - 1 + x->peers + 1) % (x->peers + 1);
    if (rank == x->rank) return takes_part(x, x->rounds) ? x->data + local_of(x, p) : NULL;
    return takes_part(x, x->lanes[k].rounds) ? x->ring + slot_of(x, x->added, k) : NULL;
}

/* Adds in tiles that stay in the cache over all ranks. */
static void add(const mnem_worker *worker, void *context) {
    const mnem__exchange *x = context;
    const piece *p = &x->pieces[x->added % WINDOW];
    int64_t begin, end;
    mnem_team_split(worker, p->count, TILE, &begin, &end);
    for (int64_t at = begin, n; at < end; at += n) {
        float sum[TILE];
        float *own = x->data + (p->place - x->cut->own[bucket_of(x, p)]) + at;
        bool begun = x->round > 0;
        n = end - at < TILE ? end - at : TILE;
        if (begun) memcpy(sum, own, (size_t)n * sizeof *sum);
        for (int32_t rank = 0; rank <= x->peers; rank++) {
            const float *from = numbers_of(x, p, rank);
            if (!from) continue;
            if (!begun)
                memcpy(sum, from + at, (size_t)n * sizeof *sum);
            else
                for (int64_t i = 0; i < n; i++) sum[i] += from[at + i];
            begun = true;
        }
        memcpy(own, sum, (size_t)n * sizeof *sum);
    }
}

static mnem_status post_own(mnem__exchange *x, bool *moved) {
    piece p;
    while (x->posted - x->added < WINDOW && next_piece(x, &x->own, x->cut->buckets, &p)) {
        for (int32_t k = 0; k < x->peers; k++) {
            lane *l = &x->lanes[k];
            if (!takes_part(x, l->rounds)) continue;
            MNEM__TRY(
                mnem_comm_post(x->comm, l->peer, CHANNEL_ADD, x->ring + slot_of(x, x->posted, k),
                               (size_t)p.count * sizeof(float), &l->receives[x->posted % WINDOW]));
        }
        x->pieces[x->posted++ % WINDOW] = p;
        *moved = true;
    }
    return MNEM_OK;
}

static mnem_status move_added(mnem__exchange *x, bool *moved) {
    MNEM__TRY(post_own(x, moved));
    while (x->added < x->posted && x->pieces[x->added % WINDOW].step < x->ready) {
        bool done = true;
        for (int32_t k = 0; k < x->peers && done; k++) {
            lane *l = &x->lanes[k];
            if (!takes_part(x, l->rounds)) continue;
            MNEM__TRY(mnem_comm_test(x->comm, &l->receives[x->added % WINDOW], &done));
        }
        if (!done) break;
        MNEM__TRY(mnem__device_enter(x->at.device));
        mnem_team_run(x->team, add, x);
        mnem__device_leave(x->at.device);
        x->added++;
        *moved = true;
        MNEM__TRY(post_own(x, moved));
    }
    return MNEM_OK;
}

/* ---- all of it ---- */

void mnem__exchange_begin(mnem__exchange *x, mnem__location data, mnem__exchange_what what,
                          int32_t round) {
    x->what = what;
    x->round = round;
    x->at = data;
    x->data = mnem__location_bind(data);
    x->ready = 0;
    x->own = (stream){.owner = x->rank};
    x->posted = x->added = 0;
    for (int32_t k = 0; k < x->peers; k++) {
        lane *l = &x->lanes[k];
        l->out = (stream){.owner = what == MNEM__EXCHANGE_ADD ? l->peer : x->rank};
        l->in = l->placed = (stream){.owner = l->peer};
        if (!takes_part(x, x->rounds)) l->out.step = x->cut->buckets;
        l->sent = l->sent_done = l->posted = l->arrived = 0;
    }
}

void mnem__exchange_ready(mnem__exchange *x, int32_t buckets) {
    x->ready = buckets;
}

static mnem_status move_all(mnem__exchange *x, bool *moved) {
    const bool adds = x->what == MNEM__EXCHANGE_ADD;
    *moved = false;
    for (int32_t k = 0; k < x->peers; k++) {
        MNEM__TRY(move_sends(x, &x->lanes[k], moved));
        if (!adds) MNEM__TRY(move_shared(x, &x->lanes[k], moved));
    }
    return adds ? move_added(x, moved) : MNEM_OK;
}

static mnem_status move(mnem__exchange *x, bool *moved) {
    return mnem__ranks_end(x->comm, move_all(x, moved));
}

/* Whether so many buckets, counted from the last, are finished. */
static bool is_done(const mnem__exchange *x, int32_t buckets) {
    const bool adds = x->what == MNEM__EXCHANGE_ADD;
    for (int32_t k = 0; k < x->peers; k++) {
        const lane *l = &x->lanes[k];
        if (l->out.step < buckets) return false;
        if (l->sent_done < l->sent && l->of_send[l->sent_done % WINDOW] < buckets) return false;
        if (!adds && (l->in.step < buckets || l->arrived < l->posted)) return false;
    }
    if (!adds) return true;
    return (x->added < x->posted ? x->pieces[x->added % WINDOW].step : x->own.step) >= buckets;
}

mnem_status mnem__exchange_poll(mnem__exchange *x) {
    bool moved;
    return move(x, &moved);
}

/* Polls for a short time, then yields between polls, then sleeps. */
mnem_status mnem__exchange_wait(mnem__exchange *x, int32_t buckets) {
    const double begin = mnem__seconds();
    double last = begin;
    for (bool moved;;) {
        MNEM__TRY(move(x, &moved));
        if (is_done(x, buckets)) break;
        const double now = mnem__seconds();
        if (moved)
            last = now;
        else if (now - last > 1e-9 * SPIN_NANOSECONDS)
            nanosleep(&(struct timespec){0, SLEEP_NANOSECONDS}, NULL);
        else if (now - last > 1e-9 * YIELD_NANOSECONDS)
            sched_yield();
    }
    x->waited += mnem__seconds() - begin;
    return MNEM_OK;
}

mnem_status mnem__exchange_end(mnem__exchange *x) {
    mnem__exchange_ready(x, x->cut->buckets);
    return mnem__exchange_wait(x, x->cut->buckets);
}

void mnem__exchange_let_go(mnem__exchange *x) {
    const char *text = mnem_comm_failure(x->comm);
    bool open = text || x->added < x->posted;
    for (int32_t k = 0; k < x->peers; k++) {
        const lane *l = &x->lanes[k];
        open = open || l->sent_done < l->sent || l->arrived < l->posted;
    }
    if (open) mnem_comm_abort(x->comm, text ? text : "its trainer was destroyed");
}

double mnem__exchange_waited(const mnem__exchange *x) {
    return x->waited;
}

uint8_t *mnem__exchange_scratch(mnem__exchange *x, uint64_t *bytes) {
    *bytes = (uint64_t)WINDOW * (uint64_t)x->peers * (uint64_t)x->chunk * sizeof(float);
    return (uint8_t *)x->ring;
}

/* ---- words ---- */

mnem_status mnem__ranks_end(mnem_comm *comm, mnem_status status) {
    if (status != MNEM_OK) mnem_comm_abort(comm, mnem_last_error());
    return status;
}

mnem_status mnem__ranks_agree(mnem_comm *comm, mnem_status status) {
    /* Not on the stack: a failing rank leaves receives open. */
    static _Thread_local int32_t all[MNEM_COMM_RANKS_MAX];
    static _Thread_local char text[MNEM_COMM_TEXT_MAX];
    size_t begin[MNEM_COMM_RANKS_MAX + 1];
    if (!comm || mnem_comm_size(comm) == 1) return status;
    const int32_t size = mnem_comm_size(comm), me = mnem_comm_rank(comm);
    snprintf(text, sizeof text, "%s", status == MNEM_OK ? "" : mnem_last_error());
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i * sizeof *all;
    all[me] = (int32_t)status;
    MNEM__TRY(mnem_comm_gather(comm, all, begin));
    int32_t first = 0;
    while (first < size && all[first] == MNEM_OK) first++;
    if (first == size) return MNEM_OK;
    for (int32_t i = 0; i <= size; i++) begin[i] = i > first ? sizeof text : 0;
    MNEM__TRY(mnem_comm_gather(comm, text, begin));
    text[sizeof text - 1] = 0;
    bool alike = all[first] != MNEM_OVER_BUDGET; /* each rank has its own budget */
    for (int32_t i = 0; i < size; i++) alike = alike && all[i] == all[first];
    if (alike) return mnem__fail((mnem_status)all[first], "%s", text);
    return mnem__fail((mnem_status)all[first], "rank %d: %s", first, text);
}
