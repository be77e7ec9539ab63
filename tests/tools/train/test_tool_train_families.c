/* test_tool_train_families.c: what `mnem info` says of training is what happens, for every stored
 * model: adapters and all weights are trained, resumed, exported, merged and run, or refused
 * as it says. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/train/train_words.h"

enum { MODELS = 200 };

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths of all stored models, to free. */
static int stored_models(char *paths[MODELS]) {
    const char *folder = MNEM_TEST_DATA "/architectures";
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        const char *end = strrchr(e->d_name, '.');
        char path[600];
        if (!end || strcmp(end, ".gguf") != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        assert_true(n < MODELS);
        paths[n++] = strdup(path);
    }
    closedir(d);
    qsort(paths, (size_t)n, sizeof *paths, by_name);
    return n;
}

typedef struct answer {
    bool supported;
    char reason[200];
} answer;

static answer answer_of(const json_t *info, const char *feature) {
    answer a = {.supported = false};
    const json_t *f = json_object_get(json_object_get(info, "supports"), feature);
    if (!f) fail_msg("info says nothing of %s", feature);
    a.supported = json_is_true(json_object_get(f, "supported"));
    const char *reason = json_string_value(json_object_get(f, "reason"));
    snprintf(a.reason, sizeof a.reason, "%s", reason ? reason : "");
    return a;
}

static void went_well(const char *model, const char *what, tool_result r) {
    if (r.code != 0) fail_msg("%s: %s: exit code %d: %s", model, what, r.code, r.err);
}

#define GENERATE(...)                                                                              \
    RUN("run", "--memory", MEMORY, "--threads", "1", "-q", "-p", "the sea", "-n", "4", "--ctx",    \
        "32", "--temp", "0", "--ignore-eos", __VA_ARGS__)

/* Two steps, the second of them resumed; the result of one as it is after the first. */
static void train(const char *model, const char *out, bool lora) {
    went_well(model, "training",
              TRAIN("-q", "--init", model, "--data", at("text.txt"), "--out", out, "--steps", "2",
                    "--stop-after", "1", "--batch", "1", "--ctx", "32", "--heldout", "0",
                    lora ? "--lora" : "--rate", lora ? "2" : "0.001"));
    went_well(model, "exporting", TRAIN("-q", "--resume", out, "--export", at("so_far.gguf")));
    went_well(model, "resuming", TRAIN("-q", "--resume", out));
}

static void use_adapter(const char *model, const char *out) {
    char exported[600], merged[600];
    snprintf(exported, sizeof exported, "%s", at("so_far.gguf"));
    snprintf(merged, sizeof merged, "%s", at("merged.gguf"));
    went_well(model, "running with the adapter", GENERATE(model, "--lora", out));
    went_well(model, "running with the exported one", GENERATE(model, "--lora", exported));
    remove(merged);
    went_well(model, "merging", RUN("merge", "-q", model, out, "-o", merged));
    went_well(model, "running the merged model", GENERATE(merged));
}

static void use_model(const char *model, const char *out) {
    char path[700];
    snprintf(path, sizeof path, "%s/model.gguf", out);
    went_well(model, "running the trained model", GENERATE(path));
    went_well(model, "running the exported model", GENERATE(at("so_far.gguf")));
}

/* With the reason that info says, and no folder is left. */
static void is_refused(const char *model, const char *out, const answer *a, bool lora) {
    const tool_result r = TRAIN("-q", "--init", model, "--data", at("text.txt"), "--out", out,
                                "--steps", "1", lora ? "--lora" : "--batch", "2");
    if (r.code == 0) fail_msg("%s: trained, but info says: %s", model, a->reason);
    if (!strstr(r.err, a->reason)) fail_msg("%s: no \"%s\" in: %s", model, a->reason, r.err);
    assert_string_equal(names(out), "");
}

static void check_model(const char *model, int *trained, int *refused_count) {
    char out[600];
    const tool_result r = RUN("info", model, "--json");
    went_well(model, "info", r);
    json_t *info = json_loads(r.out, 0, NULL);
    for (int lora = 0; lora < 2; lora++) {
        const answer a = answer_of(info, lora ? "train_adapters" : "train");
        snprintf(out, sizeof out, "%s", at("family"));
        kit_remove(out);
        *(a.supported ? trained : refused_count) += 1;
        if (!a.supported) is_refused(model, out, &a, lora);
        if (!a.supported) continue;
        train(model, out, lora);
        if (lora)
            use_adapter(model, out);
        else
            use_model(model, out);
    }
    json_decref(info);
}

static void what_info_says_of_training_is_what_happens(void **state) {
    (void)state;
    char *models[MODELS];
    int trained = 0, refusals = 0;
    const int n = stored_models(models);
    for (int i = 0; i < n; i++) {
        check_model(models[i], &trained, &refusals);
        free(models[i]);
    }
    print_message("%d models: %d trainings, %d refusals\n", n, trained, refusals);
    assert_true(trained > 10 && refusals > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_info_says_of_training_is_what_happens),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
