/* mnem/saved.h: saves the KV cache of a sequence to a file, and loads it.
 *
 * A save has whole pages of keys, values and states as they are in memory, and the sequence's
 * tokens. A loaded sequence continues with the same bits. A save may start at any page, so that
 * pages shared with other sequences needn't be written: a sequence that is truncated to there keeps
 * them, and load appends the rest. Checksums cover all data; an identity of the model (its header,
 * a sample of its weights, its adapters, the type and layout of pages) is checked, too.
 * Not here: which sequences are worth saving, and names of files.
 * Threads: mnem_sequence_save and mnem_sequence_load_read access only this sequence's data and
 * constants. They may run on any thread while the engine's thread steps other sequences, as long as
 * nobody steps, truncates, forks or destroys this one. All else belongs to the engine's thread.
 *
 *     mnem_sequence_save(sequence, ids, 0, fd, 0);       // ids: all that the sequence has run
 *     mnem_saved saved;
 *     int32_t common = 0;
 *     mnem_saved_open(engine, fd, 0, &saved);
 *     mnem_saved_common(&saved, prompt, n, &common);     // how many tokens begin alike
 *     mnem_sequence_load(fresh, &saved, common);         // goes on at prompt[common]
 */
#ifndef MNEM_SAVED_H
#define MNEM_SAVED_H

#include "mnem/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes in the file of a save of tokens [from, length). */
uint64_t mnem_sequence_save_bytes(const mnem_sequence *sequence, int32_t from);
/* Writes a save at an offset of fd. ids [length]: all tokens of the sequence. MNEM_INVALID: from
 * isn't the start of a page below the length. MNEM_IO: the system's error; an incomplete save may
 * be left in the file, which mnem_saved_open refuses, since the header is written last. The file
 * isn't flushed to disk (fsync). */
mnem_status mnem_sequence_save(const mnem_sequence *sequence, const int32_t *ids, int32_t from,
                               int fd, uint64_t offset);

/* A save that was opened. Borrows the file descriptor. */
typedef struct mnem_saved {
    int fd;
    uint64_t offset, bytes; /* of the whole save */
    int32_t from, length;   /* has pages of tokens [from, length), and the ids of all tokens */
    int32_t ready;          /* tokens whose states are saved */
    int32_t states;         /* states of recurrent layers, at so many positions */
    int32_t first_window;   /* first position in the pages of layers with sliding windows */
    uint64_t ids_checksum;
    uint64_t choice; /* checksum of the scales (mnem_sequence_adapters_set); 0: no adapters */
} mnem_saved;
/* Reads and checks the header. MNEM_BAD_FILE: not a save, or a damaged or truncated one.
 * MNEM_INVALID: a save of another model, KV type or layout, or of adapters with scales that no open
 * sequence has; the error text says which. MNEM_IO. */
mnem_status mnem_saved_open(mnem_engine *engine, int fd, uint64_t offset, mnem_saved *saved);
/* *common: length of the common prefix of ids [n] and the save's tokens. MNEM_BAD_FILE, MNEM_IO. */
mnem_status mnem_saved_common(const mnem_saved *saved, const int32_t *ids, int32_t n,
                              int32_t *common);

/* The tokens of a save, ids [saved->length]. MNEM_BAD_FILE, MNEM_IO. */
mnem_status mnem_saved_ids(const mnem_saved *saved, int32_t *ids);

/* Appends tokens [from, n) of a save to a sequence of length saved->from with the same tokens
 * before them. The sequence may already have more of the save's tokens, in whole pages, where no
 * layer has windows or states: these are kept and not read. from < n <= saved->length.
 * MNEM_INVALID otherwise; MNEM_OVER_BUDGET: too few pages are free, or the context is too small;
 * MNEM_UNSUPPORTED: sliding windows have dropped positions that token n needs
 * (mnem_sequence_truncate), so that only the whole save can be loaded; MNEM_BAD_FILE: damaged
 * data. The sequence is unchanged on failure. Where layers are recurrent, snapshots of the save up
 * to n are loaded too, as many as have room, the last ones first. */
mnem_status mnem_sequence_load(mnem_sequence *sequence, const mnem_saved *saved, int32_t n);
/* The same in three steps, so that another thread can read: load_begin allocates the pages,
 * load_read fills them, and load_end appends them to the sequence if `read`, the status of
 * load_read, is MNEM_OK (it returns `read`). No other call on the sequence is allowed in between.
 * */
mnem_status mnem_sequence_load_begin(mnem_sequence *sequence, const mnem_saved *saved, int32_t n);
mnem_status mnem_sequence_load_read(mnem_sequence *sequence, const mnem_saved *saved);
mnem_status mnem_sequence_load_end(mnem_sequence *sequence, const mnem_saved *saved,
                                   mnem_status read);

#ifdef __cplusplus
}
#endif
#endif
