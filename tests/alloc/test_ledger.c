/* test_ledger.c: budgets and accounts. The parts sum to the total after every step. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/ledger.h"

static mnem_ledger *ledger_create(uint64_t budget) {
    mnem_ledger *ledger;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = budget}, &ledger));
    return ledger;
}

static mnem_ledger_info info_get(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return info;
}

/* The sum over the accounts, which are in the order of their kinds. */
static void sum_check(const mnem_ledger *ledger) {
    mnem_ledger_info info = info_get(ledger);
    mnem_account_info account;
    uint64_t sum = 0;
    unsigned n = 0;
    mnem_kind before = 0;
    for (; mnem_ledger_account_get(ledger, n, &account); n++) {
        assert_true(account.kind >= before);
        assert_true(account.bytes_live <= account.bytes_peak);
        before = account.kind;
        sum += account.bytes_live;
    }
    assert_int_equal(n, info.accounts);
    assert_int_equal(sum, info.bytes_live);
    assert_true(info.bytes_live <= info.bytes_peak);
}

static mnem_account_info account_find(const mnem_ledger *ledger, mnem_kind kind, const char *tag) {
    mnem_account_info account;
    for (unsigned n = 0; mnem_ledger_account_get(ledger, n, &account); n++)
        if (account.kind == kind && !strcmp(account.tag, tag)) return account;
    return (mnem_account_info){0};
}

static void over_budget_says_how_much_is_missing(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_create(64 * MIB);
    must(mnem_ledger_charge(ledger, MNEM_KIND_WEIGHTS, "matrices", 59 * MIB));
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 8 * MIB), MNEM_OVER_BUDGET);
    assert_string_equal(mnem_last_error(), "kv pages: needs 8388608 bytes, but only 5242880 "
                                           "of the budget of 67108864 are left (3145728 over)");
    mnem_ledger_info info = info_get(ledger);
    assert_int_equal(info.bytes_live, 59 * MIB);
    assert_int_equal(info.refusals, 1);
    assert_int_equal(info.bytes_refused, 8 * MIB);
    must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 5 * MIB)); /* to the last byte */
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 1), MNEM_OVER_BUDGET);
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", UINT64_MAX),
                     MNEM_OVER_BUDGET);
    assert_int_equal(account_find(ledger, MNEM_KIND_KV, "pages").charges, 1);
    sum_check(ledger);
    mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 5 * MIB);
    mnem_ledger_release(ledger, MNEM_KIND_WEIGHTS, "matrices", 59 * MIB);
    assert_int_equal(info_get(ledger).bytes_peak, 64 * MIB);
    must(mnem_ledger_destroy(ledger));
}

static void limits_of_kinds_and_tags_hold(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_create(0);
    assert_int_equal(info_get(ledger).budget_bytes, 0);
    must(mnem_ledger_limit_set(ledger, MNEM_KIND_IO, NULL, 100));
    must(mnem_ledger_limit_set(ledger, MNEM_KIND_IO, "ring", 60));
    must(mnem_ledger_charge(ledger, MNEM_KIND_IO, "ring", 60));
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_IO, "ring", 1), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "0 of the account's limit of 60 are left"));
    must(mnem_ledger_charge(ledger, MNEM_KIND_IO, "other", 40));
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_IO, "other", 1), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "0 of the kind's limit of 100 are left"));
    assert_int_equal(mnem_ledger_limit_set(ledger, MNEM_KIND_IO, "ring", 59), MNEM_OVER_BUDGET);
    assert_int_equal(mnem_ledger_limit_set(ledger, MNEM_KIND_IO, NULL, 99), MNEM_OVER_BUDGET);
    must(mnem_ledger_limit_set(ledger, MNEM_KIND_IO, NULL, 0));
    must(mnem_ledger_limit_set(ledger, MNEM_KIND_IO, "ring", 0));
    must(mnem_ledger_charge(ledger, MNEM_KIND_IO, "ring", 1000));
    assert_int_equal(mnem_ledger_budget_set(ledger, 1099), MNEM_OVER_BUDGET);
    must(mnem_ledger_budget_set(ledger, 1100));
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "a", 1), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "0 of the budget of 1100 are left"));
    must(mnem_ledger_budget_set(ledger, 0));
    must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "a", 1));
    sum_check(ledger);
    mnem_ledger_release(ledger, MNEM_KIND_KV, "a", 1);
    mnem_ledger_release(ledger, MNEM_KIND_IO, "ring", 1060);
    mnem_ledger_release(ledger, MNEM_KIND_IO, "other", 40);
    must(mnem_ledger_destroy(ledger));
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_create(0), *none;
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_COUNT, "a", 1), MNEM_INVALID);
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, NULL, 1), MNEM_INVALID);
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_KV, "", 1), MNEM_INVALID);
    assert_int_equal(mnem_ledger_limit_set(ledger, MNEM_KIND_COUNT, NULL, 1), MNEM_INVALID);
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.soft_fraction = 2}, &none),
                     MNEM_INVALID);
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){.soft_fraction = -1}, &none),
                     MNEM_INVALID);
    mnem_ledger_release(ledger, MNEM_KIND_KV, "a", 1000); /* more than is there */
    assert_int_equal(info_get(ledger).bytes_live, 0);
    assert_string_equal(mnem_kind_text(MNEM_KIND_KV), "kv");
    assert_string_equal(mnem_kind_text(MNEM_KIND_COUNT), "unknown kind");
    must(mnem_ledger_destroy(ledger));
    must(mnem_ledger_destroy(NULL));
}

