/* bench.h: the measurements of `mnem bench`, and their output. */
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

/* A measurement at several lengths. */
typedef struct bench_lengths {
    int32_t tokens[BENCH_LENGTHS]; /* none is 0 */
    double rate[BENCH_LENGTHS];    /* tokens per second, the best */
    int count;
} bench_lengths;

typedef struct bench {
    const bench_options *asked;
    tool_stage *stage;
    bench_lengths prompt, generated, together; /* together: all sequences at once */
    mnem_comm_link link;                       /* the measured link between ranks */
    int32_t repeats;
    double bytes_per_token;           /* weights that one token reads */
    double macs_per_token, head_macs; /* tool_token_work */
    double prompt_limit; /* prompt tokens/s that the products would allow; 0: unknown */
    bool sparse;         /* some weights are 2:4, whose products take less time */
    bool measured; /* the machine was measured, too: in more memory than the model's plan has */
    tool_profile_age age;
    double model_load;   /* part of the processors' time that others used during the model's run */
    double beaten;       /* bytes/s of the run that caused a new measurement of the profile; or 0 */
    uint64_t peak_bytes; /* of the process, before the machine was measured */
} bench;

/* The most tokens per second of any length. */
double bench_best(const bench_lengths *of);
/* Whether generation read so many bytes/s that the profile must be too low (not due to caches). */
bool bench_is_beaten(const bench *b);
/* Prints a table, or JSON if requested. */
void bench_print(const bench *b);

#endif
