/* workload_private.h: shared by the trace readers: input bytes, and the workload that they
 * build. */
#ifndef MNEM_SRC_REPLAY_WORKLOAD_PRIVATE_H
#define MNEM_SRC_REPLAY_WORKLOAD_PRIVATE_H

#include <string.h>

#include "base/heap.h"
#include "mnem/replay.h"

/* ---- input: a window over a file, a pipe or memory ---- */
typedef struct mnem__input {
    const char *name;
    int fd;                  /* -1: memory */
    const uint8_t *at, *end; /* the unread bytes of the window */
    uint64_t before;         /* offset of the window in the file */
    uint8_t *buffer;         /* the window; NULL for memory */
    const uint8_t *start;
    const mnem_workload_options *options;
} mnem__input;

enum { MNEM__INPUT_WINDOW = 1 << 18 };

/* Reads until at least n bytes (at most the window's size) are at `at`, or the file ends; *have:
 * the number of bytes there. MNEM_IO, MNEM_CANCELLED. */
mnem_status mnem__input_need(mnem__input *in, size_t n, size_t *have);
static inline uint64_t mnem__input_offset(const mnem__input *in) {
    return in->before + (uint64_t)(in->at - in->start);
}

/* ---- an array that grows; the caller knows the element size ---- */
typedef struct mnem__array {
    void *p;
    size_t count, room;
} mnem__array;

/* Reserves space for n more elements. */
static inline bool mnem__array_reserve(mnem__array *a, size_t n, size_t size) {
    if (a->room - a->count >= n) return true;
    size_t room = a->room ? a->room * 2 : 256;
    while (room - a->count < n) room *= 2;
    void *p = mnem__realloc("workload", a->p, room * size);
    if (!p) return false;
    a->p = p;
    a->room = room;
    return true;
}

static inline mnem_status mnem__array_append(mnem__array *a, const void *element, size_t size) {
    if (!mnem__array_reserve(a, 1, size)) return mnem__heap_status();
    memcpy((char *)a->p + a->count++ * size, element, size);
    return MNEM_OK;
}

/* ---- a map from numbers (ids, addresses, streams) to indices ---- */
typedef struct mnem__number_map {
    struct mnem__number_slot *slots;
    size_t count, room; /* room: capacity, a power of two or 0 */
} mnem__number_map;
enum { MNEM__NUMBER_NONE = UINT32_MAX };
/* The value of key, or MNEM__NUMBER_NONE. */
uint32_t mnem__number_get(const mnem__number_map *map, uint64_t key);
/* Sets the value of key; false: out of memory. The value NONE keeps the key in the map. */
bool mnem__number_set(mnem__number_map *map, uint64_t key, uint32_t value);
void mnem__number_fini(mnem__number_map *map);

/* ---- output: the workload under construction ---- */
typedef struct mnem__live_block {
    uint64_t bytes; /* 0 after its free */
    uint32_t stream;
} mnem__live_block;

struct mnem_workload {
    mnem_workload_info info; /* info.ops is set at the end */
    mnem_workload_op *ops;
    size_t room;
    mnem__live_block *blocks; /* [allocations]; freed at the end of reading */
    size_t blocks_room;
    uint64_t live;
    uint32_t blocks_live;
    mnem__number_map streams;
    char *site_text;                    /* in the form of snapshot_site.c; NULL: no sites */
    uint32_t *site_at;                  /* [allocations]: into site_text */
    struct mnem__snapshot_facts *facts; /* NULL: no snapshot */
};

/* stream is the number in the file. The error text has no position: the reader adds the line or the
 * byte. */
mnem_status mnem__workload_alloc(mnem_workload *w, uint64_t bytes, uint64_t stream,
                                 uint32_t *block);
mnem_status mnem__workload_stream(mnem_workload *w, uint64_t stream, uint32_t *index);
/* MNEM_BAD_FILE: the block isn't live. */
mnem_status mnem__workload_free(mnem_workload *w, uint32_t block, uint64_t stream);
/* The same, on the stream of the block's allocation. */
mnem_status mnem__workload_free_there(mnem_workload *w, uint32_t block);

/* ---- readers: each reads the whole input ---- */
mnem_status mnem__workload_read_text(mnem__input *in, mnem_workload *w);
mnem_status mnem__workload_read_snapshot(mnem__input *in, mnem_workload *w);

#endif
