/* test_team_size.c: sizes of teams on machines that are only numbers: what each size does there. */
#include <string.h>

#include "base/team/team_size.h"
#include "kit/kit.h"
#include "kit/kit_random.h"

/* A machine, and what a team of it has seen. */
typedef struct machine {
    int processors, loops; /* loops: of other programs */
    bool more_is_more;     /* though members are absent, more of them do more */
    bool asleep;           /* members that have no processor seem to sleep */
    double waiting;        /* part of the time that is a disk's */
    double noise;
    mnem__team_size size;
    uint64_t random;
    double seconds, seconds_of[65]; /* at each size */
} machine;

/* Members that share a processor with a loop have half of it, and all wait for them. */
static double presence_of(const machine *m, int count) {
    return count + m->loops <= m->processors ? 0.99 : 0.5;
}

static double rate_of(const machine *m, int count) {
    if (presence_of(m, count) > 0.9) return 0.95 * count;
    if (count == 1 || m->more_is_more) return 0.5 * count;
    return 0.3;
}

static double noisy(machine *m, double x) {
    return x *
           (1 + m->noise * (2 * (double)(next_random(&m->random) >> 11) / 9007199254740992.0 - 1));
}

static void live(machine *m, double seconds) {
    m->seconds = 0;
    memset(m->seconds_of, 0, sizeof m->seconds_of);
    while (m->seconds < seconds) {
        mnem__team_size *s = &m->size;
        const double wall = mnem__team_size_window(s), rate = noisy(m, rate_of(m, s->count));
        const mnem__team_window w = {.wall = wall,
                                     .waited = m->waiting * wall,
                                     .used = (1 - m->waiting) * wall * rate,
                                     .presence = m->asleep ? 1 : presence_of(m, s->count)};
        m->seconds += wall;
        m->seconds_of[s->count] += wall;
        assert_true(mnem__team_size_judge(s, &w));
        assert_in_range(s->count, 1, s->limit);
        assert_true(s->bottom < s->settled && s->settled < s->top);
    }
}

static machine machine_of(int processors, int loops, double noise) {
    machine m = {.processors = processors, .loops = loops, .noise = noise, .random = 7};
    mnem__team_size_init(&m.size, processors);
    return m;
}

static void a_quiet_machine_never_tries_fewer(void **state) {
    (void)state;
    for (int processors = 1; processors <= 64; processors *= 2) {
        machine m = machine_of(processors, 0, 0.2);
        live(&m, 100);
        assert_true(m.seconds_of[processors] == m.seconds);
    }
}

static void one_is_enough_where_every_processor_is_busy(void **state) {
    (void)state;
    for (int processors = 2; processors <= 64; processors *= 2) {
        machine m = machine_of(processors, processors, 0.2);
        live(&m, 0.2);
        assert_int_equal(m.size.settled, 1);
        live(&m, 100);
        assert_true(m.seconds_of[1] > 0.97 * m.seconds);
    }
}

static void on_two_processors_it_takes_a_fiftieth_of_a_second(void **state) {
    (void)state;
    machine m = machine_of(2, 2, 0);
    live(&m, 1);
    assert_true(m.seconds_of[2] < 0.02);
}

static void all_run_soon_after_the_machine_is_quiet(void **state) {
    (void)state;
    for (int processors = 2; processors <= 64; processors *= 2) {
        machine m = machine_of(processors, processors, 0.02);
        live(&m, 100);
        m.loops = 0;
        live(&m, 1);
        assert_int_equal(m.size.settled, processors);
        live(&m, 10);
        assert_true(m.seconds_of[processors] == m.seconds);
    }
}

static void processors_that_others_use_are_left_to_them(void **state) {
    (void)state;
    machine m = machine_of(64, 8, 0.01);
    live(&m, 1);
    assert_in_range(m.size.settled, 50, 56);
    live(&m, 100);
    double most = 0;
    for (int i = 48; i <= 56; i++) most += m.seconds_of[i];
    assert_true(most > 0.95 * m.seconds);
}

/* Each is awake only while it has a processor, and that is hardly ever. */
static void members_that_sleep_by_turns_become_one(void **state) {
    (void)state;
    for (int processors = 2; processors <= 64; processors *= 2) {
        machine m = machine_of(processors, processors, 0);
        m.asleep = true;
        live(&m, 0.5);
        assert_int_equal(m.size.settled, 1);
        live(&m, 100);
        assert_true(m.seconds_of[1] > 0.97 * m.seconds);
    }
}

/* Of the window they do little, but all that can be done while it lasts. */
static void members_that_wait_for_a_disk_stay(void **state) {
    (void)state;
    machine m = machine_of(8, 0, 0.1);
    m.waiting = 0.85;
    live(&m, 100);
    assert_true(m.seconds_of[8] == m.seconds);
}

static void absent_members_stay_if_they_do_more(void **state) {
    (void)state;
    machine m = machine_of(4, 4, 0.1);
    m.more_is_more = true;
    live(&m, 100);
    assert_true(m.seconds_of[4] > 0.97 * m.seconds);
}

static void a_window_that_hardly_ran_goes_on_but_not_for_ever(void **state) {
    (void)state;
    machine m = machine_of(2, 2, 0);
    live(&m, 1);
    assert_int_equal(m.size.count, 1);
    const double window = mnem__team_size_window(&m.size);
    assert_false(mnem__team_size_judge(
        &m.size, &(mnem__team_window){.wall = window, .used = 0.1 * window, .presence = 0.1}));
    assert_true(mnem__team_size_judge(
        &m.size, &(mnem__team_window){.wall = 9 * window, .used = 0.1 * window, .presence = 0.1}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quiet_machine_never_tries_fewer),
        cmocka_unit_test(one_is_enough_where_every_processor_is_busy),
        cmocka_unit_test(on_two_processors_it_takes_a_fiftieth_of_a_second),
        cmocka_unit_test(all_run_soon_after_the_machine_is_quiet),
        cmocka_unit_test(processors_that_others_use_are_left_to_them),
        cmocka_unit_test(members_that_sleep_by_turns_become_one),
        cmocka_unit_test(members_that_wait_for_a_disk_stay),
        cmocka_unit_test(absent_members_stay_if_they_do_more),
        cmocka_unit_test(a_window_that_hardly_ran_goes_on_but_not_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
