/* test_expert_cache.c: which experts stay in memory: numbers alone. */
#include <stdlib.h>

#include "kit/kit.h"
#include "model/weights/expert_cache.h"

enum { MIXTURES = 3, EXPERTS = 16, SLOTS = 12 };

typedef struct cache_case {
    mnem__expert_cache cache;
    void *base;
} cache_case;

static void open_case(cache_case *c) {
    c->base = calloc(1, mnem__expert_cache_lay_out(NULL, MIXTURES, EXPERTS, SLOTS, NULL));
    assert_non_null(c->base);
    mnem__expert_cache_lay_out(&c->cache, MIXTURES, EXPERTS, SLOTS, c->base);
    mnem__expert_cache_init(&c->cache);
}

/* As a layer does: what it wants is taken one after another and released. Returns how many were
 * there. */
static int step(cache_case *c, int32_t mixture, const int32_t *numbers, int32_t count) {
    int found = 0;
    mnem__expert_cache_use(&c->cache, mixture, numbers, count);
    for (int32_t i = 0; i < count; i++) {
        int32_t slot = mnem__expert_cache_find(&c->cache, mixture, numbers[i]);
        found += slot >= 0;
        if (slot < 0) slot = mnem__expert_cache_take(&c->cache, mixture, numbers[i]);
        assert_in_range(slot, 0, SLOTS - 1);
        mnem__expert_cache_release(&c->cache, slot);
    }
    return found;
}

static void check(const cache_case *c) {
    int there = 0, taken = 0;
    for (int32_t m = 0; m < MIXTURES; m++)
        for (int32_t e = 0; e < EXPERTS; e++) {
            const int32_t slot = mnem__expert_cache_find(&c->cache, m, e);
            if (slot < 0) continue;
            there++;
            assert_int_equal(c->cache.slot[slot].mixture, m);
            assert_int_equal(c->cache.slot[slot].number, e);
        }
    for (int32_t i = 0; i < SLOTS; i++) taken += c->cache.slot[i].mixture >= 0;
    assert_int_equal(there, taken);
}

static void the_tables_agree_after_random_steps(void **state) {
    cache_case c;
    uint32_t random = 7;
    (void)state;
    open_case(&c);
    for (int i = 0; i < 3000; i++) {
        int32_t numbers[4], count = 0;
        for (int32_t e = (int32_t)(random >> 24) % 5; e < EXPERTS && count < 4; e += 1 + i % 4)
            numbers[count++] = e;
        step(&c, i % MIXTURES, numbers, count);
        random = random * 1664525 + 1013904223;
        check(&c);
    }
    free(c.base);
}

static void what_is_kept_makes_no_room(void **state) {
    cache_case c;
    (void)state;
    open_case(&c);
    for (int32_t i = 0; i < SLOTS; i++)
        assert_int_equal(mnem__expert_cache_take(&c.cache, 0, i), i);
    assert_int_equal(mnem__expert_cache_take(&c.cache, 1, 0), -1);
    mnem__expert_cache_release(&c.cache, 5);
    assert_int_equal(mnem__expert_cache_take(&c.cache, 1, 0), 5);
    assert_int_equal(mnem__expert_cache_find(&c.cache, 0, 5), -1);
    mnem__expert_cache_drop(&c.cache, 5);
    assert_int_equal(mnem__expert_cache_find(&c.cache, 1, 0), -1);
    check(&c);
    free(c.base);
}

static void often_used_experts_outlive_a_visitor(void **state) {
    static const int32_t often[] = {1, 2, 3}, visitors[] = {9, 10};
    cache_case c;
    (void)state;
    open_case(&c);
    for (int i = 0; i < 20; i++)
        for (int32_t m = 0; m < MIXTURES; m++) step(&c, m, often, 3);
    for (int i = 0; i < 2; i++)
        for (int32_t m = 0; m < MIXTURES; m++) step(&c, m, visitors, 2);
    for (int32_t m = 0; m < MIXTURES; m++) assert_int_equal(step(&c, m, often, 3), 3);
    free(c.base);
}

static void a_prompt_that_wants_all_finds_what_memory_holds(void **state) {
    int32_t all[EXPERTS];
    cache_case c;
    int found = 0;
    (void)state;
    for (int32_t i = 0; i < EXPERTS; i++) all[i] = i;
    open_case(&c);
    for (int i = 0; i < 10; i++) {
        found = 0;
        for (int32_t m = 0; m < MIXTURES; m++) found += step(&c, m, all, EXPERTS);
    }
    /* One slot in turn is read through; least recently used would find nothing at all. */
    assert_in_range(found, SLOTS - MIXTURES, SLOTS);
    free(c.base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_agree_after_random_steps),
        cmocka_unit_test(what_is_kept_makes_no_room),
        cmocka_unit_test(often_used_experts_outlive_a_visitor),
        cmocka_unit_test(a_prompt_that_wants_all_finds_what_memory_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
