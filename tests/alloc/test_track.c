/* test_track.c: which blocks are live, since when and whose; the parts sum to the total after every
 * step. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/track/track.h"
#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_random.h"

static mnem__track *track_open(uint32_t site_max) {
    static mnem__track t;
    must(mnem__track_init(&t, site_max));
    return &t;
}

static uint32_t tag_of(mnem__track *t, mnem_kind kind, const char *text) {
    uint32_t tag;
    must(mnem__tag_of(&t->sites, kind, text, &tag));
    return tag;
}

/* Adds block id as from a line of "model.c". */
static uint32_t add(mnem__track *t, uint32_t id, mnem_kind kind, const char *tag, uint32_t line,
                    uint64_t bytes) {
    must(mnem__track_reserve(t, id + 1));
    uint32_t site;
    must(mnem__site_find(&t->sites, kind, tag, "model.c", line, 0, &site));
    assert_int_equal(mnem__site_of(&t->sites, tag_of(t, kind, tag), "model.c", line, 0), site);
    return mnem__track_add(t, id, bytes, site, 0);
}

static void count_sum(mnem__count *sum, const mnem__count *c) {
    sum->bytes_live += c->bytes_live;
    sum->blocks_live += c->blocks_live;
    sum->allocations += c->allocations;
}

static void assert_counts_equal(const mnem__count *a, const mnem__count *b) {
    assert_int_equal(a->bytes_live, b->bytes_live);
    assert_int_equal(a->blocks_live, b->blocks_live);
    assert_int_equal(a->allocations, b->allocations);
}

/* All = kinds = tags = records. */
static void sums_check(const mnem__track *t) {
    mnem__count kinds = {0}, tags = {0}, records = {0};
    for (unsigned i = 0; i < MNEM_KIND_COUNT; i++) count_sum(&kinds, &t->kinds[i]);
    for (uint32_t i = 0; i < t->sites.tag_count; i++)
        count_sum(&tags, &mnem__tag_at(&t->sites, i)->count);
    for (uint32_t i = 0; i < t->used; i++) {
        const mnem__record *r = mnem__record_at(t, i);
        if (!(r->generation & 1)) continue;
        records.bytes_live += r->bytes;
        records.blocks_live++;
    }
    records.allocations = t->sequence;
    assert_counts_equal(&t->all, &kinds);
    assert_counts_equal(&t->all, &tags);
    assert_counts_equal(&t->all, &records);
    assert_true(t->all.bytes_peak >= t->all.bytes_live);
}

static void leaks_are_listed_by_tag_and_site_oldest_first(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    t->step = 17;
    add(t, 0, MNEM_KIND_WEIGHTS, "embed", 120, 4 << 20);
    t->step = 18;
    add(t, 1, MNEM_KIND_KV, "pages", 44, 512);
    add(t, 2, MNEM_KIND_WEIGHTS, "embed", 120, 4 << 20);
    add(t, 3, MNEM_KIND_WEIGHTS, "embed", 121, 100);
    add(t, 4, MNEM_KIND_WEIGHTS, "embed", 120, 4 << 20);
    add(t, 5, MNEM_KIND_IO, "ring", 7, 1);
    mnem__track_remove(t, 5);
    mnem_live_group g[8];
    char text[1024];
    size_t n = mnem__track_live(t, NULL, g, 8);
    assert_int_equal(n, 3);
    assert_string_equal(mnem_live_text(g, n, text, sizeof text),
                        "weights embed  3 blocks 12 MiB  at model.c:120 (oldest: step 17)\n"
                        "kv pages  1 block 512 B  at model.c:44 (oldest: step 18)\n"
                        "weights embed  1 block 100 B  at model.c:121 (oldest: step 18)\n");
    assert_int_equal(g[0].oldest_block, 0);
    assert_int_equal(g[0].allocations, 4);
    sums_check(t);
    mnem__track_fini(t);
}

