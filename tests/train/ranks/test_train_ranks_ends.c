/* test_train_ranks_ends.c: errors and refusals in a training of several ranks: all ranks end with
 * the same status, and name the rank that failed. */
#include <math.h>
#include <string.h>

#include "kit/kit_file.h"
#include "train/ranks/ranks_case.h"

static void a_rank_whose_budget_is_too_small_is_named_by_all(void **state) {
    (void)state;
    const mnem_train_options o = usual_options("llama");
    rank ranks[3];
    set_ranks(ranks, 3, &o, 1);
    ranks[1].budget = 1 << 20;
    run_ranks(ranks, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].status, MNEM_OVER_BUDGET);
        assert_non_null(strstr(ranks[i].text, "rank 1: train: needs "));
        assert_int_equal(ranks[i].plan.budget_bytes, 1 << 20);
        assert_true(ranks[i].plan.needed_bytes > 1 << 20);
    }
    const uint64_t needed = ranks[0].plan.needed_bytes;
    set_ranks(ranks, 3, &o, 1);
    ranks[1].budget = needed; /* and that does */
    run_ranks(ranks, 3);
    check_alike(ranks, 3);
    assert_true(ranks[1].plan.peak_bytes <= needed);
    forget_ranks(ranks, 3);
}

static void a_checkpoint_that_cannot_be_written_is_told_to_all(void **state) {
    (void)state;
    const mnem_train_options o = usual_options("llama");
    rank ranks[3];
    set_ranks(ranks, 3, &o, 1);
    for (int i = 0; i < 3; i++) ranks[i].save = "/nosuch/folder/checkpoint";
    run_ranks(ranks, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].status, MNEM_IO);
        assert_non_null(strstr(ranks[i].text, "rank 0: "));
        if (!strstr(ranks[i].text, "/nosuch/folder/checkpoint")) fail_msg("%s", ranks[i].text);
    }
    forget_ranks(ranks, 3);
}

static void a_checkpoint_that_a_rank_does_not_have_is_named(void **state) {
    (void)state;
    const mnem_train_options o = usual_options("llama");
    rank ranks[2];
    const char *saved = kit_path("theirs");
    set_ranks(ranks, 2, &o, 1);
    for (int i = 0; i < 2; i++) ranks[i].save = saved;
    run_ranks(ranks, 2);
    check_alike(ranks, 2);
    forget_ranks(ranks, 2);
    set_ranks(ranks, 2, &o, 1);
    ranks[0].resume = saved;
    ranks[1].resume = "/nosuch/checkpoint";
    run_ranks(ranks, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].status, MNEM_NOT_FOUND);
        assert_non_null(strstr(ranks[i].text, "rank 1: /nosuch/checkpoint"));
    }
    forget_ranks(ranks, 2);
}

/* ---- ends ---- */

/* Moments cut; gradients too, in one micro-batch and in several, of which ranks have more and less
 * (3, 4 and 4 sequences). */
enum { WAYS = 3 };
static mnem_train_options options_of(const char *architecture, int way) {
    mnem_train_options o = usual_options(architecture);
    o.shard = way ? MNEM_SHARD_GRADIENTS : MNEM_SHARD_OPTIMIZER;
    o.micro_batch = way == 2;
    return o;
}

static void fail_one(const mnem_train_options *o) {
    rank ranks[3];
    set_ranks(ranks, 3, o, STEPS);
    ranks[2].fail_at = 1;
    run_ranks(ranks, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].status, MNEM_IO);
        assert_string_equal(ranks[i].text, "rank 2: the disk is gone");
        assert_memory_equal(ranks[i].weights, ranks[0].weights,
                            (size_t)ranks[0].count * sizeof(float));
    }
    forget_ranks(ranks, 3);
}

static void a_source_that_fails_on_one_rank_ends_the_step_on_all(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        const mnem_train_options o = options_of("gpt2", way);
        fail_one(&o);
    }
}

static void stop_one(const mnem_train_options *o) {
    rank ranks[3], stopped[3];
    set_ranks(ranks, 3, o, 2);
    run_ranks(ranks, 3);
    set_ranks(stopped, 3, o, 2);
    stopped[1].cancel = true;
    run_ranks(stopped, 3);
    check_alike(stopped, 3);
    assert_memory_equal(stopped->weights, ranks->weights, (size_t)ranks->count * sizeof(float));
    forget_ranks(ranks, 3);
    forget_ranks(stopped, 3);
}

