/* test_import.c: folders as models: what lies is refused by its name, and what opens gives the same
 * bytes whatever part of a tensor is asked for. Each case is a copy of a stored folder with one
 * thing changed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "mnem/tokenizer.h"
#include "model/import/import_case.h"

static void a_folder_opens_as_a_model(void **state) {
    (void)state;
    mnem_model *model;
    mnem_model_info info;
    mnem_transformer t;
    must(mnem_model_open(STORED("llama_3"), &model));
    mnem_model_info_get(model, &info);
    assert_string_equal(info.architecture, "llama");
    assert_string_equal(info.name, "Llama_3");
    assert_int_equal(info.version, 0);
    assert_int_equal(info.files, 3);
    must(mnem_model_transformer(model, &t));
    assert_int_equal(t.layers, 2);
    assert_true(t.tied && t.rope_factors >= 0);
    mnem_model_close(model);
}

static void read_in_parts(const mnem_model *model, uint32_t index, const mnem_tensor_info *info) {
    uint8_t *whole = malloc(info->bytes), part[600];
    must(mnem_model_tensor_read(model, index, 0, info->bytes, whole));
    for (uint64_t at = 0; at < info->bytes; at += 97) {
        const uint64_t left = info->bytes - at, n = at % 600 < left ? at % 600 : left;
        must(mnem_model_tensor_read(model, index, at, n, part));
        if (memcmp(part, whole + at, n) != 0) fail_msg("%s at %d", info->name, (int)at);
    }
    free(whole);
}

/* Transposed, turned, widened, made, padded, in series: every offset and length gives a part of the
 * whole. */
static void parts_of_a_tensor_are_parts_of_the_whole(void **state) {
    (void)state;
    static const char *const folders[] = {STORED("gpt2"), STORED("llama_3"), STORED("gemma3"),
                                          STORED("gemma3n")};
    for (int f = 0; f < 4; f++) {
        mnem_model *model;
        mnem_tensor_info info;
        must(mnem_model_open(folders[f], &model));
        for (uint32_t i = 0; mnem_model_tensor_get(model, i, &info); i++)
            read_in_parts(model, i, &info);
        mnem_model_close(model);
    }
}

/* ---- config.json ---- */

static void config_is_refused_by_member(void **state) {
    (void)state;
    const char *f = copy_folder(STORED("llama_3"), "config");
    edit_file(f, "config.json", "LlamaForCausalLM", "RwkvForCausalLM");
    refuses(f, MNEM_UNSUPPORTED, "config.json", "RwkvForCausalLM", "docs/supports.md", NULL);
    f = copy_folder(STORED("llama_3"), "config");
    edit_file(f, "config.json", "\"hidden_size\": 32", "\"hidden_size\": -1");
    refuses(f, MNEM_BAD_FILE, "config.json", "hidden_size", "-1", NULL);
    f = copy_folder(STORED("llama_3"), "config");
    edit_file(f, "config.json", "\"vocab_size\": 320", "\"vocab_size\": 321");
    refuses(f, MNEM_BAD_FILE, "config.json", "vocab_size", "321", "rows", NULL);
    f = copy_folder(STORED("llama_3"), "config");
    edit_file(f, "config.json", "\"llama3\"", "\"dynamic\"");
    refuses(f, MNEM_UNSUPPORTED, "rope_type", "dynamic", NULL);
    f = copy_folder(STORED("llama_3"), "config");
    edit_file(f, "config.json", "\"factor\": 8.0", "\"factor\": 0");
    refuses(f, MNEM_BAD_FILE, "config.json", "llama3", "factor 0", NULL);
    f = copy_folder(STORED("llama_3"), "config");
    edit_file(f, "config.json", "\"silu\"", "\"relu\"");
    refuses(f, MNEM_UNSUPPORTED, "hidden_act", "relu", "silu", NULL);
    f = copy_folder(STORED("llama_3"), "config");
    edit_file(f, "config.json", "{", "{\"quantization_config\": {\"quant_method\": \"gptq\"},");
    refuses(f, MNEM_UNSUPPORTED, "quantization_config", "gptq", "--type", NULL);
    put_file(f, "config.json", NULL);
    refuses(f, MNEM_BAD_FILE, "config.json", "folder", NULL);
    put_file(f, "config.json", "");
    refuses(f, MNEM_BAD_FILE, "config.json: is empty", NULL);
    put_file(f, "config.json", "{\"architectures\": [");
    refuses(f, MNEM_BAD_FILE, "config.json", "byte", NULL);
}

