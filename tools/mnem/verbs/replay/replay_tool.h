/* replay_tool.h: shared by the files of `mnem replay`. */
#ifndef MNEM_TOOLS_MNEM_VERBS_REPLAY_REPLAY_TOOL_H
#define MNEM_TOOLS_MNEM_VERBS_REPLAY_REPLAY_TOOL_H

#include "options.h"

enum { REPLAY_POLICIES_MAX = 16 };

typedef struct replay_options {
    tool_args args;
    const char *policy, *svg, *trace;
    uint64_t capacity, align, segment; /* 0: not given */
    int32_t device;
    bool timeline;
} replay_options;

typedef struct replay_case {
    const tool_args *args;
    const replay_options *asked;
    const char *path;
    mnem_workload *workload;
    mnem_workload_info info;
    const char *names[REPLAY_POLICIES_MAX]; /* maps and timelines show the first one */
    mnem_replay_result results[REPLAY_POLICIES_MAX];
    int policies;
    mnem_replay_settings settings; /* of every target */
} replay_case;

/* replay_input.c: opens a trace: a path, "-", or one that ends in ".xz". Exit code, with the
 * message printed. */
int replay_input_open(const replay_options *asked, const char *path, mnem_workload **workload);

/* replay_advice.c: the advice for a trace. */
typedef struct replay_advice {
    const mnem_replay_result *choice; /* NULL: nothing to advise */
    const mnem_replay_result *least;  /* needs the least memory */
    uint64_t bytes_max, segment_bytes;
    uint64_t upstream_calls; /* with the advised segment */
    uint64_t bytes_reserved; /* with that segment */
    uint64_t segment_tight;  /* the segment that reserves least */
    uint64_t reserved_tight, calls_tight;
    uint64_t bytes_other, bytes_saved; /* the bytes of the compared policy, and the difference */
    const char *other;
} replay_advice;
mnem_status replay_advice_make(const replay_case *c, replay_advice *advice);
void replay_advice_print(const replay_case *c, const replay_advice *advice);
json_t *replay_advice_json(const replay_advice *advice);

/* replay_draw.c: the memory map of one policy over time, as SVG. Exit code. */
int replay_draw(const replay_case *c, const char *file);

/* replay_record.c: its bytes, for --trace. Exit code. */
int replay_record(const replay_case *c);

/* replay_timeline.c: reserved and live over time. */
int replay_timeline(const replay_case *c);

/* ---- shared functions ---- */

/* The number of allocations from this operation on; a replay ends at the first refusal. */
uint64_t replay_unserved(const mnem_workload_info *info, size_t from);

/* Replays the first policy once more, for a picture: it grows within the given capacity, or
 * reserves all memory at the start if it can't grow. A refusal ends the replay, and isn't an
 * error. */
mnem_status replay_again(const replay_case *c,
                         void (*on_box)(void *context, const mnem_replay_box *box),
                         void (*on_moment)(void *context, const mnem_replay_moment *moment),
                         void *context);

#endif
