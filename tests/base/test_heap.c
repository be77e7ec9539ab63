/* test_heap.c: the counted heap: tags, peaks, the watcher, failures on demand, pages. */
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/pages.h"
#include "kit/kit.h"

static mnem__heap_tag tag_get(const char *name) {
    mnem__heap_tag tag = {0};
    for (unsigned i = 0; mnem__heap_tag_get(i, &tag); i++)
        if (!strcmp(tag.tag, name)) return tag;
    return (mnem__heap_tag){0};
}

static void tags_count_what_was_asked_for(void **state) {
    (void)state;
    char other[] = "test a"; /* the same text elsewhere is the same tag */
    void *a = mnem__alloc("test a", 100), *b = mnem__alloc("test b", 0);
    void *c = mnem__calloc(other, 10, 5);
    assert_non_null(b);
    assert_int_equal(tag_get("test a").bytes_live, 150);
    assert_int_equal((uintptr_t)a % 16, 0);
    for (int i = 0; i < 50; i++) assert_int_equal(((char *)c)[i], 0);
    a = mnem__realloc("ignored", a, 300);
    assert_int_equal(tag_get("test a").bytes_live, 350);
    a = mnem__realloc("ignored", a, 10);
    assert_int_equal(tag_get("test a").bytes_live, 60);
    assert_int_equal(tag_get("test a").bytes_peak, 350);
    mnem__free(a);
    mnem__free(b);
    mnem__free(c);
    mnem__free(NULL);
    assert_int_equal(tag_get("test a").bytes_live, 0);
    assert_null(tag_get("ignored").tag);
}

static void realloc_keeps_bytes_and_strndup_ends_with_zero(void **state) {
    (void)state;
    char *p = mnem__strndup("test a", "hello world", 5);
    assert_string_equal(p, "hello");
    p = mnem__realloc("test a", p, 1 << 20);
    assert_string_equal(p, "hello");
    mnem__free(p);
    p = mnem__realloc("test a", NULL, 8);
    assert_non_null(p);
    mnem__free(p);
}

/* Over the border between blocks of the C heap and mappings, and among each. */
static void realloc_keeps_bytes_of_any_size(void **state) {
    (void)state;
    static const size_t sizes[] = {100,     3 << 20, 200000, 50,      131056, 131055,
                                   1 << 20, 131057,  4096,   1 << 22, 100};
    unsigned char *p = mnem__calloc("test a", 1, 1 << 20);
    assert_non_null(p);
    for (size_t i = 0; i < 1 << 20; i++) assert_int_equal(p[i], 0);
    memset(p, 0x5a, 100);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        p = mnem__realloc("test a", p, sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t j = 0; j < 50; j++) assert_int_equal(p[j], 0x5a);
        assert_int_equal(tag_get("test a").bytes_live, sizes[i]);
        memset(p, 0x5a, sizes[i]);
    }
    mnem__free(p);
    assert_int_equal(tag_get("test a").bytes_live, 0);
}

static void sizes_that_overflow_are_refused(void **state) {
    (void)state;
    assert_null(mnem__alloc("test a", SIZE_MAX));
    assert_int_equal(mnem__heap_status(), MNEM_NO_MEMORY);
    assert_null(mnem__calloc("test a", SIZE_MAX / 2, 3));
    assert_null(mnem__alloc("test a", PTRDIFF_MAX));
    void *p = mnem__alloc("test a", 8);
    assert_null(mnem__realloc("test a", p, SIZE_MAX - 4));
    assert_int_equal(tag_get("test a").bytes_live, 8);
    mnem__free(p);
    assert_null(mnem__pages_map(0, true));
    assert_null(mnem__pages_map(SIZE_MAX, true));
    assert_null(mnem__pages_map((size_t)1 << 60, false));
}

static void failures_come_when_asked_for(void **state) {
    (void)state;
    mnem__heap_fail_at(2, false);
    void *a = mnem__alloc("test a", 1);
    assert_non_null(a);
    assert_null(mnem__alloc("test a", 1));
    assert_int_equal(mnem__heap_status(), MNEM_NO_MEMORY);
    void *b = mnem__alloc("test a", 1);
    assert_non_null(b);
    mnem__heap_fail_at(1, true);
    assert_null(mnem__calloc("test a", 1, 1));
    assert_null(mnem__realloc("test a", a, 2));
    assert_null(mnem__pages_map(4096, true));
    mnem__heap_fail_at(0, false);
    mnem__free(a);
    mnem__free(b);
    assert_int_equal(tag_get("test a").bytes_live, 0);
}

typedef struct watch {
    uint64_t live, limit;
} watch;

