/* test_corpus_feed.c: windows by number, and reading them ahead. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "mnem/corpus.h"
#include "mnem/tokenizer.h"

#define MIXED MNEM_TEST_DATA "/vocabulary/mixed.txt"

static const char *cache;
static mnem_vocabulary *vocabulary;
static mnem_tokenizer *tok;

static int group_setup(void **state) {
    (void)state;
    random_seed_chosen();
    cache = kit_path("cache");
    const mnem_vocabulary_options bytes = {.tokens = 256};
    if (mnem_vocabulary_learn(&bytes, NULL, 0, &vocabulary) != MNEM_OK) return -1;
    return mnem_tokenizer_create_from(vocabulary, &tok) == MNEM_OK ? 0 : -1;
}

static int group_teardown(void **state) {
    (void)state;
    mnem_tokenizer_destroy(tok);
    mnem_vocabulary_destroy(vocabulary);
    unlink(cache);
    return kit_folder_remove();
}

static mnem_corpus_info info_of(const mnem_corpus *corpus) {
    mnem_corpus_info info;
    mnem_corpus_info_get(corpus, &info);
    return info;
}

/* ---- windows ---- */

static mnem_windows windows_of(uint64_t begin, uint64_t tokens, uint32_t sequence, uint64_t seed) {
    mnem_windows w;
    assert_int_equal(mnem_windows_init(begin, tokens, sequence, seed, true, &w), MNEM_OK);
    return w;
}

static void every_epoch_has_each_window_once(void **state) {
    (void)state;
    for (int round = 0; round < 200; round++) {
        const uint32_t sequence = 1 + random_below(40);
        const uint64_t begin = random_below(1000);
        const mnem_windows w =
            windows_of(begin, sequence + 1 + random_below(5000), sequence, random_below(9));
        unsigned char *seen = calloc(1, w.tokens);
        assert_non_null(seen);
        assert_true(w.count >= 1 && w.count * sequence < w.tokens);
        assert_true((w.count + 2) * sequence + 1 > w.tokens); /* less than two windows are out */
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, w.tokens);
            for (uint64_t i = 0; i < w.count; i++) {
                const uint64_t start = mnem_windows_start(&w, epoch * w.count + i);
                assert_true(start >= begin && start + sequence < begin + w.tokens);
                for (uint32_t t = 0; t < sequence; t++)
                    assert_int_equal(seen[start - begin + t]++, 0);
            }
        }
        free(seen);
    }
}

static void epochs_and_seeds_differ_in_order_and_phase(void **state) {
    (void)state;
    const mnem_windows a = windows_of(0, 100000, 64, 1), b = windows_of(0, 100000, 64, 2);
    uint64_t same_epoch = 0, same_seed = 0, in_order = 0, phases = 0;
    for (uint64_t i = 0; i < a.count; i++) {
        const uint64_t start = mnem_windows_start(&a, i);
        same_epoch += start / 64 == mnem_windows_start(&a, a.count + i) / 64;
        same_seed += start / 64 == mnem_windows_start(&b, i) / 64;
        in_order += start / 64 + 1 == mnem_windows_start(&a, (i + 1) % a.count) / 64;
    }
    for (uint64_t epoch = 1; epoch < 20; epoch++)
        phases += mnem_windows_start(&a, epoch * a.count) % 64 != mnem_windows_start(&a, 0) % 64;
    assert_int_equal(a.count, 1561);
    assert_true(same_epoch < 12 && same_seed < 12 && in_order < 12); /* 1 expected by chance */
    assert_true(phases > 10);
}

/* The first places of a window after a shuffle are about as often taken by each: chi squared. */
static void permutations_are_even(void **state) {
    (void)state;
    enum { N = 7, EPOCHS = 4200 };
    int count[N][N] = {{0}};
    const mnem_windows w = windows_of(0, N * 10 + 10, 10, 5);
    assert_int_equal(w.count, N);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t i = 0; i < N; i++) count[i][mnem_windows_start(&w, epoch * N + i) / 10 % N]++;
    double chi = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            chi += (count[i][j] - EPOCHS / N) * (double)(count[i][j] - EPOCHS / N) / (EPOCHS / N);
    assert_true(chi < 36 + 6 * 8.5); /* 36 degrees of freedom, 6 deviations */
}

