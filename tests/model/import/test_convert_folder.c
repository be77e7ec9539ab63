/* test_convert_folder.c: converted folders are what llama.cpp's converter makes of them: keys,
 * names, order, types, shapes and the CRC-32 of every tensor, as stored beside them by
 * tests/data/folders/make_folders.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/tokenizer.h"
#include "model/import/import_case.h"

enum { TEXT = 64 * 1024, LINES = 256 };

static uint32_t crc32_of(uint32_t crc, const void *bytes, size_t n) {
    const uint8_t *at = bytes;
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    }
    return ~crc;
}

/* ---- a file as lines ---- */

static int array_line(const mnem_value *v, char *out, size_t n) {
    static const int widths[MNEM_VALUE_TYPES] = {
        [MNEM_VALUE_I32] = 4, [MNEM_VALUE_U32] = 4, [MNEM_VALUE_F32] = 4, [MNEM_VALUE_BOOL] = 1};
    uint32_t crc = 0;
    if (v->element != MNEM_VALUE_STRING)
        crc = crc32_of(0, v->elements, v->count * (size_t)widths[v->element]);
    for (uint64_t i = 0; v->element == MNEM_VALUE_STRING && i < v->count; i++) {
        const mnem_text text = mnem_value_text(v, i);
        crc = crc32_of(crc, text.bytes, text.length);
        crc = crc32_of(crc, "\n", 1);
    }
    return snprintf(out, n, "%d elements %08x", (int)v->count, crc);
}

static void key_line(const char *key, const mnem_value *v, char *out, size_t n) {
    int at = snprintf(out, n, "%s: ", key);
    out += at;
    n -= (size_t)at;
    switch (v->type) {
    case MNEM_VALUE_ARRAY: array_line(v, out, n); break;
    case MNEM_VALUE_STRING:
        if (v->text.length < 60 && !memchr(v->text.bytes, '\n', v->text.length))
            snprintf(out, n, "%s", v->text.bytes);
        else
            snprintf(out, n, "text %08x", crc32_of(0, v->text.bytes, v->text.length));
        break;
    case MNEM_VALUE_BOOL: snprintf(out, n, "%s", v->u ? "true" : "false"); break;
    case MNEM_VALUE_F32: snprintf(out, n, "%.9g", v->f); break;
    default: snprintf(out, n, "%lld", (long long)v->i);
    }
}

static int by_text(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Scores aren't llama.cpp's where tokenizer.json stands alone, a size where a name has one. */
static bool is_left_out(const char *key) {
    return strcmp(key, "tokenizer.ggml.scores") == 0 || strcmp(key, "general.size_label") == 0;
}

static void add_keys(const mnem_model *model, char *out) {
    static char lines[LINES][256];
    mnem_text key;
    mnem_value value;
    int n = 0;
    for (uint32_t i = 0; mnem_model_key_get(model, i, &key, &value); i++)
        if (!is_left_out(key.bytes)) key_line(key.bytes, &value, lines[n++], sizeof lines[0]);
    qsort(lines, (size_t)n, sizeof lines[0], by_text);
    for (int i = 0; i < n; i++) out += sprintf(out, "%s\n", lines[i]);
}

static void add_tensors(const mnem_model *model, char *out) {
    mnem_tensor_info t;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        uint8_t *bytes = malloc(t.bytes);
        must(mnem_model_tensor_read(model, i, 0, t.bytes, bytes));
        out += sprintf(out, "%s %s [", t.name, mnem_type_get(t.type)->name);
        for (int d = 0; d < t.dims; d++)
            out += sprintf(out, "%s%d", d ? ", " : "", (int)t.shape[d]);
        out += sprintf(out, "] %08x\n", crc32_of(0, bytes, t.bytes));
        free(bytes);
    }
}

static const char *describe(const char *file, bool keys) {
    static char text[TEXT];
    mnem_model *model;
    *text = 0;
    must(mnem_model_open(file, &model));
    if (keys) add_keys(model, text);
    add_tensors(model, text + strlen(text));
    mnem_model_close(model);
    return text;
}

/* ---- the cases ---- */

static const char *converted(const char *folder, const char *type, int threads) {
    const mnem_convert_options options = {.type = type, .threads = threads};
    const char *out = kit_path("out.gguf");
    must(mnem_convert_folder(folder, out, &options));
    return out;
}

static void a_folder_becomes_the_file(const char *name) {
    static const char *const types[] = {"F32", "F16", "BF16", "Q8_0"};
    char folder[512], path[600];
    snprintf(folder, sizeof folder, MNEM_TEST_DATA "/folders/%s", name);
    snprintf(path, sizeof path, "%s/expected.txt", folder);
    char *expected = read_file(path, NULL), *at = expected;
    for (int i = 0; i < 4; i++) {
        char head[32];
        at += snprintf(head, sizeof head, "== %s\n", types[i]);
        char *end = strstr(at, "== ");
        if (end) *end = 0;
        assert_string_equal(describe(converted(folder, types[i], 1 + i % 2), i == 0), at);
        if (end) *end = '=';
        at = end;
    }
    free(expected);
}

static void rows_of_heads_and_factors(void **state) {
    (void)state;
    a_folder_becomes_the_file("llama_3");
}

static void tokenizer_json_of_pieces(void **state) {
    (void)state;
    a_folder_becomes_the_file("llama_pieces");
}

static void norms_from_1_and_tokenizer_model(void **state) {
    (void)state;
    a_folder_becomes_the_file("gemma3");
}

static void transposed_matrices(void **state) {
    (void)state;
    a_folder_becomes_the_file("gpt2");
}

static void two_lists_of_factors(void **state) {
    (void)state;
    a_folder_becomes_the_file("phi3_long");
}

