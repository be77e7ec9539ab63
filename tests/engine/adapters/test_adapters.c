/* test_adapters.c: low-rank adapters while a model runs: what merging them gives, in every budget,
 * chunk, team and company the same bits; wrong ones refused by name. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/adapters/adapter_case.h"
#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { VOCAB = 384, TOKENS = 40, MODEL = 0, FIRST, SECOND, OUT, OTHER, FILES };
static const char *path[FILES];

static int name_files(void **state) {
    (void)state;
    path[MODEL] = kit_path("model.gguf"), path[FIRST] = kit_path("first.gguf");
    path[SECOND] = kit_path("second.gguf"), path[OUT] = kit_path("out.gguf");
    path[OTHER] = kit_path("other.gguf");
    return 0;
}

static void make_adapter(const char *to, const adapter_recipe *r) {
    adapter_make(path[MODEL], to, r);
}

static mnem_model *open_file(const char *name) {
    mnem_model *model;
    must(mnem_model_open(name, &model));
    return model;
}

/* ---- logits ---- */

static bool keep(void *context, int32_t part, int32_t index, const float *logits) {
    (void)index;
    if (part == 0) memcpy(context, logits, VOCAB * sizeof *logits);
    return true;
}

static void text(int32_t ids[TOKENS]) {
    for (int32_t i = 0; i < TOKENS; i++) ids[i] = (7 * i * i + 13 * i + 5) % VOCAB;
}

/* Behind the last token, with this budget; further sequences have other texts. */
static void run(const char *model, uint64_t budget, const mnem_engine_options *options,
                float logits[VOCAB]) {
    engine_case c;
    mnem_ledger_info info;
    int32_t ids[TOKENS];
    mnem_step_part parts[3];
    const int32_t count = options->sequences ? options->sequences : 1;
    text(ids);
    engine_case_open(&c, model, budget, options);
    for (int32_t i = 0; i < count; i++) {
        parts[i] =
            (mnem_step_part){.ids = ids + i, .n = TOKENS - i, .first_logits = TOKENS - 1 - i};
        must(mnem_sequence_create(c.engine, &parts[i].sequence));
    }
    must(mnem_engine_step(c.engine, parts, count, keep, logits));
    mnem_ledger_info_get(c.ledger, &info);
    assert_int_equal(info.bytes_live, c.plan.peak_bytes);
    engine_case_close(&c);
}

static void run_with(const char *model, const mnem_adapter *adapters, int32_t count,
                     float logits[VOCAB]) {
    run(model, 0,
        &(mnem_engine_options){.context = 64,
                               .kv = MNEM_KV_F32,
                               .threads = 1,
                               .adapters = adapters,
                               .adapter_count = count},
        logits);
}

/* Of the difference, over that of the second. */
static double distance(const float *a, const float *b) {
    double difference = 0, size = 0;
    for (int i = 0; i < VOCAB; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / size);
}

static void merge(const char *from, const char *adapter, const char *to, float scale) {
    const mnem_merge_options options = {.type = "F32", .scale = scale};
    if (mnem_merge_file(from, adapter, to, &options) != MNEM_OK) fail_msg("%s", mnem_last_error());
}

/* ---- tests ---- */

static const char llama[] = "--arch llama --heads 4 --kv-heads 2 --type F32";
static const char quantized[] = "--arch llama --heads 4 --kv-heads 2 --type Q4_0";

static void logits_are_those_of_the_merged_model(void **state) {
    (void)state;
    static const char *const models[] = {
        llama, "--arch gpt2 --heads 4 --type F32 --tied",
        "--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type F32",
        "--arch qwen2 --heads 4 --kv-heads 2 --type F32 --tied"};
    static const adapter_recipe recipes[] = {{.rank = 4, .type = MNEM_TYPE_F32, .seed = 1},
                                             {.rank = 5, .type = MNEM_TYPE_F16, .seed = 2},
                                             {.rank = 17, .type = MNEM_TYPE_BF16, .seed = 3},
                                             {.rank = 32, .type = MNEM_TYPE_Q8_0, .seed = 4}};
    /* BF16 and Q8_0 round what they are multiplied by too. */
    static const double tolerance[] = {1e-5, 1e-5, 1e-3, 1e-2};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        float base[VOCAB], is[VOCAB], right[VOCAB];
        make_model(path[MODEL], models[i]);
        run_with(path[MODEL], NULL, 0, base);
        make_adapter(path[FIRST], &recipes[i]);
        merge(path[MODEL], path[FIRST], path[OUT], -0.7f);
        run_with(path[OUT], NULL, 0, right);
        const mnem_adapter adapter = {open_file(path[FIRST]), -0.7f};
        run_with(path[MODEL], &adapter, 1, is);
        mnem_model_close((mnem_model *)(uintptr_t)adapter.model);
        print_message("%-64s %.2g, changed by %.2g\n", models[i], distance(is, right),
                      distance(base, right));
        assert_true(distance(base, right) > 0.02);
        assert_true(distance(is, right) < tolerance[i]);
    }
}

