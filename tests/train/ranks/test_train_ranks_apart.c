/* test_train_ranks_apart.c: ranks of which some train on a device whose memory faults when the host
 * touches it (kit_apart.h): losses, norms, checkpoints and ends are those of ranks on the host. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/backend/backend.h"
#include "kit/kit_device.h"
#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "train/ranks/ranks_case.h"

enum { SIZE = 3 };

static const char *model;

/* there: which ranks are there, a bit each. Each has a device of its own, the second one of another
 * kind. */
static void run_there(rank *ranks, unsigned there) {
    mnem_device *devices[SIZE] = {NULL};
    for (int i = 0; i < SIZE; i++) {
        if (there >> i & 1) devices[i] = device_open(i == 1 ? "hidden" : "apart", 0);
        ranks[i].options.device = devices[i];
    }
    run_ranks(ranks, SIZE);
    for (int i = 0; i < SIZE; i++)
        if (devices[i]) must(mnem_device_close(devices[i])); /* no block is left */
}

/* Steps, evaluation and a checkpoint, which says what the weights and moments are. */
static void compare_there(const mnem_train_options *o, const char *init, const char *resume,
                          unsigned there) {
    rank here[SIZE], apart[SIZE];
    const char *saved = kit_path("saved"), *again = kit_path("again");
    set_ranks(here, SIZE, o, STEPS);
    set_ranks(apart, SIZE, o, STEPS);
    for (int i = 0; i < SIZE; i++) {
        here[i].init = apart[i].init = init;
        here[i].resume = apart[i].resume = resume;
        here[i].save = saved;
        apart[i].save = again;
        apart[i].options.threads = 1 + i % 2;
    }
    run_ranks(here, SIZE);
    check_alike(here, SIZE);
    run_there(apart, there);
    for (int i = 0; i < SIZE; i++) {
        if (apart[i].status != MNEM_OK) fail_msg("rank %d: %s", i, apart[i].text);
        assert_memory_equal(apart[i].loss, here->loss, sizeof here->loss);
        assert_memory_equal(apart[i].norm, here->norm, sizeof here->norm);
        assert_true(apart[i].held_out == here->held_out);
    }
    assert_same_files(saved, again);
    forget_ranks(here, SIZE);
    forget_ranks(apart, SIZE);
}

static void whatever_is_sharded_the_bits_are_the_hosts(void **state) {
    static const mnem_shard shards[] = {MNEM_SHARD_NONE, MNEM_SHARD_OPTIMIZER,
                                        MNEM_SHARD_GRADIENTS};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        mnem_train_options o = usual_options(i % 2 ? "gpt2" : "llama");
        o.shard = shards[i];
        o.dropout = 0.1f;
        o.optimizer.moments = i % 2 ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
        compare_there(&o, NULL, NULL, 7);     /* all */
        o.micro_batch = 1;                    /* and in several rounds */
        compare_there(&o, NULL, NULL, 5 - i); /* some */
    }
}

static void so_are_those_of_adapters_of_a_teacher_and_of_a_checkpoint(void **state) {
    (void)state;
    mnem_train_options o = usual_options("llama");
    const char *first = kit_path("first");
    rank ranks[SIZE];
    o.lora.rank = 4;
    compare_there(&o, model, NULL, 5);
    o = usual_options("llama");
    o.distill.weight = 0.5f;
    o.distill.temperature = 2;
    compare_there(&o, model, NULL, 3);
    o = usual_options("llama");
    o.compute = MNEM_TYPE_BF16;
    set_ranks(ranks, SIZE, &o, 1);
    for (int i = 0; i < SIZE; i++) ranks[i].save = first;
    run_ranks(ranks, SIZE);
    check_alike(ranks, SIZE);
    forget_ranks(ranks, SIZE);
    compare_there(&o, NULL, first, 6);
}

static void a_step_that_ends_early_there_ends_on_all(void **state) {
    (void)state;
    for (int way = 0; way < 2; way++) {
        mnem_train_options o = usual_options("gpt2");
        rank here[SIZE], apart[SIZE];
        o.shard = way ? MNEM_SHARD_GRADIENTS : MNEM_SHARD_OPTIMIZER;
        set_ranks(apart, SIZE, &o, STEPS);
        apart[2].fail_at = 1;
        run_there(apart, 4);
        for (int i = 0; i < SIZE; i++) {
            assert_int_equal(apart[i].status, MNEM_IO);
            assert_string_equal(apart[i].text, "rank 2: the disk is gone");
        }
        forget_ranks(apart, SIZE);
        set_ranks(here, SIZE, &o, 2);
        set_ranks(apart, SIZE, &o, 2);
        apart[1].cancel = true;
        run_ranks(here, SIZE);
        check_alike(here, SIZE);
        run_there(apart, 2);
        assert_int_equal(apart[1].status, MNEM_OK);
        assert_memory_equal(apart[1].loss, here->loss, sizeof here->loss);
        assert_memory_equal(apart[0].weights, here->weights, (size_t)here->count * sizeof(float));
        forget_ranks(here, SIZE);
        forget_ranks(apart, SIZE);
    }
}

static void numbers_that_are_not_finite_are_found_there(void **state) {
    (void)state;
    const mnem_train_options o = usual_options("llama");
    rank ranks[SIZE];
    set_ranks(ranks, SIZE, &o, 2);
    ranks[1].spoil_at = 1;
    ranks[1].spoil = NAN;
    run_there(ranks, 5);
    for (int i = 0; i < SIZE; i++) {
        assert_int_equal(ranks[i].status, MNEM_NOT_FINITE);
        assert_non_null(strstr(ranks[i].text, "the gradient of token_embd.weight isn't finite"));
    }
    forget_ranks(ranks, SIZE);
}

/* None waits for it, and no checkpoint is left that lacks something. */
static void a_device_that_fails_ends_all_ranks(void **state) {
    (void)state;
    bool failed = true;
    for (uint64_t n = 1; failed; n += 1 + n / 3) {
        mnem_train_options o = usual_options("llama");
        rank ranks[SIZE];
        const char *saved = kit_path("saved");
        o.shard = n % 2 ? MNEM_SHARD_GRADIENTS : MNEM_SHARD_OPTIMIZER;
        set_ranks(ranks, SIZE, &o, 1);
        for (int i = 0; i < SIZE; i++) ranks[i].save = saved;
        remove(saved);
        mnem__device_fail_at(n, false);
        run_there(ranks, 7);
        mnem__device_fail_at(0, false);
        failed = ranks[0].status != MNEM_OK;
        for (int i = 0; i < SIZE; i++) assert_true((ranks[i].status != MNEM_OK) == failed);
        assert_int_equal(access(saved, F_OK), failed ? -1 : 0);
        forget_ranks(ranks, SIZE);
    }
}

int main(void) {
    fill_tokens();
    model = kit_path("model.gguf");
    make_model(model, "--arch llama --heads 4 --kv-heads 2 --type Q8_0 --tied");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_sharded_the_bits_are_the_hosts),
        cmocka_unit_test(so_are_those_of_adapters_of_a_teacher_and_of_a_checkpoint),
        cmocka_unit_test(a_step_that_ends_early_there_ends_on_all),
        cmocka_unit_test(numbers_that_are_not_finite_are_found_there),
        cmocka_unit_test(a_device_that_fails_ends_all_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
