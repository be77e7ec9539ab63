/* trace_merge.c: the traces of several ranks as one, by time.
 *
 * Idea: a source of events like any other (trace_source.h), whose events are those of the parts'
 * readers: the earliest of their next ones each time, its time moved by the part's shift, its
 * numbers those of tables in which each part's names, accounts and threads were put before. So what
 * writes one process writes ranks too.
 *
 *     part 0 ── next ─┐
 *     part 1 ── next ─┼─► the earliest, moved, renumbered ─► write_perfetto.c, write_chrome.c
 *     part 2 ── next ─┘
 *
 * Invariant: parts are Perfetto's files, whose tables are all there before their first event.
 * Cost: a window and the tables of each part; an event looks at the next one of every part. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "trace/trace_source.h"

typedef struct part {
    mnem_trace_reader *reader;
    uint64_t shift_ns;
    mnem_trace_event next;
    bool has;
    mnem_trace_file_info known;           /* before its first event */
    uint32_t *names, *accounts, *threads; /* their numbers in all; one allocation */
} part;

typedef struct merged {
    uint32_t count;
    part parts[];
} merged;

/* ---- tables ---- */

static mnem_status add_names(mnem__trace_tables *t, part *p, const mnem_trace_file_info *info) {
    for (uint32_t i = 0; i < info->names; i++) {
        const char *text = mnem_trace_reader_name(p->reader, i);
        MNEM__TRY(mnem__trace_name_find(t, text, strlen(text), &p->names[i]));
    }
    return MNEM_OK;
}

static mnem_status add_accounts(mnem__trace_tables *t, part *p, uint32_t rank,
                                const mnem_trace_file_info *info) {
    mnem_trace_account account;
    mnem_trace_thread thread;
    for (uint32_t i = 0; mnem_trace_reader_account(p->reader, i, &account); i++) {
        account.rank = rank;
        MNEM__TRY(mnem__trace_account_add(t, &account, &p->accounts[i]));
    }
    for (uint32_t i = 0; i < info->threads; i++) {
        mnem_trace_reader_thread(p->reader, i, &thread);
        thread.rank = rank;
        MNEM__TRY(mnem__trace_thread_add(t, &thread, strlen(thread.name), &p->threads[i]));
    }
    return MNEM_OK;
}

/* Those of rank 0 as they are; of another rank, under its number, those that say something else. */
static mnem_status add_notes(mnem__trace_tables *t, const part *first, const part *p,
                             uint32_t rank) {
    const char *key, *value;
    char own[MNEM__RANK_KEY];
    for (uint32_t i = 0; mnem_trace_reader_note(p->reader, i, &key, &value); i++) {
        mnem__trace_rank_key(own, rank, key);
        const char *theirs = rank ? mnem_trace_reader_note_of(first->reader, key) : NULL;
        if (theirs && !strcmp(theirs, value)) continue;
        MNEM__TRY(mnem__trace_note_add(t, rank ? own : key, value, strlen(value)));
    }
    return MNEM_OK;
}

static mnem_status add_part(mnem_trace_reader *reader, uint32_t rank, const mnem_trace_part *from) {
    part *p = &((merged *)reader->state)->parts[rank];
    mnem_trace_file_info info, *all = &reader->info;
    MNEM__TRY(mnem_trace_reader_open(from->path, NULL, &p->reader));
    mnem_trace_reader_info(p->reader, &info);
    p->known = info;
    p->shift_ns = from->shift_ns;
    p->names = mnem__calloc("trace", (size_t)info.names + info.accounts + info.threads + 1,
                            sizeof *p->names);
    if (!p->names) return mnem__heap_status();
    p->accounts = p->names + info.names;
    p->threads = p->accounts + info.accounts;
    MNEM__TRY(add_names(&reader->tables, p, &info));
    MNEM__TRY(add_accounts(&reader->tables, p, rank, &info));
    MNEM__TRY(mnem__trace_rank_note(&reader->tables, rank, &info, from));
    MNEM__TRY(add_notes(&reader->tables, &((merged *)reader->state)->parts[0], p, rank));
    all->events += info.events;
    all->dropped += info.dropped;
    const uint64_t ends = info.duration_ns + from->shift_ns;
    if (ends > all->duration_ns) all->duration_ns = ends;
    if (rank == 0) all->budget_bytes = info.budget_bytes;
    return MNEM_OK;
}

