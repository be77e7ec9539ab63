/* swap_ranks.h: swapped sequences over ranks: each rank swaps its own part.
 *
 *     rank 0     write ──┬── its thread writes ── done ── asks others ──┬── all could: swapped
 *     others     ...  write ── their threads write         ...   answer ┘   else: computed again
 *
 * Each rank has the pages of its layers or heads, and a swap file for them. Rank 0 sends the
 * orders to write and read, as it sends steps; the other ranks give them to their threads and
 * continue with steps. When rank 0's own part is done, it asks the others and continues until
 * they have answered; a rank with a slower disk waits for its own write then. What one rank
 * can't write or read is dropped by all, so that the records of all ranks are equal. Times are
 * those of the slowest rank, bytes those of the widest part. A single process has no such nodes
 * (swap_nodes.h). */
#ifndef MNEM_SRC_SERVE_SWAP_RANKS_H
#define MNEM_SRC_SERVE_SWAP_RANKS_H

#include "serve/swap_file.h"

/* Opens the swap file, with the nodes that the engine's ranks need; an error names the rank. */
mnem_status mnem__swap_ranks_open(mnem__swap_file *file, const char *path, mnem_engine *engine,
                                  uint64_t bytes_most);

#endif
