/* trace_reader.c: the public reader, over any source of events. */
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "trace/trace_source.h"

mnem_status mnem__trace_reader_create(const mnem__trace_source *source, uint64_t bytes_most,
                                      mnem_trace_reader **out) {
    mnem_trace_reader *reader = mnem__calloc("trace", 1, sizeof *reader);
    *out = reader;
    if (!reader) return mnem__heap_status();
    reader->source = source;
    reader->tables.bytes_most = bytes_most;
    return MNEM_OK;
}

mnem_status mnem_trace_reader_open(const char *path, const mnem_trace_reader_options *options,
                                   mnem_trace_reader **reader) {
    const uint64_t most = options ? options->bytes_most : 0;
    *reader = NULL;
    mnem_status status = mnem__trace_perfetto_open(path, most, reader);
    if (status == MNEM_UNSUPPORTED) status = mnem__trace_chrome_open(path, most, reader);
    if (status != MNEM_OK || !options || !options->only) return status;
    (*reader)->only = options->only;
    if (options->only <= (*reader)->info.ranks) return MNEM_OK;
    const uint32_t ranks = (*reader)->info.ranks;
    mnem_trace_reader_close(*reader);
    *reader = NULL;
    return ranks ? mnem__fail(MNEM_NOT_FOUND, "%s: the trace has no rank %u (it has %u ranks)",
                              path, options->only - 1, ranks)
                 : mnem__fail(MNEM_NOT_FOUND,
                              "%s: a single process wrote this trace, so it has no ranks to choose "
                              "from; leave out the rank",
                              path);
}

void mnem_trace_reader_close(mnem_trace_reader *reader) {
    if (!reader) return;
    reader->source->close(reader);
    mnem__trace_tables_fini(&reader->tables);
    mnem__free(reader);
}

int mnem_trace_reader_next(mnem_trace_reader *reader, mnem_trace_event *event) {
    int more;
    while ((more = reader->source->next(reader, event)) == 1)
        if (!reader->only || event->rank == reader->only - 1) break;
    return more;
}

mnem_status mnem_trace_reader_rewind(mnem_trace_reader *reader) {
    return reader->source->rewind(reader);
}

/* ---- ranks ---- */

void mnem__trace_rank_key(char key[MNEM__RANK_KEY], uint32_t rank, const char *of) {
    snprintf(key, MNEM__RANK_KEY, "rank %u%s%s", rank, of ? " " : "", of ? of : "");
}

static const char rank_numbers[] = "pid %u, events %llu, dropped %llu, duration %llu, budget %llu";

mnem_status mnem__trace_rank_note(mnem__trace_tables *tables, uint32_t rank,
                                  const mnem_trace_file_info *info, const mnem_trace_part *part) {
    char key[MNEM__RANK_KEY], text[200];
    mnem__trace_rank_key(key, rank, NULL);
    int n = snprintf(text, sizeof text, rank_numbers, info->pid, (unsigned long long)info->events,
                     (unsigned long long)info->dropped, (unsigned long long)info->duration_ns,
                     (unsigned long long)info->budget_bytes);
    n += snprintf(text + n, sizeof text - (size_t)n, ", clock %lld +- %llu ns",
                  (long long)part->clock_ns, (unsigned long long)part->error_ns);
    return mnem__trace_note_add(tables, key, text, (size_t)n);
}

static const char *note_of(const mnem_trace_reader *reader, const char *key) {
    const char *is, *value;
    for (uint32_t i = 0; mnem_trace_reader_note(reader, i, &is, &value); i++)
        if (!strcmp(is, key)) return value;
    return NULL;
}

static void read_rank(const mnem_trace_reader *reader, mnem_trace_file_info *info) {
    char key[MNEM__RANK_KEY];
    unsigned pid;
    unsigned long long n[4];
    mnem__trace_rank_key(key, reader->only - 1, NULL);
    const char *text = note_of(reader, key);
    if (!text || sscanf(text, rank_numbers, &pid, &n[0], &n[1], &n[2], &n[3]) != 5) return;
    info->pid = pid;
    info->events = n[0];
    info->dropped = n[1];
    info->duration_ns = n[2];
    info->budget_bytes = n[3];
}

void mnem_trace_reader_info(const mnem_trace_reader *reader, mnem_trace_file_info *info) {
    const mnem__trace_tables *t = &reader->tables;
    *info = reader->info;
    info->names = t->names.count;
    info->accounts = t->accounts.count;
    info->threads = t->threads.count;
    info->notes = t->notes.count;
    if (reader->only) read_rank(reader, info);
}

const char *mnem_trace_reader_name(const mnem_trace_reader *reader, uint32_t name) {
    return mnem__trace_name_at(&reader->tables, name);
}

bool mnem_trace_reader_account(const mnem_trace_reader *reader, uint32_t index,
                               mnem_trace_account *account) {
    if (index >= reader->tables.accounts.count) return false;
    *account = *mnem__trace_account_at(&reader->tables, index);
    return true;
}

bool mnem_trace_reader_thread(const mnem_trace_reader *reader, uint32_t index,
                              mnem_trace_thread *thread) {
    if (index >= reader->tables.threads.count) return false;
    *thread = *mnem__trace_thread_at(&reader->tables, index);
    return true;
}

bool mnem_trace_reader_note(const mnem_trace_reader *reader, uint32_t index, const char **key,
                            const char **value) {
    if (index >= reader->tables.notes.count) return false;
    *key = mnem__trace_note_at(&reader->tables, index)->key;
    *value = mnem__trace_note_at(&reader->tables, index)->value;
    return true;
}

const char *mnem_trace_reader_note_of(const mnem_trace_reader *reader, const char *key) {
    char own[MNEM__RANK_KEY];
    if (reader->only > 1) {
        mnem__trace_rank_key(own, reader->only - 1, key);
        const char *value = note_of(reader, own);
        if (value) return value; /* else it is as rank 0's */
    }
    return note_of(reader, key);
}

/* ---- texts ---- */

static const char *text_at(const char *const *texts, unsigned i, unsigned n) {
    return i < n ? texts[i] : "";
}

const char *mnem_trace_what_text(mnem_trace_what what) {
    static const char *const texts[] = {MNEM_TRACE_WHAT_LIST(MNEM__TEXT_ROW)};
    return text_at(texts, what, MNEM_TRACE_WHATS);
}

const char *mnem_refused_text(mnem_refused refused) {
    static const char *const texts[] = {MNEM_REFUSED_LIST(MNEM__TEXT_ROW)};
    return text_at(texts, refused, MNEM_REFUSED_CLASSES);
}

const char *mnem_span_text(mnem_span span) {
    static const char *const texts[] = {MNEM_SPAN_LIST(MNEM__TEXT_ROW)};
    return text_at(texts, span, MNEM_SPANS);
}

const char *mnem_trace_phase_text(mnem_trace_phase phase) {
    static const char *const texts[] = {MNEM_TRACE_PHASE_LIST(MNEM__TEXT_ROW)};
    return text_at(texts, phase, MNEM_TRACE_PHASES);
}