static void a_difference_lists_what_is_live_now_and_was_not_then(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    add(t, 0, MNEM_KIND_KV, "pages", 1, 10);
    add(t, 1, MNEM_KIND_KV, "pages", 1, 20);
    uint64_t mark = mnem__track_mark(t);
    mnem_live_query since = {.since = mark};
    mnem_live_group g[4];
    assert_int_equal(mnem__track_live(t, &since, g, 4), 0);
    add(t, 2, MNEM_KIND_KV, "pages", 2, 40); /* comes and goes */
    mnem__track_remove(t, 2);
    mnem__track_remove(t, 0);
    add(t, 0, MNEM_KIND_KV, "pages", 1, 80); /* the same number, another block */
    add(t, 3, MNEM_KIND_IO, "ring", 3, 160);
    assert_int_equal(mnem__track_live(t, &since, g, 4), 2);
    assert_int_equal(g[0].line, 1);
    assert_int_equal(g[0].blocks, 1);
    assert_int_equal(g[0].bytes, 80);
    assert_int_equal(g[1].kind, MNEM_KIND_IO);
    assert_int_equal(g[1].bytes, 160);
    since.since = mnem__track_mark(t);
    assert_int_equal(mnem__track_live(t, &since, g, 4), 0);
    mnem__track_fini(t);
}

static void groups_by_tag_and_by_kind_have_their_peaks(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    add(t, 0, MNEM_KIND_KV, "pages", 1, 100);
    add(t, 1, MNEM_KIND_KV, "pages", 2, 200);
    add(t, 2, MNEM_KIND_KV, "table", 3, 50);
    add(t, 3, MNEM_KIND_IO, "ring", 4, 120);
    mnem__track_remove(t, 0);
    mnem_live_group g[4];
    mnem_live_query q = {.by = MNEM_LIVE_BY_TAG, .order = MNEM_LIVE_MOST_BYTES_FIRST};
    assert_int_equal(mnem__track_live(t, &q, g, 4), 3);
    assert_string_equal(g[0].tag, "pages");
    assert_int_equal(g[0].bytes, 200);
    assert_int_equal(g[0].bytes_peak, 300);
    assert_null(g[0].file);
    assert_string_equal(g[1].tag, "ring");
    assert_string_equal(g[2].tag, "table");
    q.by = MNEM_LIVE_BY_KIND;
    assert_int_equal(mnem__track_live(t, &q, g, 4), 2);
    assert_int_equal(g[0].kind, MNEM_KIND_KV);
    assert_null(g[0].tag);
    assert_int_equal(g[0].blocks, 2);
    assert_int_equal(g[0].bytes, 250);
    assert_int_equal(g[0].bytes_peak, 350);
    assert_int_equal(g[0].oldest_block, 1);
    assert_int_equal(mnem__track_live(t, &q, g, 1), 2); /* the first of two */
    assert_int_equal(g[0].kind, MNEM_KIND_KV);
    assert_int_equal(mnem__track_live(t, &q, NULL, 0), 2);
    mnem__track_fini(t);
}

static void a_handle_is_live_until_its_block_goes(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    assert_false(mnem__track_is(t, 0, 1));
    uint32_t first = add(t, 0, MNEM_KIND_KV, "pages", 1, 10);
    assert_true(mnem__track_is(t, 0, first));
    assert_false(mnem__track_is(t, 1, first));
    assert_false(mnem__track_is(t, UINT32_MAX, first));
    mnem__track_remove(t, 0);
    assert_false(mnem__track_is(t, 0, first));
    assert_false(mnem__track_is(t, 0, first + 1)); /* the generation of nobody */
    assert_true(mnem__track_was(t, 0, first));
    uint32_t second = add(t, 0, MNEM_KIND_KV, "pages", 1, 10);
    assert_false(mnem__track_is(t, 0, first));
    assert_true(mnem__track_is(t, 0, second));
    mnem_live_block b;
    mnem__track_remove(t, 0);
    assert_true(mnem__track_block(t, 0, &b)); /* what it was is still said */
    assert_int_equal(b.line, 1);
    assert_false(mnem__track_block(t, 1, &b));
    mnem__track_fini(t);
}

static void another_pools_handle_is_not_taken_for_ours(void **state) {
    (void)state;
    mnem__track a, b;
    must(mnem__track_init(&a, 0));
    must(mnem__track_init(&b, 0));
    for (uint32_t id = 0; id < 10; id++) {
        uint32_t first = add(&a, id, MNEM_KIND_KV, "pages", 1, 10);
        uint32_t second = add(&b, id, MNEM_KIND_KV, "pages", 1, 10);
        assert_true(mnem__track_is(&a, id, first));
        assert_false(mnem__track_is(&a, id, second));
        assert_false(mnem__track_is(&b, id, first));
    }
    mnem__track_fini(&a);
    mnem__track_fini(&b);
}

