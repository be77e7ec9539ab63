/* swap_ranks.h: sequences that are set aside, on every rank its part of them.
 *
 *     rank 0     write ──┬── its thread writes ── done ── how was it? ──┬── all could: it is out
 *     others     ...  write ── a thread of theirs writes   ...   answer ┘   else: computed again
 *
 * Each rank has the pages of its layers, or heads, and a swap file for them. Rank 0 tells what goes
 * out and comes back, as it tells steps; the others hand it to a thread of theirs, and go on with
 * steps. When rank 0's own part is done it asks the others, and goes on until they have answered:
 * one whose disk is slower waits for it then. What one rank can't write or read is given up by all,
 * so that books are the same; and time is the slowest rank's, bytes are those of the widest part.
 * Of an engine alone it is the file's own calls. */
#ifndef MNEM_SRC_SERVE_SWAP_RANKS_H
#define MNEM_SRC_SERVE_SWAP_RANKS_H

#include "serve/swap_file.h"

/* As those of one file; a failure names the rank. */
mnem_status mnem__swap_ranks_open(mnem__swap_file *file, const char *path, mnem_engine *engine,
                                  uint64_t bytes_most);
void mnem__swap_ranks_write(mnem__swap_file *file, mnem__swap_job *job, mnem_sequence *sequence,
                            const int32_t *ids, int32_t lane);
mnem_status mnem__swap_ranks_read(mnem__swap_file *file, mnem__swap_job *job,
                                  mnem_sequence *sequence);
bool mnem__swap_ranks_is_done(mnem__swap_file *file, mnem__swap_job *job, bool wait);
/* Of a read that is done: the sequence has what was read, on all ranks, or none has it. */
mnem_status mnem__swap_ranks_read_end(mnem__swap_file *file, mnem__swap_job *job);
void mnem__swap_ranks_drop(mnem__swap_file *file, mnem__swap_job *job);

#endif
