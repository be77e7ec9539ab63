/* weights.h: the matrices of a model by handle: resident, or streamed through a ring of slots.
 *
 * A matrix is cut into chunks of whole groups of 16 rows; a resident matrix is one chunk. A pass
 * uses the matrices of the body in order, or those of the head. The owner schedules passes before
 * running them; the reader's thread reads and packs chunks into free slots in that order, ahead of
 * their use, and when nothing more is scheduled guesses that a body comes next. (Two threads, so
 * that one reads while the other packs; reads are fastest when the ring lies in huge pages, which
 * host blocks of whole units of 2 MiB do.)
 *
 *     schedule(BODY), schedule(HEAD)
 *     for each matrix of the body:  do { acquire → compute rows → release } while (!chunk.last)
 *
 * Experts that aren't resident are no part of a pass: which of them a layer needs is known only
 * when its router has run. They are read when they are wanted (mnem_graph_experts) into slots of a
 * block of their own, and stay there until others are worth more (expert_cache.h).
 *
 * Memory: three blocks of the owner's, carved by the code that measures them. Nothing is allocated
 * after create. acquire, release and schedule are called from one thread. */
#ifndef MNEM_SRC_MODEL_WEIGHTS_WEIGHTS_H
#define MNEM_SRC_MODEL_WEIGHTS_WEIGHTS_H

#include "device/location.h"
#include "mnem/graph.h"
#include "mnem/model.h"
#include "model/architecture/row_spans.h"

typedef enum mnem__pass { MNEM__PASS_BODY, MNEM__PASS_HEAD, MNEM__PASSES } mnem__pass;

typedef struct mnem__weights_options {
    const mnem_model *model;
    /* Matrices: tensor indices, each [rows, k] of a weight type, or [experts, rows, k], rows a
     * multiple of 16: gates, ups and downs one after another; first body_count of the body in
     * the order of use, then head_count of the head; extra_count more follow, which no pass uses,
     * resident or absent (an embedding table that isn't also the output). */
    const int32_t *tensors;
    const mnem__row_spans *rows; /* of each those that are here; NULL: all */
    const bool *resident;        /* for each; not resident extra matrices are not loaded at all */
    int32_t body_count, head_count, extra_count;
    int32_t slots;        /* at least 2 when anything is streamed; 0: choose */
    uint64_t slot_bytes;  /* multiple of 4096; 0: choose */
    int32_t expert_slots; /* for experts that aren't resident; 0: the least */
    bool page_cache;
    int32_t first_handle; /* of the source: the handle of the first matrix */
    const void *(*more)(void *context, int32_t handle); /* a resident matrix of others; NULL */
    void *more_context;
    mnem_on_experts *on_experts; /* told what is wanted, with the number of the mixture; NULL */
    void *on_experts_context;
} mnem__weights_options;

typedef struct mnem__weights_sizes {
    uint64_t resident_bytes;    /* block 1: kind weights */
    uint64_t expert_bytes;      /* block 3, of slots: kind weights */
    uint64_t ring_bytes;        /* block 2: kind io; also used while loading resident matrices */
    uint64_t host_bytes;        /* heap: tables */
    uint64_t expert_host_bytes; /* of it, for experts that aren't resident */
    uint64_t stack_bytes;       /* the reader's thread: kind runtime */
    uint64_t streamed_bytes_body, streamed_bytes_head; /* read from disk per pass */
    int32_t slots;
    uint64_t slot_bytes;
    /* Of experts that aren't resident: how many there are, slots for them, bytes of a slot, of all
     * in the file. */
    int32_t expert_total, expert_slots;
    uint64_t expert_slot_bytes, expert_file_bytes;
    bool direct_io;
} mnem__weights_sizes;
/* Is the ring needed after loading? */
static inline bool mnem__weights_stream(const mnem__weights_sizes *sizes) {
    return sizes->streamed_bytes_body + sizes->streamed_bytes_head > 0;
}
/* Computes what create would take. MNEM_INVALID when a slot can't hold 16 rows of a matrix. */
mnem_status mnem__weights_measure(const mnem__weights_options *options, mnem__weights_sizes *sizes);

