/* mnem/trace_read.h: reads a trace that mnem wrote (trace.h), event by event, in little memory.
 *
 * Perfetto's and Chrome's files are told apart by what is in them. Events come in the order of
 * their times. Names, accounts and threads are numbers from 0, known from the first event that has
 * them; their texts are borrowed until close. Traces of others are refused (snapshot.h reads
 * PyTorch's, replay.h text). A file of several ranks (mnem_trace_merge) has one timeline: threads
 * and accounts are a rank's, and so are events.
 * Threads: one reader, one thread at a time.
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
    X(LIVE, "ledger")     /* account: bytes are live in it from now on */                          \
    X(REFUSED, "refusal") /* account: bytes were asked for; detail: a class */                     \
    X(ALLOC, "alloc")     /* of a pool's account at the site name: id is the address */            \
    X(FREE, "free")       /* the same */                                                           \
    X(BEGIN, "begin")     /* a span of thread: name; detail: a sort; bytes, if it has any */       \
    X(END, "end")         /* of its last span that began; bytes: an operator's multiply-adds */    \
    X(MARK, "mark")       /* a moment of thread: name; detail: a sort; bytes */                    \
    X(COUNTER, "counter") /* name is bytes from now on */                                          \
    X(REQUEST, "request") /* id is the request; detail: its phase */                               \
    X(DROPPED, "dropped") /* bytes events of thread before this one weren't kept */

typedef enum mnem_trace_what {
#define MNEM_TRACE_WHAT_ENUM(name, text) MNEM_TRACE_##name,
    MNEM_TRACE_WHAT_LIST(MNEM_TRACE_WHAT_ENUM)
#undef MNEM_TRACE_WHAT_ENUM
        MNEM_TRACE_WHATS
} mnem_trace_what;

/* X(NAME, text): why a request for bytes was refused. */
#define MNEM_REFUSED_LIST(X)                                                                       \
    X(CAPACITY, "capacity")           /* more than is left of the budget, or of the pool */        \
    X(FRAGMENTATION, "fragmentation") /* that much is free, but not in one piece */                \
    X(LIMIT, "limit")                 /* more than is left for the account or its kind */          \
    X(SYSTEM, "system")               /* the device or the machine refused */

typedef enum mnem_refused {
#define MNEM_REFUSED_ENUM(name, text) MNEM_REFUSED_##name,
    MNEM_REFUSED_LIST(MNEM_REFUSED_ENUM)
#undef MNEM_REFUSED_ENUM
        MNEM_REFUSED_CLASSES
} mnem_refused;

/* X(NAME, text): sorts of spans and marks. */
#define MNEM_SPAN_LIST(X)                                                                          \
    X(PLAIN, "span")        /* the caller's own */                                                 \
    X(STEP, "step")         /* of an engine or of training; bytes: tokens of it */                 \
    X(OPERATOR, "operator") /* name: operator, a blank, its weight or tensor; bytes: it moves */   \
    X(READ, "read")         /* from disk; bytes */                                                 \
    X(STREAM, "stream")     /* of a device: bytes copied; marks: made, ended */

typedef enum mnem_span {
#define MNEM_SPAN_ENUM(name, text) MNEM_SPAN_##name,
    MNEM_SPAN_LIST(MNEM_SPAN_ENUM)
#undef MNEM_SPAN_ENUM
        MNEM_SPANS
} mnem_span;

/* X(NAME, text): phases of a request. */
#define MNEM_TRACE_PHASE_LIST(X)                                                                   \
    X(QUEUED, "queued")                                                                            \
    X(BEGUN, "prompt") /* its prompt runs, again after it was set aside */                         \
    X(FIRST, "answer") /* its first token is there */                                              \
    X(ASIDE, "aside")  /* it waits for memory */                                                   \
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
    uint32_t thread; /* of spans, marks, refusals, requests, what was dropped */
    uint32_t name;
    int32_t account; /* -1: none */
    uint32_t detail; /* see the list */
    uint32_t stream; /* ALLOC, FREE: the pool's number of it, from 0 */
    uint32_t rank;   /* whose it is; 0 where there is one process */
    uint64_t id, bytes;
} mnem_trace_event;

/* Kind and tag in a ledger or in a pool. Each of these has a number of its own. */
typedef struct mnem_trace_account {
    mnem_kind kind;
    const char *tag;
    uint32_t owner;
    bool pool;
    uint32_t rank;
} mnem_trace_account;

typedef struct mnem_trace_thread {
    uint32_t tid; /* 0: several threads that shared a buffer */
    const char *name;
    uint32_t rank;
} mnem_trace_thread;

typedef struct mnem_trace_file_info {
    uint64_t events, dropped; /* in all; what wasn't kept */
    uint64_t duration_ns;
    uint64_t budget_bytes; /* at the beginning; 0: none */
    uint32_t pid;
    uint32_t ranks;                           /* of a file of several; else 0 */
    uint32_t names, accounts, threads, notes; /* known so far */
} mnem_trace_file_info;

/* Zero means default. */
typedef struct mnem_trace_reader_options {
    uint64_t bytes_most; /* of memory: more names than that takes are refused (default 64 MiB) */
    uint32_t only;       /* 1 + a rank: its events, info and notes alone; MNEM_NOT_FOUND: the file
                            has none such (default: all of them) */
} mnem_trace_reader_options;

/* options NULL: the defaults. MNEM_IO; MNEM_BAD_FILE; MNEM_UNSUPPORTED: not a trace of ours;
 * MNEM_OVER_BUDGET: past bytes_most; a status of the heap. */
mnem_status mnem_trace_reader_open(const char *path, const mnem_trace_reader_options *options,
                                   mnem_trace_reader **reader);
/* 1: *event is the next one. 0: there is none. -1: the file is wrong here (mnem_last_error). */
int mnem_trace_reader_next(mnem_trace_reader *reader, mnem_trace_event *event);
/* From the first event again. */
mnem_status mnem_trace_reader_rewind(mnem_trace_reader *reader);
void mnem_trace_reader_close(mnem_trace_reader *reader); /* NULL is fine */

void mnem_trace_reader_info(const mnem_trace_reader *reader, mnem_trace_file_info *info);
/* "" past the last. A site's is "file:line", or "" where it isn't known. */
const char *mnem_trace_reader_name(const mnem_trace_reader *reader, uint32_t name);
bool mnem_trace_reader_account(const mnem_trace_reader *reader, uint32_t index,
                               mnem_trace_account *account);
bool mnem_trace_reader_thread(const mnem_trace_reader *reader, uint32_t index,
                              mnem_trace_thread *thread);
/* What was noted of the whole run; false past the last. By key: NULL when there is none. */
bool mnem_trace_reader_note(const mnem_trace_reader *reader, uint32_t index, const char **key,
                            const char **value);
const char *mnem_trace_reader_note_of(const mnem_trace_reader *reader, const char *key);

/* "refusal", "capacity", "operator", "queued". "" for a number that isn't one. */
const char *mnem_trace_what_text(mnem_trace_what what);
const char *mnem_refused_text(mnem_refused refused);
const char *mnem_span_text(mnem_span span);
const char *mnem_trace_phase_text(mnem_trace_phase phase);

#ifdef __cplusplus
}
#endif
#endif
