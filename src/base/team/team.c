/* team.c: threads that run one function together, and their barrier.
 *
 * The idea: every wait is on a 32-bit counter that only goes forward. A waiter spins for as long as
 * a short operator takes, then says that it sleeps and waits in the kernel; who moves the counter
 * calls the kernel only when someone said so. With more members than processors nobody spins, for
 * the one that spins would keep the processor from the one that works.
 *
 *     run:     round++  → members run → the last one in sets finished = round
 *     barrier: arrived++ → the last one in clears it and moves `passed`
 *
 * A round says how many run: its number << 8 | that many - 1. Who isn't in it sleeps until `grown`
 * moves, and nobody waits for it. One that runs alone (the caller) starts no round at all. A team
 * that adapts looks now and then at what its members got of the processors (team_size.c).
 *
 * Invariant: between runs every member but the caller waits for a round; one that is in a round
 * can't miss it, for the next begins when all have finished. Memory is ordered by the counters
 * (release when moved, acquire when seen).
 * Cost: about a microsecond for a run or a barrier of members that still spin; a look is a
 * microsecond every 20 milliseconds or more. */
#include "base/team/team.h"

#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "base/pages.h"
#include "base/team/team_size.h"
#include "base/thread.h"

enum { SPINS = 4000, SPINS_CONTENDED = 100 }; /* some 50 microseconds, and one */
enum { COUNT_BITS = 8, SKIPPED_MOST = 64 };
_Static_assert(MNEM_TEAM_MAX <= 1 << COUNT_BITS, "a round holds the number of members");

static const double gap_most = 0.02; /* seconds between runs that are none of the team's */
static const double between_looks = 0.0005;
/* Processor time that is lost when a member sleeps and is woken: two calls, two switches, and
 * another program's lines in the caches. 35 were seen in a virtual machine, 5 to 10 elsewhere. */
static const double seconds_per_sleep = 25e-6;

typedef struct member {
    _Alignas(64) mnem_worker worker; /* cache lines of its own: it writes what it waited */
    _Atomic uint64_t spun, slept;    /* turns; nanoseconds */
    _Atomic uint64_t sleeps;
    _Atomic uint64_t waited; /* nanoseconds of them for what is no member's to do */
    mnem__thread thread;
    clockid_t clock;
    double used_before; /* the window */
    uint64_t spun_before, slept_before, sleeps_before, waited_before;
} member;

/* What worker 0 knows of the time that goes by. */
typedef struct watch {
    mnem__team_size size;
    double begun, judged, left; /* the window, when it may be judged; when the last run ended */
    double looked;
    int skip, skipped; /* calls between two looks at the clock */
    double seconds_per_spin;
} watch;

struct mnem_team {
    _Alignas(64) mnem__turnstile round; /* what is waited for has a cache line each */
    _Alignas(64) mnem__turnstile grown;
    _Alignas(64) mnem__turnstile finished;
    _Alignas(64) mnem__turnstile passed;
    _Alignas(64) _Atomic uint32_t working;
    _Alignas(64) _Atomic uint32_t arrived;
    mnem_team_function *function;
    void *context;
    bool stop, adapts;
    _Atomic int spins;
    int count;
    int active;      /* members of a run */
    int32_t process; /* a forked child has none of the threads */
    watch watch;
    member members[];
};

static int (*forced)(int limit);

void mnem__team_force(int (*size)(int limit)) {
    forced = size;
}

/* ---- members ---- */

/* To a counter that only its member moves. */
static void add_own(_Atomic uint64_t *counter, uint64_t n) {
    const uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + n, memory_order_relaxed);
}

static void wait_for(member *m, mnem__turnstile *turnstile, uint32_t old) {
    const int most = atomic_load_explicit(&m->worker.team->spins, memory_order_relaxed);
    const int spun = mnem__turnstile_spin(turnstile, old, most);
    add_own(&m->spun, (uint64_t)spun);
    if (spun < most) return;
    const uint64_t begun = mnem__nanoseconds();
    mnem__turnstile_wait(turnstile, old, 0);
    add_own(&m->slept, mnem__nanoseconds() - begun);
    add_own(&m->sleeps, 1);
}

void mnem__team_waited(const mnem_worker *worker, uint64_t nanoseconds) {
    if (!worker->team) return;
    add_own(&worker->team->members[worker->index].slept, nanoseconds);
    add_own(&worker->team->members[worker->index].waited, nanoseconds);
}

static int count_of(uint32_t round) {
    return (int)(round & ((1 << COUNT_BITS) - 1)) + 1;
}

