/* test_train_ranks.c: a training of several ranks (threads): what it learns beside one process, the
 * same bits whatever is sharded and however shares are cut, and checkpoints for any number of
 * ranks. */
#include <math.h>
#include <string.h>

#include "kit/kit_file.h"
#include "kit/kit_model.h"
#include "train/ranks/ranks_case.h"

/* ---- beside one process ---- */

/* |a - b| / |b|. */
static double apart(const float *a, const float *b, int64_t count) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(difference / size);
}

/* Sums in another order, so rounding: of losses, and of weights after steps that divide each
 * gradient by its size. */
static void compare(const rank *one, const rank *many, double losses, double weights) {
    for (int i = 0; i < one->steps; i++)
        if (!(fabs(one->loss[i] - many->loss[i]) <= losses * one->loss[i]))
            fail_msg("step %d: loss %.9g, alone %.9g", i + 1, many->loss[i], one->loss[i]);
    assert_int_equal(one->counted, many->counted);
    assert_true(fabs(one->held_out - many->held_out) <= losses * one->held_out);
    const double off = apart(many->weights, one->weights, one->count);
    if (!(off <= weights)) fail_msg("weights are off by %g", off);
}

static void ranks_beside_one(const mnem_train_options *o, const char *init, double losses,
                             double weights) {
    rank one, ranks[RANKS];
    set_ranks(&one, 1, o, STEPS);
    one.init = init;
    run_ranks(&one, 1);
    check_alike(&one, 1);
    for (int size = 2; size <= RANKS; size += MNEM_SANITIZED ? 3 : 1) {
        set_ranks(ranks, size, o, STEPS);
        for (int i = 0; i < size; i++) ranks[i].init = init;
        run_ranks(ranks, size);
        check_alike(ranks, size);
        compare(&one, ranks, losses, weights);
        forget_ranks(ranks, size);
    }
    forget_ranks(&one, 1);
}

static void ranks_learn_what_one_process_learns(void **state) {
    (void)state;
    mnem_train_options o = usual_options("llama");
    ranks_beside_one(&o, NULL, 1e-6, 1e-4);
    o = usual_options("gpt2");
    o.dropout = 0.1f; /* of the same rows, whoever runs them */
    ranks_beside_one(&o, NULL, 1e-6, 1e-4);
    o = usual_options("llama");
    o.compute = MNEM_TYPE_BF16;
    o.optimizer.moments = MNEM_MOMENTS_8BIT;
    ranks_beside_one(&o, NULL, 1e-3, 3e-2);
}

static const char *model;

static void so_they_do_with_adapters_masks_and_a_teacher(void **state) {
    (void)state;
    mnem_train_options o = usual_options("llama");
    o.lora.rank = 4;
    ranks_beside_one(&o, model, 1e-6, 1e-4);
    o.distill.weight = 0.5f;
    o.distill.temperature = 2;
    ranks_beside_one(&o, model, 1e-6, 1e-4);
}

/* ---- the same bits ---- */

static void what_is_sharded_and_how_shares_are_cut_changes_no_bit(void **state) {
    (void)state;
    for (int size = 2; size <= RANKS; size += RANKS - 2) {
        mnem_train_options o = usual_options(size % 2 ? "llama" : "gpt2");
        rank first[RANKS], again[RANKS];
        o.optimizer.moments = size % 2 ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
        o.sequence = o.shape.context = SEQUENCE_MOST; /* whole blocks of tokens */
        o.dropout = 0.1f;
        set_ranks(first, size, &o, STEPS);
        run_ranks(first, size);
        check_alike(first, size);
        for (int way = 0; way < 3; way++) {
            o.shard = way == 0 ? MNEM_SHARD_NONE : MNEM_SHARD_OPTIMIZER;
            set_ranks(again, size, &o, STEPS);
            for (int i = 0; i < size; i++) {
                again[i].options.threads = 1 + (i + way) % 3;
                if (way) again[i].options.micro_batch = way == 1 ? 1 : first[i].plan.share;
                again[i].keep = way == 2 ? 31 * (i % 2) : -1;
            }
            run_ranks(again, size);
            check_alike(again, size);
            assert_memory_equal(again->loss, first->loss, sizeof first->loss);
            assert_memory_equal(again->norm, first->norm, sizeof first->norm);
            assert_memory_equal(again->weights, first->weights,
                                (size_t)first->count * sizeof(float));
            forget_ranks(again, size);
        }
        forget_ranks(first, size);
    }
}

static void check_same(const rank *a, const rank *b) {
    assert_memory_equal(a->loss, b->loss, sizeof b->loss);
    assert_memory_equal(a->norm, b->norm, sizeof b->norm);
    assert_memory_equal(a->weights, b->weights, (size_t)b->count * sizeof(float));
}

