/* test_pool_debug.c: what a pool says about its blocks, through its public calls: leaks by tag and
 * call site, differences, peaks; and in debug mode every kind of misuse, with its places. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/pool.h"

/* The last error contains a text. */
static void says(const char *text) {
    if (!strstr(mnem_last_error(), text)) fail_msg("\"%s\" isn't in: %s", text, mnem_last_error());
}

/* ---- a pool, and what it told ---- */

typedef struct fixture {
    mnem_device *device;
    mnem_pool *pool;
    unsigned told;
    mnem_misuse last;
} fixture;

static void on_misuse(void *context, const mnem_misuse *misuse) {
    fixture *f = context;
    f->told++;
    f->last = *misuse;
}

static void fixture_open(fixture *f, const char *device, const mnem_pool_options *options) {
    *f = (fixture){0};
    must(mnem_device_open(device, NULL, &f->device));
    mnem_pool_options o = *options;
    o.device = f->device;
    o.on_misuse = on_misuse;
    o.context = f;
    if (!o.bytes_max) o.bytes_max = 64 * MIB;
    must(mnem_pool_create(&o, &f->pool));
}

static void fixture_close(fixture *f) {
    must(mnem_pool_destroy(f->pool));
    must(mnem_device_close(f->device));
}

static const mnem_pool_options plain = {0}, debug = {.debug = true},
                               debug_range = {.debug = true, .growth = MNEM_POOL_RANGE};

/* Blocks of weights "embed", taken at the line of the call. */
#define TAKE(f, size, s, block)                                                                    \
    must(mnem_pool_alloc_from(                                                                     \
        (f)->pool, "model.c", __LINE__,                                                            \
        &(mnem_pool_request){                                                                      \
            .bytes = (size), .kind = MNEM_KIND_WEIGHTS, .tag = "embed", .stream = (s)},            \
        (block)))

static uint8_t *bytes_of(const mnem_pool_block *block) {
    return mnem_block_host(&block->memory);
}

static unsigned misuses(mnem_pool *pool) {
    mnem_misuse m;
    unsigned n = 0;
    while (mnem_pool_misuse_get(pool, n, &m)) n++;
    return n;
}

/* ---- always on ---- */

static void destroying_with_live_blocks_lists_them_oldest_first(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &plain);
    mnem_pool_block a[3], b;
    const mnem_pool_request pages = {.bytes = 512, .kind = MNEM_KIND_KV, .tag = "pages"};
    must(mnem_pool_alloc(f.pool, &pages, &b));
    const int line = __LINE__ - 1;
    must(mnem_pool_step(f.pool, NULL));
    for (int i = 0; i < 3; i++) TAKE(&f, MIB, NULL, &a[i]);
    assert_int_equal(mnem_pool_destroy(f.pool), MNEM_BUSY);
    char text[200];
    snprintf(text, sizeof text, "kv pages  1 block 512 B  at %s:%d (oldest: step 0)\n", __FILE__,
             line);
    says(text);
    snprintf(text, sizeof text, "weights embed  3 blocks 3 MiB  at model.c:%d (oldest: step 1)\n",
             line + 3);
    says(text);
    assert_true(strstr(mnem_last_error(), "kv") < strstr(mnem_last_error(), "embed"));
    must(mnem_pool_free(f.pool, &b, NULL));
    for (int i = 0; i < 3; i++) must(mnem_pool_free(f.pool, &a[i], NULL));
    fixture_close(&f);
}

