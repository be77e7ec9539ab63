/* test_gguf_write.c: what is written reads back; failures leave what was there; split models. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "model/gguf/gguf_writer.h"
#include "model/gguf_forge.h"

#define OK(call) assert_int_equal(call, MNEM_OK)

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* ---- values ---- */

static const struct {
    const char *key;
    mnem_value value;
} scalars[] = {
    {"u8", {.type = MNEM_VALUE_U8, .count = 1, .u = 255}},
    {"i8", {.type = MNEM_VALUE_I8, .count = 1, .i = -128}},
    {"u16", {.type = MNEM_VALUE_U16, .count = 1, .u = 65535}},
    {"i16", {.type = MNEM_VALUE_I16, .count = 1, .i = -32768}},
    {"u32", {.type = MNEM_VALUE_U32, .count = 1, .u = UINT32_MAX}},
    {"i32", {.type = MNEM_VALUE_I32, .count = 1, .i = INT32_MIN}},
    {"u64", {.type = MNEM_VALUE_U64, .count = 1, .u = UINT64_MAX}},
    {"i64", {.type = MNEM_VALUE_I64, .count = 1, .i = INT64_MIN}},
    {"bool", {.type = MNEM_VALUE_BOOL, .count = 1, .u = 1}},
    {"f32", {.type = MNEM_VALUE_F32, .count = 1, .f = 0.5}},
    {"f64", {.type = MNEM_VALUE_F64, .count = 1, .f = -1e300}},
};
enum { SCALARS = sizeof scalars / sizeof *scalars };

static const int16_t SHORTS[3] = {1, -2, 300};
static const float FLOATS[2] = {0.25f, -4};

static void write_values(const char *path) {
    mnem_gguf_writer *w;
    OK(mnem_gguf_create(path, &w));
    for (int i = 0; i < SCALARS; i++)
        OK(mnem__gguf_write_key(w, scalars[i].key, &scalars[i].value));
    OK(mnem_gguf_key_text(w, "text", "in the beginning"));
    mnem_value v = {
        .type = MNEM_VALUE_ARRAY, .element = MNEM_VALUE_I16, .count = 3, .elements = SHORTS};
    OK(mnem__gguf_write_key(w, "shorts", &v));
    v.element = MNEM_VALUE_F32;
    v.count = 2;
    v.elements = FLOATS;
    OK(mnem__gguf_write_key(w, "floats", &v));
    OK(mnem__gguf_write_key_texts(w, "texts", (mnem_text[]){{"a", 1}, {"", 0}, {"b\0c", 3}}, 3));
    OK(mnem_gguf_finish(w));
}

static void check_values(const mnem_model *model) {
    mnem_value v;
    for (int i = 0; i < SCALARS; i++) {
        assert_true(mnem_model_key_find(model, scalars[i].key, &v));
        assert_int_equal(v.type, scalars[i].value.type);
        assert_true(v.u == scalars[i].value.u); /* also of doubles: the same bits */
    }
    assert_true(mnem_model_key_find(model, "text", &v));
    assert_int_equal(v.text.length, 16);
    assert_memory_equal(v.text.bytes, "in the beginning", 17);
    assert_true(mnem_model_key_find(model, "shorts", &v));
    assert_int_equal(mnem_value_i64(&v, 1), -2);
    assert_true(mnem_value_f64(&v, 2) == 300);
    assert_int_equal(mnem_value_i64(&v, 3), 0);
    assert_true(mnem_model_key_find(model, "floats", &v));
    assert_true(mnem_value_f64(&v, 1) == -4);
    assert_int_equal(mnem_value_i64(&v, 1), -4);
    assert_true(mnem_model_key_find(model, "texts", &v));
    assert_int_equal(mnem_value_text(&v, 2).length, 3);
    assert_memory_equal(mnem_value_text(&v, 2).bytes, "b\0c", 3);
}

