/* ledger.c: one budget, its accounts, and the rule that a refused charge changes nothing.
 *
 * The idea: a fixed table of accounts behind one lock. A charge is checked against three limits
 * (account, kind, all) before any number moves, so a refusal changes only its own counter. The
 * table never shrinks; when it is full, new tags share one account of their kind, called "others".
 *
 *     account: live = by callers + of the heap + of the process     all: live = sum of accounts
 *
 * Invariant: bytes_live is the sum over the accounts and at most the budget; peaks only grow.
 * Cost: a scan of the accounts in use for each charge (about twenty in a run), nothing
 * allocated. */
#include "mnem/ledger.h"

#include <stdio.h>
#include <string.h>

#include "alloc/ledger/ledger_events.h"
#include "alloc/ledger/ledger_private.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/process.h"

enum {
    TEXT_MAX = 600,
    SAMPLE_EVENTS = 128, /* between two samples of a recording, unless time requires one earlier */
#ifdef __SANITIZE_ADDRESS__
    ROOM_MOST = 256 << 20, /* under sanitizers, whose shadow and code alone need 64 MiB */
#else
    ROOM_MOST = 64 << 20, /* during preparation: tables, tokenizers and vocabularies need less */
#endif
};
#define SOFT_DEFAULT 0.85
#define BUDGET_PART  0.85 /* of the available memory, if no budget is given */

/* The ledger that watches the heap. */
static pthread_mutex_t watching_lock = PTHREAD_MUTEX_INITIALIZER;
static mnem_ledger *watching;

const char *mnem_kind_text(mnem_kind kind) {
    static const char *const texts[] = {MNEM_KIND_LIST(MNEM__TEXT_ROW)};
    return (unsigned)kind < MNEM_KIND_COUNT ? texts[kind] : "unknown kind";
}

/* The bytes by which the limit exceeds the budget until the plan is made. A refusal should name
 * the least budget that works, which is known once the program, the model's tables, the
 * tokenizer and the prompt are measured; the plan then refuses, too, if the bytes before it
 * exceeded the budget. At most half of the available memory, so that other programs aren't
 * affected. */
static uint32_t room_of(const mnem_ledger_options *options) {
    uint64_t available;
    if (!options->preparing || !options->budget_bytes) return 0;
    if (mnem_process_available(&available) != MNEM_OK) return 0;
    return (uint32_t)mnem__min_u64(available / 2, ROOM_MOST);
}

static uint64_t limit_of(const mnem_ledger *ledger) {
    uint64_t limit;
    return mnem__add_u64(ledger->budget, ledger->room, &limit) ? limit : NO_LIMIT;
}

static uint64_t soft_of(uint64_t budget, double fraction) {
    return budget == NO_LIMIT ? NO_LIMIT : (uint64_t)((double)budget * fraction);
}

/* ---- accounts ---- */

static bool account_is(const account *a, mnem_kind kind, const char *tag) {
    return a->info.kind == kind && !strncmp(a->info.tag, tag, sizeof a->info.tag - 1);
}

/* Finds or adds the account of kind and tag. */
static account *account_of(mnem_ledger *ledger, mnem_kind kind, const char *tag) {
    for (unsigned i = 0; i < ledger->count; i++)
        if (account_is(&ledger->accounts[i], kind, tag)) return &ledger->accounts[i];
    bool full = ledger->count == MNEM__ACCOUNTS_MAX;
    account *a = &ledger->accounts[full ? MNEM__ACCOUNTS_MAX + (unsigned)kind : ledger->count++];
    a->info.kind = kind;
    ledger->kinds |= 1u << kind;
    snprintf(a->info.tag, sizeof a->info.tag, "%s", full ? "others" : tag);
    return a;
}

/* ---- charges; the lock is held ---- */

