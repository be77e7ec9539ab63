/* test_saved_refused.c: saves that aren't whole, or of another model, and those that there is no
 * room for: refused with a text that says why, and nothing changed. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/pages/saved_case.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

/* Opens and loads what it can: never more than a refusal, and nothing changes by one. */
static mnem_status try_load(engine_case *c, mnem_sequence *s, int fd, int32_t n) {
    mnem_saved saved;
    int32_t common = 0;
    const int32_t length = mnem_sequence_length(s), pages = free_pages(c);
    mnem_status status = mnem_saved_open(c->engine, fd, 0, &saved);
    if (status == MNEM_OK) status = mnem_saved_common(&saved, text, LENGTH, &common);
    if (status == MNEM_OK && common < saved.length) status = MNEM_BAD_FILE;
    if (status == MNEM_OK) status = mnem_sequence_load(s, &saved, n);
    if (status != MNEM_OK) {
        assert_int_equal(mnem_sequence_length(s), length);
        assert_int_equal(free_pages(c), pages);
    }
    return status;
}

static void a_damaged_byte_is_found(void **state) {
    (void)state;
    static const char *const paths[] = {LLAMA, STATES};
    for (size_t p = 0; p < 2; p++) {
        engine_case c;
        mnem_sequence *s;
        const int fd = new_file();
        open_case(&c, paths[p], MNEM_KV_F16, 64);
        save(&c, 100, 0, fd, 0);
        must(mnem_sequence_create(c.engine, &s));
        const off_t end = lseek(fd, 0, SEEK_END);
        for (off_t at = 0; at < end; at += at < 600 ? 1 : 97) {
            uint8_t byte;
            assert_int_equal(pread(fd, &byte, 1, at), 1);
            byte ^= 0x10;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
            const mnem_status status = try_load(&c, s, fd, 100);
            if (status != MNEM_BAD_FILE) fail_msg("byte %d: %s", (int)at, mnem_last_error());
            byte ^= 0x10;
            assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        }
        must(try_load(&c, s, fd, 100)); /* it is whole again */
        engine_case_close(&c);
        close(fd);
    }
}

static void a_cut_file_is_refused(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    const int fd = new_file();
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    save(&c, 100, 0, fd, 0);
    must(mnem_sequence_create(c.engine, &s));
    for (off_t end = lseek(fd, 0, SEEK_END) - 1; end >= 0; end -= end > 600 ? 501 : 1) {
        assert_int_equal(ftruncate(fd, end), 0);
        assert_int_equal(try_load(&c, s, fd, 100), MNEM_BAD_FILE);
    }
    assert_non_null(strstr(mnem_last_error(), "the file is cut off at byte 0"));
    engine_case_close(&c);
    close(fd);
}

/* What another save left behind in the place, under a new header, isn't taken for this one's. */
static void pages_of_another_text_are_refused(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    const int fd = new_file(), other = new_file();
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    save(&c, 100, 0, fd, 0);
    for (int32_t i = 0; i < LENGTH; i++) text[i] = (text[i] + 1) % VOCAB;
    save(&c, 100, 0, other, 0);
    static uint8_t head[1000]; /* and the ids */
    assert_int_equal(pread(other, head, 88 + 400, 0), 88 + 400);
    assert_int_equal(pwrite(fd, head, 88 + 400, 0), 88 + 400);
    must(mnem_sequence_create(c.engine, &s));
    assert_int_equal(try_load(&c, s, fd, 100), MNEM_BAD_FILE);
    must(try_load(&c, s, other, 100));
    fill_text(NULL);
    engine_case_close(&c);
    close(fd);
    close(other);
}

static void expect_refused(engine_case *c, int fd, const char *words) {
    mnem_saved saved;
    assert_int_equal(mnem_saved_open(c->engine, fd, 0, &saved), MNEM_INVALID);
    if (!strstr(mnem_last_error(), words)) fail_msg("%s", mnem_last_error());
    engine_case_close(c);
}

static void a_save_of_another_model_is_refused(void **state) {
    (void)state;
    engine_case c;
    const int fd = new_file();
    const char *a = kit_path("a.gguf"), *b = kit_path("b.gguf");
    make_model(a, "--arch llama --heads 4 --kv-heads 4 --type Q8_0 --seed 1");
    make_model(b, "--arch llama --heads 4 --kv-heads 4 --type Q8_0 --seed 2");
    open_case(&c, a, MNEM_KV_F16, 64);
    save(&c, 100, 0, fd, 0);
    engine_case_close(&c);
    open_case(&c, b, MNEM_KV_F16, 64); /* only its weights differ */
    expect_refused(&c, fd, "another model");
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    expect_refused(&c, fd, "another model");
    open_case(&c, a, MNEM_KV_F32, 64);
    expect_refused(&c, fd, "another type than the engine's, f32");
    close(fd);
}

