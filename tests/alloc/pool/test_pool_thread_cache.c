/* test_pool_thread_cache.c: blocks that threads keep: nothing is lost, counters stay exact, and a
 * pool with thread caches serves and refuses as one without. */
#include <pthread.h>

#include "alloc/pool/pool_test.h"
#include "alloc/pool/pool_thread_cache.h"

/* A pool on `null` whose caches are open, as after threads met at its lock. */
static mnem_pool *crowded(mnem_device *device, mnem_pool_options options) {
    options.device = device;
    mnem_pool *pool = pool_make(options);
    mnem__pool_lock_take(&pool->lock);
    mnem__pool_crowd(pool);
    mnem__pool_lock_give(&pool->lock);
    assert_true(mnem__pool_is_shared(pool));
    return pool;
}

static uint32_t kept(const mnem_pool *pool) {
    uint32_t blocks = 0;
    for (int i = 0; i < MNEM__THREAD_CACHES; i++) blocks += pool->caches->all[i].blocks;
    return blocks;
}

static uint64_t served(const mnem_pool *pool) {
    uint64_t n = 0;
    for (int i = 0; i < MNEM__THREAD_CACHES; i++) n += pool->caches->all[i].served;
    return n;
}

/* After the pool was short of memory its caches stay closed for a while. Then this thread's is in
 * use. */
static void open_again(mnem_pool *pool) {
    for (int i = 0; i < 1000 && !kept(pool); i++) {
        mnem_pool_block block = take(pool, 1, NULL);
        give(pool, &block, NULL);
    }
    assert_int_equal(kept(pool), 1);
}

/* ---- one thread ---- */

static void a_thread_gets_back_what_it_freed(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = crowded(device, (mnem_pool_options){.bytes_max = 64 * MIB});
    mnem_pool_block a = take(pool, 5000, NULL), other = take(pool, 5000, NULL), b;
    const uint64_t address = a.memory.address;
    give(pool, &a, NULL);
    assert_int_equal(kept(pool), 1);
    b = take(pool, 4900, NULL);
    assert_int_equal(kept(pool), 0);
    assert_int_equal(served(pool), 1);
    assert_int_equal(b.memory.address, address);
    assert_int_equal(b.memory.bytes, 4900);
    give(pool, &b, NULL);
    b = take(pool, 4000, NULL); /* a block so much larger would be a waste */
    assert_int_not_equal(b.memory.address, address);
    give(pool, &b, NULL);
    give(pool, &other, NULL);
    pool_end(pool, device);
}

static void a_block_that_was_freed_twice_is_refused(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = crowded(device, (mnem_pool_options){.bytes_max = 64 * MIB});
    mnem_pool_block a = take(pool, 5000, NULL), again = a;
    give(pool, &a, NULL);
    assert_int_equal(mnem_pool_free(pool, &again, NULL), MNEM_INVALID);
    a = take(pool, 5000, NULL);
    assert_int_equal(mnem_pool_free(pool, &again, NULL), MNEM_INVALID);
    assert_int_equal(info_of(pool).blocks_live, 1);
    give(pool, &a, NULL);
    pool_end(pool, device);
}

/* Everything is freed, then one block takes all of it. */
static void what_is_kept_serves_before_a_refusal(void **state) {
    (void)state;
    enum { BLOCKS = 256 };
    static mnem_pool_block blocks[BLOCKS];
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool =
        crowded(device, (mnem_pool_options){.bytes_max = 64 * MIB, .bytes_expected = 64 * MIB});
    for (int i = 0; i < BLOCKS; i++) blocks[i] = take(pool, 256 * KIB, NULL);
    for (int i = 0; i < BLOCKS; i++) give(pool, &blocks[i], NULL);
    for (int i = 0; i < BLOCKS; i++) blocks[i] = take(pool, 16 * KIB, NULL);
    for (int i = 0; i < BLOCKS; i++) give(pool, &blocks[i], NULL);
    assert_true(kept(pool) > 3);
    mnem_pool_block all = take(pool, 64 * MIB, NULL);
    assert_int_equal(info_of(pool).device_calls, 1);
    assert_int_equal(info_of(pool).rungs[MNEM_POOL_RUNG_GROW], 0);
    give(pool, &all, NULL);
    pool_end(pool, device);
}

