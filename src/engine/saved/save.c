/* save.c: a sequence's pages to a file.
 *
 * Idea: pages go to disk from where they lie; the header, which makes them count, comes last.
 * Invariant: nothing of the engine changes, and nothing is read that steps of other sequences
 * write: a page of this sequence's has this reference to it, so whoever writes there copies it
 * first.
 * Cost: the bytes once through the checksum and once through the system; nothing is taken. */
#include <string.h>

#include "base/error.h"
#include "base/file/checksum.h"
#include "base/minmax.h"
#include "engine/saved/saved_private.h"
#include "mnem/supports.h"

/* Its snapshots but for one of the state that it continues from, which comes last; at most `most`,
 * the last ones. */
static int32_t snapshots_of(const mnem_sequence *s, int32_t most) {
    const mnem_engine *e = s->engine;
    int32_t count = 0;
    if (!e->snapshots.lists) return 0;
    const mnem__snapshot_list *list = mnem__sequence_snapshots(s);
    for (int32_t i = 0; i < list->count; i++) count += list->at[i].position < s->ready;
    return mnem__min_i32(count, most);
}

static mnem__saved_header header_of(const mnem_sequence *s, int32_t from, int32_t snapshots) {
    const mnem_engine *e = s->engine;
    mnem__saved_pages pages[MNEM__KV_PAGED];
    mnem__saved_header h = mnem__saved_header_of(e, from, s->length, mnem__sequence_held(s));
    h.ready = s->ready;
    if (mnem__engine_has_states(e) && s->ready > 0) h.state_count = 1 + snapshots_of(s, snapshots);
    mnem__saved_lay_out(e, &h, pages, &h.bytes);
    return h;
}

uint64_t mnem__sequence_save_bytes(const mnem_sequence *s, int32_t from, int32_t snapshots) {
    return header_of(s, from, snapshots).bytes;
}

uint64_t mnem_sequence_save_bytes(const mnem_sequence *s, int32_t from) {
    return mnem__sequence_save_bytes(s, from, INT32_MAX);
}

int32_t mnem__sequence_save_most(const mnem_sequence *s, int32_t from, uint64_t bytes) {
    const mnem__saved_header h = header_of(s, from, 0);
    uint64_t record_bytes;
    if (h.bytes > bytes) return -1;
    (void)mnem__saved_states_at(s->engine, &h, &record_bytes);
    return (int32_t)mnem__min_u64((bytes - h.bytes) / record_bytes, INT32_MAX);
}

static mnem_status check(const mnem_sequence *s, int32_t from) {
    const int32_t tokens = mnem__engine_page_tokens(s->engine);
    if (!s->engine->taken.runs)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "saved sequence: can't be saved: the engine's device is for planning only");
    if (from < 0 || from >= s->length || from % tokens != 0)
        return mnem__fail(MNEM_INVALID,
                          "saved sequence: can't begin at token %d of %d, expected a smaller "
                          "multiple of %d, the tokens of a page",
                          from, s->length, tokens);
    return MNEM_OK;
}

static mnem_status write_page(const mnem_sequence *s, int kind, int32_t number,
                              const mnem__saved_header *h, int fd, uint64_t at) {
    const mnem__kv_pages *pages = &s->engine->pages[kind];
    const int32_t page = s->table[kind].page[number];
    const size_t tokens = (size_t)pages->layout.page_tokens, bytes = pages->page_bytes;
    mnem__checksum checksum = mnem__saved_page_sum(kind, number, h->ids_checksum);
    MNEM__TRY(mnem__saved_write_from(fd, at, mnem__kv_page_at(pages, page), bytes, &checksum));
    at += bytes;
    if (pages->ids) {
        const int32_t *ids = pages->ids + (size_t)page * tokens;
        mnem__checksum_add(&checksum, ids, tokens * sizeof *ids);
        MNEM__TRY(mnem__saved_write(fd, at, ids, tokens * sizeof *ids));
        at += tokens * sizeof *ids;
    }
    const uint64_t sum = mnem__checksum_get(&checksum);
    return mnem__saved_write(fd, at, &sum, sizeof sum);
}

/* A state in a page, or in the store. MNEM_NOT_READY: the store can't read it, and dropped it. */
static mnem_status write_state(const mnem_sequence *s, const mnem__snapshot *state,
                               const mnem__saved_header *h, int fd, uint64_t at) {
    const mnem__kv_pages *pages = &s->engine->pages[MNEM__KV_STATES];
    const uint64_t place = (uint64_t)state->position, bytes = pages->page_bytes;
    mnem__checksum sum = mnem__saved_page_sum(MNEM__KV_STATES, state->position, h->ids_checksum);
    MNEM__TRY(mnem__saved_write(fd, at, &place, sizeof place));
    at += sizeof place;
    if (state->page >= 0)
        MNEM__TRY(
            mnem__saved_write_from(fd, at, mnem__kv_page_at(pages, state->page), bytes, &sum));
    else
        MNEM__TRY(mnem__snapshots_save(&s->engine->snapshots, state, fd, at, &sum));
    const uint64_t end = mnem__checksum_get(&sum);
    return mnem__saved_write(fd, at + bytes, &end, sizeof end);
}

