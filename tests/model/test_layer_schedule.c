/* test_layer_schedule.c: schedules of layers say what plain loops say, for random ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/architecture/layer_schedule.h"

enum { ROUNDS = 2000 };

static uint64_t seed = 20261129;

static int32_t below(int32_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((seed >> 33) % (uint64_t)n);
}

/* ---- plain loops ---- */

typedef struct plain {
    bool is[MNEM_LAYERS_MAX];
} plain;

static void set(plain *p, int32_t from, int32_t step, bool value) {
    for (int32_t layer = from; layer < MNEM_LAYERS_MAX; layer += step) p->is[layer] = value;
}

/* A schedule of this kind, and what it says. */
static mnem_layer_schedule draw(mnem_layers_kind kind, int32_t layers, plain *p) {
    mnem_layer_schedule s = {.kind = kind, .n = 1 + below(layers + 2)};
    *p = (plain){{false}};
    switch (kind) {
    case MNEM_LAYERS_NONE: break;
    case MNEM_LAYERS_ALL: set(p, 0, 1, true); break;
    case MNEM_LAYERS_FIRST:
        for (int32_t layer = 0; layer < s.n && layer < MNEM_LAYERS_MAX; layer++)
            p->is[layer] = true;
        break;
    case MNEM_LAYERS_EVERY: set(p, s.n - 1, s.n, true); break;
    case MNEM_LAYERS_BUT_EVERY:
        set(p, 0, 1, true);
        set(p, s.n - 1, s.n, false);
        break;
    case MNEM_LAYERS_LIST:
        for (int32_t i = below(layers + 1); i > 0; i--) {
            const int32_t layer = below(layers);
            mnem__layer_schedule_add(&s, layer);
            p->is[layer] = true;
        }
        break;
    }
    return s;
}

static void check(const mnem_layer_schedule *s, const plain *p, int32_t layers) {
    int32_t count = 0;
    for (int32_t layer = 0; layer < layers; layer++) {
        assert_int_equal(mnem_layer_is(s, layer), p->is[layer]);
        count += p->is[layer];
    }
    assert_int_equal(mnem_layers_count(s, layers), count);
}

static void a_schedule_says_what_a_loop_says(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        const int32_t layers = i % 100 ? 1 + below(70) : MNEM_LAYERS_MAX;
        plain p;
        const mnem_layer_schedule s = draw((mnem_layers_kind)below(6), layers, &p);
        check(&s, &p, layers);
    }
}

/* The same layers as a list. */
static mnem_layer_schedule list_of(const plain *p, int32_t layers) {
    mnem_layer_schedule list = {.kind = MNEM_LAYERS_LIST};
    for (int32_t layer = 0; layer < layers; layer++)
        if (p->is[layer]) mnem__layer_schedule_add(&list, layer);
    return list;
}

static bool is_all_but_every(const plain *p, int32_t n, int32_t layers) {
    for (int32_t layer = 0; layer < layers; layer++)
        if (p->is[layer] != (layer % n != n - 1)) return false;
    return true;
}

/* The shortest n for which the layers are all but the last of every n; more than there are layers:
 * all; 0: none fits. */
static int32_t period_of(const plain *p, int32_t layers) {
    for (int32_t n = 1; n <= layers + 1; n++)
        if (is_all_but_every(p, n, layers)) return n;
    return 0;
}

static void a_list_becomes_the_simplest_that_says_the_same(void **state) {
    (void)state;
    int kinds[MNEM_LAYERS_LIST + 1] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        const int32_t layers = 1 + below(20);
        plain p;
        draw((mnem_layers_kind)below(6), layers, &p);
        const mnem_layer_schedule list = list_of(&p, layers);
        const mnem_layer_schedule s = mnem__layer_schedule_simple(&list, layers);
        const int32_t period = period_of(&p, layers);
        check(&s, &p, layers);
        assert_int_equal(s.kind, period > layers ? MNEM_LAYERS_ALL
                                 : period > 0    ? MNEM_LAYERS_BUT_EVERY
                                                 : MNEM_LAYERS_LIST);
        if (s.kind == MNEM_LAYERS_BUT_EVERY) assert_int_equal(s.n, period);
        kinds[s.kind]++;
    }
    assert_true(kinds[MNEM_LAYERS_ALL] > 100 && kinds[MNEM_LAYERS_BUT_EVERY] > 100);
    assert_true(kinds[MNEM_LAYERS_LIST] > 100);
}

static void zeros_and_odd_numbers_say_something_safe(void **state) {
    (void)state;
    const mnem_layer_schedule zeros = {.kind = MNEM_LAYERS_NONE};
    const mnem_layer_schedule every = {.kind = MNEM_LAYERS_EVERY};
    const mnem_layer_schedule but = {.kind = MNEM_LAYERS_BUT_EVERY};
    mnem_layer_schedule list = {.kind = MNEM_LAYERS_LIST};
    memset(list.list, 255, sizeof list.list);
    assert_int_equal(mnem_layers_count(&zeros, 50), 0);
    assert_int_equal(mnem_layers_count(&every, 50), 0);
    assert_int_equal(mnem_layers_count(&but, 50), 50);
    assert_false(mnem_layer_is(&list, -1));
    assert_false(mnem_layer_is(&list, MNEM_LAYERS_MAX));
    assert_true(mnem_layer_is(&list, MNEM_LAYERS_MAX - 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schedule_says_what_a_loop_says),
        cmocka_unit_test(a_list_becomes_the_simplest_that_says_the_same),
        cmocka_unit_test(zeros_and_odd_numbers_say_something_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
