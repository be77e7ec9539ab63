/* mnem/saved.h: a sequence's pages in a file, and back again.
 *
 * What is saved are whole pages of keys, values and states, as they lie in memory, with the tokens
 * that made them: loaded, a sequence goes on with the same bits. A save may begin at a page, so
 * that what a sequence shares needn't be moved: cut to there it keeps those pages, and load puts
 * the rest behind them. Everything is under checksums, and under an identity of the model: its
 * header, a sample of its weights, adapters, the type and layout of pages.
 * Not here: which sequences are worth saving, and names of files.
 * Threads: save reads, and load_read writes, only what is that one sequence's (or constant): either
 * may run on any thread while the engine's own thread steps other sequences, as long as nobody
 * steps, cuts, forks or destroys this one. All else is for the engine's thread.
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

/* Bytes of file that a save of tokens [from, length) takes. */
uint64_t mnem_sequence_save_bytes(const mnem_sequence *sequence, int32_t from);
/* Writes them at an offset; ids [length]: all tokens of the sequence. MNEM_INVALID: from isn't a
 * page's begin below the length. MNEM_IO: as the system says; part of it may be written then, which
 * no load takes: what says that it is whole is written last. Nothing is flushed. */
mnem_status mnem_sequence_save(const mnem_sequence *sequence, const int32_t *ids, int32_t from,
                               int fd, uint64_t offset);

/* What a save holds. Borrows the file. */
typedef struct mnem_saved {
    int fd;
    uint64_t offset, bytes; /* of the whole save */
    int32_t from, length;   /* tokens [from, length) are in it, and the ids of all */
    int32_t ready;          /* tokens whose states are known */
    int32_t first_window;   /* the first position that layers with windows hold */
    uint64_t ids_checksum;
} mnem_saved;
/* Reads and checks the header. MNEM_BAD_FILE: no save, a damaged or a cut one. MNEM_INVALID: one of
 * another model, type of keys and values, or layout; the text says which. MNEM_IO. */
mnem_status mnem_saved_open(mnem_engine *engine, int fd, uint64_t offset, mnem_saved *saved);
/* How many of ids [n] are those that the save begins with. MNEM_BAD_FILE, MNEM_IO. */
mnem_status mnem_saved_common(const mnem_saved *saved, const int32_t *ids, int32_t n,
                              int32_t *common);

/* Puts tokens [from, n) of a save behind a sequence of length from, which has the very tokens that
 * were before them; it may have more of them, in whole pages, which are kept and not read, where no
 * layer has windows or states. n up to the save's length, above from. MNEM_INVALID otherwise;
 * MNEM_OVER_BUDGET: too few pages are free, or the context is smaller; MNEM_UNSUPPORTED: windows
 * have gone by what token n would see (mnem_sequence_truncate): only all of the save can be kept;
 * MNEM_BAD_FILE: damaged. The sequence is what it was after any of them. */
mnem_status mnem_sequence_load(mnem_sequence *sequence, const mnem_saved *saved, int32_t n);
/* The same in three parts, for a thread that only reads: begin takes the pages, load_read fills
 * them, end makes them the sequence's where read is MNEM_OK (and returns it). In between the
 * sequence takes no other call. */
mnem_status mnem_sequence_load_begin(mnem_sequence *sequence, const mnem_saved *saved, int32_t n);
mnem_status mnem_sequence_load_read(mnem_sequence *sequence, const mnem_saved *saved);
mnem_status mnem_sequence_load_end(mnem_sequence *sequence, const mnem_saved *saved,
                                   mnem_status read);

#ifdef __cplusplus
}
#endif
#endif