/* Finds the limit that bytes would exceed: its size and the rest of it. false: none. */
static bool limit_passed(const mnem_ledger *ledger, const account *a, uint64_t bytes,
                         uint64_t *limit, uint64_t *left, const char **whose) {
    const uint64_t of_account = a->info.limit_bytes, of_kind = ledger->kind_limit[a->info.kind];
    const struct {
        const char *whose;
        uint64_t limit, live;
    } limits[] = {{"account's limit", of_account ? of_account : NO_LIMIT, a->info.bytes_live},
                  {"kind's limit", of_kind ? of_kind : NO_LIMIT, ledger->kind_live[a->info.kind]},
                  {"budget", limit_of(ledger), ledger->live}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        *limit = limits[i].limit;
        *whose = limits[i].whose;
        *left = limits[i].limit > limits[i].live ? limits[i].limit - limits[i].live : 0;
        if (bytes > *left) return true;
    }
    return false;
}

static __attribute__((noinline)) uint32_t name_make(mnem__event_sink *sink,
                                                    const mnem_ledger *ledger, const account *a) {
    const mnem__event_key key = {.sort = MNEM__NAME_ACCOUNT,
                                 .owner = ledger->owner,
                                 .kind = (uint32_t)a->info.kind,
                                 .text = a->info.tag};
    return mnem__event_name(sink, ledger->owner, (uint32_t)(a - ledger->accounts), &key);
}

/* An account's name in the recording. */
static uint32_t name_of(mnem__event_sink *sink, const mnem_ledger *ledger, const account *a) {
    const uint32_t known =
        mnem__event_name_known(sink, ledger->owner, (uint32_t)(a - ledger->accounts));
    return __builtin_expect(known != 0, 1) ? known : name_make(sink, ledger, a);
}

/* The lock is held, so that events have live bytes in the right order. */
static inline void tell_live(mnem_ledger *ledger, const account *a) {
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    mnem__event_put_ordered(sink, &ledger->tellers, MNEM__EVENT_LIVE, name_of(sink, ledger, a),
                            ledger->owner, a->info.bytes_live);
    if (ledger->sampled && ++ledger->told % SAMPLE_EVENTS == 0) mnem__ledger_tell_sums(ledger);
}

static void tell_refused(mnem_ledger *ledger, const account *a, uint64_t bytes, uint32_t why) {
    mnem__event_sink *sink = mnem__event_enter();
    if (sink)
        mnem__event_put_ordered(sink, &ledger->tellers, MNEM__EVENT_REFUSE,
                                name_of(sink, ledger, a), why, bytes);
}

uint64_t mnem__ledger_tell_begin(mnem_ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
    for (unsigned i = 0; i < MNEM__ACCOUNTS_MAX + MNEM_KIND_COUNT; i++)
        if (ledger->accounts[i].info.bytes_live) tell_live(ledger, &ledger->accounts[i]);
    mnem__ledger_tell_sums(ledger);
    ledger->sampled = true;
    const uint64_t budget = ledger->budget == NO_LIMIT ? 0 : ledger->budget;
    pthread_mutex_unlock(&ledger->lock);
    mnem__event_sampler_set(mnem__ledger_tell_sample, ledger);
    return budget;
}

static mnem_status charge_locked(mnem_ledger *ledger, account *a, uint64_t bytes) {
    uint64_t limit, left;
    const char *whose;
    if (limit_passed(ledger, a, bytes, &limit, &left, &whose)) {
        ledger->refusals++;
        ledger->refused = bytes;
        const bool whole = limit == limit_of(ledger);
        tell_refused(ledger, a, bytes, whole ? MNEM__REFUSED_CAPACITY : MNEM__REFUSED_LIMIT);
        return mnem__fail(
            MNEM_OVER_BUDGET,
            "%s %s: needs %llu bytes, but only %llu of the %s of %llu are left (%llu over)",
            mnem_kind_text(a->info.kind), a->info.tag, (unsigned long long)bytes,
            (unsigned long long)left, whose, (unsigned long long)limit,
            (unsigned long long)(bytes - left));
    }
    a->info.bytes_live += bytes;
    a->info.charges++;
    ledger->kind_live[a->info.kind] += bytes;
    ledger->live += bytes;
    if (a->info.bytes_live > a->info.bytes_peak) a->info.bytes_peak = a->info.bytes_live;
    if (ledger->live > ledger->peak) ledger->peak = ledger->live;
    tell_live(ledger, a);
    return MNEM_OK;
}