static mnem_status watch_charge(void *context, const char *tag, uint64_t bytes) {
    watch *w = context;
    if (w->live + bytes > w->limit)
        return mnem__fail(MNEM_OVER_BUDGET, "%s: %llu more", tag, (unsigned long long)bytes);
    w->live += bytes;
    return MNEM_OK;
}

static void watch_release(void *context, const char *tag, uint64_t bytes) {
    (void)tag;
    ((watch *)context)->live -= bytes;
}

static void the_watcher_sees_every_byte_and_may_refuse(void **state) {
    (void)state;
    watch w = {.limit = 1000};
    mnem__heap_watcher watcher = {watch_charge, watch_release, &w};
    mnem__heap_watch(&watcher);
    char *a = mnem__alloc("test a", 600);
    assert_null(mnem__alloc("test b", 401));
    assert_int_equal(mnem__heap_status(), MNEM_OVER_BUDGET);
    assert_string_equal(mnem_last_error(), "test b: 401 more");
    assert_null(mnem__realloc("test a", a, 1001));
    assert_int_equal(w.live, 600);
    a = mnem__realloc("test a", a, 1000);
    assert_int_equal(w.live, 1000);
    a = mnem__realloc("test a", a, 10);
    assert_int_equal(w.live, 10);
    mnem__heap_fail_at(1, false);
    assert_null(mnem__alloc("test a", 5));
    mnem__heap_fail_at(0, false);
    assert_int_equal(w.live, 10);
    mnem__free(a);
    assert_int_equal(w.live, 0);
    mnem__heap_watch(NULL);
}

static void pages_are_zero_aligned_and_writable(void **state) {
    (void)state;
    static const size_t sizes[] = {1, 4096, 10000, (2 << 20) - 1, 2 << 20, (4 << 20) + 4096};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t alignment = 1; alignment <= 4 << 20; alignment *= 2) {
            uint8_t *p = mnem__pages_map_aligned(sizes[i], alignment, alignment & 0x5555);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % alignment, 0);
            assert_int_equal((uintptr_t)p % mnem__page_size(), 0);
            for (size_t at = 0; at < sizes[i]; at += 1000) assert_int_equal(p[at], 0);
            memset(p, 1, sizes[i]);
            mnem__pages_unmap(p, sizes[i]);
        }
}

static void many_tags_share_the_last_row(void **state) {
    (void)state;
    static char names[MNEM__HEAP_TAGS_MAX + 8][8];
    void *p[MNEM__HEAP_TAGS_MAX + 8];
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    for (int i = 0; i < MNEM__HEAP_TAGS_MAX + 8; i++) {
        names[i][0] = 't';
        names[i][1] = (char)('0' + i / 10);
        names[i][2] = (char)('0' + i % 10);
        p[i] = mnem__alloc(names[i], 10);
    }
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live - before.bytes_live, 10 * (MNEM__HEAP_TAGS_MAX + 8));
    uint64_t sum = 0;
    mnem__heap_tag tag;
    for (unsigned i = 0; mnem__heap_tag_get(i, &tag); i++) sum += tag.bytes_live;
    assert_int_equal(sum, after.bytes_live);
    for (int i = 0; i < MNEM__HEAP_TAGS_MAX + 8; i++) mnem__free(p[i]);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live, before.bytes_live);
}

static void an_error_says_once_what_to_do(void **state) {
    (void)state;
    char path[300];
    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = 0;
    mnem__fail(MNEM_IO, "%s: is 7, expected 8", path); /* the file's name doesn't count */
    assert_int_equal(mnem__fail_ending(MNEM_IO, "read it again"), MNEM_IO);
    assert_string_equal(mnem_last_error() + sizeof path - 1, ": is 7, expected 8; read it again");
    mnem__fail_ending(MNEM_IO, "use another");
    assert_string_equal(mnem_last_error() + sizeof path - 1, ": is 7, expected 8; read it again");
    mnem__fail(MNEM_IO, "file: %.*s", 200, path); /* long enough for a reader */
    mnem__fail_ending(MNEM_IO, "read it again, or take another");
    assert_int_equal(strlen(mnem_last_error()), 6 + 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_count_what_was_asked_for),
        cmocka_unit_test(realloc_keeps_bytes_and_strndup_ends_with_zero),
        cmocka_unit_test(realloc_keeps_bytes_of_any_size),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(failures_come_when_asked_for),
        cmocka_unit_test(the_watcher_sees_every_byte_and_may_refuse),
        cmocka_unit_test(pages_are_zero_aligned_and_writable),
        cmocka_unit_test(an_error_says_once_what_to_do),
        cmocka_unit_test(many_tags_share_the_last_row), /* last: fills the table */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
