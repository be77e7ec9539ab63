/* cache_file.c: cached prefixes in a file, for the next time.
 *
 *     header | a row for each beginning: tree, place, parent, from; a scale for each adapter
 *            | saves (saved.h), one by one
 *
 * Idea: pages that two beginnings share are written once: a save begins after the pages that an
 * earlier row's sequence has, too, and is loaded after a fork of that sequence. The header is
 * written last, so an incomplete file is refused. The saves and the rows have checksums; ids are
 * checked as those of requests are.
 * States of recurrent layers that are only in the swap file are copied from there, and loaded ones
 * without room in memory are copied into it. In a file of limited size every prefix comes before
 * the snapshots of any, since a prefix without its snapshots only loses the tokens behind one.
 * Cost: the bytes of pages and states, once. */
#include <string.h>

#include "base/checked.h"
#include "base/file/checksum.h"
#include "base/minmax.h"
#include "engine/saved/saved_private.h"
#include "mnem/supports.h"
#include "serve/serve_private.h"

#define MAGIC 0x314843434d454e4du /* "MNEMCCH1" */
enum { ALIGNMENT = 4096 };

typedef struct header {
    uint64_t magic;
    uint32_t count, adapters; /* of rows; of each row's scales */
    uint64_t checksum;        /* of the rows */
} header;

typedef struct row {
    uint64_t tree, at;
    int32_t parent, from, length, kept; /* parent: an earlier row; below 0: none */
} row;

static uint64_t scales_bytes(const mnem_scheduler *s) {
    return (uint64_t)mnem_engine_adapter_count(s->engine) * sizeof(float);
}

static uint64_t row_at(const mnem_scheduler *s, uint64_t index) {
    return sizeof(header) + index * (sizeof(row) + mnem__align_up(scales_bytes(s), 8));
}

/* ---- out ---- */

/* Cuts off what would run again from an earlier state. The state itself may be a snapshot in the
 * swap file, from where a save copies it. false: the lane has no state. */
static bool cut_to_state(const mnem_scheduler *s, mnem__lane *lane) {
    mnem_sequence *of = lane->sequence;
    if (!mnem__engine_has_states(s->engine)) return true;
    const int32_t length = mnem_sequence_length(of), ready = mnem__sequence_ready(of, length);
    if (ready == 0) return false;
    if (ready < length && mnem__sequence_truncate_away(of, ready) != MNEM_OK) return false;
    lane->count = ready;
    lane->kept = mnem__min_i32(lane->kept, ready);
    return true;
}

/* Cached lanes into order, what was needed last first. */
static int32_t sort_lanes(mnem_scheduler *s) {
    int32_t count = 0;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        int32_t at = count;
        if (lane->state != MNEM__LANE_CACHED) continue;
        for (; at > 0 && lane->used > s->order[at - 1]->used; at--) s->order[at] = s->order[at - 1];
        s->order[at] = lane;
        count++;
    }
    return count;
}

/* Of their first most pages those that both tables begin with. */
static int32_t alike(const mnem__kv_table *a, const mnem__kv_table *b, int32_t most) {
    int32_t n = 0;
    while (n < most && a->page[n] == b->page[n]) n++;
    return n;
}

/* Tokens in whole pages that both sequences begin with, less than all of a. Where a save may join
 * the pages of others, and only there: no kind forgets. */
static int32_t shared_tokens(const mnem_scheduler *s, const mnem__lane *a, const mnem__lane *b) {
    const int32_t whole = (mnem__lane_length(a) - 1) / s->pages.tokens;
    int32_t n = mnem__min_i32(whole, mnem__lane_length(b) / s->pages.tokens);
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        if (s->engine->pages[k].count) n = alike(&a->sequence->table[k], &b->sequence->table[k], n);
    return n * s->pages.tokens;
}

static row row_of(const mnem_scheduler *s, int32_t index, uint64_t at) {
    const mnem__lane *lane = s->order[index];
    row r = {.tree = lane->tree,
             .at = at,
             .parent = -1,
             .length = mnem__lane_length(lane),
             .kept = lane->kept};
    for (int32_t i = 0; i < index && mnem__saved_joins(s->engine); i++) {
        const int32_t n = shared_tokens(s, lane, s->order[i]);
        if (n > r.from) r.from = n, r.parent = i;
    }
    return r;
}

