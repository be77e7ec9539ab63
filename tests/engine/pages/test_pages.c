/* test_pages.c: pages apart from sequences: how many the plan takes, what a step counts before it
 * runs, and what it says where too few are free. Random mixes are in test_engine_mixes.c. */
#include <stdio.h>
#include <string.h>

#include "engine/engine_case.h"
#include "kit/kit.h"
#include "kit/kit_model.h"

#define LLAMA   MNEM_TEST_DATA "/architectures/llama.gguf"
#define WINDOWS MNEM_TEST_DATA "/architectures/gemma3.gguf" /* of 24 tokens */
#define STATES  MNEM_TEST_DATA "/architectures/lfm2.gguf"
#define ENCODER MNEM_TEST_DATA "/architectures/bert.gguf"

enum { VOCAB = 96, CONTEXT = 256, PAGE = 64, TOKENS = 250, EMBD = 32, TEXTS = 6 };

static int32_t text[TOKENS];

static int fill_text(void **state) {
    (void)state;
    for (int32_t i = 0; i < TOKENS; i++) text[i] = (7 * i * i + 13 * i + 5) % VOCAB;
    return 0;
}

static mnem_engine_options options_of(int32_t sequences, int32_t pages_tokens) {
    return (mnem_engine_options){.context = CONTEXT,
                                 .threads = 1,
                                 .chunk = 32,
                                 .kv = MNEM_KV_F32,
                                 .sequences = sequences,
                                 .pages_tokens = pages_tokens};
}

static void open_case(engine_case *c, const char *path, int32_t sequences, int32_t pages_tokens) {
    const mnem_engine_options o = options_of(sequences, pages_tokens);
    engine_case_open(c, path, 0, &o);
}

static bool ignore(void *context, int32_t part, int32_t index, const float *logits) {
    (void)context, (void)part, (void)index, (void)logits;
    return true;
}

static mnem_status run(engine_case *c, mnem_sequence *s, int32_t n) {
    const int32_t at = mnem_sequence_length(s);
    return mnem_engine_step(c->engine, &(mnem_step_part){s, text + at, n, n - 1}, 1, ignore, NULL);
}

static mnem_engine_pages pages_of(const engine_case *c) {
    mnem_engine_pages pages;
    mnem_engine_pages_get(c->engine, &pages);
    return pages;
}

/* ---- the plan ---- */

static void a_plan_has_pages_for_the_tokens_asked_for(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int32_t tokens, pages;
    } cases[] = {{LLAMA, 0, 16}, /* 4 contexts of 4 pages */
                 {LLAMA, 1, 4},  /* one context at the least */
                 {LLAMA, 257, 5},  {LLAMA, 640, 10},  {LLAMA, 1 << 30, 16},
                 {STATES, 300, 5}, {WINDOWS, 300, 5}, {WINDOWS, 0, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine_case c;
        mnem_ledger_info info;
        open_case(&c, cases[i].path, 4, cases[i].tokens);
        const mnem_engine_pages pages = pages_of(&c);
        assert_int_equal(c.plan.pages, cases[i].pages);
        assert_int_equal(c.plan.page_tokens, PAGE);
        assert_int_equal(c.plan.page_bytes, pages.full_bytes + pages.window_bytes);
        assert_int_equal(pages.all.full, cases[i].pages);
        assert_int_equal(pages.free.full, cases[i].pages);
        assert_int_equal(pages.most.full, CONTEXT / PAGE);
        mnem_ledger_info_get(c.ledger, &info);
        assert_int_equal(info.bytes_live, c.plan.peak_bytes); /* and that is what is taken */
        engine_case_close(&c);
    }
}

/* A window of 24 and a chunk of 32 touch two pages, of each sequence. */
static void windows_take_no_more_than_all_sequences_need(void **state) {
    (void)state;
    engine_case c;
    open_case(&c, WINDOWS, 4, 640);
    assert_int_equal(pages_of(&c).all.full, 10);
    assert_int_equal(pages_of(&c).all.window, 8);
    assert_int_equal(pages_of(&c).most.window, 2);
    engine_case_close(&c);
    open_case(&c, WINDOWS, 4, 300);
    assert_int_equal(pages_of(&c).all.window, 5);
    engine_case_close(&c);
}

static void the_rest_of_a_budget_becomes_pages(void **state) {
    (void)state;
    for (int fewer = 0; fewer < 16 * PAGE; fewer += 5 * PAGE) {
        engine_case c, full;
        mnem_engine_options o = options_of(16, 0);
        open_case(&full, LLAMA, 16, 0);
        engine_case_close(&full);
        o.pages_fill = true;
        const uint64_t budget =
            full.plan.peak_bytes - (uint64_t)fewer / PAGE * full.plan.page_bytes + 100;
        engine_case_open(&c, LLAMA, budget, &o);
        assert_true(c.plan.peak_bytes <= budget);
        assert_true(c.plan.peak_bytes + c.plan.page_bytes > budget || c.plan.pages == 64);
        assert_int_equal(c.plan.matrices_resident, c.plan.matrices); /* weights come first */
        assert_int_equal(pages_of(&c).all.full, c.plan.pages);
        engine_case_close(&c);
    }
}