static void member_run(member *m, uint32_t round) {
    mnem_team *team = m->worker.team;
    m->worker.count = count_of(round);
    team->function(&m->worker, team->context);
    if (atomic_fetch_sub_explicit(&team->working, 1, memory_order_acq_rel) == 1)
        mnem__turnstile_move(&team->finished, round);
}

/* The next round that the member is in. grown is looked at before round, and moved after it. */
static uint32_t next_round(member *m, uint32_t round) {
    mnem_team *team = m->worker.team;
    wait_for(m, &team->round, round);
    for (;;) {
        const uint32_t grown = atomic_load_explicit(&team->grown.value, memory_order_acquire);
        round = atomic_load_explicit(&team->round.value, memory_order_acquire);
        if (m->worker.index < count_of(round)) return round;
        mnem__turnstile_wait(&team->grown, grown, 0);
    }
}

static void member_main(void *context) {
    member *self = context;
    const mnem_team *team = self->worker.team;
    for (uint32_t round = 0;;) {
        round = next_round(self, round);
        if (team->stop) return;
        member_run(self, round);
    }
}

/* ---- how many run ---- */

static uint64_t read_own(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void begin_window(mnem_team *team, double now) {
    team->watch.begun = now;
    team->watch.judged = now + mnem__team_size_window(&team->watch.size);
    for (int i = 0; i < team->active; i++) {
        member *m = &team->members[i];
        m->used_before = mnem__thread_used(m->clock);
        m->spun_before = read_own(&m->spun);
        m->slept_before = read_own(&m->slept);
        m->sleeps_before = read_own(&m->sleeps);
        m->waited_before = read_own(&m->waited);
    }
}

/* What a member got in the window, of the time that it didn't sleep. */
static void add_member(const member *m, const watch *w, mnem__team_window *window) {
    const double used = mnem__thread_used(m->clock) - m->used_before;
    const double slept = 1e-9 * (double)(read_own(&m->slept) - m->slept_before);
    const double sleeps = (double)(read_own(&m->sleeps) - m->sleeps_before);
    const double waited = 1e-9 * (double)(read_own(&m->waited) - m->waited_before);
    const double awake = mnem__max_f64(window->wall - slept, 0.1 * window->wall);
    window->used += used;
    window->spun += (double)(read_own(&m->spun) - m->spun_before) * w->seconds_per_spin;
    window->spun += mnem__min_f64(sleeps * seconds_per_sleep, 0.5 * used);
    window->waited = mnem__max_f64(window->waited, waited);
    window->presence = mnem__min_f64(window->presence, used / awake);
}

/* A window that the caller's thread changed in is worth nothing: it seems to have used anything. */
static void end_window(mnem_team *team, double now) {
    watch *w = &team->watch;
    mnem__team_window window = {.wall = now - w->begun, .presence = 1};
    for (int i = 0; i < team->active; i++) add_member(&team->members[i], w, &window);
    w->judged = now + 0.5 * mnem__team_size_window(&w->size);
    if (window.used > 0 && window.used < 1.1 * window.wall * team->active &&
        !mnem__team_size_judge(&w->size, &window))
        return;
    atomic_store_explicit(&team->spins, w->size.contended ? SPINS_CONTENDED : SPINS,
                          memory_order_relaxed);
    begin_window(team, now);
}

/* The clock costs what a small operator's tenth does, so that not every call reads it. */
static bool reads_clock(watch *w, double *now) {
    if (w->skipped++ < w->skip) return false;
    *now = mnem__seconds();
    const double since = *now - w->looked;
    if (since < between_looks) w->skip = mnem__min_i32(2 * w->skip + 1, SKIPPED_MOST);
    if (since > 4 * between_looks) w->skip = 0;
    w->looked = *now;
    w->skipped = 0;
    return true;
}

static void obey(mnem_team *team) {
    team->watch.size.count = forced(team->count);
    const bool all_have_one = team->watch.size.count <= team->watch.size.limit;
    atomic_store_explicit(&team->spins, all_have_one ? SPINS : 0, memory_order_relaxed);
}

static void look(mnem_team *team) {
    watch *w = &team->watch;
    double now;
    if (forced)
        obey(team);
    else if (reads_clock(w, &now) && now >= w->judged)
        end_window(team, now);
}

/* Of the run that begins. The time since the last one belongs to the window, unless it was long. */
static void set_active(mnem_team *team) {
    watch *w = &team->watch;
    const double now = mnem__seconds();
    if (now - w->left > gap_most) begin_window(team, now);
    look(team);
    if (w->size.count == team->active) return;
    team->active = w->size.count;
    begin_window(team, now);
}

bool mnem__team_regroup(const mnem_worker *worker) {
    mnem_team *team = worker->team;
    if (!team || !team->adapts) return false;
    look(team);
    return team->watch.size.count != team->active;
}

/* What a turn of the loop in mnem__turnstile_wait takes; the least of some, for one may be
 * interrupted. */
static double measure_spin(void) {
    enum { TRIES = 5, TURNS = 200 };
    mnem__turnstile never = {0};
    double least = 1;
    for (int i = 0; i < TRIES; i++) {
        const double start = mnem__seconds();
        for (int j = 0; j < TURNS; j++) {
            (void)atomic_load_explicit(&never.value, memory_order_acquire);
            mnem__spin_pause();
        }
        least = mnem__min_f64(least, (mnem__seconds() - start) / TURNS);
    }
    return least;
}

void mnem__team_adapt(mnem_team *team) {
    const int limit = mnem__min_i32(team->count, mnem__processors());
    if (team->count == 1 || team->adapts) return;
    team->adapts = true;
    team->spins = SPINS;
    team->active = limit;
    team->watch = (watch){.seconds_per_spin = measure_spin()};
    mnem__team_size_init(&team->watch.size, limit);
}

/* ---- the team ---- */

/* The heap aligns to 16 bytes, the counters want 64: the team itself lives on pages of its own. */
static uint64_t team_pages(int32_t count) {
    return mnem__align_up(sizeof(mnem_team) + (size_t)count * sizeof(member), mnem__page_size());
}

uint64_t mnem_team_bytes(int32_t count) {
    if (count < 1) return 0;
    return team_pages(count) + (uint64_t)(count - 1) * MNEM_TEAM_STACK_BYTES;
}

static mnem_status start_member(member *m) {
    MNEM__TRY(mnem__thread_start(&m->thread, MNEM_TEAM_STACK_BYTES, member_main, m));
    m->clock = mnem__thread_clock(&m->thread);
    return MNEM_OK;
}

mnem_status mnem_team_create(int32_t count, mnem_team **out) {
    *out = NULL;
    if (count < 1 || count > MNEM_TEAM_MAX)
        return mnem__fail(MNEM_INVALID, "team: the number of threads is %d, expected 1 to %d",
                          count, MNEM_TEAM_MAX);
    mnem_team *team = mnem__pages_map(team_pages(count), true);
    if (!team) return mnem__heap_status();
    team->count = team->active = count;
    team->process = getpid();
    team->spins = count <= mnem__processors() ? SPINS : 0;
    for (int i = 0; i < count; i++) {
        member *m = &team->members[i];
        m->worker = (mnem_worker){.team = team, .index = i, .count = count};
        m->clock = CLOCK_THREAD_CPUTIME_ID;
        const mnem_status status = i ? start_member(m) : MNEM_OK;
        if (status != MNEM_OK) {
            mnem_team_destroy(team);
            return status;
        }
    }
    *out = team;
    return MNEM_OK;
}

/* The next round, of so many members. Returns it. */
static uint32_t begin_round(mnem_team *team, int count) {
    const uint32_t last = atomic_load_explicit(&team->round.value, memory_order_relaxed);
    const uint32_t round = ((last >> COUNT_BITS) + 1) << COUNT_BITS | (uint32_t)(count - 1);
    mnem__turnstile_move(&team->round, round);
    if (count > count_of(last))
        mnem__turnstile_move(&team->grown, atomic_load(&team->grown.value) + 1);
    return round;
}

void mnem_team_destroy(mnem_team *team) {
    if (!team) return;
    if (team->process == getpid()) {
        team->stop = true;
        begin_round(team, team->count);
        for (int i = 1; i < team->count; i++) mnem__thread_join(&team->members[i].thread);
    }
    mnem__pages_unmap(team, team_pages(team->count));
}

int32_t mnem_team_count(const mnem_team *team) {
    return team->count;
}

static void run_active(mnem_team *team) {
    member *caller = &team->members[0];
    if (team->active == 1) {
        caller->worker.count = 1;
        team->function(&caller->worker, team->context);
        return;
    }
    const uint32_t finished = atomic_load_explicit(&team->finished.value, memory_order_relaxed);
    atomic_store_explicit(&team->working, (uint32_t)team->active, memory_order_relaxed);
    member_run(caller, begin_round(team, team->active));
    wait_for(caller, &team->finished, finished);
}

void mnem_team_run(mnem_team *team, mnem_team_function *function, void *context) {
    team->function = function;
    team->context = context;
    if (team->adapts) set_active(team);
    run_active(team);
    if (team->adapts) team->watch.left = mnem__seconds();
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
        wait_for(&team->members[worker->index], &team->passed, round);
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
