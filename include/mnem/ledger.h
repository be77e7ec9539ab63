/* mnem/ledger.h: the ledger (budgets and accounts), and memory that is charged to it.
 *
 * A ledger is one budget and its accounts; an account is one kind and tag. A charge that exceeds a
 * hard limit is refused with MNEM_OVER_BUDGET and a text that states the bytes; nothing is charged
 * then.
 * Threads: everything here may be called from any thread, except create and destroy.
 *
 *     mnem_ledger *ledger;
 *     mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 64 << 20}, &ledger);
 *     mnem_block kv;
 *     if (mnem_ledger_alloc(ledger, device, MNEM_KIND_KV, "pages", 8 << 20, 64, &kv) != MNEM_OK)
 *         fprintf(stderr, "%s\n", mnem_last_error());
 */
#ifndef MNEM_LEDGER_H
#define MNEM_LEDGER_H

#include "mnem/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, text) */
#define MNEM_KIND_LIST(X)                                                                          \
    X(WEIGHTS, "weights")                                                                          \
    X(KV, "kv")                                                                                    \
    X(ACTIVATION, "activation")                                                                    \
    X(WORKSPACE, "workspace")                                                                      \
    X(GRADIENT, "gradient")                                                                        \
    X(OPTIMIZER, "optimizer")                                                                      \
    X(IO, "io")                                                                                    \
    X(HOST, "host")                                                                                \
    X(RUNTIME, "runtime")

typedef enum mnem_kind {
#define MNEM_KIND_ENUM(name, text) MNEM_KIND_##name,
    MNEM_KIND_LIST(MNEM_KIND_ENUM)
#undef MNEM_KIND_ENUM
        MNEM_KIND_COUNT
} mnem_kind;

const char *mnem_kind_text(mnem_kind kind);

typedef struct mnem_ledger mnem_ledger;

/* Zero means default. */
typedef struct mnem_ledger_options {
    uint64_t budget_bytes; /* the hard limit over all accounts (default: none; see
                              mnem_ledger_create_process for its own) */
    /* Allows bytes beyond the budget until mnem_ledger_hold, for what is allocated before a plan:
     * up to 64 MiB, at most half of the machine's memory. So the plan, which keeps to the budget,
     * can state what would be enough. Not needed without a given budget. */
    bool preparing;
    /* Bytes of another library, measured by the caller: of the bytes that
     * mnem_ledger_create_process charges, they get a line of their own, of kind runtime (default:
     * none). */
    uint64_t other_bytes;
    const char *other_tag; /* static storage */
    /* Of mnem_ledger_create_process: the process is the caller's alone, as that of the command is.
     * The process is settled (mnem_process_settle), so that what is charged for it stays exact, and
     * its peak must fit the budget (default: false, as inside another program: nothing of the
     * process is changed). */
    bool own_process;
    double soft_fraction; /* of the budget, where on_soft is called (default 0.85) */
    /* Called before a charge that exceeds the soft limit, with the bytes beyond the limit; it may
     * release bytes. Not called for bytes placed by a plan (mnem_ledger_alloc,
     * mnem_ledger_charge_planned). No lock is held. */
    void (*on_soft)(void *context, uint64_t bytes_over);
    void *context;
} mnem_ledger_options;

/* MNEM_INVALID for a soft_fraction below 0 or above 1; MNEM_NO_MEMORY. */
mnem_status mnem_ledger_create(const mnem_ledger_options *options, mnem_ledger **ledger);
/* Creates a ledger for the whole process: charges the bytes that are resident now (VmRSS) to kind
 * runtime, tag "code and libraries", without the library's live heap, and watches the heap. What
 * the rest of the process takes or gives back later is neither charged nor bounded; what the
 * library takes is. A budget of 0 means 85 % of the memory that the process has and could take.
 * MNEM_OVER_BUDGET when more than the budget is resident.
 * No setting of the process is changed: the C heap, signal handlers and the locale stay; the
 * library's own pages of code are read, so that they are resident. Other threads may run, but none
 * may use the library meanwhile. With own_process: call it first, with no other thread running. */
mnem_status mnem_ledger_create_process(const mnem_ledger_options *options, mnem_ledger **ledger);
/* Ends the preparation: from now on the budget is the limit. MNEM_OVER_BUDGET when more bytes are
 * live. Creating an engine or a trainer calls this function. */
mnem_status mnem_ledger_hold(mnem_ledger *ledger);
/* MNEM_BUSY when bytes are live that callers charged: the text names kinds, tags and bytes. Charges
 * for the heap and the process end with the ledger. NULL is fine. */
mnem_status mnem_ledger_destroy(mnem_ledger *ledger);

/* Sets the hard limit over all accounts (MNEM_OVER_BUDGET when more bytes are already live). */
mnem_status mnem_ledger_budget_set(mnem_ledger *ledger, uint64_t bytes); /* 0: none */
/* A hard limit for one kind and tag (tag NULL: all of the kind); 0 removes it. */
mnem_status mnem_ledger_limit_set(mnem_ledger *ledger, mnem_kind kind, const char *tag,
                                  uint64_t bytes);

/* Charges bytes to kind and tag (copied, at most 31 characters), without taking memory. */
mnem_status mnem_ledger_charge(mnem_ledger *ledger, mnem_kind kind, const char *tag,
                               uint64_t bytes);
/* The same for bytes placed by a plan: on_soft isn't called. */
mnem_status mnem_ledger_charge_planned(mnem_ledger *ledger, mnem_kind kind, const char *tag,
                                       uint64_t bytes);
void mnem_ledger_release(mnem_ledger *ledger, mnem_kind kind, const char *tag, uint64_t bytes);

/* Charges the bytes that mnem_device_alloc_bytes returns, then allocates the block. Reverts the
 * charge on failure. */
mnem_status mnem_ledger_alloc(mnem_ledger *ledger, mnem_device *device, mnem_kind kind,
                              const char *tag, uint64_t bytes, uint64_t alignment,
                              mnem_block *block);
void mnem_ledger_free(mnem_ledger *ledger, mnem_kind kind, const char *tag, mnem_block *block);

/* Charges every heap allocation of the library to kind host, by its heap tag, until the ledger is
 * destroyed or another replaces it. Allocations that are already live are charged at once: no other
 * thread may use the library meanwhile. */
mnem_status mnem_ledger_watch_heap(mnem_ledger *ledger);

typedef struct mnem_account_info {
    mnem_kind kind;
    char tag[32];
    uint64_t bytes_live, bytes_peak, limit_bytes;
    uint64_t charges; /* number of charges, refused ones not counted */
} mnem_account_info;

/* A line of a plan of bytes; its lines sum to its peak. */
typedef struct mnem_plan_line {
    mnem_kind kind;
    char tag[32];
    uint64_t bytes;
} mnem_plan_line;

typedef struct mnem_ledger_info {
    uint64_t budget_bytes, soft_bytes; /* 0: none */
    uint64_t bytes_live, bytes_peak;   /* peak of the sum, not the sum of the peaks */
    uint64_t refusals;
    uint64_t bytes_refused; /* of the last refusal */
    unsigned accounts;
    bool preparing;
} mnem_ledger_info;

void mnem_ledger_info_get(const mnem_ledger *ledger, mnem_ledger_info *info);
/* Accounts in the order of their kinds, then of first use. false past the last. */
bool mnem_ledger_account_get(const mnem_ledger *ledger, unsigned index, mnem_account_info *info);

#ifdef __cplusplus
}
#endif
#endif