/* Releases at most the account's bytes: an uncharged release doesn't affect other accounts. */
static void release_locked(mnem_ledger *ledger, account *a, uint64_t bytes) {
    if (bytes > a->info.bytes_live) bytes = a->info.bytes_live;
    a->info.bytes_live -= bytes;
    ledger->kind_live[a->info.kind] -= bytes;
    ledger->live -= bytes;
    tell_live(ledger, a);
}

/* Calls on_soft if bytes would exceed the soft limit; without the lock. */
static void soft_call(mnem_ledger *ledger, uint64_t bytes) {
    uint64_t after;
    if (!ledger->on_soft || ledger->in_soft || ledger->soft == NO_LIMIT) return;
    if (!mnem__add_u64(ledger->live, bytes, &after)) after = UINT64_MAX;
    if (after <= ledger->soft) return;
    ledger->in_soft = true;
    pthread_mutex_unlock(&ledger->lock);
    ledger->on_soft(ledger->context, after - ledger->soft);
    pthread_mutex_lock(&ledger->lock);
    ledger->in_soft = false;
}

typedef enum charge_origin { BY_CALLER, BY_PLAN, BY_LIBRARY } charge_origin;

static mnem_status charge(mnem_ledger *ledger, mnem_kind kind, const char *tag, uint64_t bytes,
                          charge_origin origin) {
    if ((unsigned)kind >= MNEM_KIND_COUNT)
        return mnem__fail(MNEM_INVALID, "ledger: kind %d is not one of mnem_kind", (int)kind);
    if (!tag || !*tag)
        return mnem__fail(MNEM_INVALID, "ledger: the tag is %s, expected a text that isn't empty",
                          tag ? "empty" : "NULL");
    pthread_mutex_lock(&ledger->lock);
    if (origin != BY_PLAN) soft_call(ledger, bytes);
    account *a = account_of(ledger, kind, tag);
    const mnem_status status = charge_locked(ledger, a, bytes);
    if (status == MNEM_OK && origin == BY_LIBRARY) a->library_live += bytes;
    pthread_mutex_unlock(&ledger->lock);
    return status;
}

mnem_status mnem_ledger_charge(mnem_ledger *ledger, mnem_kind kind, const char *tag,
                               uint64_t bytes) {
    return charge(ledger, kind, tag, bytes, BY_CALLER);
}

mnem_status mnem_ledger_charge_planned(mnem_ledger *ledger, mnem_kind kind, const char *tag,
                                       uint64_t bytes) {
    return charge(ledger, kind, tag, bytes, BY_PLAN);
}

void mnem_ledger_release(mnem_ledger *ledger, mnem_kind kind, const char *tag, uint64_t bytes) {
    if ((unsigned)kind >= MNEM_KIND_COUNT || !tag || !*tag) return;
    pthread_mutex_lock(&ledger->lock);
    release_locked(ledger, account_of(ledger, kind, tag), bytes);
    pthread_mutex_unlock(&ledger->lock);
}

/* Charges before it allocates, with the device's rounding, and releases the charge if the device
 * refuses: allocated bytes are in an account at any time. */
mnem_status mnem_ledger_alloc(mnem_ledger *ledger, mnem_device *device, mnem_kind kind,
                              const char *tag, uint64_t bytes, uint64_t alignment,
                              mnem_block *block) {
    uint64_t rounded = mnem_device_alloc_bytes(device, MNEM_SPACE_DEVICE, bytes);
    MNEM__TRY(charge(ledger, kind, tag, rounded, BY_PLAN));
    mnem_status status = mnem_device_alloc(device, MNEM_SPACE_DEVICE, bytes, alignment, block);
    if (status != MNEM_OK) mnem_ledger_release(ledger, kind, tag, rounded);
    return status;
}

