/* test_pool_stream.c: the order of streams: what is freed on one is reused there at once and
 * elsewhere only when it has passed. Real work on the host's streams, so that a reuse that is too
 * early is a data race for ThreadSanitizer and a wrong number for everybody. */
#include <stdatomic.h>
#include <time.h>

#include "alloc/pool/pool_test.h"

/* Work that waits until the test opens it. */
typedef struct gate {
    atomic_bool open;
} gate;

static void gate_wait(void *context) {
    gate *g = context;
    while (!atomic_load(&g->open)) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

typedef struct fixture {
    mnem_device *device;
    mnem_pool *pool;
    mnem_stream *a, *b;
    gate gate;
} fixture;

static fixture start(mnem_pool_options options) {
    fixture f = {.device = device_open("host", 0)};
    must(mnem_stream_create(f.device, &f.a));
    must(mnem_stream_create(f.device, &f.b));
    options.device = f.device;
    f.pool = pool_make(options);
    return f;
}

static void end(fixture *f) {
    must(mnem_pool_check(f->pool));
    must(mnem_pool_destroy(f->pool));
    mnem_stream_destroy(f->a);
    mnem_stream_destroy(f->b);
    must(mnem_device_close(f->device));
}

static mnem_status try_take(mnem_pool *pool, uint64_t bytes, mnem_stream *stream,
                            mnem_pool_block *block) {
    return mnem_pool_alloc(
        pool, &(mnem_pool_request){.bytes = bytes, .tag = "try", .stream = stream}, block);
}

static void a_stream_reuses_its_frees_at_once(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB});
    must(mnem_stream_launch(f.device, f.a, gate_wait, &f.gate));
    mnem_pool_block x = take(f.pool, 900 * KIB, f.a);
    const uint64_t address = x.memory.address;
    give(f.pool, &x, f.a);
    x = take(f.pool, 900 * KIB, f.a); /* the stream hasn't passed the free */
    assert_int_equal(x.memory.address, address);
    atomic_store(&f.gate.open, true);
    give(f.pool, &x, f.a);
    end(&f);
}

static void another_stream_gets_them_only_after_an_event(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB});
    mnem_pool_block y = take(f.pool, 4 * KIB, f.b), none = {0};
    must(mnem_stream_launch(f.device, f.a, gate_wait, &f.gate));
    mnem_pool_block x = take(f.pool, 800 * KIB, f.a);
    give(f.pool, &x, f.a);
    for (int i = 0; i < 3; i++)
        assert_int_equal(try_take(f.pool, 800 * KIB, f.b, &none), MNEM_OVER_BUDGET);
    atomic_store(&f.gate.open, true);
    must(mnem_stream_synchronize(f.a));
    must(try_take(f.pool, 800 * KIB, f.b, &x));
    assert_int_equal(info_of(f.pool).rungs[MNEM_POOL_RUNG_TRIM] +
                         info_of(f.pool).rungs[MNEM_POOL_RUNG_OTHERS],
                     1);
    give(f.pool, &x, f.b);
    give(f.pool, &y, f.b);
    end(&f);
}

/* Most of what is reserved is free, in another stream's hands. */
static void what_others_have_free_comes_before_growth(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 256 * MIB});
    mnem_pool_block y = take(f.pool, 4 * KIB, f.b), x = take(f.pool, 32 * MIB, f.a);
    must(mnem_stream_launch(f.device, f.a, gate_wait, &f.gate));
    give(f.pool, &x, f.a);
    const uint64_t before = info_of(f.pool).bytes_reserved;
    mnem_pool_block early = take(f.pool, 12 * MIB, f.b); /* the stream hasn't passed the frees */
    const mnem_pool_info grown = info_of(f.pool);
    assert_true(grown.bytes_reserved > before);
    assert_int_equal(grown.rungs[MNEM_POOL_RUNG_OTHERS], 0);
    atomic_store(&f.gate.open, true);
    must(mnem_stream_synchronize(f.a));
    mnem_pool_block late = take(f.pool, 8 * MIB, f.b);
    assert_int_equal(info_of(f.pool).bytes_reserved, grown.bytes_reserved);
    assert_int_equal(info_of(f.pool).device_calls, grown.device_calls);
    assert_int_equal(info_of(f.pool).rungs[MNEM_POOL_RUNG_OTHERS], 1);
    give(f.pool, &early, f.b);
    give(f.pool, &late, f.b);
    give(f.pool, &y, f.b);
    end(&f);
}