static void equal_texts_at_two_addresses_are_one_site(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    char a[] = "tensor.h", b[] = "tensor.h", tag[] = "hidden";
    uint32_t id = tag_of(t, MNEM_KIND_ACTIVATION, "hidden");
    assert_int_equal(tag_of(t, MNEM_KIND_ACTIVATION, tag), id);
    assert_int_not_equal(tag_of(t, MNEM_KIND_GRADIENT, tag), id);
    tag[0] = 'H'; /* the same address, another text */
    assert_int_not_equal(tag_of(t, MNEM_KIND_ACTIVATION, tag), id);
    uint32_t site = mnem__site_of(&t->sites, id, a, 5, 0);
    assert_int_equal(mnem__site_of(&t->sites, id, b, 5, 0), site);
    assert_int_equal(mnem__site_of(&t->sites, id, b, 5, 0), site); /* by its own key now */
    assert_int_not_equal(mnem__site_of(&t->sites, id, b, 6, 0), site);
    mnem__track_fini(t);
}

static void a_tag_that_changes_at_one_address_is_another_site(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    char tag[16];
    uint32_t sites[20], site;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 20; i++) {
            snprintf(tag, sizeof tag, "layer %d", i);
            must(mnem__site_find(&t->sites, MNEM_KIND_WEIGHTS, tag, "a.c", 1, 0, &site));
            if (round) assert_int_equal(site, sites[i]);
            sites[i] = site;
            for (int k = 0; k < i; k++) assert_int_not_equal(sites[k], site);
            assert_string_equal(mnem__tag_at(&t->sites, mnem__site_tag(site))->text, tag);
            assert_int_equal(mnem__site_kind(site), MNEM_KIND_WEIGHTS);
        }
    }
    must(mnem__site_find(&t->sites, MNEM_KIND_KV, tag, "a.c", 1, 0, &site));
    assert_int_equal(mnem__site_kind(site), MNEM_KIND_KV);
    assert_int_equal(mnem__site_find(&t->sites, MNEM_KIND_WEIGHTS, NULL, NULL, 0, 0, &site),
                     MNEM_INVALID);
    mnem__track_fini(t);
}

static void tags_differ_by_every_character_that_counts(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    char text[40];
    uint32_t first[33];
    for (size_t n = 1; n <= 32; n++) { /* 32 and 31 are the same: 31 characters count */
        memset(text, 'a', n);
        text[n] = 0;
        first[n] = tag_of(t, MNEM_KIND_KV, text);
        assert_string_equal(mnem__tag_at(&t->sites, first[n])->text, n == 32 ? text + 1 : text);
        for (size_t k = 1; k < n && n < 32; k++) assert_int_not_equal(first[k], first[n]);
    }
    assert_int_equal(first[31], first[32]);
    memset(text, 'a', 31);
    text[31] = 0;
    for (size_t i = 0; i < 31; i++) {
        text[i] = 'b';
        assert_int_not_equal(tag_of(t, MNEM_KIND_KV, text), first[31]);
        text[i] = 'a';
    }
    uint32_t tag;
    assert_int_equal(mnem__tag_of(&t->sites, MNEM_KIND_KV, "", &tag), MNEM_INVALID);
    assert_int_equal(mnem__tag_of(&t->sites, MNEM_KIND_KV, NULL, &tag), MNEM_INVALID);
    assert_int_equal(mnem__tag_of(&t->sites, MNEM_KIND_COUNT, "a", &tag), MNEM_INVALID);
    mnem__track_fini(t);
}

static void what_finds_no_room_is_counted_under_others(void **state) {
    (void)state;
    mnem__track *t = track_open(100);
    char tag[16];
    for (uint32_t i = 0; i < 1000; i++) {
        snprintf(tag, sizeof tag, "tag %u", i % 400);
        add(t, i, MNEM_KIND_KV, tag, i, 10);
    }
    assert_int_equal(t->sites.tag_count, MNEM__TAGS_MAX);
    assert_true(t->sites.site_count <= 100 + MNEM__TAGS_MAX);
    assert_true(t->sites.lost > 0);
    assert_true(mnem__tag_at(&t->sites, MNEM_KIND_KV)->count.bytes_live > 0);
    sums_check(t);
    mnem_live_group g[512];
    size_t n = mnem__track_live(t, NULL, g, 512);
    assert_true(n <= 512);
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) bytes += g[i].bytes;
    assert_int_equal(bytes, 10000);
    mnem__track_fini(t);
}

