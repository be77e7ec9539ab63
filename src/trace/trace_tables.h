/* trace_tables.h: the names, accounts, threads and notes of a trace being read, by number.
 *
 * They only grow, up to a limit on their memory; texts lie in blocks that never move, so readers
 * may borrow them. */
#ifndef MNEM_SRC_TRACE_TRACE_TABLES_H
#define MNEM_SRC_TRACE_TRACE_TABLES_H

#include "base/error.h"
#include "mnem/trace_read.h"

typedef struct mnem__trace_texts mnem__trace_texts; /* a block of texts */

typedef struct mnem__trace_table {
    void *rows;
    uint32_t count, room;
} mnem__trace_table;

typedef struct mnem__trace_note {
    const char *key, *value;
} mnem__trace_note;

typedef struct mnem__trace_tables {
    mnem__trace_table names, accounts, threads, notes; /* const char *, _account, _thread, _note */
    uint32_t *hash;                                    /* of names, open addressing: number + 1 */
    uint32_t hash_mask;
    mnem__trace_texts *texts;
    uint64_t bytes, bytes_most;
    bool borrows; /* texts are used in place, with terminating zeros */
} mnem__trace_tables;

void mnem__trace_tables_fini(mnem__trace_tables *t);

/* Each gives the number of the added entry. MNEM_OVER_BUDGET: past the limit; or a status of the
 * heap. text needs no terminating zero. */
mnem_status mnem__trace_name_add(mnem__trace_tables *t, const char *text, size_t n,
                                 uint32_t *number);
/* The same text gets the same number. */
mnem_status mnem__trace_name_find(mnem__trace_tables *t, const char *text, size_t n,
                                  uint32_t *number);
mnem_status mnem__trace_account_add(mnem__trace_tables *t, const mnem_trace_account *account,
                                    uint32_t *number);
/* The same account gets the same number. */
mnem_status mnem__trace_account_find(mnem__trace_tables *t, const mnem_trace_account *account,
                                     uint32_t *number);
mnem_status mnem__trace_thread_add(mnem__trace_tables *t, const mnem_trace_thread *thread, size_t n,
                                   uint32_t *number);
mnem_status mnem__trace_note_add(mnem__trace_tables *t, const char *key, const char *value,
                                 size_t n);

static inline const char *mnem__trace_name_at(const mnem__trace_tables *t, uint32_t i) {
    return i < t->names.count ? ((const char *const *)t->names.rows)[i] : "";
}
static inline mnem_trace_account *mnem__trace_account_at(const mnem__trace_tables *t, uint32_t i) {
    return (mnem_trace_account *)t->accounts.rows + i;
}
static inline mnem_trace_thread *mnem__trace_thread_at(const mnem__trace_tables *t, uint32_t i) {
    return (mnem_trace_thread *)t->threads.rows + i;
}
static inline mnem__trace_note *mnem__trace_note_at(const mnem__trace_tables *t, uint32_t i) {
    return (mnem__trace_note *)t->notes.rows + i;
}

#endif