static mnem_status write_row(const mnem_scheduler *s, uint64_t index, const row *r, int fd,
                             mnem__checksum *sum) {
    const float *scales = mnem__sequence_scales(s->order[index]->sequence);
    mnem__checksum_add(sum, r, sizeof *r);
    MNEM__TRY(mnem__saved_write(fd, row_at(s, index), r, sizeof *r));
    if (scales_bytes(s) == 0) return MNEM_OK;
    mnem__checksum_add(sum, scales, scales_bytes(s));
    return mnem__saved_write(fd, row_at(s, index) + sizeof *r, scales, scales_bytes(s));
}

/* A file of saves while it is written. */
typedef struct writer {
    int fd;
    int32_t rows;
    uint64_t at, bytes_most;
    uint64_t later; /* bytes of the lanes that follow, without snapshots */
    mnem__checksum sum;
} writer;

/* The bytes of a lane's save without snapshots. */
static uint64_t least_bytes(const mnem__lane *lane) {
    return mnem__align_up(mnem__sequence_save_bytes(lane->sequence, 0, 0), ALIGNMENT);
}

/* Saves the lane as the next row, with as many snapshots as leave room for the lanes that follow.
 * MNEM_OVER_BUDGET: not even without them. MNEM_NOT_READY: its state could not be read, and the
 * lane has an earlier one or none now. */
static mnem_status save_lane(mnem_scheduler *s, writer *w, mnem__lane *lane) {
    MNEM__TRY(mnem__engine_supports(s->engine, MNEM_FEATURE_SAVED));
    s->order[w->rows] = lane;
    const row r = row_of(s, w->rows, w->at);
    const uint64_t room = w->bytes_most > w->at ? w->bytes_most - w->at : 0;
    int32_t most =
        mnem__sequence_save_most(lane->sequence, r.from, room > w->later ? room - w->later : 0);
    if (most < 0) most = mnem__sequence_save_most(lane->sequence, r.from, room) < 0 ? -1 : 0;
    if (most < 0) return MNEM_OVER_BUDGET;
    const uint64_t ids = mnem__checksum_of(lane->ids, (size_t)lane->count * sizeof *lane->ids);
    MNEM__TRY(mnem__sequence_save(lane->sequence, lane->ids, ids, r.from, most, w->fd, w->at));
    MNEM__TRY(write_row(s, (uint64_t)w->rows, &r, w->fd, &w->sum));
    w->at =
        mnem__align_up(w->at + mnem__sequence_save_bytes(lane->sequence, r.from, most), ALIGNMENT);
    w->rows++;
    return MNEM_OK;
}

/* The first count lanes of the order without those that can't be saved; returns their number. */
static int32_t cut_lanes(mnem_scheduler *s, int32_t count, uint64_t *bytes) {
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!cut_to_state(s, s->order[i])) continue;
        s->order[kept++] = s->order[i];
        *bytes += least_bytes(s->order[i]);
    }
    return kept;
}

/* Saves the first count lanes of the order; *rows: those of them that the file has. */
static mnem_status save_lanes(mnem_scheduler *s, int32_t count, int fd, uint64_t bytes_most,
                              uint64_t *file_end, int32_t *rows) {
    writer w = {.fd = fd, .bytes_most = bytes_most};
    mnem__checksum_init(&w.sum);
    count = cut_lanes(s, count, &w.later);
    w.at = mnem__align_up(row_at(s, (uint64_t)count), ALIGNMENT);
    for (int32_t i = 0; i < count; i++) {
        mnem__lane *lane = s->order[i];
        mnem_status status;
        w.later -= least_bytes(lane);
        do {
            status = save_lane(s, &w, lane);
        } while (status == MNEM_NOT_READY && cut_to_state(s, lane));
        if (status == MNEM_OVER_BUDGET) break;
        if (status != MNEM_NOT_READY) MNEM__TRY(status);
    }
    const header h = {.magic = MAGIC,
                      .count = (uint32_t)w.rows,
                      .adapters = (uint32_t)mnem_engine_adapter_count(s->engine),
                      .checksum = mnem__checksum_get(&w.sum)};
    *file_end = w.at;
    *rows = w.rows;
    return mnem__saved_write(fd, 0, &h, sizeof h);
}

