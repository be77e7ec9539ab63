/* test_pool_slow_path.c: each rung that a request may end on, limits, and what a refusal says. */
#include "alloc/pool/pool_test.h"
#include "mnem/mnem.h"

static uint64_t rung(mnem_pool *pool, mnem_pool_rung which) {
    return info_of(pool).rungs[which];
}

static mnem_status try_take(mnem_pool *pool, uint64_t bytes, mnem_stream *stream,
                            mnem_pool_block *block) {
    return mnem_pool_alloc(
        pool, &(mnem_pool_request){.bytes = bytes, .tag = "try", .stream = stream}, block);
}

static void free_segments_are_trimmed_for_a_larger_one(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){
        .device = device, .bytes_max = 16 * MIB, .unit_bytes = 1 * MIB, .defragment_above = 1});
    mnem_pool_block a = take(pool, 6 * MIB, NULL), b = take(pool, 6 * MIB, NULL);
    give(pool, &a, NULL);
    give(pool, &b, NULL);
    mnem_pool_block c = take(pool, 14 * MIB, NULL); /* neither segment is that long */
    assert_int_equal(rung(pool, MNEM_POOL_RUNG_TRIM), 1);
    assert_true(info_of(pool).bytes_reserved <= 16 * MIB);
    give(pool, &c, NULL);
    pool_end(pool, device);
}

static void free_granules_are_mapped_together_without_copying(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){
        .device = device, .growth = MNEM_POOL_RANGE, .bytes_max = 32 * MIB, .defragment_above = 1});
    mnem_pool_block blocks[16];
    for (int i = 0; i < 16; i++) blocks[i] = take(pool, 2 * MIB, NULL);
    for (int i = 0; i < 16; i += 2) give(pool, &blocks[i], NULL);
    mnem_pool_block large = take(pool, 16 * MIB, NULL); /* every second granule is free */
    const mnem_pool_info info = info_of(pool);
    assert_int_equal(info.rungs[MNEM_POOL_RUNG_DEFRAGMENT], 1);
    assert_int_equal(info.bytes_moved, 0);
    assert_true(info.bytes_remapped >= 14 * MIB);
    assert_int_equal(info.bytes_reserved, 32 * MIB);
    must(mnem_pool_check(pool));
    give(pool, &large, NULL);
    for (int i = 1; i < 16; i += 2) give(pool, &blocks[i], NULL);
    pool_end(pool, device);
}

/* Contents survive what is mapped and copied around them. */
typedef struct owner {
    mnem_pool_block block;
    int moves;
} owner;

static void owner_moved(void *context, const mnem_pool_block *from, const mnem_pool_block *to) {
    owner *o = context;
    assert_int_equal(from->memory.address, o->block.memory.address);
    assert_int_equal(from->id, to->id);
    o->block = *to;
    o->moves++;
}

static void owner_take(mnem_pool *pool, owner *o, uint64_t bytes, bool movable) {
    must(mnem_pool_alloc(pool,
                         &(mnem_pool_request){.bytes = bytes,
                                              .kind = MNEM_KIND_KV,
                                              .tag = movable ? "movable" : "fixed",
                                              .moved = movable ? owner_moved : NULL,
                                              .context = o},
                         &o->block));
}