/* Gemma2Config and Gemma3TextConfig: scaling = query_pre_attn_scalar ** -0.5, by default 256. */
static void scores_are_scaled_by_their_own_scalar(void **state) {
    (void)state;
#define SCALAR "\"query_pre_attn_scalar\": 256"
    static const struct {
        const char *scalar;
        float scale;
    } cases[] = {{SCALAR, 0.0625f},
                 {"\"query_pre_attn_scalar\": 64", 0.125f},
                 {"\"query_pre_attn_scalar\": 6.25", 0.4f},
                 {"\"none\": 64", 0.0625f}};
    const char *f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mnem_model *model;
        mnem_transformer t;
        f = copy_folder(STORED("gemma3"), "scalar");
        edit_file(f, "config.json", SCALAR, cases[i].scalar);
        must(mnem_model_open(f, &model));
        must(mnem_model_transformer(model, &t));
        assert_float_equal(t.attention_scale, cases[i].scale, 1e-7);
        mnem_model_close(model);
    }
    static const char *const wrong[] = {"0", "-4", "\"64\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char scalar[64];
        snprintf(scalar, sizeof scalar, "\"query_pre_attn_scalar\": %s", wrong[i]);
        f = copy_folder(STORED("gemma3"), "scalar");
        edit_file(f, "config.json", SCALAR, scalar);
        refuses(f, MNEM_BAD_FILE, "config.json", "query_pre_attn_scalar", NULL);
    }
#undef SCALAR
}

/* ---- safetensors ---- */

static void put_weights(const char *folder, const char *header, size_t data) {
    char path[512], *bytes = calloc(1, 8 + strlen(header) + data);
    const uint64_t n = strlen(header);
    memcpy(bytes, &n, 8);
    memcpy(bytes + 8, header, n);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    write_file(path, bytes, 8 + n + data);
    free(bytes);
}

static void headers_that_lie_are_refused(void **state) {
    (void)state;
#define TENSOR(name, type, shape, range)                                                           \
    "\"" name "\": {\"dtype\": \"" type "\", \"shape\": " shape ", \"data_offsets\": " range "}"
    static const struct {
        const char *header, *word;
    } cases[] = {
        {"{" TENSOR("a", "F32", "[2]", "[0, 8]"), "expected ','"},
        {"[]", "object"},
        {"{" TENSOR("a", "F32", "[2]", "[0, 80]") "}", "cut off"},
        {"{" TENSOR("a", "F32", "[2]", "[8, 0]") "}", "cut off"},
        {"{" TENSOR("a", "F32", "[3]", "[0, 8]") "}", "don't match"},
        {"{" TENSOR("a", "F32", "[4611686018427387904, 4]", "[0, 8]") "}", "don't match"},
        {"{" TENSOR("a", "F32", "[2, 1, 1, 1, 1, 1, 1, 1, 1]", "[0, 8]") "}", "8 dimensions"},
        {"{" TENSOR("a", "F32", "[-2]", "[0, 8]") "}", "integers of at least 0"},
        {"{\"a\": {\"dtype\": \"F32\"}}", "missing"},
        {"{" TENSOR("a", "F32", "[2]", "[0, 8]") "," TENSOR("b", "F32", "[2]", "[4, 12]") "}",
         "overlaps"},
        {"{" TENSOR("a", "F32", "[2]", "[0, 8]") "," TENSOR("a", "F32", "[2]", "[8, 16]") "}",
         "twice"},
        {"{" TENSOR("a", "F32", "[2]", "[0, 8]") "}", "the most rows of a matrix"},
    };
    const char *f = copy_folder(STORED("llama_pieces"), "weights");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_weights(f, cases[i].header, 32);
        mnem_model *model;
        const mnem_status status = mnem_model_open(f, &model);
        assert_true(status == MNEM_BAD_FILE || status == MNEM_UNSUPPORTED);
        if (!strstr(mnem_last_error(), cases[i].word))
            fail_msg("%s: %s", cases[i].header, mnem_last_error());
    }
    put_file(f, "model.safetensors", "12345678");
    refuses(f, MNEM_BAD_FILE, "model.safetensors", "header", NULL);
}