mnem_status mnem__cache_save(mnem_scheduler *s, int fd, uint64_t bytes_most, uint64_t *file_end) {
    int32_t rows;
    return save_lanes(s, sort_lanes(s), fd, bytes_most, file_end, &rows);
}

mnem_status mnem_scheduler_cache_save(mnem_scheduler *s, int fd) {
    uint64_t end;
    return mnem__cache_save(s, fd, UINT64_MAX, &end);
}

mnem_status mnem_scheduler_cache_save_within(mnem_scheduler *s, int fd, uint64_t bytes_most,
                                             uint64_t *bytes) {
    return mnem__cache_save(s, fd, bytes_most, bytes);
}

/* ---- in ---- */

static mnem_status bad(const char *what) {
    return mnem__fail(MNEM_BAD_FILE, "serve: %s", what);
}

/* Adds the scales of a row to the checksum, a few at a time. */
static mnem_status add_scales(const mnem_scheduler *s, int fd, uint64_t index,
                              mnem__checksum *sum) {
    const uint64_t at = row_at(s, index) + sizeof(row), all = scales_bytes(s);
    float some[64];
    for (uint64_t done = 0, n; done < all; done += n) {
        n = mnem__min_u64(sizeof some, all - done);
        MNEM__TRY(mnem__saved_read(fd, at + done, some, n));
        mnem__checksum_add(sum, some, n);
    }
    return MNEM_OK;
}

static mnem_status read_header(const mnem_scheduler *s, int fd, header *h) {
    mnem__checksum sum;
    row r;
    MNEM__TRY(mnem__saved_read(fd, 0, h, sizeof *h));
    if (h->magic != MAGIC || h->count > INT32_MAX)
        return bad(
            "the file is not a saved prefix cache, or its writing was interrupted; delete it");
    if (h->adapters != (uint32_t)mnem_engine_adapter_count(s->engine))
        return mnem__fail(MNEM_INVALID,
                          "serve: the prefix cache was saved with %u adapters, but this server has "
                          "%d; use the same ones, or delete the file",
                          h->adapters, mnem_engine_adapter_count(s->engine));
    mnem__checksum_init(&sum);
    for (uint64_t i = 0; i < h->count; i++) {
        MNEM__TRY(mnem__saved_read(fd, row_at(s, i), &r, sizeof r));
        mnem__checksum_add(&sum, &r, sizeof r);
        MNEM__TRY(add_scales(s, fd, i, &sum));
        if (r.parent >= (int64_t)i || r.length < 1 || r.from < 0 || r.from >= r.length ||
            r.kept < 0 || r.kept > r.length || r.from % s->pages.tokens)
            return bad("the file of the prefix cache has an invalid row in its table: it is "
                       "damaged, or was saved with pages of another size; delete it");
    }
    return mnem__checksum_get(&sum) == h->checksum
               ? MNEM_OK
               : bad("the file of the prefix cache is damaged (a checksum differs); delete it");
}

/* The ids of a save that was opened, into the lane. */
static mnem_status read_ids(const mnem_scheduler *s, const mnem_saved *saved, mnem__lane *lane) {
    const size_t bytes = (size_t)saved->length * sizeof *lane->ids;
    MNEM__TRY(
        mnem__saved_read(saved->fd, saved->offset + sizeof(mnem__saved_header), lane->ids, bytes));
    if (mnem__checksum_of(lane->ids, bytes) != saved->ids_checksum)
        return bad("the file of the prefix cache is damaged (a checksum differs); delete it");
    for (int32_t i = 0; i < saved->length; i++)
        if (lane->ids[i] < 0 || lane->ids[i] >= s->vocab)
            return bad("the file of the prefix cache has token ids that this model lacks: it was "
                       "made with another model; delete it");
    return MNEM_OK;
}