static void window_numbers_mean_the_same_everywhere(void **state) {
    (void)state;
    static const uint64_t expected[] = {193873415337,  673249733801, 752915653801,
                                        1037842805146, 882252040471, 1004032378867};
    const mnem_windows w = windows_of(1000, (uint64_t)1 << 40, 1024, 42);
    assert_int_equal(w.count, ((uint64_t)1 << 30) - 1);
    const uint64_t numbers[] = {0, 1, 2, w.count, 5 * w.count + 7, (uint64_t)1 << 50};
    for (int i = 0; i < 6; i++) assert_int_equal(mnem_windows_start(&w, numbers[i]), expected[i]);
}

static void validation_windows_are_in_order(void **state) {
    (void)state;
    mnem_windows training, validation;
    assert_int_equal(mnem_windows_split(1152079, 256, 0.03, 9, &training, &validation), MNEM_OK);
    assert_int_equal(training.begin, 0);
    assert_int_equal(training.tokens, 1117440); /* 97 % is 1117516.6 */
    assert_int_equal(validation.begin, 1117440);
    assert_int_equal(validation.tokens, 1152079 - 1117440);
    assert_int_equal(validation.count, 135);
    assert_int_equal(mnem_windows_start(&validation, 0), 1117440);
    assert_int_equal(mnem_windows_start(&validation, 134), 1117440 + 134 * 256);
    assert_int_equal(mnem_windows_start(&validation, 135), 1117440);
    assert_int_equal(mnem_windows_split(5000, 256, 0, 9, &training, &validation), MNEM_OK);
    assert_int_equal(training.tokens, 5000);
    assert_int_equal(validation.count, 0);
}

static void text_shorter_than_a_window_says_the_numbers(void **state) {
    (void)state;
    mnem_windows a, b;
    assert_int_equal(mnem_windows_init(0, 256, 256, 0, true, &a), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "256 tokens, but a window of 256 tokens needs 257"));
    assert_int_equal(mnem_windows_init(0, 257, 256, 0, true, &a), MNEM_OK);
    assert_int_equal(a.count, 1);
    for (uint64_t i = 0; i < 5; i++) assert_int_equal(mnem_windows_start(&a, i), 0);
    assert_int_equal(mnem_windows_split(2000, 256, 0.03, 0, &a, &b), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "208 tokens held out"));
    assert_int_equal(mnem_windows_split(400, 256, 0.5, 0, &a, &b), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "0 tokens to train on"));
    assert_int_equal(mnem_windows_split(400, 256, 1, 0, &a, &b), MNEM_INVALID);
    assert_int_equal(mnem_windows_split(400, 256, -0.1, 0, &a, &b), MNEM_INVALID);
    assert_int_equal(mnem_windows_init(0, 10, 0, 0, true, &a), MNEM_INVALID);
}

/* ---- reading ahead ---- */

typedef struct fed {
    mnem_corpus *corpus;
    mnem_windows windows;
    void *memory;
    mnem_feed *feed;
} fed;

static void corpus_open_mixed(fed *f, uint32_t sequence) {
    const char *text = MIXED;
    const mnem_corpus_options options = {
        .files = &text, .count = 1, .cache = cache, .tokenizer = tok, .threads = 1};
    *f = (fed){0};
    assert_int_equal(mnem_corpus_open(&options, &f->corpus), MNEM_OK);
    f->windows = windows_of(0, info_of(f->corpus).tokens, sequence, 3);
}

