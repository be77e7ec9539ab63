/* sequence.c: sequences of an engine: opened, forked, cut short.
 *
 * Idea: a fork shares every page, the last one too; a step copies a shared page just before it
 * writes into it (engine_step.c). There are pages for all sequences at their longest, and an entry
 * of a table has at most one, so a copy always finds a free page.
 * A page has the states (kv_pages.h) of its last position only: cut inside a page, a sequence runs
 * that page's tokens again, from its begin, where the page before has the states. They are run
 * before the next step's own; a sequence that is cut and never continued costs nothing.
 *
 *     length 150, cut to 140:   | page 0 | page 1 | 128 .. 139 |      page 2 runs again: ready 128
 *
 * Invariant: a sequence has exactly the pages that its length needs, but while a step runs.
 * Cost: O(pages) for a fork, no bytes of keys and values are moved. */
#include "base/error.h"
#include "engine/engine_private.h"

mnem_status mnem_sequence_create(mnem_engine *e, mnem_sequence **sequence) {
    *sequence = NULL;
    for (int32_t i = 0; i < e->sequences && !*sequence; i++)
        if (!e->tables.sequences[i].open) *sequence = &e->tables.sequences[i];
    if (!*sequence)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "engine: all of the %d sequences that were planned are open",
                          e->sequences);
    (*sequence)->open = true;
    return MNEM_OK;
}

mnem_status mnem_sequence_fork(const mnem_sequence *of, int32_t n, mnem_sequence **sequence) {
    mnem_engine *e = of->engine;
    *sequence = NULL;
    if (n < 0 || n > of->length)
        return mnem__fail(MNEM_INVALID, "engine: %d tokens of %d can't be shared", n, of->length);
    MNEM__TRY(mnem_sequence_create(e, sequence));
    mnem_sequence *s = *sequence;
    s->length = n;
    s->ready = mnem__sequence_ready(of, n);
    if (!e->can_run) return MNEM_OK;
    s->pages_used = mnem__kv_pages_for(&e->pages.layout, n);
    mnem__kv_pages_share(&e->pages, of->table, s->pages_used, s->table);
    return MNEM_OK;
}

int32_t mnem__sequence_ready(const mnem_sequence *s, int32_t n) {
    const mnem__kv_pages *pages = &s->engine->pages;
    if (n >= s->ready) return s->ready;
    return pages->ids ? n - n % pages->layout.page_tokens : n;
}

void mnem__sequence_doubt(mnem_sequence *s) {
    if (s->engine->pages.ids) s->ready -= s->ready % s->engine->pages.layout.page_tokens;
}

int32_t mnem_sequence_length(const mnem_sequence *s) {
    return s->length;
}

mnem_status mnem_sequence_truncate(mnem_sequence *s, int32_t n) {
    mnem__kv_pages *pages = &s->engine->pages;
    if (n < 0 || n > s->length)
        return mnem__fail(MNEM_INVALID, "session: %d tokens of %d can't be kept", n, s->length);
    s->ready = mnem__sequence_ready(s, n);
    s->length = n;
    mnem__kv_pages_resize(pages, s->table, &s->pages_used, mnem__kv_pages_for(&pages->layout, n));
    return MNEM_OK;
}

void mnem_sequence_destroy(mnem_sequence *s) {
    if (!s) return;
    mnem_sequence_truncate(s, 0);
    s->open = false;
}
