/* test_tool_peft.c: a low-rank adapter as PEFT stores it gives what the same adapter in a GGUF file
 * gives, to the bit; what it may have beside that is refused by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/mnem.h"
#include "tools/train/train_words.h"

enum { ROOM = 1 << 20 };

static int make_adapter(void **state) {
    if (make_files(state) != 0) return -1;
    succeed(TRAIN("-q", "--data", at("text.txt"), "--config", at("config.json"), "--out",
                  at("base"), "--steps", "1", "--ctx", "32"));
    succeed(TRAIN("-q", "--data", at("text.txt"), "--init", at("base/model.gguf"), "--lora", "2",
                  "--out", at("tuned"), "--steps", "2", "--ctx", "32", "--rate", "0.01"));
    return mkdir(at("peft"), 0700);
}

/* ---- the same adapter as PEFT has it ---- */

static const char *const modules[][2] = {
    {"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"}, {"attn_output", "self_attn.o_proj"},
    {"ffn_gate", "mlp.gate_proj"},  {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};

/* The order of rows that transformers has: of each head the even ones here, then the odd ones. */
static void turn_back(float *rows, int64_t count, int64_t columns, int64_t heads) {
    const int64_t each = count / heads;
    const size_t bytes = (size_t)(count * columns) * sizeof *rows;
    float *from = malloc(bytes);
    memcpy(from, rows, bytes);
    for (int64_t r = 0; r < count; r++) {
        const int64_t i = r % each, half = each / 2;
        const int64_t source = r - i + (i < half ? 2 * i : 2 * (i - half) + 1);
        memcpy(rows + r * columns, from + source * columns, (size_t)columns * sizeof *rows);
    }
    free(from);
}

typedef struct writer {
    char json[ROOM];
    uint8_t *data;
    size_t used, bytes;
} writer;

static void add(writer *w, const char *name, const int64_t *shape, size_t bytes) {
    w->used += (size_t)snprintf(w->json + w->used, ROOM - w->used,
                                "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [%lld, %lld], "
                                "\"data_offsets\": [%zu, %zu]}",
                                w->used > 1 ? ", " : "", name, (long long)shape[0],
                                (long long)shape[1], w->bytes, w->bytes + bytes);
    w->bytes += bytes;
}

static void add_tensor(writer *w, const mnem_model *adapter, uint32_t i,
                       const mnem_transformer *base) {
    mnem_tensor_info t;
    char role[32], half, name[200];
    int layer;
    const char *to = NULL;
    mnem_model_tensor_get(adapter, i, &t);
    assert_int_equal(sscanf(t.name, "blk.%d.%31[^.].weight.lora_%c", &layer, role, &half), 3);
    for (size_t k = 0; k < sizeof modules / sizeof *modules; k++)
        if (!strcmp(modules[k][0], role)) to = modules[k][1];
    assert_non_null(to);
    const size_t bytes = (size_t)(t.shape[0] * t.shape[1]) * sizeof(float);
    w->data = realloc(w->data, w->bytes + bytes);
    float *values = (float *)(void *)(w->data + w->bytes);
    assert_int_equal(mnem_model_tensor_read(adapter, i, 0, bytes, values), MNEM_OK);
    if (half == 'b' && (!strcmp(role, "attn_q") || !strcmp(role, "attn_k")))
        turn_back(values, t.shape[0], t.shape[1], role[5] == 'q' ? base->heads : base->kv_heads);
    snprintf(name, sizeof name, "base_model.model.model.layers.%d.%s.lora_%c.weight", layer, to,
             half - 'a' + 'A');
    add(w, name, t.shape, bytes);
}

/* more: members beside the tensors, or "". */
static void write_weights(const char *more) {
    static writer w;
    mnem_model *base, *adapter;
    mnem_model_info info;
    mnem_transformer shape;
    w = (writer){.json = "{", .used = 1};
    assert_int_equal(mnem_model_open(at("base/model.gguf"), &base), MNEM_OK);
    assert_int_equal(mnem_model_transformer(base, &shape), MNEM_OK);
    assert_int_equal(mnem_model_open(at("tuned/adapter.gguf"), &adapter), MNEM_OK);
    mnem_model_info_get(adapter, &info);
    for (uint32_t i = 0; i < info.tensors; i++) add_tensor(&w, adapter, i, &shape);
    w.used += (size_t)snprintf(w.json + w.used, ROOM - w.used, "%s}", more);
    FILE *file = fopen(at("peft/adapter_model.safetensors"), "wb");
    const uint64_t n = w.used;
    assert_true(fwrite(&n, 8, 1, file) == 1 && fwrite(w.json, 1, w.used, file) == w.used &&
                fwrite(w.data, 1, w.bytes, file) == w.bytes && fclose(file) == 0);
    mnem_model_close(base);
    mnem_model_close(adapter);
    free(w.data);
}

static void write_config(const char *more) {
    char text[400];
    snprintf(text, sizeof text, "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4%s}", more);
    tool_file("peft/adapter_config.json", text);
}

#define MERGE(adapter, out)                                                                        \
    RUN("merge", at("base/model.gguf"), adapter, "-o", out, "--type", "same")

static void an_adapter_of_peft_is_that_of_a_file(void **state) {
    (void)state;
    write_config("");
    write_weights("");
    succeed(MERGE(at("tuned"), at("one.gguf")));
    succeed(MERGE(at("peft"), at("other.gguf")));
    assert_same_files(at("one.gguf"), at("other.gguf"));
    const tool_result r = RUN("run", at("base/model.gguf"), "--lora", at("peft"), "-p", "and the",
                              "-n", "8", "--temp", "0", "-q");
    succeed(r);
    char *text = strdup(r.out);
    assert_string_equal(text, RUN("run", at("base/model.gguf"), "--lora", at("tuned"), "-p",
                                  "and the", "-n", "8", "--temp", "0", "-q")
                                  .out);
    free(text);
    /* alpha / sqrt(r) of 4 / sqrt(2) is alpha / r of 4 sqrt(2) / 2. */
    write_config(", \"use_rslora\": true");
    succeed(MERGE(at("peft"), at("stable.gguf")));
    succeed(RUN("merge", at("base/model.gguf"), at("tuned"), "-o", at("scaled.gguf"), "--type",
                "same", "--scale", "1.4142135623730951"));
    assert_same_files(at("stable.gguf"), at("scaled.gguf"));
}

static void what_is_more_than_products_is_refused(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {", \"use_dora\": true", "DoRA is not supported"},
        {", \"alpha_pattern\": {\"q_proj\": 3}", "alpha_pattern: an alpha for each matrix"},
        {", \"use_rslora\": true, \"rank_pattern\": {\"q_proj\": 3}", "rank_pattern: "},
        {", \"peft_type\": \"IA3\"", "peft/adapter_config.json"},
        {", \"lora_alpha\": \"x", "peft/adapter_config.json"},
    };
    write_weights("");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_config(wrong[i][0]);
        REFUSED(MERGE(at("peft"), at("x.gguf")), wrong[i][1]);
    }
    write_config("");
    write_weights(", \"base_model.model.lm_head.modules_to_save.weight\": {\"dtype\": \"F32\", "
                  "\"shape\": [1], \"data_offsets\": [0, 4]}");
    assert_int_equal(MERGE(at("peft"), at("x.gguf")).code, 1);
    remove(at("peft/adapter_model.safetensors"));
    REFUSED(MERGE(at("peft"), at("x.gguf")), "has no adapter_model.safetensors");
    REFUSED(RUN("run", at("peft"), "-p", "x"), "a PEFT adapter, not a model", "--lora");
    REFUSED(RUN("convert", at("peft"), "-o", at("x.gguf")), "a PEFT adapter, not a model");
    /* A model's folder that has an adapter beside it is a model's. */
    tool_file("peft/config.json", "{}");
    REFUSED(RUN("run", at("peft"), "-p", "x"), "architectures");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_adapter_of_peft_is_that_of_a_file),
        cmocka_unit_test(what_is_more_than_products_is_refused),
    };
    return cmocka_run_group_tests(tests, make_adapter, NULL);
}
