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
 * An engine alone has no such nodes (swap_nodes.h). */
#ifndef MNEM_SRC_SERVE_SWAP_RANKS_H
#define MNEM_SRC_SERVE_SWAP_RANKS_H

#include "serve/swap_file.h"

/* As that of one file, with the nodes that the engine needs; a failure names the rank. */
mnem_status mnem__swap_ranks_open(mnem__swap_file *file, const char *path, mnem_engine *engine,
                                  uint64_t bytes_most);

#endif
