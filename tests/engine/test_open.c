/* test_open.c: a model opened under a budget in one call, and what a refusal says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/session_case.h"

static const mnem_engine_options options = {.context = 128};

static void opening_holds_the_budget(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* a sanitized process is larger than it would be */
    mnem_opened o;
    mnem_ledger_info info;
    const uint64_t budget = 64 << 20;
    if (mnem_open(MODEL_SHIPPED, budget, &options, &o) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    mnem_ledger_info_get(o.ledger, &info);
    assert_int_equal(info.budget_bytes, budget);
    assert_true(info.bytes_peak <= budget);
    assert_int_equal(info.bytes_live, o.plan.peak_bytes);
    assert_int_equal(mnem_session_eval(o.session, (int32_t[]){1, 2, 3}, 3, 3, NULL, NULL), MNEM_OK);
    mnem_close(&o);
    assert_null(o.session);
}

static void a_refusal_says_what_would_do(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* a sanitized process is larger than it would be */
    mnem_opened o;
    assert_int_equal(mnem_open(MODEL_SHIPPED, 1 << 20, &options, &o), MNEM_OVER_BUDGET);
    assert_null(o.ledger);
    assert_true(o.plan.needed_bytes > 1 << 20);
    const uint64_t enough = o.plan.needed_bytes + (256 << 10); /* the process grows a little */
    if (mnem_open(MODEL_SHIPPED, enough, &options, &o) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    mnem_close(&o);
}

static void what_is_no_model_leaves_nothing_open(void **state) {
    (void)state;
    mnem_opened o;
    assert_int_equal(mnem_open("no-such.gguf", 64 << 20, NULL, &o), MNEM_IO);
    assert_null(o.ledger);
    assert_null(o.model);
    mnem_close(&o);
}

typedef struct told {
    char text[2000];
    size_t bytes;
    int left; /* calls until it stops */
} told;

static bool keep(void *context, const char *text, size_t bytes) {
    told *t = context;
    assert_true(bytes > 0 && t->bytes + bytes < sizeof t->text);
    memcpy(t->text + t->bytes, text, bytes);
    t->bytes += bytes;
    return t->left-- != 0;
}

static bool best(void *context, int32_t index, const float *logits) {
    int32_t *next = context; /* [0]: the choice; [1]: the vocabulary */
    (void)index;
    next[0] = 0;
    for (int32_t i = 1; i < next[1]; i++)
        if (logits[i] > logits[next[0]]) next[0] = i;
    return true;
}

/* The same by hand. */
static void evaluate(mnem_opened *o, const char *prompt, int tokens, told *t) {
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(o->tokenizer, &info);
    int32_t next[2] = {0, info.vocab};
    const int32_t *ids;
    size_t n;
    assert_int_equal(mnem_tokenizer_encode(o->tokenizer, prompt, strlen(prompt), 0, &ids, &n),
                     MNEM_OK);
    assert_int_equal(mnem_session_eval(o->session, ids, (int32_t)n, (int32_t)n - 1, best, next),
                     MNEM_OK);
    for (int i = 0; i < tokens; i++) {
        const mnem_text piece = mnem_tokenizer_piece(o->tokenizer, next[0], false);
        assert_true(keep(t, piece.bytes, piece.length));
        assert_int_equal(mnem_session_eval(o->session, next, 1, 0, best, next), MNEM_OK);
    }
}

static void a_text_goes_on_as_by_hand_until_it_is_stopped_or_full(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* a sanitized process is larger than it would be */
    const char *const prompt = "In the beginning God created";
    static told by_hand, again, stopped;
    mnem_opened o;
    if (mnem_open(MODEL_SHIPPED, 64 << 20, &options, &o) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    by_hand.left = again.left = -1;
    evaluate(&o, prompt, 20, &by_hand);
    assert_int_equal(mnem_session_truncate(o.session, 0), MNEM_OK);
    assert_int_equal(mnem_continue(&o, prompt, 20, NULL, keep, &again), MNEM_OK);
    assert_int_equal(again.bytes, by_hand.bytes);
    assert_memory_equal(again.text, by_hand.text, again.bytes);
    stopped.left = 2;
    assert_int_equal(mnem_session_truncate(o.session, 0), MNEM_OK);
    assert_int_equal(mnem_continue(&o, prompt, 20, NULL, keep, &stopped), MNEM_CANCELLED);
    assert_true(stopped.bytes < again.bytes);
    assert_int_equal(mnem_session_truncate(o.session, 0), MNEM_OK);
    again = (told){.left = -1};
    assert_int_equal(mnem_continue(&o, prompt, 0, NULL, keep, &again), MNEM_OK);
    assert_int_equal(mnem_session_length(o.session), o.plan.context);
    assert_int_equal(mnem_continue(&o, prompt, 1, NULL, keep, &again), MNEM_OVER_BUDGET);
    mnem_close(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_holds_the_budget),
        cmocka_unit_test(a_refusal_says_what_would_do),
        cmocka_unit_test(what_is_no_model_leaves_nothing_open),
        cmocka_unit_test(a_text_goes_on_as_by_hand_until_it_is_stopped_or_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
