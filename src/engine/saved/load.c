/* load.c: saved pages back into a sequence.
 *
 * Idea: pages are taken first, into entries behind those that the table has, then filled, then made
 * the table's; so the long part, the reading, touches nothing but them.
 *
 *     saved      from 128, length 300      pages 2 3 4 of a sequence whose pages 0 1 were shared
 *     table      [ 7 | 1 ]  ──begin──►  [ 7 | 1 | 4 | 9 | 2 ]  used 2   ──end──►  used 5
 *
 * Invariant: whatever a file says, numbers are checked before they are used: pages by the engine's
 * own sizes, windows by the rule of cutting (sequence.c), ids by the vocabulary. What the pages
 * hold are numbers of any kind, and only make a text worse.
 * Cost: the bytes once through the system and once through the checksum; nothing is taken. */
#include <string.h>

#include "base/error.h"
#include "base/file/checksum.h"
#include "base/minmax.h"
#include "engine/saved/saved_private.h"
#include "mnem/supports.h"

/* ---- what a file says ---- */

static mnem_status damaged(const char *what) {
    return mnem__fail(
        MNEM_BAD_FILE,
        "saved sequence: %s of the file is damaged; use a copy of the file, or make it again",
        what);
}

/* Numbers that layouts may be made of. */
static bool is_sound(const mnem__saved_header *h) {
    for (int k = 0; k < MNEM__KV_PAGED; k++)
        if (h->page_bytes[k] >= (uint64_t)1 << 32) return false;
    return h->page_tokens > 0 && h->length > 0 && h->from >= 0 && h->from < h->length &&
           h->from % h->page_tokens == 0 && h->ready >= 0 && h->ready <= h->length &&
           h->first_window >= 0 && h->first_window <= h->length &&
           h->first_window % h->page_tokens == 0 && h->state_count >= 0 &&
           h->state_count <= 1 + MNEM__SNAPSHOTS_EACH;
}

static mnem__saved_header header_of(const mnem_engine *e, int32_t from, int32_t length,
                                    int32_t first_window, int32_t ready, int32_t states) {
    mnem__saved_pages pages[MNEM__KV_PAGED];
    mnem__saved_header h = mnem__saved_header_of(e, from, length, first_window);
    h.ready = ready;
    h.state_count = states;
    mnem__saved_lay_out(e, &h, pages, &h.bytes);
    return h;
}

static mnem_status another_model(void) {
    return mnem__fail(MNEM_INVALID, "saved sequence: the file was made with another model or "
                                    "adapter; use those with which it was saved");
}

/* Whether a save with this choice of adapters can be loaded: into a sequence with these scales or,
 * if scales is NULL, into one with those of the options or of any open sequence. */
static bool is_choice(const mnem_engine *e, const float *scales, uint64_t choice) {
    if (!e->adapters) return choice == 0;
    if (scales) return choice == mnem__adapters_choice(e, scales);
    bool any = choice == mnem__adapters_choice(e, mnem__engine_scales(e));
    for (int32_t i = 0; i < e->sequences && !any; i++) {
        const mnem_sequence *s = &e->tables.sequences[i];
        any = s->open && choice == mnem__adapters_choice(e, mnem__sequence_scales(s));
    }
    return any;
}

static mnem_status check_engine(const mnem_engine *e, const float *scales,
                                const mnem__saved_header *h) {
    const mnem__saved_header own =
        header_of(e, h->from, h->length, h->first_window, h->ready, h->state_count);
    uint64_t identity;
    MNEM__TRY(mnem__saved_identity(e, &identity));
    if (!is_choice(e, scales, h->identity - identity)) return another_model();
    if (h->kv_type != own.kv_type)
        return mnem__fail(MNEM_INVALID,
                          "saved sequence: the KV cache of the file has another type than the "
                          "engine's, %s; use the type with which it was saved",
                          mnem_kv_text(e->choice.kv));
    if (h->page_tokens != own.page_tokens || h->states != own.states ||
        memcmp(h->page_bytes, own.page_bytes, sizeof own.page_bytes))
        return mnem__fail(
            MNEM_INVALID,
            "saved sequence: the file was saved with pages of another size than this engine's, by "
            "another version or another split over ranks; save it again");
    if (!mnem__engine_has_states(e) && h->state_count > 0) return damaged("the header");
    return h->bytes == own.bytes ? MNEM_OK : damaged("the header");
}

