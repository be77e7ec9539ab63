/* test_offset_default.c: the default policy where the common suite doesn't look: ranges so large
 * that tiny blocks take slots of pages, and pages that give way. */
#include <stdlib.h>
#include <string.h>

#include "alloc/offset/offset_default.h"
#include "kit/kit.h"
#include "mnem/offset.h"

enum { UNIT = 256 };

enum { SLOWER = MNEM_SANITIZED ? 10 : 1 };

static mnem_offset_allocator *make(uint64_t bytes, uint32_t blocks_max) {
    mnem_offset_allocator *a;
    must(mnem_offset_create(&(mnem_offset_options){.bytes = bytes, .blocks_max = blocks_max}, &a));
    return a;
}

static mnem_offset_block take(mnem_offset_allocator *a, uint64_t bytes) {
    mnem_offset_block b;
    must(mnem_offset_alloc(a, bytes, &b));
    return b;
}

static mnem_offset_info info_of(const mnem_offset_allocator *a) {
    mnem_offset_info info;
    mnem_offset_info_get(a, &info);
    return info;
}

static bool in_page(mnem_offset_block b) {
    return b.handle & MNEM__HANDLE_PAGE;
}

/* As if nothing had ever been there. */
static void assert_empty(mnem_offset_allocator *a) {
    const mnem_offset_info info = info_of(a);
    must(mnem_offset_check(a));
    assert_int_equal(info.bytes_live, 0);
    assert_int_equal(info.blocks_live, 0);
    assert_int_equal(info.runs_free, 1);
    assert_int_equal(info.bytes_largest_free, info.bytes);
    mnem_offset_free(a, take(a, info.bytes).handle);
}

/* ---- where things go ---- */

static void the_lowest_of_like_runs_is_taken(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(GIB, 0);
    mnem_offset_block b[64];
    for (int i = 0; i < 64; i++) b[i] = take(a, 16 * MIB);
    mnem_offset_free(a, b[11].handle);
    mnem_offset_free(a, b[3].handle);
    mnem_offset_free(a, b[40].handle);
    assert_int_equal(take(a, 16 * MIB).offset, b[3].offset);
    assert_int_equal(take(a, 15 * MIB).offset, b[11].offset);
    assert_int_equal(take(a, 16 * MIB).offset, b[40].offset);
    mnem_offset_destroy(a);
}

static void the_smallest_class_is_taken_before_a_lower_run(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(GIB, 0);
    mnem_offset_block low = take(a, 64 * MIB), b;
    take(a, MIB);
    b = take(a, 20 * MIB);
    take(a, MIB);
    mnem_offset_free(a, low.handle);
    mnem_offset_free(a, b.handle);
    assert_int_equal(take(a, 20 * MIB).offset, b.offset);
    mnem_offset_destroy(a);
}

