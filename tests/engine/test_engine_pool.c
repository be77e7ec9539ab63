/* test_engine_pool.c: what a session's pool takes for its books is measured the same whatever
 * other threads plan meanwhile. */
#include <stdio.h>

#include <pthread.h>

#include "base/heap.h"
#include "engine/engine_pool.h"
#include "kit/kit.h"

enum { THREADS = 4, TIMES = MNEM_SANITIZED ? 100 : 1000 };

typedef struct planner {
    pthread_t thread;
    uint64_t pool, track; /* the right answers */
    int wrong;
} planner;

static void *plan(void *context) {
    planner *p = context;
    for (int i = 0; i < TIMES; i++) {
        uint64_t pool = 0, track = 0;
        const mnem_status status = mnem__engine_pool_measure(false, &pool, &track);
        p->wrong += status != MNEM_OK || pool != p->pool || track != p->track;
    }
    return NULL;
}

static void planning_in_threads_counts_its_own_books(void **state) {
    (void)state;
    planner p[THREADS];
    uint64_t pool, track;
    assert_int_equal(mnem__engine_pool_measure(false, &pool, &track), MNEM_OK);
    assert_true(pool > 0 && track > 0);
    for (int i = 0; i < THREADS; i++) {
        p[i] = (planner){.pool = pool, .track = track};
        assert_int_equal(pthread_create(&p[i].thread, NULL, plan, &p[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(p[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) assert_int_equal(p[i].wrong, 0);
}

static void *take(void *context) {
    *(void **)context = mnem__alloc("test", 100);
    return NULL;
}

/* What another thread took and this one gives back goes below zero here, and nowhere else. */
static void a_thread_counts_what_it_did_itself(void **state) {
    (void)state;
    pthread_t thread;
    void *block;
    const int64_t before = mnem__heap_thread_bytes("test");
    assert_int_equal(pthread_create(&thread, NULL, take, &block), 0);
    pthread_join(thread, NULL);
    assert_non_null(block);
    assert_int_equal(mnem__heap_thread_bytes("test"), before);
    void *own = mnem__realloc("test", mnem__alloc("test", 30), 50);
    assert_int_equal(mnem__heap_thread_bytes("test"), before + 50);
    mnem__free(own);
    mnem__free(block);
    assert_int_equal(mnem__heap_thread_bytes("test"), before - 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planning_in_threads_counts_its_own_books),
        cmocka_unit_test(a_thread_counts_what_it_did_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