static void movable_blocks_make_room(void **state) {
    (void)state;
    mnem_device *device = device_open("host", 0);
    mnem_pool *pool = pool_make(
        (mnem_pool_options){.device = device, .bytes_max = 1 * MIB, .bytes_expected = 1 * MIB});
    enum { COUNT = 64 };
    static owner owners[COUNT];
    memset(owners, 0, sizeof owners);
    for (int i = 0; i < COUNT; i++) {
        owner_take(pool, &owners[i], 16 * KIB, true);
        memset(mnem_block_host(&owners[i].block.memory), i, 16 * KIB);
    }
    for (int i = 0; i < COUNT; i += 2) give(pool, &owners[i].block, NULL);
    mnem_pool_block large = take(pool, 256 * KIB, NULL);
    mnem_pool_info info = info_of(pool);
    assert_int_equal(info.rungs[MNEM_POOL_RUNG_DEFRAGMENT], 1);
    assert_true(info.blocks_moved > 0 && info.bytes_moved <= 128 * KIB);
    memset(mnem_block_host(&large.memory), 0xff, 256 * KIB);
    must(mnem_pool_check(pool));
    int moves = 0;
    for (int i = 1; i < COUNT; i += 2) {
        const uint8_t *bytes = mnem_block_host(&owners[i].block.memory);
        for (int k = 0; k < 16384; k++) assert_int_equal(bytes[k], i);
        moves += owners[i].moves;
        give(pool, &owners[i].block, NULL);
    }
    assert_int_equal(moves, info.blocks_moved);
    give(pool, &large, NULL);
    pool_end(pool, device);
}

static void told_to_defragment_it_makes_one_free_run(void **state) {
    (void)state;
    mnem_device *device = device_open("host", 0);
    mnem_pool *pool = pool_make(
        (mnem_pool_options){.device = device, .bytes_max = 1 * MIB, .bytes_expected = 1 * MIB});
    static owner owners[64];
    memset(owners, 0, sizeof owners);
    for (int i = 0; i < 64; i++) owner_take(pool, &owners[i], 16 * KIB, true);
    for (int i = 0; i < 64; i++)
        if (i % 4) give(pool, &owners[i].block, NULL);
    const uint64_t before = info_of(pool).bytes_largest_free;
    uint64_t moved;
    must(mnem_pool_defragment(pool, NULL, &moved));
    assert_true(moved > 0);
    assert_true(info_of(pool).bytes_largest_free > 4 * before);
    assert_int_equal(info_of(pool).bytes_largest_free, (1024 - 256) * KIB);
    for (int i = 0; i < 64; i += 4) give(pool, &owners[i].block, NULL);
    pool_end(pool, device);
}

static void a_step_defragments_above_the_threshold(void **state) {
    (void)state;
    mnem_device *device = device_open("host", 0);
    mnem_pool *pool = pool_make(
        (mnem_pool_options){.device = device, .bytes_max = 1 * MIB, .bytes_expected = 1 * MIB});
    static owner owners[64];
    memset(owners, 0, sizeof owners);
    for (int i = 0; i < 64; i++) owner_take(pool, &owners[i], 16 * KIB, true);
    for (int i = 0; i < 16; i++) give(pool, &owners[i].block, NULL);
    must(mnem_pool_step(pool, NULL)); /* a quarter is free: less than 0.3 */
    assert_int_equal(info_of(pool).blocks_moved, 0);
    for (int i = 16; i < 64; i += 2) give(pool, &owners[i].block, NULL);
    must(mnem_pool_step(pool, NULL));
    assert_true(info_of(pool).blocks_moved > 0);
    for (int i = 17; i < 64; i += 2) give(pool, &owners[i].block, NULL);
    pool_end(pool, device);
}

static void the_last_resort_is_counted_and_given_back(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_ledger *ledger;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 40 * MIB}, &ledger));
    mnem_pool *pool = pool_make((mnem_pool_options){
        .device = device, .bytes_max = 8 * MIB, .ledger = ledger, .direct = true});
    mnem_pool_block a = take(pool, 8 * MIB, NULL), b = take(pool, 16 * MIB, NULL), none = {0};
    mnem_pool_info info = info_of(pool);
    assert_int_equal(info.rungs[MNEM_POOL_RUNG_DIRECT], 1);
    assert_int_equal(info.bytes_direct, 16 * MIB);
    assert_int_equal(info.bytes_reserved, 8 * MIB);
    mnem_ledger_info ledger_info;
    mnem_ledger_info_get(ledger, &ledger_info);
    assert_int_equal(ledger_info.bytes_live, 24 * MIB);
    assert_int_equal(try_take(pool, 17 * MIB, NULL, &none), MNEM_OVER_BUDGET); /* the ledger's */
    assert_int_equal(none.generation, 0);
    give(pool, &b, NULL);
    assert_int_equal(info_of(pool).bytes_direct, 0);
    give(pool, &a, NULL);
    must(mnem_pool_check(pool));
    must(mnem_pool_destroy(pool));
    mnem_ledger_info_get(ledger, &ledger_info);
    assert_int_equal(ledger_info.bytes_live, 0);
    must(mnem_ledger_destroy(ledger));
    must(mnem_device_close(device));
}

