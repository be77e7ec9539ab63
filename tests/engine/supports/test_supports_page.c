/* test_supports_page.c: the tables of docs/supports.md are those of the code, for every
 * architecture. MNEM_GOLDEN_UPDATE=1 writes them anew. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"
#include "model/architecture/architecture.h"

enum { PAGE = 32768 };

static const char page_path[] = MNEM_TEST_DATA "/../../docs/supports.md";
static const char marker[] = "<!-- made by test_supports_page from here on -->\n";

/* One model of each architecture, and where answers differ by the file, one of each kind. */
static const char *const files[] = {"llama",
                                    "llama_tied",
                                    "mistral3",
                                    "granite",
                                    "smollm3",
                                    "qwen2",
                                    "qwen3",
                                    "qwen2vl",
                                    "qwen3vl",
                                    "gemma2",
                                    "gemma3",
                                    "gemma3n",
                                    "gemma4",
                                    "gemma4_rows",
                                    "gemma4_moe",
                                    "phi3",
                                    "qwen35",
                                    "mamba",
                                    "mamba2",
                                    "granitehybrid",
                                    "granitehybrid_moe",
                                    "bamba",
                                    "falcon_h1",
                                    "nemotron_h",
                                    "jamba",
                                    "kimi_linear",
                                    "nemotron_h_moe",
                                    "nemotron_h_latent",
                                    "mistral4",
                                    "glm4",
                                    "lfm2",
                                    "olmo2",
                                    "ernie4_5",
                                    "seed_oss",
                                    "gemma",
                                    "hunyuan_dense",
                                    "exaone4",
                                    "command_r",
                                    "cohere2",
                                    "arcee",
                                    "nemotron",
                                    "apertus",
                                    "granite_swa",
                                    "granite_swa_moe",
                                    "granite_swa_shared",
                                    "olmoe",
                                    "mixtral",
                                    "qwen2moe",
                                    "qwen3moe",
                                    "qwen3vlmoe",
                                    "granitemoe",
                                    "granitemoe_shared",
                                    "qwen35moe",
                                    "qwen3next",
                                    "qwen3next_qkvz",
                                    "lfm2moe",
                                    "glm4moe",
                                    "minimax_m2",
                                    "dots1",
                                    "ernie4_5_moe_late",
                                    "ernie4_5_moe",
                                    "hunyuan_moe",
                                    "bailingmoe",
                                    "bailingmoe2",
                                    "exaone_moe",
                                    "hy_v3",
                                    "afmoe",
                                    "cohere2moe",
                                    "cohere2moe_shared",
                                    "mimo2",
                                    "mimo2_qkv",
                                    "step35",
                                    "laguna",
                                    "llama4",
                                    "phimoe",
                                    "smallthinker",
                                    "deepseek32",
                                    "glm_dsa",
                                    "gpt_oss",
                                    "deepseek2",
                                    "deepseek3",
                                    "starcoder2",
                                    "gpt2",
                                    "bert",
                                    "nomic_bert"};
enum { FILES = sizeof files / sizeof *files };

static mnem_transformer models[FILES];
static char names[FILES][40];

static void describe(int i) {
    char path[256];
    mnem_model *model;
    snprintf(path, sizeof path, "%s/architectures/%s.gguf", MNEM_TEST_DATA, files[i]);
    if (strcmp(files[i], "gpt2") == 0) {
        snprintf(path, sizeof path, "%s", kit_path("gpt2.gguf"));
        make_model(path, "--arch gpt2 --tied");
    }
    must(mnem_model_open(path, &model));
    must(mnem_model_transformer(model, &models[i]));
    mnem_model_close(model);
    const char *also = strcmp(files[i], "llama_tied") == 0    ? ", tied embeddings"
                       : strcmp(files[i], "gemma4_rows") == 0 ? ", shared keys and values"
                                                              : "";
    snprintf(names[i], sizeof names[i], "%s%s", models[i].architecture, also);
}

static int describe_all(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++) describe(i);
    return 0;
}

static char text[PAGE];
static size_t at;

static void put(const char *piece) {
    const size_t n = strlen(piece);
    assert_true(at + n < sizeof text);
    memcpy(text + at, piece, n + 1);
    at += n;
}

