/* test_team.c: runs and barriers of teams smaller and larger than the machine. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/heap.h"
#include "base/thread.h"
#include "kit/kit.h"
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

static void sleeping_members_wake_up(void **state) {
    (void)state;
    mnem_team *team;
    int runs = 0;
    assert_int_equal(mnem_team_create(3, &team), MNEM_OK);
    for (int i = 0; i < 10; i++) {
        mnem_team_run(team, count_up, &runs);
        usleep(2000);
    }
    assert_int_equal(runs, 10);
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
        cmocka_unit_test(a_lone_worker_needs_no_team),
        cmocka_unit_test(splits_cover_everything_once),
        cmocka_unit_test(counts_out_of_range_are_refused),
        cmocka_unit_test(no_memory_at_any_thread_is_reported),
        cmocka_unit_test(the_level_can_only_be_lowered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