static void a_refusal_names_what_is_in_the_way(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){
        .device = device, .bytes_max = 1 * MIB, .bytes_expected = 1 * MIB, .tag = "small"});
    static owner owners[64];
    memset(owners, 0, sizeof owners);
    for (int i = 0; i < 64; i++) owner_take(pool, &owners[i], 16 * KIB, false);
    for (int i = 0; i < 64; i++)
        if (i % 8) give(pool, &owners[i].block, NULL);
    mnem_pool_block none = {0};
    assert_int_equal(try_take(pool, 128 * KIB, NULL, &none), MNEM_OVER_BUDGET);
    const char *text = mnem_last_error();

    assert_non_null(strstr(text, "pool small: limit 1 MiB, 128 KiB live in 1 MiB reserved: can't "
                                 "allocate 128 KiB (131072 bytes)"));
    assert_non_null(strstr(text, "largest free run 112 KiB"));
    assert_non_null(strstr(text, "(fragmentation 0.88, 0.88 of what is free)"));
    assert_non_null(strstr(text, "in the way: kv fixed 16 KiB (test_pool_slow_path.c:"));
    assert_non_null(strstr(text, "16 KiB, 16 KiB of them not movable"));
    assert_non_null(strstr(text, "bytes_max = 1179648 would be enough"));
    assert_int_equal(none.generation, 0);
    assert_int_equal(rung(pool, MNEM_POOL_RUNG_REFUSE), 1);
    for (int i = 0; i < 64; i += 8) give(pool, &owners[i].block, NULL);
    pool_end(pool, device);
}

/* ---- limits ---- */

typedef struct soft_seen {
    mnem_pool *pool;
    mnem_pool_block victim;
    int calls;
    mnem_pool_soft last;
    mnem_status nested;
} soft_seen;

static void on_soft(void *context, const mnem_pool_soft *soft) {
    soft_seen *seen = context;
    seen->calls++;
    seen->last = *soft;
    if (seen->victim.generation) seen->nested = mnem_pool_free(seen->pool, &seen->victim, NULL);
}

static void limits_of_kinds_and_tags_hold(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    soft_seen seen = {0};
    mnem_pool *pool = seen.pool = pool_make((mnem_pool_options){
        .device = device, .bytes_max = 64 * MIB, .on_soft = on_soft, .context = &seen});
    must(mnem_pool_limit_set(pool, MNEM_KIND_KV, "pages", 1000000));
    must(mnem_pool_limit_set(pool, MNEM_KIND_KV, NULL, 1500000));
    const mnem_pool_request pages = {.bytes = 400000, .kind = MNEM_KIND_KV, .tag = "pages"};
    const mnem_pool_request other = {.bytes = 400000, .kind = MNEM_KIND_KV, .tag = "other"};
    mnem_pool_block a, b, c, none = {0};
    must(mnem_pool_alloc(pool, &pages, &a));
    must(mnem_pool_alloc(pool, &pages, &b));
    assert_int_equal(seen.calls, 0); /* 0.8 of the limit */
    assert_int_equal(mnem_pool_alloc(pool, &pages, &none), MNEM_OVER_BUDGET);
    assert_int_equal(seen.calls, 1);
    assert_string_equal(seen.last.tag, "pages");
    assert_int_equal(seen.last.bytes_over, 350000);
    assert_non_null(strstr(mnem_last_error(), "kv pages: the limit is 977 KiB, of which 195 KiB "
                                              "are left: can't allocate 391 KiB (400000 bytes, "
                                              "200000 over)"));
    must(mnem_pool_alloc(pool, &other, &c));
    assert_int_equal(mnem_pool_alloc(pool, &other, &none), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "kv: the limit is 1.43 MiB, "));
    seen.victim = a; /* the callback frees: the request is served */
    must(mnem_pool_alloc(pool, &pages, &a));
    must(seen.nested);
    mnem_account_info account;
    assert_true(mnem_pool_account_get(pool, 0, &account));
    assert_string_equal(account.tag, "pages");
    assert_int_equal(account.bytes_live, 800000);
    assert_int_equal(account.limit_bytes, 1000000);
    must(mnem_pool_limit_set(pool, MNEM_KIND_KV, "pages", 0));
    must(mnem_pool_limit_set(pool, MNEM_KIND_KV, NULL, 0));
    must(mnem_pool_alloc(pool, &pages, &none));
    give(pool, &none, NULL);
    give(pool, &a, NULL);
    give(pool, &b, NULL);
    give(pool, &c, NULL);
    pool_end(pool, device);
}

