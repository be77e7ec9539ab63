/* test_corpus.c: the cache of tokens: made, reopened, stale, damaged, cut off, no room. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/checksum.h"
#include "base/heap.h"
#include "kit/full_disk.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_random.h"
#include "mnem/tokenizer.h"
#include "train/data/corpus_private.h"

#define MIXED MNEM_TEST_DATA "/vocabulary/mixed.txt"

static const char *one, *two, *empty, *cache;
static mnem_vocabulary *vocabulary;
static mnem_tokenizer *tok;

static int group_setup(void **state) {
    (void)state;
    const char *text = MIXED;
    random_seed_chosen();
    one = kit_path("one"), two = kit_path("two"), empty = kit_path("empty");
    cache = kit_path("cache");
    const mnem_vocabulary_options options = {.tokens = 500};
    if (mnem_vocabulary_learn(&options, &text, 1, &vocabulary) != MNEM_OK) return -1;
    return mnem_tokenizer_create_from(vocabulary, &tok) == MNEM_OK ? 0 : -1;
}

static int group_teardown(void **state) {
    (void)state;
    mnem_tokenizer_destroy(tok);
    mnem_vocabulary_destroy(vocabulary);
    return kit_folder_remove(); /* fails when something was left */
}

static int setup(void **state) {
    (void)state;
    write_file(one, "In the beginning God created the heaven and the earth.\n", 55);
    write_file(two, "The Lord is my shepherd; I shall not want.", 42);
    write_file(empty, "", 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    disk_room = SIZE_MAX;
    unlink(one);
    unlink(two);
    unlink(empty);
    unlink(cache);
    return 0;
}

static mnem_corpus_options options_of(const char *const *files, size_t count) {
    return (mnem_corpus_options){
        .files = files, .count = count, .cache = cache, .tokenizer = tok, .threads = 1};
}

static mnem_corpus *open_options(const mnem_corpus_options *options) {
    mnem_corpus *corpus;
    const mnem_status status = mnem_corpus_open(options, &corpus);
    if (status != MNEM_OK) print_message("%s\n", mnem_last_error());
    assert_int_equal(status, MNEM_OK);
    return corpus;
}

static mnem_corpus_info info_of(const mnem_corpus *corpus) {
    mnem_corpus_info info;
    mnem_corpus_info_get(corpus, &info);
    return info;
}

static mnem_status try_open(const mnem_corpus_options *options) {
    mnem_corpus *corpus;
    const mnem_status status = mnem_corpus_open(options, &corpus);
    assert_true(status == MNEM_OK || corpus == NULL);
    mnem_corpus_close(corpus);
    return status;
}

/* Opens files and says why the cache was made; "" when it wasn't. */
static void assert_made(const char *const *files, size_t count, const char *why) {
    const mnem_corpus_options options = options_of(files, count);
    mnem_corpus *corpus = open_options(&options);
    const mnem_corpus_info info = info_of(corpus);
    if (!strstr(info.reason, why)) fail_msg("'%s' doesn't say '%s'", info.reason, why);
    assert_int_equal(info.made, *why != 0);
    mnem_corpus_close(corpus);
}

/* What the file at path is, encoded as a whole. */
static int32_t *encode_file(const char *path, size_t *count) {
    size_t n;
    const int32_t *ids;
    char *text = read_file(path, &n);
    assert_int_equal(mnem_tokenizer_encode(tok, text, n, MNEM_ENCODE_PLAIN, &ids, count), MNEM_OK);
    int32_t *copy = malloc(*count * sizeof *copy + 1);
    assert_non_null(copy);
    memcpy(copy, ids, *count * sizeof *copy);
    free(text);
    return copy;
}

/* ---- the cache ---- */

static void large_text_is_as_if_encoded_whole_on_any_threads(void **state) {
    (void)state;
    size_t n, count, first_bytes = 0;
    char *text = read_file(MIXED, &n), *first = NULL;
    FILE *file = fopen(one, "wb");
    for (size_t bytes = 0; bytes < 3u << 19; bytes += n) fwrite(text, 1, n, file);
    assert_int_equal(fclose(file), 0);
    free(text);
    int32_t *expected = encode_file(one, &count), *ids = malloc(count * sizeof *ids);
    assert_non_null(ids);
    for (int threads = 1; threads <= 3; threads++) {
        mnem_corpus_options options = options_of((const char *[]){one}, 1);
        options.threads = threads;
        unlink(cache);
        mnem_corpus *corpus = open_options(&options);
        const mnem_corpus_info info = info_of(corpus);
        assert_int_equal(info.tokens, count);
        assert_int_equal(info.vocab, 500);
        assert_int_equal(info.width, 2);
        assert_int_equal(mnem_corpus_read(corpus, 0, count, ids), MNEM_OK);
        assert_memory_equal(ids, expected, count * sizeof *ids);
        mnem_corpus_close(corpus);
        size_t bytes;
        char *file_bytes = read_file(cache, &bytes);
        if (first) {
            assert_int_equal(bytes, first_bytes);
            assert_memory_equal(file_bytes, first, bytes);
            free(file_bytes);
        } else {
            first = file_bytes;
            first_bytes = bytes;
        }
    }
    free(first);
    free(ids);
    free(expected);
}

static void end_token_stands_between_files_with_text(void **state) {
    (void)state;
    size_t a, b;
    int32_t *x = encode_file(one, &a), *y = encode_file(two, &b), ids[200];
    const char *const files[] = {empty, one, empty, two, empty};
    const mnem_corpus_options options = options_of(files, 5);
    mnem_corpus *corpus = open_options(&options);
    const mnem_corpus_info info = info_of(corpus);
    assert_int_equal(info.tokens, a + 1 + b);
    assert_int_equal(info.files, 5);
    uint16_t narrow[200];
    assert_int_equal(mnem_corpus_read(corpus, 0, info.tokens, ids), MNEM_OK);
    for (uint64_t i = 0; i < info.tokens; i++) narrow[i] = (uint16_t)ids[i];
    assert_true(info.checksum == mnem__checksum_of(narrow, info.tokens * sizeof *narrow));
    assert_int_equal(info.text_bytes, 55 + 42);
    assert_int_equal(mnem_corpus_read(corpus, 0, info.tokens, ids), MNEM_OK);
    assert_memory_equal(ids, x, a * sizeof *x);
    assert_int_equal(ids[a], 499);
    assert_memory_equal(ids + a + 1, y, b * sizeof *y);
    assert_int_equal(mnem_corpus_read(corpus, info.tokens - 1, 2, ids), MNEM_INVALID);
    assert_int_equal(mnem_corpus_read(corpus, UINT64_MAX, 1, ids), MNEM_INVALID);
    mnem_corpus_close(corpus);
    free(x);
    free(y);
}

static void bytes_without_end_token_lie_side_by_side(void **state) {
    (void)state;
    mnem_vocabulary *bytes;
    mnem_tokenizer *t;
    int32_t ids[97];
    assert_int_equal(
        mnem_vocabulary_learn(&(mnem_vocabulary_options){.tokens = 256}, NULL, 0, &bytes), MNEM_OK);
    assert_int_equal(mnem_tokenizer_create_from(bytes, &t), MNEM_OK);
    mnem_corpus_options options = options_of((const char *[]){one, two}, 2);
    options.tokenizer = t;
    mnem_corpus *corpus = open_options(&options);
    assert_int_equal(info_of(corpus).tokens, 97);
    assert_int_equal(mnem_corpus_read(corpus, 0, 97, ids), MNEM_OK);
    assert_int_equal(ids[0], 'I');
    assert_int_equal(ids[55], 'T');
    mnem_corpus_close(corpus);
    mnem_tokenizer_destroy(t);
    mnem_vocabulary_destroy(bytes);
}

static void text_that_is_not_utf8_comes_back(void **state) {
    (void)state;
    unsigned char bytes[5000], joined[5000];
    int32_t ids[5000];
    size_t n = 0;
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(128 + random_below(128));
    write_file(one, bytes, sizeof bytes);
    const mnem_corpus_options options = options_of((const char *[]){one}, 1);
    mnem_corpus *corpus = open_options(&options);
    const mnem_corpus_info info = info_of(corpus);
    assert_true(info.tokens <= sizeof bytes);
    assert_int_equal(mnem_corpus_read(corpus, 0, info.tokens, ids), MNEM_OK);
    for (uint64_t i = 0; i < info.tokens; i++) {
        const mnem_text piece = mnem_tokenizer_piece(tok, ids[i], true);
        assert_true(n + piece.length <= sizeof joined);
        memcpy(joined + n, piece.bytes, piece.length);
        n += piece.length;
    }
    assert_int_equal(n, sizeof bytes);
    assert_memory_equal(joined, bytes, n);
    mnem_corpus_close(corpus);
}

static void cache_is_made_again_only_when_something_changed(void **state) {
    (void)state;
    const char *const files[] = {one, two}, *const swapped[] = {two, one};
    assert_made(files, 2, "there is no token cache yet");
    assert_made(files, 2, "");
    assert_made(files, 1, "made from 2 files, but 1 are given now");
    assert_made(swapped, 2, "two is new");
    assert_made(files, 2, "one is new");
    const struct timespec times[2] = {{1000, 5}, {1000, 5}};
    assert_int_equal(utimensat(AT_FDCWD, two, times, 0), 0);
    assert_made(files, 2, "two has changed");
    assert_made(files, 2, "");
    assert_int_equal(truncate(one, 30), 0); /* shrank after the cache was made */
    assert_int_equal(utimensat(AT_FDCWD, one, times, 0), 0);
    assert_made(files, 2, "one has changed");
    mnem_vocabulary *v;
    mnem_tokenizer *other;
    const char *text = MIXED;
    assert_int_equal(mnem_vocabulary_learn(&(mnem_vocabulary_options){.tokens = 501}, &text, 1, &v),
                     MNEM_OK);
    assert_int_equal(mnem_tokenizer_create_from(v, &other), MNEM_OK);
    mnem_corpus_options options = options_of(files, 2);
    options.tokenizer = other;
    mnem_corpus *corpus = open_options(&options);
    assert_non_null(strstr(info_of(corpus).reason, "another tokenizer"));
    mnem_corpus_close(corpus);
    options.tokenizer = tok;
    options.count = 0; /* as it is: it isn't made again */
    assert_int_equal(try_open(&options), MNEM_NOT_READY);
    options.tokenizer = NULL;
    assert_int_equal(try_open(&options), MNEM_OK);
    mnem_tokenizer_destroy(other);
    mnem_vocabulary_destroy(v);
}

static void every_damaged_byte_is_noticed(void **state) {
    (void)state;
    const char *const files[] = {one, two};
    size_t n;
    assert_made(files, 2, "there is no token cache yet");
    char *whole = read_file(cache, &n);
    const mnem_corpus_options as_it_is = {.cache = cache};
    for (size_t i = 0; i < n; i++) {
        const char flip = (char)(1 << random_below(8));
        whole[i] ^= flip;
        write_file(cache, whole, n);
        mnem_corpus *corpus;
        const mnem_status status = mnem_corpus_open(&as_it_is, &corpus);
        assert_int_equal(status, MNEM_BAD_FILE);
        assert_non_null(strstr(mnem_last_error(), cache));
        whole[i] ^= flip;
        if (i % 50) continue;
        assert_made(files, 2, cache); /* and mended */
        assert_made(files, 2, "");
    }
    free(whole);
}

static void cache_of_any_wrong_length_is_noticed(void **state) {
    (void)state;
    const char *const files[] = {one, two};
    size_t n;
    assert_made(files, 2, "there is no token cache yet");
    char *whole = read_file(cache, &n);
    whole[n] = 0;
    const mnem_corpus_options as_it_is = {.cache = cache};
    for (size_t length = 0; length <= n + 1; length++) {
        write_file(cache, whole, length);
        assert_int_equal(try_open(&as_it_is), length == n ? MNEM_OK : MNEM_BAD_FILE);
    }
    assert_made(files, 2, "bytes, but its header says");
    free(whole);
}

/* A cache made by hand: ids of four bytes, no sources. */
static void write_wide(const uint32_t *ids, uint64_t count, uint32_t vocab) {
    struct {
        mnem__cache_head head;
        uint32_t ids[8];
    } file = {{.magic = MNEM__CORPUS_MAGIC,
               .version = MNEM__CORPUS_VERSION,
               .width = 4,
               .header_bytes = sizeof file.head,
               .tokens = count,
               .vocab = vocab},
              {0}};
    memcpy(file.ids, ids, count * sizeof *ids);
    file.head.data_checksum = mnem__checksum_of(ids, count * sizeof *ids);
    file.head.header_checksum = mnem__cache_header_checksum(&file, sizeof file.head);
    write_file(cache, &file, sizeof file.head + count * sizeof *ids);
}

static void wide_tokens_are_read_and_bounded_by_the_vocabulary(void **state) {
    (void)state;
    const uint32_t ids[] = {70000, 0, 65536, 99999};
    int32_t out[4];
    const mnem_corpus_options as_it_is = {.cache = cache};
    write_wide(ids, 4, 100000);
    mnem_corpus *corpus = open_options(&as_it_is);
    assert_int_equal(info_of(corpus).width, 4);
    assert_int_equal(mnem_corpus_read(corpus, 0, 4, out), MNEM_OK);
    assert_memory_equal(out, ids, sizeof ids);
    /* the file changes while it is open */
    const int fd = open(cache, O_WRONLY);
    const uint32_t bad = 100000;
    assert_int_equal(pwrite(fd, &bad, 4, sizeof(mnem__cache_head) + 8), 4);
    close(fd);
    assert_int_equal(mnem_corpus_read(corpus, 0, 4, out), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "token number 2 (from 0), at byte 80"));
    mnem_corpus_close(corpus);
    write_wide(ids, 4, 99999);
    assert_int_equal(try_open(&as_it_is), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "token number 3 "));
}