static void tiny_blocks_share_a_page(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(16 * GIB, 0);
    const mnem_offset_block first = take(a, 3 * UNIT), large = take(a, 5 * MIB);
    assert_true(in_page(first));
    assert_false(in_page(large));
    for (uint32_t i = 1; i < MNEM__PAGE_SLOTS; i++)
        assert_int_equal(take(a, 3 * UNIT).offset, first.offset + i * 3 * UNIT);
    assert_int_equal(((mnem__default *)a)->pages_live, 1);
    assert_int_equal(mnem_offset_block_bytes(a, first.handle), 3 * UNIT);
    assert_int_equal(info_of(a).bytes_live, MNEM__PAGE_SLOTS * 3 * UNIT + 5 * MIB);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

static void a_small_range_has_no_pages(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(64 * MIB, 0);
    assert_false(in_page(take(a, 1)));
    mnem_offset_destroy(a);
}

/* ---- pages that give way ---- */

/* A range filled with pages of one-unit slots, of which every second is freed: then no two free
 * units are neighbours. */
static void free_slots_are_runs_of_their_own(void **state) {
    (void)state;
    enum { BLOCKS = 1000 };
    mnem_offset_allocator *a = make(GIB, 0);
    mnem_offset_block b[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) b[i] = take(a, UNIT);
    const uint64_t end = info_of(a).bytes_largest_free;
    take(a, end & ~(uint64_t)(UNIT - 1));
    uint32_t holes = info_of(a).runs_free;
    for (int i = 0; i < BLOCKS; i += 2) mnem_offset_free(a, b[i].handle);
    assert_in_range(info_of(a).runs_free, BLOCKS / 2 - 1, BLOCKS / 2 + holes);
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
}

static void free_slots_serve_what_needs_them_together(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(4 * GIB, 0);
    mnem_offset_block b[MNEM__PAGE_SLOTS];
    for (int i = 0; i < MNEM__PAGE_SLOTS; i++) b[i] = take(a, 8 * UNIT);
    const mnem_offset_block rest = take(a, info_of(a).bytes_largest_free);
    const mnem__default *d = (mnem__default *)a;
    for (int i = 4; i < 40; i++) mnem_offset_free(a, b[i].handle);
    assert_int_equal(info_of(a).bytes_largest_free, 36 * 8 * UNIT);
    mnem_offset_block c;
    assert_int_equal(mnem_offset_alloc(a, 37 * 8 * UNIT, &c), MNEM_OVER_BUDGET);
    assert_int_equal(d->pages_dissolved, 0);
    c = take(a, 36 * 8 * UNIT);
    assert_int_equal(c.offset, b[4].offset);
    assert_int_equal(d->pages_dissolved, 1);
    /* The other blocks didn't notice. */
    assert_int_equal(mnem_offset_block_bytes(a, b[63].handle), 8 * UNIT);
    must(mnem_offset_check(a));
    for (int i = 0; i < MNEM__PAGE_SLOTS; i++)
        if (i < 4 || i >= 40) mnem_offset_free(a, b[i].handle);
    assert_int_equal(d->pages_dissolved, 0);
    mnem_offset_free(a, c.handle);
    mnem_offset_free(a, rest.handle);
    assert_empty(a);
    mnem_offset_destroy(a);
}

static void an_empty_page_gives_way(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(4 * GIB, 0);
    mnem_offset_free(a, take(a, UNIT).handle);
    assert_int_equal(((mnem__default *)a)->pages_live, 1);
    assert_empty(a);
    assert_int_equal(((mnem__default *)a)->pages_live, 0);
    mnem_offset_destroy(a);
}

static void a_block_can_be_put_on_free_slots(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(4 * GIB, 0);
    mnem_offset_block b[MNEM__PAGE_SLOTS], at;
    for (int i = 0; i < MNEM__PAGE_SLOTS; i++) b[i] = take(a, UNIT);
    mnem_offset_free(a, b[10].handle);
    mnem_offset_free(a, b[11].handle);
    assert_int_equal(mnem_offset_alloc_at(a, b[9].offset, 2 * UNIT, &at), MNEM_BUSY);
    assert_int_equal(mnem_offset_alloc_at(a, b[11].offset, 2 * UNIT, &at), MNEM_BUSY);
    must(mnem_offset_alloc_at(a, b[10].offset, 2 * UNIT, &at));
    must(mnem_offset_check(a));
    mnem_offset_free(a, at.handle);
    for (int i = 0; i < MNEM__PAGE_SLOTS; i++)
        if (i != 10 && i != 11) mnem_offset_free(a, b[i].handle);
    assert_empty(a);
    mnem_offset_destroy(a);
}

/* ---- growth and limits ---- */

static void a_range_that_grows_begins_to_use_pages(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(MIB, 0);
    mnem_offset_block small = take(a, UNIT), b;
    assert_false(in_page(small));
    for (uint64_t bytes = 2 * MIB; bytes <= 64 * GIB; bytes *= 2) {
        must(mnem_offset_extend(a, bytes));
        must(mnem_offset_check(a));
    }
    b = take(a, UNIT);
    assert_true(in_page(b));
    mnem_offset_free(a, small.handle);
    mnem_offset_free(a, b.handle);
    assert_empty(a);
    mnem_offset_destroy(a);
}

static void a_range_of_more_than_2_to_32_units_has_larger_units(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(UINT64_C(1) << 50, 0);
    mnem_offset_block b = take(a, 1), c = take(a, UINT64_C(1) << 49);
    assert_true(mnem_offset_block_bytes(a, b.handle) > UNIT);
    assert_true(c.offset >= b.offset + mnem_offset_block_bytes(a, b.handle) ||
                b.offset >= c.offset + (UINT64_C(1) << 49));
    must(mnem_offset_check(a));
    mnem_offset_destroy(a);
    a = make(GIB, 0);
    assert_int_equal(mnem_offset_extend(a, UINT64_C(1) << 50), MNEM_UNSUPPORTED);
    assert_empty(a);
    mnem_offset_destroy(a);
}

static void slots_take_no_heap_up_to_blocks_max(void **state) {
    (void)state;
    enum { BLOCKS = 3000 };
    static mnem_offset_block b[BLOCKS];
    mnem_offset_allocator *a = make(16 * GIB, BLOCKS);
    mnem__heap_fail_at(1, true);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < BLOCKS; i++) b[i] = take(a, (uint64_t)(i % 120 + 1) * UNIT);
        for (int i = 0; i < BLOCKS; i++) mnem_offset_free(a, b[(i * 7) % BLOCKS].handle);
    }
    mnem__heap_fail_at(0, false);
    assert_empty(a);
    mnem_offset_destroy(a);
}

/* ---- out of memory ---- */