static void trimming_gives_back_what_is_kept(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = crowded(device, (mnem_pool_options){.bytes_max = 256 * MIB});
    mnem_pool_block small[20], large;
    for (int i = 0; i < 20; i++) small[i] = take(pool, 9000, NULL);
    large = take(pool, 128 * MIB, NULL);
    open_again(pool);
    for (int i = 0; i < 20; i++) give(pool, &small[i], NULL);
    give(pool, &large, NULL);
    assert_true(kept(pool) > 0);
    must(mnem_pool_trim(pool, 0, NULL));
    assert_int_equal(info_of(pool).bytes_reserved, 0);
    pool_end(pool, device);
}

static void a_mark_divides_what_fronts_allocate(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = crowded(device, (mnem_pool_options){.bytes_max = 64 * MIB});
    mnem_pool_block blocks[40];
    for (int i = 0; i < 40; i++) blocks[i] = take(pool, 3000, NULL);
    open_again(pool);
    for (int i = 0; i < 5; i++) give(pool, &blocks[i], NULL);
    for (int i = 0; i < 5; i++) blocks[i] = take(pool, 3000, NULL);
    assert_true(served(pool) > 0); /* so it has numbers */
    const uint64_t mark = mnem_pool_mark(pool);
    assert_int_equal(served(pool), 0);
    for (int i = 0; i < 10; i++) give(pool, &blocks[i], NULL);
    for (int i = 0; i < 10; i++) blocks[i] = take(pool, 3000, NULL);
    assert_true(served(pool) > 0);
    mnem_live_group group;
    assert_int_equal(mnem_pool_live(pool, &(mnem_live_query){.since = mark}, &group, 1), 1);
    assert_int_equal(group.blocks, 10);
    assert_int_equal(mnem_pool_live(pool, &(mnem_live_query){.by = MNEM_LIVE_BY_KIND}, &group, 1),
                     1);
    assert_int_equal(group.blocks, 40);
    for (int i = 0; i < 40; i++) give(pool, &blocks[i], NULL);
    pool_end(pool, device);
}

static mnem_status take_as(mnem_pool *pool, mnem_kind kind, const char *tag, uint64_t bytes,
                           mnem_pool_block *block) {
    return mnem_pool_alloc(pool, &(mnem_pool_request){.bytes = bytes, .kind = kind, .tag = tag},
                           block);
}

/* Of a tag, then of its kind; other blocks are kept as before. */
static void a_limit_holds_to_the_byte(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = crowded(device, (mnem_pool_options){.bytes_max = 64 * MIB});
    for (int round = 0; round < 2; round++) {
        mnem_pool_block a, b, c, free_of_limits;
        must(take_as(pool, MNEM_KIND_KV, "pages", 6000, &a));
        must(take_as(pool, MNEM_KIND_KV, "pages", 4000, &b));
        must(take_as(pool, MNEM_KIND_IO, "read", 9000, &free_of_limits));
        give(pool, &a, NULL);
        must(mnem_pool_limit_set(pool, MNEM_KIND_KV, round ? NULL : "pages", 10000));
        assert_int_equal(take_as(pool, MNEM_KIND_KV, "pages", 6001, &c), MNEM_OVER_BUDGET);
        for (int i = 0; i < 20; i++) {
            must(take_as(pool, MNEM_KIND_KV, "pages", 6000, &c));
            assert_int_equal(take_as(pool, MNEM_KIND_KV, "pages", 1, &a), MNEM_OVER_BUDGET);
            give(pool, &c, NULL);
            give(pool, &free_of_limits, NULL);
            must(take_as(pool, MNEM_KIND_IO, "read", 9000, &free_of_limits));
        }
        give(pool, &b, NULL);
        assert_true(served(pool) > 10);
        give(pool, &free_of_limits, NULL);
        must(mnem_pool_limit_set(pool, MNEM_KIND_KV, round ? NULL : "pages", 0));
    }
    pool_end(pool, device);
}

/* ---- threads in turns, against a model ---- */

enum { TURNS = 4, SLOTS = 60, TAGS = 3, STEPS = 4000 };

static const char *const tags[TAGS] = {"keys", "values", "scratch"};

typedef struct model {
    uint64_t live, peak, allocations;
} model;

typedef struct owned {
    mnem_pool_block block;
    int tag;
} owned;

typedef struct scene {
    mnem_device *device;
    mnem_pool *pool;
    mnem_stream *streams[2];
    model all, tag[TAGS];
    owned blocks[SLOTS];
    uint32_t seed;
    uint64_t served; /* by caches */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int turn, step;
} scene;