static bool is_ready_sound(const mnem_engine *e, const mnem__saved_header *h) {
    if (mnem__engine_has_states(e)) return (h->ready > 0) == (h->state_count > 0);
    return h->ready == h->length || h->ready == mnem__engine_ready(e, INT32_MAX, h->length);
}

mnem_status mnem__saved_open(const mnem_engine *e, const float *scales, int fd, uint64_t offset,
                             mnem_saved *saved) {
    mnem__saved_header h;
    *saved = (mnem_saved){.fd = fd, .offset = offset};
    MNEM__TRY(mnem_transformer_supports(&e->map->shape, MNEM_FEATURE_SAVED));
    if (!e->taken.runs)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "saved sequence: can't be loaded: the engine's device is for planning only");
    MNEM__TRY(mnem__saved_read(fd, offset, &h, sizeof h));
    if (h.magic != MNEM__SAVED_MAGIC)
        return mnem__fail(
            MNEM_BAD_FILE,
            "saved sequence: the file isn't one; give a file that mnem_sequence_save wrote");
    if (h.checksum != mnem__saved_header_checksum(&h) || !is_sound(&h))
        return damaged("the header");
    MNEM__TRY(check_engine(e, scales, &h));
    if (!is_ready_sound(e, &h) || !mnem__engine_holds(e, h.ready, h.first_window))
        return damaged("the header");
    saved->bytes = h.bytes;
    saved->from = h.from;
    saved->length = h.length;
    saved->ready = h.ready;
    saved->states = h.state_count;
    saved->first_window = h.first_window;
    saved->ids_checksum = h.ids_checksum;
    MNEM__TRY(mnem__saved_identity(e, &saved->choice));
    saved->choice = h.identity - saved->choice;
    return MNEM_OK;
}

mnem_status mnem_saved_open(mnem_engine *e, int fd, uint64_t offset, mnem_saved *saved) {
    MNEM__TRY(mnem__engine_supports(e, MNEM_FEATURE_SAVED));
    return mnem__saved_open(e, NULL, fd, offset, saved);
}

static mnem_status read_ids(const mnem_saved *saved, int32_t at, int32_t count, int32_t *ids,
                            mnem__checksum *sum) {
    const uint64_t bytes = (uint64_t)count * sizeof *ids;
    MNEM__TRY(mnem__saved_read(
        saved->fd, saved->offset + sizeof(mnem__saved_header) + (uint64_t)at * sizeof *ids, ids,
        bytes));
    mnem__checksum_add(sum, ids, bytes);
    return MNEM_OK;
}

mnem_status mnem_saved_ids(const mnem_saved *saved, int32_t *ids) {
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    MNEM__TRY(read_ids(saved, 0, saved->length, ids, &sum));
    return mnem__checksum_get(&sum) == saved->ids_checksum ? MNEM_OK : damaged("the text");
}

mnem_status mnem_saved_common(const mnem_saved *saved, const int32_t *ids, int32_t n,
                              int32_t *common) {
    int32_t block[512], alike = 0;
    enum { BLOCK = sizeof block / sizeof *block };
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    *common = 0;
    for (int32_t at = 0; at < saved->length; at += BLOCK) {
        const int32_t count = mnem__min_i32(BLOCK, saved->length - at);
        MNEM__TRY(read_ids(saved, at, count, block, &sum));
        for (int32_t i = 0; i < count && alike == at + i && alike < n; i++)
            alike += block[i] == ids[alike];
    }
    if (mnem__checksum_get(&sum) != saved->ids_checksum) return damaged("the text");
    *common = alike;
    return MNEM_OK;
}

/* ---- taking pages ---- */

/* Which of a save's pages are put where. keep: entries of the table before are forgotten at the
 * end, as a step would (engine_step.c). */