void mnem_ledger_free(mnem_ledger *ledger, mnem_kind kind, const char *tag, mnem_block *block) {
    if (!block->device) return;
    uint64_t bytes = block->bytes;
    mnem_device_free(block);
    mnem_ledger_release(ledger, kind, tag, bytes);
}

/* ---- the library's heap ---- */

static mnem_status heap_charge(void *context, const char *tag, uint64_t bytes) {
    return charge(context, MNEM_KIND_HOST, tag, bytes, BY_LIBRARY);
}

static void heap_release(void *context, const char *tag, uint64_t bytes) {
    mnem_ledger *ledger = context;
    pthread_mutex_lock(&ledger->lock);
    account *a = account_of(ledger, MNEM_KIND_HOST, tag);
    a->library_live -= mnem__min_u64(bytes, a->library_live);
    release_locked(ledger, a, bytes);
    pthread_mutex_unlock(&ledger->lock);
}

/* Releases the charges of the library's heap. */
static void heap_forget(mnem_ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
    for (unsigned i = 0; i < MNEM__ACCOUNTS_MAX + MNEM_KIND_COUNT; i++) {
        account *a = &ledger->accounts[i];
        if (a->info.kind != MNEM_KIND_HOST) continue;
        release_locked(ledger, a, a->library_live);
        a->library_live = 0;
    }
    pthread_mutex_unlock(&ledger->lock);
}

static void unwatch_locked(void) {
    if (!watching) return;
    mnem__heap_watch(NULL);
    heap_forget(watching);
    watching = NULL;
}

/* Charges the heap's present bytes first, all or nothing; from then on the watcher's counts
 * equal the heap's own. One ledger watches at a time: the previous one releases its charges. */
mnem_status mnem_ledger_watch_heap(mnem_ledger *ledger) {
    mnem_status status = MNEM_OK;
    pthread_mutex_lock(&watching_lock);
    unwatch_locked();
    mnem__heap_tag tag;
    for (unsigned i = 0; status == MNEM_OK && mnem__heap_tag_get(i, &tag); i++)
        status = heap_charge(ledger, tag.tag, tag.bytes_live);
    if (status == MNEM_OK) {
        watching = ledger;
        mnem__heap_watch(&ledger->watcher);
    } else {
        heap_forget(ledger);
    }
    pthread_mutex_unlock(&watching_lock);
    return status;
}

/* ---- create, destroy, limits ---- */

mnem_status mnem_ledger_create(const mnem_ledger_options *options, mnem_ledger **out) {
    static const mnem_ledger_options defaults;
    if (!options) options = &defaults;
    *out = NULL;
    double fraction = options->soft_fraction == 0 ? SOFT_DEFAULT : options->soft_fraction;
    if (!(fraction > 0 && fraction <= 1))
        return mnem__fail(MNEM_INVALID, "ledger: soft_fraction %g is not between 0 and 1",
                          fraction);
    mnem_ledger *ledger = mnem__calloc("ledger", 1, sizeof *ledger);
    if (!ledger) return mnem__heap_status();
    pthread_mutex_init(&ledger->lock, NULL);
    ledger->owner = mnem__event_owner();
    ledger->budget = options->budget_bytes ? options->budget_bytes : NO_LIMIT;
    ledger->room = room_of(options);
    ledger->soft_fraction = fraction;
    ledger->other_bytes = options->other_bytes;
    ledger->other_tag = options->other_tag;
    ledger->soft = soft_of(ledger->budget, fraction);
    ledger->on_soft = options->on_soft;
    ledger->context = options->context;
    ledger->watcher =
        (mnem__heap_watcher){.charge = heap_charge, .release = heap_release, .context = ledger};
    *out = ledger;
    return MNEM_OK;
}

