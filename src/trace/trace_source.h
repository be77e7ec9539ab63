/* trace_source.h: the implementation of a reader: a source of events (the recording of this
 * process, a Perfetto file, a Chrome file), and the tables of its numbers.
 *
 *     recording ─┐                          ┌─► write_perfetto.c
 *     Perfetto  ─┼─► mnem_trace_reader_next ┼─► write_chrome.c
 *     Chrome    ─┘    mnem_trace_event      └─► reports, other writers */
#ifndef MNEM_SRC_TRACE_TRACE_SOURCE_H
#define MNEM_SRC_TRACE_TRACE_SOURCE_H

#include "mnem/trace.h"
#include "mnem/trace_read.h"
#include "trace/trace_tables.h"

typedef struct mnem__trace_source {
    int (*next)(mnem_trace_reader *reader, mnem_trace_event *event);
    mnem_status (*rewind)(mnem_trace_reader *reader);
    void (*close)(mnem_trace_reader *reader); /* without the tables */
} mnem__trace_source;

struct mnem_trace_reader {
    const mnem__trace_source *source;
    mnem__trace_tables tables;
    mnem_trace_file_info info; /* without counts of the tables */
    uint32_t only;             /* 1 + a rank: events of other ranks are skipped */
    void *state;               /* the source's */
};

/* Opens the recording of an ended trace, in the trace's memory. */
mnem_status mnem__trace_recorded_open(mnem_trace *trace, mnem_trace_reader **reader);
/* Makes a reader around the state of a source; after an error the caller still owns the state. */
mnem_status mnem__trace_reader_create(const mnem__trace_source *source, uint64_t bytes_most,
                                      mnem_trace_reader **reader);

/* Open files, recognized by their first bytes. MNEM_UNSUPPORTED: another kind. */
mnem_status mnem__trace_perfetto_open(const char *path, uint64_t bytes_most,
                                      mnem_trace_reader **reader);
mnem_status mnem__trace_chrome_open(const char *path, uint64_t bytes_most,
                                    mnem_trace_reader **reader);

/* Writes a reader's events, from its position on, to a file that appears complete or not at all. */
mnem_status mnem__trace_write_as(mnem_trace_format format, mnem_trace_reader *reader,
                                 const char *path);
mnem_status mnem__trace_write_perfetto(mnem_trace_reader *reader, const char *path);
mnem_status mnem__trace_write_chrome(mnem_trace_reader *reader, const char *path);
/* The most ranks of a Chrome file, whose line of notes has some for each. */
enum { MNEM__CHROME_RANKS = 32 };
/* The key of a note about a rank: "rank 3" with key NULL, or "rank 3 KEY". */
enum { MNEM__RANK_KEY = 80 };
void mnem__trace_rank_key(char key[MNEM__RANK_KEY], uint32_t rank, const char *of);
mnem_status mnem__trace_rank_note(mnem__trace_tables *tables, uint32_t rank,
                                  const mnem_trace_file_info *info, const mnem_trace_part *part);

#endif
