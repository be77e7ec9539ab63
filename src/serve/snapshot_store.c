/* snapshot_store.c: states of earlier positions in the swap file.
 *
 * Idea: a state that has no page any more is written to a slot of the file from where it lies, and
 * read back into the page of the sequence that goes on from it; there is no buffer between. It is
 * written where writing and reading it take less time than its tokens would run again, by the same
 * rates as a lane that is set aside (set_aside.c). A disk that is full, or fails, only costs that
 * time. Between the slots and a file of saved prefixes (cache_file.c) states are copied directly, a
 * piece at a time, so that no page must be free for it.
 * Invariant: a slot that is taken is in a list of the engine's (snapshots.h); bytes_live of the
 * file counts it.
 * Cost: a pwrite or pread and a checksum of a state, during which nobody steps; nothing is
 * allocated. */
#include <math.h>

#include "base/checked.h"
#include "serve/serve_private.h"

enum { ALIGNMENT = 4096 };

static uint64_t slot_at(const mnem_scheduler *s, int32_t slot) {
    return s->slots_at + s->slot_bytes * (uint64_t)slot;
}

static uint64_t state_bytes(const mnem_scheduler *s) {
    return s->engine->pages[MNEM__KV_STATES].page_bytes;
}

static mnem__location state_at(const mnem_scheduler *s, int32_t page) {
    return mnem__kv_page_at(&s->engine->pages[MNEM__KV_STATES], page);
}

static int32_t free_slot(const mnem_scheduler *s) {
    for (int32_t i = 0; i < s->state_slots; i++)
        if (!s->state_slot[i].taken) return i;
    return MNEM__STORE_FULL;
}

/* What nobody has measured yet isn't known to be faster. */
static bool is_worth_it(mnem_scheduler *s, int32_t position, int32_t tokens) {
    const double again = mnem__step_cost_prompt(&s->cost, position, tokens);
    return !(again > 0) || 2 * (double)state_bytes(s) / mnem__swap_rate(&s->swap) < again;
}

/* A free slot that the file has room for; below 0: there is none. */
static int32_t slot_with_room(mnem_scheduler *s) {
    const int32_t slot = free_slot(s);
    return slot >= 0 && mnem__swap_has_room(&s->swap, state_bytes(s)) ? slot : MNEM__STORE_FULL;
}

static int32_t write_state(void *context, int32_t page, int32_t position, int32_t tokens) {
    mnem_scheduler *s = context;
    if (!is_worth_it(s, position, tokens)) return MNEM__STORE_NOT;
    const int32_t slot = slot_with_room(s);
    if (slot < 0) return slot;
    mnem__state_slot *to = &s->state_slot[slot];
    if (mnem__swap_page_write(&s->swap, slot_at(s, slot), state_at(s, page), state_bytes(s),
                              &to->sum) != MNEM_OK)
        return MNEM__STORE_NOT;
    to->taken = true;
    s->now.snapshots_out++;
    return slot;
}

static bool read_state(void *context, int32_t slot, int32_t page) {
    mnem_scheduler *s = context;
    const mnem_status status = mnem__swap_page_read(&s->swap, slot_at(s, slot), state_at(s, page),
                                                    state_bytes(s), s->state_slot[slot].sum);
    s->now.snapshots_in += status == MNEM_OK;
    return status == MNEM_OK;
}

static void drop_state(void *context, int32_t slot) {
    mnem_scheduler *s = context;
    s->state_slot[slot].taken = false;
    mnem__swap_page_drop(&s->swap, slot_at(s, slot), state_bytes(s));
}

static mnem_status save_state(void *context, int32_t slot, int fd, uint64_t at,
                              mnem__checksum *sum) {
    mnem_scheduler *s = context;
    return mnem__swap_page_save(&s->swap, slot_at(s, slot), state_bytes(s), s->state_slot[slot].sum,
                                fd, at, sum);
}

static int32_t load_state(void *context, int fd, uint64_t at, int32_t position, int32_t tokens,
                          mnem__checksum *sum) {
    mnem_scheduler *s = context;
    if (!is_worth_it(s, position, tokens)) return MNEM__STORE_NOT;
    const int32_t slot = slot_with_room(s);
    if (slot < 0) return slot;
    mnem__state_slot *to = &s->state_slot[slot];
    if (mnem__swap_page_load(&s->swap, slot_at(s, slot), state_bytes(s), &to->sum, fd, at, sum) !=
        MNEM_OK)
        return MNEM__STORE_NOT;
    to->taken = true;
    return slot;
}

void mnem__store_open(mnem_scheduler *s) {
    const bool alone = !mnem__relay_leads(&s->engine->relay);
    if (!s->swap.started || !alone || !mnem__engine_has_states(s->engine)) return;
    if (s->options.no_sharing) return;
    s->slots_at = mnem__swap_pages_at(&s->swap);
    s->slot_bytes = mnem__align_up(state_bytes(s), ALIGNMENT);
    s->engine->snapshots.store = (mnem__snapshot_store){.write = write_state,
                                                        .read = read_state,
                                                        .drop = drop_state,
                                                        .save = save_state,
                                                        .load = load_state,
                                                        .context = s};
}

void mnem__store_close(mnem_scheduler *s) {
    if (s->engine->snapshots.store.context != s) return;
    for (int32_t i = 0; i < s->state_slots; i++)
        if (s->state_slot[i].taken) drop_state(s, i);
    mnem__snapshots_detach(&s->engine->snapshots);
}

bool mnem__store_make_room(mnem_scheduler *s, uint64_t bytes) {
    if (s->swap.fd < 0 || bytes > s->options.swap_bytes) return false;
    while (!mnem__swap_has_room(&s->swap, bytes))
        if (!mnem__snapshots_drop_stored(&s->engine->snapshots, HUGE_VAL)) return false;
    return true;
}
