/* test_models_choice.c: which models make room, and how many bytes each takes, for random ones. */
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "verbs/serve/models/models_choice.h"

enum { ROUNDS = 20000, MODELS = 8 };

typedef struct moment {
    models_fact fact[MODELS];
    int count, wanted;
    uint64_t room;
    bool overdue;
} moment;

static uint64_t sum(const moment *m, uint64_t who) {
    uint64_t bytes = 0;
    for (int i = 0; i < m->count; i++)
        if (who >> i & 1) bytes += m->fact[i].bytes;
    return bytes;
}

static uint64_t those(const moment *m, bool (*is)(const models_fact *f)) {
    uint64_t who = 0;
    for (int i = 0; i < m->count; i++)
        if (is(&m->fact[i])) who |= (uint64_t)1 << i;
    return who;
}

static bool is_pinned(const models_fact *f) {
    return f->pinned;
}

static bool takes(const models_fact *f) {
    return f->loaded || f->pinned;
}

static bool comes(const models_fact *f) {
    return f->loaded && f->leaving;
}

static bool is_idle(const models_fact *f) {
    return f->loaded && !f->pinned && !f->leaving && !f->busy;
}

static bool may_go(const models_fact *f) {
    return f->loaded && !f->pinned && !f->leaving && !f->begins;
}

/* Loaded ones fit, as they do in a server; equal: all have the same bytes. */
static moment draw(bool equal) {
    moment m = {.count = 1 + (int)random_below(MODELS), .room = 50 + random_below(100)};
    uint64_t left = m.room;
    const uint64_t bytes = 1 + random_below(60);
    for (int i = 0; i < m.count; i++) {
        models_fact *f = &m.fact[i];
        f->bytes = equal ? bytes : 1 + random_below(80);
        f->used = (int64_t)random_below(1000) * MODELS + i; /* no two alike */
        const bool fits = f->bytes <= left;
        f->pinned = fits && random_below(6) == 0;
        f->loaded = f->pinned || (fits && random_below(3) > 0);
        f->busy = f->loaded && random_below(2) == 0;
        f->begins = f->busy && random_below(4) == 0;
        f->leaving = f->loaded && !f->pinned && !f->begins && random_below(5) == 0;
        if (f->loaded) left -= f->bytes;
    }
    m.wanted = (int)random_below((uint64_t)m.count);
    models_fact *w = &m.fact[m.wanted];
    w->loaded = w->busy = w->leaving = w->pinned = w->begins = false;
    m.overdue = random_below(2) == 0;
    return m;
}

static void check_leave(const moment *m, uint64_t who, uint64_t there) {
    const uint64_t needed = m->fact[m->wanted].bytes, idle = those(m, is_idle);
    assert_true(who != 0);
    assert_true((who & ~those(m, may_go)) == 0);
    if (!m->overdue) assert_true((who & ~idle) == 0);
    assert_true(there + sum(m, who) >= needed);
    for (int i = 0; i < m->count; i++)
        if (who >> i & 1) assert_true(there + sum(m, who) - m->fact[i].bytes < needed);
    if (there + sum(m, idle) >= needed) assert_true((who & ~idle) == 0);
}

static void as_many_leave_as_are_needed_and_none_that_may_not(void **state) {
    (void)state;
    random_seed_chosen();
    for (int round = 0; round < ROUNDS; round++) {
        const moment m = draw(false);
        const models_choice c = models_choose(m.fact, m.count, m.wanted, m.room, m.overdue);
        const uint64_t needed = m.fact[m.wanted].bytes;
        const uint64_t free = m.room - sum(&m, those(&m, takes));
        const uint64_t there = free + sum(&m, those(&m, comes));
        const uint64_t most = m.room - sum(&m, those(&m, is_pinned));
        assert_int_equal(c.room_bytes, most);
        assert_int_equal(c.act == MODELS_NEVER, needed > most);
        assert_int_equal(c.act == MODELS_LOAD, needed <= free);
        if (c.act != MODELS_LEAVE) assert_true(c.who == 0);
        if (c.act == MODELS_LEAVE) check_leave(&m, c.who, there);
        if (c.act == MODELS_WAIT) {
            const uint64_t can = those(&m, m.overdue ? may_go : is_idle);
            assert_true(there >= needed || there + sum(&m, can) < needed);
        }
    }
}