static void feed_start(fed *f, mnem_feed_options options) {
    options.corpus = f->corpus;
    options.windows = f->windows;
    const uint64_t bytes = mnem_feed_bytes(options.rows, f->windows.sequence, options.depth);
    assert_true(bytes > 0 && bytes % 64 == 0);
    f->memory = aligned_alloc(64, bytes); /* exactly: a sanitizer sees a byte too far */
    assert_non_null(f->memory);
    assert_int_equal(mnem_feed_create(&options, f->memory, &f->feed), MNEM_OK);
}

static void feed_stop(fed *f) {
    mnem_feed_destroy(f->feed);
    free(f->memory);
}

static void check_batch(const fed *f, const mnem_batch *batch) {
    const uint32_t sequence = f->windows.sequence;
    int32_t ids[101];
    for (uint32_t r = 0; r < batch->rows; r++) {
        const uint64_t start = mnem_windows_start(&f->windows, batch->first + r);
        assert_int_equal(mnem_corpus_read(f->corpus, start, sequence + 1, ids), MNEM_OK);
        assert_memory_equal(batch->ids + r * sequence, ids, sequence * sizeof *ids);
        assert_memory_equal(batch->targets + r * sequence, ids + 1, sequence * sizeof *ids);
    }
}

static void batches_hold_the_windows_in_their_order(void **state) {
    (void)state;
    fed f;
    corpus_open_mixed(&f, 100);
    for (uint32_t depth = 0; depth < 4; depth++)
        for (uint32_t rows = 1; rows < 8; rows += 3) {
            uint64_t position = random_below(1000000);
            feed_start(&f, (mnem_feed_options){.rows = rows, .depth = depth, .first = position});
            for (int i = 0; i < 30; i++, position += rows) {
                mnem_batch batch;
                assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
                assert_int_equal(batch.first, position);
                assert_int_equal(batch.rows, rows);
                check_batch(&f, &batch);
            }
            feed_stop(&f);
        }
    mnem_corpus_close(f.corpus);
}

static void groups_and_ends_are_never_crossed(void **state) {
    (void)state;
    static const uint32_t rows[] = {4, 4, 2, 4, 4, 2, 4, 1}; /* steps of 10, up to window 25 */
    fed f;
    mnem_batch batch;
    corpus_open_mixed(&f, 32);
    feed_start(&f, (mnem_feed_options){.rows = 4, .group = 10, .end = 25});
    uint64_t position = 0;
    for (int i = 0; i < 8; i++, position += batch.rows) {
        assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
        assert_int_equal(batch.first, position);
        assert_int_equal(batch.rows, rows[i]);
        check_batch(&f, &batch);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
        assert_int_equal(batch.rows, 0);
        assert_int_equal(batch.first, 25);
    }
    feed_stop(&f);
    feed_start(&f, (mnem_feed_options){.rows = 4, .group = 10, .first = 7});
    assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
    assert_int_equal(batch.rows, 3); /* a position inside a step */
    feed_stop(&f);
    mnem_corpus_close(f.corpus);
}

static void nothing_is_allocated_after_creation(void **state) {
    (void)state;
    fed f;
    mnem_batch batch;
    mnem_heap_usage before, after;
    corpus_open_mixed(&f, 64);
    feed_start(&f, (mnem_feed_options){.rows = 4});
    mnem_heap_usage_get(&before);
    for (int i = 0; i < 200; i++) assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.calls, before.calls);
    feed_stop(&f);
    mnem_corpus_close(f.corpus);
}

static void feed_reads_ahead_to_its_depth(void **state) {
    (void)state;
    fed f;
    mnem_batch batch;
    corpus_open_mixed(&f, 64);
    feed_start(&f, (mnem_feed_options){.rows = 2, .depth = 3});
    for (int i = 0; i < 20; i++) {
        while (!mnem_feed_ready(f.feed)) usleep(100);
        assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
        const int32_t held = batch.ids[0];
        usleep(200); /* what is in use isn't written to */
        assert_int_equal(batch.ids[0], held);
        check_batch(&f, &batch);
    }
    feed_stop(&f);
    mnem_corpus_close(f.corpus);
}

