/* test_saved.c: sequences saved and loaded go on with the same bits, in another engine too; only
 * the pages asked for are moved, by another thread if need be. What is refused:
 * test_saved_refused.c. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/pages/saved_case.h"

/* ---- the same bits ---- */

static struct {
    const char *path;
    mnem_kv_choice kv;
} models[] = {{LLAMA, MNEM_KV_F16},
              {LLAMA, MNEM_KV_F32},
              {STATES, MNEM_KV_F16},
              {FAMILY("gemma3"), MNEM_KV_F16},      /* windows of 24 tokens, in 5 of 6 layers */
              {FAMILY("phi3_window"), MNEM_KV_F32}, /* in all */
              {FAMILY("deepseek2"), MNEM_KV_F32},
              {FAMILY("deepseek32_few"), MNEM_KV_F16}, /* keys of an indexer */
              {MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf", MNEM_KV_Q8_0},
              {MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf", MNEM_KV_Q4_0},
              {MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf", MNEM_KV_AUTO}}; /* a pair: main */
enum { MODELS = sizeof models / sizeof *models, STEP = MNEM_SANITIZED ? 3 : 1 };

/* Saved at n tokens by a, another engine goes on, behind what it has itself. */
static void check_bits(engine_case *a, engine_case *b, int32_t n, int32_t from,
                       const float *expected) {
    const int fd = new_file();
    float logits[VOCAB];
    mnem_sequence *s;
    mnem_saved saved;
    save(a, n, from, fd, 100);
    must(mnem_sequence_create(b->engine, &s));
    if (from > 0) go_on(b, s, from, logits);
    must(mnem_saved_open(b->engine, fd, 100, &saved));
    must(mnem_sequence_load(s, &saved, n));
    assert_int_equal(mnem_sequence_length(s), n);
    go_on(b, s, LENGTH, logits);
    if (memcmp(logits, expected, sizeof logits)) fail_msg("%d tokens, from %d", n, from);
    mnem_sequence_destroy(s);
    mnem_engine_pages pages;
    mnem_engine_pages_get(b->engine, &pages);
    assert_int_equal(pages.free.full, pages.all.full);
    assert_int_equal(pages.free.window, pages.all.window);
    close(fd);
}

/* The other engine has a chunk of its own. */
static void a_loaded_sequence_goes_on_with_the_same_bits(void **state) {
    (void)state;
    static const int32_t lengths[] = {1, 63, 64, 65, 128, 150, 199};
    for (int m = 0; m < MODELS; m++) {
        float expected[VOCAB];
        engine_case a, b;
        mnem_sequence *s;
        print_message("%s\n", models[m].path);
        open_case(&a, models[m].path, models[m].kv, 64);
        open_case(&b, models[m].path, models[m].kv, 16);
        must(mnem_sequence_create(a.engine, &s));
        go_on(&a, s, LENGTH, expected);
        mnem_sequence_destroy(s);
        for (size_t i = MNEM_SANITIZED ? 1 : 0; i < sizeof lengths / sizeof *lengths; i += STEP)
            for (int32_t from = 0; from < lengths[i]; from += PAGE)
                check_bits(&a, &b, lengths[i], from, expected);
        engine_case_close(&b);
        engine_case_close(&a);
    }
}

/* States inside a page aren't known: that page's tokens, which the file has, run again. */
static void a_part_of_a_save_goes_on_with_the_same_bits(void **state) {
    (void)state;
    static const int32_t parts[] = {1, 40, 64, 100, 128, 149, 150};
    for (int m = 0; m < MODELS; m++) {
        const int fd = new_file();
        float expected[VOCAB], logits[VOCAB];
        int refused = 0;
        engine_case c;
        mnem_sequence *s;
        mnem_saved saved;
        open_case(&c, models[m].path, models[m].kv, 16);
        must(mnem_sequence_create(c.engine, &s));
        go_on(&c, s, LENGTH, expected);
        save(&c, 150, 0, fd, 0);
        must(mnem_saved_open(c.engine, fd, 0, &saved));
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            must(mnem_sequence_truncate(s, 0));
            const mnem_status status = mnem_sequence_load(s, &saved, parts[i]);
            if (status == MNEM_UNSUPPORTED) { /* windows have gone by */
                refused++;
                assert_int_equal(mnem_sequence_length(s), 0);
                continue;
            }
            must(status);
            go_on(&c, s, LENGTH, logits);
            assert_memory_equal(logits, expected, sizeof logits);
        }
        assert_true(strstr(models[m].path, "gemma3") || strstr(models[m].path, "window")
                        ? refused > 0 && refused < 5
                        : refused == 0);
        engine_case_close(&c);
        close(fd);
    }
}

/* Cut inside a page before it is saved: its states aren't known, and aren't after loading. */
static void a_cut_sequence_is_saved_as_it_is(void **state) {
    (void)state;
    const int fd = new_file();
    float expected[VOCAB], logits[VOCAB];
    engine_case c;
    mnem_sequence *s;
    mnem_saved saved;
    open_case(&c, STATES, MNEM_KV_F16, 64);
    must(mnem_sequence_create(c.engine, &s));
    go_on(&c, s, LENGTH, expected);
    must(mnem_sequence_truncate(s, 140));
    must(mnem_sequence_save(s, text, 0, fd, 0));
    must(mnem_sequence_truncate(s, 0));
    must(mnem_saved_open(c.engine, fd, 0, &saved));
    assert_int_equal(saved.ready, 128);
    must(mnem_sequence_load(s, &saved, 140));
    go_on(&c, s, LENGTH, logits);
    assert_memory_equal(logits, expected, sizeof logits);
    engine_case_close(&c);
    close(fd);
}

/* ---- what is moved ---- */

static void only_pages_from_there_on_are_moved(void **state) {
    (void)state;
    const int fd = new_file();
    float expected[VOCAB], logits[VOCAB];
    engine_case c;
    mnem_sequence *a, *b;
    mnem_saved saved;
    mnem_page_count own, shared;
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    must(mnem_sequence_create(c.engine, &a));
    go_on(&c, a, LENGTH, expected);
    must(mnem_sequence_fork(a, 128, &b));
    must(mnem_sequence_save(a, text, 128, fd, 0));
    assert_int_equal(lseek(fd, 0, SEEK_END), mnem_sequence_save_bytes(a, 128));
    assert_true(mnem_sequence_save_bytes(a, 0) - mnem_sequence_save_bytes(a, 128) >=
                2 * c.plan.page_bytes);
    must(mnem_sequence_truncate(a, 128)); /* the shared pages stay */
    assert_int_equal(free_pages(&c), 12 - 2);
    must(mnem_saved_open(c.engine, fd, 0, &saved));
    must(mnem_sequence_load(a, &saved, 199));
    mnem_sequence_pages_get(a, &own, &shared);
    assert_int_equal(own.full, 2);
    assert_int_equal(shared.full, 2);
    go_on(&c, a, LENGTH, logits);
    assert_memory_equal(logits, expected, sizeof logits);
    engine_case_close(&c);
    close(fd);
}

static void a_save_begins_at_a_page(void **state) {
    (void)state;
    engine_case c;
    float logits[VOCAB];
    mnem_sequence *s;
    const int fd = new_file();
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    must(mnem_sequence_create(c.engine, &s));
    assert_int_equal(mnem_sequence_save(s, text, 0, fd, 0), MNEM_INVALID); /* of nothing */
    go_on(&c, s, 128, logits);
    static const int32_t wrong[] = {-64, 1, 63, 128, 192};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(mnem_sequence_save(s, text, wrong[i], fd, 0), MNEM_INVALID);
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    engine_case_close(&c);
    close(fd);
}

static void tokens_in_common_are_counted(void **state) {
    (void)state;
    engine_case c;
    mnem_saved saved;
    int32_t n, other[LENGTH];
    const int fd = new_file();
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    save(&c, 150, 0, fd, 0);
    must(mnem_saved_open(c.engine, fd, 0, &saved));
    static const int32_t places[] = {0, 1, 100, 149, 150, 199};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memcpy(other, text, sizeof other);
        other[places[i]]++;
        must(mnem_saved_common(&saved, other, LENGTH, &n));
        assert_int_equal(n, places[i] < 150 ? places[i] : 150);
        must(mnem_saved_common(&saved, text, places[i], &n));
        assert_int_equal(n, places[i] < 150 ? places[i] : 150);
    }
    engine_case_close(&c);
    close(fd);
}

static void tokens_are_read_back_or_refused_where_they_are_damaged(void **state) {
    (void)state;
    engine_case c;
    mnem_saved saved;
    int32_t ids[LENGTH], refused = 0;
    const int fd = new_file();
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    save(&c, 150, 0, fd, 0);
    must(mnem_saved_open(c.engine, fd, 0, &saved));
    assert_int_equal(saved.length, 150);
    for (off_t at = -1; at < 1000; at += at < 0 ? 1 : 7) {
        uint8_t byte;
        if (at >= 0) assert_int_equal(pread(fd, &byte, 1, at), 1);
        if (at >= 0) assert_int_equal(pwrite(fd, &(uint8_t){byte ^ 4}, 1, at), 1);
        const mnem_status status = mnem_saved_ids(&saved, ids);
        if (status == MNEM_OK) assert_memory_equal(ids, text, 150 * sizeof *ids);
        if (status != MNEM_OK) assert_int_equal(status, MNEM_BAD_FILE);
        refused += status != MNEM_OK;
        if (at >= 0) assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_true(refused > 10);
    engine_case_close(&c);
    close(fd);
}

/* ---- beside steps ---- */

typedef struct mover {
    mnem_sequence *sequence;
    mnem_saved *saved; /* NULL: save */
    int fd;
    mnem_status status;
} mover;

static void *move(void *context) {
    mover *m = context;
    m->status = m->saved ? mnem_sequence_load_read(m->sequence, m->saved)
                         : mnem_sequence_save(m->sequence, text, 0, m->fd, 0);
    return NULL;
}

/* While another thread saves or loads one sequence, others run: a fork of it, which copies what
 * they share, and one of its own. */
static void move_beside_steps(engine_case *c, mover *m, mnem_sequence *fork, mnem_sequence *other) {
    pthread_t thread;
    float logits[VOCAB];
    assert_int_equal(pthread_create(&thread, NULL, move, m), 0);
    for (int i = 0; i < (MNEM_SANITIZED ? 12 : 40); i++) {
        go_on(c, fork, 110 + i % 40, logits);
        must(mnem_sequence_truncate(fork, 100));
        go_on(c, other, 1 + i, logits);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    must(m->status);
}

static void a_thread_moves_pages_beside_steps(void **state) {
    (void)state;
    const int fd = new_file();
    float expected[VOCAB], logits[VOCAB];
    engine_case c;
    mnem_sequence *a, *fork, *other;
    mnem_saved saved;
    open_case(&c, STATES, MNEM_KV_F16, 64);
    must(mnem_sequence_create(c.engine, &a));
    go_on(&c, a, LENGTH, expected);
    must(mnem_sequence_truncate(a, 130));
    must(mnem_sequence_fork(a, 100, &fork));
    must(mnem_sequence_create(c.engine, &other));
    mover m = {.sequence = a, .fd = fd};
    move_beside_steps(&c, &m, fork, other);
    must(mnem_sequence_truncate(a, 0));
    must(mnem_sequence_truncate(other, 0));
    must(mnem_saved_open(c.engine, fd, 0, &saved));
    must(mnem_sequence_load_begin(a, &saved, 130));
    assert_int_equal(
        mnem_engine_step(c.engine, &(mnem_step_part){a, text, 1, 0}, 1, keep_logits, logits),
        MNEM_INVALID); /* not while it is loaded */
    m.saved = &saved;
    move_beside_steps(&c, &m, fork, other);
    must(mnem_sequence_load_end(a, &saved, m.status));
    go_on(&c, a, LENGTH, logits);
    assert_memory_equal(logits, expected, sizeof logits);
    engine_case_close(&c);
    close(fd);
}

int main(void) {
    models[MODELS - 1].kv = mnem_kv_pair(MNEM_KV_Q8_0, MNEM_KV_Q4_0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_sequence_goes_on_with_the_same_bits),
        cmocka_unit_test(a_part_of_a_save_goes_on_with_the_same_bits),
        cmocka_unit_test(a_cut_sequence_is_saved_as_it_is),
        cmocka_unit_test(only_pages_from_there_on_are_moved),
        cmocka_unit_test(a_save_begins_at_a_page),
        cmocka_unit_test(tokens_in_common_are_counted),
        cmocka_unit_test(tokens_are_read_back_or_refused_where_they_are_damaged),
        cmocka_unit_test(a_thread_moves_pages_beside_steps),
    };
    return cmocka_run_group_tests(tests, fill_text, NULL);
}
