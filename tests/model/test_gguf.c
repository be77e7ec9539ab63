/* test_gguf.c: what opening answers for honest files, and what it says to each lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "model/gguf_forge.h"

static const char FIXTURE[] = MNEM_TEST_DATA "/model/kjv-5m-q4_0.gguf";
static forge f;

/* ---- honest files ---- */

/* Two keys, an array of texts, and two tensors: a [2, 32] in Q4_0 (36 bytes) and b [3] in F32. */
static void small_model(uint32_t version, uint32_t alignment) {
    forge_head(&f, version, 2, 3);
    forge_key_text(&f, "general.architecture", "none");
    forge_key_u32(&f, "general.alignment", alignment);
    forge_key_array(&f, "list", MNEM_VALUE_STRING, 3);
    forge_text(&f, "one");
    forge_text(&f, "");
    forge_text(&f, "three");
    uint64_t second = (36 + alignment - 1) / alignment * alignment;
    forge_tensor(&f, "a", 2, (uint64_t[]){32, 2}, MNEM_TYPE_Q4_0, 0);
    forge_tensor(&f, "b", 1, (uint64_t[]){3}, MNEM_TYPE_F32, second);
    forge_pad(&f, alignment);
    size_t data = f.n;
    for (int i = 0; i < 36; i++) forge_put(&f, &(uint8_t){(uint8_t)(i + 1)}, 1);
    while (f.n < data + second) forge_put(&f, "", 1);
    forge_put(&f, (float[]){1, 2, 3}, 12);
}

static void check_small_model(const mnem_model *model, uint32_t version, uint32_t alignment) {
    mnem_model_info info;
    mnem_model_info_get(model, &info);
    assert_int_equal(info.version, version);
    assert_int_equal(info.alignment, alignment);
    assert_int_equal(info.tensors, 2);
    assert_int_equal(info.keys, 3);
    assert_int_equal(info.parameters, 67);
    assert_int_equal(info.tensor_bytes, 48);
    assert_int_equal(info.file_bytes, f.n);
    assert_string_equal(info.architecture, "none");
    float b[3];
    assert_int_equal(mnem_model_tensor_find(model, "b"), 1);
    assert_int_equal(mnem_model_tensor_find(model, "c"), -1);
    assert_int_equal(mnem_model_tensor_read(model, 1, 0, 12, b), MNEM_OK);
    assert_true(b[0] == 1 && b[1] == 2 && b[2] == 3);
    uint8_t bytes[7];
    assert_int_equal(mnem_model_tensor_read(model, 0, 29, 7, bytes), MNEM_OK);
    assert_int_equal(bytes[0], 30);
    assert_int_equal(bytes[6], 36);
}

static void opens_both_versions_and_any_alignment(void **state) {
    (void)state;
    const uint32_t alignments[] = {1, 7, 8, 32, 64, 4096};
    for (uint32_t version = 2; version <= 3; version++)
        for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
            mnem_model *model;
            small_model(version, alignments[i]);
            forge_write(&f, kit_path("small.gguf"));
            assert_int_equal(mnem_model_open(kit_path("small.gguf"), &model), MNEM_OK);
            check_small_model(model, version, alignments[i]);
            mnem_model_close(model);
        }
}

static void finds_keys_and_texts_of_arrays(void **state) {
    (void)state;
    mnem_model *model;
    small_model(3, 32);
    forge_write(&f, kit_path("small.gguf"));
    assert_int_equal(mnem_model_open(kit_path("small.gguf"), &model), MNEM_OK);
    mnem_value value;
    assert_false(mnem_model_key_find(model, "lis", &value));
    assert_false(mnem_model_key_find(model, "list2", &value));
    assert_true(mnem_model_key_find(model, "list", &value));
    assert_int_equal(value.count, 3);
    assert_int_equal(mnem_value_text(&value, 1).length, 0);
    assert_memory_equal(mnem_value_text(&value, 2).bytes, "three", 5);
    assert_int_equal(mnem_value_text(&value, 2).length, 5);
    assert_null(mnem_value_text(&value, 3).bytes);
    mnem_text key;
    assert_true(mnem_model_key_get(model, 1, &key, &value));
    assert_string_equal(key.bytes, "general.alignment");
    assert_int_equal(value.u, 32);
    assert_false(mnem_model_key_get(model, 3, &key, &value));
    mnem_model_close(model);
}