static void a_difference_shows_what_a_step_left_behind(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "null", &plain);
    mnem_pool_block before, kept, gone;
    TAKE(&f, 1000, NULL, &before);
    const mnem_live_query since = {.since = mnem_pool_mark(f.pool)};
    TAKE(&f, 2000, NULL, &gone);
    TAKE(&f, 3000, NULL, &kept);
    const unsigned line = __LINE__ - 1;
    must(mnem_pool_free(f.pool, &gone, NULL));
    mnem_live_group g[4];
    assert_int_equal(mnem_pool_live(f.pool, &since, g, 4), 1);
    assert_int_equal(g[0].line, line);
    assert_int_equal(g[0].bytes, 3000);
    const mnem_live_query by_tag = {.by = MNEM_LIVE_BY_TAG, .order = MNEM_LIVE_MOST_BYTES_FIRST};
    assert_int_equal(mnem_pool_live(f.pool, &by_tag, g, 4), 1);
    assert_int_equal(g[0].bytes, 4000);
    assert_int_equal(g[0].bytes_peak, 6000);
    must(mnem_pool_free(f.pool, &kept, NULL));
    must(mnem_pool_free(f.pool, &before, NULL));
    assert_int_equal(mnem_pool_live(f.pool, NULL, g, 4), 0);
    fixture_close(&f);
}

static void a_double_free_is_refused_in_normal_mode(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &plain);
    mnem_pool_block a, copy, b;
    TAKE(&f, 1000, NULL, &a);
    copy = a;
    must(mnem_pool_free(f.pool, &a, NULL));
    must(mnem_pool_free(f.pool, &a, NULL)); /* cleared: fine */
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    says("weights embed");
    TAKE(&f, 1000, NULL, &b); /* the same number again */
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    fixture other;
    fixture_open(&other, "host", &plain);
    assert_int_equal(mnem_pool_free(other.pool, &b, NULL), MNEM_INVALID);
    mnem_pool_block c;
    TAKE(&other, 1000, NULL, &c); /* number 0 there too */
    assert_int_equal(mnem_pool_free(other.pool, &b, NULL), MNEM_INVALID);
    must(mnem_pool_free(other.pool, &c, NULL));
    fixture_close(&other);
    must(mnem_pool_free(f.pool, &b, NULL));
    assert_int_equal(misuses(f.pool), 0); /* kept in debug mode only */
    fixture_close(&f);
}

__attribute__((noinline)) static void take_deep(fixture *f, mnem_pool_block *block) {
    TAKE(f, 64, NULL, block);
}

static void backtraces_tell_two_ways_to_one_site_apart(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "null", &(mnem_pool_options){.backtrace = 4});
    mnem_pool_block a, b;
    take_deep(&f, &a);
    take_deep(&f, &b);
    mnem_live_group g[3];
    assert_int_equal(mnem_pool_live(f.pool, NULL, g, 3), 2);
    assert_int_equal(g[0].line, g[1].line);
    assert_int_equal(g[0].frame_count, 4);
    assert_ptr_equal(g[0].frames[0], g[1].frames[0]); /* in take_deep */
    assert_ptr_not_equal(g[0].frames[1], g[1].frames[1]);
    must(mnem_pool_free(f.pool, &a, NULL));
    must(mnem_pool_free(f.pool, &b, NULL));
    fixture_close(&f);
}

/* ---- debug mode ---- */

static void right_use_is_not_found_fault_with(const mnem_pool_options *options) {
    fixture f;
    fixture_open(&f, "host", options);
    mnem_pool_block blocks[40];
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 40; i++) {
            const uint64_t bytes = 1 + (uint64_t)(i * 7919 + round) % (i % 7 ? 5000 : 900000);
            const mnem_pool_request r = {
                .bytes = bytes, .alignment = UINT64_C(1) << (i % 13), .tag = "any"};
            must(mnem_pool_alloc(f.pool, &r, &blocks[i]));
            assert_int_equal(blocks[i].memory.address % (i % 13 > 8 ? r.alignment : 256), 0);
            assert_int_equal(blocks[i].memory.bytes, bytes);
            assert_int_equal(bytes_of(&blocks[i])[bytes - 1], 0xCD);
            memset(bytes_of(&blocks[i]), i, bytes);
        }
        must(mnem_pool_check(f.pool));
        for (int i = 0; i < 40; i++) {
            for (uint64_t k = 0; k < blocks[i].memory.bytes; k++)
                if (bytes_of(&blocks[i])[k] != i) fail_msg("a block was written to by the pool");
            must(mnem_pool_free(f.pool, &blocks[i], NULL));
        }
        must(mnem_pool_step(f.pool, NULL));
        if (round == 2) must(mnem_pool_trim(f.pool, 0, NULL));
        must(mnem_pool_check(f.pool));
    }
    assert_int_equal(f.told, 0);
    assert_int_equal(misuses(f.pool), 0);
    fixture_close(&f);
}

