/* export.h: writes a trace in formats that show memory as blocks: PyTorch's snapshot, folded
 * stacks, MindStudio's tables.
 *
 *     events ──► export.c ──► account_blocks.c, pool_blocks.c ──► a format: blocks begin and end
 *
 * Events are in the order of time; a format that needs several passes gets all events again.
 * Each format is a table of functions.
 *
 * A device here is a ledger or a pool, each with its own sum. */
#ifndef MNEM_SRC_TRACE_EXPORT_EXPORT_H
#define MNEM_SRC_TRACE_EXPORT_EXPORT_H

#include "trace/export/account_blocks.h"
#include "trace/export/pool_blocks.h"
#include "trace/trace_source.h"

enum { MNEM__EXPORT_DEVICES = 64, MNEM__EXPORT_NO_SITE = 0 };

typedef struct mnem__export_device {
    uint32_t owner;
    bool pool;
    uint64_t live;
} mnem__export_device;

typedef struct mnem__export mnem__export;

/* Writers store their errors in export->status. */
typedef struct mnem__export_format {
    size_t bytes; /* of the format's data: export->own, zeroed */
    void (*open)(mnem__export *e, const char *path);
    void (*begin)(mnem__export *e, uint32_t device, const mnem__block *b);
    void (*end)(mnem__export *e, uint32_t device, const mnem__block *b, uint64_t ns);
    void (*refused)(mnem__export *e, uint32_t device, const mnem_trace_event *event); /* or NULL */
    void (*resident)(mnem__export *e, uint64_t ns, uint64_t bytes); /* VmRSS; or NULL */
    bool (*again)(mnem__export *e); /* after all events: whether another pass is needed; NULL: no */
    mnem_status (*close)(mnem__export *e, mnem_status status);
} mnem__export_format;

struct mnem__export {
    const mnem__export_format *format;
    mnem_trace_reader *reader; /* for names and accounts */
    uint64_t budget_bytes;     /* 0: none */
    mnem_status status;
    mnem__account_blocks ledgers;
    mnem__pool_blocks pools;
    mnem__export_device device[MNEM__EXPORT_DEVICES];
    uint32_t devices;
    uint32_t *device_of; /* [accounts]: device + 1; 0: not known yet */
    uint32_t accounts;
    struct mnem__span_stack *stack; /* [threads] */
    uint32_t threads;
    void *own;
};

/* Write a reader's events, from its start, to a file (ascend: a folder). They may rewind the
 * reader. */
mnem_status mnem__trace_write_snapshot(mnem_trace_reader *reader, const char *path);
mnem_status mnem__trace_write_folded(mnem_trace_reader *reader, const char *path);
mnem_status mnem__trace_write_ascend(mnem_trace_reader *reader, const char *path);

/* ---- for formats ---- */
/* What trace_read.h has: this room calls nobody above it, but through the reader's table. */
static inline const mnem_trace_account *mnem__export_account(const mnem__export *e, uint32_t i) {
    const mnem__trace_tables *t = &e->reader->tables;
    return i < t->accounts.count ? mnem__trace_account_at(t, i) : NULL;
}

mnem_status mnem__export_write(const mnem__export_format *format, mnem_trace_reader *reader,
                               const char *path);
/* The kind and the tag of a block, as names without the characters in `not`. */
typedef struct mnem__export_label {
    char kind[16], tag[256], site[256]; /* site "": unknown */
} mnem__export_label;
void mnem__export_label_of(const mnem__export *e, const mnem__block *b, const char * not,
                           mnem__export_label *label);
/* Reports every live block. */
void mnem__export_live(const mnem__export *e, void *context,
                       void (*tell)(void *context, uint32_t device, const mnem__block *b));

#endif
