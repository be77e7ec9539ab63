/* team.c: threads that run one function together, and their barrier.
 *
 * The idea: every wait is on a 32-bit counter that only goes forward. A waiter spins for as long as
 * a short operator takes, then says that it sleeps and waits in the kernel; who moves the counter
 * calls the kernel only when someone said so. With more members than processors nobody spins, for
 * the one that spins would keep the processor from the one that works.
 *
 *     run:     epoch++  → members run → the last one in sets finished = epoch
 *     barrier: arrived++ → the last one in clears it and moves `passed`
 *
 * Invariant: between runs every member but the caller waits for epoch; memory is ordered by the
 * counters (release when moved, acquire when seen).
 * Cost: about a microsecond for a run or a barrier of members that still spin. */
#include "mnem/base.h"

#include "base/checked.h"
#include "base/heap.h"
#include "base/pages.h"
#include "base/thread.h"

enum { SPINS = 4000 }; /* about 50 microseconds */

typedef struct member {
    mnem_worker worker;
    mnem__thread thread;
} member;

struct mnem_team {
    _Alignas(64) mnem__turnstile epoch; /* what is waited for has a cache line each */
    _Alignas(64) mnem__turnstile finished;
    _Alignas(64) mnem__turnstile passed;
    _Alignas(64) _Atomic uint32_t working;
    _Alignas(64) _Atomic uint32_t arrived;
    mnem_team_function *function;
    void *context;
    bool stop;
    int count, spins;
    member members[];
};

static void member_run(mnem_team *team, const mnem_worker *worker, uint32_t epoch) {
    team->function(worker, team->context);
    if (atomic_fetch_sub_explicit(&team->working, 1, memory_order_acq_rel) == 1)
        mnem__turnstile_move(&team->finished, epoch);
}

static void member_main(void *context) {
    const member *self = context;
    mnem_team *team = self->worker.team;
    for (uint32_t epoch = 0;;) {
        mnem__turnstile_wait(&team->epoch, epoch, team->spins);
        epoch++;
        if (team->stop) return;
        member_run(team, &self->worker, epoch);
    }
}

/* The heap aligns to 16 bytes, the counters want 64: the team itself lives on pages of its own. */
static uint64_t team_pages(int32_t count) {
    return mnem__align_up(sizeof(mnem_team) + (size_t)count * sizeof(member), mnem__page_size());
}

uint64_t mnem_team_bytes(int32_t count) {
    if (count < 1) return 0;
    return team_pages(count) + (uint64_t)(count - 1) * MNEM_TEAM_STACK_BYTES;
}

mnem_status mnem_team_create(int32_t count, mnem_team **out) {
    *out = NULL;
    if (count < 1 || count > MNEM_TEAM_MAX)
        return mnem__fail(MNEM_INVALID, "team: %d threads; 1 to %d are possible", count,
                          MNEM_TEAM_MAX);
    mnem_team *team = mnem__pages_map(team_pages(count), true);
    if (!team) return mnem__heap_status();
    team->count = count;
    team->spins = count <= mnem__processors() ? SPINS : 0;
    for (int i = 0; i < count; i++) {
        team->members[i].worker = (mnem_worker){.team = team, .index = i, .count = count};
        if (!i) continue;
        mnem_status status = mnem__thread_start(&team->members[i].thread, MNEM_TEAM_STACK_BYTES,
                                                member_main, &team->members[i]);
        if (status != MNEM_OK) {
            mnem_team_destroy(team);
            return status;
        }
    }
    *out = team;
    return MNEM_OK;
}

void mnem_team_destroy(mnem_team *team) {
    if (!team) return;
    team->stop = true;
    mnem__turnstile_move(&team->epoch, atomic_load(&team->epoch.value) + 1);
    for (int i = 1; i < team->count; i++) mnem__thread_join(&team->members[i].thread);
    mnem__pages_unmap(team, team_pages(team->count));
}

int32_t mnem_team_count(const mnem_team *team) {
    return team->count;
}

void mnem_team_run(mnem_team *team, mnem_team_function *function, void *context) {
    if (team->count == 1) {
        function(&team->members[0].worker, context);
        return;
    }
    uint32_t epoch = atomic_load_explicit(&team->epoch.value, memory_order_relaxed) + 1;
    team->function = function;
    team->context = context;
    atomic_store_explicit(&team->working, (uint32_t)team->count, memory_order_relaxed);
    mnem__turnstile_move(&team->epoch, epoch);
    member_run(team, &team->members[0].worker, epoch);
    mnem__turnstile_wait(&team->finished, epoch - 1, team->spins);
}

void mnem_team_barrier(const mnem_worker *worker) {
    if (worker->count <= 1) return;
    mnem_team *team = worker->team;
    uint32_t round = atomic_load_explicit(&team->passed.value, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) + 1 ==
        (uint32_t)worker->count) {
        atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
        mnem__turnstile_move(&team->passed, round + 1);
    } else {
        mnem__turnstile_wait(&team->passed, round, team->spins);
    }
}

void mnem_team_split(const mnem_worker *worker, int64_t n, int64_t grain, int64_t *begin,
                     int64_t *end) {
    int64_t units = n / grain + (n % grain != 0);
    int64_t first = units * worker->index / worker->count;
    int64_t past = units * (worker->index + 1) / worker->count;
    *begin = first * grain < n ? first * grain : n;
    *end = past * grain < n ? past * grain : n;
}