/* 1.0: never fragmented enough. */
static void a_pool_that_never_defragments_grows(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 256 * MIB, .defragment_above = 1});
    mnem_pool_block y = take(f.pool, 4 * KIB, f.b), x = take(f.pool, 16 * MIB, f.a);
    give(f.pool, &x, f.a);
    must(mnem_stream_synchronize(f.a));
    const uint64_t before = info_of(f.pool).bytes_reserved;
    x = take(f.pool, 4 * MIB, f.b);
    assert_true(info_of(f.pool).bytes_reserved > before);
    assert_int_equal(info_of(f.pool).rungs[MNEM_POOL_RUNG_OTHERS], 0);
    give(f.pool, &x, f.b);
    give(f.pool, &y, f.b);
    end(&f);
}

/* Streams take turns with all that is live: what one leaves serves the next. */
static void streams_that_take_turns_share_their_memory(void **state) {
    (void)state;
    mnem_device *device = device_open("null", UINT64_C(64) << 30);
    mnem_pool *pool = pool_make((mnem_pool_options){.device = device});
    mnem_stream *streams[4];
    uint32_t seed = 20261121;
    printf("seed %u\n", seed);
    for (int i = 0; i < 4; i++) must(mnem_stream_create(device, &streams[i]));
    for (int turn = 0; turn < 40; turn++) {
        enum { BLOCKS = 64 };
        mnem_pool_block x[BLOCKS];
        mnem_stream *stream = streams[turn % 4];
        for (int i = 0; i < BLOCKS; i++)
            x[i] = take(pool, 64 * KIB + random_next(&seed) % (8 * MIB), stream);
        must(mnem_pool_check(pool));
        for (int i = 0; i < BLOCKS; i++) give(pool, &x[i], stream);
    }
    const mnem_pool_info info = info_of(pool);
    assert_true(info.bytes_reserved_peak < 2 * info.bytes_peak);
    assert_true(info.device_calls < 100);
    for (int i = 0; i < 4; i++) must(mnem_pool_forget(pool, streams[i]));
    for (int i = 0; i < 4; i++) mnem_stream_destroy(streams[i]);
    pool_end(pool, device);
}

static void a_pool_that_may_wait_serves_instead_of_refusing(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB, .wait = true});
    mnem_pool_block y = take(f.pool, 4 * KIB, f.b), x = take(f.pool, 800 * KIB, f.a);
    for (int i = 0; i < 50; i++)
        must(mnem_stream_fill(f.device, f.a, &x.memory, 0, x.memory.bytes, (uint8_t)i));
    give(f.pool, &x, f.a);
    must(try_take(f.pool, 800 * KIB, f.b, &x));
    give(f.pool, &x, f.b);
    give(f.pool, &y, f.b);
    end(&f);
}

static void a_block_freed_on_another_stream_waits_for_that_one(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB});
    mnem_pool_block x = take(f.pool, 800 * KIB, f.a), none = {0};
    const uint64_t address = x.memory.address;
    must(mnem_stream_launch(f.device, f.b, gate_wait, &f.gate));
    give(f.pool, &x, f.b);
    assert_int_equal(info_of(f.pool).bytes_pending, 800 * KIB);
    assert_int_equal(try_take(f.pool, 800 * KIB, f.a, &none), MNEM_OVER_BUDGET);
    assert_non_null(strstr(mnem_last_error(), "their streams have not reached the free yet"));
    must(try_take(f.pool, 800 * KIB, f.b, &x)); /* b may have it at once */
    assert_int_equal(x.memory.address, address);
    assert_int_equal(info_of(f.pool).bytes_pending, 0);
    give(f.pool, &x, f.b);
    atomic_store(&f.gate.open, true);
    must(mnem_stream_synchronize(f.b));
    must(try_take(f.pool, 800 * KIB, f.a, &x));
    give(f.pool, &x, f.a);
    end(&f);
}

static void a_block_in_use_on_a_second_stream_waits_for_both(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB});
    mnem_pool_block x = take(f.pool, 800 * KIB, f.a), none = {0};
    must(mnem_stream_launch(f.device, f.b, gate_wait, &f.gate));
    must(mnem_stream_fill(f.device, f.b, &x.memory, 0, 800 * KIB, 1));
    must(mnem_pool_use(f.pool, &x, f.b));
    give(f.pool, &x, f.a);
    must(mnem_stream_synchronize(f.a));
    assert_int_equal(try_take(f.pool, 800 * KIB, f.a, &none), MNEM_OVER_BUDGET);
    must(mnem_pool_check(f.pool));
    atomic_store(&f.gate.open, true);
    must(mnem_stream_synchronize(f.b));
    must(try_take(f.pool, 800 * KIB, f.a, &x));
    must(mnem_pool_use(f.pool, &x, f.a));
    must(mnem_pool_use(f.pool, &x, f.b));
    give(f.pool, &x, f.a);
    end(&f);
}