static void right_use_is_not_found_fault_with_in_segments(void **state) {
    (void)state;
    right_use_is_not_found_fault_with(&debug);
}

static void right_use_is_not_found_fault_with_in_a_range(void **state) {
    (void)state;
    right_use_is_not_found_fault_with(&debug_range);
}

static void a_write_past_the_end_is_told_by_the_free(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a;
    TAKE(&f, 1000, NULL, &a);
    const unsigned line = __LINE__ - 1;
    bytes_of(&a)[1000] = 0;
    assert_int_equal(mnem_pool_free(f.pool, &a, NULL), MNEM_INVALID);
    const unsigned free_line = __LINE__ - 1;
    char text[300];
    snprintf(text, sizeof text,
             "write past the end of weights embed (1000 bytes, taken at model.c:%u): 1 byte, the "
             "first 1 past the end; found by the free at %s:%u",
             line, __FILE__, free_line);
    says(text);
    assert_int_equal(a.generation, 0); /* given back all the same */
    assert_int_equal(f.told, 1);
    assert_int_equal(f.last.what, MNEM_MISUSE_WRITE_PAST);
    assert_int_equal(f.last.offset, 1000);
    must(mnem_pool_check(f.pool));
    fixture_close(&f);
}

static void a_write_before_the_start_is_told_by_a_check(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a;
    TAKE(&f, 1000, NULL, &a);
    bytes_of(&a)[-1] = 0;
    assert_int_equal(mnem_pool_check(f.pool), MNEM_INVALID);
    says("write before the start of weights embed");
    says("1 byte, the first 1 before the start; found by a check");
    must(mnem_pool_check(f.pool)); /* told once */
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(f.told, 1);
    fixture_close(&f);
}

static void a_write_after_free_is_told_when_the_memory_is_taken_again(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, b;
    TAKE(&f, 1000, NULL, &a);
    const unsigned line = __LINE__ - 1;
    uint8_t *stale = bytes_of(&a);
    must(mnem_pool_free(f.pool, &a, NULL));
    stale[5] = 1;
    TAKE(&f, 1000, NULL, &b);
    assert_int_equal(f.told, 1);
    assert_int_equal(f.last.what, MNEM_MISUSE_USE_AFTER_FREE);
    assert_int_equal(f.last.offset, 5);
    assert_int_equal(f.last.taken.line, line);
    assert_string_equal(f.last.taken.file, "model.c");
    assert_int_equal(f.last.freed.line, line + 3);
    assert_string_equal(f.last.freed.file, __FILE__);
    assert_int_equal(f.last.caller.line, line + 5);
    must(mnem_pool_free(f.pool, &b, NULL));
    fixture_close(&f);
}

static void a_write_after_free_is_told_by_a_check(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a;
    TAKE(&f, 1000, NULL, &a);
    uint8_t *stale = bytes_of(&a);
    must(mnem_pool_free(f.pool, &a, NULL));
    stale[999] = 1;
    assert_int_equal(mnem_pool_check(f.pool), MNEM_INVALID);
    says("write after free of weights embed (1000 bytes");
    says("the first at offset 999");
    must(mnem_pool_check(f.pool));
    fixture_close(&f);
}

static void what_nobody_looked_at_is_told_when_the_pool_goes(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, b;
    TAKE(&f, 1000, NULL, &a);
    TAKE(&f, 1000, NULL, &b);
    bytes_of(&a)[0] = 1;
    bytes_of(&b)[1000] = 1;
    uint8_t *stale = bytes_of(&a);
    must(mnem_pool_free(f.pool, &a, NULL));
    stale[1] = 1;
    mnem_pool_destroy_forced(f.pool);
    assert_int_equal(f.told, 2);
    assert_int_equal(f.last.what, MNEM_MISUSE_USE_AFTER_FREE);
    must(mnem_device_close(f.device));
}

