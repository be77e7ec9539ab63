/* test_team.c: runs and barriers of teams smaller and larger than the machine, and of teams whose
 * size changes while some of their members sleep. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/heap.h"
#include "base/team/team.h"
#include "base/thread.h"
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/base.h"

enum { MEMBERS_MAX = 9, ROUNDS = 50 };

typedef struct shared {
    int plain[MEMBERS_MAX]; /* each written by its member, read by all after a barrier */
    atomic_int ran[MEMBERS_MAX];
    int64_t sum;
} shared;

static void add_up(const mnem_worker *worker, void *context) {
    shared *s = context;
    atomic_fetch_add(&s->ran[worker->index], 1);
    for (int round = 1; round <= ROUNDS; round++) {
        s->plain[worker->index] = round;
        mnem_team_barrier(worker);
        for (int i = 0; i < worker->count; i++) assert_int_equal(s->plain[i], round);
        mnem_team_barrier(worker);
    }
    if (worker->index == 0)
        for (int i = 0; i < worker->count; i++) s->sum += s->plain[i];
}

static void every_member_runs_and_barriers_order_memory(void **state) {
    (void)state;
    for (int count = 1; count <= MEMBERS_MAX; count++) {
        mnem_team *team;
        shared s = {0};
        assert_int_equal(mnem_team_create(count, &team), MNEM_OK);
        assert_int_equal(mnem_team_count(team), count);
        for (int run = 0; run < 20; run++) mnem_team_run(team, add_up, &s);
        for (int i = 0; i < count; i++) assert_int_equal(s.ran[i], 20);
        assert_int_equal(s.sum, 20 * count * ROUNDS);
        mnem_team_destroy(team);
    }
}

static void count_up(const mnem_worker *worker, void *context) {
    if (worker->index == worker->count - 1) ++*(int *)context;
}

/* Of this process: those that the kernel has not put to sleep. */
static int threads_awake(void) {
    int awake = 0;
    DIR *all = opendir("/proc/self/task");
    assert_non_null(all);
    for (struct dirent *d; (d = readdir(all));) {
        char path[300], state = 'S';
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", d->d_name);
        FILE *file = d->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) fail();
        if (file) fclose(file);
        awake += state != 'S';
    }
    closedir(all);
    return awake;
}

static void sleeping_members_wake_up(void **state) {
    (void)state;
    mnem_team *team;
    int runs = 0;
    assert_int_equal(mnem_team_create(3, &team), MNEM_OK);
    for (int i = 0; i < 10; i++) {
        mnem_team_run(team, count_up, &runs);
        while (threads_awake() > 1) usleep(100);
    }
    assert_int_equal(runs, 10);
    mnem_team_destroy(team);
}

/* ---- teams that adapt ---- */

enum { WALK = 200, LARGEST = 64 };

/* A walk of steps that may end at each of them and go on with another size. */
typedef struct walk {
    _Atomic int done[WALK]; /* shares of a step: each once */
    int at, next, walks;
    bool regroup[2]; /* told as mnem_graph_run tells it: by worker 0, before a barrier */
    bool sleepy;
    int fewest, most;
} walk;

/* One, all, or any: a walk must meet one member however many there are. */
static int any_size(int limit) {
    const uint64_t which = random_below(8);
    return which == 0 ? 1 : which == 1 ? limit : 1 + (int)random_below((uint64_t)limit);
}

/* Now and then a member is away in the middle of its share, for as long as a scheduler takes. */
static void do_share(const mnem_worker *worker, walk *w, int step) {
    if (w->sleepy && (step * 7 + worker->index * 13) % 41 == 0) usleep(3000);
    atomic_fetch_add(&w->done[step], 1 << 20 | worker->count);
}

static void walk_on(const mnem_worker *worker, void *context) {
    walk *w = context;
    int step = w->at, meetings = 0;
    for (; step < WALK; step++) {
        bool *regroup = &w->regroup[meetings++ & 1];
        if (worker->index == 0) *regroup = meetings > 1 && mnem__team_regroup(worker);
        mnem_team_barrier(worker);
        if (*regroup) break;
        do_share(worker, w, step);
    }
    if (worker->index == 0) {
        w->next = step;
        w->walks++;
        if (worker->count < w->fewest) w->fewest = worker->count;
        if (worker->count > w->most) w->most = worker->count;
    }
}

/* Every share of every step is done once, by as many members as the step had. */
static void check_walk(const walk *w) {
    for (int step = 0; step < WALK; step++) {
        const int shares = w->done[step] >> 20, sum = w->done[step] & 0xfffff;
        assert_int_equal(sum, shares * shares);
    }
}

static void walk_all(mnem_team *team, walk *w) {
    w->fewest = LARGEST;
    for (w->next = 0; w->next < WALK;) {
        w->at = w->next;
        mnem_team_run(team, walk_on, w);
    }
    check_walk(w);
}

static void teams_may_change_at_every_step(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, LARGEST};
    random_seed_chosen();
    mnem__team_force(any_size);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        for (int sleepy = 0; sleepy < 2; sleepy++) {
            mnem_team *team;
            walk w = {.sleepy = sleepy};
            must(mnem_team_create(counts[i], &team));
            mnem__team_adapt(team);
            walk_all(team, &w);
            assert_int_equal(w.fewest, 1);
            assert_true(counts[i] == 1 || w.most > 1);
            assert_true(counts[i] == 1 || w.walks > WALK / 10);
            mnem_team_destroy(team);
        }
    mnem__team_force(NULL);
}