/* Tells which bytes of which of the model's files are read of all that isn't absent; ends at the
 * first status that isn't MNEM_OK. */
typedef mnem_status mnem__on_weights_range(void *context, uint32_t file, uint64_t offset,
                                           uint64_t bytes);
mnem_status mnem__weights_ranges(const mnem__weights_options *options, mnem__on_weights_range *tell,
                                 void *context);

typedef struct mnem__weights mnem__weights;
/* 4096-byte aligned, of the measured sizes; kept by the owner until destroy, but the ring only
 * until load returns where nothing is streamed. */
typedef struct mnem__weights_blocks {
    mnem__location resident; /* of a device on which the graphs run */
    void *ring, *experts;    /* the host writes them, and the device reads them there */
} mnem__weights_blocks;
mnem_status mnem__weights_create(const mnem__weights_options *options,
                                 const mnem__weights_blocks *blocks, mnem__weights **weights);
void mnem__weights_destroy(mnem__weights *weights);
/* Reads and packs every resident matrix (several reads in flight), then starts the reader. */
mnem_status mnem__weights_load(mnem__weights *weights, const mnem_progress *progress);

/* MNEM_BUSY when 64 passes are scheduled and not begun. A pass that streams nothing needs
 * nothing. */
mnem_status mnem__weights_schedule(mnem__weights *weights, mnem__pass pass);

/* The next chunk of matrix (index into tensors), which must be the next one in the schedule; waits
 * for the disk. A resident one has slot -1. The next chunk may be acquired before the last one is
 * released: two may be held. A read error is returned here, and again by every later call. */
mnem_status mnem__weights_acquire(mnem__weights *weights, int32_t matrix, mnem_graph_chunk *chunk);
void mnem__weights_release(mnem__weights *weights, const mnem_graph_chunk *chunk);
/* Forgets the schedule (a pass was cancelled); what was read ahead may be read again. */
mnem_status mnem__weights_rewind(mnem__weights *weights);
/* A tensor that is a matrix, or matrices of the same shape below each other. */
static inline int64_t mnem__matrix_rows(const mnem_tensor_info *info) {
    return info->dims == 3 ? info->shape[0] * info->shape[1] : info->shape[0];
}
static inline int64_t mnem__matrix_k(const mnem_tensor_info *info) {
    return info->shape[info->dims - 1];
}
static inline uint64_t mnem__matrix_group_bytes(const mnem_tensor_info *info) {
    const int64_t k = mnem__matrix_k(info);
    return info->layout == MNEM_LAYOUT_SPARSE ? mnem_sparse_group_bytes(info->type, k)
                                              : mnem_pack_group_bytes(info->type, k);
}
static inline uint64_t mnem__matrix_pack_bytes(const mnem_tensor_info *info) {
    const int64_t rows = mnem__matrix_rows(info), k = mnem__matrix_k(info);
    return info->layout == MNEM_LAYOUT_SPARSE ? mnem_sparse_bytes(info->type, rows, k)
                                              : mnem_pack_bytes(info->type, rows, k);
}

/* What its tensor is called in the file. */
const char *mnem__weights_name(const mnem__weights *weights, int32_t matrix);
/* Where the packed matrix lies, if it is resident; else there are no bytes. */
mnem__location mnem__weights_at(const mnem__weights *weights, int32_t matrix);
/* The same for operators only, or NULL. */
const void *mnem__weights_resident(const mnem__weights *weights, int32_t matrix);

/* The same as a source for a graph: its handles are indices from options.first_handle on, those of
 * matrices behind them are asked of options.more. */
mnem_graph_weights mnem__weights_source(mnem__weights *weights);

typedef struct mnem__weights_stats {
    uint64_t bytes_read, bytes_streamed;
    uint64_t expert_hits, expert_misses; /* of what layers wanted */
    uint64_t expert_guesses;             /* read before anything wanted them */
    uint64_t expert_guessed;             /* hits that such a read made */
    double seconds_waiting;
} mnem__weights_stats;
void mnem__weights_stats_get(const mnem__weights *weights, mnem__weights_stats *stats);

#endif