static void a_planned_block_goes_back_after_its_stream(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB});
    mnem_pool_block x;
    must(mnem_pool_alloc(
        f.pool,
        &(mnem_pool_request){.bytes = 4 * MIB, .tag = "plan", .stream = f.a, .planned = true}, &x));
    must(mnem_stream_launch(f.device, f.a, gate_wait, &f.gate));
    must(mnem_stream_fill(f.device, f.a, &x.memory, 0, 4 * MIB, 1));
    give(f.pool, &x, f.a);
    assert_int_equal(info_of(f.pool).bytes_planned, 4 * MIB); /* the stream will write there */
    atomic_store(&f.gate.open, true);
    must(mnem_stream_synchronize(f.a));
    x = take(f.pool, 100, f.a);
    give(f.pool, &x, f.a);
    must(mnem_pool_step(f.pool, f.a));
    assert_int_equal(info_of(f.pool).bytes_planned, 0);
    end(&f);
}

static void memory_in_flight_is_not_given_back(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 8 * MIB});
    mnem_pool_block x = take(f.pool, 1 * MIB, f.a);
    must(mnem_stream_launch(f.device, f.a, gate_wait, &f.gate));
    must(mnem_stream_fill(f.device, f.a, &x.memory, 0, 1 * MIB, 1));
    give(f.pool, &x, f.a);
    uint64_t given;
    must(mnem_pool_trim(f.pool, 0, &given));
    assert_int_equal(given, 0);
    atomic_store(&f.gate.open, true);
    must(mnem_stream_synchronize(f.a));
    must(mnem_pool_step(f.pool, f.a)); /* a call on the stream: it is seen to have passed */
    must(mnem_stream_synchronize(f.a));
    must(mnem_pool_trim(f.pool, 0, &given));
    assert_true(given > 0);
    end(&f);
}

static void a_forgotten_stream_leaves_its_memory_to_others(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB});
    mnem_stream *c;
    must(mnem_stream_create(f.device, &c));
    mnem_pool_block kept = take(f.pool, 10 * KIB, c), x = take(f.pool, 700 * KIB, c);
    must(mnem_stream_fill(f.device, c, &x.memory, 0, 700 * KIB, 3));
    give(f.pool, &x, c);
    must(mnem_pool_forget(f.pool, c));
    mnem_stream_destroy(c);
    x = take(f.pool, 700 * KIB, f.a);
    give(f.pool, &kept, f.a);
    give(f.pool, &x, f.a);
    must(mnem_pool_step(f.pool, f.a));
    must(mnem_stream_synchronize(f.a));
    must(mnem_stream_create(f.device, &c)); /* a new one takes the old one's place */
    x = take(f.pool, 700 * KIB, c);
    give(f.pool, &x, c);
    must(mnem_pool_forget(f.pool, c));
    mnem_stream_destroy(c);
    end(&f);
}

/* ---- moving ---- */

typedef struct owner {
    mnem_pool_block block;
} owner;

static void owner_moved(void *context, const mnem_pool_block *from, const mnem_pool_block *to) {
    owner *o = context;
    assert_int_equal(from->memory.address, o->block.memory.address);
    o->block = *to;
}

/* Each block is written on the stream before it moves and read there after. */
static void a_copy_comes_after_the_work_that_was_queued(void **state) {
    (void)state;
    fixture f = start((mnem_pool_options){.bytes_max = 1 * MIB, .bytes_expected = 1 * MIB});
    static owner owners[32];
    static uint8_t seen[32][32 * 1024];
    must(mnem_stream_launch(f.device, f.a, gate_wait, &f.gate));
    for (int i = 0; i < 32; i++) {
        must(mnem_pool_alloc(
            f.pool,
            &(mnem_pool_request){
                .bytes = 32 * KIB, .stream = f.a, .moved = owner_moved, .context = &owners[i]},
            &owners[i].block));
        must(mnem_stream_fill(f.device, f.a, &owners[i].block.memory, 0, 32 * KIB, (uint8_t)i));
    }
    for (int i = 0; i < 32; i += 2) give(f.pool, &owners[i].block, f.a);
    mnem_pool_block large = take(f.pool, 256 * KIB, f.a);
    assert_true(info_of(f.pool).blocks_moved > 0);
    must(mnem_stream_fill(f.device, f.a, &large.memory, 0, 256 * KIB, 0xee));
    for (int i = 1; i < 32; i += 2) {
        const mnem_block copy = {
            .device = f.device, .address = (uintptr_t)seen[i], .bytes = 32 * KIB};
        must(mnem_stream_copy(f.device, f.a, &copy, 0, &owners[i].block.memory, 0, 32 * KIB));
        give(f.pool, &owners[i].block, f.a);
    }
    give(f.pool, &large, f.a);
    atomic_store(&f.gate.open, true);
    must(mnem_stream_synchronize(f.a));
    for (int i = 1; i < 32; i += 2)
        for (int k = 0; k < 32 * 1024; k++) assert_int_equal(seen[i][k], i);
    end(&f);
}