static void reads_only_inside_a_tensor(void **state) {
    (void)state;
    mnem_model *model;
    char byte;
    small_model(3, 32);
    forge_write(&f, kit_path("small.gguf"));
    assert_int_equal(mnem_model_open(kit_path("small.gguf"), &model), MNEM_OK);
    assert_int_equal(mnem_model_tensor_read(model, 0, 36, 0, &byte), MNEM_OK);
    assert_int_equal(mnem_model_tensor_read(model, 0, 36, 1, &byte), MNEM_INVALID);
    assert_int_equal(mnem_model_tensor_read(model, 0, UINT64_MAX, 2, &byte), MNEM_INVALID);
    assert_int_equal(mnem_model_tensor_read(model, 2, 0, 1, &byte), MNEM_INVALID);
    mnem_model_close(model);
}

static void opens_the_fixture(void **state) {
    (void)state;
    mnem_model *model;
    mnem_model_info info;
    assert_int_equal(mnem_model_open(FIXTURE, &model), MNEM_OK);
    mnem_model_info_get(model, &info);
    assert_string_equal(info.architecture, "llama");
    assert_string_equal(info.name, "kjv-5m");
    assert_int_equal(info.tensors, 56);
    assert_int_equal(info.parameters, 5246208);
    mnem_tensor_info t;
    int32_t index = mnem_model_tensor_find(model, "blk.3.ffn_down.weight");
    assert_true(mnem_model_tensor_get(model, (uint32_t)index, &t));
    assert_int_equal(t.type, MNEM_TYPE_Q4_0);
    assert_int_equal(t.shape[0], 256);
    assert_int_equal(t.shape[1], 768);
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++)
        assert_int_equal(mnem_model_tensor_find(model, t.name), i);
    mnem_model_close(model);
}

/* Types that no kernel takes are placed and listed, so that they can be refused by name. */
static void types_known_by_name_are_listed(void **state) {
    (void)state;
    mnem_model *model;
    mnem_tensor_info t;
    forge_head(&f, 3, 1, 0);
    forge_tensor(&f, "x", 2, (uint64_t[]){256, 3}, MNEM_TYPE_IQ1_S, 0);
    forge_pad(&f, 32);
    forge_zeros(&f, 3 * 50);
    forge_write(&f, kit_path("named.gguf"));
    assert_int_equal(mnem_model_open(kit_path("named.gguf"), &model), MNEM_OK);
    assert_true(mnem_model_tensor_get(model, 0, &t));
    assert_int_equal(t.bytes, 3 * 50);
    assert_string_equal(mnem_type_get(t.type)->name, "IQ1_S");
    mnem_model_close(model);
}

/* A header of 150,000 tokens takes its bytes, and 4 more for each token, once. */
static void memory_follows_the_header(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    mnem_model *model;
    mnem_model_info info;
    mnem_heap_usage_get(&before);
    assert_int_equal(mnem_model_open(FIXTURE, &model), MNEM_OK);
    mnem_heap_usage_get(&after);
    mnem_model_info_get(model, &info);
    uint64_t header = info.file_bytes - info.tensor_bytes;
    assert_true(after.bytes_live - before.bytes_live < header + 16 * 1024);
    mnem_model_close(model);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live, before.bytes_live);
}

/* ---- lies ---- */

static const uint64_t SHAPE[8] = {32, 2, 1, 1, 1, 1, 1, 1};

static void one_tensor(const char *name, uint32_t dims, const uint64_t *shape, uint32_t type,
                       uint64_t offset, size_t data) {
    forge_head(&f, 3, 1, 0);
    forge_tensor(&f, name, dims, shape, type, offset);
    forge_pad(&f, 32);
    forge_zeros(&f, data);
}

