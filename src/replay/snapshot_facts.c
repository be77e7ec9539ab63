/* snapshot_facts.c: keeps what a snapshot says beside its operations: settings, addresses, times,
 * memory taken and given back, and requests that failed.
 *
 * Nothing here is trusted: numbers of the file are kept as numbers, and who computes with them
 * bounds what they can do. Cost: 24 bytes for each operation, 24 for each segment's change. */
#include "replay/snapshot_facts.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"

mnem_status mnem__facts_create(mnem_workload *w) {
    w->facts = mnem__calloc("workload", 1, sizeof *w->facts);
    return w->facts ? MNEM_OK : mnem__heap_status();
}

void mnem__facts_destroy(mnem__snapshot_facts *f) {
    if (!f) return;
    mnem__free(f->changes.p);
    mnem__free(f->segments.p);
    mnem__free(f->failures.p);
    mnem__free(f->address.p);
    mnem__free(f->granted.p);
    mnem__free(f->time.p);
    mnem__free(f);
}

/* ---- settings ---- */

static void copy_text(const mnem__pickle *pickle, mnem__value v, char *out, size_t room) {
    size_t n;
    const char *text = mnem__pickle_text(pickle, v, &n);
    if (!text) n = 0;
    if (n > room - 1) n = room - 1;
    for (size_t i = 0; i < n; i++) out[i] = text[i] >= 32 && text[i] < 127 ? text[i] : '?';
    out[n] = 0;
}

/* {"1": 0, "2": 4, ...}: keys are MiB, powers of two. */
static void read_divisions(mnem_pytorch_settings *s, const mnem__pickle *pickle, mnem__value v) {
    mnem__pickle_walk walk = mnem__pickle_walk_begin(pickle, v);
    mnem__value key, value;
    if (mnem__value_tag_of(v) != MNEM__VALUE_DICT) return;
    for (int i = 0; i < MNEM_PYTORCH_SIZES; i++) {
        char text[8];
        int64_t n;
        if (!mnem__pickle_walk_next(pickle, &walk, &key) ||
            !mnem__pickle_walk_next(pickle, &walk, &value))
            return;
        copy_text(pickle, key, text, sizeof text);
        for (unsigned k = 0; k < MNEM_PYTORCH_SIZES; k++) {
            char wanted[8];
            snprintf(wanted, sizeof wanted, "%u", 1u << k);
            if (strcmp(text, wanted) == 0 && mnem__pickle_integer(pickle, value, &n) && n > 0 &&
                n <= 1024)
                s->roundup_divisions[k] = (uint32_t)n;
        }
    }
}

void mnem__facts_settings(mnem__snapshot_facts *f, const mnem__pickle *pickle, mnem__value v) {
    mnem__fields of;
    int64_t n;
    double part;
    if (!mnem__pickle_fields(pickle, v, &of)) return;
    f->settings_known = true;
    copy_text(pickle, of.of[MNEM__WORD_ALLOC_CONF], f->settings_text, sizeof f->settings_text);
    if (mnem__pickle_integer(pickle, of.of[MNEM__WORD_EXPANDABLE_SEGMENTS], &n))
        f->settings.expandable_segments = n != 0;
    if (mnem__pickle_integer(pickle, of.of[MNEM__WORD_MAX_SPLIT_SIZE], &n) && n > 0)
        f->settings.max_split_bytes = (uint64_t)n;
    if (mnem__pickle_real(pickle, of.of[MNEM__WORD_COLLECTION_THRESHOLD], &part) && part > 0 &&
        part < 1)
        f->settings.garbage_collection_threshold = part;
    read_divisions(&f->settings, pickle, of.of[MNEM__WORD_ROUNDUP_DIVISIONS]);
}

bool mnem_snapshot_settings(const mnem_workload *w, mnem_pytorch_settings *settings,
                            const char **text) {
    const mnem__snapshot_facts *f = w->facts;
    *settings = f ? f->settings : (mnem_pytorch_settings){0};
    *text = f ? f->settings_text : "";
    return f && f->settings_known;
}

/* ---- events ---- */

mnem_status mnem__facts_op(mnem_workload *w, uint64_t us, const uint64_t *address) {
    mnem__snapshot_facts *f = w->facts;
    const uint64_t unknown = 0;
    MNEM__TRY(mnem__array_append(&f->time, &us, sizeof us));
    f->timed = f->timed || us;
    if (!address) return MNEM_OK;
    MNEM__TRY(mnem__array_append(&f->granted, &unknown, sizeof unknown));
    return mnem__array_append(&f->address, address, sizeof *address);
}

mnem_status mnem__facts_change(mnem__array *to, mnem__reserved change) {
    return mnem__array_append(to, &change, sizeof change);
}

mnem_status mnem__facts_failure(mnem__snapshot_facts *f, mnem__failed failure) {
    return mnem__array_append(&f->failures, &failure, sizeof failure);
}

size_t mnem_snapshot_failures(const mnem_workload *w) {
    return w->facts ? w->facts->failures.count : 0;
}