static void tensors_that_nothing_takes_are_named(void **state) {
    (void)state;
#define ROWS TENSOR("model.embed_tokens.weight", "F16", "[320, 1]", "[0, 640]")
    const char *f = copy_folder(STORED("llama_pieces"), "names");
    put_weights(f, "{" ROWS ", " TENSOR("model.nothing", "F16", "[2]", "[640, 644]") "}", 700);
    refuses(f, MNEM_UNSUPPORTED, "model.safetensors", "model.nothing",
            "doesn't know a tensor of this name", NULL);
    put_weights(f, "{" ROWS ", " TENSOR("model.norm.weight", "F8_E4M3", "[2]", "[640, 642]") "}",
                700);
    refuses(f, MNEM_UNSUPPORTED, "model.norm.weight", "data type F8_E4M3", "get the original model",
            NULL);
    put_weights(
        f, "{" ROWS ", " TENSOR("model.norm.weight", "F16", "[1,1,1,1,2]", "[640, 644]") "}", 700);
    refuses(f, MNEM_UNSUPPORTED, "model.norm.weight", "4 dimensions", NULL);
}

static void pickled_weights_are_refused_with_the_way_out(void **state) {
    (void)state;
    const char *f = copy_folder(STORED("llama_pieces"), "pickled");
    put_file(f, "model.safetensors", NULL);
    refuses(f, MNEM_BAD_FILE, "model*.safetensors", NULL);
    put_file(f, "pytorch_model.bin", "x");
    refuses(f, MNEM_UNSUPPORTED, "pickled", "can run code", "transformers", NULL);
}

static void an_index_names_files_of_the_folder_only(void **state) {
    (void)state;
    const char *f = copy_folder(STORED("llama_3"), "index");
    put_file(f, "model-00002-of-00003.safetensors", NULL);
    refuses(f, MNEM_IO, "model-00002-of-00003.safetensors", NULL);
    f = copy_folder(STORED("llama_3"), "index");
    put_file(f, "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../a.safetensors\"}}");
    refuses(f, MNEM_BAD_FILE, "../a.safetensors", NULL);
    f = copy_folder(STORED("llama_3"), "index");
    edit_file(f, "model.safetensors.index.json", "model.norm.weight", "model.other.weight");
    refuses(f, MNEM_BAD_FILE, "model.other.weight", "index", NULL);
    put_file(f, "model.safetensors.index.json", "{}");
    refuses(f, MNEM_BAD_FILE, "weight_map", NULL);
}

/* ---- experts ---- */

/* Two experts of one layer, each with three matrices [1, 2] of BF16: the numbers are the order in
 * the file. */
