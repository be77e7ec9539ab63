/* snapshot_facts.h: the data of a PyTorch snapshot other than its operations, stored with the
 * workload. Written by workload_snapshot.c, snapshot_facts.c and snapshot_site.c; read by
 * snapshot_holders.c, snapshot_failure.c and pytorch_trial.c. */
#ifndef MNEM_SRC_REPLAY_SNAPSHOT_FACTS_H
#define MNEM_SRC_REPLAY_SNAPSHOT_FACTS_H

#include "mnem/snapshot.h"
#include "replay/workload_pickle.h"

/* A segment that PyTorch reserved or released; in `segments`: one that it holds at the end. */
typedef struct mnem__reserved {
    uint64_t address, bytes;
    uint32_t taken;      /* 1: reserved, 0: released */
    uint32_t expandable; /* part of an expandable segment */
    size_t op;           /* number of operations before it */
} mnem__reserved;

typedef struct mnem__failed {
    size_t op, change; /* number of operations and of changes before it */
    uint64_t bytes, device_free;
    uint32_t stream; /* index */
    uint32_t site;
} mnem__failed;

typedef struct mnem__snapshot_facts {
    mnem_pytorch_settings settings;
    bool settings_known, timed;
    char settings_text[512];
    mnem__array changes;  /* mnem__reserved, in order */
    mnem__array segments; /* mnem__reserved: those at the end */
    mnem__array failures; /* mnem__failed */
    mnem__array address;  /* uint64_t [allocations] */
    mnem__array granted;  /* uint64_t [allocations]; 0: unknown */
    mnem__array time;     /* uint64_t [count]: microseconds; 0: unknown */
} mnem__snapshot_facts;

/* MNEM_NO_MEMORY. */
mnem_status mnem__facts_create(mnem_workload *w);
void mnem__facts_destroy(mnem__snapshot_facts *facts);
/* Reads the dict "allocator_settings"; a setting in an unknown form keeps its default. */
void mnem__facts_settings(mnem__snapshot_facts *facts, const mnem__pickle *pickle, mnem__value v);
/* Sets the last added operation's time and, of an allocation, its address. */
mnem_status mnem__facts_op(mnem_workload *w, uint64_t us, const uint64_t *address);
mnem_status mnem__facts_change(mnem__array *to, mnem__reserved change);
mnem_status mnem__facts_failure(mnem__snapshot_facts *facts, mnem__failed failure);

/* ---- sites (snapshot_site.c) ---- */
typedef struct mnem__stack_sites {
    mnem__number_map of_frames; /* frames → offset of their text */
    size_t bytes, room;
} mnem__stack_sites;

/* *at: offset of the frames' text in w->site_text; the text is "" if the site is unknown. */
mnem_status mnem__stack_site(mnem__stack_sites *sites, const mnem__pickle *pickle, mnem_workload *w,
                             mnem__value frames, uint32_t *at);
/* stack_text: the whole text; the other one: the text without folders. */
const char *mnem__stack_text(const mnem_workload *w, uint32_t at);
const char *mnem__stack_short(const mnem_workload *w, uint32_t at);

#endif
