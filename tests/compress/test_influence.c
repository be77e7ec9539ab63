/* test_influence.c: block influence of layers: 0 for a layer that adds nothing; for the others, the
 * value computed from hidden states that a plain walk shows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "mnem/mnem.h"

enum { CHUNK = 16, SEQUENCES = 3, LAYERS = 4 };

/* Zeros in what leads out of layer 2. */
static void silence(const char *path) {
    static const char *const names[] = {"blk.2.attn_output.weight", "blk.2.ffn_down.weight",
                                        "blk.2.attn_output.bias", "blk.2.ffn_down.bias"};
    size_t bytes;
    char *file = read_file(path, &bytes);
    mnem_model *model;
    mnem_tensor_info info;
    must(mnem_model_open(path, &model));
    for (int i = 0; i < 4; i++) {
        const int32_t index = mnem_model_tensor_find(model, names[i]);
        if (index < 0) continue;
        mnem_model_tensor_get(model, (uint32_t)index, &info);
        memset(file + info.offset, 0, info.bytes);
    }
    mnem_model_close(model);
    write_file(path, file, bytes);
    free(file);
}

static void measure(const char *path, int threads, double influence[LAYERS]) {
    int32_t ids[SEQUENCES * CHUNK];
    mnem_model *model;
    mnem_ledger *ledger;
    for (int i = 0; i < SEQUENCES * CHUNK; i++) ids[i] = (i * 37 + 5) % 256;
    must(mnem_ledger_create_process(&(mnem_ledger_options){.budget_bytes = 1 << 30}, &ledger));
    must(mnem_model_open(path, &model));
    const mnem_walk_options o = {.ledger = ledger, .threads = threads, .chunk = CHUNK};
    must(mnem_influence(model, &o, ids, SEQUENCES, influence, NULL));
    mnem_model_close(model);
    mnem_ledger_destroy(ledger);
}

/* Of both kinds of norm; that of gpt2 takes a mean away. */
static void a_layer_that_adds_nothing_turns_nothing(void **state) {
    (void)state;
    static const char *const models[] = {
        "--arch llama --heads 4 --kv-heads 2 --layers 4 --type F32",
        "--arch qwen3 --heads 4 --layers 4 --type F32",
        "--arch gpt2 --heads 4 --layers 4 --type F32",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const char *path = kit_path("made.gguf");
        double one[LAYERS], three[LAYERS];
        make_model(path, models[i]);
        silence(path);
        measure(path, 1, one);
        measure(path, 3, three);
        assert_memory_equal(one, three, sizeof one);
        print_message("%-60s %.2g %.2g %.2g %.2g\n", models[i], one[0], one[1], one[2], one[3]);
        for (int layer = 0; layer < LAYERS; layer++) {
            if (layer == 2) assert_true(fabs(one[layer]) < 1e-6);
            if (layer != 2) assert_true(one[layer] > 1e-3 && one[layer] < 2);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_that_adds_nothing_turns_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
