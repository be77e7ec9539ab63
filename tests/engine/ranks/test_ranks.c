/* test_ranks.c: a model over several ranks gives the logits that one rank gives, to the bit.
 *
 * test_ranks [CASES]     40 by default (4 under ThreadSanitizer), 450 under the label slow
 *
 * Ranks are threads. What each stream of ids gives is computed once for each model and type of
 * keys, alone, all resident, by one thread. Cases take the models in turn, by rows and by layers,
 * with one type of keys and then the other; each takes ranks, budgets (of which some stream, and
 * some are too small), sequences, a chunk and threads at random, and walks (ranks_walk.h). Some
 * ranks run on a device whose memory faults when the host touches it (kit_apart.h).
 * Models with recurrent states have cases of their own, with snapshots of a random number and
 * interval. A failing case names its seed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "engine/ranks/ranks_walk.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"

static struct {
    const char *arguments; /* of make_model; NULL: path is there */
    char path[256];
    int32_t rows; /* ranks that rows can be cut over at most; 0: they can't */
    int32_t layers;
} models[] = {
    {"--arch llama --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --layers 5 --ff 2048", "", 4,
     5},
    {"--arch llama --heads 2 --kv-heads 1 --type BF16 --tied --layers 3 --ff 1024", "", 2, 3},
    /* queries, keys and values in one matrix, with one bias; gate and up in one */
    {"--arch gpt2 --heads 4 --kv-heads 4 --head-dim 32 --type F16 --layers 4 --ff 1024", "", 4, 4},
    {"--arch phi3 --embd 192 --heads 6 --kv-heads 3 --head-dim 32 --type Q4_0 --layers 4 "
     "--ff 1056 --vocab 390",
     "", 6, 4},
    {"--arch glm4 --bias --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --layers 3 --ff 2048", "",
     4, 3},
    {"--arch qwen3 --heads 4 --kv-heads 2 --head-dim 32 --type Q4_0 --layers 5 --tied --ff 2048",
     "", 4, 5},
    {"--arch mixtral --heads 4 --kv-heads 2 --head-dim 32 --type Q8_0 --experts 12 "
     "--experts-used 2 --ff 2048 --ff-expert 2048 --layers 3",
     "", 4, 3},
    {"--arch qwen3moe --heads 8 --kv-heads 4 --head-dim 32 --type Q4_0 --experts 16 "
     "--experts-used 5 --ff 1056 --ff-expert 1056 --embd 160 --layers 3",
     "", 8, 3},
    {NULL, MNEM_TEST_DATA "/architectures/qwen2moe.gguf", 2, 0}, /* and one for all */
    {NULL, MNEM_TEST_DATA "/architectures/granitemoe_shared.gguf", 2, 0},
    {NULL, MNEM_TEST_DATA "/architectures/gpt_oss.gguf", 2, 0}, /* sinks, biases, windows */
    {"--arch olmoe --heads 2 --kv-heads 2 --type Q4_0 --experts-used 3 --ff-expert 32 --layers 3",
     "", 2, 3},
    /* a norm over all heads, of which ranks have copies of keys, too */
    {"--arch olmo2 --heads 6 --kv-heads 2 --head-dim 32 --type Q8_0 --layers 4 --ff 2048 --embd 96",
     "", 6, 4},
    {NULL, MNEM_TEST_DATA "/architectures/olmo3.gguf", 2, 0},
    {"--arch deepseek2 --heads 4 --head-dim 64 --type Q4_0 --ff-expert 32 --layers 3", "", 0, 3},
    {NULL, MNEM_TEST_DATA "/architectures/deepseek32_few.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/glm_dsa_shared.gguf", 0, 0}, /* and parts with choices */
    {NULL, MNEM_TEST_DATA "/model/kjv-5m-q4_k_m.gguf", 8, 0},
    /* windows of 24 tokens, in some layers or in all */
    {NULL, MNEM_TEST_DATA "/architectures/gemma3.gguf", 2, 0},
    {NULL, MNEM_TEST_DATA "/architectures/phi3_window.gguf", 2, 0},
    /* rows that no number of ranks divides, and biases of them */
    {"--arch qwen2 --bias --embd 160 --heads 14 --kv-heads 7 --head-dim 32 --type Q4_0 --layers 3 "
     "--ff 1056 --vocab 390",
     "", 14, 3},
    {NULL, MNEM_TEST_DATA "/architectures/gemma2.gguf", 2, 0},
    {NULL, MNEM_TEST_DATA "/architectures/granite.gguf", 2, 0},
    /* recurrent states from here on, and columns of convolutions */
    {NULL, MNEM_TEST_DATA "/architectures/qwen35.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/mamba2.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/falcon_h1.gguf", 0, 0}, /* beside attention */
    {NULL, MNEM_TEST_DATA "/architectures/mamba.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/jamba.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/kimi_linear.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/nemotron_h_moe.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/granitehybrid.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/qwen3next.gguf", 0, 0},
    /* columns of short convolutions in pages, of which the last one runs again after a cut */
    {NULL, MNEM_TEST_DATA "/architectures/lfm2.gguf", 0, 0},
    {NULL, MNEM_TEST_DATA "/architectures/lfm2moe_ends.gguf", 0, 0},
};
enum {
    ALL_MODELS = sizeof models / sizeof models[0],
    STATEFUL = 11,
    MODELS = ALL_MODELS - STATEFUL
};
enum { KINDS = 2, VOCAB_LEAST = 96 };

