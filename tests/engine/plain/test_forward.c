/* test_forward.c: the engine computes what examples/example_forward.c computes, the forward pass as
 * one page of plain C. */
#include <math.h>

#include "engine/session_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"

enum { TOKENS = 40, VOCAB = 384 };

/* examples/example_forward.c, whose main has another name here. */
bool forward_pass(const mnem_model *file, const int32_t *ids, int n, float *logits);

/* The largest difference in parts of the largest logit; both like the same token best. */
static double difference(const char *arguments) {
    const char *path = kit_path("forward.gguf");
    const mnem_engine_options options = {.context = TOKENS, .kv = MNEM_KV_F32, .threads = 1};
    float engine[VOCAB], page[VOCAB];
    int32_t ids[TOKENS];
    session_case c;
    make_model(path, arguments);
    for (int i = 0; i < TOKENS; i++) ids[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    must(session_case_open(&c, path, 0, &options));
    assert_int_equal(session_case_vocab(&c), VOCAB);
    must(session_case_logits(&c, ids, TOKENS, engine));
    assert_true(forward_pass(c.model, ids, TOKENS, page));
    session_case_close(&c);
    double most = 0, largest = 0;
    for (int i = 0; i < VOCAB; i++) {
        most = fmax(most, fabs((double)engine[i] - (double)page[i]));
        largest = fmax(largest, fabs((double)engine[i]));
    }
    assert_int_equal(argmax(engine, VOCAB), argmax(page, VOCAB));
    return most / largest;
}

static void the_engine_computes_what_the_page_says(void **state) {
    (void)state;
    static const char *const models[] = {
        "--arch llama --heads 4 --kv-heads 4 --type F32",
        "--arch llama --heads 4 --kv-heads 2 --type F32 --layers 3",
        "--arch llama --heads 4 --kv-heads 1 --type F32 --tied --head-dim 32",
    };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const double d = difference(models[i]);
        if (d > 2e-4) fail_msg("%s: differs by %g", models[i], d);
    }
}

static void what_the_page_leaves_out_it_refuses(void **state) {
    (void)state;
    static const char *const models[] = {"--arch qwen2 --heads 4 --kv-heads 2 --type F32",
                                         "--arch llama --heads 4 --type F32 --rope-scaling llama3",
                                         "--arch mixtral --heads 4 --kv-heads 2 --type Q8_0"};
    const char *path = kit_path("other.gguf");
    const int32_t id = 1;
    float logits[VOCAB];
    mnem_model *model;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        make_model(path, models[i]);
        must(mnem_model_open(path, &model));
        assert_false(forward_pass(model, &id, 1, logits));
        mnem_model_close(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_engine_computes_what_the_page_says),
        cmocka_unit_test(what_the_page_leaves_out_it_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
