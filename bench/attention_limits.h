/* attention_limits.h: the two limits of attention, measured: a loop that only reads memory, and
 * loops of multiply-adds between registers, of each kind that a level of kernels uses. */
#ifndef MNEM_BENCH_ATTENTION_LIMITS_H
#define MNEM_BENCH_ATTENTION_LIMITS_H

#include <stdint.h>

#include "base/cpu.h"
#include "mnem/mnem.h"

typedef enum multiply_kind {
    MULTIPLY_FLOATS, /* fma of f32: f16 pages */
    MULTIPLY_BYTES,  /* four products of bytes a sum: keys of q8_0 */
    MULTIPLY_WORDS,  /* two products of words a sum: values of q8_0 */
    MULTIPLY_KINDS,
} multiply_kind;

/* Seconds of one run of a team: of one thread its processor time, which others on the machine
 * hardly change; of several the clock's. */
double limit_run_seconds(mnem_team *team, mnem_team_function *function, void *context);

/* Multiply-adds a second of all members of a team together; 0: the level has no such loop. */
double limit_multiplying(mnem_team *team, mnem__cpu_level level, multiply_kind kind);

/* Reads bytes, an equal part by each member. */
void limit_read(const mnem_worker *worker, const void *data, uint64_t bytes);

/* The clock of limit_run_seconds, of the calling thread. */
double limit_now(const mnem_worker *worker);

#endif