static void make_family(const char *family, const char *type) {
    adapter_family(path[MODEL], family, type);
}

static void every_family_has_logits_of_the_merged_model(void **state) {
    (void)state;
    for (int f = 0; f < ADAPTER_FAMILIES; f++) {
        float base[VOCAB], is[VOCAB], right[VOCAB];
        make_family(adapter_families[f], "F32");
        run_with(path[MODEL], NULL, 0, base);
        make_adapter(path[FIRST], &(adapter_recipe){.rank = 4, .type = MNEM_TYPE_F32, .seed = 1});
        merge(path[MODEL], path[FIRST], path[OUT], -0.7f);
        run_with(path[OUT], NULL, 0, right);
        const mnem_adapter adapter = {open_file(path[FIRST]), -0.7f};
        run_with(path[MODEL], &adapter, 1, is);
        mnem_model_close((mnem_model *)(uintptr_t)adapter.model);
        print_message("%-12s %.2g, changed by %.2g\n", adapter_families[f], distance(is, right),
                      distance(base, right));
        assert_true(distance(base, right) > 0.01);
        assert_true(distance(is, right) < 1e-5);
    }
}

static void two_adapters_are_both_added(void **state) {
    (void)state;
    float is[VOCAB], right[VOCAB];
    make_model(path[MODEL], llama);
    make_adapter(path[FIRST], &(adapter_recipe){.rank = 4, .seed = 1});
    make_adapter(path[SECOND], &(adapter_recipe){.rank = 7, .seed = 2, .only = "attn_"});
    merge(path[MODEL], path[FIRST], path[OTHER], 1);
    merge(path[OTHER], path[SECOND], path[OUT], 0.5f);
    run_with(path[OUT], NULL, 0, right);
    const mnem_adapter both[] = {{open_file(path[FIRST]), 1}, {open_file(path[SECOND]), 0.5f}};
    run_with(path[MODEL], both, 2, is);
    print_message("%.2g\n", distance(is, right));
    assert_true(distance(is, right) < 1e-5);
    for (int i = 0; i < 2; i++) mnem_model_close((mnem_model *)(uintptr_t)both[i].model);
}

static void a_scale_of_zero_changes_no_bit(void **state) {
    (void)state;
    float is[VOCAB], base[VOCAB];
    make_model(path[MODEL], quantized);
    make_adapter(path[FIRST], &(adapter_recipe){.rank = 4, .seed = 1});
    run_with(path[MODEL], NULL, 0, base);
    const mnem_adapter adapter = {open_file(path[FIRST]), 0};
    run_with(path[MODEL], &adapter, 1, is);
    assert_memory_equal(is, base, sizeof base);
    mnem_model_close((mnem_model *)(uintptr_t)adapter.model);
}

/* Resident or streamed, in any chunks, on one thread or two, alone or with others: one text's
 * logits. */
static void same_bits_in_every_way(void) {
    float right[VOCAB], base[VOCAB], is[VOCAB];
    make_adapter(path[FIRST], &(adapter_recipe){.rank = 6, .type = MNEM_TYPE_F16, .seed = 5});
    const mnem_adapter adapter = {open_file(path[FIRST]), 1.5f};
    run_with(path[MODEL], NULL, 0, base);
    for (int w = 0; w < 5; w++) {
        mnem_engine_options o = {.context = 64,
                                 .kv = MNEM_KV_F32,
                                 .threads = 1 + w % 2,
                                 .chunk = w == 0 ? 64 : 5 + 9 * w,
                                 .sequences = w > 2 ? 3 : 1,
                                 .adapters = &adapter,
                                 .adapter_count = 1};
        const uint64_t least = w > 1 ? engine_case_least(path[MODEL], &o) : 0;
        run(path[MODEL], least, &o, w ? is : right);
        if (w) assert_memory_equal(is, right, sizeof right);
    }
    assert_true(distance(right, base) > 0.02);
    mnem_model_close((mnem_model *)(uintptr_t)adapter.model);
}

