/* report_source.h: where a report's events come from: a table of functions, with an adapter for
 * each format.
 *
 * Events come in order of time, which begins at 0. An account is a kind and a tag, a number from 0
 * on; a site is a number too, 0 for none. Both keep their meaning after a rewind, and what their
 * texts say lives as long as the source. */
#ifndef MNEM_SRC_SIGHT_REPORT_REPORT_SOURCE_H
#define MNEM_SRC_SIGHT_REPORT_REPORT_SOURCE_H

#include "mnem/report.h"

typedef enum mnem__report_what {
    MNEM__REPORT_CHARGE,  /* account has `bytes` live now */
    MNEM__REPORT_ALLOC,   /* block id: bytes asked, granted, address, account, site */
    MNEM__REPORT_FREE,    /* block id */
    MNEM__REPORT_RESERVE, /* `bytes` at address: taken where `granted` isn't 0, or given back */
    MNEM__REPORT_REFUSE,  /* bytes; class, or -1: by what is free */
    MNEM__REPORT_BEGIN,   /* a span of a thread: name; why: mnem_span; bytes, or 0 */
    MNEM__REPORT_END,
    MNEM__REPORT_RESIDENT, /* bytes: VmRSS */
    MNEM__REPORT_LEFT,     /* bytes: runs of programs so far whose operators weren't told */
    MNEM__REPORT_SAMPLE, /* ledger id's own sum of a kind (why), or of all (-1), which comes last */
    MNEM__REPORT_TICK    /* nothing but a moment */
} mnem__report_what;

typedef struct mnem__report_event {
    mnem__report_what what;
    int32_t account, why; /* -1: none */
    uint32_t site, name, thread;
    uint64_t at; /* ns or operations since the first event */
    uint64_t id, bytes, granted, address;
    bool before; /* of a block or of what is reserved: so when the record began */
    bool joined; /* of reserved bytes: a hole may go on into the next that are */
} mnem__report_event;

typedef struct mnem__report_about {
    const char *format, *program, *roofs;
    bool clocked;
    bool blocks; /* all of them are told */
    bool places; /* they have addresses, and RESERVE tells what is reserved */
    uint64_t dropped, budget_bytes, predicted_bytes;
    uint64_t threads;
    uint32_t rank, ranks; /* as the facts have them */
    const char *clock;
} mnem__report_about;

typedef struct mnem__report_source mnem__report_source;
struct mnem__report_source {
    /* MNEM_OK; MNEM_NOT_FOUND at the end, without a text; or what went wrong. */
    mnem_status (*next)(mnem__report_source *self, mnem__report_event *event);
    mnem_status (*rewind)(mnem__report_source *self);
    void (*account)(mnem__report_source *self, int32_t account, const char **kind,
                    const char **tag);
    /* Whether it is of that ledger, and of that kind (-1: any). NULL: nothing is sampled. */
    bool (*within)(mnem__report_source *self, int32_t account, uint64_t ledger, int32_t kind);
    const char *(*site)(mnem__report_source *self, uint32_t site);
    const char *(*name)(mnem__report_source *self, uint32_t name);
    void (*about)(mnem__report_source *self, mnem__report_about *about); /* final at the end */
    void (*close)(mnem__report_source *self);
};

/* Traces that mnem recorded, of one rank where there are several; MNEM_UNSUPPORTED: it's none. */
mnem_status mnem__report_open_trace(const char *path, const mnem_report_options *options,
                                    mnem__report_source **source);
/* PyTorch snapshots and text traces. */
mnem_status mnem__report_open_workload(const char *path, const mnem_report_options *options,
                                       mnem__report_source **source);

#endif