/* ---- both streams at work ---- */

typedef struct job {
    mnem_pool_block block;
    mnem_stream *stream;
    uint8_t value;
    atomic_int *wrong;
} job;

static void job_check(void *context) {
    job *j = context;
    const uint8_t *bytes = mnem_block_host(&j->block.memory);
    for (uint64_t i = 0; i < j->block.memory.bytes; i++)
        if (bytes[i] != j->value) {
            atomic_fetch_add(j->wrong, 1);
            return;
        }
}

/* Writes a value, reads it back, frees: on two streams, at random on the one or the other, some
 * blocks handed over by an event. */
static void two_streams_never_see_each_others_bytes(void **state) {
    (void)state;
    enum { JOBS = 1500 };
    static job jobs[JOBS];
    atomic_int wrong = 0;
    uint32_t seed = 20261121;
    fixture f = start((mnem_pool_options){.bytes_max = 2 * MIB, .wait = true});
    mnem_event *event;
    must(mnem_event_create(f.device, &event));
    print_message("seed %u\n", seed);
    for (int i = 0; i < JOBS; i++) {
        job *j = &jobs[i];
        *j = (job){.stream = random_next(&seed) % 2 ? f.a : f.b, .value = (uint8_t)i};
        j->wrong = &wrong;
        mnem_stream *other = j->stream == f.a ? f.b : f.a;
        j->block = take(f.pool, 1 + random_next(&seed) % 60000, j->stream);
        must(mnem_stream_fill(f.device, j->stream, &j->block.memory, 0, j->block.memory.bytes,
                              j->value));
        must(mnem_stream_launch(f.device, j->stream, job_check, j));
        mnem_pool_block freed = j->block; /* the job keeps its copy */
        switch (random_next(&seed) % 4) {
        case 0: /* handed over, and freed on the other stream */
            must(mnem_event_record(event, j->stream));
            must(mnem_event_wait(event, other));
            must(mnem_stream_launch(f.device, other, job_check, j));
            give(f.pool, &freed, other);
            break;
        case 1: /* read on the other stream as well, freed here */
            must(mnem_event_record(event, j->stream));
            must(mnem_event_wait(event, other));
            must(mnem_stream_launch(f.device, other, job_check, j));
            must(mnem_pool_use(f.pool, &freed, other));
            give(f.pool, &freed, j->stream);
            break;
        default: give(f.pool, &freed, j->stream);
        }
        if (i % 100 == 0) must(mnem_pool_check(f.pool));
    }
    must(mnem_stream_synchronize(f.a));
    must(mnem_stream_synchronize(f.b));
    assert_int_equal(wrong, 0);
    mnem_event_destroy(event);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_reuses_its_frees_at_once),
        cmocka_unit_test(another_stream_gets_them_only_after_an_event),
        cmocka_unit_test(what_others_have_free_comes_before_growth),
        cmocka_unit_test(a_pool_that_never_defragments_grows),
        cmocka_unit_test(streams_that_take_turns_share_their_memory),
        cmocka_unit_test(a_pool_that_may_wait_serves_instead_of_refusing),
        cmocka_unit_test(a_block_freed_on_another_stream_waits_for_that_one),
        cmocka_unit_test(a_block_in_use_on_a_second_stream_waits_for_both),
        cmocka_unit_test(a_planned_block_goes_back_after_its_stream),
        cmocka_unit_test(memory_in_flight_is_not_given_back),
        cmocka_unit_test(a_forgotten_stream_leaves_its_memory_to_others),
        cmocka_unit_test(a_copy_comes_after_the_work_that_was_queued),
        cmocka_unit_test(two_streams_never_see_each_others_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