static void destroying_with_live_bytes_names_them(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_create(0);
    must(mnem_ledger_charge(ledger, MNEM_KIND_KV, "pages", 70));
    must(mnem_ledger_charge(ledger, MNEM_KIND_IO, "ring", 80));
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_BUSY);
    assert_string_equal(mnem_last_error(), "ledger: can't be destroyed while bytes are charged: kv "
                                           "pages 70, io ring 80; release them first");
    mnem_ledger_release(ledger, MNEM_KIND_KV, "pages", 70);
    mnem_ledger_release(ledger, MNEM_KIND_IO, "ring", 80);
    must(mnem_ledger_destroy(ledger));
}

typedef struct cache {
    mnem_ledger *ledger;
    uint64_t bytes;
    int calls;
} cache;

static void cache_shrink(void *context, uint64_t over) {
    cache *c = context;
    c->calls++;
    uint64_t gone = over < c->bytes ? over : c->bytes;
    mnem_ledger_release(c->ledger, MNEM_KIND_WORKSPACE, "cache", gone);
    c->bytes -= gone;
    if (mnem_ledger_charge(c->ledger, MNEM_KIND_HOST, "note", 1) == MNEM_OK) /* not called again */
        mnem_ledger_release(c->ledger, MNEM_KIND_HOST, "note", 1);
}

static void the_soft_limit_asks_before_the_hard_one_refuses(void **state) {
    (void)state;
    cache c = {.bytes = 800};
    mnem_ledger_options options = {
        .budget_bytes = 1000, .soft_fraction = 0.9, .on_soft = cache_shrink, .context = &c};
    must(mnem_ledger_create(&options, &c.ledger));
    assert_int_equal(info_get(c.ledger).soft_bytes, 900);
    must(mnem_ledger_charge(c.ledger, MNEM_KIND_WORKSPACE, "cache", 800));
    must(mnem_ledger_charge(c.ledger, MNEM_KIND_KV, "pages", 100));
    assert_int_equal(c.calls, 0);
    must(mnem_ledger_charge(c.ledger, MNEM_KIND_KV, "pages", 600));
    assert_int_equal(c.calls, 1);
    assert_int_equal(c.bytes, 200);
    assert_int_equal(info_get(c.ledger).bytes_live, 900);
    mnem_device *device;
    mnem_block block;
    must(mnem_device_open("null", &(mnem_device_options){.granularity = 1}, &device));
    must(mnem_ledger_alloc(c.ledger, device, MNEM_KIND_KV, "plan", 50, 1, &block));
    assert_int_equal(c.calls, 1); /* placed by a plan: not asked */
    mnem_ledger_free(c.ledger, MNEM_KIND_KV, "plan", &block);
    must(mnem_device_close(device));
    mnem_ledger_release(c.ledger, MNEM_KIND_KV, "pages", 700);
    mnem_ledger_release(c.ledger, MNEM_KIND_WORKSPACE, "cache", 200);
    must(mnem_ledger_destroy(c.ledger));
}

