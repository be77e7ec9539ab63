/* test_training_graphs.c: the graphs of training steps lie at their lower bound. */
#include <stdio.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "mnem/mnem.h"
#include "train/ways/train_ways.h"

typedef struct shape {
    const char *architecture;
    int32_t layers, heads, kv_heads, head_dim, ff, vocab, sequence, batch;
} shape;

static mnem_train_options options_of(const shape *s, mnem_type compute, float dropout) {
    mnem_train_options o = {.sequence = s->sequence,
                            .batch = s->batch,
                            .micro_batch = s->layers > 20 ? s->batch : 0,
                            .threads = 1,
                            .compute = compute,
                            .dropout = dropout};
    snprintf(o.shape.architecture, sizeof o.shape.architecture, "%s", s->architecture);
    o.shape.layers = s->layers;
    o.shape.embd = s->heads * s->head_dim;
    o.shape.heads = s->heads;
    o.shape.kv_heads = s->kv_heads;
    o.shape.head_dim = s->head_dim;
    o.shape.ff = s->ff;
    o.shape.vocab = s->vocab;
    o.shape.context = s->sequence;
    o.shape.epsilon = 1e-5f;
    o.shape.rope.base = 10000;
    o.shape.rope.dims = s->head_dim;
    return o;
}

static void assert_at_the_bound(const mnem_graph_sizes *sizes) {
    if (sizes->block_bytes != sizes->lower_bound_bytes)
        print_message("%llu bytes, lower bound %llu\n", (unsigned long long)sizes->block_bytes,
                      (unsigned long long)sizes->lower_bound_bytes);
    assert_int_equal(sizes->block_bytes, sizes->lower_bound_bytes);
}

/* Both graphs, forward only and with the backward pass. */
static void check(const mnem__train_setup *setup, int32_t micro_batch, const uint8_t *keep) {
    mnem__train_graphs graphs;
    assert_int_equal(mnem__train_graphs_create(setup, micro_batch, keep, &graphs), MNEM_OK);
    assert_at_the_bound(&graphs.step.sizes);
    assert_at_the_bound(&graphs.forward.sizes);
    mnem__train_graphs_destroy(&graphs);
}

/* Every stride-th way that a plan of training considers; then layers that keep something each. */
static int check_shape(const shape *s, mnem_type compute, float dropout, int stride,
                       uint64_t *random) {
    mnem_ledger *ledger;
    mnem__train_setup setup;
    mnem__train_ways ways;
    uint8_t keep[MNEM_TRAIN_LAYERS];
    mnem_train_options o = options_of(s, compute, dropout);
    assert_int_equal(mnem_ledger_create(&(mnem_ledger_options){0}, &ledger), MNEM_OK);
    o.ledger = ledger;
    assert_int_equal(mnem__train_setup_init(&setup, &o), MNEM_OK);
    assert_int_equal(mnem__train_ways_create(&setup, &ways), MNEM_OK);
    int count = 0;
    for (int32_t i = (int32_t)(next_random(random) % (uint64_t)stride); i < ways.count;
         i += stride, count++) {
        const mnem__train_way *way = mnem__train_way_get(&ways, i);
        check(&setup, way->micro_batch, way->keep);
    }
    for (int i = 0; i < 20; i += stride, count++) {
        for (int32_t l = 0; l < s->layers; l++)
            keep[l] = (uint8_t)(next_random(random) % MNEM_TRAIN_SAVE_WAYS);
        check(&setup, s->batch, keep);
    }
    mnem__train_ways_destroy(&ways);
    mnem__train_setup_fini(&setup);
    assert_int_equal(mnem_ledger_destroy(ledger), MNEM_OK);
    return count;
}

/* Listing the ways of many layers takes long: not for every type and dropout then. */
static int check_all(const shape *s, int stride, uint64_t *random) {
    int count = 0;
    for (int i = 0; i<4; i += s->layers> 20 ? 3 : 1)
        count += check_shape(s, i % 2 ? MNEM_TYPE_BF16 : MNEM_TYPE_F32, i / 2 ? 0.1f : 0, stride,
                             random);
    return count;
}

static void training_steps_of_real_models_lie_at_their_lower_bound(void **state) {
    (void)state;
    static const shape shapes[] = {
        {"llama", 6, 8, 4, 32, 688, 2048, 256, 12},
        {"gpt2", 6, 6, 6, 64, 1536, 65, 256, 16},
        {"gpt2", 12, 12, 12, 64, 3072, 50257, 64, 4},
        {"gpt2", 24, 12, 12, 64, 3072, 50257, 1024, 4},
        {"llama", 32, 32, 8, 128, 14336, 32000, 512, 4},
    };
    uint64_t random = 1;
    int count = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        count += check_all(&shapes[i], MNEM_SANITIZED ? 40 : 17, &random);
    print_message("%d ways\n", count);
}

static void training_steps_of_odd_shapes_lie_at_their_lower_bound(void **state) {
    (void)state;
    uint64_t random = 2;
    int count = 0;
    for (int i = 0; i < (MNEM_SANITIZED ? 4 : 16); i++) {
        const int32_t heads = 1 + (int32_t)(next_random(&random) % 6);
        const bool gpt2 = next_random(&random) % 2;
        const shape s = {.architecture = gpt2 ? "gpt2" : "llama",
                         .layers = 1 + (int32_t)(next_random(&random) % 7),
                         .heads = heads,
                         .kv_heads = gpt2 || next_random(&random) % 2 ? heads : 1,
                         .head_dim = 2 + 2 * (int32_t)(next_random(&random) % 20),
                         .ff = 1 + (int32_t)(next_random(&random) % 300),
                         .vocab = 10 + (int32_t)(next_random(&random) % 400),
                         .sequence = 1 + (int32_t)(next_random(&random) % 60),
                         .batch = 1 + (int32_t)(next_random(&random) % 9)};
        count += check_all(&s, 7, &random);
    }
    print_message("%d ways\n", count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_steps_of_real_models_lie_at_their_lower_bound),
        cmocka_unit_test(training_steps_of_odd_shapes_lie_at_their_lower_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