static void the_soft_limit_reclaims_before_the_hard_one_refuses(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    soft_seen seen = {0};
    mnem_pool *pool = seen.pool = pool_make((mnem_pool_options){.device = device,
                                                                .bytes_max = 20 * MIB,
                                                                .unit_bytes = MIB,
                                                                .on_soft = on_soft,
                                                                .context = &seen});
    mnem_pool_block a = take(pool, 8 * MIB, NULL), b = take(pool, 8 * MIB, NULL);
    assert_int_equal(seen.calls, 0);
    seen.victim = b;
    mnem_pool_block c = take(pool, 7 * MIB, NULL); /* 23 MiB would be reserved */
    assert_int_equal(seen.calls, 1);
    assert_null(seen.last.tag);
    assert_int_equal(seen.last.bytes_over, 6 * MIB);
    assert_true(info_of(pool).bytes_reserved <= 17 * MIB);
    give(pool, &a, NULL);
    give(pool, &c, NULL);
    pool_end(pool, device);
}

static void old_segments_go_first_near_the_soft_limit(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){.device = device,
                                                    .bytes_max = 64 * MIB,
                                                    .unit_bytes = MIB,
                                                    .garbage_steps = 3,
                                                    .defragment_above = 1});
    mnem_pool_block old = take(pool, 30 * MIB, NULL), used = take(pool, 20 * MIB, NULL);
    give(pool, &old, NULL);
    for (int i = 0; i < 5; i++) { /* the second segment is used between steps */
        give(pool, &used, NULL);
        used = take(pool, 20 * MIB, NULL);
        if (used.memory.bytes) must(mnem_pool_step(pool, NULL));
    }
    assert_int_equal(info_of(pool).bytes_garbage, 0); /* no need yet */
    mnem_pool_block more = take(pool, 35 * MIB, NULL);
    assert_true(info_of(pool).bytes_garbage >= 30 * MIB);
    give(pool, &used, NULL);
    give(pool, &more, NULL);
    pool_end(pool, device);
}

static void a_callback_that_calls_the_pool_is_refused_not_stuck(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_ledger *ledger;
    must(mnem_ledger_create(NULL, &ledger));
    mnem_pool *pool = pool_make((mnem_pool_options){
        .device = device, .bytes_max = 20 * MIB, .ledger = ledger, .tag = "cache"});
    mnem_pool_block a = take(pool, 4 * MIB, NULL);
    mnem_account_info account;
    assert_true(mnem_ledger_account_get(ledger, 0, &account));
    assert_string_equal(account.tag, "cache");
    assert_int_equal(account.bytes_live, info_of(pool).bytes_reserved);
    give(pool, &a, NULL);
    must(mnem_pool_destroy(pool));
    must(mnem_ledger_destroy(ledger));
    must(mnem_device_close(device));
}

static void soft_of_ledger(void *context, uint64_t over) {
    mnem_pool **pool = context;
    (void)over;
    if (*pool) must(mnem_pool_trim(*pool, 0, NULL));
}