static mnem_kv_choice kv_type(int model, int kind) {
    if (kind == 0) return MNEM_KV_F16;
    if (strstr(models[model].path, "/architectures/")) return MNEM_KV_F32;
    return model % 3 == 0   ? MNEM_KV_Q4_0
           : model % 3 == 1 ? MNEM_KV_Q8_0
                            : mnem_kv_pair(MNEM_KV_Q8_0, MNEM_KV_Q4_0);
}

/* [STREAMS][LENGTH][vocab], [TEXTS][embd] */
static float *alone[ALL_MODELS][KINDS], *embedded[ALL_MODELS][KINDS];
/* Each 20 seeds change the cut: fewer cases than CASES_BOTH take seeds apart. */
#ifdef __SANITIZE_THREAD__ /* each takes seconds */
enum { CASES_BOTH = 40, CASES = 4, LEAST = 1, EACH_STATEFUL = 1 };
#else
enum { CASES_BOTH = 40, CASES = 40, LEAST = 5, EACH_STATEFUL = 6 };
#endif
static int cases = CASES, refused, streamed, flown, beside, cut, cut_streamed, on_apart;
static int kept_snapshots;
enum { FILLS = MNEM_SANITIZED ? 40 : 400 };
static uint64_t ranks_least[STATEFUL]; /* budget of a rank */

/* ---- alone ---- */

typedef struct kept {
    float *logits;
    int32_t vocab;
} kept;

static bool keep(void *context, int32_t part, int32_t index, const float *logits) {
    const kept *k = context;
    (void)part;
    memcpy(k->logits + (int64_t)index * k->vocab, logits, (size_t)k->vocab * sizeof *logits);
    return true;
}

static void compute_alone(int model, int kind) {
    engine_case c = {0};
    const mnem_engine_options o = {.context = CONTEXT,
                                   .kv = kv_type(model, kind),
                                   .threads = 1,
                                   .logits_rows = 16,
                                   .chunk = 64};
    if (alone[model][kind]) return;
    engine_case_open(&c, models[model].path, 0, &o);
    const size_t each = (size_t)LENGTH * (size_t)c.vocab;
    alone[model][kind] = malloc(STREAMS * each * sizeof(float));
    assert_non_null(alone[model][kind]);
    mnem_sequence *s;
    must(mnem_sequence_create(c.engine, &s));
    for (int i = 0; i < STREAMS; i++) {
        kept k = {alone[model][kind] + (size_t)i * each, c.vocab};
        const mnem_step_part part = {s, streams[i], LENGTH, 0};
        must(mnem_sequence_truncate(s, 0));
        must(mnem_engine_step(c.engine, &part, 1, keep, &k));
    }
    mnem_sequence_destroy(s);
    embedded[model][kind] = malloc(TEXTS * EMBD_MOST * sizeof(float));
    assert_non_null(embedded[model][kind]);
    must(mnem_engine_embed(c.engine, texts, TEXTS, &mean, embedded[model][kind]));
    engine_case_close(&c);
}

/* ---- cases ---- */

static int32_t layers_of(int model) {
    mnem_model *file;
    mnem_transformer t;
    must(mnem_model_open(models[model].path, &file));
    must(mnem_model_transformer(file, &t));
    mnem_model_close(file);
    return t.layers;
}