/* Idle ones first, then busy ones, the least recently used first. */
static void of_equal_ones_the_least_recently_used_leave(void **state) {
    (void)state;
    random_seed_chosen();
    for (int round = 0; round < ROUNDS; round++) {
        const moment m = draw(true);
        const models_choice c = models_choose(m.fact, m.count, m.wanted, m.room, m.overdue);
        if (c.act != MODELS_LEAVE) continue;
        for (int i = 0; i < m.count; i++) {
            for (int j = 0; j < m.count; j++) {
                const models_fact *goes = &m.fact[i], *stays = &m.fact[j];
                if (!(c.who >> i & 1) || c.who >> j & 1 || !may_go(stays)) continue;
                if (stays->busy == goes->busy) assert_true(goes->used < stays->used);
                if (!stays->busy) assert_false(goes->busy);
            }
        }
    }
}

/* A server that does what is chosen: whoever is wanted is loaded in the end, and what is loaded
 * fits at any time. */
static void nobody_waits_for_ever(void **state) {
    (void)state;
    random_seed_chosen();
    for (int round = 0; round < 2000; round++) {
        moment m = draw(false);
        int turns = 0;
        for (;; turns++) {
            const models_choice c = models_choose(m.fact, m.count, m.wanted, m.room, turns > 3);
            assert_true(sum(&m, those(&m, takes)) <= m.room);
            if (c.act == MODELS_NEVER || c.act == MODELS_LOAD) break;
            assert_true(turns < 20);
            for (int i = 0; i < m.count; i++) {
                models_fact *f = &m.fact[i];
                if (c.who >> i & 1) f->leaving = true;
                f->begins = false;
                if (f->leaving && random_below(2) == 0) f->busy = false; /* takes no new requests */
                if (!f->leaving && f->loaded) f->busy = true;            /* others ask it again */
                if (f->leaving && !f->busy) f->loaded = f->leaving = false;
            }
        }
    }
}

static void what_fits_together_does_so_with_a_part_of_what_is_free(void **state) {
    (void)state;
    random_seed_chosen();
    for (int round = 0; round < 2000; round++) {
        moment before = draw(random_below(4) == 0), after;
        for (int i = 0; i < before.count; i++) before.fact[i].bytes *= 1000003;
        before.room *= 1000003;
        after = before;
        models_share(after.fact, after.count, after.room);
        const uint64_t pinned = those(&before, is_pinned);
        for (uint64_t set = 1; set < (uint64_t)1 << before.count; set++)
            if ((set & pinned) == pinned && sum(&before, set) <= before.room)
                assert_true(sum(&after, set) <= after.room);
        for (int i = 0; i < before.count; i++) {
            const uint64_t alone = pinned | (uint64_t)1 << i;
            if (sum(&before, alone) <= before.room)
                assert_true(after.fact[i].bytes >= before.fact[i].bytes);
            else if (!(pinned >> i & 1))
                assert_true(sum(&after, alone) <= after.room);
        }
    }
}

static void a_single_one_gets_nearly_all_and_64_are_shared_quickly(void **state) {
    (void)state;
    models_fact one = {.bytes = 3 * MIB}, many[MODELS_MOST] = {{0}};
    models_share(&one, 1, 100 * MIB);
    assert_true(one.bytes > 99 * MIB && one.bytes <= 100 * MIB);
    for (int i = 0; i < MODELS_MOST; i++) many[i].bytes = (uint64_t)(i + 1) * MIB;
    models_share(many, MODELS_MOST, 100 * MIB);
    for (int i = 0; i < MODELS_MOST; i++) assert_true(many[i].bytes >= (uint64_t)(i + 1) * MIB);
    assert_true(many[0].bytes + many[1].bytes + many[2].bytes <= 100 * MIB);
}

/* Three of which two fit: what they leave free is halved. */
static void two_of_three_share_what_they_leave(void **state) {
    (void)state;
    models_fact f[3] = {{.bytes = 40 * MIB}, {.bytes = 40 * MIB}, {.bytes = 40 * MIB}};
    models_share(f, 3, 100 * MIB);
    for (int i = 0; i < 3; i++) assert_true(f[i].bytes > 49 * MIB && f[i].bytes <= 50 * MIB);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_leave_as_are_needed_and_none_that_may_not),
        cmocka_unit_test(of_equal_ones_the_least_recently_used_leave),
        cmocka_unit_test(nobody_waits_for_ever),
        cmocka_unit_test(what_fits_together_does_so_with_a_part_of_what_is_free),
        cmocka_unit_test(a_single_one_gets_nearly_all_and_64_are_shared_quickly),
        cmocka_unit_test(two_of_three_share_what_they_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