/* Measured sizes: whatever the machine is doing meanwhile. */
static void teams_that_measure_do_every_share(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 3, 4, LARGEST};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        mnem_team *team;
        must(mnem_team_create(counts[i], &team));
        mnem__team_adapt(team);
        for (int run = 0; run < 3; run++) {
            walk w = {.sleepy = run == 2};
            walk_all(team, &w);
            assert_true(w.most <= mnem__processors());
        }
        mnem_team_destroy(team);
    }
}

/* ---- and what they measure ---- */

typedef struct load {
    pthread_t threads[64];
    int count;
    atomic_bool stop;
} load;

static void *be_busy(void *context) {
    load *l = context;
    while (!atomic_load_explicit(&l->stop, memory_order_relaxed)) mnem__spin_pause();
    return NULL;
}

static void load_start(load *l, int count) {
    l->count = count < 64 ? count : 64;
    atomic_store(&l->stop, false);
    for (int i = 0; i < l->count; i++) pthread_create(&l->threads[i], NULL, be_busy, l);
}

static void load_stop(load *l) {
    atomic_store(&l->stop, true);
    for (int i = 0; i < l->count; i++) pthread_join(l->threads[i], NULL);
}

/* Short shares and many meetings; notes how many ran. */
static void meet_often(const mnem_worker *worker, void *context) {
    for (int i = 0; i < 50; i++) {
        for (int j = 0; j < 100; j++) mnem__spin_pause();
        mnem_team_barrier(worker);
    }
    if (worker->index == 0) *(int *)context = worker->count;
}

/* Where each member would have half a processor, soon only one runs. */
static void a_team_gives_way_on_a_busy_machine(void **state) {
    (void)state;
    static load l;
    mnem_team *team;
    int running = 0;
    must(mnem_team_create(2, &team));
    mnem__team_adapt(team);
    load_start(&l, 2 * mnem__processors());
    const double begin = mnem__seconds();
    while (running != 1 && mnem__seconds() - begin < 20) mnem_team_run(team, meet_often, &running);
    load_stop(&l);
    assert_int_equal(running, 1);
    mnem_team_destroy(team);
}

static int one(int limit) {
    (void)limit;
    return 1;
}

static void note_thread(const mnem_worker *worker, void *context) {
    assert_int_equal(worker->count, 1);
    *(pthread_t *)context = pthread_self();
}

/* So that nobody has to be waited for. */
static void one_member_is_the_caller(void **state) {
    (void)state;
    mnem_team *team;
    pthread_t ran;
    must(mnem_team_create(4, &team));
    mnem__team_adapt(team);
    mnem__team_force(one);
    mnem_team_run(team, note_thread, &ran);
    mnem__team_force(NULL);
    assert_true(pthread_equal(ran, pthread_self()));
    mnem_team_destroy(team);
}

static void a_lone_worker_needs_no_team(void **state) {
    (void)state;
    mnem_worker lone = {NULL, 0, 1};
    int64_t begin, end;
    mnem_team_barrier(&lone);
    mnem_team_split(&lone, 100, 16, &begin, &end);
    assert_int_equal(begin, 0);
    assert_int_equal(end, 100);
}

static void splits_cover_everything_once(void **state) {
    (void)state;
    for (int count = 1; count < 20; count++)
        for (int64_t n = 0; n < 200; n += 7)
            for (int64_t grain = 1; grain < 40; grain += 5) {
                int64_t next = 0, begin, end;
                for (int i = 0; i < count; i++) {
                    mnem_worker w = {NULL, i, count};
                    mnem_team_split(&w, n, grain, &begin, &end);
                    assert_int_equal(begin, next);
                    assert_true(end == n || end % grain == 0);
                    assert_true(end - begin <= ((n + grain - 1) / grain / count + 1) * grain);
                    next = end;
                }
                assert_int_equal(next, n);
            }
}

static void counts_out_of_range_are_refused(void **state) {
    (void)state;
    mnem_team *team = (void *)1;
    assert_int_equal(mnem_team_create(0, &team), MNEM_INVALID);
    assert_null(team);
    assert_int_equal(mnem_team_create(MNEM_TEAM_MAX + 1, &team), MNEM_INVALID);
    mnem_team_destroy(NULL);
}

static void no_memory_at_any_thread_is_reported(void **state) {
    (void)state;
    for (uint64_t n = 1;; n++) {
        mnem_team *team;
        mnem__heap_fail_at(n, false);
        mnem_status status = mnem_team_create(4, &team);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK) {
            assert_int_equal(n, 5); /* the team and three stacks */
            mnem_team_destroy(team);
            return;
        }
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_null(team);
    }
}

static void the_level_can_only_be_lowered(void **state) {
    (void)state;
    mnem__cpu_level machine = mnem__cpu_level_get();
    mnem__cpu_level_set(MNEM__CPU_PLAIN);
    assert_int_equal(mnem__cpu_level_get(), MNEM__CPU_PLAIN);
    mnem__cpu_level_set(MNEM__CPU_BEST);
    assert_int_equal(mnem__cpu_level_get(), machine);
    assert_true(mnem__processors() >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_member_runs_and_barriers_order_memory),
        cmocka_unit_test(sleeping_members_wake_up),
        cmocka_unit_test(teams_may_change_at_every_step),
        cmocka_unit_test(teams_that_measure_do_every_share),
        cmocka_unit_test(one_member_is_the_caller),
        cmocka_unit_test(a_team_gives_way_on_a_busy_machine),
        cmocka_unit_test(a_lone_worker_needs_no_team),
        cmocka_unit_test(splits_cover_everything_once),
        cmocka_unit_test(counts_out_of_range_are_refused),
        cmocka_unit_test(no_memory_at_any_thread_is_reported),
        cmocka_unit_test(the_level_can_only_be_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