static void run_case(int model, uint64_t seed) {
    uint64_t random = 1000003 * seed;
    rank ranks[RANKS_MAX] = {0};
    const bool stateful = model >= MODELS;
    const int kind = (int)((seed / (2 * MODELS) + (uint64_t)model) % KINDS);
    const bool rows = models[model].rows && (seed / MODELS % 2 == 0 || models[model].layers < 2);
    (void)next_random(&random); /* after which more budgets stream */
    const int32_t most = mnem__min_i32(rows ? models[model].rows : models[model].layers, RANKS_MAX);
    const int32_t size = next_between(&random, 2, most);
    const mnem_comm_link link = {.seconds = 5e-5, .bytes_per_second = 1e9};
    uint64_t states = 41 * seed;
    const mnem_engine_options o = {.context = CONTEXT,
                                   .snapshots = stateful ? next_between(&states, 0, 9) : 0,
                                   .snapshot_tokens = stateful ? next_between(&states, 4, 40) : 0,
                                   .chunk = (int32_t[]){0, 1, 7, 32, 64}[next_below(&random, 5)],
                                   .kv = kv_type(model, kind),
                                   .sequences = next_between(&random, 1, SEQUENCES),
                                   .logits_rows = next_between(&random, 0, 5),
                                   .cut = rows ? MNEM_CUT_ROWS : MNEM_CUT_LAYERS,
                                   .page_cache = seed % 4 > 0};
    compute_alone(model, kind);
    for (int32_t i = 0; i < size; i++) {
        ranks[i] = (rank){.path = models[model].path,
                          .alone = alone[model][kind],
                          .embedded = embedded[model][kind],
                          .options = o,
                          .seed = seed};
        ranks[i].options.threads = next_between(&random, 1, 2);
        ranks[i].apart = (seed + (uint64_t)i) % 2;
    }
    const bool slow = next_below(&random, 4) == 0;
    run_ranks(ranks, size, slow ? &link : NULL);
    check_ranks(ranks, size, seed);
    kept_snapshots += ranks[0].pages.snapshots_used;
    for (int32_t i = 0; i < size; i++) { /* less than that, on some */
        const mnem_engine_plan *had = &ranks[i].plan;
        const uint64_t less = had->weight_bytes_resident * next_below(&random, 80) / 100;
        ranks[i].budget = had->peak_bytes + next_below(&random, 2) * (16 << 10) - less;
        ranks[i].plan = (mnem_engine_plan){0};
    }
    run_ranks(ranks, size, NULL);
    check_ranks(ranks, size, seed);
    flown += ranks[0].flown;
    beside += ranks[0].beside;
    for (int32_t i = 0; i < size; i++) {
        refused += ranks[i].status != MNEM_OK;
        streamed += ranks[i].plan.streamed;
        cut += ranks[i].plan.rows.vocab.end > 0;
        on_apart += ranks[i].apart && ranks[i].status == MNEM_OK;
        cut_streamed += ranks[i].plan.rows.vocab.end > 0 && ranks[i].plan.streamed;
        assert_true(ranks[i].status != MNEM_OK || ranks[i].plan.peak_bytes <= ranks[i].budget);
    }
}

static void ranks_give_the_bits_of_one(void **state) {
    (void)state;
    const int stride = cases < CASES_BOTH ? 11 : 1;
    for (int i = 1; i <= cases; i++) run_case(i * stride % MODELS, (uint64_t)(i * stride));
    print_message("%d ranks refused, %d streamed, %d steps under way, %d texts beside; %d had "
                  "rows, %d streamed; %d on a device apart\n",
                  refused, streamed, flown, beside, cut, cut_streamed, on_apart);
    assert_true(flown > cases / 4);
    assert_true(beside > 0 || cases < 40);
    assert_true(streamed > cases / 20); /* else budgets don't mean what they meant */
    assert_true(cut > cases / 20);
    assert_true(on_apart > cases / 20);
}

static void ranks_with_states_give_the_bits_of_one(void **state) {
    (void)state;
    const int each = mnem__max_i32(cases / 10, EACH_STATEFUL);
    for (int model = MODELS; model < ALL_MODELS; model++)
        for (int i = 1; i <= each; i++) run_case(model, (uint64_t)(model * 1000 + i));
    print_message("%d snapshots kept\n", kept_snapshots);
    assert_true(kept_snapshots > 0);
}

/* Pages, live states and snapshots fill what budgets leave; all ranks plan the least of each, which
 * fits where each rank's own plan did. */
