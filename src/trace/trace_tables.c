/* trace_tables.c: rows that double, texts in blocks of 16 KiB, and a hash over the names for files
 * that repeat them. */
#include "trace/trace_tables.h"

#include <string.h>

#include "base/heap.h"

enum { TEXTS_BYTES = 16 << 10, ROWS_FIRST = 64, BYTES_MOST_DEFAULT = 64 << 20 };

struct mnem__trace_texts {
    mnem__trace_texts *next;
    size_t used, room;
    char text[];
};

void mnem__trace_tables_fini(mnem__trace_tables *t) {
    while (t->texts) {
        mnem__trace_texts *next = t->texts->next;
        mnem__free(t->texts);
        t->texts = next;
    }
    mnem__free(t->names.rows);
    mnem__free(t->accounts.rows);
    mnem__free(t->threads.rows);
    mnem__free(t->notes.rows);
    mnem__free(t->hash);
    *t = (mnem__trace_tables){.bytes_most = t->bytes_most};
}

static mnem_status charge_tables(mnem__trace_tables *t, uint64_t bytes) {
    const uint64_t most = t->bytes_most ? t->bytes_most : BYTES_MOST_DEFAULT;
    if (bytes > most - t->bytes)
        return mnem__fail(
            MNEM_OVER_BUDGET,
            "the trace's tables of names and threads need more memory than the limit, %llu bytes",
            (unsigned long long)most);
    t->bytes += bytes;
    return MNEM_OK;
}

static mnem_status text_add(mnem__trace_tables *t, const char *text, size_t n, const char **out) {
    if (t->borrows) {
        *out = text;
        return MNEM_OK;
    }
    if (!t->texts || t->texts->room - t->texts->used < n + 1) {
        const size_t room = n + 1 > TEXTS_BYTES ? n + 1 : TEXTS_BYTES;
        MNEM__TRY(charge_tables(t, sizeof *t->texts + room));
        mnem__trace_texts *b = mnem__alloc("trace", sizeof *b + room);
        if (!b) return mnem__heap_status();
        *b = (mnem__trace_texts){.next = t->texts, .room = room};
        t->texts = b;
    }
    char *to = t->texts->text + t->texts->used;
    if (n) memcpy(to, text, n); /* a name that isn't there is NULL */
    to[n] = 0;
    t->texts->used += n + 1;
    *out = to;
    return MNEM_OK;
}

/* A row more, its place in *row. */
static mnem_status row_add(mnem__trace_tables *t, mnem__trace_table *table, size_t size,
                           void **row) {
    if (table->count == table->room) {
        const uint32_t room = table->room ? 2 * table->room : ROWS_FIRST;
        MNEM__TRY(charge_tables(t, (uint64_t)(room - table->room) * size));
        void *rows = mnem__realloc("trace", table->rows, (size_t)room * size);
        if (!rows) return mnem__heap_status();
        table->rows = rows;
        table->room = room;
    }
    *row = (char *)table->rows + (size_t)table->count++ * size;
    return MNEM_OK;
}

mnem_status mnem__trace_name_add(mnem__trace_tables *t, const char *text, size_t n,
                                 uint32_t *number) {
    const char *copy = NULL;
    void *row = NULL;
    MNEM__TRY(text_add(t, text, n, &copy));
    MNEM__TRY(row_add(t, &t->names, sizeof copy, &row));
    memcpy(row, &copy, sizeof copy);
    *number = t->names.count - 1;
    return MNEM_OK;
}

/* ---- names by their text ---- */

static uint32_t hash_of(const char *text, size_t n) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
    return h ^ h >> 15;
}

static uint32_t *hash_at(const mnem__trace_tables *t, const char *text, size_t n) {
    for (uint32_t at = hash_of(text, n);; at++) {
        uint32_t *slot = &t->hash[at & t->hash_mask];
        if (!*slot) return slot;
        const char *is = mnem__trace_name_at(t, *slot - 1);
        if (!strncmp(is, text, n) && !is[n]) return slot;
    }
}

/* At most half of it is in use. */
static mnem_status hash_grow(mnem__trace_tables *t) {
    if (t->hash && 2 * (t->names.count + 1) <= t->hash_mask) return MNEM_OK;
    const uint32_t size = t->hash ? 2 * (t->hash_mask + 1) : 4 * ROWS_FIRST;
    MNEM__TRY(charge_tables(t, (uint64_t)size * sizeof *t->hash));
    uint32_t *hash = mnem__calloc("trace", size, sizeof *hash);
    if (!hash) return mnem__heap_status();
    mnem__free(t->hash);
    t->hash = hash;
    t->hash_mask = size - 1;
    for (uint32_t i = 0; i < t->names.count; i++) {
        const char *text = mnem__trace_name_at(t, i);
        *hash_at(t, text, strlen(text)) = i + 1;
    }
    return MNEM_OK;
}

mnem_status mnem__trace_name_find(mnem__trace_tables *t, const char *text, size_t n,
                                  uint32_t *number) {
    MNEM__TRY(hash_grow(t));
    n = strnlen(text, n);
    uint32_t *slot = hash_at(t, text, n);
    if (!*slot) {
        MNEM__TRY(mnem__trace_name_add(t, text, n, number));
        *slot = *number + 1;
    }
    *number = *slot - 1;
    return MNEM_OK;
}

/* ---- accounts, threads, notes ---- */

mnem_status mnem__trace_account_add(mnem__trace_tables *t, const mnem_trace_account *account,
                                    uint32_t *number) {
    mnem_trace_account copy = *account;
    void *row = NULL;
    MNEM__TRY(text_add(t, account->tag, strlen(account->tag), &copy.tag));
    MNEM__TRY(row_add(t, &t->accounts, sizeof copy, &row));
    memcpy(row, &copy, sizeof copy);
    *number = t->accounts.count - 1;
    return MNEM_OK;
}

/* A few dozen accounts: the newest are asked for again soonest, but a scan is short either way. */
mnem_status mnem__trace_account_find(mnem__trace_tables *t, const mnem_trace_account *account,
                                     uint32_t *number) {
    for (uint32_t i = 0; i < t->accounts.count; i++) {
        const mnem_trace_account *a = mnem__trace_account_at(t, i);
        if (a->kind != account->kind || a->owner != account->owner || a->pool != account->pool ||
            a->rank != account->rank)
            continue;
        if (strcmp(a->tag, account->tag) != 0) continue;
        *number = i;
        return MNEM_OK;
    }
    return mnem__trace_account_add(t, account, number);
}

mnem_status mnem__trace_thread_add(mnem__trace_tables *t, const mnem_trace_thread *thread, size_t n,
                                   uint32_t *number) {
    mnem_trace_thread copy = *thread;
    void *row = NULL;
    MNEM__TRY(text_add(t, thread->name, n, &copy.name));
    MNEM__TRY(row_add(t, &t->threads, sizeof copy, &row));
    memcpy(row, &copy, sizeof copy);
    *number = t->threads.count - 1;
    return MNEM_OK;
}

mnem_status mnem__trace_note_add(mnem__trace_tables *t, const char *key, const char *value,
                                 size_t n) {
    mnem__trace_note note = {0};
    void *row = NULL;
    MNEM__TRY(text_add(t, key, strlen(key), &note.key));
    MNEM__TRY(text_add(t, value, n, &note.value));
    MNEM__TRY(row_add(t, &t->notes, sizeof note, &row));
    memcpy(row, &note, sizeof note);
    return MNEM_OK;
}