static void plan_kind(mnem_sequence *s, const mnem_saved *saved, int kind, int32_t n) {
    const mnem_engine *e = s->engine;
    const mnem_kv_layout *layout = &e->pages[kind].layout;
    const int32_t first = s->length / layout->page_tokens, end = mnem__kv_pages_for(layout, n);
    const mnem__kv_need *need = mnem__engine_need(e, kind);
    const int32_t held = need->forgets ? saved->first_window / layout->page_tokens : 0;
    const int32_t keep = mnem__max_i32(held > first ? held : 0, end - need->pages);
    const bool none = e->pages[kind].count == 0;
    s->load.keep[kind] = none ? 0 : keep;
    s->load.begin[kind] = none ? 0 : mnem__max_i32(first, keep);
    s->load.end[kind] = none ? 0 : end;
}

/* The page that a kind will be held from: what is put behind the table's own, or all there is. */
static int32_t first_after(const mnem_sequence *s, int kind) {
    const mnem__kv_table *table = &s->table[kind];
    const int32_t begin = s->load.begin[kind];
    return begin > table->used ? begin : mnem__max_i32(table->first, s->load.keep[kind]);
}

/* mnem__sequence_held of it, later. */
static int32_t held_after(const mnem_sequence *s) {
    int32_t first = 0;
    for (int k = 0; k < MNEM__KV_PAGED; k++)
        if (mnem__engine_need(s->engine, k)->forgets)
            first = mnem__max_i32(first, first_after(s, k));
    return first * mnem__engine_page_tokens(s->engine);
}

/* Whether the save has what comes behind the sequence: from its begin on, or from a later page. */
static bool goes_on(const mnem_sequence *s, const mnem_saved *saved) {
    const int32_t tokens = mnem__engine_page_tokens(s->engine);
    if (s->length == saved->from) return true;
    return s->length > saved->from && s->length % tokens == 0 && mnem__saved_joins(s->engine);
}

static mnem_status check_begin(const mnem_sequence *s, const mnem_saved *saved, int32_t n) {
    const mnem_engine *e = s->engine;
    if (s->load.on || s->in_step)
        return mnem__fail(MNEM_INVALID,
                          "saved sequence: the sequence can't be loaded now: %s; wait until that "
                          "has ended",
                          s->load.on ? "another load of it has begun (mnem_sequence_load_begin)"
                                     : "it takes part in a step that has not ended");
    if (saved->choice != mnem__adapters_choice(e, mnem__sequence_scales(s))) return another_model();
    if (!goes_on(s, saved))
        return mnem__fail(MNEM_INVALID,
                          "saved sequence: the file begins at token %d and can't continue a "
                          "sequence of %d tokens; load it into one of %d tokens",
                          saved->from, s->length, saved->from);
    if (n <= s->length || n > saved->length)
        return mnem__fail(MNEM_INVALID,
                          "saved sequence: can't load up to token %d; the file has tokens %d to %d",
                          n, s->length, saved->length);
    if (n > e->choice.context)
        return mnem__fail(
            MNEM_OVER_BUDGET,
            "saved sequence: %d tokens don't fit the context of %d tokens; use a larger context", n,
            e->choice.context);
    return MNEM_OK;
}

static mnem_status check_pages(const mnem_sequence *s) {
    for (int k = 0; k < MNEM__KV_PAGED; k++) {
        const mnem__kv_pages *pages = &s->engine->pages[k];
        const int32_t needed = s->load.end[k] - s->load.begin[k];
        if (needed > pages->free_count)
            return mnem__fail(
                MNEM_OVER_BUDGET,
                "saved sequence: loading needs %d pages of KV cache, but only %d of %d are free; "
                "close other sequences first, or plan with a larger context",
                needed, pages->free_count, pages->count);
    }
    return MNEM_OK;
}

/* The nearest state at or before n. The last one is the live one, whose position needn't be read:
 * nothing is, of a save without snapshots. */