static void values_read_back_and_copy(void **state) {
    (void)state;
    const char *path = kit_path("values.gguf"), *copy = kit_path("copy.gguf");
    mnem_model *model;
    mnem_gguf_writer *w;
    mnem_text key;
    mnem_value v;
    write_values(path);
    OK(mnem_model_open(path, &model));
    check_values(model);
    OK(mnem_gguf_create(copy, &w));
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &v); i++)
        OK(mnem__gguf_write_key(w, key.bytes, &v));
    OK(mnem_gguf_finish(w));
    mnem_model_close(model);
    OK(mnem_model_open(copy, &model));
    check_values(model);
    mnem_model_close(model);
}

/* ---- tensors ---- */

static void tensors_are_padded_to_the_alignment(void **state) {
    (void)state;
    const uint32_t alignments[] = {0, 1, 24, 4096};
    for (int a = 0; a < 4; a++) {
        const char *path = kit_path("tensors.gguf");
        mnem_gguf_writer *w;
        OK(mnem_gguf_create(path, &w));
        if (alignments[a]) OK(mnem__gguf_write_key_u32(w, "general.alignment", alignments[a]));
        OK(mnem__gguf_write_tensor(w, "a", MNEM_TYPE_F32, 1, (int64_t[]){3}));
        OK(mnem__gguf_write_tensor(w, "b", MNEM_TYPE_Q8_0, 2, (int64_t[]){2, 32}));
        char data[12 + 68];
        for (size_t i = 0; i < sizeof data; i++) data[i] = (char)(i + 1);
        OK(mnem__gguf_write_data(w, data, 5)); /* pieces don't follow tensors */
        OK(mnem__gguf_write_data(w, data + 5, 50));
        OK(mnem__gguf_write_data(w, data + 55, sizeof data - 55));
        OK(mnem_gguf_finish(w));
        mnem_model *model;
        char back[68];
        OK(mnem_model_open(path, &model));
        OK(mnem_model_tensor_read(model, 0, 0, 12, back));
        assert_memory_equal(back, data, 12);
        OK(mnem_model_tensor_read(model, 1, 0, 68, back));
        assert_memory_equal(back, data + 12, 68);
        mnem_model_close(model);
    }
}

static void an_unfinished_file_never_appears(void **state) {
    (void)state;
    const char *path = kit_path("part.gguf"), *temporary = kit_path("part.gguf.mnem-tmp");
    mnem_gguf_writer *w;
    OK(mnem_gguf_create(path, &w));
    OK(mnem__gguf_write_tensor(w, "a", MNEM_TYPE_F32, 1, (int64_t[]){3}));
    OK(mnem__gguf_write_data(w, "12345678", 8));
    assert_true(exists(temporary));
    assert_int_equal(mnem_gguf_finish(w), MNEM_INVALID);
    assert_false(exists(path) || exists(temporary));
    OK(mnem_gguf_create(path, &w));
    mnem_gguf_abort(w);
    assert_false(exists(path) || exists(temporary));
    mnem_gguf_abort(NULL);
}

static void what_an_earlier_run_left_is_replaced(void **state) {
    (void)state;
    const char *path = kit_path("left.gguf"), *temporary = kit_path("left.gguf.mnem-tmp");
    const char *precious = kit_path("precious");
    forge f = {.n = 0};
    forge_put(&f, "precious", 8);
    forge_write(&f, precious);
    assert_int_equal(symlink(precious, temporary), 0);
    write_values(path);
    char text[9] = "";
    FILE *file = fopen(precious, "rb");
    assert_non_null(file);
    assert_int_equal(fread(text, 1, 8, file), 8);
    fclose(file);
    assert_string_equal(text, "precious");
    assert_false(exists(temporary));
}