static void model_add(model *m, uint64_t bytes) {
    m->live += bytes;
    m->allocations++;
    if (m->live > m->peak) m->peak = m->live;
}

static void accounts_are(const scene *s) {
    mnem_account_info account;
    for (unsigned i = 0; mnem_pool_account_get(s->pool, i, &account); i++)
        for (int t = 0; t < TAGS; t++) {
            if (strcmp(account.tag, tags[t])) continue;
            assert_int_equal(account.bytes_live, s->tag[t].live);
            assert_int_equal(account.bytes_peak, s->tag[t].peak);
            assert_int_equal(account.charges, s->tag[t].allocations);
        }
    const mnem_pool_info info = info_of(s->pool);
    assert_int_equal(info.bytes_live, s->all.live);
    assert_int_equal(info.bytes_peak, s->all.peak);
    uint64_t requests = 0;
    for (int i = 0; i < MNEM_POOL_RUNGS; i++) requests += info.rungs[i];
    assert_int_equal(requests, s->all.allocations);
    must(mnem_pool_check(s->pool));
}

static uint64_t bytes_random(uint32_t *seed) {
    const uint32_t r = random_next(seed);
    return 1 + random_next(seed) % (r % 3 ? 4000 : r % 5 ? 60000 : 600000);
}

static void one_step(scene *s) {
    const uint32_t r = random_next(&s->seed);
    owned *o = &s->blocks[random_next(&s->seed) % SLOTS];
    mnem_stream *stream = r % 20 ? NULL : s->streams[r / 20 % 2];
    if (o->block.generation) {
        s->all.live -= o->block.memory.bytes;
        s->tag[o->tag].live -= o->block.memory.bytes;
        give(s->pool, &o->block, stream);
        return;
    }
    o->tag = (int)(r >> 8) % TAGS;
    const mnem_pool_request request = {.bytes = bytes_random(&s->seed),
                                       .kind = o->tag ? MNEM_KIND_KV : MNEM_KIND_WORKSPACE,
                                       .tag = tags[o->tag],
                                       .stream = stream};
    const uint64_t before = served(s->pool);
    must(mnem_pool_alloc(s->pool, &request, &o->block));
    if (served(s->pool) > before) s->served++;
    model_add(&s->all, request.bytes);
    model_add(&s->tag[o->tag], request.bytes);
}

typedef struct turner {
    scene *scene;
    int number;
    pthread_t thread;
} turner;

/* One at a time, in order: what each does is what the model does. */
static void *take_turns(void *context) {
    const turner *t = context;
    scene *s = t->scene;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (s->turn != t->number) pthread_cond_wait(&s->turned, &s->lock);
        const bool done = s->step >= STEPS;
        const uint32_t steps = 1 + random_next(&s->seed) % 40;
        for (uint32_t i = 0; i < steps && !done; i++, s->step++) one_step(s);
        if (!done && s->step % 20 == 0) accounts_are(s);
        s->turn = (s->turn + 1) % TURNS;
        pthread_cond_broadcast(&s->turned);
        pthread_mutex_unlock(&s->lock);
        if (done) return NULL;
    }
}

static void counters_and_peaks_are_exact(void **state) {
    (void)state;
    static scene s;
    turner turners[TURNS];
    s = (scene){.device = device_open("null", 0), .seed = 5};
    print_message("seed 5\n");
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.turned, NULL);
    s.pool = crowded(s.device, (mnem_pool_options){.bytes_max = 512 * MIB});
    must(mnem_pool_limit_set(s.pool, MNEM_KIND_WORKSPACE, tags[0], 512 * MIB));
    for (int i = 0; i < 2; i++) must(mnem_stream_create(s.device, &s.streams[i]));
    for (int i = 0; i < TURNS; i++) {
        turners[i] = (turner){.scene = &s, .number = i};
        assert_int_equal(pthread_create(&turners[i].thread, NULL, take_turns, &turners[i]), 0);
    }
    for (int i = 0; i < TURNS; i++) pthread_join(turners[i].thread, NULL);
    print_message("%llu of %llu allocations by caches\n", (unsigned long long)s.served,
                  (unsigned long long)s.all.allocations);
    assert_true(s.served > s.all.allocations / 20);
    accounts_are(&s);
    for (int i = 0; i < SLOTS; i++) give(s.pool, &s.blocks[i].block, NULL);
    assert_int_equal(info_of(s.pool).bytes_live, 0);
    for (int i = 0; i < 2; i++) {
        must(mnem_pool_forget(s.pool, s.streams[i]));
        mnem_stream_destroy(s.streams[i]);
    }
    pool_end(s.pool, s.device);
    pthread_cond_destroy(&s.turned);
    pthread_mutex_destroy(&s.lock);
}