/* Loads the save into the lane's sequence, after the part that it shares with the parent. */
static mnem_status fill_lane(mnem_scheduler *s, const row *r, const mnem_saved *saved,
                             mnem__lane *lane) {
    const mnem__lane *parent = r->parent < 0 ? NULL : s->order[r->parent];
    if (saved->length > s->context)
        return bad("the prefix cache has a sequence that is longer than this context; use the "
                   "context with which it was saved, or delete the file");
    if (saved->from != r->from || saved->length != r->length)
        return bad("the file of the prefix cache is damaged (a saved sequence has another range of "
                   "tokens than its row in the table); delete it");
    MNEM__TRY(read_ids(s, saved, lane));
    if (!parent && r->from > 0)
        return bad("the file of the prefix cache is damaged (the start of a cached prefix is "
                   "missing); delete it");
    if (parent && (mnem__lane_length(parent) < r->from ||
                   memcmp(parent->ids, lane->ids, (size_t)r->from * sizeof *lane->ids) != 0))
        return bad("the file of the prefix cache is damaged (a cached prefix does not begin with "
                   "the shorter prefix that its row names); delete it");
    return mnem_sequence_load(lane->sequence, saved, r->length);
}

/* Opens the lane's sequence as a fork of the parent, or with the row's scales; loads the rest. */
static mnem_status open_lane(mnem_scheduler *s, int fd, uint64_t index, const row *r,
                             mnem__lane *lane) {
    const mnem__lane *parent = r->parent < 0 ? NULL : s->order[r->parent];
    const bool forks = parent && r->from <= mnem__lane_length(parent);
    mnem_saved saved;
    MNEM__TRY(forks ? mnem_sequence_fork(parent->sequence, r->from, &lane->sequence)
                    : mnem_sequence_create(s->engine, &lane->sequence));
    float *scales = mnem__sequence_scales(lane->sequence);
    if (!forks && scales_bytes(s) > 0)
        MNEM__TRY(mnem__saved_read(fd, row_at(s, index) + sizeof *r, scales, scales_bytes(s)));
    MNEM__TRY(mnem__adapters_check(s->engine, scales));
    MNEM__TRY(mnem_saved_open(s->engine, fd, r->at, &saved));
    return fill_lane(s, r, &saved, lane);
}

/* Frees a live state for the next row, if it needs one: the state of a row that was needed earlier
 * moves to the swap file, if there is one. */
static void put_away_states(mnem_scheduler *s, uint64_t rows) {
    mnem_engine *e = s->engine;
    for (uint64_t i = rows; i-- > 0 && mnem__engine_has_states(e);) {
        mnem_sequence *of = s->order[i]->sequence;
        const mnem__kv_table *t = &of->table[MNEM__KV_STATES];
        if (mnem__engine_pages_free(e, MNEM__KV_STATES) > 0) return;
        if (t->used && e->pages[MNEM__KV_STATES].references[t->page[0]] == 1)
            (void)mnem__sequence_put_away(of);
    }
}

static mnem_status load_row(mnem_scheduler *s, int fd, uint64_t index) {
    row r;
    mnem__lane *lane = NULL;
    for (int32_t i = 0; i < s->lanes && !lane; i++)
        if (s->lane[i].state == MNEM__LANE_FREE) lane = &s->lane[i];
    if (!lane || index >= (uint64_t)s->lanes) return MNEM_OVER_BUDGET;
    MNEM__TRY(mnem__saved_read(fd, row_at(s, index), &r, sizeof r));
    put_away_states(s, index);
    const mnem_status status = open_lane(s, fd, index, &r, lane);
    if (status != MNEM_OK) {
        mnem__lane_free(lane);
        return status;
    }
    lane->state = MNEM__LANE_CACHED;
    lane->tree = r.tree;
    lane->count = r.length;
    lane->kept = r.kept;
    s->order[index] = lane;
    return MNEM_OK;
}

mnem_status mnem_scheduler_cache_load(mnem_scheduler *s, int fd) {
    header h;
    mnem_status status = read_header(s, fd, &h);
    uint64_t loaded = 0;
    while (status == MNEM_OK && loaded < h.count) {
        status = load_row(s, fd, loaded);
        loaded += status == MNEM_OK;
    }
    /* The first was needed last. */
    for (uint64_t i = loaded; i-- > 0;) s->order[i]->used = ++s->clock;
    mnem__stats_publish(s);
    return status == MNEM_OVER_BUDGET ? MNEM_OK : status; /* what fits is there */
}

/* ---- one conversation ---- */

