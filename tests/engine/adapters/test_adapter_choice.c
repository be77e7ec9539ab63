/* test_adapter_choice.c: sequences of one engine that use different adapters: the bits of each
 * alone, whatever is in the step; forks, saves and embeddings keep to the choice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/adapters/adapter_case.h"
#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "kit/kit_random.h"

enum { VOCAB = 384, EMBD = 128, ADAPTERS = 4, SEQUENCES = 8, PROMPT = 40, STEPS = 3, CHOICES = 6 };
enum { CONTEXT = 64, ROWS = STEPS + 1 };

static const char *model_path, *adapter_path[ADAPTERS];

static int name_files(void **state) {
    (void)state;
    static const char *const names[ADAPTERS] = {"a.gguf", "b.gguf", "c.gguf", "d.gguf"};
    model_path = kit_path("model.gguf");
    for (int i = 0; i < ADAPTERS; i++) adapter_path[i] = kit_path(names[i]);
    random_seed_chosen();
    return 0;
}

static const float choices[CHOICES][ADAPTERS] = {
    {0}, {1, 0, 0, 0}, {0, -0.7F, 0, 0}, {0, 0, 1.5F, 0}, {0, 0, 0, 1}, {1, 0, 0.5F, 0}};

static void open_adapters(mnem_adapter out[ADAPTERS]) {
    static const adapter_recipe recipes[ADAPTERS] = {
        {.rank = 8, .type = MNEM_TYPE_F32, .seed = 1},
        {.rank = 5, .type = MNEM_TYPE_F16, .seed = 2, .only = "attn_"},
        {.rank = 17, .type = MNEM_TYPE_BF16, .seed = 3},
        {.rank = 32, .type = MNEM_TYPE_Q8_0, .seed = 4}};
    for (int i = 0; i < ADAPTERS; i++) {
        mnem_model *file;
        adapter_make(model_path, adapter_path[i], &recipes[i]);
        must(mnem_model_open(adapter_path[i], &file));
        out[i] = (mnem_adapter){file, 0};
    }
}

static void close_adapters(const mnem_adapter adapters[ADAPTERS]) {
    for (int i = 0; i < ADAPTERS; i++) mnem_model_close((mnem_model *)(uintptr_t)adapters[i].model);
}

/* ---- what a sequence runs, and what comes of it ---- */

typedef struct run {
    int32_t prompt, choice;
    int32_t ids[PROMPT + STEPS];
    float logits[ROWS][VOCAB];
} run;

static void draw(run *r) {
    r->prompt = 1 + (int32_t)random_below(PROMPT);
    r->choice = (int32_t)random_below(CHOICES);
    for (int i = 0; i < PROMPT + STEPS; i++) r->ids[i] = (int32_t)random_below(VOCAB);
}

typedef struct receiver {
    run *of[SEQUENCES];
    int row;
} receiver;

static bool keep(void *context, int32_t part, int32_t index, const float *logits) {
    receiver *to = context;
    (void)index;
    memcpy(to->of[part]->logits[to->row], logits, sizeof to->of[part]->logits[0]);
    return true;
}

/* The prompts in one step or two, then tokens one by one. */
static void run_all(engine_case *c, run *runs, mnem_sequence **sequences, int count, bool halves) {
    mnem_step_part parts[SEQUENCES];
    receiver to = {.row = 0};
    for (int i = 0; i < count; i++) {
        const int32_t half = halves ? runs[i].prompt / 2 : 0;
        to.of[i] = &runs[i];
        parts[i] = (mnem_step_part){sequences[i], runs[i].ids, half, half};
    }
    if (halves) must(mnem_engine_step(c->engine, parts, count, keep, &to));
    for (; to.row < ROWS; to.row++) {
        for (int i = 0; i < count; i++) {
            const int32_t at = mnem_sequence_length(sequences[i]);
            const int32_t n = to.row ? 1 : runs[i].prompt - at;
            parts[i] = (mnem_step_part){sequences[i], runs[i].ids + at, n, n - 1};
        }
        must(mnem_engine_step(c->engine, parts, count, keep, &to));
    }
}

/* Each by itself, in an engine that has only the adapters that it uses. */
static void run_alone(const mnem_adapter adapters[ADAPTERS], int choice, run *runs, int count) {
    engine_case c;
    mnem_sequence *sequence;
    mnem_adapter used[ADAPTERS];
    int32_t n = 0;
    for (int i = 0; i < ADAPTERS; i++)
        if (choices[choice][i] != 0)
            used[n++] = (mnem_adapter){adapters[i].model, choices[choice][i]};
    engine_case_open(&c, model_path, 0,
                     &(mnem_engine_options){.context = CONTEXT,
                                            .threads = 1,
                                            .kv = MNEM_KV_F32,
                                            .adapters = used,
                                            .adapter_count = n});
    must(mnem_sequence_create(c.engine, &sequence));
    for (int i = 0; i < count; i++) {
        if (runs[i].choice != choice) continue;
        must(mnem_sequence_truncate(sequence, 0));
        run_all(&c, &runs[i], &sequence, 1, false);
    }
    engine_case_close(&c);
}