static const char *experts_folder(const char *numbers) {
    char header[2048];
    uint64_t at = 640;
    int n = sprintf(header, "{" ROWS);
    const char *f = copy_folder(STORED("llama_3"), "experts");
    put_file(f, "config.json",
             "{\"architectures\": [\"OlmoeForCausalLM\"], \"num_experts\": 2, \"hidden_size\": 2,"
             " \"num_experts_per_tok\": 1, \"intermediate_size\": 1, \"num_hidden_layers\": 1,"
             " \"num_attention_heads\": 1, \"max_position_embeddings\": 8}");
    put_file(f, "model.safetensors.index.json", NULL);
    for (int i = 1; i <= 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-0000%d-of-00003.safetensors", i);
        put_file(f, name, NULL);
    }
    for (; *numbers; numbers++) {
        static const char *const names[] = {"gate", "up", "down"};
        for (int i = 0; i < 3; i++, at += 4)
            n +=
                sprintf(header + n,
                        ", \"model.layers.0.mlp.experts.%c.%s_proj.weight\": {\"dtype\": \"BF16\", "
                        "\"shape\": [1, 2], \"data_offsets\": [%d, %d]}",
                        *numbers, names[i], (int)at, (int)at + 4);
    }
    sprintf(header + n, "}");
    put_weights(f, header, 640 + 4 * 6);
    return f;
}

static void experts_are_stacked_by_their_numbers(void **state) {
    (void)state;
    const char *f = experts_folder("10"); /* the second one stands first */
    char path[512];
    size_t n;
    snprintf(path, sizeof path, "%s/model.safetensors", f);
    char *file = read_file(path, &n);
    for (int i = 0; i < 24; i++) file[n - 24 + (size_t)i] = (char)i;
    write_file(path, file, n);
    free(file);
    mnem_model *model;
    mnem_tensor_info info;
    must(mnem_model_open(f, &model));
    const int32_t up = mnem_model_tensor_find(model, "blk.0.ffn_up_exps.weight");
    assert_true(up >= 0 && mnem_model_tensor_get(model, (uint32_t)up, &info));
    assert_true(info.dims == 3 && info.shape[0] == 2 && info.shape[1] == 1 && info.shape[2] == 2);
    uint8_t got[8];
    static const uint8_t expected[8] = {16, 17, 18, 19, 4, 5, 6, 7};
    must(mnem_model_tensor_read(model, (uint32_t)up, 0, 8, got));
    assert_memory_equal(got, expected, 8);
    mnem_model_close(model);
}

static void a_missing_expert_is_noticed(void **state) {
    (void)state;
    refuses(experts_folder("0"), MNEM_BAD_FILE, "layer 0", "3 of 6", NULL);
    refuses(experts_folder("02"), MNEM_BAD_FILE, "experts.2.",
            "is of expert 2, but config.json has only 2 experts", NULL);
}

/* Tokens of images and sounds have rows of zeros, behind those that the file has. */
static void rows_that_a_table_lacks_are_zeros(void **state) {
    (void)state;
    enum { STORED_ROWS = 304, ALL = 320, ROW = 4 * 16 * 2 };
    static const uint8_t zeros[(ALL - STORED_ROWS) * ROW];
    static uint8_t got[ALL * ROW];
    mnem_model *model;
    mnem_tensor_info info;
    must(mnem_model_open(STORED("gemma3n"), &model));
    const int32_t table = mnem_model_tensor_find(model, "per_layer_token_embd.weight");
    assert_true(table >= 0 && mnem_model_tensor_get(model, (uint32_t)table, &info));
    assert_int_equal(info.shape[0], ALL);
    assert_int_equal(info.bytes, sizeof got);
    must(mnem_model_tensor_read(model, (uint32_t)table, 0, sizeof got, got));
    assert_memory_equal(got + STORED_ROWS * ROW, zeros, sizeof zeros);
    assert_true(memcmp(got + (STORED_ROWS - 1) * ROW, zeros, ROW) != 0);
    mnem_model_close(model);
}

/* In the weights' header, whose length before it may have bytes that are 0, a text behind a name
 * becomes another of the same length. */
