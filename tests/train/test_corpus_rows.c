/* test_corpus_rows.c: a corpus of separate rows (conversations): made, read as batches, stale,
 * damaged. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/corpus.h"

enum { ROWS = 5, SEQUENCE = 4, LONGEST = 9 };

/* Of row r: its length, and which tokens are counted. Row 3 is longer than a sequence, and what
 * counts in row 4 lies behind one. */
static const struct {
    size_t count;
    const char *marks;
} plan[ROWS] = {{3, ".xx"}, {2, ".x"}, {5, "x.x.x"}, {7, "..x.xxx"}, {9, "........x"}};

static const char *source, *cache;
static mnem_vocabulary *vocabulary;
static mnem_tokenizer *tok;
static int given;
static size_t shortest; /* of the rows; 1: a row that is none */

static int32_t id_at(int row, size_t i) {
    return row * 20 + (int32_t)i + 1;
}

static mnem_status next_row(void *context, mnem_corpus_row *row) {
    static int32_t ids[LONGEST];
    static bool counted[LONGEST];
    (void)context;
    if (given == ROWS) return MNEM_NOT_FOUND;
    for (size_t i = 0; i < plan[given].count; i++) {
        ids[i] = id_at(given, i);
        counted[i] = plan[given].marks[i] == 'x';
    }
    *row = (mnem_corpus_row){
        .ids = ids, .counted = counted, .count = shortest ? shortest : plan[given].count};
    given++;
    return MNEM_OK;
}

static int group_setup(void **state) {
    (void)state;
    source = kit_path("source"), cache = kit_path("cache");
    const char *text = MNEM_TEST_DATA "/vocabulary/mixed.txt";
    const mnem_vocabulary_options options = {.tokens = 256};
    if (mnem_vocabulary_learn(&options, &text, 1, &vocabulary) != MNEM_OK) return -1;
    return mnem_tokenizer_create_from(vocabulary, &tok) == MNEM_OK ? 0 : -1;
}

static int group_teardown(void **state) {
    (void)state;
    mnem_tokenizer_destroy(tok);
    mnem_vocabulary_destroy(vocabulary);
    return kit_folder_remove();
}

static int setup(void **state) {
    (void)state;
    given = 0;
    shortest = 0;
    write_file(source, "rows", 4);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    unlink(source);
    unlink(cache);
    return 0;
}

static mnem_status try_rows(uint64_t key, mnem_corpus **corpus) {
    given = 0;
    return mnem_corpus_open(&(mnem_corpus_options){.files = &source,
                                                   .count = 1,
                                                   .cache = cache,
                                                   .tokenizer = tok,
                                                   .rows = {.next = next_row, .key = key}},
                            corpus);
}

static mnem_corpus *open_rows(uint64_t key, bool made) {
    mnem_corpus *corpus;
    mnem_corpus_info info;
    if (try_rows(key, &corpus) != MNEM_OK) fail_msg("%s", mnem_last_error());
    mnem_corpus_info_get(corpus, &info);
    assert_int_equal(info.made, made);
    assert_int_equal(info.rows, ROWS);
    assert_int_equal(info.row_most, LONGEST);
    return corpus;
}

static void check_row(int row, const int32_t *ids, const int32_t *targets) {
    for (size_t i = 0; i < SEQUENCE; i++) {
        const bool there = i + 1 < plan[row].count;
        assert_int_equal(ids[i], there ? id_at(row, i) : 0);
        assert_int_equal(targets[i],
                         there && plan[row].marks[i + 1] == 'x' ? id_at(row, i + 1) : -1);
    }
}

static void a_row_is_a_sequence_and_its_marks_are_targets(void **state) {
    (void)state;
    int32_t ids[SEQUENCE], targets[SEQUENCE], scratch[SEQUENCE + 1], all[26];
    mnem_corpus_close(open_rows(1, true));
    mnem_corpus *corpus = open_rows(1, false);
    for (int row = 0; row < ROWS; row++) {
        assert_int_equal(
            mnem_corpus_row_read(corpus, (uint64_t)row, SEQUENCE, ids, targets, scratch), MNEM_OK);
        check_row(row, ids, targets);
    }
    assert_int_equal(mnem_corpus_row_read(corpus, ROWS, SEQUENCE, ids, targets, scratch),
                     MNEM_INVALID);
    assert_int_equal(mnem_corpus_read(corpus, 0, 26, all), MNEM_OK); /* marks are no part of ids */
    assert_int_equal(all[3], id_at(1, 0));
    assert_int_equal(all[25], id_at(4, 8));
    mnem_corpus_close(corpus);
}