static void bits_do_not_depend_on_memory_chunks_threads_or_company(void **state) {
    (void)state;
    static const char *const types[] = {"Q4_0", "Q8_0", "BF16"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char arguments[100];
        snprintf(arguments, sizeof arguments, "--arch llama --heads 4 --kv-heads 2 --type %s",
                 types[i]);
        make_model(path[MODEL], arguments);
        same_bits_in_every_way();
    }
    for (int f = 0; f < ADAPTER_FAMILIES; f++) {
        make_family(adapter_families[f], f % 2 ? "Q8_0" : "Q4_0");
        same_bits_in_every_way();
    }
}

static void bytes_are_charged_and_too_few_refused(void **state) {
    (void)state;
    engine_case c;
    uint64_t bytes = 0;
    make_model(path[MODEL], quantized);
    make_adapter(path[FIRST], &(adapter_recipe){.rank = 64, .type = MNEM_TYPE_F32, .seed = 1});
    const mnem_adapter adapter = {open_file(path[FIRST]), 1};
    mnem_engine_options o = {.context = 64, .threads = 1, .chunk = 8};
    const uint64_t without = engine_case_least(path[MODEL], &o);
    o.adapters = &adapter;
    o.adapter_count = 1;
    const uint64_t with = engine_case_least(path[MODEL], &o);
    mnem_model_info info;
    mnem_model_info_get(adapter.model, &info);
    print_message("least %llu, with an adapter of %llu %llu\n", (unsigned long long)without,
                  (unsigned long long)info.tensor_bytes, (unsigned long long)with);
    assert_true(with > without + info.tensor_bytes);
    engine_case_open(&c, path[MODEL], with, &o);
    for (unsigned i = 0; i < c.plan.lines; i++)
        if (strcmp(c.plan.line[i].tag, "adapters") == 0) bytes = c.plan.line[i].bytes;
    assert_true(bytes >= info.tensor_bytes);
    engine_case_close(&c);
    mnem_model_close((mnem_model *)(uintptr_t)adapter.model);
}

static void refused(const adapter_recipe *r, mnem_status status, const char *said) {
    mnem_ledger *ledger;
    mnem_engine_plan plan;
    make_adapter(path[FIRST], r);
    must(mnem_ledger_create(&(mnem_ledger_options){.budget_bytes = 0}, &ledger));
    mnem_model *model = open_file(path[MODEL]);
    const mnem_adapter adapter = {open_file(path[FIRST]), 1};
    const mnem_engine_options o = {.ledger = ledger, .adapters = &adapter, .adapter_count = 1};
    assert_int_equal(mnem_engine_plan_make(model, &o, &plan), status);
    if (!strstr(mnem_last_error(), said)) fail_msg("%s; expected %s", mnem_last_error(), said);
    assert_non_null(strstr(mnem_last_error(), path[FIRST]));
    mnem_model_close((mnem_model *)(uintptr_t)adapter.model);
    mnem_model_close(model);
    must(mnem_ledger_destroy(ledger));
}

static void wrong_adapters_are_named(void **state) {
    (void)state;
    make_model(path[MODEL], "--arch gpt2 --heads 4 --type F32 --tied --context 64");
    refused(&(adapter_recipe){.rank = 4, .kind = "model"}, MNEM_BAD_FILE, "not a low-rank adapter");
    refused(&(adapter_recipe){.rank = 4, .more_rows = 1}, MNEM_INVALID,
            "use the adapter with its own model");
    refused(&(adapter_recipe){.rank = 4, .rename = "blk.9.attn_q.weight"}, MNEM_INVALID,
            "has no tensor blk.9.attn_q.weight");
    refused(&(adapter_recipe){.rank = 4, .rename = "token_embd.weight"}, MNEM_UNSUPPORTED,
            "token_embd.weight.lora_a: adapters of embeddings aren't supported");
    refused(&(adapter_recipe){.rank = 64, .only = "attn_output", .rename = "position_embd.weight"},
            MNEM_UNSUPPORTED, "position_embd.weight: adapters of this tensor are not supported");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_those_of_the_merged_model),
        cmocka_unit_test(every_family_has_logits_of_the_merged_model),
        cmocka_unit_test(two_adapters_are_both_added),
        cmocka_unit_test(a_scale_of_zero_changes_no_bit),
        cmocka_unit_test(bits_do_not_depend_on_memory_chunks_threads_or_company),
        cmocka_unit_test(bytes_are_charged_and_too_few_refused),
        cmocka_unit_test(wrong_adapters_are_named),
    };
    return cmocka_run_group_tests(tests, name_files, NULL);
}