static void blocks_are_charged_as_they_are_taken(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_create(10 * MIB);
    mnem_device *device;
    mnem_block block = {0}, none = {0};
    must(mnem_device_open("host", &(mnem_device_options){.capacity_bytes = 8 * MIB}, &device));
    must(mnem_ledger_alloc(ledger, device, MNEM_KIND_IO, "ring", 5000, 4096, &block));
    assert_int_equal(block.bytes, 8192);
    assert_int_equal(info_get(ledger).bytes_live, block.bytes);
    assert_int_equal(mnem_ledger_alloc(ledger, device, MNEM_KIND_IO, "ring", 10 * MIB, 64, &none),
                     MNEM_OVER_BUDGET);
    assert_int_equal(mnem_ledger_alloc(ledger, device, MNEM_KIND_IO, "ring", 9 * MIB, 64, &none),
                     MNEM_NO_MEMORY);
    assert_null(none.device);
    assert_int_equal(info_get(ledger).bytes_live, block.bytes); /* the charge was undone */
    mnem_ledger_free(ledger, MNEM_KIND_IO, "ring", &block);
    mnem_ledger_free(ledger, MNEM_KIND_IO, "ring", &block);
    assert_int_equal(info_get(ledger).bytes_live, 0);
    must(mnem_device_close(device));
    must(mnem_ledger_destroy(ledger));
}

static void more_tags_than_rows_share_one(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_create(0);
    char tag[64];
    for (int i = 0; i < 300; i++) {
        snprintf(tag, sizeof tag, "tag %d with a name that is far too long", i);
        must(mnem_ledger_charge(ledger, (mnem_kind)(i % MNEM_KIND_COUNT), tag, 10));
        sum_check(ledger);
    }
    assert_int_equal(info_get(ledger).bytes_live, 3000);
    assert_true(account_find(ledger, MNEM_KIND_KV, "others").bytes_live > 0);
    for (int i = 0; i < 300; i++) {
        snprintf(tag, sizeof tag, "tag %d with a name that is far too long", i);
        mnem_ledger_release(ledger, (mnem_kind)(i % MNEM_KIND_COUNT), tag, 10);
        sum_check(ledger);
    }
    assert_int_equal(info_get(ledger).bytes_live, 0);
    must(mnem_ledger_destroy(ledger));
}

/* ---- the heap ---- */

static void the_heap_is_charged_by_its_tags(void **state) {
    (void)state;
    void *early = mnem__alloc("early", 1000);
    mnem_ledger *ledger = ledger_create(1 * MIB), *other = ledger_create(0);
    must(mnem_ledger_watch_heap(ledger));
    assert_int_equal(account_find(ledger, MNEM_KIND_HOST, "early").bytes_live, 1000);
    void *late = mnem__alloc("late", 500);
    assert_int_equal(account_find(ledger, MNEM_KIND_HOST, "late").bytes_live, 500);
    assert_null(mnem__alloc("late", 1 * MIB));
    assert_int_equal(mnem__heap_status(), MNEM_OVER_BUDGET);
    mnem_heap_usage heap;
    mnem_heap_usage_get(&heap);
    assert_int_equal(info_get(ledger).bytes_live, heap.bytes_live);
    sum_check(ledger);
    must(mnem_ledger_watch_heap(other)); /* takes over */
    assert_int_equal(info_get(ledger).bytes_live, 0);
    assert_int_equal(info_get(other).bytes_live, heap.bytes_live);
    mnem__free(early);
    mnem__free(late);
    assert_int_equal(account_find(other, MNEM_KIND_HOST, "early").bytes_live, 0);
    must(mnem_ledger_destroy(other)); /* the heap's bytes go with it */
    must(mnem_ledger_destroy(ledger));
}