static void bad_sources_and_caches_are_named(void **state) {
    (void)state;
    mnem_corpus_options options = options_of((const char *[]){one, "/nowhere/text"}, 2);
    assert_int_equal(try_open(&options), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/text"));
    options = options_of((const char *[]){kit_folder()}, 1);
    assert_int_equal(try_open(&options), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "is a folder"));
    options = options_of((const char *[]){empty, empty}, 2);
    assert_int_equal(try_open(&options), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "2 files given, with 0 bytes"));
    options = options_of((const char *[]){one}, 1);
    options.cache = kit_folder();
    assert_int_equal(try_open(&options), MNEM_INVALID);
    options.cache = "/nowhere/cache";
    assert_int_equal(try_open(&options), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "/nowhere/cache"));
    options.cache = NULL;
    assert_int_equal(try_open(&options), MNEM_INVALID);
    options = options_of((const char *[]){one}, 1);
    options.tokenizer = NULL;
    assert_int_equal(try_open(&options), MNEM_INVALID);
    options = (mnem_corpus_options){.cache = cache};
    assert_int_equal(try_open(&options), MNEM_NOT_FOUND);
    assert_int_not_equal(access(cache, F_OK), 0);
}

static void full_disk_leaves_nothing(void **state) {
    (void)state;
    char temporary[120];
    const mnem_corpus_options options = options_of((const char *[]){one, two}, 2);
    snprintf(temporary, sizeof temporary, "%s.mnem-tmp", cache);
    mnem_status status = MNEM_IO;
    for (size_t bytes = 0; status != MNEM_OK; bytes += 20) {
        disk_room = bytes;
        status = try_open(&options);
        assert_int_not_equal(access(temporary, F_OK), 0);
        if (status == MNEM_OK) break;
        assert_int_equal(status, MNEM_IO);
        assert_non_null(strstr(mnem_last_error(), "No space left"));
        assert_int_not_equal(access(cache, F_OK), 0);
    }
}