static void the_budget_of_the_ledger_holds_and_trims(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = NULL;
    mnem_ledger *ledger;
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 32 * MIB,
                                                   .on_soft = soft_of_ledger,
                                                   .context = &pool},
                            &ledger));
    pool = pool_make((mnem_pool_options){
        .device = device, .bytes_max = 1000 * MIB, .unit_bytes = MIB, .ledger = ledger});
    mnem_pool_block a = take(pool, 20 * MIB, NULL), none = {0};
    give(pool, &a, NULL);
    a = take(pool, 30 * MIB, NULL); /* the ledger's soft limit is passed: the pool trims itself */
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    assert_true(info.bytes_live <= 32 * MIB && info.bytes_live >= 30 * MIB);
    assert_int_equal(try_take(pool, 8 * MIB, NULL, &none), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "left (")); /* the ledger's words are in it */
    give(pool, &a, NULL);
    mnem_pool *gone = pool;
    pool = NULL;
    must(mnem_pool_check(gone));
    must(mnem_pool_destroy(gone));
    must(mnem_ledger_destroy(ledger));
    must(mnem_device_close(device));
}

static void planned_blocks_have_memory_of_their_own(void **state) {
    (void)state;
    mnem_device *device = device_open("host", 0);
    mnem_ledger *ledger;
    soft_seen seen = {0};
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 8 * MIB}, &ledger));
    mnem_pool *pool = pool_make((mnem_pool_options){.device = device,
                                                    .bytes_max = 1 * MIB,
                                                    .ledger = ledger,
                                                    .on_soft = on_soft,
                                                    .context = &seen});
    mnem_pool_block a, none = {0};
    const mnem_pool_request request = {.bytes = 5 * MIB + 1,
                                       .alignment = 4096,
                                       .kind = MNEM_KIND_WEIGHTS,
                                       .tag = "matrices",
                                       .planned = true};
    must(mnem_pool_alloc(pool, &request, &a)); /* more than bytes_max */
    memset(mnem_block_host(&a.memory), 1, a.memory.bytes);
    assert_int_equal(info_of(pool).bytes_planned,
                     mnem_device_alloc_bytes(device, MNEM_SPACE_DEVICE, 5 * MIB + 1));
    assert_int_equal(info_of(pool).bytes_reserved, 0);
    assert_int_equal(seen.calls, 0);
    mnem_account_info account;
    assert_true(mnem_ledger_account_get(ledger, 0, &account));
    assert_int_equal(account.kind, MNEM_KIND_WEIGHTS);
    assert_string_equal(account.tag, "matrices");
    assert_int_equal(account.bytes_live, info_of(pool).bytes_planned);
    assert_int_equal(mnem_pool_alloc(pool, &request, &none), MNEM_OVER_BUDGET);
    give(pool, &a, NULL);
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    assert_int_equal(info.bytes_live, 0);
    must(mnem_pool_check(pool));
    must(mnem_pool_destroy(pool));
    must(mnem_ledger_destroy(ledger));
    must(mnem_device_close(device));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(free_segments_are_trimmed_for_a_larger_one),
        cmocka_unit_test(free_granules_are_mapped_together_without_copying),
        cmocka_unit_test(movable_blocks_make_room),
        cmocka_unit_test(told_to_defragment_it_makes_one_free_run),
        cmocka_unit_test(a_step_defragments_above_the_threshold),
        cmocka_unit_test(the_last_resort_is_counted_and_given_back),
        cmocka_unit_test(a_refusal_names_what_is_in_the_way),
        cmocka_unit_test(limits_of_kinds_and_tags_hold),
        cmocka_unit_test(the_soft_limit_reclaims_before_the_hard_one_refuses),
        cmocka_unit_test(old_segments_go_first_near_the_soft_limit),
        cmocka_unit_test(a_callback_that_calls_the_pool_is_refused_not_stuck),
        cmocka_unit_test(the_budget_of_the_ledger_holds_and_trims),
        cmocka_unit_test(planned_blocks_have_memory_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
