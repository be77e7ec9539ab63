/* teacher_stream.h: reads the layers of a teacher from its file, one after another.
 *
 *     ring   [ slot 0: the current layer   | slot 1: the next one, being read ]    alternating
 *
 * A thread reads ahead; after the last layer it continues with the first one, for the next
 * micro-batch. Tensors outside layers stay in memory: the embedding and the output matrix are
 * always needed. Threads: everything but the reader's own work is called by the trainer's
 * thread. */
#ifndef MNEM_SRC_TRAIN_TEACHER_TEACHER_STREAM_H
#define MNEM_SRC_TRAIN_TEACHER_TEACHER_STREAM_H

#include "base/team/ahead.h"
#include "train/program/train_shape.h"

enum { MNEM__TEACHER_SLOTS = 2, MNEM__TEACHER_STACK_BYTES = 128 * 1024 };

typedef struct mnem__teacher_stream {
    const mnem__train_shape *shape;
    const mnem_model *model;
    uint8_t *ring; /* [MNEM__TEACHER_SLOTS] of the largest layer */
    uint64_t slot_bytes;
    mnem__ahead ahead; /* of layers, counted on and on: number n is layer n % layers */
} mnem__teacher_stream;

/* Whether streaming saves memory: its layers take more than the ring and the reader, and are
 * used as stored in the file (those of a folder may need a conversion, which takes memory). */
bool mnem__teacher_can_stream(const mnem__train_shape *shape, const mnem_model *model);
/* The bytes of the ring; the bytes read per micro-batch. */
uint64_t mnem__teacher_ring_bytes(const mnem__train_shape *shape);
uint64_t mnem__teacher_read_bytes(const mnem__train_shape *shape);

/* Starts reading. All three are borrowed until stop. MNEM_NO_MEMORY; nothing runs then. */
mnem_status mnem__teacher_stream_start(mnem__teacher_stream *stream, const mnem__train_shape *shape,
                                       const mnem_model *model, uint8_t *ring);
void mnem__teacher_stream_stop(mnem__teacher_stream *stream); /* one that never ran is fine */

/* The next layer, from 0 on and round; waits for the disk. It stays until it is given back.
 * Statuses of mnem_model_tensor_read. */
mnem_status mnem__teacher_stream_take(mnem__teacher_stream *stream, uint8_t **layer);
void mnem__teacher_stream_give(mnem__teacher_stream *stream);
/* The next one is layer 0, whichever was taken last; nothing is held. */
void mnem__teacher_stream_rewind(mnem__teacher_stream *stream);

#endif
