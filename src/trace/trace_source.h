/* trace_source.h: the inside of a reader: one source of events (the recording of this process, a
 * Perfetto file, a Chrome file) and the tables that its numbers mean.
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
    void (*close)(mnem_trace_reader *reader); /* all but the tables */
} mnem__trace_source;

struct mnem_trace_reader {
    const mnem__trace_source *source;
    mnem__trace_tables tables;
    mnem_trace_file_info info; /* counts of the tables aside */
    uint32_t only;             /* 1 + a rank: the others' events are passed over */
    void *state;               /* the source's */
};

/* The recording of a trace that has ended, in memory that the trace has. */
mnem_status mnem__trace_recorded_open(mnem_trace *trace, mnem_trace_reader **reader);
/* A reader around the state of a source; on failure nothing is taken. */
mnem_status mnem__trace_reader_create(const mnem__trace_source *source, uint64_t bytes_most,
                                      mnem_trace_reader **reader);

/* Files, by what they begin with. MNEM_UNSUPPORTED: not of this kind. */
mnem_status mnem__trace_perfetto_open(const char *path, uint64_t bytes_most,
                                      mnem_trace_reader **reader);
mnem_status mnem__trace_chrome_open(const char *path, uint64_t bytes_most,
                                    mnem_trace_reader **reader);

/* Writes what a reader tells, from where it is, to a file that appears whole or not at all. */
mnem_status mnem__trace_write_as(mnem_trace_format format, mnem_trace_reader *reader,
                                 const char *path);
mnem_status mnem__trace_write_perfetto(mnem_trace_reader *reader, const char *path);
mnem_status mnem__trace_write_chrome(mnem_trace_reader *reader, const char *path);
/* Ranks of a Chrome file: its line of notes has some for each. */
enum { MNEM__CHROME_RANKS = 32 };
/* What is said of a rank: the key of a note, "rank 3" with key NULL, or "rank 3 KEY". */
enum { MNEM__RANK_KEY = 80 };
void mnem__trace_rank_key(char key[MNEM__RANK_KEY], uint32_t rank, const char *of);
mnem_status mnem__trace_rank_note(mnem__trace_tables *tables, uint32_t rank,
                                  const mnem_trace_file_info *info, const mnem_trace_part *part);

#endif
