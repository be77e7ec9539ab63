/* saved_private.h: the file of a saved sequence, and the identity of the engine that made it.
 *
 *     header     SAVED_HEADER_BYTES, written last
 *     ids        i32 [length]: all tokens of the sequence, including those before `from`
 *     pages      of each kind, from the page of position `from` on (of windows: those still held)
 *     states     of recurrent layers: those of snapshots, then the live one; none in other models
 *
 *   a page       its bytes as in memory | its ids i32 [page_tokens], where layers have states | sum
 *
 *   a state      its position u64 | its bytes | sum
 *
 * Which kinds exist, which forget pages and which have ids follows from the layers (kept.h).
 *
 * A page's checksum continues that of the ids and the page's number, so a page of another text,
 * position or save is detected. The header's checksum covers all fields before it. Numbers are in
 * this machine's byte order, which the magic number shows. */
#ifndef MNEM_SRC_ENGINE_SAVED_SAVED_PRIVATE_H
#define MNEM_SRC_ENGINE_SAVED_SAVED_PRIVATE_H

#include "base/file/checksum.h"
#include "engine/engine_private.h"
#include "mnem/saved.h"

#define MNEM__SAVED_MAGIC 0x314551534d454e4du /* "MNEMSQE1" */

typedef struct mnem__saved_header {
    uint64_t magic;
    uint64_t identity; /* of the model, as it runs, plus the sequence's choice of adapters */
    uint64_t bytes;    /* of the whole save */
    uint64_t page_bytes[MNEM__KV_PAGED];
    int32_t from, length, ready; /* ready: engine_private.h */
    int32_t first_window;
    int32_t page_tokens, kv_type, states; /* states: whether pages of one kind have ids */
    int32_t state_count;                  /* 0 in files of versions without them */
    uint64_t ids_checksum;
    uint64_t checksum;
} mnem__saved_header;
_Static_assert(sizeof(mnem__saved_header) == 88, "no holes");

/* The pages of one kind, numbered by position, and their place in the file. */
typedef struct mnem__saved_pages {
    int32_t begin, end;
    uint64_t at, record_bytes; /* at: from the start of the save */
} mnem__saved_pages;

/* The header that the engine writes for a save of tokens [from, length). */
mnem__saved_header mnem__saved_header_of(const mnem_engine *engine, int32_t from, int32_t length,
                                         int32_t first_window);
/* Computes the layout for an engine's kinds of pages and a checked header; *bytes: of the whole
 * save. */
void mnem__saved_lay_out(const mnem_engine *engine, const mnem__saved_header *header,
                         mnem__saved_pages pages[MNEM__KV_PAGED], uint64_t *bytes);
uint64_t mnem__saved_header_checksum(const mnem__saved_header *header);
/* The start of a page's checksum, to which its bytes and ids are added. number: of the page, by
 * kind and position. */
mnem__checksum mnem__saved_page_sum(int kind, int32_t number, uint64_t ids_checksum);

/* mnem_sequence_save and mnem_saved_open without their checks; on one of several ranks, its own
 * part in a file of its process. ids NULL: not written, and ids_checksum is any number.
 * snapshots: the most snapshots of its states that are included, the last ones. Those in the store
 * are copied from there, also the one that the sequence continues from; only the engine's thread
 * may save then. MNEM_NOT_READY: that one can't be read, and was dropped. scales: those that the
 * save must be of, [adapters]; NULL: those of new sequences or of any open one. */
mnem_status mnem__sequence_save(const mnem_sequence *sequence, const int32_t *ids,
                                uint64_t ids_checksum, int32_t from, int32_t snapshots, int fd,
                                uint64_t offset);
/* The bytes of that save; fewer are written if a snapshot can't be read from the store. */
uint64_t mnem__sequence_save_bytes(const mnem_sequence *sequence, int32_t from, int32_t snapshots);
/* The most snapshots of a save of up to so many bytes; below 0: it has more without any. */
int32_t mnem__sequence_save_most(const mnem_sequence *sequence, int32_t from, uint64_t bytes);
mnem_status mnem__saved_open(const mnem_engine *engine, const float *scales, int fd,
                             uint64_t offset, mnem_saved *saved);
/* Describes a save of the whole sequence as mnem__saved_open would, for pages of page_bytes; NULL:
 * those of this rank. */
mnem_saved mnem__saved_of(const mnem_sequence *sequence, const uint64_t *page_bytes);

/* The position of the states from the start of the save, and the bytes of one. */
uint64_t mnem__saved_states_at(const mnem_engine *engine, const mnem__saved_header *header,
                               uint64_t *record_bytes);
/* Whether a save may be loaded behind other pages: no kind forgets pages or has states. */
static inline bool mnem__saved_joins(const mnem_engine *engine) {
    return engine->tables.window == 0 && mnem__engine_ids_kind(engine) < 0 &&
           !mnem__engine_has_states(engine);
}

/* An identity that is equal for engines whose pages have the same meaning: a checksum of the
 * model's header, a sample of its weights, and its adapters. The first call reads the sample. */
mnem_status mnem__saved_identity(const mnem_engine *engine, uint64_t *identity);
/* The identity of a model without adapters, and whether it has BF16 weights. */
mnem_status mnem__saved_model_identity(const mnem_model *model, bool *bf16, uint64_t *identity);

/* Write or read all n bytes at an offset. MNEM_IO; MNEM_BAD_FILE: the file ends earlier. */
mnem_status mnem__saved_write(int fd, uint64_t offset, const void *bytes, size_t n);
mnem_status mnem__saved_read(int fd, uint64_t offset, void *bytes, size_t n);
/* The same for bytes at any location, added to the checksum: in one piece where the host can access
 * them, else through a buffer on the stack. */
mnem_status mnem__saved_write_from(int fd, uint64_t offset, mnem__location from, size_t n,
                                   mnem__checksum *sum);
mnem_status mnem__saved_read_to(int fd, uint64_t offset, mnem__location to, size_t n,
                                mnem__checksum *sum);

#endif
