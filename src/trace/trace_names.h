/* trace_names.h: the texts of a recording, each stored once, in the caller's memory.
 *
 * Look-ups take no lock: an entry is complete before it is in the hash, and entries are never
 * removed. Names beyond the room get MNEM__NAME_NONE. Number 0 is "others". */
#ifndef MNEM_SRC_TRACE_TRACE_NAMES_H
#define MNEM_SRC_TRACE_TRACE_NAMES_H

#include <pthread.h>
#include <stddef.h>

#include "base/event.h"

/* Beside mnem__event_sort: an account of a pool. */
enum { MNEM__NAME_POOL = MNEM__NAME_SITE + 1, MNEM__NAME_TEXT = 200, MNEM__NAMES_RECENT = 256 };

typedef struct mnem__trace_name {
    uint32_t text;    /* in the texts */
    uint32_t owner;   /* of an account; of a site: its account's name */
    uint32_t next;    /* of the same hash; 0: none */
    uint32_t account; /* of accounts and sites: the account's number */
    uint16_t bytes;   /* of its text */
    uint8_t sort, kind;
} mnem__trace_name;

typedef struct mnem__trace_names {
    pthread_mutex_t lock; /* held by writers */
    mnem__trace_name *entry;
    _Atomic uint32_t *hash; /* [1 << hash_bits]: the first entry */
    uint32_t *accounts;     /* [room]: names by the account's number */
    char *texts;
    uint32_t room, count, account_count, hash_bits;
    uint32_t text_room, text_used;
    _Atomic uint32_t recent[MNEM__NAMES_RECENT]; /* plain names, by the address of the text */
} mnem__trace_names;

size_t mnem__trace_names_bytes(uint32_t room);
/* memory: zeroed, of the measured size. */
void mnem__trace_names_init(mnem__trace_names *names, uint32_t room, void *memory);
void mnem__trace_names_fini(mnem__trace_names *names);

/* The number of a key's name, which is added if it is new. */
uint32_t mnem__trace_name_of(mnem__trace_names *names, const mnem__event_key *key);

/* The same for a plain text. It is first compared with the last text at the same address,
 * because programs usually pass the same pointer. */
uint32_t mnem__trace_name_plain(mnem__trace_names *names, const char *text);

static inline const char *mnem__trace_name_text(const mnem__trace_names *names, uint32_t name) {
    return names->texts + names->entry[name].text;
}

#endif