/* Any chunk, team and residency; the bytes are those of the plan. */
static void run_together(const mnem_adapter adapters[ADAPTERS], run *runs) {
    engine_case c;
    mnem_ledger_info info;
    mnem_sequence *sequences[SEQUENCES];
    mnem_engine_options o = {.context = CONTEXT,
                             .threads = 1 + (int32_t)random_below(3),
                             .kv = MNEM_KV_F32,
                             .chunk = 9 + (int32_t)random_below(120),
                             .logits_rows = 1 + (int32_t)random_below(SEQUENCES),
                             .sequences = SEQUENCES,
                             .adapters = adapters,
                             .adapter_count = ADAPTERS};
    const uint64_t budget = random_below(2) ? engine_case_least(model_path, &o) : 0;
    engine_case_open(&c, model_path, budget, &o);
    assert_int_equal(mnem_engine_adapter_count(c.engine), ADAPTERS);
    for (int i = 0; i < SEQUENCES; i++) {
        must(mnem_sequence_create(c.engine, &sequences[i]));
        must(mnem_sequence_adapters_set(sequences[i], choices[runs[i].choice]));
    }
    run_all(&c, runs, sequences, SEQUENCES, random_below(2));
    mnem_ledger_info_get(c.ledger, &info);
    assert_int_equal(info.bytes_live, c.plan.peak_bytes);
    engine_case_close(&c);
}

static void check_model(const char *what) {
    static run together[SEQUENCES], alone[SEQUENCES];
    mnem_adapter adapters[ADAPTERS];
    open_adapters(adapters);
    for (int i = 0; i < SEQUENCES; i++) draw(&together[i]);
    memcpy(alone, together, sizeof alone);
    run_together(adapters, together);
    for (int choice = 0; choice < CHOICES; choice++) run_alone(adapters, choice, alone, SEQUENCES);
    for (int i = 0; i < SEQUENCES; i++)
        for (int row = 0; row < ROWS; row++)
            if (memcmp(together[i].logits[row], alone[i].logits[row], sizeof alone[i].logits[row]))
                fail_msg("%s: sequence %d with choice %d and a prompt of %d: row %d differs", what,
                         i, (int)alone[i].choice, (int)alone[i].prompt, row);
    close_adapters(adapters);
}

/* ---- tests ---- */

static void a_step_of_different_adapters_gives_the_bits_of_each_alone(void **state) {
    (void)state;
    static const char *const types[] = {"Q4_0", "Q8_0", "BF16", "F32", "Q4_K"};
    for (int i = 0; i < 20; i++) {
        char arguments[120];
        snprintf(arguments, sizeof arguments, "--arch llama --heads 4 --kv-heads 2 --type %s",
                 types[i % 5]);
        make_model(model_path, i % 5 == 4 ? "--arch llama --heads 4 --kv-heads 2 --embd 256 "
                                            "--ff 256 --type Q4_K"
                                          : arguments);
        check_model(arguments);
    }
}

static void every_family_gives_the_bits_of_each_alone(void **state) {
    (void)state;
    for (int f = 0; f < ADAPTER_FAMILIES; f++) {
        adapter_family(model_path, adapter_families[f], f % 2 ? "Q8_0" : "Q4_0");
        check_model(adapter_families[f]);
    }
}

typedef struct opened {
    mnem_adapter adapters[ADAPTERS];
    engine_case c;
} opened;

static void open_all(opened *o, int32_t sequences) {
    make_model(model_path, "--arch llama --heads 4 --kv-heads 2 --type Q8_0");
    open_adapters(o->adapters);
    o->adapters[1].scale = 0.5F;
    engine_case_open(&o->c, model_path, 0,
                     &(mnem_engine_options){.context = CONTEXT,
                                            .threads = 1,
                                            .sequences = sequences,
                                            .adapters = o->adapters,
                                            .adapter_count = ADAPTERS});
}

static void close_all(opened *o) {
    engine_case_close(&o->c);
    close_adapters(o->adapters);
}