/* Types and rotation are part of what a page means. */
static void a_save_of_another_kv_type_is_refused(void **state) {
    (void)state;
    const mnem_kv_choice q8_q4 = mnem_kv_pair(MNEM_KV_Q8_0, MNEM_KV_Q4_0);
    const mnem_kv_choice q4_q8 = mnem_kv_pair(MNEM_KV_Q4_0, MNEM_KV_Q8_0);
    const mnem_kv_choice types[] = {MNEM_KV_F16, MNEM_KV_Q8_0, MNEM_KV_Q4_0,
                                    q8_q4,       q4_q8,        MNEM_KV_Q4_0_UNROTATED};
    enum { TYPES = sizeof types / sizeof *types };
    const char *path = kit_path("heads.gguf");
    make_model(path, "--arch llama --embd 64 --heads 2 --kv-heads 2 --type Q8_0");
    for (int i = 0; i < TYPES; i++) {
        engine_case c;
        const int fd = new_file();
        open_case(&c, path, types[i], 64);
        save(&c, 100, 0, fd, 0);
        engine_case_close(&c);
        for (int j = 0; j < TYPES; j++) {
            if (i == j) continue;
            open_case(&c, path, types[j], 64);
            expect_refused(&c, fd, "another type than the engine's, ");
        }
        close(fd);
    }
}

static void a_save_without_the_adapter_is_refused(void **state) {
    (void)state;
    engine_case c;
    const int fd = new_file();
    mnem_model *file;
    mnem_engine_options o = {.context = CONTEXT, .threads = 1, .chunk = 64, .sequences = 3};
    must(mnem_model_open(MNEM_TEST_DATA "/../../fuzz/corpus/adapter/q", &file));
    mnem_adapter adapter = {.model = file, .scale = 1};
    engine_case_open(&c, LLAMA, 0, &o);
    save(&c, 100, 0, fd, 0);
    engine_case_close(&c);
    o.adapters = &adapter;
    o.adapter_count = 1;
    engine_case_open(&c, LLAMA, 0, &o);
    expect_refused(&c, fd, "adapter");
    engine_case_open(&c, LLAMA, 0, &o);
    save(&c, 100, 0, fd, 0);
    engine_case_close(&c);
    adapter.scale = 0.5F;
    engine_case_open(&c, LLAMA, 0, &o);
    expect_refused(&c, fd, "adapter");
    mnem_model_close(file);
    close(fd);
}

static void what_has_no_room_is_refused(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *a, *b;
    mnem_saved saved;
    float logits[VOCAB];
    const int fd = new_file();
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    save(&c, LENGTH, 0, fd, 0);
    engine_case_close(&c);
    mnem_engine_options o = {.context = CONTEXT, .chunk = 64, .sequences = 2, .pages_tokens = 1};
    engine_case_open(&c, LLAMA, 0, &o);
    must(mnem_sequence_create(c.engine, &a));
    must(mnem_sequence_create(c.engine, &b));
    go_on(&c, b, 10, logits);
    assert_int_equal(try_load(&c, a, fd, LENGTH), MNEM_OVER_BUDGET);
    assert_string_equal(
        mnem_last_error(),
        "saved sequence: loading needs 4 pages of KV cache, but only 3 of 4 are free; "
        "close other sequences first, or plan with a larger context");
    must(try_load(&c, a, fd, 190));
    must(mnem_saved_open(c.engine, fd, 0, &saved));
    assert_int_equal(mnem_sequence_load(a, &saved, 190), MNEM_INVALID); /* not behind 190 */
    must(mnem_sequence_truncate(a, 0));
    static const int32_t wrong[] = {-1, 0, LENGTH + 1};
    for (int i = 0; i < 3; i++)
        assert_int_equal(mnem_sequence_load(a, &saved, wrong[i]), MNEM_INVALID);
    engine_case_close(&c);
    o.context = 128;
    engine_case_open(&c, LLAMA, 0, &o);
    must(mnem_sequence_create(c.engine, &a));
    assert_int_equal(try_load(&c, a, fd, LENGTH), MNEM_OVER_BUDGET);
    must(try_load(&c, a, fd, 128)); /* as much as there is room for */
    engine_case_close(&c);
    close(fd);
}

static void a_disk_that_fails_is_said(void **state) {
    (void)state;
    engine_case c;
    float logits[VOCAB];
    mnem_sequence *s;
    mnem_saved saved;
    const int full = open("/dev/full", O_RDWR | O_CLOEXEC);
    open_case(&c, LLAMA, MNEM_KV_F16, 64);
    must(mnem_sequence_create(c.engine, &s));
    go_on(&c, s, 100, logits);
    assert_int_equal(mnem_sequence_save(s, text, 0, full, 0), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "No space left"));
    assert_int_equal(mnem_saved_open(c.engine, -1, 0, &saved), MNEM_IO);
    close(full);
    engine_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_byte_is_found),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(pages_of_another_text_are_refused),
        cmocka_unit_test(a_save_of_another_model_is_refused),
        cmocka_unit_test(a_save_of_another_kv_type_is_refused),
        cmocka_unit_test(a_save_without_the_adapter_is_refused),
        cmocka_unit_test(what_has_no_room_is_refused),
        cmocka_unit_test(a_disk_that_fails_is_said),
    };
    return cmocka_run_group_tests(tests, fill_text, NULL);
}