static void a_double_free_is_told_with_all_places(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, copy;
    TAKE(&f, 1000, NULL, &a);
    const unsigned line = __LINE__ - 1;
    copy = a;
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    char text[300];
    snprintf(text, sizeof text,
             "double free at %s:%u: weights embed (1000 bytes, taken at model.c:%u), freed at "
             "%s:%u",
             __FILE__, line + 4, line, __FILE__, line + 3);
    says(text);
    assert_int_equal(f.told, 1);
    fixture_close(&f);
}

static void a_foreign_free_is_told_with_the_place_in_the_other_pool(void **state) {
    (void)state;
    fixture f, other;
    fixture_open(&f, "host", &debug);
    fixture_open(&other, "host", &debug);
    mnem_pool_block a, b;
    TAKE(&f, 1000, NULL, &a);
    TAKE(&other, 2000, NULL, &b);
    const unsigned line = __LINE__ - 1;
    assert_int_equal(mnem_pool_free(f.pool, &b, NULL), MNEM_INVALID);
    char text[300];
    snprintf(text, sizeof text,
             "free of a foreign block at %s:%u: weights embed (2000 bytes, taken at model.c:%u)",
             __FILE__, line + 2, line);
    says(text);
    assert_int_equal(f.last.what, MNEM_MISUSE_FOREIGN_FREE);
    must(mnem_pool_free(other.pool, &b, NULL)); /* nothing changed */
    must(mnem_pool_free(f.pool, &a, NULL));
    fixture_close(&other);
    fixture_close(&f);
}

static void planned_blocks_have_their_size_and_their_free_is_watched(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block a, copy;
    const mnem_pool_request r = {.bytes = 10000, .tag = "plan", .planned = true};
    must(mnem_pool_alloc(f.pool, &r, &a));
    mnem_pool_info info;
    mnem_pool_info_get(f.pool, &info);
    assert_int_equal(info.bytes_planned,
                     mnem_device_alloc_bytes(f.device, MNEM_SPACE_DEVICE, 10000));
    memset(bytes_of(&a), 1, 10000);
    copy = a;
    must(mnem_pool_check(f.pool));
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    says("double free");
    fixture_close(&f);
}

/* One wrong byte at a time, anywhere in what the pool watches: each is told once, with its address
 * and its block. */
static void every_wrong_byte_is_told_once(void **state) {
    (void)state;
    enum { BLOCKS = 30, ROUNDS = 600 };
    uint64_t seed = 20261121;
    print_message("seed %llu\n", (unsigned long long)seed);
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_pool_block blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) TAKE(&f, 1 + (uint64_t)i * 333, NULL, &blocks[i]);
    for (unsigned round = 0; round < ROUNDS; round++) {
        seed = seed * UINT64_C(6364136223846793005) + 1;
        mnem_pool_block *b = &blocks[(seed >> 33) % BLOCKS];
        const uint64_t bytes = b->memory.bytes, any = seed >> 40;
        const mnem_misuse_what what = (mnem_misuse_what)(MNEM_MISUSE_USE_AFTER_FREE + any % 3);
        const int64_t offset = what == MNEM_MISUSE_WRITE_BEFORE ? -1 - (int64_t)(any % 256)
                               : what == MNEM_MISUSE_WRITE_PAST ? (int64_t)(bytes + any % 64)
                                                                : (int64_t)(any % bytes);
        const uint64_t address = b->memory.address;
        uint8_t *p = bytes_of(b);
        if (what == MNEM_MISUSE_USE_AFTER_FREE) must(mnem_pool_free(f.pool, b, NULL));
        p[offset] ^= (uint8_t)(1u << any % 8);
        if (what != MNEM_MISUSE_USE_AFTER_FREE)
            assert_int_equal(mnem_pool_free(f.pool, b, NULL), MNEM_INVALID);
        else
            assert_int_equal(mnem_pool_check(f.pool), MNEM_INVALID);
        assert_int_equal(f.told, round + 1);
        assert_int_equal(f.last.what, what);
        assert_int_equal(f.last.offset, offset);
        assert_int_equal(f.last.address, address + (uint64_t)offset);
        assert_int_equal(f.last.wrong, 1);
        assert_int_equal(f.last.bytes, bytes);
        TAKE(&f, bytes, NULL, b);
    }
    for (int i = 0; i < BLOCKS; i++) must(mnem_pool_free(f.pool, &blocks[i], NULL));
    must(mnem_pool_check(f.pool));
    assert_int_equal(f.told, ROUNDS);
    fixture_close(&f);
}