static bool no_logits(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static void run_some(const opened *o, mnem_sequence *s, int32_t n) {
    int32_t ids[CONTEXT];
    for (int32_t i = 0; i < n; i++) ids[i] = (i * 7 + 3) % VOCAB;
    must(mnem_engine_step(o->c.engine, &(mnem_step_part){s, ids, n, n - 1}, 1, no_logits, NULL));
}

static void a_choice_is_made_before_the_first_token(void **state) {
    (void)state;
    static const float of_options[ADAPTERS] = {0, 0.5F, 0, 0};
    opened o;
    mnem_sequence *s, *fork;
    open_all(&o, 2);
    must(mnem_sequence_create(o.c.engine, &s));
    assert_memory_equal(mnem_sequence_adapters_get(s), of_options, sizeof of_options);
    must(mnem_sequence_adapters_set(s, choices[5]));
    run_some(&o, s, 20);
    assert_int_equal(mnem_sequence_adapters_set(s, choices[1]), MNEM_INVALID);
    assert_string_equal(mnem_last_error(),
                        "adapters: the sequence has 20 tokens, which were computed with other "
                        "adapters; truncate it to 0 tokens first");
    must(mnem_sequence_fork(s, 10, &fork));
    assert_memory_equal(mnem_sequence_adapters_get(fork), choices[5], sizeof choices[5]);
    must(mnem_sequence_truncate(s, 0));
    const float wrong[ADAPTERS] = {0, 0, 0.0F / 0.0F, 0};
    assert_int_equal(mnem_sequence_adapters_set(s, wrong), MNEM_INVALID);
    assert_memory_equal(mnem_sequence_adapters_get(s), choices[5], sizeof choices[5]);
    must(mnem_sequence_adapters_set(s, NULL));
    assert_memory_equal(mnem_sequence_adapters_get(s), of_options, sizeof of_options);
    close_all(&o);
}

static void a_save_is_loaded_with_its_own_adapters_only(void **state) {
    (void)state;
    opened o;
    mnem_sequence *s, *other;
    mnem_saved saved;
    int32_t ids[20];
    FILE *file = tmpfile();
    open_all(&o, 2);
    for (int32_t i = 0; i < 20; i++) ids[i] = (i * 7 + 3) % VOCAB;
    must(mnem_sequence_create(o.c.engine, &s));
    must(mnem_sequence_adapters_set(s, choices[3]));
    run_some(&o, s, 20);
    must(mnem_sequence_save(s, ids, 0, fileno(file), 0));
    must(mnem_saved_open(o.c.engine, fileno(file), 0, &saved));
    must(mnem_sequence_create(o.c.engine, &other));
    assert_int_equal(mnem_sequence_load(other, &saved, 20), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "another model or adapter"));
    must(mnem_sequence_adapters_set(other, choices[3]));
    must(mnem_sequence_load(other, &saved, 20));
    mnem_sequence_destroy(s);
    mnem_sequence_destroy(other);
    assert_int_equal(mnem_saved_open(o.c.engine, fileno(file), 0, &saved), MNEM_INVALID);
    fclose(file);
    close_all(&o);
}

static void embeddings_use_the_adapters_that_are_asked_for(void **state) {
    (void)state;
    static float is[2048], own[2048], none[2048];
    opened o;
    int32_t ids[20];
    mnem_sequence *s;
    open_all(&o, 2);
    for (int32_t i = 0; i < 20; i++) ids[i] = (i * 7 + 3) % VOCAB;
    const mnem_embed_text text = {ids, 20};
    mnem_embed_options options = {.pooling = MNEM_POOLING_MEAN, .adapter_scales = choices[1]};
    must(mnem_engine_embed(o.c.engine, &text, 1, &options, is));
    options.adapter_scales = NULL;
    must(mnem_engine_embed(o.c.engine, &text, 1, &options, none));
    close_all(&o);
    open_all(&o, 1);
    assert_memory_not_equal(is, none, 64 * sizeof *is);
    options.adapter_scales = choices[1];
    must(mnem_engine_embed(o.c.engine, &text, 1, &options, own));
    assert_memory_equal(is, own, sizeof is);
    must(mnem_sequence_create(o.c.engine, &s)); /* the choice of a text doesn't stay */
    assert_true(mnem_sequence_adapters_get(s)[0] == 0);
    close_all(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_choice_is_made_before_the_first_token),
        cmocka_unit_test(a_save_is_loaded_with_its_own_adapters_only),
        cmocka_unit_test(embeddings_use_the_adapters_that_are_asked_for),
        cmocka_unit_test(a_step_of_different_adapters_gives_the_bits_of_each_alone),
        cmocka_unit_test(every_family_gives_the_bits_of_each_alone),
    };
    return cmocka_run_group_tests(tests, name_files, NULL);
}