/* ---- threads at once ---- */

enum { FREERS = 4, ROUNDS = 300 };

typedef struct freer {
    mnem_pool *pool;
    pthread_barrier_t *start;
    const mnem_pool_block *block; /* the same for all */
    int done;
    pthread_t thread;
} freer;

static void *free_the_same(void *context) {
    freer *f = context;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(f->start);
        mnem_pool_block b = *f->block;
        f->done += mnem_pool_free(f->pool, &b, NULL) == MNEM_OK;
        pthread_barrier_wait(f->start);
    }
    return NULL;
}

static void of_threads_that_free_one_block_one_does(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = crowded(device, (mnem_pool_options){.bytes_max = 64 * MIB});
    freer freers[FREERS];
    mnem_pool_block block;
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, FREERS + 1);
    for (int i = 0; i < FREERS; i++) {
        freers[i] = (freer){.pool = pool, .start = &start, .block = &block};
        pthread_create(&freers[i].thread, NULL, free_the_same, &freers[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        block = take(pool, 5000, NULL);
        pthread_barrier_wait(&start);
        pthread_barrier_wait(&start);
    }
    int done = 0;
    for (int i = 0; i < FREERS; i++) {
        pthread_join(freers[i].thread, NULL);
        done += freers[i].done;
    }
    assert_int_equal(done, ROUNDS);
    assert_int_equal(info_of(pool).blocks_live, 0);
    pthread_barrier_destroy(&start);
    pool_end(pool, device);
}

typedef struct worker {
    mnem_pool *pool;
    uint32_t seed;
    pthread_t thread;
} worker;

static void *work(void *context) {
    worker *w = context;
    mnem_pool_block blocks[32] = {{.id = 0}};
    for (int i = 0; i < 8000; i++) {
        mnem_pool_block *b = &blocks[random_next(&w->seed) % 32];
        if (b->generation)
            give(w->pool, b, NULL);
        else
            *b = take(w->pool, 1 + random_next(&w->seed) % 30000, NULL);
        if (i % 1000 == 999) must(mnem_pool_step(w->pool, NULL));
    }
    for (int i = 0; i < 32; i++) give(w->pool, &blocks[i], NULL);
    return NULL;
}

static void threads_that_meet_take_no_heap(void **state) {
    (void)state;
    mnem_device *device = device_open("null", 0);
    mnem_pool *pool = pool_make((mnem_pool_options){
        .device = device, .bytes_max = 256 * MIB, .bytes_expected = 128 * MIB, .blocks_max = 300});
    worker workers[FREERS];
    mnem_heap_usage before, after;
    mnem_pool_block first = take(pool, 1, NULL);
    give(pool, &first, NULL);
    mnem_heap_usage_get(&before);
    mnem__pool_lock_take(&pool->lock);
    mnem__pool_crowd(pool);
    mnem__pool_lock_give(&pool->lock);
    for (int i = 0; i < FREERS; i++) {
        workers[i] = (worker){.pool = pool, .seed = 40 + (uint32_t)i};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < FREERS; i++) pthread_join(workers[i].thread, NULL);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.calls, before.calls);
    assert_int_equal(info_of(pool).bytes_live, 0);
    assert_int_equal(info_of(pool).device_calls, 1);
    pool_end(pool, device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_gets_back_what_it_freed),
        cmocka_unit_test(a_block_that_was_freed_twice_is_refused),
        cmocka_unit_test(what_is_kept_serves_before_a_refusal),
        cmocka_unit_test(trimming_gives_back_what_is_kept),
        cmocka_unit_test(a_mark_divides_what_fronts_allocate),
        cmocka_unit_test(a_limit_holds_to_the_byte),
        cmocka_unit_test(counters_and_peaks_are_exact),
        cmocka_unit_test(of_threads_that_free_one_block_one_does),
        cmocka_unit_test(threads_that_meet_take_no_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