static void a_step_that_one_rank_stops_is_tried_again_by_all(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        const mnem_train_options o = options_of("gpt2", way);
        stop_one(&o);
    }
}

static void spoil(mnem_train_options o) {
    rank ranks[3];
    set_ranks(ranks, 3, &o, 2);
    for (int i = 0; i < 3; i++) ranks[i].spoil_at = 1;
    ranks[1].spoil = NAN; /* its own copy only: its gradients are everybody's */
    run_ranks(ranks, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ranks[i].status, MNEM_NOT_FINITE);
        assert_non_null(strstr(ranks[i].text, "the gradient of token_embd.weight isn't finite"));
    }
    forget_ranks(ranks, 3);
    o.compute = MNEM_TYPE_F16;
    set_ranks(ranks, 3, &o, 2);
    for (int i = 0; i < 3; i++) ranks[i].spoil = 1e8f; /* overflows in F16: left out by all */
    run_ranks(ranks, 3);
    check_alike(ranks, 3);
    assert_false(ranks[0].applied[0]);
    forget_ranks(ranks, 3);
}

static void numbers_that_are_not_finite_are_named_by_all(void **state) {
    (void)state;
    for (int way = 0; way < WAYS; way++) spoil(options_of("llama", way));
}

static void weights_that_differ_are_named(void **state) {
    (void)state;
    const mnem_train_options o = usual_options("llama");
    rank ranks[2];
    set_ranks(ranks, 2, &o, 1);
    ranks[1].spoil = 0.5f;
    run_ranks(ranks, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].status, MNEM_INVALID);
        assert_non_null(strstr(ranks[i].text, "the checksum of weights differs between ranks"));
    }
    forget_ranks(ranks, 2);
}

static void options_that_differ_are_named(void **state) {
    (void)state;
    const mnem_train_options o = usual_options("llama");
    rank ranks[2];
    for (int what = 0; what < 3; what++) {
        static const char *const text[] = {"the model differs between ranks",
                                           "a step differs between ranks",
                                           "the optimizer differs between ranks"};
        set_ranks(ranks, 2, &o, 1);
        if (what == 0) ranks[1].options.shape.ff = 128;
        if (what == 1) ranks[1].options.seed = 2;
        if (what == 2) ranks[1].options.schedule.rate_peak = 1e-3;
        run_ranks(ranks, 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ranks[i].status, MNEM_INVALID);
            assert_non_null(strstr(ranks[i].text, text[what]));
        }
        forget_ranks(ranks, 2);
    }
}

static void what_can_not_be_shared_out_is_refused(void **state) {
    (void)state;
    mnem_train_options o = usual_options("llama");
    rank ranks[4];
    o.batch = 3;
    set_ranks(ranks, 4, &o, 1);
    run_ranks(ranks, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(ranks[i].status, MNEM_INVALID);
        assert_non_null(strstr(ranks[i].text, "3 sequences, too few for 4 ranks"));
    }
    forget_ranks(ranks, 4);
    o.batch = 5;
    o.micro_batch = 2; /* 2 and 3 */
    set_ranks(ranks, 2, &o, 1);
    run_ranks(ranks, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].status, MNEM_INVALID);
        assert_non_null(strstr(ranks[i].text, "doesn't divide rank 1's share of 3"));
    }
    forget_ranks(ranks, 2);
    o.micro_batch = 0;
    o.masked = true;
    o.shard = MNEM_SHARD_GRADIENTS;
    set_ranks(ranks, 2, &o, 1);
    run_ranks(ranks, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ranks[i].status, MNEM_INVALID);
        assert_non_null(strstr(ranks[i].text, "sharding gradients needs several ranks"));
    }
    forget_ranks(ranks, 2);
}

int main(void) {
    fill_tokens();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_whose_budget_is_too_small_is_named_by_all),
        cmocka_unit_test(a_checkpoint_that_cannot_be_written_is_told_to_all),
        cmocka_unit_test(a_checkpoint_that_a_rank_does_not_have_is_named),
        cmocka_unit_test(a_source_that_fails_on_one_rank_ends_the_step_on_all),
        cmocka_unit_test(a_step_that_one_rank_stops_is_tried_again_by_all),
        cmocka_unit_test(numbers_that_are_not_finite_are_named_by_all),
        cmocka_unit_test(weights_that_differ_are_named),
        cmocka_unit_test(options_that_differ_are_named),
        cmocka_unit_test(what_can_not_be_shared_out_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