/* What a pass reads serves all of them: several sequences have a place, for matrices that go. */
static void where_weights_are_read_many_sequences_have_pages(void **state) {
    (void)state;
    const mnem_engine_options asked = {.context = 1024,
                                       .threads = 1,
                                       .kv = MNEM_KV_F16,
                                       .sequences = 16,
                                       .logits_rows = 8,
                                       .pages_fill = true};
    make_model(
        "many.gguf",
        "--heads 4 --kv-heads 1 --embd 256 --layers 16 --ff 1024 --context 1024 --type Q8_0");
    mnem_engine_plan one, eight;
    const uint64_t least = engine_case_least("many.gguf", &asked);
    for (uint64_t budget = least + (8 << 20); budget < least + (12 << 20); budget += 1 << 20) {
        engine_case c;
        mnem_engine_options o = asked;
        o.logits_rows = 1;
        engine_case_open(&c, "many.gguf", budget, &o);
        engine_case_close(&c);
        one = c.plan;
        engine_case_open(&c, "many.gguf", budget, &asked);
        engine_case_close(&c);
        eight = c.plan;
        assert_true(one.streamed && eight.streamed);
        assert_true(eight.peak_bytes <= budget);
        assert_true(eight.pages >= 4 * 512 / PAGE && eight.chunk >= 4);
        assert_true(eight.pages > one.pages);
        assert_true(eight.matrices_resident < one.matrices_resident);
        assert_true(eight.predicted_seconds >= one.predicted_seconds);
        o.logits_rows = 3; /* tried too, behind two */
        engine_case_open(&c, "many.gguf", budget, &o);
        engine_case_close(&c);
        assert_true(c.plan.pages >= 3 * 512 / PAGE && c.plan.peak_bytes <= budget);
        assert_true(c.plan.pages <= eight.pages);
    }
    remove("many.gguf");
}

/* The same way as with one context's pages, whatever is left. */
static void pages_take_nothing_from_the_way(void **state) {
    (void)state;
    mnem_engine_options one = options_of(8, 1);
    one.logits_rows = 1;
    const uint64_t least = engine_case_least(LLAMA, &one);
    for (uint64_t more = 0; more < 512 * 1024; more += 50000) {
        engine_case c, d;
        mnem_engine_options o = one;
        engine_case_open(&c, LLAMA, least + more, &o);
        engine_case_close(&c);
        o.pages_fill = true;
        engine_case_open(&d, LLAMA, least + more, &o);
        engine_case_close(&d);
        assert_int_equal(d.plan.matrices_resident, c.plan.matrices_resident);
        assert_int_equal(d.plan.chunk, c.plan.chunk);
        assert_true(d.plan.predicted_seconds <= c.plan.predicted_seconds);
        assert_true(d.plan.pages >= c.plan.pages);
    }
}

static void pages_below_zero_are_refused(void **state) {
    (void)state;
    engine_case c;
    mnem_engine_options o = options_of(2, -1);
    open_case(&c, LLAMA, 1, 0);
    o.ledger = c.ledger;
    mnem_engine_plan plan;
    assert_int_equal(mnem_engine_plan_make(c.model, &o, &plan), MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "pages_tokens is -1"));
    engine_case_close(&c);
}

/* ---- steps ---- */

static void a_step_that_lacks_pages_changes_nothing(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *a, *b;
    mnem_page_count wanted;
    open_case(&c, LLAMA, 2, 5 * PAGE);
    must(mnem_sequence_create(c.engine, &a));
    must(mnem_sequence_create(c.engine, &b));
    must(run(&c, a, 200)); /* 4 of 5 pages */
    const mnem_step_part parts[] = {{b, text, 65, 64}, {a, text + 200, 10, 9}};
    must(mnem_engine_step_pages(c.engine, parts, 2, &wanted));
    assert_int_equal(wanted.full, 2);
    assert_int_equal(mnem_engine_step(c.engine, parts, 2, ignore, NULL), MNEM_OVER_BUDGET);
    assert_string_equal(mnem_last_error(),
                        "engine: the step needs 2 KV cache pages, but only 1 of 5 are free; "
                        "close or shorten sequences, or plan with a larger context");
    assert_int_equal(mnem_sequence_length(a), 200);
    assert_int_equal(mnem_sequence_length(b), 0);
    assert_int_equal(pages_of(&c).free.full, 1);
    must(run(&c, b, 64)); /* what there is a page for */
    assert_int_equal(pages_of(&c).free.full, 0);
    mnem_sequence_destroy(b);
    must(run(&c, a, 50)); /* alone each reaches its context */
    engine_case_close(&c);
}

