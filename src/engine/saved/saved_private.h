/* saved_private.h: the file of a saved sequence, and the identity that it is made under.
 *
 *     header     SAVED_HEADER_BYTES, written last
 *     ids        i32 [length]: all tokens of the sequence, those before from too
 *     pages      of each kind from the page of position from on (of windows: what is held of them)
 *     states     of recurrent layers: those of snapshots, then the live one; none in other models
 *
 *   a page       its bytes as in memory | its ids i32 [page_tokens], where layers have states | sum
 *
 *   a state      its position u64 | its bytes | sum
 *
 * Which kinds there are, which forget and which have ids is what the layers add up to (kept.h).
 *
 * A page's checksum goes on from that of the ids and the page's number, so that no page of another
 * text, place or save passes for it. The header's is over all before it. Numbers are as this
 * machine has them; another byte order has another magic. */
#ifndef MNEM_SRC_ENGINE_SAVED_SAVED_PRIVATE_H
#define MNEM_SRC_ENGINE_SAVED_SAVED_PRIVATE_H

#include "base/file/checksum.h"
#include "engine/engine_private.h"
#include "mnem/saved.h"

#define MNEM__SAVED_MAGIC 0x314551534d454e4du /* "MNEMSQE1" */

typedef struct mnem__saved_header {
    uint64_t magic;
    uint64_t identity; /* of the model, as it runs */
    uint64_t bytes;    /* of the whole save */
    uint64_t page_bytes[MNEM__KV_PAGED];
    int32_t from, length, ready; /* ready: engine_private.h */
    int32_t first_window;
    int32_t page_tokens, kv_type, states; /* states: pages of one kind have ids */
    int32_t state_count;                  /* 0 in files of versions that knew none */
    uint64_t ids_checksum;
    uint64_t checksum;
} mnem__saved_header;
_Static_assert(sizeof(mnem__saved_header) == 88, "no holes");

/* Pages of one kind, by page of positions, and where the file has them. */
typedef struct mnem__saved_pages {
    int32_t begin, end;
    uint64_t at, record_bytes; /* at: counted from the save's begin */
} mnem__saved_pages;

/* What the engine would write at the head of a save of tokens [from, length). */
mnem__saved_header mnem__saved_header_of(const mnem_engine *engine, int32_t from, int32_t length,
                                         int32_t first_window);
/* By an engine's kinds of pages, and a header with sound numbers; *bytes: of the whole save. */
void mnem__saved_lay_out(const mnem_engine *engine, const mnem__saved_header *header,
                         mnem__saved_pages pages[MNEM__KV_PAGED], uint64_t *bytes);
uint64_t mnem__saved_header_checksum(const mnem__saved_header *header);
/* What a page's bytes and ids are added to; number: of the page, by kind and position. */
mnem__checksum mnem__saved_page_sum(int kind, int32_t number, uint64_t ids_checksum);

/* What mnem_sequence_save and mnem_saved_open do, on one of several ranks its part of it: a file
 * of its own process. ids NULL: they aren't written, and ids_checksum is any number. snapshots:
 * with those of its states. */
mnem_status mnem__sequence_save(const mnem_sequence *sequence, const int32_t *ids,
                                uint64_t ids_checksum, int32_t from, bool snapshots, int fd,
                                uint64_t offset);
mnem_status mnem__saved_open(const mnem_engine *engine, int fd, uint64_t offset, mnem_saved *saved);
/* What opening a save of all of the sequence would say, with a file of so many bytes where pages
 * had so many; NULL: as many as they have. */
mnem_saved mnem__saved_of(const mnem_sequence *sequence, const uint64_t *page_bytes);

/* Where the states are, counted from the save's begin, and the bytes of one. */
uint64_t mnem__saved_states_at(const mnem_engine *engine, const mnem__saved_header *header,
                               uint64_t *record_bytes);
/* Whether a save may be loaded behind pages of others: where none forgets, nor has states. */
static inline bool mnem__saved_joins(const mnem_engine *engine) {
    return engine->tables.window == 0 && mnem__engine_ids_kind(engine) < 0 &&
           !mnem__engine_has_states(engine);
}

/* Equal for two engines whose pages mean the same: a checksum of the model's header, of a sample of
 * its weights, and of its adapters. Asked for first it reads the sample. */
mnem_status mnem__saved_identity(const mnem_engine *engine, uint64_t *identity);
/* Of a model alone, and whether it has weights of BF16. */
mnem_status mnem__saved_model_identity(const mnem_model *model, bool *bf16, uint64_t *identity);

/* All n bytes at an offset. MNEM_IO; MNEM_BAD_FILE: the file ends before. */
mnem_status mnem__saved_write(int fd, uint64_t offset, const void *bytes, size_t n);
mnem_status mnem__saved_read(int fd, uint64_t offset, void *bytes, size_t n);
/* The same of bytes wherever they lie, through the sum: in one piece where the host reaches them,
 * else by way of the stack. */
mnem_status mnem__saved_write_from(int fd, uint64_t offset, mnem__location from, size_t n,
                                   mnem__checksum *sum);
mnem_status mnem__saved_read_to(int fd, uint64_t offset, mnem__location to, size_t n,
                                mnem__checksum *sum);

#endif