static void lie_magic(void) {
    small_model(3, 32);
    f.bytes[3] = 'g';
}
static void lie_version_1(void) {
    small_model(1, 32);
}
static void lie_version_4(void) {
    small_model(4, 32);
}
static void lie_big_endian(void) {
    small_model(0x03000000, 32);
}
static void lie_many_tensors(void) {
    forge_head(&f, 3, (uint64_t)1 << 60, 0);
}
static void lie_many_keys(void) {
    forge_head(&f, 3, 0, UINT64_MAX);
}
static void lie_key_name_long(void) {
    forge_head(&f, 3, 0, 1);
    forge_u64(&f, (uint64_t)1 << 40);
    forge_zeros(&f, 64);
}
static void lie_key_name_empty(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_u32(&f, "", 1);
    forge_zeros(&f, 64);
}
static void lie_key_name_zero(void) {
    forge_head(&f, 3, 0, 1);
    forge_u64(&f, 3);
    forge_put(&f, "a\0b", 3);
    forge_u32(&f, MNEM_VALUE_U32);
    forge_u32(&f, 1);
}
static void lie_key_twice(void) {
    forge_head(&f, 3, 0, 3);
    forge_key_u32(&f, "same", 1);
    forge_key_u32(&f, "other", 1);
    forge_key_u32(&f, "same", 2);
}
static void lie_value_type(void) {
    forge_head(&f, 3, 0, 1);
    forge_text(&f, "strange");
    forge_u32(&f, 13);
    forge_zeros(&f, 16);
}
static void lie_bool(void) {
    forge_head(&f, 3, 0, 1);
    forge_text(&f, "flag");
    forge_u32(&f, MNEM_VALUE_BOOL);
    forge_put(&f, "\7", 1);
}
static void lie_text_long(void) {
    forge_head(&f, 3, 0, 1);
    forge_text(&f, "text");
    forge_u32(&f, MNEM_VALUE_STRING);
    forge_u64(&f, UINT64_MAX);
    forge_zeros(&f, 64);
}
static void lie_array_of_arrays(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_array(&f, "nested", MNEM_VALUE_ARRAY, 1);
    forge_zeros(&f, 64);
}
static void lie_array_type(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_array(&f, "list", 77, 1);
    forge_zeros(&f, 64);
}
static void lie_array_huge(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_array(&f, "list", MNEM_VALUE_F64, (uint64_t)1 << 61);
    forge_zeros(&f, 64);
}
static void lie_array_texts_huge(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_array(&f, "list", MNEM_VALUE_STRING, (uint64_t)1 << 62);
    forge_zeros(&f, 64);
}
static void lie_array_text_long(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_array(&f, "list", MNEM_VALUE_STRING, 2);
    forge_text(&f, "fine");
    forge_u64(&f, 1 << 20);
    forge_zeros(&f, 64);
}
static void lie_alignment_zero(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_u32(&f, "general.alignment", 0);
}
static void lie_alignment_type(void) {
    forge_head(&f, 3, 0, 1);
    forge_key_text(&f, "general.alignment", "32");
}
static void lie_dims_zero(void) {
    one_tensor("x", 0, SHAPE, MNEM_TYPE_F32, 0, 256);
}
static void lie_dims_five(void) {
    one_tensor("x", 5, SHAPE, MNEM_TYPE_F32, 0, 256);
}
static void lie_shape_zero(void) {
    one_tensor("x", 2, (uint64_t[]){32, 0}, MNEM_TYPE_F32, 0, 256);
}
static void lie_shape_negative(void) {
    one_tensor("x", 2, (uint64_t[]){32, (uint64_t)-2}, MNEM_TYPE_F32, 0, 256);
}
static void lie_shape_overflow(void) {
    one_tensor("x", 4, (uint64_t[]){1 << 20, 1 << 20, 1 << 20, 1 << 20}, MNEM_TYPE_F32, 0, 256);
}
static void lie_shape_large(void) {
    one_tensor("x", 2, (uint64_t[]){32, 1 << 30}, MNEM_TYPE_F32, 0, 256);
}
static void lie_not_whole_blocks(void) {
    one_tensor("x", 1, (uint64_t[]){33}, MNEM_TYPE_Q4_0, 0, 256);
}
static void lie_tensor_type(void) {
    one_tensor("x", 2, SHAPE, 999, 0, 256);
}
static void lie_tensor_type_ours(void) {
    one_tensor("x", 2, SHAPE, MNEM_TYPE_A8, 0, 256);
}
static void lie_offset_odd(void) {
    one_tensor("blk.3.attn_q.weight", 2, SHAPE, 0, 123, 512);
}
static void lie_offset_outside(void) {
    one_tensor("x", 2, SHAPE, MNEM_TYPE_F32, 1 << 20, 256);
}
static void lie_offset_overflow(void) {
    one_tensor("x", 2, SHAPE, MNEM_TYPE_F32, (uint64_t)-32, 256);
}
static void lie_data_short(void) {
    one_tensor("x", 2, SHAPE, MNEM_TYPE_F32, 0, 255);
}
static void lie_tensor_name_empty(void) {
    one_tensor("", 2, SHAPE, MNEM_TYPE_F32, 0, 256);
}
static void two_tensors(const char *second, uint64_t offset) {
    forge_head(&f, 3, 2, 0);
    forge_tensor(&f, "first", 2, SHAPE, MNEM_TYPE_F32, 0);
    forge_tensor(&f, second, 2, SHAPE, MNEM_TYPE_F32, offset);
    forge_pad(&f, 32);
    forge_zeros(&f, 512);
}
static void lie_overlap(void) {
    two_tensors("second", 224);
}
static void lie_tensor_twice(void) {
    two_tensors("first", 256);
}
static void lie_split_name(void) {
    forge_head(&f, 3, 0, 2);
    forge_key_u32(&f, "split.no", 0);
    forge_key_u32(&f, "split.count", 3);
}

