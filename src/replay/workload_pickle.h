/* workload_pickle.h: reads a pickle as a tree of plain values, without executing code.
 *
 * A value has 8 bytes: a tag, and a number or an index. Lists, tuples and sets become lists; dicts
 * become lists of key, value, key, value. Strings that the snapshot reader looks for become words
 * (numbers). */
#ifndef MNEM_SRC_REPLAY_WORKLOAD_PICKLE_H
#define MNEM_SRC_REPLAY_WORKLOAD_PICKLE_H

#include "replay/workload_private.h"

/* X(NAME, text): the keys and strings of a snapshot. */
#define MNEM__WORD_LIST(X)                                                                         \
    X(SEGMENTS, "segments")                                                                        \
    X(DEVICE_TRACES, "device_traces")                                                              \
    X(DEVICE, "device")                                                                            \
    X(ADDRESS, "address")                                                                          \
    X(TOTAL_SIZE, "total_size")                                                                    \
    X(STREAM, "stream")                                                                            \
    X(BLOCKS, "blocks")                                                                            \
    X(SIZE, "size")                                                                                \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(STATE, "state")                                                                              \
    X(FRAMES, "frames")                                                                            \
    X(ACTION, "action")                                                                            \
    X(ADDR, "addr")                                                                                \
    X(NAME, "name")                                                                                \
    X(FILENAME, "filename")                                                                        \
    X(LINE, "line")                                                                                \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                        \
    X(ACTIVE_PENDING_FREE, "active_pending_free")                                                  \
    X(ACTIVE_AWAITING_FREE, "active_awaiting_free")                                                \
    X(INACTIVE, "inactive")                                                                        \
    X(ALLOC, "alloc")                                                                              \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_ALLOC, "segment_alloc")                                                              \
    X(SEGMENT_FREE, "segment_free")                                                                \
    X(SEGMENT_MAP, "segment_map")                                                                  \
    X(SEGMENT_UNMAP, "segment_unmap")                                                              \
    X(OOM, "oom")                                                                                  \
    X(TIME_US, "time_us")                                                                          \
    X(DEVICE_FREE, "device_free")                                                                  \
    X(IS_EXPANDABLE, "is_expandable")                                                              \
    X(ALLOCATOR_SETTINGS, "allocator_settings")                                                    \
    X(ALLOC_CONF, "PYTORCH_CUDA_ALLOC_CONF")                                                       \
    X(EXPANDABLE_SEGMENTS, "expandable_segments")                                                  \
    X(MAX_SPLIT_SIZE, "max_split_size")                                                            \
    X(COLLECTION_THRESHOLD, "garbage_collection_threshold")                                        \
    X(ROUNDUP_DIVISIONS, "roundup_power2_divisions")

typedef enum mnem__word {
    MNEM__WORD_NONE,
#define MNEM__WORD_ENUM(name, text) MNEM__WORD_##name,
    MNEM__WORD_LIST(MNEM__WORD_ENUM)
#undef MNEM__WORD_ENUM
        MNEM__WORDS
} mnem__word;

typedef enum mnem__value_tag {
    MNEM__VALUE_OTHER, /* None, bytes, an integer of more than 64 bits */
    MNEM__VALUE_SMALL, /* an integer of up to 60 bits, in the value itself */
    MNEM__VALUE_LARGE, /* an integer of 64 bits, in a table */
    MNEM__VALUE_REAL,  /* in the same table */
    MNEM__VALUE_WORD,
    MNEM__VALUE_TEXT,
    MNEM__VALUE_LIST,
    MNEM__VALUE_DICT,
} mnem__value_tag;

/* The low four bits are the tag. */
typedef uint64_t mnem__value;
static inline mnem__value_tag mnem__value_tag_of(mnem__value v) {
    return (mnem__value_tag)(v & 15);
}

typedef struct mnem__pickle mnem__pickle;

/* Reads one pickle of protocol 2 to 5. MNEM_BAD_FILE, with the byte in the error text;
 * MNEM_UNSUPPORTED: the pickle names any Python global. */
mnem_status mnem__pickle_read(mnem__input *in, mnem__pickle **pickle);
void mnem__pickle_free(mnem__pickle *pickle);
mnem__value mnem__pickle_top(const mnem__pickle *pickle);

/* An integer; false for anything else. Negative ones are two's complement. */
bool mnem__pickle_integer(const mnem__pickle *pickle, mnem__value v, int64_t *out);
/* A float; false for anything else. */
bool mnem__pickle_real(const mnem__pickle *pickle, mnem__value v, double *out);
/* The bytes of a string or word, without a terminating zero; NULL for anything else. Borrowed. */
const char *mnem__pickle_text(const mnem__pickle *pickle, mnem__value v, size_t *length);

/* Walks the elements of a list, or the keys and values of a dict in turn. */
typedef struct mnem__pickle_walk {
    uint64_t chunk, at;
} mnem__pickle_walk;
/* Of any other value: an empty walk. */
mnem__pickle_walk mnem__pickle_walk_begin(const mnem__pickle *pickle, mnem__value v);
bool mnem__pickle_walk_next(const mnem__pickle *pickle, mnem__pickle_walk *walk, mnem__value *v);

/* The values of a dict by word; OTHER for absent keys. Of equal keys the last one counts. False:
 * not a dict, or one of more than 256 keys, which no dict of a snapshot has. */
typedef struct mnem__fields {
    mnem__value of[MNEM__WORDS];
} mnem__fields;
bool mnem__pickle_fields(const mnem__pickle *pickle, mnem__value dict, mnem__fields *fields);
/* The number of elements of all lists and dicts. A walk visits shared values several times, so it
 * may visit more than this; the reader of a tree stops there. */
uint64_t mnem__pickle_elements(const mnem__pickle *pickle);
/* Returns v's word; NONE: v is no word. */
mnem__word mnem__pickle_word(mnem__value v);

#endif
