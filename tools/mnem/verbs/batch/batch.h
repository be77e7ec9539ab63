/* batch.h: what the files of `mnem batch` share.
 *
 *     requests ──► batch_reader ──► batch_feed (a thread) ──► http_local ──► api ──► scheduler
 *     answers  ◄── batch_output ◄──────────┘  ◄──────────────────────────────┘   (main thread)
 *
 * The plan, the API and the scheduler are those of `mnem serve` (serve_tool.h); in place of clients
 * there is a file. What the files take is charged before the plan: buffers of a line, a table of
 * ids, a slot for each request without an answer.
 *
 * Which answers there are is in the file of answers alone: it is read at the start, an incomplete
 * last line is cut off, and what follows is appended, each answer in one write. So a run may end at
 * any time, in any way. */
#ifndef MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_H
#define MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_H

#include "server/http/http_local.h"
#include "verbs/batch/batch_ids.h"
#include "verbs/batch/batch_line.h"
#include "verbs/batch/batch_reader.h"
#include "verbs/serve/serve_tool.h"

enum {
    BATCH_PARALLEL = 64,
    BATCH_LINE_MOST =
        SERVE_BODY_BYTES + (64 << 10), /* a body of a server's, and what is around it */
};

typedef struct batch_options {
    serve_options serve; /* first: it begins with tool_args */
    const char *out;     /* NULL or "-": standard output */
} batch_options;

/* Where a request is in the file. */
typedef struct batch_place {
    uint64_t line, offset, bytes;
    bool again, alone; /* it is asked again; and nothing beside it */
} batch_place;

struct batch;
/* A request without an answer. */
typedef struct batch_slot {
    struct batch *batch;
    batch_place place;
    bool used;
    size_t id_bytes;
    char id[BATCH_ID_MOST];
} batch_slot;

typedef struct batch {
    serve serve; /* its stage, plan, API and scheduler; not its connections */
    const batch_options *o;
    const char *in_path;
    int in, out;         /* out: -1: standard output */
    bool out_keeps;      /* it is a file that a stopped run goes on with */
    batch_count counted; /* lines of the requests */
    batch_reader reader;
    batch_request request; /* of the reader's line */
    bool ready;            /* it waits to be sent */
    uint64_t run;          /* model and options: batch_answer.run */
    uint64_t kept_run;     /* of the answers that are there; 0: none */
    batch_ids ids;
    batch_slot *slot; /* [slots] */
    int32_t slots, in_flight;
    int32_t most, calm; /* that may be under way now, up to slots; answers since it changed */
    batch_place *again; /* [2 * slots] */
    int32_t again_count;
    batch_place asked;   /* what is ready, if it is asked again */
    bool alone;          /* such a one is under way, with nothing beside it */
    batch_slot *sending; /* while its handler runs */
    bool bounced;        /* it was refused for others, and is sent again after one of these: */
    int32_t full_at;     /* when fewer are under way; 0: it wasn't */
    int32_t broken;      /* answers of 500 in a row */
    void *memory;        /* all of the above */
    uint64_t memory_bytes;
    /* Lines, but blank ones; answers of earlier runs in kept and kept_failed. */
    uint64_t kept, kept_failed, done, failed, first_failed;
    uint64_t blank;
    char first_why[200];
    int code; /* of the feeder: an exit code */
    double begun;
    atomic_bool draining;
    bool said_draining;
    tool_progress progress;
} batch;

/* ---- batch_output.c: exit codes, with the message printed ---- */
bool batch_output_is_stdout(const batch *b);
/* Opens the answers and locks them, if they are there. */
int batch_output_open(batch *b);
/* Otherwise makes their file: not before the plan fits. */
int batch_output_create(batch *b);
/* Counts their lines, for the plan. */
int batch_output_count(const batch *b, char *chunk, uint64_t *lines);
/* Reads them into the table of ids, and cuts off an incomplete last line. */
int batch_output_read(batch *b);
/* Are they of this model and these options? */
int batch_output_check(const batch *b);
/* Appends an answer; refused: the line was no request. */
void batch_output_put(batch *b, const batch_slot *slot, bool refused, int status, const char *body,
                      size_t bytes);
int batch_output_close(batch *b);

/* ---- batch_feed.c ---- */
/* The next request into b->ready; lines that are none are answered on the way. false: there is
 * none, or b->code is set. */
bool batch_feed_prepare(batch *b);
/* Sends all and writes their answers; on its own thread, which stops the scheduler at its end. */
void *batch_feed(void *batch);
http_local_answer *batch_feed_answer(void);

/* ---- batch_run.c ---- */
/* What the answers depend on: the model, and options that change a text. */
uint64_t batch_run_of(const batch *b);

#endif
