/* checkpoint_format.h: the format of a checkpoint; little-endian, every position a multiple of
 * 64.
 *
 *     [ header 64 ][ rows 96 each ][ 0 ][ section ][ 0 ][ section ][ 0 ] ...
 *
 * Rows are in the order of the sections, which are contiguous except for zeros up to 64. A
 * number has no section: its eight bytes are in the row. So a list of entries has exactly one
 * file, and a checksum covers every byte of it: that of the header, of the rows, or of the
 * section, each with the zeros behind it. */
#ifndef MNEM_SRC_TRAIN_CHECKPOINT_CHECKPOINT_FORMAT_H
#define MNEM_SRC_TRAIN_CHECKPOINT_CHECKPOINT_FORMAT_H

#include "base/checked.h"
#include "base/file/checksum.h"
#include "train/checkpoint/checkpoint.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints are little-endian");

#define MNEM__CHECKPOINT_MAGIC "mnemckpt"
enum { MNEM__CHECKPOINT_VERSION = 1, MNEM__CHECKPOINT_ALIGN = 64 };

typedef struct mnem__checkpoint_header {
    char magic[8];
    uint32_t version, rows;
    uint64_t file_bytes;
    uint64_t rows_checksum;
    uint64_t zero[3];
    uint64_t checksum; /* of the 56 bytes before */
} mnem__checkpoint_header;
_Static_assert(sizeof(mnem__checkpoint_header) == 64, "as written");

typedef struct mnem__checkpoint_row {
    char name[MNEM__CHECKPOINT_NAME]; /* padded with zeros */
    uint32_t type, zero;
    uint64_t place;    /* of the section in the file; or the number */
    uint64_t bytes;    /* of the section without the zeros behind; 8 of a number */
    uint64_t checksum; /* of the section; 0 of a number */
} mnem__checkpoint_row;
_Static_assert(sizeof(mnem__checkpoint_row) == 96, "as written");

static inline bool mnem__checkpoint_is_number(uint32_t type) {
    return type == MNEM__ENTRY_U64 || type == MNEM__ENTRY_I64 || type == MNEM__ENTRY_F64;
}

/* Where the sections begin. */
static inline uint64_t mnem__checkpoint_front(uint64_t rows) {
    return mnem__align_up(sizeof(mnem__checkpoint_header) + rows * sizeof(mnem__checkpoint_row),
                          MNEM__CHECKPOINT_ALIGN);
}

static inline uint64_t mnem__checkpoint_header_checksum(const mnem__checkpoint_header *header) {
    return mnem__checksum_of(header, offsetof(mnem__checkpoint_header, checksum));
}

#endif