static mnem_status find_state(mnem_sequence *s, const mnem_saved *saved, int32_t n) {
    const mnem__saved_header h = header_of(s->engine, saved->from, saved->length,
                                           saved->first_window, saved->ready, saved->states);
    uint64_t record_bytes, at = saved->offset + mnem__saved_states_at(s->engine, &h, &record_bytes);
    s->load.ready = 0;
    for (int32_t i = 0; i < saved->states; i++, at += record_bytes) {
        uint64_t position = (uint64_t)saved->ready;
        if (i < saved->states - 1)
            MNEM__TRY(mnem__saved_read(saved->fd, at, &position, sizeof position));
        if (position == 0 || position > (uint64_t)saved->ready) return damaged("a state");
        if (position > (uint64_t)n) continue;
        s->load.state = i;
        s->load.ready = (int32_t)position;
    }
    if (s->ready < s->length || s->load.ready <= s->length)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "saved sequence: the first %d of %d tokens can't be used: the file has "
                          "no state of recurrent layers up to token %d; load all of its tokens",
                          n, saved->length, n);
    return mnem__engine_pages_free(s->engine, MNEM__KV_STATES) > 0
               ? MNEM_OK
               : mnem__fail(MNEM_OVER_BUDGET, "saved sequence: loading needs a recurrent state, "
                                              "but none is free; close other sequences first");
}

mnem_status mnem_sequence_load_begin(mnem_sequence *s, const mnem_saved *saved, int32_t n) {
    const mnem_engine *e = s->engine;
    const bool states = mnem__engine_has_states(e);
    MNEM__TRY(check_begin(s, saved, n));
    s->load.ready = mnem__engine_ready(e, saved->ready, n);
    if (states) MNEM__TRY(find_state(s, saved, n));
    for (int k = 0; k < MNEM__KV_PAGED; k++) plan_kind(s, saved, k, states ? s->load.ready : n);
    if (!mnem__engine_holds(e, s->load.ready, held_after(s)))
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "saved sequence: the first %d of %d tokens can't be used: the sliding "
            "window of %d tokens has dropped some of them; load all tokens of the file",
            n, saved->length, e->tables.window);
    MNEM__TRY(check_pages(s));
    for (int k = 0; k < MNEM__KV_PAGED; k++)
        for (int32_t i = s->load.begin[k]; i < s->load.end[k]; i++)
            s->table[k].page[i] = mnem__kv_pages_take(&s->engine->pages[k]);
    if (states) s->load.state_page = mnem__kv_pages_take(&s->engine->pages[MNEM__KV_STATES]);
    s->load.n = n;
    s->load.on = true;
    return MNEM_OK;
}

/* ---- filling them ---- */

static mnem_status check_ids(const mnem_engine *e, const int32_t *ids, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= e->map->shape.vocab) return damaged("a page");
    return MNEM_OK;
}

static mnem_status read_page(const mnem_sequence *s, const mnem_saved *saved, int kind,
                             int32_t number, uint64_t at) {
    const mnem__kv_pages *pages = &s->engine->pages[kind];
    const int32_t page = s->table[kind].page[number];
    const size_t tokens = (size_t)pages->layout.page_tokens, bytes = pages->page_bytes;
    mnem__checksum checksum = mnem__saved_page_sum(kind, number, saved->ids_checksum);
    uint64_t sum;
    MNEM__TRY(mnem__saved_read_to(saved->fd, at, mnem__kv_page_at(pages, page), bytes, &checksum));
    at += bytes;
    if (pages->ids) {
        int32_t *ids = pages->ids + (size_t)page * tokens;
        MNEM__TRY(mnem__saved_read(saved->fd, at, ids, tokens * sizeof *ids));
        MNEM__TRY(check_ids(s->engine, ids, tokens));
        mnem__checksum_add(&checksum, ids, tokens * sizeof *ids);
        at += tokens * sizeof *ids;
    }
    MNEM__TRY(mnem__saved_read(saved->fd, at, &sum, sizeof sum));
    return sum == mnem__checksum_get(&checksum) ? MNEM_OK : damaged("a page");
}