static bool stop_after(void *context, const char *what, uint64_t done, uint64_t total) {
    int *left = context;
    assert_true(done <= total);
    assert_non_null(what);
    return (*left)-- > 0;
}

static void making_and_checking_can_be_cancelled(void **state) {
    (void)state;
    char temporary[120];
    snprintf(temporary, sizeof temporary, "%s.mnem-tmp", cache);
    mnem_corpus_options options = options_of((const char *[]){one, two}, 2);
    for (int i = 0;; i++) {
        int left = i;
        options.progress = (mnem_progress){stop_after, &left};
        const mnem_status status = try_open(&options);
        assert_int_not_equal(access(temporary, F_OK), 0);
        if (status == MNEM_OK) break;
        assert_int_equal(status, MNEM_CANCELLED);
        assert_true(i < 5);
    }
    int left = 0;
    options.progress = (mnem_progress){stop_after, &left};
    assert_int_equal(try_open(&options), MNEM_CANCELLED); /* while it is verified */
    left = 1;
    assert_int_equal(try_open(&options), MNEM_OK);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    for (int again = 0; again < 2; again++) { /* made, then opened */
        uint64_t n = 0;
        mnem_heap_usage_get(&before);
        for (mnem_status status = MNEM_NO_MEMORY; status != MNEM_OK;) {
            const mnem_corpus_options options = options_of((const char *[]){one, two}, 2);
            if (!again) unlink(cache);
            mnem__heap_fail_at(++n, false);
            status = try_open(&options);
            mnem__heap_fail_at(0, false);
            assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY);
            mnem_heap_usage_get(&after);
            assert_true(after.bytes_live <= before.bytes_live);
        }
        assert_true(n > 3);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(large_text_is_as_if_encoded_whole_on_any_threads),
        TEST(end_token_stands_between_files_with_text),
        TEST(bytes_without_end_token_lie_side_by_side),
        TEST(text_that_is_not_utf8_comes_back),
        TEST(cache_is_made_again_only_when_something_changed),
        TEST(every_damaged_byte_is_noticed),
        TEST(cache_of_any_wrong_length_is_noticed),
        TEST(wide_tokens_are_read_and_bounded_by_the_vocabulary),
        TEST(bad_sources_and_caches_are_named),
        TEST(full_disk_leaves_nothing),
        TEST(making_and_checking_can_be_cancelled),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