/* Charges the process's own memory: all resident bytes except the library's live heap.
 *
 *     resident   [ code, libraries, the caller's own | the library's heap, live ]
 *                  "code and libraries", now            from here on by the watcher, tag by tag
 *
 * Before that, pages that would become resident later are touched, so that the charge stays
 * correct: code, data and stack with own_process, else the library's code. With own_process the
 * peak is compared, too: a budget that was exceeded before can't be kept. */
static mnem_status process_charge(mnem_ledger *ledger, bool own_process) {
    mnem_process_usage usage;
    mnem_heap_usage heap;
    if (own_process)
        mnem_process_settle();
    else
        mnem__library_read();
    MNEM__TRY(mnem_process_usage_get(&usage));
    const uint64_t used = own_process ? usage.bytes_peak : usage.bytes_resident;
    if (ledger->budget == NO_LIMIT) {
        uint64_t available;
        MNEM__TRY(mnem_process_available(&available));
        ledger->budget = (uint64_t)((double)(available + usage.bytes_resident) * BUDGET_PART);
        ledger->soft = soft_of(ledger->budget, ledger->soft_fraction);
    }
    const uint64_t limit = limit_of(ledger);
    if (used > limit)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "ledger: the program and its libraries already used %llu bytes, but the "
                          "budget is %llu (%llu over); use a larger budget",
                          (unsigned long long)used, (unsigned long long)limit,
                          (unsigned long long)(used - limit));
    mnem_heap_usage_get(&heap);
    uint64_t own =
        heap.bytes_live < usage.bytes_resident ? usage.bytes_resident - heap.bytes_live : 0;
    const uint64_t other = ledger->other_bytes < own ? ledger->other_bytes : own;
    mnem_status status =
        charge(ledger, MNEM_KIND_RUNTIME, "code and libraries", own - other, BY_LIBRARY);
    if (status == MNEM_OK && other > 0)
        status = charge(ledger, MNEM_KIND_RUNTIME, ledger->other_tag, other, BY_LIBRARY);
    return status == MNEM_OK ? mnem_ledger_watch_heap(ledger) : status;
}

mnem_status mnem_ledger_create_process(const mnem_ledger_options *options, mnem_ledger **out) {
    MNEM__TRY(mnem_ledger_create(options, out));
    mnem_status status = process_charge(*out, options && options->own_process);
    if (status == MNEM_OK) return MNEM_OK;
    mnem_ledger_destroy(*out);
    *out = NULL;
    return status;
}

/* Lists what callers charged and didn't release: "kv pages 4096, io ring 8192". */
static void live_list(const mnem_ledger *ledger, char *out, size_t n) {
    size_t used = 0;
    *out = 0;
    for (unsigned i = 0; i < MNEM__ACCOUNTS_MAX + MNEM_KIND_COUNT && used < n; i++) {
        const account *a = &ledger->accounts[i];
        if (a->info.bytes_live == a->library_live) continue;
        used += (size_t)snprintf(out + used, n - used, "%s%s %s %llu", used ? ", " : "",
                                 mnem_kind_text(a->info.kind), a->info.tag,
                                 (unsigned long long)(a->info.bytes_live - a->library_live));
    }
}

mnem_status mnem_ledger_destroy(mnem_ledger *ledger) {
    if (!ledger) return MNEM_OK;
    char list[TEXT_MAX];
    live_list(ledger, list, sizeof list);
    if (*list)
        return mnem__fail(
            MNEM_BUSY, "ledger: can't be destroyed while bytes are charged: %s; release them first",
            list);
    pthread_mutex_lock(&watching_lock);
    if (watching == ledger) unwatch_locked();
    pthread_mutex_unlock(&watching_lock);
    mnem__event_sampler_forget(ledger);
    pthread_mutex_destroy(&ledger->lock);
    mnem__free(ledger);
    return MNEM_OK;
}