enum { RANDOM_IDS = 3000 };

static void random_step(mnem__track *t, uint64_t *seed, uint64_t *live, uint64_t *since) {
    uint32_t id = (uint32_t)(next_random(seed) % RANDOM_IDS);
    if (live[id]) {
        mnem__track_remove(t, id);
        live[id] = 0;
        return;
    }
    char tag[16];
    snprintf(tag, sizeof tag, "tag %u", (unsigned)(next_random(seed) % 20));
    live[id] = 1 + next_random(seed) % 100000;
    add(t, id, (mnem_kind)(next_random(seed) % MNEM_KIND_COUNT), tag,
        (uint32_t)(next_random(seed) % 50), live[id]);
    since[id] = t->sequence;
}

/* What the groups say, and what a plain count of the model says. */
static void groups_check(mnem__track *t, const uint64_t *live, const uint64_t *since,
                         const mnem_live_query *query) {
    static mnem_live_group g[4096];
    size_t n = mnem__track_live(t, query, g, 4096);
    uint64_t bytes = 0, blocks = 0, wanted_bytes = 0, wanted_blocks = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += g[i].bytes;
        blocks += g[i].blocks;
        if (i && query->order == MNEM_LIVE_OLDEST_FIRST)
            assert_true(g[i - 1].oldest_sequence < g[i].oldest_sequence);
        if (i && query->order == MNEM_LIVE_MOST_BYTES_FIRST)
            assert_true(g[i - 1].bytes >= g[i].bytes);
    }
    for (int i = 0; i < RANDOM_IDS; i++) {
        if (!live[i] || since[i] <= query->since) continue;
        wanted_bytes += live[i];
        wanted_blocks++;
    }
    assert_int_equal(bytes, wanted_bytes);
    assert_int_equal(blocks, wanted_blocks);
}

static void random_operations_keep_every_sum(void **state) {
    (void)state;
    uint64_t seed = 20261121;
    print_message("seed %llu\n", (unsigned long long)seed);
    mnem__track *t = track_open(0);
    static uint64_t live[RANDOM_IDS], since[RANDOM_IDS];
    for (int step = 0; step < 20000; step++) {
        random_step(t, &seed, live, since);
        if (step % 1000) continue;
        sums_check(t);
        for (int by = 0; by <= MNEM_LIVE_BY_KIND; by++) {
            groups_check(t, live, since, &(mnem_live_query){.by = (mnem_live_by)by});
            groups_check(t, live, since,
                         &(mnem_live_query){.by = (mnem_live_by)by,
                                            .since = t->sequence / 2,
                                            .order = MNEM_LIVE_MOST_BYTES_FIRST});
        }
    }
    mnem__track_fini(t);
}

static void a_steady_state_takes_no_heap(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    for (uint32_t i = 0; i < 500; i++) add(t, i, MNEM_KIND_KV, "pages", i % 90, 10);
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    for (uint32_t k = 0; k < 5; k++) {
        for (uint32_t i = 0; i < 500; i++) mnem__track_remove(t, i);
        for (uint32_t i = 0; i < 500; i++) add(t, i, MNEM_KIND_KV, "pages", i % 90, 10);
    }
    mnem_live_group g[8];
    assert_int_equal(mnem__track_live(t, NULL, g, 8), 90);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.calls, before.calls);
    mnem__track_fini(t);
}

static void text_that_does_not_fit_is_counted(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    for (uint32_t i = 0; i < 5; i++) add(t, i, MNEM_KIND_KV, "pages", i, 1024);
    mnem_live_group g[5];
    assert_int_equal(mnem__track_live(t, NULL, g, 5), 5);
    char text[150];
    assert_string_equal(mnem_live_text(g, 5, text, sizeof text),
                        "kv pages  1 block 1 KiB  at model.c:0 (oldest: step 0)\n"
                        "and 4 more, 4 KiB\n");
    for (size_t n = 1; n < 600; n++) { /* whole lines, and never past the end */
        char *out = malloc(n);
        mnem_live_text(g, 5, out, n);
        size_t used = strlen(out);
        assert_true(used < n);
        assert_true(!used || out[used - 1] == '\n');
        free(out);
    }
    mnem__track_fini(t);
}

