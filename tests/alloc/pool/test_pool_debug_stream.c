/* test_pool_debug_stream.c: a pool in debug mode whose blocks are used by streams and threads:
 * misuse is told in the order of the streams, and right use, however far one is ahead, is told
 * of nothing. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "alloc/pool/pool_debug_case.h"
#include "kit/kit.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misuse_on_a_stream_is_told_in_its_order),
        cmocka_unit_test(a_free_by_a_stream_that_is_ahead_leaves_earlier_blocks_alone),
        cmocka_unit_test(a_free_by_a_stream_that_is_ahead_finds_nothing),
        cmocka_unit_test(threads_that_use_it_right_are_told_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