/* The lock is held. */
static mnem_status budget_set(mnem_ledger *ledger, uint64_t budget, uint32_t room) {
    if (ledger->live > budget && ledger->live - budget > room)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "ledger: %llu bytes are live, but the new budget is %llu (%llu over); "
                          "free bytes first, or set a larger budget",
                          (unsigned long long)ledger->live, (unsigned long long)budget,
                          (unsigned long long)(ledger->live - budget));
    ledger->budget = budget;
    ledger->room = room;
    ledger->soft = soft_of(budget, ledger->soft_fraction);
    return MNEM_OK;
}

mnem_status mnem_ledger_budget_set(mnem_ledger *ledger, uint64_t bytes) {
    pthread_mutex_lock(&ledger->lock);
    const mnem_status status = budget_set(ledger, bytes ? bytes : NO_LIMIT, ledger->room);
    pthread_mutex_unlock(&ledger->lock);
    return status;
}

mnem_status mnem_ledger_hold(mnem_ledger *ledger) {
    pthread_mutex_lock(&ledger->lock);
    const mnem_status status = budget_set(ledger, ledger->budget, 0);
    pthread_mutex_unlock(&ledger->lock);
    return status;
}

mnem_status mnem_ledger_limit_set(mnem_ledger *ledger, mnem_kind kind, const char *tag,
                                  uint64_t bytes) {
    if ((unsigned)kind >= MNEM_KIND_COUNT)
        return mnem__fail(MNEM_INVALID,
                          "ledger: kind %d does not exist, expected a constant of mnem_kind",
                          (int)kind);
    pthread_mutex_lock(&ledger->lock);
    account *a = tag && *tag ? account_of(ledger, kind, tag) : NULL;
    uint64_t live = a ? a->info.bytes_live : ledger->kind_live[kind];
    mnem_status status = MNEM_OK;
    if (bytes && live > bytes)
        status =
            mnem__fail(MNEM_OVER_BUDGET,
                       "%s %s: %llu bytes are live, but the new limit is %llu (%llu over); free "
                       "bytes first, or set a larger limit",
                       mnem_kind_text(kind), a ? a->info.tag : "in all", (unsigned long long)live,
                       (unsigned long long)bytes, (unsigned long long)(live - bytes));
    else
        *(a ? &a->info.limit_bytes : &ledger->kind_limit[kind]) = bytes;
    pthread_mutex_unlock(&ledger->lock);
    return status;
}

/* ---- reading ---- */

static bool in_use(const account *a) {
    return a->info.tag[0] != 0;
}

void mnem_ledger_info_get(const mnem_ledger *ledger, mnem_ledger_info *info) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&ledger->lock;
    pthread_mutex_lock(lock);
    *info = (mnem_ledger_info){.budget_bytes = ledger->budget == NO_LIMIT ? 0 : ledger->budget,
                               .soft_bytes = ledger->soft == NO_LIMIT ? 0 : ledger->soft,
                               .bytes_live = ledger->live,
                               .bytes_peak = ledger->peak,
                               .refusals = ledger->refusals,
                               .bytes_refused = ledger->refused,
                               .accounts = ledger->count,
                               .preparing = ledger->room > 0};
    for (unsigned kind = 0; kind < MNEM_KIND_COUNT; kind++)
        info->accounts += in_use(&ledger->accounts[MNEM__ACCOUNTS_MAX + kind]);
    pthread_mutex_unlock(lock);
}

bool mnem_ledger_account_get(const mnem_ledger *ledger, unsigned index, mnem_account_info *info) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&ledger->lock;
    bool found = false;
    pthread_mutex_lock(lock);
    for (unsigned kind = 0; kind < MNEM_KIND_COUNT && !found; kind++) {
        for (unsigned i = 0; i < MNEM__ACCOUNTS_MAX + MNEM_KIND_COUNT && !found; i++) {
            const account *a = &ledger->accounts[i];
            if (!in_use(a) || a->info.kind != (mnem_kind)kind || index--) continue;
            *info = a->info;
            found = true;
        }
    }
    pthread_mutex_unlock(lock);
    return found;
}
