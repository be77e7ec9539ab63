/* saved_format.c: the header and the layout of a saved sequence, and its bytes on disk.
 *
 * Invariant: writing and reading lay out by the same code, from the header and from what the
 * engine's layers keep; of a file that is read, both say the same (load.c). */
#include "engine/saved/saved_private.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file/checksum.h"
#include "base/file/file_bytes.h"
#include "base/minmax.h"

/* The types of a page's keys and values: the number of the type, for those that first versions had,
 * else that of the choice beyond all types. */
static int32_t kv_number(mnem_kv_choice kv) {
    const bool first = kv == MNEM_KV_F16 || kv == MNEM_KV_Q8_0 || kv == MNEM_KV_F32;
    return first ? (int32_t)mnem_kv_type(kv) : (int32_t)kv + (1 << 20);
}

mnem__saved_header mnem__saved_header_of(const mnem_engine *e, int32_t from, int32_t length,
                                         int32_t first_window) {
    mnem__saved_header h = {.magic = MNEM__SAVED_MAGIC,
                            .from = from,
                            .length = length,
                            .ready = length,
                            .first_window = first_window,
                            .page_tokens = mnem__engine_page_tokens(e),
                            .kv_type = kv_number(e->choice.kv),
                            .states = mnem__engine_ids_kind(e) >= 0};
    mnem__saved_pages pages[MNEM__KV_PAGED];
    for (int k = 0; k < MNEM__KV_PAGED; k++) h.page_bytes[k] = e->pages[k].page_bytes;
    mnem__saved_lay_out(e, &h, pages, &h.bytes);
    return h;
}

void mnem__saved_lay_out(const mnem_engine *e, const mnem__saved_header *h,
                         mnem__saved_pages pages[MNEM__KV_PAGED], uint64_t *bytes) {
    const uint64_t tokens = (uint64_t)h->page_tokens;
    const int32_t begin = h->from / h->page_tokens;
    const int32_t held_to = mnem__engine_has_states(e) ? h->ready : h->length; /* sequence.c */
    const int32_t end = (int32_t)mnem__div_up((uint64_t)held_to, tokens);
    uint64_t record_bytes;
    uint64_t at = sizeof *h + mnem__align_up((uint64_t)h->length * sizeof(int32_t), 8);
    for (int k = 0; k < MNEM__KV_PAGED; k++) {
        mnem__saved_pages *p = &pages[k];
        const mnem__kv_need *need = mnem__engine_need(e, k);
        const int32_t held = need->forgets ? h->first_window / h->page_tokens : 0;
        const uint64_t ids = need->ids ? tokens * sizeof(int32_t) : 0;
        *p = (mnem__saved_pages){.begin = mnem__min_i32(mnem__max_i32(begin, held), end),
                                 .end = end,
                                 .at = at,
                                 .record_bytes = h->page_bytes[k] + ids + sizeof(uint64_t)};
        if (h->page_bytes[k] == 0) p->begin = p->end = 0;
        at += p->record_bytes * (uint64_t)(p->end - p->begin);
    }
    (void)mnem__saved_states_at(e, h, &record_bytes);
    *bytes = at + record_bytes * (uint64_t)h->state_count;
}

uint64_t mnem__saved_states_at(const mnem_engine *e, const mnem__saved_header *h,
                               uint64_t *record_bytes) {
    *record_bytes = e->pages[MNEM__KV_STATES].page_bytes + 2 * sizeof(uint64_t);
    return h->bytes - *record_bytes * (uint64_t)h->state_count;
}

uint64_t mnem__saved_header_checksum(const mnem__saved_header *h) {
    return mnem__checksum_of(h, offsetof(mnem__saved_header, checksum));
}

mnem__checksum mnem__saved_page_sum(int kind, int32_t number, uint64_t ids_checksum) {
    const uint64_t where[] = {ids_checksum, (uint64_t)kind, (uint64_t)number};
    mnem__checksum sum;
    mnem__checksum_init(&sum);
    mnem__checksum_add(&sum, where, sizeof where);
    return sum;
}

mnem_status mnem__saved_write(int fd, uint64_t offset, const void *bytes, size_t n) {
    if (mnem__file_write_at(fd, bytes, n, offset) == n) return MNEM_OK;
    return mnem__fail(MNEM_IO, "saved sequence: the file can't be written (%s)",
                      strerrordesc_np(errno));
}

mnem_status mnem__saved_read(int fd, uint64_t offset, void *bytes, size_t n) {
    const uint64_t got = mnem__file_read_at(fd, bytes, n, offset);
    if (got == n) return MNEM_OK;
    if (errno)
        return mnem__fail(MNEM_IO, "saved sequence: the file can't be read (%s)",
                          strerrordesc_np(errno));
    return mnem__fail(
        MNEM_BAD_FILE,
        "saved sequence: the file is cut off at byte %llu; use a copy of it, or save again",
        (unsigned long long)(offset + got));
}

enum { PIECE = 4096 };

/* Of the n bytes of a page that are left there: those that the host can have at once. */
static size_t piece_of(mnem__location page, size_t left) {
    return mnem__location_host(page) ? left : (size_t)mnem__min_u64(left, PIECE);
}

mnem_status mnem__saved_write_from(int fd, uint64_t offset, mnem__location from, size_t n,
                                   mnem__checksum *sum) {
    uint8_t copy[PIECE];
    for (size_t at = 0, some; at < n; at += some) {
        const void *piece;
        some = piece_of(from, n - at);
        MNEM__TRY(mnem__location_get(mnem__location_at(from, at), copy, some, &piece));
        mnem__checksum_add(sum, piece, some);
        MNEM__TRY(mnem__saved_write(fd, offset + at, piece, some));
    }
    return MNEM_OK;
}

mnem_status mnem__saved_read_to(int fd, uint64_t offset, mnem__location to, size_t n,
                                mnem__checksum *sum) {
    uint8_t copy[PIECE];
    for (size_t at = 0, some; at < n; at += some) {
        const mnem__location there = mnem__location_at(to, at);
        void *piece = mnem__location_open(there, copy);
        some = piece_of(to, n - at);
        MNEM__TRY(mnem__saved_read(fd, offset + at, piece, some));
        mnem__checksum_add(sum, piece, some);
        MNEM__TRY(mnem__location_put(there, piece, some));
    }
    return MNEM_OK;
}
