/* batch_ids.h: a table of hashes, which records the requests that were read, and those answered.
 *
 * An entry has eight bytes, in memory that the caller charges. Open addressing, at most 3/4 full.
 * Ids are compared by 61 bits of their hashes: among a million ids the chance that any two are
 * taken for the same is 2 * 10^-7. */
#ifndef MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_IDS_H
#define MNEM_TOOLS_MNEM_VERBS_BATCH_BATCH_IDS_H

#include "verbs/batch/batch_line.h"

enum { BATCH_SEEN = 1, BATCH_ANSWERED = 2 };

typedef struct batch_ids {
    uint64_t *slot; /* [room]; 0: free */
    uint64_t room;
} batch_ids;

/* Bytes of a table for `most` entries. */
uint64_t batch_ids_bytes(uint64_t most);
/* memory: of batch_ids_bytes(most), filled with zeros. */
void batch_ids_init(batch_ids *ids, void *memory, uint64_t most);
/* Sets a mark of a key. Returns whether the key had this mark before. */
bool batch_ids_mark(batch_ids *ids, uint64_t key, unsigned mark);
bool batch_ids_has(const batch_ids *ids, uint64_t key, unsigned mark);

/* The key of a request: of the decoded text of its custom_id. The key of a refused line: of its
 * number, and of its custom_id if it has one. */
uint64_t batch_key(batch_slice custom_id);
uint64_t batch_key_refused(uint64_t line, batch_slice custom_id);

/* FNV-1a (Fowler, Noll, Vo). hash: of the bytes before these; 0: these are the first. */
uint64_t batch_hash(uint64_t hash, const void *bytes, size_t n);

#endif