/* Dissolving is what takes heap: the n-th allocation of it fails until the call succeeds. */
static void no_memory_for_dissolving_changes_nothing(void **state) {
    (void)state;
    mnem_offset_allocator *a = make(4 * GIB, 0);
    mnem_offset_block b[MNEM__PAGE_SLOTS], at;
    for (int i = 0; i < MNEM__PAGE_SLOTS; i++) b[i] = take(a, UNIT);
    for (int i = 0; i < MNEM__PAGE_SLOTS; i += 2) mnem_offset_free(a, b[i].handle);
    const mnem_offset_info before = info_of(a);
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status != MNEM_OK; n++) {
        mnem__heap_fail_at(n, false);
        status = mnem_offset_alloc_at(a, b[8].offset, UNIT, &at);
        mnem__heap_fail_at(0, false);
        must(mnem_offset_check(a));
        if (status == MNEM_OK) break;
        assert_int_equal(status, MNEM_NO_MEMORY);
        assert_int_equal(info_of(a).bytes_live, before.bytes_live);
        assert_int_equal(info_of(a).runs_free, before.runs_free);
        assert_true(n < 10);
    }
    mnem_offset_free(a, at.handle);
    for (int i = 1; i < MNEM__PAGE_SLOTS; i += 2) mnem_offset_free(a, b[i].handle);
    assert_empty(a);
    mnem_offset_destroy(a);
}

/* ---- random calls ---- */

enum { LIVE_MAX = 3000 };

typedef struct player {
    mnem_offset_allocator *a;
    uint64_t random, bytes;
    int live, scale; /* most requests are below 2^scale */
    mnem_offset_block blocks[LIVE_MAX];
} player;

static uint64_t roll(player *p, uint64_t below) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (p->random >> 20) % below;
}

static uint64_t roll_bytes(player *p) {
    if (roll(p, 3) == 0) return (1 + roll(p, 20)) * UNIT;
    if (roll(p, 20) == 0) return p->bytes / (8 + roll(p, 40)) + 1;
    return 1 + roll(p, UINT64_C(1) << roll(p, (uint64_t)p->scale));
}

/* A request is refused exactly when no free run is large enough, whatever is a slot. */
static void play_alloc(player *p) {
    const uint64_t bytes = roll_bytes(p), largest = info_of(p->a).bytes_largest_free;
    mnem_offset_block b;
    if (p->live == LIVE_MAX) return;
    const mnem_status status = mnem_offset_alloc(p->a, bytes, &b);
    assert_int_equal(status, bytes <= largest ? MNEM_OK : MNEM_OVER_BUDGET);
    if (status == MNEM_OK) p->blocks[p->live++] = b;
}

static void play_alloc_at(player *p) {
    const uint64_t offset = roll(p, p->bytes) & ~UINT64_C(0xffff), bytes = 1 + roll(p, MIB);
    mnem_offset_block b;
    if (p->live == LIVE_MAX || offset + bytes > p->bytes) return;
    if (mnem_offset_alloc_at(p->a, offset, bytes, &b) != MNEM_OK) return;
    assert_int_equal(b.offset, offset);
    p->blocks[p->live++] = b;
}

static void play_free(player *p) {
    if (!p->live) return;
    const int i = roll(p, 2) ? p->live - 1 : (int)roll(p, (uint64_t)p->live);
    mnem_offset_free(p->a, p->blocks[i].handle);
    p->blocks[i] = p->blocks[--p->live];
}

static void play(player *p, int calls) {
    for (int i = 0; i < calls; i++) {
        const uint64_t kind = roll(p, 100);
        if (kind < 51)
            play_alloc(p);
        else if (kind < 97)
            play_free(p);
        else if (kind < 99)
            play_alloc_at(p);
        else if (roll(p, 20) == 0)
            must(mnem_offset_extend(p->a, p->bytes += roll(p, 1000) * 16384));
        if (i % 8 == 0) must(mnem_offset_check(p->a));
    }
}

static void random_calls_keep_every_invariant(void **state) {
    (void)state;
    static player p;
    for (uint64_t seed = 1; seed <= 24 / (SLOWER > 1 ? 4 : 1); seed++) {
        p = (player){.random = seed, .scale = 12 + (int)(seed * 5 % 18)};
        p.bytes = UINT64_C(1) << (27 + seed % 9);
        print_message("seed %d\n", (int)seed);
        p.a = make(p.bytes, 0);
        play(&p, 8000 / SLOWER);
        while (p.live) play_free(&p);
        assert_empty(p.a);
        mnem_offset_reset(p.a);
        assert_empty(p.a);
        mnem_offset_destroy(p.a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_of_like_runs_is_taken),
        cmocka_unit_test(the_smallest_class_is_taken_before_a_lower_run),
        cmocka_unit_test(tiny_blocks_share_a_page),
        cmocka_unit_test(a_small_range_has_no_pages),
        cmocka_unit_test(free_slots_are_runs_of_their_own),
        cmocka_unit_test(free_slots_serve_what_needs_them_together),
        cmocka_unit_test(an_empty_page_gives_way),
        cmocka_unit_test(a_block_can_be_put_on_free_slots),
        cmocka_unit_test(a_range_that_grows_begins_to_use_pages),
        cmocka_unit_test(a_range_of_more_than_2_to_32_units_has_larger_units),
        cmocka_unit_test(slots_take_no_heap_up_to_blocks_max),
        cmocka_unit_test(no_memory_for_dissolving_changes_nothing),
        cmocka_unit_test(random_calls_keep_every_invariant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
