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
#include "engine/saved/saved_private.h"
#include "mnem/supports.h"

static mnem__saved_header header_of(const mnem_sequence *s, int32_t from) {
    mnem__saved_header h =
        mnem__saved_header_of(s->engine, from, s->length, mnem__sequence_held(s));
    h.ready = s->ready;
    return h;
}

uint64_t mnem_sequence_save_bytes(const mnem_sequence *s, int32_t from) {
    return header_of(s, from).bytes;
}

static mnem_status check(const mnem_sequence *s, int32_t from) {
    const int32_t tokens = mnem__engine_page_tokens(s->engine);
    if (mnem__engine_has_states(s->engine))
        return mnem__fail(MNEM_UNSUPPORTED, "saved sequence: saving is not supported for models "
                                            "with recurrent states yet");
    if (!s->engine->taken.runs)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "saved sequence: can't be saved: the engine's device is for planning only");
    if (from < 0 || from >= s->length || from % tokens != 0)
        return mnem__fail(MNEM_INVALID,
                          "saved sequence: can't begin at token %d of %d, expected a multiple of "
                          "%d, where a page begins",
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

mnem_saved mnem__saved_of(const mnem_sequence *s, const uint64_t *page_bytes) {
    mnem__saved_header h = header_of(s, 0);
    mnem__saved_pages pages[MNEM__KV_PAGED];
    if (page_bytes) memcpy(h.page_bytes, page_bytes, sizeof h.page_bytes);
    mnem__saved_lay_out(s->engine, &h, pages, &h.bytes);
    return (mnem_saved){.fd = -1,
                        .bytes = h.bytes,
                        .length = h.length,
                        .ready = h.ready,
                        .first_window = h.first_window};
}

mnem_status mnem__sequence_save(const mnem_sequence *s, const int32_t *ids, uint64_t ids_checksum,
                                int32_t from, int fd, uint64_t offset) {
    const size_t ids_bytes = (size_t)s->length * sizeof *ids;
    mnem__saved_pages pages[MNEM__KV_PAGED];
    uint64_t bytes;
    MNEM__TRY(check(s, from));
    mnem__saved_header h = header_of(s, from);
    MNEM__TRY(mnem__saved_identity(s->engine, &h.identity));
    h.ids_checksum = ids_checksum;
    h.checksum = mnem__saved_header_checksum(&h);
    mnem__saved_lay_out(s->engine, &h, pages, &bytes);
    if (ids) MNEM__TRY(mnem__saved_write(fd, offset + sizeof h, ids, ids_bytes));
    for (int k = 0; k < MNEM__KV_PAGED; k++) {
        const mnem__saved_pages *p = &pages[k];
        for (int32_t i = p->begin; i < p->end; i++)
            MNEM__TRY(write_page(s, k, i, &h, fd,
                                 offset + p->at + p->record_bytes * (uint64_t)(i - p->begin)));
    }
    return mnem__saved_write(fd, offset, &h, sizeof h);
}

mnem_status mnem_sequence_save(const mnem_sequence *s, const int32_t *ids, int32_t from, int fd,
                               uint64_t offset) {
    const uint64_t sum = mnem__checksum_of(ids, (size_t)s->length * sizeof *ids);
    MNEM__TRY(mnem__engine_supports(s->engine, MNEM_FEATURE_SAVED));
    return mnem__sequence_save(s, ids, sum, from, fd, offset);
}