static void wrong_order_and_wrong_shapes_are_refused(void **state) {
    (void)state;
    const char *path = kit_path("wrong.gguf");
    mnem_gguf_writer *w;
    OK(mnem_gguf_create(path, &w));
    OK(mnem__gguf_write_tensor(w, "a", MNEM_TYPE_F32, 1, (int64_t[]){1}));
    assert_int_equal(mnem__gguf_write_key_u32(w, "late", 1), MNEM_INVALID);
    assert_int_equal(mnem_gguf_finish(w), MNEM_INVALID); /* once failed, it stays so */
    OK(mnem_gguf_create(path, &w));
    assert_int_equal(mnem__gguf_write_tensor(w, "a", MNEM_TYPE_Q4_0, 1, (int64_t[]){33}),
                     MNEM_INVALID);
    mnem_gguf_abort(w);
    OK(mnem_gguf_create(path, &w));
    OK(mnem__gguf_write_tensor(w, "a", MNEM_TYPE_F32, 1, (int64_t[]){1}));
    assert_int_equal(mnem__gguf_write_data(w, "12345", 5), MNEM_INVALID);
    mnem_gguf_abort(w);
    assert_false(exists(path));
    assert_int_equal(mnem_gguf_create(kit_path("no/folder.gguf"), &w), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "no/folder.gguf"));
}

/* A limit on the size of files stands for a full disk. */
static void a_full_disk_is_an_error_before_the_data(void **state) {
    (void)state;
    const char *path = kit_path("full.gguf");
    struct rlimit before, small;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1 << 16;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    mnem_gguf_writer *w;
    mnem_status created = mnem_gguf_create(path, &w);
    mnem_status declared = mnem__gguf_write_tensor(w, "a", MNEM_TYPE_F32, 1, (int64_t[]){1 << 20});
    static char data[1 << 17];
    mnem_status wrote = mnem__gguf_write_data(w, data, sizeof data);
    mnem_status finished = mnem_gguf_finish(w);
    setrlimit(RLIMIT_FSIZE, &before);
    OK(created);
    OK(declared);
    assert_int_equal(wrote, MNEM_IO);
    assert_int_equal(finished, MNEM_IO);
    assert_false(exists(path) || exists(kit_path("full.gguf.mnem-tmp")));
}

static void without_memory_writing_fails_and_leaves_nothing(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status != MNEM_OK; n++) {
        mnem_gguf_writer *w;
        assert_true(n < 50);
        mnem__heap_fail_at(n, true);
        status = mnem_gguf_create(kit_path("oom.gguf"), &w);
        if (status == MNEM_OK)
            status = mnem__gguf_write_tensor(w, "a", MNEM_TYPE_F32, 1, (int64_t[]){1});
        if (status == MNEM_OK) status = mnem__gguf_write_data(w, "1234", 4);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK)
            OK(mnem_gguf_finish(w));
        else
            mnem_gguf_abort(w);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
}

/* ---- split models ---- */

typedef void extra_keys(mnem_gguf_writer *w);

static void write_part_with(uint32_t no, uint32_t says, uint32_t count, uint32_t total,
                            extra_keys *extra) {
    static const char *const names[] = {"a", "b", "c"};
    char name[40];
    mnem_gguf_writer *w;
    snprintf(name, sizeof name, "m-%05u-of-%05u.gguf", no + 1, count);
    OK(mnem_gguf_create(kit_path(name), &w));
    if (no == 0) OK(mnem_gguf_key_text(w, "general.architecture", "split"));
    OK(mnem__gguf_write_key(w, "split.no",
                            &(mnem_value){.type = MNEM_VALUE_U16, .count = 1, .u = says}));
    OK(mnem__gguf_write_key(w, "split.count",
                            &(mnem_value){.type = MNEM_VALUE_U16, .count = 1, .u = count}));
    OK(mnem__gguf_write_key(w, "split.tensors.count",
                            &(mnem_value){.type = MNEM_VALUE_I32, .count = 1, .u = total}));
    if (extra) extra(w);
    OK(mnem__gguf_write_tensor(w, names[no], MNEM_TYPE_F32, 1, (int64_t[]){1}));
    OK(mnem__gguf_write_data(w, &(float){(float)no}, 4));
    OK(mnem_gguf_finish(w));
}

static void write_part(uint32_t no, uint32_t says, uint32_t count, uint32_t total) {
    write_part_with(no, says, count, total, NULL);
}