static void edit_header(const char *folder, const char *name, const char *old, const char *new) {
    char path[512];
    size_t n;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    char *bytes = read_file(path, &n), *at = strstr(bytes + 8, name);
    at = at ? strstr(at, old) : NULL;
    assert_non_null(at);
    memcpy(at, new, strlen(new));
    write_file(path, bytes, n);
    free(bytes);
}

static void a_series_of_other_matrices_is_refused(void **state) {
    (void)state;
    const char *f = copy_folder(STORED("gemma3n"), "series");
    edit_header(f, "model.altup_projections.2", "altup_projections.2", "altup_projections.1");
    refuses(f, MNEM_BAD_FILE, "altup_projections", NULL);
    f = copy_folder(STORED("gemma3n"), "series");
    edit_header(f, "altup_unembed_projections.2", "[32,32]", "[16,64]");
    refuses(f, MNEM_BAD_FILE, "altup_unembed_projections.0", "tensors 1 and 2", NULL);
}

/* ---- tokenizers ---- */

static mnem_status convert(const char *folder, const char *pre) {
    const mnem_convert_options options = {.pretokenizer = pre, .threads = 1};
    return mnem_convert_folder(folder, kit_path("out.gguf"), &options);
}

static void an_unknown_pre_tokenizer_is_refused_and_may_be_named(void **state) {
    (void)state;
    const char *f = copy_folder(STORED("llama_3"), "pre");
    edit_file(f, "tokenizer.json", "{1,3}", "{1,9}");
    assert_int_equal(convert(f, NULL), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "--pretokenizer NAME"));
    assert_non_null(strstr(mnem_last_error(), "{1,9}"));
    must(convert(f, "llama-bpe"));
    mnem_model *model; /* it opens, and only its tokenizer is refused */
    mnem_tokenizer *tokenizer;
    must(mnem_model_open(f, &model));
    assert_int_equal(mnem_tokenizer_create(model, &tokenizer), MNEM_UNSUPPORTED);
    mnem_model_close(model);
}

static void other_tokenizers_are_refused_by_name(void **state) {
    (void)state;
    const char *f = copy_folder(STORED("llama_3"), "tokens");
    put_file(f, "tokenizer.json", "{\"model\": {\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}}");
    assert_int_equal(convert(f, NULL), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "WordLevel"));
    put_file(f, "tokenizer.json", NULL);
    assert_int_equal(convert(f, NULL), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "neither tokenizer.json nor tokenizer.model"));
    put_file(f, "hy.tiktoken", "IQ== 0\n");
    assert_int_equal(convert(f, NULL), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "a file of tiktoken (hy.tiktoken)"));
    assert_non_null(strstr(mnem_last_error(), "convert_hf_to_gguf.py"));
    put_file(f, "hy.tiktoken", NULL);
    put_file(f, "tokenizer.json", "{\"model\": {\"vocab\": {\"a\": 16777216}, \"merges\": []}}");
    assert_int_equal(convert(f, NULL), MNEM_BAD_FILE);
    put_file(f, "tokenizer.json", "{\"model\": {\"vocab\": {\"a\": 900}, \"merges\": []}}");
    assert_int_equal(convert(f, NULL), MNEM_BAD_FILE);
    assert_non_null(strstr(mnem_last_error(), "less than vocab_size, 320"));
    f = copy_folder(STORED("gemma3"), "tokens");
    put_file(f, "tokenizer.model",
             "\x0a\x05\x0a\x03"
             "ab");
    assert_int_equal(convert(f, NULL), MNEM_BAD_FILE);
    put_file(f, "tokenizer.model",
             "\x0a\x03\x0a\x01"
             "a");
    assert_int_equal(convert(f, NULL), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(), "unigram"));
}

/* ---- memory ---- */