static const struct lie {
    const char *name;
    void (*make)(void);
    mnem_status status;
    const char *text[3]; /* what the error says */
} lies[] = {
    {"magic", lie_magic, MNEM_BAD_FILE, {"isn't a GGUF file"}},
    {"version is 1", lie_version_1, MNEM_UNSUPPORTED, {"version is 1"}},
    {"version 4", lie_version_4, MNEM_UNSUPPORTED, {"version is 4"}},
    {"big endian", lie_big_endian, MNEM_UNSUPPORTED, {"big-endian"}},
    {"many tensors", lie_many_tensors, MNEM_BAD_FILE, {"1152921504606846976 tensors"}},
    {"many keys", lie_many_keys, MNEM_BAD_FILE, {"18446744073709551615 keys"}},
    {"long key", lie_key_name_long, MNEM_BAD_FILE, {"1099511627776 bytes"}},
    {"empty key", lie_key_name_empty, MNEM_BAD_FILE, {"name is empty"}},
    {"zero in key", lie_key_name_zero, MNEM_BAD_FILE, {"key a?b", "zero byte"}},
    {"key twice", lie_key_twice, MNEM_BAD_FILE, {"key same", "twice"}},
    {"value type", lie_value_type, MNEM_BAD_FILE, {"key strange", "type 13"}},
    {"bool", lie_bool, MNEM_BAD_FILE, {"key flag", "7", "0 or 1"}},
    {"long text", lie_text_long, MNEM_BAD_FILE, {"key text", "18446744073709551615"}},
    {"nested array", lie_array_of_arrays, MNEM_UNSUPPORTED, {"key nested", "contains arrays"}},
    {"array type", lie_array_type, MNEM_BAD_FILE, {"key list", "type 77"}},
    {"huge array", lie_array_huge, MNEM_BAD_FILE, {"key list", "2305843009213693952 elements"}},
    {"huge texts", lie_array_texts_huge, MNEM_BAD_FILE, {"key list", "4611686018427387904"}},
    {"long text in array", lie_array_text_long, MNEM_BAD_FILE, {"key list", "text 1 of 2"}},
    {"alignment 0", lie_alignment_zero, MNEM_BAD_FILE, {"general.alignment", "is 0"}},
    {"alignment text", lie_alignment_type, MNEM_BAD_FILE, {"general.alignment", "of type text"}},
    {"0 dims", lie_dims_zero, MNEM_BAD_FILE, {"tensor x", "0 dimensions", "1 to 4"}},
    {"5 dims", lie_dims_five, MNEM_BAD_FILE, {"tensor x", "5 dimensions", "1 to 4"}},
    {"zero shape", lie_shape_zero, MNEM_BAD_FILE, {"tensor x", "dimension 1 is 0"}},
    {"negative shape", lie_shape_negative, MNEM_BAD_FILE, {"tensor x", "dimension 1 is -2"}},
    {"overflow", lie_shape_overflow, MNEM_BAD_FILE, {"tensor x", "dimension 2 is 1048576"}},
    {"large shape", lie_shape_large, MNEM_BAD_FILE, {"tensor x", "1073741824 rows"}},
    {"blocks", lie_not_whole_blocks, MNEM_BAD_FILE, {"tensor x", "33", "multiple of 32"}},
    {"type 999", lie_tensor_type, MNEM_UNSUPPORTED, {"tensor x", "type 999"}},
    {"type of ours", lie_tensor_type_ours, MNEM_UNSUPPORTED, {"tensor x", "type 1000"}},
    {"odd offset",
     lie_offset_odd,
     MNEM_BAD_FILE,
     {"tensor blk.3.attn_q.weight: offset 123 isn't a multiple of 32"}},
    {"offset outside", lie_offset_outside, MNEM_BAD_FILE, {"tensor x", "ends at byte"}},
    {"offset overflow", lie_offset_overflow, MNEM_BAD_FILE, {"tensor x"}},
    {"short data", lie_data_short, MNEM_BAD_FILE, {"tensor x", "256 bytes"}},
    {"empty tensor name", lie_tensor_name_empty, MNEM_BAD_FILE, {"name is empty"}},
    {"overlap", lie_overlap, MNEM_BAD_FILE, {"tensor second", "tensor first ends"}},
    {"tensor twice", lie_tensor_twice, MNEM_BAD_FILE, {"tensor first", "twice"}},
    {"split name", lie_split_name, MNEM_BAD_FILE, {"split.count", "-00001-of-00003.gguf"}},
};

