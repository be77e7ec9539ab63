/* guard_text.c: a misuse as a line of text: its kind, the block, and the call sites. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "mnem/live.h"

const char *mnem_misuse_what_text(mnem_misuse_what what) {
    static const char *const texts[] = {MNEM_MISUSE_LIST(MNEM__TEXT_ROW)};
    return (unsigned)what < MNEM_MISUSE_COUNT ? texts[what] : "unknown misuse";
}

enum { PLACE_BYTES = 256, PART_BYTES = 400 };

/* "model.c:120", or what stands for a place that isn't known. */
static const char *place_text(const mnem_source *s, const char *unknown, char *out, size_t n) {
    if (!s->file) return unknown;
    snprintf(out, n, "%.200s:%u", s->file, s->line);
    return out;
}

static void block_text(const mnem_misuse *m, char *out, size_t n) {
    char taken[PLACE_BYTES];
    if (!m->tag) {
        snprintf(out, n, "an unknown block");
        return;
    }
    snprintf(out, n, "%s %s (%llu bytes, allocated at %s)", mnem_kind_text(m->kind), m->tag,
             (unsigned long long)m->bytes, place_text(&m->taken, "?", taken, sizeof taken));
}

/* The first wrong byte, by its distance from the block. */
static void bytes_text(const mnem_misuse *m, char *out, size_t n) {
    const unsigned long long wrong = m->wrong;
    const char *s = wrong == 1 ? "" : "s";
    const int64_t past = m->offset - (int64_t)m->bytes;
    if (!m->tag)
        snprintf(out, n, "%llu byte%s, the first at address 0x%llx", wrong, s,
                 (unsigned long long)m->address);
    else if (m->offset < 0)
        snprintf(out, n, "%llu byte%s, the first %lld before the start", wrong, s,
                 -(long long)m->offset);
    else if (past >= 0)
        snprintf(out, n, "%llu byte%s, the first %lld past the end", wrong, s, (long long)past + 1);
    else
        snprintf(out, n, "%llu byte%s, the first at offset %lld", wrong, s, (long long)m->offset);
}

char *mnem_misuse_text(const mnem_misuse *m, char *out, size_t n) {
    char block[PART_BYTES], bytes[PART_BYTES], freed[PLACE_BYTES], caller[PLACE_BYTES];
    const char *what = mnem_misuse_what_text(m->what);
    const char *free_at = place_text(&m->freed, NULL, freed, sizeof freed);
    const char *call_at = place_text(&m->caller, "a check", caller, sizeof caller);
    block_text(m, block, sizeof block);
    bytes_text(m, bytes, sizeof bytes);
    switch (m->what) {
    case MNEM_MISUSE_DOUBLE_FREE:
    case MNEM_MISUSE_FOREIGN_FREE:
        snprintf(out, n, "%s at %s: %s%s%s", what, call_at, block, free_at ? ", freed at " : "",
                 free_at ? free_at : "");
        break;
    case MNEM_MISUSE_USE_AFTER_FREE:
        snprintf(out, n, "%s of %s%s%s: %s; found by %s", what, block, free_at ? ", freed at " : "",
                 free_at ? free_at : "", bytes, call_at);
        break;
    default:
        snprintf(out, n, "%s of %s: %s; found by %s%s", what, block, bytes,
                 m->caller.file ? "the free at " : "", call_at);
    }
    return out;
}
