/* mnem/trace_read.h: reads a trace that mnem wrote (trace.h), event by event, in little memory.
 *
 * The contents of a file tell whether it is Perfetto's or Chrome's format. Events come in the order
 * of time. Names, accounts and threads are numbers from 0, declared before the first event that
 * uses them; their texts are borrowed until close. Traces of other programs are refused (snapshot.h
 * reads PyTorch's, replay.h text). A file of several ranks (mnem_trace_merge) has one timeline;
 * each thread, account and event belongs to a rank.
 * Threads: a reader belongs to one thread at a time.
 *
 *     mnem_trace_reader *reader;
 *     mnem_trace_event e;
 *     mnem_trace_reader_open("run.pftrace", NULL, &reader);
 *     while (mnem_trace_reader_next(reader, &e) == 1)
 *         if (e.what == MNEM_TRACE_LIVE) plot(e.ns, e.account, e.bytes);
 *     mnem_trace_reader_close(reader);
 */
#ifndef MNEM_TRACE_READ_H
#define MNEM_TRACE_READ_H

#include "mnem/ledger.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_trace_reader mnem_trace_reader;

/* X(NAME, text) */
#define MNEM_TRACE_WHAT_LIST(X)                                                                    \
    X(LIVE, "ledger")     /* from now on, `bytes` are live in `account` */                         \
    X(REFUSED, "refusal") /* `bytes` were refused to `account`; detail: mnem_refused */            \
    X(ALLOC, "alloc")     /* a block of a pool's `account`; name: its site; id: its address */     \
    X(FREE, "free")       /* the same block is freed */                                            \
    X(BEGIN, "begin")     /* a span of `thread` begins; detail: mnem_span; bytes, if any */        \
    X(END, "end")         /* the innermost span ends; bytes: an operator's multiply-adds */        \
    X(MARK, "mark")       /* an instant event of `thread`; detail: mnem_span; bytes */             \
    X(COUNTER, "counter") /* the counter `name` has the value `bytes` from now on */               \
    X(REQUEST, "request") /* request `id` enters a phase; detail: mnem_trace_phase */              \
    X(DROPPED, "dropped") /* `bytes` events of `thread` before this one were lost */

typedef enum mnem_trace_what {
#define MNEM_TRACE_WHAT_ENUM(name, text) MNEM_TRACE_##name,
    MNEM_TRACE_WHAT_LIST(MNEM_TRACE_WHAT_ENUM)
#undef MNEM_TRACE_WHAT_ENUM
        MNEM_TRACE_WHATS
} mnem_trace_what;

/* X(NAME, text): why a request for bytes was refused. */
#define MNEM_REFUSED_LIST(X)                                                                       \
    X(CAPACITY, "capacity")           /* more than the budget, or the pool, has left */            \
    X(FRAGMENTATION, "fragmentation") /* that much is free, but not in one piece */                \
    X(LIMIT, "limit")                 /* more than is left for the account or its kind */          \
    X(SYSTEM, "system")               /* the device or the machine refused */

typedef enum mnem_refused {
#define MNEM_REFUSED_ENUM(name, text) MNEM_REFUSED_##name,
    MNEM_REFUSED_LIST(MNEM_REFUSED_ENUM)
#undef MNEM_REFUSED_ENUM
        MNEM_REFUSED_CLASSES
} mnem_refused;

/* X(NAME, text): kinds of spans and marks. */
#define MNEM_SPAN_LIST(X)                                                                          \
    X(PLAIN, "span")        /* the caller's own */                                                 \
    X(STEP, "step")         /* of an engine or of training; bytes: its number of tokens */         \
    X(OPERATOR, "operator") /* name: operator, space, its weight or tensor; bytes: moved */        \
    X(READ, "read")         /* from disk; bytes: read */                                           \
    X(STREAM, "stream")     /* marks: bytes that a device copied, or a buffer passed on */

typedef enum mnem_span {
#define MNEM_SPAN_ENUM(name, text) MNEM_SPAN_##name,
    MNEM_SPAN_LIST(MNEM_SPAN_ENUM)
#undef MNEM_SPAN_ENUM
        MNEM_SPANS
} mnem_span;