/* ---- streams ---- */

typedef struct gate {
    atomic_bool open;
    uint8_t *at;
    size_t bytes;
} gate;

static void gate_wait(void *context) {
    gate *g = context;
    while (!atomic_load(&g->open)) {
    }
}

static void write_run(void *context) {
    const gate *g = context;
    memset(g->at, 7, g->bytes);
}

/* Work that was queued before the free writes after the call: that is right. What is queued after
 * it is not. */
static void misuse_on_a_stream_is_told_in_its_order(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_stream *s;
    must(mnem_stream_create(f.device, &s));
    gate g = {0}, late = {0};
    mnem_pool_block a, b;
    must(mnem_stream_launch(f.device, s, gate_wait, &g));
    TAKE(&f, 1000, s, &a);
    g.at = late.at = bytes_of(&a);
    g.bytes = late.bytes = 1000;
    must(mnem_stream_launch(f.device, s, write_run, &g));
    must(mnem_pool_free(f.pool, &a, s));
    TAKE(&f, 1000, s, &a);
    must(mnem_pool_free(f.pool, &a, s));
    must(mnem_stream_launch(f.device, s, write_run, &late));
    TAKE(&f, 1000, s, &b);
    assert_int_equal(f.told, 0);
    atomic_store(&g.open, true);
    assert_int_equal(mnem_pool_check(f.pool), MNEM_INVALID); /* waits for the stream */
    assert_int_equal(f.told, 1);
    assert_int_equal(f.last.what, MNEM_MISUSE_USE_AFTER_FREE);
    assert_int_equal(f.last.wrong, 1000);
    must(mnem_pool_free(f.pool, &b, s));
    must(mnem_pool_check(f.pool));
    must(mnem_pool_forget(f.pool, s));
    mnem_stream_destroy(s);
    fixture_close(&f);
}

/* The same bytes twice on a stream, the second time freed by a stream that is ahead: the end of the
 * first, which is still to come, must find the gaps that it left. */
static void a_free_by_a_stream_that_is_ahead_leaves_earlier_blocks_alone(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_stream *slow, *fast;
    must(mnem_stream_create(f.device, &slow));
    must(mnem_stream_create(f.device, &fast));
    gate g = {0};
    mnem_pool_block a, b;
    TAKE(&f, 1000, slow, &a);
    const uint64_t address = a.memory.address;
    must(mnem_stream_synchronize(slow)); /* its gaps are filled */
    must(mnem_stream_launch(f.device, slow, gate_wait, &g));
    must(mnem_pool_free(f.pool, &a, slow));
    TAKE(&f, 1000, slow, &b);
    assert_true(b.memory.address == address);
    must(mnem_pool_free(f.pool, &b, fast));
    must(mnem_stream_synchronize(fast));
    TAKE(&f, 500, fast, &b); /* polls: the second block ends */
    must(mnem_pool_free(f.pool, &b, fast));
    atomic_store(&g.open, true);
    must(mnem_pool_check(f.pool));
    assert_int_equal(f.told, 0);
    must(mnem_pool_forget(f.pool, slow));
    must(mnem_pool_forget(f.pool, fast));
    mnem_stream_destroy(slow);
    mnem_stream_destroy(fast);
    fixture_close(&f);
}

