/* batch_ids.h: which requests were seen, and which are answered: a table of hashes.
 *
 * Eight bytes for each entry, in memory that the caller charges; open addressing, at most 3/4 full.
 * Two ids are told apart by 61 bits: among a million the chance of a mistake is 2 * 10^-7. */
#ifndef MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_IDS_H
#define MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_IDS_H

#include "verbs/batch/batch_line.h"

enum { BATCH_SEEN = 1, BATCH_ANSWERED = 2 };

typedef struct batch_ids {
    uint64_t *slot; /* [room]; 0: free */
    uint64_t room;
} batch_ids;

/* Of a table of `most` entries. */
uint64_t batch_ids_bytes(uint64_t most);
/* memory: zeros. */
void batch_ids_init(batch_ids *ids, void *memory, uint64_t most);
/* Sets the mark of a key; whether it had it. */
bool batch_ids_mark(batch_ids *ids, uint64_t key, unsigned mark);
bool batch_ids_has(const batch_ids *ids, uint64_t key, unsigned mark);

/* Of a request's custom_id, however it is written; of a line that is none, and its id if it has
 * one. */
uint64_t batch_key(batch_slice custom_id);
uint64_t batch_key_refused(uint64_t line, batch_slice custom_id);

/* FNV-1a (Fowler, Noll, Vo), to go on with: 0 begins. */
uint64_t batch_hash(uint64_t hash, const void *bytes, size_t n);

#endif
