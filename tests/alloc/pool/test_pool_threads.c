/* test_pool_threads.c: one to eight threads on one pool, at random. State: what they use. */
#include <pthread.h>

#include "alloc/pool/pool_test.h"

enum { THREADS_MAX = 8, SLOTS = 40, OPERATIONS = 6000 };

typedef struct setup {
    mnem_pool_growth growth;
    bool streams; /* each thread has one of its own */
} setup;

typedef struct shared {
    mnem_device *device;
    mnem_pool *pool;
    pthread_mutex_t lock;
    mnem_pool_block handed[16]; /* from one thread to another */
} shared;

typedef struct worker {
    shared *shared;
    mnem_stream *stream;
    uint32_t seed;
    int refused;
    pthread_t thread;
    mnem_pool_block blocks[SLOTS];
} worker;

/* Bytes are written by the thread on the default stream, else by the stream. */
static void write_block(worker *w, const mnem_pool_block *b) {
    must(mnem_stream_fill(w->shared->device, w->stream, &b->memory, 0, b->memory.bytes,
                          (uint8_t)b->id));
}

static void hand_over(worker *w, mnem_pool_block *b) {
    shared *s = w->shared;
    if (w->stream) return;
    pthread_mutex_lock(&s->lock);
    mnem_pool_block *place = &s->handed[random_next(&w->seed) % 16];
    const mnem_pool_block other = *place;
    *place = *b;
    *b = other;
    pthread_mutex_unlock(&s->lock);
}

static void operate(worker *w) {
    mnem_pool_block *b = &w->blocks[random_next(&w->seed) % SLOTS];
    mnem_pool *pool = w->shared->pool;
    give(pool, b, w->stream);
    const uint32_t r = random_next(&w->seed);
    const uint64_t bytes = 1 + random_next(&w->seed) % (r % 10 ? 3000 : 60000);
    const mnem_pool_request request = {.bytes = bytes,
                                       .kind = (mnem_kind)(r % MNEM_KIND_COUNT),
                                       .tag = r % 3 ? "a" : "b",
                                       .stream = w->stream,
                                       .planned = r % 64 == 0};
    if (mnem_pool_alloc(pool, &request, b) == MNEM_OK)
        write_block(w, b);
    else
        w->refused++;
    if (r % 7 == 0) hand_over(w, b);
    if (r % 500 == 0) must(mnem_pool_step(pool, w->stream));
    if (r % 900 == 0) must(mnem_pool_trim(pool, 0, NULL));
}

static void *work(void *context) {
    worker *w = context;
    for (int i = 0; i < OPERATIONS; i++) operate(w);
    for (int i = 0; i < SLOTS; i++) give(w->shared->pool, &w->blocks[i], w->stream);
    return NULL;
}

static void run_threads(const setup *how, int count) {
    static worker workers[THREADS_MAX];
    shared s = {.device = device_open("host", 0), .lock = PTHREAD_MUTEX_INITIALIZER};
    s.pool = pool_make((mnem_pool_options){
        .device = s.device, .growth = how->growth, .bytes_max = how->growth ? 16 * MIB : 4 * MIB});
    for (int i = 0; i < count; i++) {
        workers[i] = (worker){.shared = &s, .seed = 1000 + (uint32_t)i};
        if (how->streams) must(mnem_stream_create(s.device, &workers[i].stream));
    }
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (int i = 0; i < count; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < 16; i++) give(s.pool, &s.handed[i], NULL);
    for (int i = 0; i < count; i++)
        if (!how->streams) assert_true(workers[i].refused < OPERATIONS / 10);
    assert_int_equal(info_of(s.pool).bytes_live, 0);
    must(mnem_pool_check(s.pool));
    must(mnem_pool_destroy(s.pool));
    for (int i = 0; i < count; i++) mnem_stream_destroy(workers[i].stream);
    must(mnem_device_close(s.device));
}

static void threads_share_a_pool(void **state) {
    for (int count = 1; count <= THREADS_MAX; count *= 2) run_threads(*state, count);
}

int main(void) {
    static setup setups[] = {{MNEM_POOL_SEGMENTS, false},
                             {MNEM_POOL_RANGE, false},
                             {MNEM_POOL_SEGMENTS, true},
                             {MNEM_POOL_RANGE, true}};
    const struct CMUnitTest tests[] = {
        {"threads_share_a_pool, segments", threads_share_a_pool, NULL, NULL, &setups[0]},
        {"threads_share_a_pool, range", threads_share_a_pool, NULL, NULL, &setups[1]},
        {"threads_share_a_pool, segments, a stream each", threads_share_a_pool, NULL, NULL,
         &setups[2]},
        {"threads_share_a_pool, range, a stream each", threads_share_a_pool, NULL, NULL,
         &setups[3]},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