static void feed_may_end_at_any_moment(void **state) {
    (void)state;
    fed f;
    corpus_open_mixed(&f, 64);
    for (int i = 0; i < 200; i++) {
        mnem_batch batch;
        feed_start(&f, (mnem_feed_options){.rows = 1 + random_below(8),
                                           .depth = random_below(3),
                                           .end = i % 3 ? 0 : 1 + random_below(10)});
        for (uint32_t n = random_below(4); n > 0; n--)
            assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
        if (i % 4 == 0) usleep(random_below(300));
        feed_stop(&f);
    }
    mnem_feed_destroy(NULL);
    mnem_corpus_close(f.corpus);
}

static void cache_that_shrinks_is_an_error_in_its_turn(void **state) {
    (void)state;
    fed f;
    mnem_batch batch;
    corpus_open_mixed(&f, 100);
    f.windows.shuffled = false;
    assert_int_equal(truncate(cache, (off_t)(info_of(f.corpus).file_bytes -
                                             2 * info_of(f.corpus).tokens + 2 * 1001)),
                     0);
    feed_start(&f, (mnem_feed_options){.rows = 2});
    for (int i = 0; i < 5; i++) {
        assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_OK);
        assert_int_equal(batch.rows, 2);
        check_batch(&f, &batch);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mnem_feed_next(f.feed, &batch), MNEM_IO);
        assert_int_equal(batch.rows, 0);
        assert_non_null(strstr(mnem_last_error(), cache));
        assert_non_null(strstr(mnem_last_error(), "another program made the file shorter"));
    }
    feed_stop(&f);
    mnem_corpus_close(f.corpus);
}

static void feed_that_makes_no_sense_is_refused(void **state) {
    (void)state;
    fed f;
    mnem_feed *feed;
    _Alignas(64) static char memory[1 << 16];
    corpus_open_mixed(&f, 64);
    assert_int_equal(mnem_feed_bytes(0, 64, 2), 0);
    assert_int_equal(mnem_feed_bytes(4, 0, 2), 0);
    assert_int_equal(mnem_feed_bytes(4, 64, 5000), 0);
    assert_int_equal(mnem_feed_bytes(UINT32_MAX, UINT32_MAX, 1024), 0);
    assert_int_equal(mnem_feed_bytes(4, 64, 0), mnem_feed_bytes(4, 64, 2));
    mnem_feed_options options = {.corpus = f.corpus, .windows = f.windows};
    assert_int_equal(mnem_feed_create(&options, memory, &feed), MNEM_INVALID); /* no rows */
    options.rows = 2;
    assert_int_equal(mnem_feed_create(&options, memory + 8, &feed), MNEM_INVALID);
    options.windows.tokens++;
    assert_int_equal(mnem_feed_create(&options, memory, &feed), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "the corpus has"));
    options.windows.tokens--;
    mnem__heap_fail_at(1, true);
    assert_int_equal(mnem_feed_create(&options, memory, &feed), MNEM_NO_MEMORY); /* no stack */
    mnem__heap_fail_at(0, false);
    assert_int_equal(mnem_feed_create(&options, memory, &feed), MNEM_OK);
    mnem_feed_destroy(feed);
    mnem_corpus_close(f.corpus);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_epoch_has_each_window_once),
        cmocka_unit_test(epochs_and_seeds_differ_in_order_and_phase),
        cmocka_unit_test(permutations_are_even),
        cmocka_unit_test(window_numbers_mean_the_same_everywhere),
        cmocka_unit_test(validation_windows_are_in_order),
        cmocka_unit_test(text_shorter_than_a_window_says_the_numbers),
        cmocka_unit_test(batches_hold_the_windows_in_their_order),
        cmocka_unit_test(groups_and_ends_are_never_crossed),
        cmocka_unit_test(nothing_is_allocated_after_creation),
        cmocka_unit_test(feed_reads_ahead_to_its_depth),
        cmocka_unit_test(feed_may_end_at_any_moment),
        cmocka_unit_test(cache_that_shrinks_is_an_error_in_its_turn),
        cmocka_unit_test(feed_that_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