/* Taken on one stream and freed on another that is ahead of it: the filling that is still to come
 * on the first must not reach into memory that was given back. */
static void a_free_by_a_stream_that_is_ahead_finds_nothing(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    mnem_stream *slow, *fast;
    must(mnem_stream_create(f.device, &slow));
    must(mnem_stream_create(f.device, &fast));
    gate g = {0};
    mnem_pool_block a, b;
    must(mnem_stream_launch(f.device, slow, gate_wait, &g));
    TAKE(&f, 1000, slow, &a);
    TAKE(&f, 1000, slow, &b);
    must(mnem_pool_free(f.pool, &a, fast));
    must(mnem_stream_synchronize(fast));
    TAKE(&f, 500, fast, &a); /* polls: the first block ends */
    must(mnem_pool_free(f.pool, &a, fast));
    atomic_store(&g.open, true);
    must(mnem_pool_free(f.pool, &b, slow));
    must(mnem_pool_check(f.pool));
    for (int i = 0; i < 20; i++) {
        TAKE(&f, 1000, slow, &a);
        must(mnem_pool_free(f.pool, &a, i % 2 ? slow : fast));
    }
    must(mnem_pool_check(f.pool));
    assert_int_equal(f.told, 0);
    must(mnem_pool_forget(f.pool, slow));
    must(mnem_pool_forget(f.pool, fast));
    mnem_stream_destroy(slow);
    mnem_stream_destroy(fast);
    fixture_close(&f);
}

/* Threads with a stream each take, write whole, free here or there. */
enum { THREADS = 4, STEPS = 400, HELD = 8 };

typedef struct worker {
    fixture *f;
    mnem_stream *stream;
    uint64_t seed;
} worker;

static void *work(void *context) {
    worker *w = context;
    mnem_pool_block held[HELD] = {0};
    gate jobs[HELD] = {0};
    for (int step = 0; step < STEPS; step++) {
        w->seed = w->seed * UINT64_C(6364136223846793005) + 1;
        const int i = (int)(w->seed >> 33) % HELD;
        if (held[i].generation) must(mnem_pool_free(w->f->pool, &held[i], w->stream));
        const uint64_t bytes = 1 + (w->seed >> 40) % 20000;
        must(mnem_stream_synchronize(w->stream)); /* jobs[i] is ours again */
        TAKE(w->f, bytes, w->stream, &held[i]);
        jobs[i] = (gate){.at = bytes_of(&held[i]), .bytes = bytes};
        must(mnem_stream_launch(w->f->device, w->stream, write_run, &jobs[i]));
    }
    for (int i = 0; i < HELD; i++)
        if (held[i].generation) must(mnem_pool_free(w->f->pool, &held[i], w->stream));
    must(mnem_stream_synchronize(w->stream));
    return NULL;
}

static void threads_that_use_it_right_are_told_nothing(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "host", &debug);
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.f = &f, .seed = (uint64_t)i + 1};
        must(mnem_stream_create(f.device, &workers[i].stream));
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    must(mnem_pool_check(f.pool));
    assert_int_equal(f.told, 0);
    assert_int_equal(misuses(f.pool), 0);
    for (int i = 0; i < THREADS; i++) {
        must(mnem_pool_forget(f.pool, workers[i].stream));
        mnem_stream_destroy(workers[i].stream);
    }
    fixture_close(&f);
}

static void wrong_frees_are_told_on(const char *name, bool hidden) {
    fixture f = {0};
    must(mnem_device_open(name, &(mnem_device_options){.host_hidden = hidden}, &f.device));
    const mnem_pool_options o = {.device = f.device,
                                 .bytes_max = 64 * MIB,
                                 .debug = true,
                                 .on_misuse = on_misuse,
                                 .context = &f};
    must(mnem_pool_create(&o, &f.pool));
    mnem_pool_block a, copy;
    TAKE(&f, 1000, NULL, &a);
    assert_null(mnem_block_host(&a.memory));
    copy = a;
    must(mnem_pool_free(f.pool, &a, NULL));
    assert_int_equal(mnem_pool_free(f.pool, &copy, NULL), MNEM_INVALID);
    says("double free at");
    must(mnem_pool_check(f.pool));
    fixture_close(&f);
}

