/* probe_private.h: shared by the parts of a probe: the run, its samples, the machine. */
#ifndef MNEM_SRC_SIGHT_PROBE_PROBE_PRIVATE_H
#define MNEM_SRC_SIGHT_PROBE_PROBE_PRIVATE_H

#include <stdbool.h>

#include "base/cpu.h"
#include "sight/probe/probe_kernels.h"

/* The figures of the last MNEM__PROBE_SAMPLES passes. */
enum { MNEM__PROBE_SAMPLES = 32 };
typedef struct mnem__probe_samples {
    float value[MNEM__PROBE_SAMPLES];
    int32_t count; /* the number of passes so far */
    int64_t times; /* repetitions of the work in a pass; 0: not known yet */
    double best;
} mnem__probe_samples;

/* large: larger figures are better. */
void mnem__probe_sample(mnem__probe_samples *samples, double value, bool large);
mnem_probe_value mnem__probe_value(const mnem__probe_samples *samples, bool large);

/* ---- what the system reports about the machine (probe_system.c) ---- */
typedef struct mnem__probe_system {
    char processor[64];
    uint64_t cache_bytes[3]; /* data caches, L1 to L3; 0: not reported */
    int32_t cache_shared[3]; /* number of processors that share the cache */
    uint64_t memory_bytes;
} mnem__probe_system;
void mnem__probe_system_get(mnem__probe_system *system);
/* Reads the data caches of a processor, L1 to L3, from sysfs below root (""; tests give a folder).
 * Values that sysfs doesn't have are unchanged. */
void mnem__probe_caches(const char *root, int processor, uint64_t bytes[3], int32_t shared[3]);
/* Total bytes of the last-level caches that so many processors use. */
uint64_t mnem__probe_last_bytes(const mnem__probe_system *system, int32_t processors);
/* The kernels of a level. */
const mnem__probe_kernels *mnem__probe_kernels_get(mnem__cpu_level level);
/* Whether the processor multiplies pairs of bf16. */
bool mnem__probe_has_pairs(void);
/* Writes the names of the processor's arithmetic that no kernel here uses. */
void mnem__probe_unused(char *text, size_t n);

/* ---- one run ---- */
typedef struct mnem__probe_run mnem__probe_run;

/* A block of pages, charged to the ledger. */
typedef struct mnem__probe_block {
    char *bytes;
    uint64_t size;
    uint64_t cycle; /* number of nodes of its pointer cycle; 0: no cycle */
    char *at;       /* the node from which the next chase starts */
} mnem__probe_block;

struct mnem__probe_run {
    const mnem_probe_options *options;
    mnem_probe *probe;
    mnem__probe_system system;
    mnem_team *team;
    mnem__probe_block huge, small; /* blocks in pages of 2 MiB and of 4 KiB */
    const mnem__probe_kernels *kernels;
    double seconds;            /* the requested duration */
    double begun, until, last; /* times of the clock: the start, the planned end, the latest end */
    uint64_t random;
    int next; /* index of the next short pass */
    mnem__probe_samples rate[MNEM_PROBE_LEVELS][MNEM_PROBE_TEAMS][MNEM_PROBE_STREAMS];
    mnem__probe_samples latency[MNEM_PROBE_LEVELS][2];
    mnem__probe_samples size[MNEM_PROBE_SIZES][2];
    mnem__probe_samples peak[MNEM_PROBE_PEAKS][2];
    mnem__probe_samples clock, clock_wide, disk, disk_wait;
    const mnem__probe_arithmetic *arithmetic[MNEM_PROBE_PEAKS];
};

/* Whether the caller has cancelled the run. */
bool mnem__probe_stopped(const mnem__probe_run *run);

/* ---- latency (probe_chase.c) ---- */
/* begin: makes a cycle of one node. grow: inserts nodes at random places, until it fills bytes. */
void mnem__probe_cycle_begin(mnem__probe_block *block);
void mnem__probe_cycle_grow(mnem__probe_block *block, uint64_t bytes, uint64_t *random);
/* Sets the sizes of the curve, four per doubling. */
void mnem__probe_sizes(mnem__probe_run *run);
/* One pass over all sizes that fit into the block. */
void mnem__probe_curve(mnem__probe_run *run, bool small);
/* Measures the latency of a level. Cache: the median of several passes is one figure; memory: each
 * pass is one. */
void mnem__probe_latency(mnem__probe_run *run, int level, bool small);
void mnem__probe_latency_memory(mnem__probe_run *run, bool small);
/* Finds the sizes at which the curve leaves each level. */
void mnem__probe_knees(mnem_probe *probe);

/* ---- bandwidth (probe_streams.c) ---- */
/* Sets the bytes that a thread passes over at each level. */
void mnem__probe_rate_bytes(mnem__probe_run *run);
/* One pass of a stream by a team: repeated over a cache, or one sweep through memory. */
void mnem__probe_rate(mnem__probe_run *run, int level, int team, mnem_probe_stream stream);
void mnem__probe_rate_memory(mnem__probe_run *run, int team, mnem_probe_stream stream);

/* ---- arithmetic (probe_peaks.c) ---- */
void mnem__probe_peaks_begin(mnem__probe_run *run);
/* Measures one kind of arithmetic, with one thread or with all. */
void mnem__probe_peak(mnem__probe_run *run, int index, bool all);
void mnem__probe_clock(mnem__probe_run *run);

/* ---- a disk (probe_disk.c) ---- */
void mnem__probe_disk(mnem__probe_run *run);

#endif