static void what_ranks_agree_on_fits(void **state) {
    (void)state;
    uint64_t random = 5;
    int32_t fewer = 0;
    for (int i = 0; i < FILLS; i++) {
        rank ranks[2] = {{0}};
        const int model = MODELS + i % STATEFUL;
        const uint64_t least = i < STATEFUL ? 1 : ranks_least[i % STATEFUL];
        for (int32_t k = 0; k < 2; k++) {
            ranks[k] = (rank){.path = models[model].path, .plans_only = true};
            ranks[k].options = (mnem_engine_options){.context = CONTEXT,
                                                     .kv = MNEM_KV_F16,
                                                     .sequences = SEQUENCES,
                                                     .logits_rows = 3,
                                                     .pages_fill = true,
                                                     .snapshots = MNEM_SNAPSHOTS_FILL,
                                                     .snapshot_tokens = 16,
                                                     .threads = 1};
            ranks[k].budget = least + next_below(&random, 24) * next_below(&random, 24) * 1024;
        }
        run_ranks(ranks, 2, NULL);
        check_ranks(ranks, 2, (uint64_t)i);
        ranks_least[i % STATEFUL] =
            mnem__max_u64(ranks_least[i % STATEFUL], ranks[0].plan.needed_bytes);
        if (i < STATEFUL) continue;
        assert_int_equal(ranks[0].status, MNEM_OK);
        fewer += ranks[0].plan.states < SEQUENCES;
        for (int32_t k = 0; k < 2; k++) assert_true(ranks[k].plan.peak_bytes <= ranks[k].budget);
    }
    print_message("%d with fewer states than sequences\n", fewer);
    assert_true(fewer > 0);
}

/* Halves what is between budgets that are refused and those that aren't: the least one streams what
 * it can, experts among it. */
static void least_budgets(int model, int32_t size, uint64_t seed) {
    rank ranks[RANKS_MAX] = {0};
    uint64_t low = 0, high = 0, stream = 0, slots = 0;
    for (int round = 0; round < 8; round++) {
        for (int32_t i = 0; i < size; i++) {
            ranks[i] = (rank){.path = models[model].path,
                              .alone = alone[model][0],
                              .embedded = embedded[model][0],
                              .seed = seed + (uint64_t)round};
            ranks[i].options = (mnem_engine_options){.context = CONTEXT,
                                                     .kv = MNEM_KV_F16,
                                                     .sequences = 2,
                                                     .chunk = 32,
                                                     .threads = 1 + i % 2,
                                                     .cut = MNEM_CUT_ROWS};
            ranks[i].budget = round ? low + (high - low) / 2 : 0;
        }
        run_ranks(ranks, size, NULL);
        check_ranks(ranks, size, seed);
        const uint64_t peak = ranks[0].plan.peak_bytes;
        if (round == 0) high = peak;
        if (round > 0) *(ranks[0].status == MNEM_OK ? &high : &low) = ranks[0].budget;
        for (int32_t i = 0; i < size; i++) {
            stream += ranks[i].plan.streamed;
            slots += (uint64_t)ranks[i].plan.expert_slots;
        }
    }
    if (stream == 0 || !slots != !strstr(models[model].arguments, "--experts"))
        fail_msg("%s: %d ranks: %llu streamed, %llu slots for experts", models[model].path, size,
                 (unsigned long long)stream, (unsigned long long)slots);
}

static void the_least_budgets_give_the_bits_of_one(void **state) {
    (void)state;
    static const char *const which[] = {"phi3", "mixtral", "gpt2", "qwen3moe", "olmo2"};
    for (size_t k = 0; k < LEAST; k++)
        for (int m = 0; m < MODELS; m++)
            if (models[m].arguments && strstr(models[m].arguments, which[k])) {
                compute_alone(m, 0);
                least_budgets(m, 2 + (int32_t)(k % 2), 7);
            }
}

int main(int argc, char **argv) {
    uint64_t random = 11;
    if (argc > 1) cases = atoi(argv[1]);
    for (int i = 0; i < STREAMS; i++)
        for (int k = 0; k < LENGTH; k++) streams[i][k] = next_between(&random, 0, VOCAB_LEAST - 1);
    for (int m = 0; m < ALL_MODELS; m++) {
        if (models[m].arguments) {
            snprintf(models[m].path, sizeof models[m].path, "ranks_%d.gguf", m);
            make_model(models[m].path, models[m].arguments);
        }
        models[m].layers = layers_of(m);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_give_the_bits_of_one),
                                       cmocka_unit_test(ranks_with_states_give_the_bits_of_one),
                                       cmocka_unit_test(what_ranks_agree_on_fits),
                                       cmocka_unit_test(the_least_budgets_give_the_bits_of_one)};
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int m = 0; m < ALL_MODELS; m++) {
        if (models[m].arguments) remove(models[m].path);
        for (int k = 0; k < KINDS; k++) {
            free(alone[m][k]);
            free(embedded[m][k]);
        }
    }
    return failed;
}