/* As far as a share is one micro-batch. Where it is several, theirs are added over the ranks, so
 * the bits are their own, on whatever threads. */
static void cut_gradients(const char *architecture, int size, const char *init) {
    mnem_train_options o = usual_options(architecture);
    rank whole[RANKS], cut[RANKS], again[RANKS];
    o.shape.layers = 5;
    o.dropout = 0.1f;
    o.optimizer.moments = size % 2 ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
    o.lora.rank = init ? 4 : 0;
    o.shard = MNEM_SHARD_OPTIMIZER;
    set_ranks(whole, size, &o, STEPS);
    o.shard = MNEM_SHARD_GRADIENTS;
    set_ranks(cut, size, &o, STEPS);
    for (int i = 0; i < size; i++) {
        whole[i].init = cut[i].init = init;
        cut[i].options.micro_batch = (BATCH * (i + 1)) / size - (BATCH * i) / size;
        cut[i].options.threads = 1 + i % 2;
    }
    run_ranks(whole, size);
    check_alike(whole, size);
    run_ranks(cut, size);
    check_alike(cut, size);
    check_same(cut, whole);
    forget_ranks(cut, size);
    for (int times = 0; times < 2; times++) { /* 1 at a time: some have a round more */
        rank *r = times ? again : cut;
        o.micro_batch = 1;
        o.threads = 1 + times;
        set_ranks(r, size, &o, STEPS);
        for (int i = 0; i < size; i++) r[i].init = init;
        run_ranks(r, size);
        check_alike(r, size);
        compare(whole, r, o.optimizer.moments == MNEM_MOMENTS_8BIT ? 1e-4 : 1e-6, 3e-2);
    }
    check_same(again, cut);
    forget_ranks(again, size);
    forget_ranks(cut, size);
    forget_ranks(whole, size);
}

static void gradients_are_cut_without_that_a_bit_changes(void **state) {
    (void)state;
    for (int size = 2; size <= RANKS; size += RANKS - 2)
        cut_gradients(size % 2 ? "llama" : "gpt2", size, NULL);
    cut_gradients("llama", 3, model); /* adapters */
}

/* ---- bytes ---- */

static void check_shares(const rank *ranks, int size, uint64_t whole) {
    for (int i = 0; i < size; i++) {
        const double share = (double)ranks[i].plan.optimizer_bytes / (double)whole;
        assert_int_equal(ranks[i].status, MNEM_OK);
        if (!(share <= 1.0 / size + 0.02)) fail_msg("rank %d of %d: %g", i, size, share);
    }
}

static void moments_are_cut_evenly(void **state) {
    (void)state;
    mnem_train_options o = usual_options("llama");
    o.shape.layers = 6;
    o.shape.embd = 128;
    o.shape.heads = 8;
    o.shape.kv_heads = 8;
    for (int kind = 0; kind < 2; kind++) {
        rank one, ranks[RANKS];
        o.optimizer.moments = kind ? MNEM_MOMENTS_8BIT : MNEM_MOMENTS_F32;
        set_ranks(&one, 1, &o, 0);
        run_ranks(&one, 1);
        for (int size = 2; size <= RANKS; size++) {
            set_ranks(ranks, size, &o, 0);
            run_ranks(ranks, size);
            check_shares(ranks, size, one.plan.optimizer_bytes);
            forget_ranks(ranks, size);
        }
        forget_ranks(&one, 1);
    }
}

/* The least that a rank needs, of all ranks alike but for a few blocks. */
static uint64_t least_of(const mnem_train_options *o, int size) {
    rank ranks[RANKS];
    set_ranks(ranks, size, o, 0);
    for (int i = 0; i < size; i++) ranks[i].budget = 1 << 20;
    run_ranks(ranks, size);
    assert_int_equal(ranks[0].status, MNEM_OVER_BUDGET);
    forget_ranks(ranks, size);
    return ranks[0].plan.needed_bytes;
}

/* Under a budget that only one way fits in, and without one. */
static void check_chosen(mnem_train_options o, int size, uint64_t budget) {
    rank chosen[RANKS];
    o.shard = MNEM_SHARD_CHOSEN;
    set_ranks(chosen, size, &o, 1);
    for (int i = 0; i < size; i++) chosen[i].budget = budget;
    run_ranks(chosen, size);
    check_alike(chosen, size);
    assert_int_equal(chosen[0].plan.shard, budget ? MNEM_SHARD_GRADIENTS : MNEM_SHARD_OPTIMIZER);
    assert_non_null(strstr(chosen[0].plan.sharding, budget
                                                        ? "else (--shard optimizer) rank 0 needs "
                                                        : "with gradients cut too "));
    forget_ranks(chosen, size);
}

