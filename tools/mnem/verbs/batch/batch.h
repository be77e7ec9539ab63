/* batch.h: shared by the files of `mnem batch`.
 *
 *     requests ──► batch_reader ──► batch_feed (a thread) ──► http_local ──► api ──► scheduler
 *     answers  ◄── batch_output ◄──────────┘  ◄──────────────────────────────┘   (main thread)
 *
 * The plan, the API and the scheduler are those of `mnem serve` (serve_tool.h); a file takes the
 * place of clients. Memory for the files is charged before the plan: buffers of a line, a table of
 * ids, and a slot for each request without an answer.
 *
 * Only the file of answers records which requests are answered. It is read at the start, an
 * incomplete last line is cut off once the plan fits, and further answers are appended, each in one
 * write. So a run may end at any time, for any reason, and the next one continues. */
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
        SERVE_BODY_BYTES + (64 << 10), /* limit of a body, and the members around it */
};

typedef struct batch_options {
    serve_options serve; /* first: it begins with tool_args */
    const char *out;     /* NULL or "-": standard output */
} batch_options;

/* The place of a request in the file. */
typedef struct batch_place {
    uint64_t line, offset, bytes;
    bool again, alone; /* again: it is sent once more; alone: with no other under way */
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
    serve serve; /* stage, plan, API and scheduler are used; connections are not */
    const batch_options *o;
    const char *in_path;
    int in, out;    /* out -1: standard output */
    bool out_keeps; /* out is a plain file: a later run can continue it */
    bool cut;       /* the last line of out is incomplete, and begins at cut_at */
    uint64_t cut_at;
    batch_count counted; /* of the file of requests */
    batch_reader reader;
    batch_request request; /* of the reader's line */
    bool ready;            /* the request waits to be sent */
    uint64_t run;          /* model and options: batch_answer.run */
    uint64_t kept_run;     /* run of the answers of earlier runs; 0: none */
    batch_ids ids;
    batch_slot *slot; /* [slots] */
    int32_t slots, in_flight;
    int32_t most, calm; /* most: limit of in_flight, up to slots; calm: answers since it changed */
    batch_place *again; /* [2 * slots]: requests to send once more */
    int32_t again_count;
    batch_place asked;   /* the ready request's, if it is sent once more */
    bool alone;          /* a request with place.alone is under way */
    batch_slot *sending; /* while its handler runs */
    bool bounced;        /* it was refused at once because of others, and stays ready */
    int32_t full_at;     /* it is sent when fewer than these are under way; 0: no limit */
    int32_t broken;      /* consecutive answers with status 500 */
    uint64_t broken_at;  /* batch_output_end before the first of them */
    void *memory;        /* holds the arrays, buffers and the table of ids */
    uint64_t memory_bytes;
    /* Numbers of answers: kept and kept_failed of earlier runs, done and failed of this one.
     * first_failed: the first line whose request failed in this run. blank: number of lines. */
    uint64_t kept, kept_failed, done, failed, first_failed;
    uint64_t blank;
    char first_why[200];
    int code; /* exit code of the feeding thread */
    double begun;
    atomic_bool draining;
    bool said_draining;
    tool_progress progress;
} batch;

/* ---- batch_output.c: functions return exit codes, and print the message ---- */
bool batch_output_is_stdout(const batch *b);
/* Opens and locks the file of answers, if it exists. */
int batch_output_open(batch *b);
/* Creates the file if it doesn't exist, and cuts off an incomplete last line. Call it after
 * batch_output_check, when the plan fits. */
int batch_output_create(batch *b);
/* Counts the file's lines, for the plan. */
int batch_output_count(const batch *b, char *chunk, uint64_t *lines);
/* Reads the answers' ids into the table, and sets cut. Changes nothing in the file. */
int batch_output_read(batch *b);
/* Checks that the answers are of this model and these options. */
int batch_output_check(const batch *b);
/* Appends an answer; refused: the line isn't a valid request. */
void batch_output_put(batch *b, const batch_slot *slot, bool refused, int status, const char *body,
                      size_t bytes);
/* The offset after the last answer, and removing the answers after an offset. A file that isn't
 * plain stays as it is. */
uint64_t batch_output_end(const batch *b);
void batch_output_back(batch *b, uint64_t end);
int batch_output_close(batch *b);

/* ---- batch_feed.c ---- */
/* Reads the next request into b->request and sets b->ready. Lines that aren't valid requests are
 * answered with an error. false: there is no request to send now, or b->code is set. */
bool batch_feed_prepare(batch *b);
/* A thread's function: sends all requests and writes their answers. At its end it stops the
 * scheduler. */
void *batch_feed(void *batch);
http_local_answer *batch_feed_answer(void);

/* ---- batch_run.c ---- */
/* A hash of what answers depend on: the model, and options that change a text. */
uint64_t batch_run_of(const batch *b);

#endif
