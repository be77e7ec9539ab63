/* probe_private.h: what a probe's parts share: the run, its samples, the machine. */
#ifndef MNEM_SRC_SIGHT_PROBE_PROBE_PRIVATE_H
#define MNEM_SRC_SIGHT_PROBE_PROBE_PRIVATE_H

#include <stdbool.h>

#include "base/cpu.h"
#include "sight/probe/probe_kernels.h"

/* Figures of passes; those past the last replace the first again. */
enum { MNEM__PROBE_SAMPLES = 32 };
typedef struct mnem__probe_samples {
    float value[MNEM__PROBE_SAMPLES];
    int32_t count; /* all passes so far */
    int64_t times; /* how much work of its kind makes a pass; 0: not known */
    double best;
} mnem__probe_samples;

/* large: the best is the largest. */
void mnem__probe_sample(mnem__probe_samples *samples, double value, bool large);
mnem_probe_value mnem__probe_value(const mnem__probe_samples *samples, bool large);

/* ---- the machine, as it says (probe_system.c) ---- */
typedef struct mnem__probe_system {
    char processor[64];
    uint64_t cache_bytes[3]; /* of data, L1 to L3; 0: not said */
    int32_t cache_shared[3]; /* processors that share it */
    uint64_t memory_bytes;
} mnem__probe_system;
void mnem__probe_system_get(mnem__probe_system *system);
/* Caches of data of a processor, L1 to L3, by root's sysfs ("" is the machine): what it says
 * replaces what is there. */
void mnem__probe_caches(const char *root, int processor, uint64_t bytes[3], int32_t shared[3]);
/* Bytes of the last level, of which `shared` processors have one each. */
uint64_t mnem__probe_last_bytes(const mnem__probe_system *system, int32_t processors);
/* Kernels of the processor's level. */
const mnem__probe_kernels *mnem__probe_kernels_get(mnem__cpu_level level);
/* Has it pairs of bf16? */
bool mnem__probe_has_pairs(void);
/* Names of arithmetic that the processor has and no kernel here uses. */
void mnem__probe_unused(char *text, size_t n);

/* ---- one run ---- */
typedef struct mnem__probe_run mnem__probe_run;

/* A block of pages, charged. */
typedef struct mnem__probe_block {
    char *bytes;
    uint64_t size;
    uint64_t cycle; /* nodes of the cycle in it; 0: none */
    char *at;       /* the node where the next chase begins */
} mnem__probe_block;

struct mnem__probe_run {
    const mnem_probe_options *options;
    mnem_probe *probe;
    mnem__probe_system system;
    mnem_team *team;
    mnem__probe_block huge, small; /* pages of 2 MiB, of 4 KiB */
    const mnem__probe_kernels *kernels;
    double seconds;            /* that it is asked to take */
    double begun, until, last; /* seconds of the clock: begun, should end, must end */
    uint64_t random;
    int next; /* of the short passes */
    mnem__probe_samples rate[MNEM_PROBE_LEVELS][MNEM_PROBE_TEAMS][MNEM_PROBE_STREAMS];
    mnem__probe_samples latency[MNEM_PROBE_LEVELS][2];
    mnem__probe_samples size[MNEM_PROBE_SIZES][2];
    mnem__probe_samples peak[MNEM_PROBE_PEAKS][2];
    mnem__probe_samples clock, clock_wide, disk, disk_wait;
    const mnem__probe_arithmetic *arithmetic[MNEM_PROBE_PEAKS];
};

/* Is there somebody who wants it to stop? */
bool mnem__probe_stopped(const mnem__probe_run *run);

/* ---- latency (probe_chase.c) ---- */
/* A cycle of one node; more nodes behind random ones, as many as these bytes have. */
void mnem__probe_cycle_begin(mnem__probe_block *block);
void mnem__probe_cycle_grow(mnem__probe_block *block, uint64_t bytes, uint64_t *random);
/* Sizes of the curve, ascending by a fourth of an octave. */
void mnem__probe_sizes(mnem__probe_run *run);
/* One pass over all sizes that fit into the block. */
void mnem__probe_curve(mnem__probe_run *run, bool small);
/* A run of passes at a cache, whose median is one figure; memory's passes are figures each. */
void mnem__probe_latency(mnem__probe_run *run, int level, bool small);
void mnem__probe_latency_memory(mnem__probe_run *run, bool small);
/* Where the curve leaves each level. */
void mnem__probe_knees(mnem_probe *probe);

/* ---- bandwidth (probe_streams.c) ---- */
/* Bytes that a thread goes through at each level. */
void mnem__probe_rate_bytes(mnem__probe_run *run);
/* One pass of a stream and team at a cache; a sweep through memory. */
void mnem__probe_rate(mnem__probe_run *run, int level, int team, mnem_probe_stream stream);
void mnem__probe_rate_memory(mnem__probe_run *run, int team, mnem_probe_stream stream);

/* ---- arithmetic (probe_peaks.c) ---- */
void mnem__probe_peaks_begin(mnem__probe_run *run);
/* By one thread, or by all. */
void mnem__probe_peak(mnem__probe_run *run, int index, bool all);
void mnem__probe_clock(mnem__probe_run *run);

/* ---- a disk (probe_disk.c) ---- */
void mnem__probe_disk(mnem__probe_run *run);

#endif
