/* bench.h: what `mnem bench` measures, and how it is shown. */
#ifndef MNEM_TOOLS_MNEM_VERBS_MEASURE_BENCH_H
#define MNEM_TOOLS_MNEM_VERBS_MEASURE_BENCH_H

#include "ranks/ranks.h"
#include "sight/profile_age.h"
#include "stage.h"

enum { BENCH_LENGTHS = 8 };

typedef struct bench_options {
    tool_args args;
    tool_session_asked session;
    const char *prompt_tokens, *tokens; /* lists */
    int32_t repeats;                    /* 0: not given */
    int32_t sequences;                  /* 0: one */
    bool refresh, no_history;
} bench_options;

/* What is measured at several lengths. */
typedef struct bench_lengths {
    int32_t tokens[BENCH_LENGTHS]; /* none is 0 */
    double rate[BENCH_LENGTHS];    /* tokens per second, the best */
    int count;
} bench_lengths;

typedef struct bench {
    const bench_options *asked;
    tool_stage *stage;
    bench_lengths prompt, generated, together; /* together: of all sequences */
    mnem_comm_link link;                       /* between ranks, measured */
    int32_t repeats;
    double bytes_per_token;           /* weights that one token reads */
    double macs_per_token, head_macs; /* tool_token_work */
    bool sparse;                      /* some are 2:4, whose products take less time */
    bool measured; /* the machine, too: in more memory than is planned for the model */
    tool_profile_age age;
    double model_load;   /* part of the processors' time that others took while the model ran */
    double beaten;       /* what the run read a second when the profile was measured again; 0 */
    uint64_t peak_bytes; /* of the process, before that */
} bench;

/* The most tokens per second of any length. */
double bench_best(const bench_lengths *of);
/* Generation read so many bytes a second that the profile is too low, and caches are not why. */
bool bench_is_beaten(const bench *b);
/* A table, or JSON if it is asked for. */
void bench_print(const bench *b);

#endif