static void every_lie_is_named(void **state) {
    (void)state;
    const char *path = kit_path("lie.gguf");
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        mnem_model *model = (mnem_model *)1;
        lies[i].make();
        forge_write(&f, path);
        mnem_status status = mnem_model_open(path, &model);
        if (status != lies[i].status)
            fail_msg("%s: %s: %s", lies[i].name, mnem_status_text(status), mnem_last_error());
        assert_null(model);
        assert_non_null(strstr(mnem_last_error(), path));
        for (int t = 0; t < 3 && lies[i].text[t]; t++)
            if (!strstr(mnem_last_error(), lies[i].text[t]))
                fail_msg("%s: \"%s\" isn't in: %s", lies[i].name, lies[i].text[t],
                         mnem_last_error());
    }
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    mnem_model *model;
    assert_int_equal(mnem_model_open(kit_path("none.gguf"), &model), MNEM_IO);
    assert_non_null(strstr(mnem_last_error(), "none.gguf"));
    assert_int_equal(mnem_model_open("/tmp", &model), MNEM_BAD_FILE);
    assert_int_equal(mnem_model_open("/dev/zero", &model), MNEM_BAD_FILE);
    f.n = 0;
    forge_write(&f, kit_path("empty.gguf"));
    assert_int_equal(mnem_model_open(kit_path("empty.gguf"), &model), MNEM_BAD_FILE);
}

static void every_shorter_file_is_refused(void **state) {
    (void)state;
    const char *path = kit_path("short.gguf");
    small_model(3, 32);
    size_t whole = f.n;
    for (size_t n = 0; n < whole; n++) {
        mnem_model *model;
        f.n = n;
        forge_write(&f, path);
        assert_int_equal(mnem_model_open(path, &model), MNEM_BAD_FILE);
    }
}

static void flipped_bits_never_crash(void **state) {
    (void)state;
    const char *path = kit_path("flip.gguf");
    uint64_t random = 12345; /* the seed */
    for (int round = 0; round < 2000; round++) {
        small_model(3, 32);
        for (int i = 0; i < 1 + round % 4; i++) {
            random = random * 6364136223846793005 + 1442695040888963407;
            f.bytes[(random >> 33) % f.n] ^= (uint8_t)(1 << (random >> 60 & 7));
        }
        forge_write(&f, path);
        mnem_model *model;
        mnem_transformer t;
        mnem_tensor_info info;
        if (mnem_model_open(path, &model) != MNEM_OK) continue;
        assert_int_not_equal(mnem_model_transformer(model, &t), MNEM_OK);
        for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++) {
            uint8_t byte;
            assert_int_equal(mnem_model_tensor_read(model, i, info.bytes - 1, 1, &byte), MNEM_OK);
        }
        mnem_model_close(model);
    }
}

/* ---- memory ---- */

static void without_memory_opening_fails_and_leaves_nothing(void **state) {
    (void)state;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    int tries = 0;
    for (; status != MNEM_OK && tries < 100; tries++) {
        mnem_model *model;
        mnem__heap_fail_at((uint64_t)tries + 1, true);
        status = mnem_model_open(FIXTURE, &model);
        mnem__heap_fail_at(0, false);
        if (status == MNEM_OK)
            mnem_model_close(model);
        else
            assert_int_equal(status, MNEM_NO_MEMORY);
        mnem_heap_usage_get(&after);
        assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_true(tries > 1 && tries < 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_both_versions_and_any_alignment),
        cmocka_unit_test(finds_keys_and_texts_of_arrays),
        cmocka_unit_test(reads_only_inside_a_tensor),
        cmocka_unit_test(opens_the_fixture),
        cmocka_unit_test(types_known_by_name_are_listed),
        cmocka_unit_test(memory_follows_the_header),
        cmocka_unit_test(every_lie_is_named),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(flipped_bits_never_crash),
        cmocka_unit_test(without_memory_opening_fails_and_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