/* A state of the save into a page; index: in the file, of tokens up to position. */
static mnem_status read_record(const mnem_sequence *s, const mnem_saved *saved,
                               const mnem__saved_header *h, int32_t index, int32_t position,
                               int32_t page) {
    const mnem__kv_pages *pages = &s->engine->pages[MNEM__KV_STATES];
    mnem__checksum checksum = mnem__saved_page_sum(MNEM__KV_STATES, position, saved->ids_checksum);
    uint64_t record_bytes, place, sum;
    uint64_t at = saved->offset + mnem__saved_states_at(s->engine, h, &record_bytes) +
                  record_bytes * (uint64_t)index;
    MNEM__TRY(mnem__saved_read(saved->fd, at, &place, sizeof place));
    if (place != (uint64_t)position) return damaged("a state");
    at += sizeof place;
    MNEM__TRY(mnem__saved_read_to(saved->fd, at, mnem__kv_page_at(pages, page), pages->page_bytes,
                                  &checksum));
    MNEM__TRY(mnem__saved_read(saved->fd, at + pages->page_bytes, &sum, sizeof sum));
    return sum == mnem__checksum_get(&checksum) ? MNEM_OK : damaged("a state");
}

/* The state, and the tokens behind what the sequence has. */
static mnem_status read_state(mnem_sequence *s, const mnem_saved *saved,
                              const mnem__saved_header *h) {
    int32_t *ids = mnem__sequence_history(s) + s->length;
    const size_t n = (size_t)(s->load.n - s->length);
    MNEM__TRY(mnem__saved_read(saved->fd,
                               saved->offset + sizeof *h + (uint64_t)s->length * sizeof *ids, ids,
                               n * sizeof *ids));
    MNEM__TRY(check_ids(s->engine, ids, n));
    return read_record(s, saved, h, s->load.state, s->load.ready, s->load.state_page);
}

mnem_status mnem_sequence_load_read(mnem_sequence *s, const mnem_saved *saved) {
    const mnem__saved_header h = header_of(s->engine, saved->from, saved->length,
                                           saved->first_window, saved->ready, saved->states);
    mnem__saved_pages pages[MNEM__KV_PAGED];
    uint64_t bytes;
    mnem__saved_lay_out(s->engine, &h, pages, &bytes);
    for (int k = 0; k < MNEM__KV_PAGED; k++) {
        const mnem__saved_pages *p = &pages[k];
        if (h.page_bytes[k] == 0) continue; /* the kind's layers are other ranks' */
        for (int32_t i = s->load.begin[k]; i < s->load.end[k]; i++)
            MNEM__TRY(
                read_page(s, saved, k, i,
                          saved->offset + p->at + p->record_bytes * (uint64_t)(i - p->begin)));
    }
    return mnem__engine_has_states(s->engine) ? read_state(s, saved, &h) : MNEM_OK;
}

/* ---- the end ---- */

static void give_back(mnem_sequence *s, int kind) {
    for (int32_t i = s->load.begin[kind]; i < s->load.end[kind]; i++)
        mnem__kv_pages_give(&s->engine->pages[kind], s->table[kind].page[i]);
}

/* What was forgotten when it was saved, or wouldn't be held by this engine, is forgotten here. */
static void take_over(mnem_sequence *s, int kind) {
    mnem__kv_table *table = &s->table[kind];
    const mnem__kv_room room = {.keep = s->load.keep[kind], .write = INT32_MAX, .end = table->used};
    (void)mnem__kv_pages_make_room(&s->engine->pages[kind], table, &room); /* copies nothing */
    if (table->first == table->used) table->first = s->load.begin[kind];
    table->used = s->load.end[kind];
}

/* The live state; a snapshot of it stays. */
static void take_state(mnem_sequence *s) {
    mnem_engine *e = s->engine;
    mnem__kv_table *table = &s->table[MNEM__KV_STATES];
    mnem__kv_pages_cut(&e->pages[MNEM__KV_STATES], table, 0);
    table->page[0] = s->load.state_page;
    table->used = 1;
    if (mnem__snapshots_any(&e->snapshots))
        mnem__snapshots_take(&e->snapshots, mnem__sequence_snapshots(s), s->load.ready,
                             s->load.state_page, true);
}

