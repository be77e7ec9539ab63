/* test_trainer_regroup.c: steps give the same bits while teams change all the time.
 *
 * Every run gets a random number of members, and where its members meet it may end and go on with
 * another. */
#include <stdlib.h>
#include <string.h>

#include "base/team/team.h"
#include "kit/kit.h"
#include "kit/kit_random.h"
#include "train/trainer_case.h"

enum { STEPS = 3 };
static int sizes; /* asked for */

static int any_size(int limit) {
    static int last;
    if (sizes++ % 3 == 0 || last > limit) last = 1 + (int)random_below((uint64_t)limit);
    return last;
}

/* All weights, on the heap. */
static float *weights_of(const mnem_trainer *trainer) {
    float *weights = malloc((size_t)count_of(trainer) * sizeof(float)), *to = weights;
    mnem_parameter p;
    for (int32_t i = 0; mnem_trainer_parameter_get(trainer, i, &p); i++) {
        const size_t n = (size_t)(p.dims == 1 ? p.shape[0] : p.shape[0] * p.shape[1]);
        memcpy(to, p.weights, n * sizeof *to);
        to += n;
    }
    return weights;
}

/* After some steps. */
static float *weights_after(const mnem_train_options *options, double *loss, size_t *bytes) {
    batch b;
    made m = make(options, 0);
    mnem_train_report report = {0};
    fill_batch(&b, m.plan.micro_batch);
    for (int i = 0; i < STEPS; i++)
        must(mnem_trainer_step(m.trainer, &(mnem_train_source){next, &b}, &report));
    float *weights = weights_of(m.trainer);
    *bytes = (size_t)count_of(m.trainer) * sizeof *weights;
    *loss = report.loss;
    unmake(&m);
    return weights;
}

static void same_bits(const char *architecture, mnem_type compute) {
    static const int threads[] = {2, 3, 4, 9};
    mnem_train_options o = options_of(architecture, NULL);
    double loss, other_loss;
    size_t bytes;
    o.compute = compute;
    o.threads = 1;
    float *alone = weights_after(&o, &loss, &bytes);
    for (int i = 0; i < (MNEM_SANITIZED ? 2 : 4); i++) {
        o.threads = threads[i];
        sizes = 0;
        mnem__team_force(any_size);
        float *other = weights_after(&o, &other_loss, &bytes);
        mnem__team_force(NULL);
        assert_true(sizes > 10 * STEPS);
        assert_true(loss == other_loss);
        assert_memory_equal(alone, other, bytes);
        free(other);
    }
    free(alone);
}

static void steps_give_the_same_bits(void **state) {
    (void)state;
    random_seed_chosen();
    same_bits("llama", MNEM_TYPE_F32);
    same_bits("gpt2", MNEM_TYPE_BF16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
