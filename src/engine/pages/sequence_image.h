/* sequence_image.h: a sequence's pages as pieces of bytes, to be moved elsewhere and back.
 *
 *     image   [ page ][ its ids ][ page ][ its ids ] ...     full kind, then window
 *
 * Ids only where pages know them (kv_pages.h). What is moved is bytes: keys and values come back to
 * the bit. Pages are looked up, not held: whoever moves them keeps the sequence as it is. */
#ifndef MNEM_SRC_ENGINE_PAGES_SEQUENCE_IMAGE_H
#define MNEM_SRC_ENGINE_PAGES_SEQUENCE_IMAGE_H

#include "engine/engine_private.h"

/* All of a sequence that isn't in its pages. */
typedef struct mnem__sequence_shape {
    int32_t length, ready;
    int32_t first[MNEM__KV_KINDS], used[MNEM__KV_KINDS];
} mnem__sequence_shape;

mnem__sequence_shape mnem__sequence_shape_get(const mnem_sequence *sequence);
/* Gives a sequence the shape, with pages of its own behind those that it has; their bytes are to be
 * read. It is empty, or was forked at whole pages from one that begins alike. As many pages must be
 * free. */
void mnem__sequence_shape_set(mnem_sequence *sequence, const mnem__sequence_shape *shape);
/* Whether an image can begin behind pages that others have: only the full kind, without states. */
bool mnem__sequence_image_joins(const mnem_engine *engine);

uint64_t mnem__sequence_image_bytes(const mnem_sequence *sequence);
/* Of any sequence. */
uint64_t mnem__sequence_image_most(const mnem_engine *engine);

typedef struct mnem__sequence_piece {
    void *address;
    size_t bytes;
    int32_t page; /* which of the table's */
} mnem__sequence_piece;
/* Piece index in the order of the image; false past the last. */
bool mnem__sequence_piece_get(const mnem_sequence *sequence, int32_t index,
                              mnem__sequence_piece *piece);

#endif
