/* test_windows.c: layers with windows hold a window and a chunk of positions, not the context: the
 * plan's bytes, the pages in use, and what a cut back to before them does. Their bits are compared
 * in test_families.c and test_engine_mixes.c. */
#include <stdio.h>
#include <string.h>

#include "engine/engine_case.h"
#include "kit/kit.h"

/* Windows of 24 tokens: in 5 of 6 layers, and in both of 2; pages are of 64 positions. */
#define SOME MNEM_TEST_DATA "/architectures/gemma3.gguf"
#define ALL  MNEM_TEST_DATA "/architectures/phi3_window.gguf"

enum { VOCAB = 96, CONTEXT = 256, TOKENS = 250 };

static const mnem_engine_options options = {
    .context = CONTEXT, .threads = 1, .chunk = 16, .kv = MNEM_KV_F32};

static void text(int32_t ids[TOKENS]) {
    for (int32_t i = 0; i < TOKENS; i++) ids[i] = (7 * i * i + 13 * i + 5) % VOCAB;
}

static uint64_t planned(const mnem_engine_plan *plan, const char *tag) {
    for (unsigned i = 0; i < plan->lines; i++)
        if (plan->line[i].kind == MNEM_KIND_KV && strcmp(plan->line[i].tag, tag) == 0)
            return plan->line[i].bytes;
    return 0;
}

static uint64_t page_bytes(const mnem_model *model) {
    mnem_transformer t;
    must(mnem_model_transformer(model, &t));
    const mnem_kv_layout layout = {MNEM_TYPE_F32, t.kv_heads, t.head_dim, 64, .value_dim = 0};
    return mnem_kv_page_bytes(&layout);
}

static uint64_t pages_used(const engine_case *c) {
    mnem_engine_stats stats;
    mnem_engine_stats_get(c->engine, &stats);
    return stats.pages_used;
}

/* A window and a chunk touch two pages at the most, the context has four. In the least budget,
 * where the ring of streamed weights doesn't lie in the pages. */
static void a_plan_has_pages_for_a_window_and_a_chunk(void **state) {
    (void)state;
    static const struct {
        const char *path;
        int32_t chunk, sequences;
        uint64_t pages; /* of one layer each */
    } cases[] = {{SOME, 16, 1, 1 * 4 + 5 * 2},
                 {SOME, 100, 1, 1 * 4 + 5 * 3},
                 {SOME, 16, 3, 3 * (1 * 4 + 5 * 2)},
                 {SOME, 256, 1, 6 * 4},
                 {ALL, 16, 1, 2 * 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine_case c;
        mnem_ledger_info info;
        mnem_engine_options o = options;
        o.chunk = cases[i].chunk;
        o.sequences = cases[i].sequences;
        engine_case_open(&c, cases[i].path, engine_case_least(cases[i].path, &o), &o);
        const uint64_t exact = cases[i].pages * page_bytes(c.model), is = planned(&c.plan, "pages");
        if (is < exact || is >= exact + 4096)
            fail_msg("case %zu: %llu bytes, not %llu", i, (unsigned long long)is,
                     (unsigned long long)exact);
        mnem_ledger_info_get(c.ledger, &info);
        assert_int_equal(info.bytes_live, c.plan.peak_bytes);
        engine_case_close(&c);
    }
}

static void pages_that_no_token_sees_are_free(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s;
    int32_t ids[TOKENS];
    text(ids);
    engine_case_open(&c, ALL, 0, &options);
    must(mnem_sequence_create(c.engine, &s));
    for (int32_t i = 0; i < TOKENS; i++) {
        const mnem_step_part part = {s, ids + i, 1, 1};
        must(mnem_engine_step(c.engine, &part, 1, NULL, NULL));
        assert_true(pages_used(&c) <= 2);
    }
    assert_int_equal(mnem_sequence_length(s), TOKENS);
    engine_case_close(&c);
}

static void a_cut_to_before_the_windows_is_refused(void **state) {
    (void)state;
    engine_case c;
    mnem_sequence *s, *fork;
    int32_t ids[TOKENS];
    text(ids);
    engine_case_open(
        &c, SOME, 0,
        &(mnem_engine_options){
            .context = CONTEXT, .threads = 1, .chunk = 16, .kv = MNEM_KV_F32, .sequences = 2});
    must(mnem_sequence_create(c.engine, &s));
    const mnem_step_part part = {s, ids, 200, 200};
    must(mnem_engine_step(c.engine, &part, 1, NULL, NULL));
    /* The pages that begin at 128 and at 192 are there; token 151 would see what begins at 128. */
    assert_int_equal(mnem_sequence_truncate(s, 150), MNEM_UNSUPPORTED);
    assert_non_null(strstr(mnem_last_error(),
                           "the first 150 tokens of 200 can't be kept: the sliding window "
                           "of 24 tokens has dropped those before token 128"));
    assert_int_equal(mnem_sequence_length(s), 200);
    assert_int_equal(mnem_sequence_fork(s, 150, &fork), MNEM_UNSUPPORTED);
    must(mnem_sequence_fork(s, 151, &fork));
    must(mnem_sequence_truncate(s, 151));
    must(mnem_sequence_truncate(s, 0));
    mnem_sequence_destroy(fork);
    assert_int_equal(pages_used(&c), 0);
    engine_case_close(&c);
}

/* The simple way begins again by itself. */
static void a_session_begins_again_where_windows_have_gone_by(void **state) {
    (void)state;
    engine_case c;
    mnem_session *session;
    int32_t ids[TOKENS];
    text(ids);
    engine_case_open(&c, SOME, 0, &options);
    mnem_engine_destroy(c.engine);
    c.engine = NULL;
    must(mnem_session_create(c.model, &c.options, &c.plan, &session));
    must(mnem_session_eval(session, ids, 200, 200, NULL, NULL));
    must(mnem_session_truncate(session, 180));
    assert_int_equal(mnem_session_length(session), 180);
    must(mnem_session_truncate(session, 100));
    assert_int_equal(mnem_session_length(session), 0);
    must(mnem_session_eval(session, ids, 100, 100, NULL, NULL));
    mnem_session_destroy(session);
    engine_case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_has_pages_for_a_window_and_a_chunk),
        cmocka_unit_test(pages_that_no_token_sees_are_free),
        cmocka_unit_test(a_cut_to_before_the_windows_is_refused),
        cmocka_unit_test(a_session_begins_again_where_windows_have_gone_by),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