__attribute__((noinline)) static uint32_t capture_here(mnem__track *t, uint32_t frames) {
    return mnem__stack_capture(&t->sites, frames, __builtin_return_address(0));
}

static void a_backtrace_is_stored_once_and_names_its_functions(void **state) {
    (void)state;
    mnem__track *t = track_open(0);
    uint32_t stacks[3];
    volatile int count = 3; /* keeps one call in a loop */
    for (int i = 0; i < count; i++) stacks[i] = capture_here(t, 4);
    assert_int_not_equal(stacks[0], 0);
    assert_int_equal(stacks[1], stacks[0]);
    assert_int_equal(stacks[2], stacks[1]);
    uint32_t other = capture_here(t, 2);
    assert_int_not_equal(other, stacks[0]);
    uint32_t tag = tag_of(t, MNEM_KIND_KV, "pages");
    uint32_t a = mnem__site_of(&t->sites, tag, "model.c", 9, stacks[0]);
    uint32_t b = mnem__site_of(&t->sites, tag, "model.c", 9, other);
    assert_int_not_equal(a, b);
    must(mnem__track_reserve(t, 1));
    mnem__track_add(t, 0, 64, a, 0);
    mnem_live_group g;
    assert_int_equal(mnem__track_live(t, NULL, &g, 1), 1);
    assert_int_equal(g.frame_count, 4);
    char text[2048];
    mnem_live_text(&g, 1, text, sizeof text);
    int lines = 0;
    for (const char *p = text; (p = strchr(p, '\n')); p++) lines++;
    assert_int_equal(lines, 5);
    assert_non_null(strstr(text, program_invocation_short_name)); /* the file, at least */
    assert_int_equal(capture_here(t, 0), 0);
    mnem__track_fini(t);
}

/* Everything that takes heap, with the n-th time refused. */
static mnem_status oom_try(void) {
    mnem__track t;
    mnem_status status = mnem__track_init(&t, 0);
    if (status != MNEM_OK) return status;
    char name[16];
    for (uint32_t i = 0; i < 300 && status == MNEM_OK; i++) {
        uint32_t tag = 0;
        snprintf(name, sizeof name, "tag %u", i % 100);
        status = mnem__tag_of(&t.sites, MNEM_KIND_KV, name, &tag);
        if (status == MNEM_OK) status = mnem__track_reserve(&t, i + 1);
        if (status != MNEM_OK) break;
        uint32_t stack = mnem__stack_capture(&t.sites, 3, NULL);
        mnem__track_add(&t, i, 5, mnem__site_of(&t.sites, tag, i % 2 ? "a.c" : "b.c", i, stack), 0);
    }
    sums_check(&t);
    mnem__track_fini(&t);
    return status;
}

static void refused_memory_loses_nothing(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    unsigned refusals = 0;
    for (uint64_t n = 1; n < 60; n++) {
        mnem__heap_fail_at(n, false);
        mnem_status status = oom_try();
        mnem__heap_fail_at(0, false);
        assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY);
        refusals += status != MNEM_OK;
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_true(refusals >= 4);
    assert_int_equal(oom_try(), MNEM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leaks_are_listed_by_tag_and_site_oldest_first),
        cmocka_unit_test(a_difference_lists_what_is_live_now_and_was_not_then),
        cmocka_unit_test(groups_by_tag_and_by_kind_have_their_peaks),
        cmocka_unit_test(a_handle_is_live_until_its_block_goes),
        cmocka_unit_test(another_pools_handle_is_not_taken_for_ours),
        cmocka_unit_test(equal_texts_at_two_addresses_are_one_site),
        cmocka_unit_test(a_tag_that_changes_at_one_address_is_another_site),
        cmocka_unit_test(tags_differ_by_every_character_that_counts),
        cmocka_unit_test(what_finds_no_room_is_counted_under_others),
        cmocka_unit_test(random_operations_keep_every_sum),
        cmocka_unit_test(a_steady_state_takes_no_heap),
        cmocka_unit_test(text_that_does_not_fit_is_counted),
        cmocka_unit_test(a_backtrace_is_stored_once_and_names_its_functions),
        cmocka_unit_test(refused_memory_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