/* X(NAME, text): phases of a request. */
#define MNEM_TRACE_PHASE_LIST(X)                                                                   \
    X(QUEUED, "queued")                                                                            \
    X(BEGUN, "prompt") /* its prompt runs; again after a preemption */                             \
    X(FIRST, "answer") /* its first token was generated */                                         \
    X(ASIDE, "aside")  /* preempted: it waits for memory */                                        \
    X(ENDED, "ended")

typedef enum mnem_trace_phase {
#define MNEM_TRACE_PHASE_ENUM(name, text) MNEM_TRACE_PHASE_##name,
    MNEM_TRACE_PHASE_LIST(MNEM_TRACE_PHASE_ENUM)
#undef MNEM_TRACE_PHASE_ENUM
        MNEM_TRACE_PHASES
} mnem_trace_phase;

typedef struct mnem_trace_event {
    uint64_t ns; /* since the recording began */
    mnem_trace_what what;
    uint32_t thread; /* of spans, marks, refusals, requests and DROPPED */
    uint32_t name;
    int32_t account; /* -1: none */
    uint32_t detail; /* see the list of events */
    uint32_t stream; /* ALLOC, FREE: the pool's number of the stream, from 0 */
    uint32_t rank;   /* 0 in a trace of one process */
    uint64_t id, bytes;
} mnem_trace_event;

/* A kind and tag of one ledger or pool. */
typedef struct mnem_trace_account {
    mnem_kind kind;
    const char *tag;
    uint32_t owner; /* number of the ledger or pool */
    bool pool;
    uint32_t rank;
} mnem_trace_account;

typedef struct mnem_trace_thread {
    uint32_t tid; /* 0: several threads that shared a buffer */
    const char *name;
    uint32_t rank;
} mnem_trace_thread;

typedef struct mnem_trace_file_info {
    uint64_t events, dropped; /* in the file; lost while recording */
    uint64_t duration_ns;
    uint64_t budget_bytes; /* at the beginning; 0: none */
    uint32_t pid;
    uint32_t ranks;                           /* 0: a trace of one process */
    uint32_t names, accounts, threads, notes; /* read so far */
} mnem_trace_file_info;

/* Zero means default. */
typedef struct mnem_trace_reader_options {
    uint64_t bytes_most; /* of memory for names and threads (default 64 MiB) */
    uint32_t only;       /* 1 + a rank: read only its events, info and notes; MNEM_NOT_FOUND where
                            the file has no such rank (default: all ranks) */
} mnem_trace_reader_options;

/* options NULL: the defaults. MNEM_IO; MNEM_BAD_FILE; MNEM_UNSUPPORTED: not a trace written by
 * mnem; MNEM_OVER_BUDGET: names and threads need more than bytes_most; MNEM_NO_MEMORY. */
mnem_status mnem_trace_reader_open(const char *path, const mnem_trace_reader_options *options,
                                   mnem_trace_reader **reader);
/* 1: *event is the next event. 0: end of the file. -1: the file is malformed (mnem_last_error). */
int mnem_trace_reader_next(mnem_trace_reader *reader, mnem_trace_event *event);
/* Goes back to the first event. */
mnem_status mnem_trace_reader_rewind(mnem_trace_reader *reader);
void mnem_trace_reader_close(mnem_trace_reader *reader); /* NULL is fine */

void mnem_trace_reader_info(const mnem_trace_reader *reader, mnem_trace_file_info *info);
/* The text of a name; "" past the last. That of a site is "file:line", or "" where not known. */
const char *mnem_trace_reader_name(const mnem_trace_reader *reader, uint32_t name);
bool mnem_trace_reader_account(const mnem_trace_reader *reader, uint32_t index,
                               mnem_trace_account *account);
bool mnem_trace_reader_thread(const mnem_trace_reader *reader, uint32_t index,
                              mnem_trace_thread *thread);
/* The properties recorded with mnem_trace_note, by index (false past the last) or by key (NULL
 * where there is none). */
bool mnem_trace_reader_note(const mnem_trace_reader *reader, uint32_t index, const char **key,
                            const char **value);
const char *mnem_trace_reader_note_of(const mnem_trace_reader *reader, const char *key);

/* "refusal", "capacity", "operator", "queued"; "" for an invalid number. */
const char *mnem_trace_what_text(mnem_trace_what what);
const char *mnem_refused_text(mnem_refused refused);
const char *mnem_span_text(mnem_span span);
const char *mnem_trace_phase_text(mnem_trace_phase phase);

#ifdef __cplusplus
}
#endif
#endif
