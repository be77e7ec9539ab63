/* weights.h: the matrices of a model by handle: resident, or streamed through a ring of slots.
 *
 * A matrix is divided into chunks of whole groups of 16 rows; a resident matrix is one chunk. A
 * pass uses the matrices of the body in order, or those of the head. The owner schedules passes
 * before running them; the reader's threads read and pack chunks into free slots in that order,
 * ahead of their use, and predict a body when nothing more is scheduled. (There are two threads,
 * so that one reads while the other packs. Reads are fastest if the ring lies in huge pages, as
 * host blocks of multiples of 2 MiB do.)
 *
 *     schedule(BODY), schedule(HEAD)
 *     for each matrix of the body:  do { acquire → compute rows → release } while (!chunk.last)
 *
 * Experts that aren't resident are not part of a pass, because the experts that a layer needs
 * are known only after its router has run. They are read on demand (mnem_graph_experts) into
 * slots of a separate block, and stay there until they are evicted (expert_cache.h).
 *
 * Memory: three blocks of the owner, laid out by the code that measures them. Nothing is
 * allocated after create. acquire, release and schedule are called from one thread. */
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
    const mnem__row_spans *rows; /* per matrix, the rows that are here; NULL: all */
    const bool *resident; /* per matrix; extra matrices that aren't resident are never loaded */
    int32_t body_count, head_count, extra_count;
    int32_t slots;        /* at least 2 if anything is streamed; 0: chosen here */
    uint64_t slot_bytes;  /* a multiple of 4096; 0: chosen here */
    int32_t expert_slots; /* for experts that aren't resident; 0: the least */
    bool page_cache;
    int32_t first_handle; /* of the source: the handle of the first matrix */
    mnem_on_experts
        *on_experts; /* receives the wanted experts, with the mixture's number; or NULL */
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
    /* Of experts that aren't resident: their number, their slots, the bytes of a slot, the bytes
     * of all in the file. */
    int32_t expert_total, expert_slots;
    uint64_t expert_slot_bytes, expert_file_bytes;
    bool direct_io;
} mnem__weights_sizes;
/* Whether the ring is needed after loading. */
static inline bool mnem__weights_stream(const mnem__weights_sizes *sizes) {
    return sizes->streamed_bytes_body + sizes->streamed_bytes_head > 0;
}
/* Computes the bytes that create takes. MNEM_INVALID: a slot can't hold 16 rows of a matrix. */
mnem_status mnem__weights_measure(const mnem__weights_options *options, mnem__weights_sizes *sizes);

/* Reports the ranges of the model's files that are read, without absent matrices; ends at the
 * first status other than MNEM_OK. */
typedef mnem_status mnem__on_weights_range(void *context, uint32_t file, uint64_t offset,
                                           uint64_t bytes);
mnem_status mnem__weights_ranges(const mnem__weights_options *options, mnem__on_weights_range *tell,
                                 void *context);

typedef struct mnem__weights mnem__weights;
/* 4096-byte aligned blocks of the measured sizes, which the owner keeps until destroy; the ring
 * only until load returns if nothing is streamed. */
typedef struct mnem__weights_blocks {
    mnem__location resident; /* on the device on which the graphs run */
    void *ring, *experts;    /* written by the host, read in place by the device */
} mnem__weights_blocks;
mnem_status mnem__weights_create(const mnem__weights_options *options,
                                 const mnem__weights_blocks *blocks, mnem__weights **weights);
void mnem__weights_destroy(mnem__weights *weights);
/* Reads and packs every resident matrix (several reads in flight), then starts the reader. */
mnem_status mnem__weights_load(mnem__weights *weights, const mnem_progress *progress);

/* MNEM_BUSY: 64 passes are scheduled and not begun. Not needed for a pass that streams nothing. */
mnem_status mnem__weights_schedule(mnem__weights *weights, mnem__pass pass);

/* The next chunk of matrix (index into tensors), which must be the next one in the schedule; waits
 * for the disk. A resident one has slot -1. The next chunk may be acquired before the last one is
 * released: two may be held. A read error is returned here, and again by every later call. */
mnem_status mnem__weights_acquire(mnem__weights *weights, int32_t matrix, mnem_graph_chunk *chunk);
void mnem__weights_release(mnem__weights *weights, const mnem_graph_chunk *chunk);
/* Forgets the schedule (a pass was cancelled); what was read ahead may be read again. */
mnem_status mnem__weights_rewind(mnem__weights *weights);
/* The rows of a matrix, or of stacked matrices. */
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

/* The name of its tensor in the file. */
const char *mnem__weights_name(const mnem__weights *weights, int32_t matrix);
/* The location of the packed matrix; empty if it isn't resident. */
mnem__location mnem__weights_at(const mnem__weights *weights, int32_t matrix);
/* The same as a pointer for operators, or NULL. */
const void *mnem__weights_resident(const mnem__weights *weights, int32_t matrix);

/* The weights as a source for a graph: handles are indices from options.first_handle on. */
mnem_graph_weights mnem__weights_source(mnem__weights *weights);

typedef struct mnem__weights_stats {
    uint64_t bytes_read, bytes_streamed;
    uint64_t expert_hits, expert_misses; /* of wanted experts */
    uint64_t expert_guesses;             /* experts read on a prediction */
    uint64_t expert_guessed;             /* hits due to a prediction */
    double seconds_waiting;
} mnem__weights_stats;
void mnem__weights_stats_get(const mnem__weights *weights, mnem__weights_stats *stats);

#endif