static void experts_one_by_one(void **state) {
    (void)state;
    a_folder_becomes_the_file("qwen3moe");
}

static void experts_as_codes_and_scales(void **state) {
    (void)state;
    a_folder_becomes_the_file("gpt_oss_mxfp4");
}

static void what_heads_make_of_a_latent(void **state) {
    (void)state;
    a_folder_becomes_the_file("deepseek2"); /* whose words are those of deepseek-llm */
    a_folder_becomes_the_file("deepseek3");
}

static void decays_and_groups_of_a_scan(void **state) {
    (void)state;
    a_folder_becomes_the_file("mamba2");
}

static void value_heads_tiled_over_groups(void **state) {
    (void)state;
    a_folder_becomes_the_file("qwen35moe");
}

static void parts_of_each_group(void **state) {
    (void)state;
    a_folder_becomes_the_file("qwen3next");
}

static void heads_by_kind_and_merged_pieces(void **state) {
    (void)state;
    a_folder_becomes_the_file("gemma4_rows");
    a_folder_becomes_the_file("gemma3n");
}

static void layers_of_two_kinds(void **state) {
    (void)state;
    a_folder_becomes_the_file("granitehybrid");
}

static void factors_in_the_weights(void **state) {
    (void)state;
    a_folder_becomes_the_file("falcon_h1");
}

static void layers_of_one_part_and_experts_without_gates(void **state) {
    (void)state;
    a_folder_becomes_the_file("nemotron_h_latent");
}

static void another_text_in_a_folder_of_the_same_class(void **state) {
    (void)state;
    a_folder_becomes_the_file("mistral4");
}

static void an_encoder_and_its_words(void **state) {
    (void)state;
    a_folder_becomes_the_file("bert");
}

/* What opens is what is written, so quantizing the folder is converting it. */
static void quantizing_a_folder_is_converting_it(void **state) {
    (void)state;
    const char *other = kit_path("other.gguf");
    must(mnem_quantize_file(STORED("llama_3"), other,
                            &(mnem_quantize_options){.type = "Q4_0", .threads = 1}));
    assert_same_files(converted(STORED("llama_3"), "Q4_0", 1), other);
}

static void the_usual_type_is_the_folders(void **state) {
    (void)state;
    mnem_value value;
    mnem_model *model;
    must(mnem_model_open(converted(STORED("llama_3"), NULL, 1), &model));
    assert_true(mnem_model_key_find(model, "general.file_type", &value) && value.u == 32);
    mnem_model_close(model);
    must(mnem_model_open(converted(STORED("llama_pieces"), NULL, 1), &model));
    assert_true(mnem_model_key_find(model, "general.file_type", &value) && value.u == 1);
    mnem_model_close(model);
}

/* Of merges the first that makes a token counts: the ids are those of transformers. */
static void pieces_without_a_model_are_cut_as_with_it(void **state) {
    (void)state;
    static const char text[] = "In the beginning God created the heaven and the earth.";
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    const int32_t *ids;
    size_t n = 0;
    char got[512] = "", *at = got;
    must(mnem_model_open(STORED("llama_pieces"), &model));
    must(mnem_tokenizer_create(model, &tokenizer));
    must(mnem_tokenizer_encode(tokenizer, text, sizeof text - 1, MNEM_ENCODE_PLAIN, &ids, &n));
    for (size_t i = 0; i < n; i++) at += sprintf(at, "%d ", ids[i]);
    assert_string_equal(got,
                        "1 271 300 277 263 271 291 272 290 270 277 270 290 271 299 276 281 271 288 "
                        "269 275 273 272 281 263 266 272 275 292 272 277 262 264 263 271 272 275 "
                        "280 260 294 ");
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
}

static bool stop(void *context, const char *what, uint64_t done, uint64_t total) {
    (void)context;
    (void)total;
    assert_string_equal(what, "converting");
    return done == 0;
}

static void stopping_leaves_no_file(void **state) {
    (void)state;
    const char *out = kit_path("stopped.gguf");
    const mnem_convert_options options = {.progress = {stop, NULL}, .threads = 1};
    assert_int_equal(mnem_convert_folder(STORED("gpt2"), out, &options), MNEM_CANCELLED);
    assert_int_equal(access(out, F_OK), -1);
    assert_int_equal(access(kit_path("stopped.gguf.mnem-tmp"), F_OK), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_heads_and_factors),
        cmocka_unit_test(tokenizer_json_of_pieces),
        cmocka_unit_test(norms_from_1_and_tokenizer_model),
        cmocka_unit_test(transposed_matrices),
        cmocka_unit_test(two_lists_of_factors),
        cmocka_unit_test(experts_one_by_one),
        cmocka_unit_test(experts_as_codes_and_scales),
        cmocka_unit_test(what_heads_make_of_a_latent),
        cmocka_unit_test(decays_and_groups_of_a_scan),
        cmocka_unit_test(value_heads_tiled_over_groups),
        cmocka_unit_test(parts_of_each_group),
        cmocka_unit_test(layers_of_two_kinds),
        cmocka_unit_test(factors_in_the_weights),
        cmocka_unit_test(heads_by_kind_and_merged_pieces),
        cmocka_unit_test(layers_of_one_part_and_experts_without_gates),
        cmocka_unit_test(another_text_in_a_folder_of_the_same_class),
        cmocka_unit_test(an_encoder_and_its_words),
        cmocka_unit_test(quantizing_a_folder_is_converting_it),
        cmocka_unit_test(the_usual_type_is_the_folders),
        cmocka_unit_test(pieces_without_a_model_are_cut_as_with_it),
        cmocka_unit_test(stopping_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
