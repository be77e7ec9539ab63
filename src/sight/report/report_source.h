/* report_source.h: the source of a report's events: a table of functions, implemented once for
 * each format.
 *
 * Events are in order of time, which starts at 0. An account (kind and tag) has a number from 0
 * on; a site has a number too, 0 means none. Numbers keep their meaning after a rewind; the
 * texts of both live as long as the source. */
#ifndef MNEM_SRC_SIGHT_REPORT_REPORT_SOURCE_H
#define MNEM_SRC_SIGHT_REPORT_REPORT_SOURCE_H

#include "mnem/report.h"

typedef enum mnem__report_what {
    MNEM__REPORT_CHARGE,  /* account has `bytes` live now */
    MNEM__REPORT_ALLOC,   /* block id: bytes asked, granted, address, account, site */
    MNEM__REPORT_FREE,    /* block id */
    MNEM__REPORT_RESERVE, /* `bytes` at address: reserved if `granted` isn't 0, else released */
    MNEM__REPORT_REFUSE,  /* a refused request: bytes; why: class, or -1: found from free bytes */
    MNEM__REPORT_BEGIN,   /* a span of a thread begins: name; why: mnem_span; bytes, or 0 */
    MNEM__REPORT_END,
    MNEM__REPORT_RESIDENT, /* bytes: VmRSS */
    MNEM__REPORT_LEFT,   /* bytes: number of program runs so far whose operators weren't recorded */
    MNEM__REPORT_SAMPLE, /* ledger id's own sum of a kind (why), or, last, of all kinds (-1) */
    MNEM__REPORT_TICK    /* a time without an event */
} mnem__report_what;

typedef struct mnem__report_event {
    mnem__report_what what;
    int32_t account, why; /* -1: none */
    uint32_t site, name, thread;
    uint64_t at; /* ns or operations since the first event */
    uint64_t id, bytes, granted, address;
    bool before; /* the block or reserved range existed before the record began */
    bool joined; /* RESERVE: a hole may continue into the next reserved range */
} mnem__report_event;

typedef struct mnem__report_about {
    const char *format, *program, *roofs;
    bool clocked;
    bool blocks; /* the source has all blocks */
    bool places; /* blocks have addresses, and there are RESERVE events */
    uint64_t dropped, budget_bytes, predicted_bytes;
    uint64_t threads;
    uint32_t rank, ranks; /* as in the facts */
    const char *clock;
} mnem__report_about;

typedef struct mnem__report_source mnem__report_source;
struct mnem__report_source {
    /* MNEM_OK; MNEM_NOT_FOUND at the end, without an error text; or an error. */
    mnem_status (*next)(mnem__report_source *self, mnem__report_event *event);
    mnem_status (*rewind)(mnem__report_source *self);
    void (*account)(mnem__report_source *self, int32_t account, const char **kind,
                    const char **tag);
    /* Whether an account belongs to that ledger and kind (-1: any). NULL: the source has no
     * samples. */
    bool (*within)(mnem__report_source *self, int32_t account, uint64_t ledger, int32_t kind);
    const char *(*site)(mnem__report_source *self, uint32_t site);
    const char *(*name)(mnem__report_source *self, uint32_t name);
    void (*about)(mnem__report_source *self,
                  mnem__report_about *about); /* final after the last event */
    void (*close)(mnem__report_source *self);
};

/* Opens a trace recorded by mnem; of several ranks, one. MNEM_UNSUPPORTED: the file is no such
 * trace. */
mnem_status mnem__report_open_trace(const char *path, const mnem_report_options *options,
                                    mnem__report_source **source);
/* Opens a PyTorch snapshot or a text trace. */
mnem_status mnem__report_open_workload(const char *path, const mnem_report_options *options,
                                       mnem__report_source **source);

#endif