/* Whether a cached lane is of the tree, with whichever adapters it has. */
static bool is_of_tree(const mnem_scheduler *s, const mnem__lane *lane, uint64_t tree) {
    return lane->state == MNEM__LANE_CACHED &&
           lane->tree == mnem__tree_of(s, tree, mnem__sequence_scales(lane->sequence));
}

/* The cached lane with the longest common beginning with these tokens, of several the one that was
 * used last; NULL: all are shorter than MNEM__PREFIX_LEAST. One of both must be the beginning of
 * the other: a lane that only begins alike, as with a common system prompt, is another
 * conversation. */
static mnem__lane *lane_of(mnem_scheduler *s, uint64_t tree, const int32_t *ids, int32_t count) {
    mnem__lane *best = NULL;
    int32_t most = MNEM__PREFIX_LEAST - 1;
    for (int32_t i = 0; i < s->lanes; i++) {
        mnem__lane *lane = &s->lane[i];
        const int32_t all = mnem__min_i32(lane->count, count);
        int32_t n = 0;
        if (!is_of_tree(s, lane, tree)) continue;
        while (n < all && ids[n] == lane->ids[n]) n++;
        if (n < all) continue;
        if (n > most || (best && n == most && lane->used > best->used)) most = n, best = lane;
    }
    if (!best)
        (void)mnem__fail(MNEM_NOT_READY,
                         "serve: the prefix cache does not hold this conversation (it still runs, "
                         "has fewer than %d tokens, was evicted, or asked for no caching)",
                         MNEM__PREFIX_LEAST);
    return best;
}

mnem_status mnem_scheduler_prefix_save(mnem_scheduler *s, uint64_t tree, const int32_t *ids,
                                       int32_t count, int fd, int32_t *tokens) {
    uint64_t end;
    int32_t rows;
    mnem__lane *lane = lane_of(s, tree, ids, count);
    *tokens = 0;
    if (!lane) return MNEM_NOT_READY;
    s->order[0] = lane;
    MNEM__TRY(save_lanes(s, 1, fd, UINT64_MAX, &end, &rows));
    if (rows == 0)
        return mnem__fail(MNEM_NOT_READY, "serve: the state of this conversation is gone");
    *tokens = mnem__lane_length(lane);
    return MNEM_OK;
}

mnem_status mnem_scheduler_prefix_drop(mnem_scheduler *s, uint64_t tree, const int32_t *ids,
                                       int32_t count, int32_t *tokens) {
    mnem__lane *lane = lane_of(s, tree, ids, count);
    *tokens = lane ? lane->count : 0;
    if (!lane) return MNEM_NOT_READY;
    mnem__lane_free(lane);
    mnem__stats_publish(s);
    return MNEM_OK;
}

mnem_status mnem_scheduler_prefix_load(mnem_scheduler *s, uint64_t tree, int fd, int32_t *ids,
                                       int32_t capacity, int32_t *tokens) {
    header h;
    row r;
    *tokens = 0;
    MNEM__TRY(read_header(s, fd, &h));
    if (h.count != 1) return bad("the file does not have one conversation");
    MNEM__TRY(mnem__saved_read(fd, row_at(s, 0), &r, sizeof r));
    mnem__lane *lane = mnem__prefix_free_lane(s, NULL);
    if (!lane || !mnem__prefix_evict(s, mnem__pages_of(s, r.length)))
        return mnem__fail(MNEM_OVER_BUDGET,
                          "serve: the conversation has %d tokens, for which too few pages are free "
                          "while other requests run",
                          r.length);
    /* An eviction may have freed lanes: this one is free in any case. */
    mnem_status status = open_lane(s, fd, 0, &r, lane);
    if (status == MNEM_OK && r.length > capacity)
        status = mnem__fail(MNEM_OVER_BUDGET, "serve: the saved conversation is too long");
    if (status != MNEM_OK) {
        mnem__lane_free(lane);
        return status;
    }
    memcpy(ids, lane->ids, (size_t)r.length * sizeof *ids);
    *tokens = r.length;
    lane->tree = mnem__tree_of(s, tree, mnem__sequence_scales(lane->sequence));
    mnem__prefix_add(s, lane);
    mnem__stats_publish(s);
    return MNEM_OK;
}
