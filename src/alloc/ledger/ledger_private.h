/* ledger_private.h: the members of a ledger, and the sums that a trace samples. */
#ifndef MNEM_SRC_ALLOC_LEDGER_LEDGER_PRIVATE_H
#define MNEM_SRC_ALLOC_LEDGER_LEDGER_PRIVATE_H

#include <pthread.h>

#include "base/event.h"
#include "base/heap.h"
#include "mnem/ledger.h"

enum { MNEM__ACCOUNTS_MAX = 128 };
#define NO_LIMIT UINT64_MAX

typedef struct account {
    mnem_account_info info; /* limit_bytes 0: no limit */
    uint64_t library_live;  /* of bytes_live: the watched heap, and the process itself */
} account;

struct mnem_ledger {
    pthread_mutex_t lock;
    uint64_t budget, soft; /* NO_LIMIT: none */
    double soft_fraction;
    uint64_t other_bytes; /* of the process's bytes, those of other libraries */
    const char *other_tag;
    void (*on_soft)(void *context, uint64_t bytes_over);
    void *context;
    uint32_t room; /* allowed beyond the budget while a run is prepared; 0: none */
    bool in_soft;  /* on_soft is running: charges made by it don't call it again */
    uint64_t live, peak, refusals, refused;
    uint64_t kind_live[MNEM_KIND_COUNT], kind_limit[MNEM_KIND_COUNT];
    account
        accounts[MNEM__ACCOUNTS_MAX + MNEM_KIND_COUNT]; /* the last ones: "others" of each kind */
    unsigned count;
    uint32_t owner; /* owner of its accounts' names (base/event.h) */
    mnem__event_tellers tellers;
    bool sampled;   /* a trace has all of its accounts, so its sums are recorded too */
    uint32_t told;  /* recorded charges and releases */
    uint32_t kinds; /* kinds that were ever charged, a bit each */
    mnem__heap_watcher watcher;
};

/* Records a sample of the ledger's own sums, which are kept separately: the sums of the recorded
 * accounts must equal them. The lock is held, so that no event comes in between. */
void mnem__ledger_tell_sums(mnem_ledger *ledger);
/* The same as a mnem__event_sampler: takes the lock. */
void mnem__ledger_tell_sample(void *ledger, bool last);

#endif
