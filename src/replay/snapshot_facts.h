/* snapshot_facts.h: what a snapshot says beside its operations, as it is kept with a workload:
 * between the readers (workload_snapshot.c, snapshot_facts.c, snapshot_site.c) and those who ask
 * (snapshot_holders.c, snapshot_failure.c, pytorch_trial.c). */
#ifndef MNEM_SRC_REPLAY_SNAPSHOT_FACTS_H
#define MNEM_SRC_REPLAY_SNAPSHOT_FACTS_H

#include "mnem/snapshot.h"
#include "replay/workload_pickle.h"

/* Memory that PyTorch took from the device or gave back; or, at the end, has. */
typedef struct mnem__reserved {
    uint64_t address, bytes;
    uint32_t taken;      /* 0: given back */
    uint32_t expandable; /* part of a segment that grows */
    size_t op;           /* operations before it */
} mnem__reserved;

typedef struct mnem__failed {
    size_t op, change; /* operations and changes before it */
    uint64_t bytes, device_free;
    uint32_t stream; /* index */
    uint32_t site;
} mnem__failed;

typedef struct mnem__snapshot_facts {
    mnem_pytorch_settings settings;
    bool settings_known, timed;
    char settings_text[512];
    mnem__array changes;  /* mnem__reserved, in order */
    mnem__array segments; /* mnem__reserved: the end */
    mnem__array failures; /* mnem__failed */
    mnem__array address;  /* uint64_t [allocations] */
    mnem__array granted;  /* uint64_t [allocations]; 0: nobody knows */
    mnem__array time;     /* uint64_t [count]: microseconds; 0: nobody knows */
} mnem__snapshot_facts;

/* MNEM_NO_MEMORY. */
mnem_status mnem__facts_create(mnem_workload *w);
void mnem__facts_destroy(mnem__snapshot_facts *facts);
/* The dict "allocator_settings"; what isn't as PyTorch writes it is left at its default. */
void mnem__facts_settings(mnem__snapshot_facts *facts, const mnem__pickle *pickle, mnem__value v);
/* Of the operation that was added last: its time and, of an allocation, its address. */
mnem_status mnem__facts_op(mnem_workload *w, uint64_t us, const uint64_t *address);
mnem_status mnem__facts_change(mnem__array *to, mnem__reserved change);
mnem_status mnem__facts_failure(mnem__snapshot_facts *facts, mnem__failed failure);

/* ---- sites (snapshot_site.c) ---- */
typedef struct mnem__stack_sites {
    mnem__number_map of_frames; /* frames → where their text lies */
    size_t bytes, room;
} mnem__stack_sites;

/* *at: where the text of these frames lies in w->site_text: "" where nothing is known. */
mnem_status mnem__stack_site(mnem__stack_sites *sites, const mnem__pickle *pickle, mnem_workload *w,
                             mnem__value frames, uint32_t *at);
/* The whole text, and the part of it behind the folders. */
const char *mnem__stack_text(const mnem_workload *w, uint32_t at);
const char *mnem__stack_short(const mnem_workload *w, uint32_t at);

#endif