static void split_files_open_as_one_from_any_part(void **state) {
    (void)state;
    static const char *const names[] = {"a", "b", "c"};
    for (uint32_t i = 0; i < 3; i++) write_part(i, i, 3, 3);
    for (int from = 1; from <= 3; from++) {
        char name[40];
        mnem_model *model;
        mnem_model_info info;
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", from);
        OK(mnem_model_open(kit_path(name), &model));
        mnem_model_info_get(model, &info);
        assert_int_equal(info.files, 3);
        assert_int_equal(info.tensors, 3);
        assert_string_equal(info.architecture, "split");
        assert_string_equal(info.path, kit_path(name));
        for (int i = 0; i < 3; i++) {
            float number;
            mnem_tensor_info t;
            int32_t index = mnem_model_tensor_find(model, names[i]);
            assert_true(mnem_model_tensor_get(model, (uint32_t)index, &t));
            assert_int_equal(t.file, i);
            OK(mnem_model_tensor_read(model, (uint32_t)index, 0, 4, &number));
            assert_true(number == (float)i);
        }
        assert_non_null(strstr(mnem_model_file_path(model, 2), "m-00003-of-00003.gguf"));
        assert_null(mnem_model_file_path(model, 3));
        mnem_model_close(model);
    }
}

static void a_missing_or_wrong_part_is_named(void **state) {
    (void)state;
    mnem_model *model;
    for (uint32_t i = 0; i < 3; i++) write_part(i, i, 3, 3);
    const char *first = kit_path("m-00001-of-00003.gguf");
    unlink(kit_path("m-00002-of-00003.gguf"));
    assert_int_equal(mnem_model_open(first, &model), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "part 2 of 3"));
    assert_non_null(strstr(mnem_last_error(), "m-00002-of-00003.gguf"));
    write_part(1, 0, 3, 3);
    assert_int_equal(mnem_model_open(first, &model), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "split.no"));
    for (uint32_t i = 0; i < 3; i++) write_part(i, i, 3, 7);
    assert_int_equal(mnem_model_open(first, &model), MNEM_BAD_FILE);
    assert_non_null(
        strstr(mnem_last_error(), "split.tensors.count is 7, but the parts have 3 tensors"));
}

static void write_repeated(mnem_gguf_writer *w, const char *word, uint32_t blocks) {
    const mnem_text words[] = {{"a", 1}, {word, strlen(word)}};
    const float scores[] = {0, 1.5f};
    OK(mnem__gguf_write_key_texts(w, "tokenizer.ggml.tokens", words, 2));
    OK(mnem__gguf_write_key(
        w, "tokenizer.ggml.scores",
        &(mnem_value){
            .type = MNEM_VALUE_ARRAY, .element = MNEM_VALUE_F32, .count = 2, .elements = scores}));
    OK(mnem__gguf_write_key_u32(w, "split-model.block_count", blocks));
    OK(mnem_gguf_key_text(w, "split-model.kind", word));
}

static void says_the_first(mnem_gguf_writer *w) {
    write_repeated(w, "bc", 2);
}
static void says_the_same(mnem_gguf_writer *w) {
    OK(mnem_gguf_key_text(w, "general.architecture", "split"));
    OK(mnem_gguf_key_text(w, "general.comment", "what the first part doesn't say"));
    write_repeated(w, "bc", 2);
}
static void says_another_architecture(mnem_gguf_writer *w) {
    OK(mnem_gguf_key_text(w, "general.architecture", "splat"));
}
static void says_another_count(mnem_gguf_writer *w) {
    write_repeated(w, "bc", 3);
}
static void says_other_words(mnem_gguf_writer *w) {
    write_repeated(w, "bd", 2);
}
static void says_more(mnem_gguf_writer *w) {
    OK(mnem__gguf_write_key_u32(w, "other.block_count", 2));
}