/* ---- events ---- */

static bool advance(part *p, int *failed) {
    const int more = mnem_trace_reader_next(p->reader, &p->next);
    p->has = more == 1;
    if (more < 0) *failed = -1;
    return more >= 0;
}

/* false: it has what wasn't there before the first event, so the part isn't one of ours. */
static bool renumber(const part *p, uint32_t rank, mnem_trace_event *e) {
    const mnem_trace_file_info *known = &p->known;
    if ((e->name && e->name >= known->names) ||
        (e->account >= 0 && (uint32_t)e->account >= known->accounts) ||
        (e->thread && e->thread >= known->threads))
        return false;
    if (known->names) e->name = p->names[e->name];
    if (e->account >= 0) e->account = (int32_t)p->accounts[e->account];
    if (known->threads) e->thread = p->threads[e->thread];
    e->ns += p->shift_ns;
    e->rank = rank;
    return true;
}

static int next(mnem_trace_reader *reader, mnem_trace_event *out) {
    merged *m = reader->state;
    int failed = 0;
    uint32_t best = m->count;
    for (uint32_t i = 0; i < m->count; i++) {
        const part *p = &m->parts[i];
        if (!p->has) continue;
        const part *b = best < m->count ? &m->parts[best] : NULL;
        if (!b || p->next.ns + p->shift_ns < b->next.ns + b->shift_ns) best = i;
    }
    if (best == m->count) return 0;
    *out = m->parts[best].next;
    if (!renumber(&m->parts[best], best, out)) {
        mnem__fail(MNEM_BAD_FILE,
                   "the trace of rank %u is damaged: an event has a name, an account or a thread "
                   "that was not declared before the first event; record it again",
                   best);
        return -1;
    }
    if (!advance(&m->parts[best], &failed)) return failed;
    return 1;
}

static mnem_status rewind_all(mnem_trace_reader *reader) {
    merged *m = reader->state;
    int failed = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        MNEM__TRY(mnem_trace_reader_rewind(m->parts[i].reader));
        if (!advance(&m->parts[i], &failed)) return MNEM_BAD_FILE;
    }
    return MNEM_OK;
}

static void close_all(mnem_trace_reader *reader) {
    merged *m = reader->state;
    for (uint32_t i = 0; i < m->count; i++) {
        mnem_trace_reader_close(m->parts[i].reader);
        mnem__free(m->parts[i].names);
    }
    mnem__free(m);
}

/* ---- all of it ---- */

static mnem_status merge_as(mnem_trace_format format, const mnem_trace_part *parts, uint32_t count,
                            const char *path) {
    static const mnem__trace_source source = {next, rewind_all, close_all};
    mnem_trace_reader *reader;
    int failed = 0;
    merged *m = mnem__calloc("trace", 1, sizeof *m + count * sizeof(part));
    if (!m) return mnem__heap_status();
    m->count = count;
    mnem_status status = mnem__trace_reader_create(&source, 0, &reader);
    if (status != MNEM_OK) {
        mnem__free(m);
        return status;
    }
    reader->state = m;
    reader->info.ranks = count;
    for (uint32_t i = 0; i < count && status == MNEM_OK; i++)
        status = add_part(reader, i, &parts[i]);
    for (uint32_t i = 0; i < count && status == MNEM_OK; i++)
        if (!advance(&m->parts[i], &failed)) status = MNEM_BAD_FILE;
    if (status == MNEM_OK) status = mnem__trace_write_as(format, reader, path);
    mnem_trace_reader_close(reader);
    return status;
}

mnem_status mnem_trace_merge(const mnem_trace_part *parts, uint32_t count, const char *path) {
    mnem_trace_format format;
    MNEM__TRY(mnem_trace_format_of(path, &format));
    if (format != MNEM_TRACE_PERFETTO && format != MNEM_TRACE_CHROME)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "trace: %s: this format supports one process only; write a .pftrace or .json", path);
    if (count < 1 || count > MNEM_TRACE_PARTS_MAX)
        return mnem__fail(MNEM_INVALID,
                          "trace: the number of parts to merge is %u, expected 1 to %d", count,
                          MNEM_TRACE_PARTS_MAX);
    return merge_as(format, parts, count, path);
}