static void an_empty_template_is_none(void **state) {
    (void)state;
    const char *f = copy_folder(STORED("llama_pieces"), "template");
    mnem_model *model;
    mnem_value value;
    put_file(f, "chat_template.jinja", "{{ messages }}");
    must(mnem_model_open(f, &model));
    assert_true(mnem_model_key_find(model, "tokenizer.chat_template", &value));
    mnem_model_close(model);
    put_file(f, "chat_template.jinja", "");
    must(mnem_model_open(f, &model));
    assert_false(mnem_model_key_find(model, "tokenizer.chat_template", &value));
    mnem_model_close(model);
}

static void word_pieces_are_cut_in_one_way_only(void **state) {
    (void)state;
    static const char *const edits[][3] = {
        {"BertNormalizer", "Lowercase", "normalizer: \"Lowercase\""},
        {"BertPreTokenizer", "Whitespace", "pre_tokenizer: \"Whitespace\""},
        {"\"##\"", "\"@@\"", "continuing_subword_prefix: \"@@\""},
        {"\"handle_chinese_chars\": true", "\"handle_chinese_chars\": false",
         "without handle_chinese_chars"}};
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const char *f = copy_folder(STORED("bert"), "words");
        edit_file(f, "tokenizer.json", edits[i][0], edits[i][1]);
        assert_int_equal(convert(f, NULL), MNEM_UNSUPPORTED);
        if (!strstr(mnem_last_error(), edits[i][2])) fail_msg("%s", mnem_last_error());
    }
}

/* What is wrong with the tensors that become others: refused with the tensor's name. */
static void parts_of_tensors_that_do_not_fit_are_named(void **state) {
    (void)state;
    static const struct {
        const char *folder, *member, *other, *text;
    } cases[] = {
        {"deepseek3", "\"v_head_dim\": 16", "\"v_head_dim\": 17",
         "kv_b_proj.weight: the number of rows must be num_attention_heads"},
        {"gpt_oss_mxfp4", "\"mxfp4\"", "\"mxfp5\"", "mxfp5"},
        {"qwen3moe", "\"num_local_experts\": 12", "\"num_local_experts\": 13", "36 of 39"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char from[256];
        snprintf(from, sizeof from, MNEM_TEST_DATA "/folders/%s", cases[i].folder);
        const char *f = copy_folder(from, "parts");
        edit_file(f, "config.json", cases[i].member, cases[i].other);
        assert_true(convert(f, NULL) != MNEM_OK);
        if (!strstr(mnem_last_error(), cases[i].text)) fail_msg("%s", mnem_last_error());
    }
}

static void no_memory_leaves_nothing_behind(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 5000};
    mnem_status status;
    do {
        mnem_model *model = NULL;
        heap_sweep_begin(&sweep, false);
        status = mnem_model_open(STORED("llama_3"), &model);
        mnem_model_close(model);
    } while (heap_sweep_next(&sweep, status));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_opens_as_a_model),
        cmocka_unit_test(parts_of_a_tensor_are_parts_of_the_whole),
        cmocka_unit_test(config_is_refused_by_member),
        cmocka_unit_test(scores_are_scaled_by_their_own_scalar),
        cmocka_unit_test(headers_that_lie_are_refused),
        cmocka_unit_test(tensors_that_nothing_takes_are_named),
        cmocka_unit_test(pickled_weights_are_refused_with_the_way_out),
        cmocka_unit_test(an_index_names_files_of_the_folder_only),
        cmocka_unit_test(experts_are_stacked_by_their_numbers),
        cmocka_unit_test(a_missing_expert_is_noticed),
        cmocka_unit_test(rows_that_a_table_lacks_are_zeros),
        cmocka_unit_test(a_series_of_other_matrices_is_refused),
        cmocka_unit_test(an_unknown_pre_tokenizer_is_refused_and_may_be_named),
        cmocka_unit_test(other_tokenizers_are_refused_by_name),
        cmocka_unit_test(an_empty_template_is_none),
        cmocka_unit_test(word_pieces_are_cut_in_one_way_only),
        cmocka_unit_test(parts_of_tensors_that_do_not_fit_are_named),
        cmocka_unit_test(no_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