static void devices_without_memory_still_tell_wrong_frees(void **state) {
    (void)state;
    wrong_frees_are_told_on("null", false);
}

static void memory_that_the_host_cannot_see_still_tells_wrong_frees(void **state) {
    (void)state;
    wrong_frees_are_told_on("host", true);
}

/* Every allocation of the heap refused once, in debug mode with backtraces. */
static mnem_status debug_try(mnem_device *device, unsigned *told) {
    mnem_pool *pool;
    fixture f = {0};
    const mnem_pool_options o = {.device = device,
                                 .bytes_max = 8 * MIB,
                                 .debug = true,
                                 .backtrace = 3,
                                 .on_misuse = on_misuse,
                                 .context = &f};
    mnem_status status = mnem_pool_create(&o, &pool);
    if (status != MNEM_OK) return status;
    mnem_pool_block blocks[100] = {0};
    for (int i = 0; i < 100 && status == MNEM_OK; i++)
        status = mnem_pool_alloc(pool, &(mnem_pool_request){.bytes = 100}, &blocks[i]);
    for (int i = 0; i < 100; i++) must(mnem_pool_free(pool, &blocks[i], NULL));
    must(mnem_pool_check(pool));
    must(mnem_pool_destroy(pool));
    *told += f.told;
    return status;
}

static void refused_memory_loses_nothing(void **state) {
    (void)state;
    mnem_device *device;
    must(mnem_device_open("host", NULL, &device));
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    unsigned told = 0, refused = 0;
    for (uint64_t n = 1; n < 80; n++) {
        mnem__heap_fail_at(n, false);
        const mnem_status status = debug_try(device, &told);
        mnem__heap_fail_at(0, false);
        assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY);
        refused += status != MNEM_OK;
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_true(refused > 10);
    assert_int_equal(debug_try(device, &told), MNEM_OK);
    assert_int_equal(told, 0);
    must(mnem_device_close(device));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(destroying_with_live_blocks_lists_them_oldest_first),
        cmocka_unit_test(a_difference_shows_what_a_step_left_behind),
        cmocka_unit_test(a_double_free_is_refused_in_normal_mode),
        cmocka_unit_test(backtraces_tell_two_ways_to_one_site_apart),
        cmocka_unit_test(right_use_is_not_found_fault_with_in_segments),
        cmocka_unit_test(right_use_is_not_found_fault_with_in_a_range),
        cmocka_unit_test(a_write_past_the_end_is_told_by_the_free),
        cmocka_unit_test(a_write_before_the_start_is_told_by_a_check),
        cmocka_unit_test(a_write_after_free_is_told_when_the_memory_is_taken_again),
        cmocka_unit_test(a_write_after_free_is_told_by_a_check),
        cmocka_unit_test(what_nobody_looked_at_is_told_when_the_pool_goes),
        cmocka_unit_test(a_double_free_is_told_with_all_places),
        cmocka_unit_test(a_foreign_free_is_told_with_the_place_in_the_other_pool),
        cmocka_unit_test(planned_blocks_have_their_size_and_their_free_is_watched),
        cmocka_unit_test(every_wrong_byte_is_told_once),
        cmocka_unit_test(misuse_on_a_stream_is_told_in_its_order),
        cmocka_unit_test(a_free_by_a_stream_that_is_ahead_leaves_earlier_blocks_alone),
        cmocka_unit_test(a_free_by_a_stream_that_is_ahead_finds_nothing),
        cmocka_unit_test(threads_that_use_it_right_are_told_nothing),
        cmocka_unit_test(devices_without_memory_still_tell_wrong_frees),
        cmocka_unit_test(memory_that_the_host_cannot_see_still_tells_wrong_frees),
        cmocka_unit_test(refused_memory_loses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