/* The state that the sequence continues from: in its table, or a snapshot. */
static mnem_status write_last(const mnem_sequence *s, const mnem__saved_header *h, int fd,
                              uint64_t at) {
    const mnem__kv_table *table = &s->table[MNEM__KV_STATES];
    const mnem__snapshot live = {.position = s->ready, .page = table->used ? table->page[0] : -1};
    const mnem__snapshot *state = &live;
    if (table->used == 0) state = mnem__snapshots_find(mnem__sequence_snapshots(s), s->ready);
    const mnem_status status =
        state && state->position == s->ready ? write_state(s, state, h, fd, at) : MNEM_NOT_READY;
    return status != MNEM_NOT_READY
               ? status
               : mnem__fail(status, "saved sequence: the state of the recurrent layers is lost: "
                                    "the swap file can't be read");
}

/* Leaves out snapshots that the store can't read: the header counts those that were written. */
static mnem_status write_states(const mnem_sequence *s, mnem__saved_header *h, int fd,
                                uint64_t offset) {
    uint64_t record_bytes, at = offset + mnem__saved_states_at(s->engine, h, &record_bytes);
    if (h->state_count == 0) return MNEM_OK;
    int32_t left = h->state_count - 1, i = snapshots_of(s, INT32_MAX) - left;
    for (; left > 0; left--) {
        const mnem_status status = write_state(s, &mnem__sequence_snapshots(s)->at[i], h, fd, at);
        if (status == MNEM_NOT_READY) { /* the list has no entry for it any more */
            h->state_count--;
            h->bytes -= record_bytes;
            continue;
        }
        MNEM__TRY(status);
        at += record_bytes;
        i++;
    }
    return write_last(s, h, fd, at);
}

mnem_saved mnem__saved_of(const mnem_sequence *s, const uint64_t *page_bytes) {
    mnem__saved_header h = header_of(s, 0, 0);
    mnem__saved_pages pages[MNEM__KV_PAGED];
    if (page_bytes) memcpy(h.page_bytes, page_bytes, sizeof h.page_bytes);
    mnem__saved_lay_out(s->engine, &h, pages, &h.bytes);
    return (mnem_saved){.fd = -1,
                        .bytes = h.bytes,
                        .length = h.length,
                        .ready = h.ready,
                        .states = h.state_count,
                        .first_window = h.first_window,
                        .choice = mnem__adapters_choice(s->engine, mnem__sequence_scales(s))};
}

mnem_status mnem__sequence_save(const mnem_sequence *s, const int32_t *ids, uint64_t ids_checksum,
                                int32_t from, int32_t snapshots, int fd, uint64_t offset) {
    const size_t ids_bytes = (size_t)s->length * sizeof *ids;
    mnem__saved_pages pages[MNEM__KV_PAGED];
    uint64_t bytes;
    MNEM__TRY(check(s, from));
    mnem__saved_header h = header_of(s, from, snapshots);
    if (!ids && mnem__engine_has_states(s->engine)) ids = mnem__sequence_history(s);
    MNEM__TRY(mnem__saved_identity(s->engine, &h.identity));
    h.identity += mnem__adapters_choice(s->engine, mnem__sequence_scales(s));
    h.ids_checksum = ids_checksum;
    mnem__saved_lay_out(s->engine, &h, pages, &bytes);
    if (ids) MNEM__TRY(mnem__saved_write(fd, offset + sizeof h, ids, ids_bytes));
    for (int k = 0; k < MNEM__KV_PAGED; k++) {
        const mnem__saved_pages *p = &pages[k];
        for (int32_t i = p->begin; i < p->end; i++)
            MNEM__TRY(write_page(s, k, i, &h, fd,
                                 offset + p->at + p->record_bytes * (uint64_t)(i - p->begin)));
    }
    MNEM__TRY(write_states(s, &h, fd, offset));
    h.checksum = mnem__saved_header_checksum(&h);
    return mnem__saved_write(fd, offset, &h, sizeof h);
}

mnem_status mnem_sequence_save(const mnem_sequence *s, const int32_t *ids, int32_t from, int fd,
                               uint64_t offset) {
    const uint64_t sum = mnem__checksum_of(ids, (size_t)s->length * sizeof *ids);
    MNEM__TRY(mnem__engine_supports(s->engine, MNEM_FEATURE_SAVED));
    return mnem__sequence_save(s, ids, sum, from, INT32_MAX, fd, offset);
}