/* A rank's sums, what is outside of layers, and two layers; and what a plan chooses. */
static void gradients_take_a_share_and_what_is_under_way(void **state) {
    (void)state;
    mnem_train_options o = usual_options("llama");
    o.shape.layers = 12;
    for (int size = 2; size <= RANKS; size += RANKS - 2) {
        rank whole[RANKS], cut[RANKS];
        o.batch = size;
        o.shard = MNEM_SHARD_OPTIMIZER;
        const uint64_t least = least_of(&o, size);
        set_ranks(whole, size, &o, 0);
        run_ranks(whole, size);
        o.shard = MNEM_SHARD_GRADIENTS;
        set_ranks(cut, size, &o, 0);
        run_ranks(cut, size);
        const double all = (double)whole[0].plan.gradient_bytes;
        for (int i = 0; i < size; i++) {
            const double outside = (VOCAB + 1) * 64 * 4, layer = (all - outside) / 12;
            const double off =
                (double)cut[i].plan.gradient_bytes - all / size - outside - 2 * layer;
            if (!(fabs(off) <= 0.02 * all)) fail_msg("rank %d of %d: off by %g", i, size, off);
            assert_string_equal(cut[i].plan.sharding, "");
        }
        const uint64_t less = least_of(&o, size);
        assert_true(less + (256 << 10) < least);
        check_chosen(o, size, (less + least) / 2);
        check_chosen(o, size, 0);
        forget_ranks(whole, size);
        forget_ranks(cut, size);
    }
}

/* ---- checkpoints ---- */

/* Saved by some ranks, loaded and saved by others: the same file. Further steps on as many ranks
 * are those of a run that was never stopped. */
static void checkpoints_of(mnem_train_options *o, int size) {
    rank ranks[RANKS], whole[RANKS];
    const char *saved = kit_path("saved"), *again = kit_path("again");
    set_ranks(whole, size, o, STEPS);
    run_ranks(whole, size);
    check_alike(whole, size);
    set_ranks(ranks, size, o, 2);
    for (int i = 0; i < size; i++) ranks[i].save = saved;
    run_ranks(ranks, size);
    check_alike(ranks, size);
    forget_ranks(ranks, size);
    for (int other = 1; other <= RANKS; other += MNEM_SANITIZED ? 2 : 1) {
        if (size < 3 && other != size && other % RANKS > 1) continue; /* as with 3 */
        o->shard = other == 4   ? MNEM_SHARD_NONE
                   : other == 3 ? MNEM_SHARD_GRADIENTS
                                : MNEM_SHARD_CHOSEN;
        set_ranks(ranks, other, o, 0);
        for (int i = 0; i < other; i++) ranks[i].resume = saved, ranks[i].save = again;
        run_ranks(ranks, other);
        check_alike(ranks, other);
        assert_same_files(saved, again);
        forget_ranks(ranks, other);
        set_ranks(ranks, other, o, STEPS - 2);
        for (int i = 0; i < other; i++) ranks[i].resume = saved, ranks[i].first_step = 2;
        run_ranks(ranks, other);
        check_alike(ranks, other);
        for (int i = 0; i < STEPS - 2; i++) {
            const double off = fabs(ranks->loss[i] - whole->loss[i + 2]) / ranks->loss[i];
            assert_true(other == size ? off == 0 : off <= 1e-3);
        }
        if (other == size)
            assert_memory_equal(ranks->weights, whole->weights,
                                (size_t)whole->count * sizeof(float));
        forget_ranks(ranks, other);
    }
    o->shard = MNEM_SHARD_CHOSEN;
    forget_ranks(whole, size);
}

static void checkpoints_are_for_any_number_of_ranks(void **state) {
    (void)state;
    mnem_train_options o = usual_options("llama");
    checkpoints_of(&o, 3);
    o.optimizer.moments = MNEM_MOMENTS_8BIT;
    checkpoints_of(&o, 2);
    checkpoints_of(&o, 1);
}

int main(void) {
    fill_tokens();
    model = kit_path("model.gguf");
    make_model(model, "--arch llama --heads 4 --kv-heads 2 --type F16 --tied");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_learn_what_one_process_learns),
        cmocka_unit_test(so_they_do_with_adapters_masks_and_a_teacher),
        cmocka_unit_test(what_is_sharded_and_how_shares_are_cut_changes_no_bit),
        cmocka_unit_test(gradients_are_cut_without_that_a_bit_changes),
        cmocka_unit_test(moments_are_cut_evenly),
        cmocka_unit_test(gradients_take_a_share_and_what_is_under_way),
        cmocka_unit_test(checkpoints_are_for_any_number_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