static void a_part_of_another_model_is_refused(void **state) {
    (void)state;
    static const struct {
        extra_keys *second;
        const char *key;
    } cases[] = {{says_another_architecture, "key general.architecture: differs from the first"},
                 {says_another_count, "key split-model.block_count: differs from the first"},
                 {says_other_words, "key tokenizer.ggml.tokens: differs from the first"},
                 {says_more, "key other.block_count: the first part"}};
    mnem_model *model;
    write_part_with(0, 0, 2, 2, says_the_first);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_part_with(1, 1, 2, 2, cases[i].second);
        for (int from = 1; from <= 2; from++) {
            char name[40];
            snprintf(name, sizeof name, "m-%05d-of-00002.gguf", from);
            assert_int_equal(mnem_model_open(kit_path(name), &model), MNEM_BAD_FILE);
            if (!strstr(mnem_last_error(), cases[i].key)) fail_msg("%s", mnem_last_error());
            assert_non_null(strstr(mnem_last_error(), "m-00002-of-00002.gguf"));
        }
    }
    write_part_with(1, 1, 2, 7, NULL);
    assert_int_equal(mnem_model_open(kit_path("m-00001-of-00002.gguf"), &model), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "split.tensors.count is 7, but another part says 2"));
    write_part_with(1, 1, 2, 2, says_the_same);
    OK(mnem_model_open(kit_path("m-00002-of-00002.gguf"), &model));
    mnem_model_close(model);
}

/* ---- without data ---- */

/* 4 GiB of weights that take no room, where every other byte of the file is true. */
static void a_hollow_file_is_as_long_as_it_says(void **state) {
    (void)state;
    const char *path = kit_path("hollow.gguf");
    const int64_t shape[2] = {1 << 16, 1 << 14};
    struct stat info;
    mnem_gguf_writer *w;
    mnem_model *model;
    mnem_tensor_info t;
    float read[4] = {1, 1, 1, 1};
    OK(mnem_gguf_create(path, &w));
    OK(mnem_gguf_key_text(w, "text", "hollow"));
    OK(mnem__gguf_write_tensor(w, "large", MNEM_TYPE_F32, 2, shape));
    OK(mnem__gguf_write_tensor(w, "small", MNEM_TYPE_F32, 1, &(int64_t){5}));
    OK(mnem__gguf_finish_hollow(w));
    assert_int_equal(stat(path, &info), 0);
    assert_true(info.st_size > (int64_t)4 << 30);
    OK(mnem_model_open(path, &model));
    assert_true(mnem_model_tensor_get(model, 0, &t));
    assert_true(t.bytes == (uint64_t)4 << 30);
    OK(mnem_model_tensor_read(model, 1, 4, sizeof read, read)); /* its last bytes */
    assert_true(read[0] == 0 && read[3] == 0);
    mnem_model_close(model);
    assert_true((int64_t)info.st_blocks * 512 < 1 << 20);
    kit_remove(path);
    OK(mnem_gguf_create(path, &w));
    assert_int_equal(mnem__gguf_finish_hollow(w), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "needs at least one tensor"));
    OK(mnem_gguf_create(path, &w));
    OK(mnem__gguf_write_tensor(w, "small", MNEM_TYPE_F32, 1, &(int64_t){1}));
    OK(mnem__gguf_write_data(w, read, 4));
    assert_int_equal(mnem__gguf_finish_hollow(w), MNEM_INVALID);
    assert_false(exists(path));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_read_back_and_copy),
        cmocka_unit_test(tensors_are_padded_to_the_alignment),
        cmocka_unit_test(an_unfinished_file_never_appears),
        cmocka_unit_test(what_an_earlier_run_left_is_replaced),
        cmocka_unit_test(wrong_order_and_wrong_shapes_are_refused),
        cmocka_unit_test(a_full_disk_is_an_error_before_the_data),
        cmocka_unit_test(without_memory_writing_fails_and_leaves_nothing),
        cmocka_unit_test(split_files_open_as_one_from_any_part),
        cmocka_unit_test(a_missing_or_wrong_part_is_named),
        cmocka_unit_test(a_part_of_another_model_is_refused),
        cmocka_unit_test(a_hollow_file_is_as_long_as_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