static void what_a_length_loses_is_counted(void **state) {
    (void)state;
    mnem_corpus_fit fit;
    mnem_corpus *corpus = open_rows(1, true);
    assert_int_equal(mnem_corpus_rows_fit(corpus, SEQUENCE, &fit), MNEM_OK);
    assert_int_equal(fit.tokens, 3 + 2 + 5 + 5 + 5);
    assert_int_equal(fit.counted, 2 + 1 + 2 + 2 + 0);
    assert_int_equal(fit.cut, 2);
    assert_int_equal(fit.silent, 1);
    assert_int_equal(mnem_corpus_rows_fit(corpus, LONGEST - 1, &fit), MNEM_OK);
    assert_int_equal(fit.cut + fit.silent, 0);
    mnem_corpus_close(corpus);
}

static void a_feed_gives_every_row_once_in_an_epoch(void **state) {
    (void)state;
    mnem_windows training, validation;
    mnem_feed *feed;
    mnem_batch batch;
    int seen[ROWS] = {0};
    mnem_corpus *corpus = open_rows(1, true);
    assert_int_equal(mnem_windows_split_rows(ROWS, SEQUENCE, 0.2, 7, &training, &validation),
                     MNEM_OK);
    assert_int_equal(training.count, 4);
    assert_int_equal(validation.count, 1);
    assert_int_equal(mnem_windows_start(&validation, 0), 4);
    void *memory = aligned_alloc(64, (mnem_feed_bytes(3, SEQUENCE, 0) + 63) / 64 * 64);
    assert_int_equal(
        mnem_feed_create(
            &(mnem_feed_options){.corpus = corpus, .windows = training, .rows = 3, .end = 8},
            memory, &feed),
        MNEM_OK);
    while (mnem_feed_next(feed, &batch) == MNEM_OK && batch.rows)
        for (uint32_t r = 0; r < batch.rows; r++) {
            const int row = (int)mnem_windows_start(&training, batch.first + r);
            check_row(row, batch.ids + r * SEQUENCE, batch.targets + r * SEQUENCE);
            seen[row]++;
        }
    for (int row = 0; row < ROWS; row++) assert_int_equal(seen[row], row < 4 ? 2 : 0);
    mnem_feed_destroy(feed);
    free(memory);
    mnem_corpus_close(corpus);
}

static void too_few_rows_are_refused_with_the_numbers(void **state) {
    (void)state;
    mnem_windows training, validation;
    assert_int_equal(mnem_windows_split_rows(1, SEQUENCE, 0.03, 7, &training, &validation),
                     MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "all rows of the corpus (1) are held out"));
    assert_int_equal(mnem_windows_split_rows(1, SEQUENCE, 0, 7, &training, &validation), MNEM_OK);
}

static void another_key_file_or_kind_makes_the_cache_anew(void **state) {
    (void)state;
    mnem_corpus_close(open_rows(1, true));
    mnem_corpus_close(open_rows(1, false));
    mnem_corpus_close(open_rows(2, true));
    write_file(source, "rows, others", 12);
    mnem_corpus_close(open_rows(2, true));
    mnem_corpus *corpus;
    mnem_corpus_info info;
    const mnem_corpus_options text = {
        .files = &source, .count = 1, .cache = cache, .tokenizer = tok, .threads = 1};
    assert_int_equal(mnem_corpus_open(&text, &corpus), MNEM_OK);
    mnem_corpus_info_get(corpus, &info);
    assert_true(info.made && info.rows == 0);
    mnem_corpus_close(corpus);
    mnem_corpus_close(open_rows(2, true));
}

static void every_damaged_byte_is_noticed(void **state) {
    (void)state;
    size_t n;
    mnem_corpus *corpus;
    mnem_corpus_close(open_rows(1, true));
    char *bytes = read_file(cache, &n);
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 0x11;
        write_file(cache, bytes, n);
        const mnem_status status =
            mnem_corpus_open(&(mnem_corpus_options){.cache = cache}, &corpus);
        if (status != MNEM_BAD_FILE) fail_msg("byte %zu: %s", i, mnem_status_text(status));
        bytes[i] ^= 0x11;
    }
    for (size_t length = n - 8; length < n; length++) {
        write_file(cache, bytes, length);
        assert_int_equal(mnem_corpus_open(&(mnem_corpus_options){.cache = cache}, &corpus),
                         MNEM_BAD_FILE);
    }
    free(bytes);
}

static void a_row_that_is_none_leaves_nothing(void **state) {
    (void)state;
    mnem_corpus *corpus;
    shortest = 1;
    assert_int_equal(try_rows(1, &corpus), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "row 0 has 1 token, expected at least 2"));
    assert_int_equal(access(cache, F_OK), -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_row_is_a_sequence_and_its_marks_are_targets),
        TEST(what_a_length_loses_is_counted),
        TEST(a_feed_gives_every_row_once_in_an_epoch),
        TEST(too_few_rows_are_refused_with_the_numbers),
        TEST(another_key_file_or_kind_makes_the_cache_anew),
        TEST(every_damaged_byte_is_noticed),
        TEST(a_row_that_is_none_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