static void a_heap_that_does_not_fit_is_not_watched(void **state) {
    (void)state;
    void *early = mnem__alloc("early", 100000);
    mnem_ledger *ledger = ledger_create(50000);
    assert_int_equal(mnem_ledger_watch_heap(ledger), MNEM_OVER_BUDGET);
    assert_int_equal(info_get(ledger).bytes_live, 0);
    void *late = mnem__alloc("late", 100000);
    assert_non_null(late);
    mnem__free(late);
    mnem__free(early);
    must(mnem_ledger_destroy(ledger));
}

static void no_memory_leaves_no_ledger(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_ledger *ledger;
    mnem__heap_fail_at(1, false);
    assert_int_equal(mnem_ledger_create(NULL, &ledger), MNEM_NO_MEMORY);
    assert_null(ledger);
    must(mnem_ledger_create(NULL, &ledger));
    must(mnem_ledger_destroy(ledger));
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live, before.bytes_live);
}

/* ---- threads ---- */

static void *hammer(void *context) {
    mnem_ledger *ledger = context;
    for (int i = 0; i < 2000; i++) {
        char tag[16];
        snprintf(tag, sizeof tag, "t%d", i % 7);
        bool charged = mnem_ledger_charge(ledger, (mnem_kind)(i % 5), tag, 100) == MNEM_OK;
        void *p = mnem__alloc("hammer", 64);
        mnem__free(p);
        if (charged) mnem_ledger_release(ledger, (mnem_kind)(i % 5), tag, 100);
    }
    return NULL;
}

static void threads_charge_together(void **state) {
    (void)state;
    mnem_ledger *ledger = ledger_create(0);
    must(mnem_ledger_watch_heap(ledger));
    must(mnem_ledger_budget_set(ledger, info_get(ledger).bytes_live + 250));
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, hammer, ledger);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    mnem_ledger_info info = info_get(ledger);
    assert_true(info.bytes_peak <= info.budget_bytes);
    mnem_heap_usage heap;
    mnem_heap_usage_get(&heap);
    assert_int_equal(info.bytes_live, heap.bytes_live);
    sum_check(ledger);
    must(mnem_ledger_destroy(ledger));
}

/* So that a plan can say what would be enough, though more was live than there may be. */
static void a_preparing_ledger_has_room_until_it_is_held(void **state) {
    (void)state;
    mnem_ledger *ledger;
    const mnem_ledger_options options = {.budget_bytes = 1000, .preparing = true};
    must(mnem_ledger_create(&options, &ledger));
    assert_true(info_get(ledger).preparing);
    assert_int_equal(info_get(ledger).budget_bytes, 1000);
    must(mnem_ledger_charge(ledger, MNEM_KIND_HOST, "table", 1001));
    assert_int_equal(mnem_ledger_hold(ledger), MNEM_OVER_BUDGET);
    assert_true(info_get(ledger).preparing);
    must(mnem_ledger_budget_set(ledger, 900)); /* within the room */
    mnem_ledger_release(ledger, MNEM_KIND_HOST, "table", 101);
    must(mnem_ledger_hold(ledger));
    assert_false(info_get(ledger).preparing);
    assert_int_equal(mnem_ledger_charge(ledger, MNEM_KIND_HOST, "table", 1), MNEM_OVER_BUDGET);
    mnem_ledger_release(ledger, MNEM_KIND_HOST, "table", 900);
    must(mnem_ledger_destroy(ledger));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_budget_says_how_much_is_missing),
        cmocka_unit_test(a_preparing_ledger_has_room_until_it_is_held),
        cmocka_unit_test(limits_of_kinds_and_tags_hold),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(destroying_with_live_bytes_names_them),
        cmocka_unit_test(the_soft_limit_asks_before_the_hard_one_refuses),
        cmocka_unit_test(blocks_are_charged_as_they_are_taken),
        cmocka_unit_test(more_tags_than_rows_share_one),
        cmocka_unit_test(the_heap_is_charged_by_its_tags),
        cmocka_unit_test(a_heap_that_does_not_fit_is_not_watched),
        cmocka_unit_test(no_memory_leaves_no_ledger),
        cmocka_unit_test(threads_charge_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