/* Of two that share a page the first to write copies it, the other one keeps it. */
static void copies_of_shared_pages_are_counted(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *a, *b, *d;
    mnem_page_count wanted, own, shared;
    open_case(&c, LLAMA, 3, CONTEXT);
    must(mnem_sequence_create(c.engine, &a));
    must(run(&c, a, 100)); /* a whole page, and a begun one */
    must(mnem_sequence_fork(a, 100, &b));
    must(mnem_sequence_fork(a, 90, &d));
    mnem_sequence_pages_get(a, &own, &shared);
    assert_int_equal(own.full, 0);
    assert_int_equal(shared.full, 2);
    const mnem_step_part parts[] = {
        {a, text + 100, 1, 0}, {b, text + 100, 1, 0}, {d, text + 90, 1, 0}};
    must(mnem_engine_step_pages(c.engine, parts, 1, &wanted));
    assert_int_equal(wanted.full, 1);
    must(mnem_engine_step_pages(c.engine, parts, 3, &wanted));
    assert_int_equal(wanted.full, 2);
    must(mnem_engine_step(c.engine, parts, 3, ignore, NULL));
    assert_int_equal(pages_of(&c).free.full, 0);
    mnem_sequence_pages_get(d, &own, &shared);
    assert_int_equal(own.full, 1);
    assert_int_equal(shared.full, 1);
    must(mnem_engine_step_pages(c.engine, parts, 0, &wanted));
    assert_int_equal(wanted.full, 0);
    engine_case_close(&c);
}

/* What windows forget on the way is there for what comes: only the most at a time counts. */
static void windows_give_back_while_a_step_runs(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    mnem_page_count wanted;
    open_case(&c, WINDOWS, 1, 0);
    must(mnem_sequence_create(c.engine, &s));
    const mnem_step_part part = {s, text, TOKENS, TOKENS - 1};
    must(mnem_engine_step_pages(c.engine, &part, 1, &wanted));
    assert_int_equal(wanted.full, 4);
    assert_int_equal(wanted.window, 2);
    must(run(&c, s, TOKENS));
    assert_int_equal(pages_of(&c).free.window, 0);
    engine_case_close(&c);
}

static void counting_says_what_a_step_would(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    mnem_page_count wanted;
    open_case(&c, LLAMA, 2, 0);
    must(mnem_sequence_create(c.engine, &s));
    const mnem_step_part twice[] = {{s, text, 1, 0}, {s, text, 1, 0}};
    assert_int_equal(mnem_engine_step_pages(c.engine, twice, 2, &wanted), MNEM_INVALID);
    const int32_t bad = VOCAB;
    const mnem_step_part wrong = {s, &bad, 1, 0};
    assert_int_equal(mnem_engine_step_pages(c.engine, &wrong, 1, &wanted), MNEM_INVALID);
    static int32_t many[CONTEXT + 1];
    const mnem_step_part far = {s, many, CONTEXT + 1, 0};
    assert_int_equal(mnem_engine_step_pages(c.engine, &far, 1, &wanted), MNEM_OVER_BUDGET);
    engine_case_close(&c);
}

/* ---- texts to embed ---- */

static void texts_embed_in_turns_where_pages_are_few(void **state) {
    (void)state;
    static const char *const paths[] = {ENCODER, LLAMA, STATES};
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        mnem_embed_text texts[TEXTS];
        float few[TEXTS][EMBD] = {{0}}, all[TEXTS][EMBD] = {{0}};
        const mnem_embed_options mean = {.pooling = MNEM_POOLING_MEAN};
        for (int32_t i = 0; i < TEXTS; i++) texts[i] = (mnem_embed_text){text, 30 + 40 * i};
        for (int tight = 0; tight < 2; tight++) {
            engine_case c;
            open_case(&c, paths[p], TEXTS, tight ? 1 : 0);
            must(mnem_engine_embed(c.engine, texts, TEXTS, &mean, tight ? few[0] : all[0]));
            engine_case_close(&c);
        }
        assert_memory_equal(few, all, sizeof few);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_pages_for_the_tokens_asked_for),
        cmocka_unit_test(windows_take_no_more_than_all_sequences_need),
        cmocka_unit_test(the_rest_of_a_budget_becomes_pages),
        cmocka_unit_test(where_weights_are_read_many_sequences_have_pages),
        cmocka_unit_test(pages_take_nothing_from_the_way),
        cmocka_unit_test(pages_below_zero_are_refused),
        cmocka_unit_test(a_step_that_lacks_pages_changes_nothing),
        cmocka_unit_test(copies_of_shared_pages_are_counted),
        cmocka_unit_test(windows_give_back_while_a_step_runs),
        cmocka_unit_test(counting_says_what_a_step_would),
        cmocka_unit_test(texts_embed_in_turns_where_pages_are_few),
    };
    return cmocka_run_group_tests(tests, fill_text, NULL);
}