/* Architectures down, features across. */
static void put_answers(void) {
    mnem_feature_info f;
    put("\n## Architectures\n\n| architecture |");
    for (int32_t n = 0; mnem_feature_get(n, &f); n++) put(" "), put(f.name), put(" |");
    put("\n|---|");
    for (int32_t n = 0; mnem_feature_get(n, &f); n++) put("---|");
    for (int i = 0; i < FILES; i++) {
        put("\n| "), put(names[i]), put(" |");
        for (int32_t n = 0; mnem_feature_get(n, &f); n++)
            put(mnem_support_get(&models[i], f.feature).supported ? " yes |" : " - |");
    }
    put("\n");
}

static bool is_same(const mnem_support *a, const mnem_support *b) {
    return !a->supported && !b->supported && strcmp(a->reason, b->reason) == 0 &&
           strcmp(a->instead, b->instead) == 0;
}

/* The architectures that one answer is for; none where an earlier one had it. */
static void put_reason(const mnem_feature_info *f, int first) {
    const mnem_support s = mnem_support_get(&models[first], f->feature);
    for (int i = 0; i < first; i++) {
        const mnem_support earlier = mnem_support_get(&models[i], f->feature);
        if (is_same(&earlier, &s)) return;
    }
    if (s.supported) return;
    put("| "), put(f->name), put(" | "), put(s.reason), put(" | "), put(s.instead), put(" | ");
    for (int i = first; i < FILES; i++) {
        const mnem_support later = mnem_support_get(&models[i], f->feature);
        if (!is_same(&later, &s)) continue;
        put(i > first ? "; " : ""), put(names[i]);
    }
    put(" |\n");
}

static void put_reasons(void) {
    mnem_feature_info f;
    put("\n## Reasons\n\n| feature | reason | instead | architectures |\n|---|---|---|---|\n");
    for (int32_t n = 0; mnem_feature_get(n, &f); n++)
        for (int i = 0; i < FILES; i++) put_reason(&f, i);
}

static void put_pairs(void) {
    mnem_feature_info a, b;
    put("\n## Features that exclude each other\n\n| feature | together with | reason | instead |\n"
        "|---|---|---|---|\n");
    for (int32_t n = 0; mnem_feature_get(n, &a); n++)
        for (int32_t m = 0; mnem_feature_get(m, &b); m++) {
            const mnem_support s = mnem_support_get(NULL, a.feature | (uint32_t)b.feature);
            if (s.supported || strcmp(s.feature, a.text) != 0) continue;
            put("| "), put(a.name), put(" | "), put(b.name), put(" | "), put(s.reason);
            put(" | "), put(s.instead), put(" |\n");
        }
}

static void update(const char *page, const char *tables) {
    FILE *file = fopen(page_path, "wb");
    assert_non_null(file);
    fwrite(page, 1, (size_t)(tables - page), file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void the_page_has_the_tables_of_the_code(void **state) {
    size_t bytes;
    (void)state;
    put_answers(), put_reasons(), put_pairs();
    char *page = read_file(page_path, &bytes);
    page = realloc(page, bytes + 1);
    page[bytes] = 0;
    const char *tables = strstr(page, marker);
    assert_non_null(tables);
    tables += strlen(marker);
    if (getenv("MNEM_GOLDEN_UPDATE"))
        update(page, tables);
    else if (strcmp(tables, text) != 0)
        fail_msg("docs/supports.md differs (MNEM_GOLDEN_UPDATE=1 writes it anew); the code:\n%s",
                 text);
    free(page);
}

static void the_page_explains_every_feature(void **state) {
    size_t bytes;
    mnem_feature_info f;
    (void)state;
    char *page = read_file(page_path, &bytes);
    page = realloc(page, bytes + 1);
    page[bytes] = 0;
    for (int32_t n = 0; mnem_feature_get(n, &f); n++) {
        char row[120];
        snprintf(row, sizeof row, "| `%s` | %s |", f.name, f.text);
        if (!strstr(page, row)) fail_msg("docs/supports.md has no row: %s", row);
    }
    free(page);
}

static void the_page_has_every_architecture(void **state) {
    (void)state;
    for (int n = 0; mnem__architecture_get(n); n++) {
        const char *name = mnem__architecture_get(n)->names[0];
        bool has = false;
        for (int i = 0; i < FILES; i++) has |= strcmp(models[i].architecture, name) == 0;
        if (!has) fail_msg("no model of %s", name);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_has_every_architecture),
        cmocka_unit_test(the_page_explains_every_feature),
        cmocka_unit_test(the_page_has_the_tables_of_the_code),
    };
    return cmocka_run_group_tests_name("supports_page", tests, describe_all, NULL);
}