mnem_status mnem_sequence_load_end(mnem_sequence *s, const mnem_saved *saved, mnem_status read) {
    (void)saved;
    for (int k = 0; k < MNEM__KV_PAGED && read != MNEM_OK; k++) give_back(s, k);
    for (int k = 0; k < MNEM__KV_PAGED && read == MNEM_OK; k++)
        if (s->engine->pages[k].count) take_over(s, k);
    if (read == MNEM_OK) {
        s->length = s->load.n;
        s->ready = s->load.ready;
    }
    if (mnem__engine_has_states(s->engine) && read == MNEM_OK) take_state(s);
    if (mnem__engine_has_states(s->engine) && read != MNEM_OK)
        mnem__kv_pages_give(&s->engine->pages[MNEM__KV_STATES], s->load.state_page);
    s->load.on = false;
    return read;
}

static bool load_into_page(mnem_sequence *s, const mnem_saved *saved, const mnem__saved_header *h,
                           int32_t index, int32_t position) {
    mnem__kv_pages *pages = &s->engine->pages[MNEM__KV_STATES];
    const int32_t page = mnem__kv_pages_take(pages);
    const mnem_status read = read_record(s, saved, h, index, position, page);
    if (read == MNEM_OK)
        mnem__snapshots_insert(&s->engine->snapshots, mnem__sequence_snapshots(s), position, page);
    mnem__kv_pages_give(pages, page); /* the list has it */
    return read == MNEM_OK;
}

/* at: of the record. */
static bool load_into_store(mnem_sequence *s, const mnem_saved *saved, uint64_t at,
                            int32_t position) {
    const uint64_t begin = at + sizeof(uint64_t);
    const mnem__checksum sum = mnem__saved_page_sum(MNEM__KV_STATES, position, saved->ids_checksum);
    uint64_t whole;
    return mnem__saved_read(saved->fd, begin + s->engine->pages[MNEM__KV_STATES].page_bytes, &whole,
                            sizeof whole) == MNEM_OK &&
           mnem__snapshots_load(&s->engine->snapshots, mnem__sequence_snapshots(s), position,
                                saved->fd, begin, sum, whole);
}

/* One of the save's snapshots, behind what the sequence had before; false: there are no more. */
static bool load_snapshot(mnem_sequence *s, const mnem_saved *saved, const mnem__saved_header *h,
                          int32_t index, int32_t before) {
    const mnem__snapshots *x = &s->engine->snapshots;
    uint64_t record_bytes, position;
    uint64_t at = saved->offset + mnem__saved_states_at(s->engine, h, &record_bytes);
    at += record_bytes * (uint64_t)index;
    if (mnem__saved_read(saved->fd, at, &position, sizeof position) != MNEM_OK) return false;
    if (position <= (uint64_t)before || position >= (uint64_t)s->ready) return false;
    return x->used < x->most ? load_into_page(s, saved, h, index, (int32_t)position)
                             : load_into_store(s, saved, at, (int32_t)position);
}

/* Snapshots before the state, as many as have room in memory or in the store, the last ones first.
 * They only save time: what can't be read is left out. */
static void load_snapshots(mnem_sequence *s, const mnem_saved *saved, int32_t before) {
    const mnem__saved_header h = header_of(s->engine, saved->from, saved->length,
                                           saved->first_window, saved->ready, saved->states);
    for (int32_t i = s->load.state; i-- > 0;)
        if (!load_snapshot(s, saved, &h, i, before)) return;
}

mnem_status mnem_sequence_load(mnem_sequence *s, const mnem_saved *saved, int32_t n) {
    const int32_t before = s->length;
    MNEM__TRY(mnem_sequence_load_begin(s, saved, n));
    MNEM__TRY(mnem_sequence_load_end(s, saved, mnem_sequence_load_read(s, saved)));
    if (mnem__engine_has_states(s->engine)) load_snapshots(s, saved, before);
    return MNEM_OK;
}
