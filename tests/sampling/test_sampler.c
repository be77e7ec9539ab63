/* test_sampler.c: what the sampler may choose, how often, and that nothing leads it out of
 * range. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "kit/kit.h"
#include "mnem/session.h"
#include "sampling/sampler_desk.h"

/* Everything off but the temperature. */
static mnem_sampler_options plain(float temperature) {
    mnem_sampler_options o = mnem_sampler_usual();
    o.temperature = temperature;
    o.top_k = 0;
    o.top_p = 1;
    o.min_p = 0;
    return o;
}

static mnem_sampler *create(mnem_sampler_options o, int32_t vocab) {
    mnem_sampler *s = NULL;
    assert_int_equal(mnem_sampler_create(&o, vocab, &s), MNEM_OK);
    return s;
}

/* How often each of n tokens comes in `rounds` choices. */
static void count_choices(mnem_sampler_options o, const float *logits, int32_t n, int rounds,
                          int *counts) {
    mnem_sampler *s = create(o, n);
    memset(counts, 0, (size_t)n * sizeof *counts);
    for (int i = 0; i < rounds; i++) {
        const int32_t id = mnem_sampler_choose(s, logits);
        assert_in_range(id, 0, n - 1);
        counts[id]++;
    }
    mnem_sampler_destroy(s);
}

static void defaults_are_as_promised(void **state) {
    (void)state;
    const mnem_sampler_options o = mnem_sampler_usual();
    assert_true(o.temperature == 0.8f && o.top_k == 40 && o.top_p == 0.95f && o.min_p == 0.05f &&
                o.repeat_penalty == 1 && o.repeat_last == 64 && o.seed == 0);
    assert_true(o.dry_multiplier == 0 && o.dry_base == 1.75f && o.dry_allowed_length == 2 &&
                o.dry_penalty_last == 64 && o.xtc_probability == 0 && o.xtc_threshold == 0.1f);
}

static void zero_temperature_takes_the_largest_and_the_lowest_id_of_equals(void **state) {
    (void)state;
    mnem_sampler *s = create(plain(0), 5);
    assert_int_equal(mnem_sampler_choose(s, (float[]){1, 3, 2, 3, -9}), 1);
    assert_int_equal(mnem_sampler_choose(s, (float[]){-1, -3, -2, -3, -0.5f}), 4);
    mnem_sampler_destroy(s);
}

static void frequencies_follow_the_probabilities(void **state) {
    (void)state;
    const float logits[] = {0, logf(2), logf(3), logf(4)};
    int counts[4];
    count_choices(plain(1), logits, 4, 100000, counts);
    for (int i = 0; i < 4; i++)
        assert_in_range(counts[i], (i + 1) * 10000 - 500, (i + 1) * 10000 + 500);
    count_choices(plain(0.5f), logits, 4, 100000, counts); /* squares: 1, 4, 9, 16 of 30 */
    for (int i = 0; i < 4; i++)
        assert_in_range(counts[i], (i + 1) * (i + 1) * 3333 - 500, (i + 1) * (i + 1) * 3333 + 500);
}

static void a_seed_gives_the_same_choices(void **state) {
    (void)state;
    float logits[1000];
    for (int i = 0; i < 1000; i++) logits[i] = (float)(i * 37 % 101) / 20;
    mnem_sampler_options o = mnem_sampler_usual();
    o.seed = 42;
    mnem_sampler *a = create(o, 1000), *b = create(o, 1000);
    o.seed = 43;
    mnem_sampler *c = create(o, 1000);
    int same = 0;
    for (int i = 0; i < 100; i++) {
        const int32_t id = mnem_sampler_choose(a, logits);
        assert_int_equal(id, mnem_sampler_choose(b, logits));
        same += id == mnem_sampler_choose(c, logits);
    }
    assert_true(same < 50);
    mnem_sampler_destroy(a);
    mnem_sampler_destroy(b);
    mnem_sampler_destroy(c);
}

static void cuts_keep_the_best_only(void **state) {
    (void)state;
    const float logits[] = {logf(0.1f), logf(0.4f),  logf(0.2f),
                            logf(0.2f), logf(0.06f), logf(0.04f)};
    int counts[6];
    mnem_sampler_options o = plain(1);
    o.top_k = 3;
    count_choices(o, logits, 6, 20000, counts);
    assert_true(counts[1] && counts[2] && counts[3]);
    assert_int_equal(counts[1] + counts[2] + counts[3], 20000);
    o.top_k = 2; /* of the equals the lower id */
    count_choices(o, logits, 6, 20000, counts);
    assert_int_equal(counts[1] + counts[2], 20000);
    o = plain(1);
    o.top_p = 0.75f; /* 0.4 + 0.2 are not enough */
    count_choices(o, logits, 6, 20000, counts);
    assert_true(counts[3] > 0);
    assert_int_equal(counts[1] + counts[2] + counts[3], 20000);
    o.top_p = 0; /* the best stays */
    count_choices(o, logits, 6, 100, counts);
    assert_int_equal(counts[1], 100);
    o = plain(1);
    o.min_p = 0.24f; /* at least 0.096 */
    count_choices(o, logits, 6, 20000, counts);
    assert_true(counts[0] > 0);
    assert_int_equal(counts[4] + counts[5], 0);
    o.min_p = 1;
    count_choices(o, logits, 6, 100, counts);
    assert_int_equal(counts[1], 100);
}

/* The set that the cuts leave, by sorting. */
static int by_value(const void *a, const void *b) {
    const float *const *x = a, *const *y = b;
    if (**x != **y) return **x > **y ? -1 : 1;
    return *x < *y ? -1 : 1;
}

static void cuts_equal_their_definition(void **state) {
    (void)state;
    enum { N = 60 };
    uint32_t seed = 5;
    for (int round = 0; round < 200; round++) {
        float logits[N];
        const float *order[N];
        bool allowed[N] = {false};
        for (int i = 0; i < N; i++) {
            seed = seed * 1664525 + 1013904223;
            logits[i] = (float)(seed >> 24) / 40;
            order[i] = &logits[i];
        }
        mnem_sampler_options o = plain(1.5f);
        o.top_k = round % 3 ? 1 + round % 70 : 0;
        o.top_p = round % 4 ? 1 : (float)(1 + round % 9) / 10;
        o.min_p = round % 5 ? 0 : 0.2f;
        o.seed = (uint64_t)round;
        qsort(order, N, sizeof *order, by_value);
        const int k = o.top_k > 0 && o.top_k < N ? o.top_k : N;
        double total = 0, sum = 0;
        for (int i = 0; i < k; i++) total += exp((double)*order[i] - *order[0]);
        for (int i = 0; i < k; i++) {
            const double p = exp((double)*order[i] - *order[0]);
            if ((i == 0 || o.top_p == 1 || sum < o.top_p * total + 1e-9) && p >= o.min_p - 1e-6)
                allowed[order[i] - logits] = true;
            sum += p;
        }
        int counts[N];
        count_choices(o, logits, N, 500, counts);
        for (int i = 0; i < N; i++) assert_true(counts[i] == 0 || allowed[i]);
    }
}

static void repetition_costs_only_while_it_is_looked_back_at(void **state) {
    (void)state;
    mnem_sampler_options o = plain(0);
    o.repeat_penalty = 2;
    o.repeat_last = 2;
    mnem_sampler *s = create(o, 4);
    const float logits[] = {4, 3, -1, -1.5f};
    assert_int_equal(mnem_sampler_choose(s, logits), 0);
    mnem_sampler_accept(s, 0);
    mnem_sampler_accept(s, 0);
    assert_int_equal(mnem_sampler_choose(s, logits), 1); /* 4 / 2 < 3, once though seen twice */
    mnem_sampler_accept(s, 1);
    assert_int_equal(mnem_sampler_choose(s, logits), 0); /* 2 > 3 / 2 */
    mnem_sampler_accept(s, 1);
    assert_int_equal(mnem_sampler_choose(s, logits), 0);
    mnem_sampler_accept(s, 2);
    mnem_sampler_accept(s, 3);
    assert_int_equal(mnem_sampler_choose(s, (float[]){-9, -9, -1, -1.5f}), 2); /* -2 > -3 */
    mnem_sampler_accept(s, 2);
    mnem_sampler_accept(s, 2);
    assert_int_equal(mnem_sampler_choose(s, (float[]){-9, -9, -1, -1.5f}), 3); /* -2 < -1.5 */
    mnem_sampler_accept(s, -1);
    mnem_sampler_accept(s, 4); /* not a token: nothing */
    assert_int_equal(mnem_sampler_choose(s, logits), 0);
    mnem_sampler_destroy(s);
}

/* ---- biases, presence, frequency ---- */

enum { WORDS = 40, BIASES = 5 };

static uint32_t lcg(uint32_t *seed) {
    return *seed = *seed * 1664525 + 1013904223;
}

static float lcg_logit(uint32_t *seed) {
    return (float)(lcg(seed) >> 20) / 512 - 4;
}

/* As OpenAI defines it: logit + bias - c * frequency - (c > 0) * presence, c how often the token
 * was chosen; the repeat penalty between, of those told at all. */
static int32_t plain_best(const mnem_sampler_options *o, const float *logits, const int32_t *ids,
                          int32_t count, int32_t prompt) {
    int32_t best = -1;
    float best_value = 0;
    for (int32_t id = 0; id < WORDS; id++) {
        float value = logits[id], bias = 0;
        int32_t told = 0, chosen = 0;
        for (int32_t i = 0; i < o->bias_count; i++)
            if (o->bias[i].id == id) bias += o->bias[i].bias;
        for (int32_t i = 0; i < count; i++) {
            told += ids[i] == id && i >= count - o->repeat_last;
            chosen += ids[i] == id && i >= prompt;
        }
        value += bias;
        if (told) value = value > 0 ? value / o->repeat_penalty : value * o->repeat_penalty;
        if (chosen) value -= o->presence_penalty + o->frequency_penalty * (float)chosen;
        if (best < 0 || value > best_value) best = id, best_value = value;
    }
    return best;
}

static mnem_sampler_options random_penalties(uint32_t *seed, mnem_logit_bias *bias) {
    mnem_sampler_options o = {.top_p = 1};
    o.repeat_penalty = lcg(seed) >> 31 ? 1 : 1.3f;
    o.repeat_last = (int32_t)(lcg(seed) >> 28);
    o.presence_penalty = lcg(seed) >> 31 ? lcg_logit(seed) / 2 : 0;
    o.frequency_penalty = lcg(seed) >> 31 ? lcg_logit(seed) / 2 : 0;
    o.bias_count = lcg(seed) >> 31 ? BIASES : 0;
    for (int i = 0; i < BIASES; i++)
        bias[i] = (mnem_logit_bias){(int32_t)(lcg(seed) >> 16) % WORDS, 3 * lcg_logit(seed)};
    o.bias = bias;
    return o;
}

static void biases_and_penalties_equal_their_definition(void **state) {
    (void)state;
    uint32_t seed = 11;
    for (int round = 0; round < 300; round++) {
        enum { PROMPT = 10, CHOSEN = 20, RESET = 22 };
        mnem_logit_bias bias[BIASES];
        const mnem_sampler_options o = random_penalties(&seed, bias);
        int32_t ids[PROMPT + CHOSEN];
        mnem_sampler *s = create(o, WORDS);
        for (int i = 0; i < PROMPT; i++)
            mnem_sampler_accept(s, ids[i] = (int32_t)(lcg(&seed) >> 16) % WORDS);
        for (int n = PROMPT; n < PROMPT + CHOSEN; n++) {
            float logits[WORDS];
            for (int i = 0; i < WORDS; i++) logits[i] = lcg_logit(&seed);
            if (n == RESET) mnem_sampler_reset_chosen(s);
            ids[n] = mnem_sampler_choose(s, logits);
            assert_int_equal(ids[n], plain_best(&o, logits, ids, n, n < RESET ? PROMPT : RESET));
            mnem_sampler_accept_chosen(s, ids[n]);
        }
        mnem_sampler_destroy(s);
    }
}

static void the_best_is_found_wherever_it_is(void **state) {
    (void)state;
    enum { N = 83 }; /* not whole rows of lanes */
    const float odd[] = {NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX};
    uint32_t seed = 9;
    for (int round = 0; round < 500; round++) {
        float logits[N];
        int32_t best = 0;
        float most = -INFINITY;
        mnem_sampler *s = create((mnem_sampler_options){0}, N);
        for (int i = 0; i < N; i++)
            logits[i] = round % 3 ? (float)(lcg(&seed) >> 29) : odd[(lcg(&seed) >> 20) % 5];
        for (int32_t i = 0; i < N; i++) {
            const float value = logits[i] > FLT_MAX ? FLT_MAX : logits[i];
            if (value > most) best = i, most = value;
        }
        assert_int_equal(mnem_sampler_choose(s, logits), best);
        mnem_sampler_destroy(s);
    }
}

static void a_desk_of_many_texts_chooses_what_samplers_of_their_own_do(void **state) {
    (void)state;
    enum { TEXTS = 6, CHOSEN = 30 };
    uint32_t seed = 3;
    mnem_sampler *desk = NULL, *own[TEXTS];
    mnem_sampler_options o[TEXTS];
    mnem_logit_bias bias[TEXTS][BIASES];
    mnem__sampler_text text[TEXTS];
    int32_t ids[TEXTS][CHOSEN + 1];
    assert_int_equal(mnem__sampler_desk_create(WORDS, CHOSEN + 1, &desk), MNEM_OK);
    for (int t = 0; t < TEXTS; t++) {
        o[t] = random_penalties(&seed, bias[t]);
        o[t].temperature = t % 3 ? 0.9f : 0;
        o[t].top_k = t % 2 ? 0 : 7;
        o[t].min_p = 0.05f;
        o[t].seed = (uint64_t)t;
        own[t] = create(o[t], WORDS);
        text[t] = (mnem__sampler_text){&o[t], o[t].seed, ids[t], 1, 1};
        mnem_sampler_accept(own[t], ids[t][0] = t);
    }
    for (int n = 0; n < TEXTS * CHOSEN; n++) {
        const int t = n % TEXTS;
        float logits[WORDS];
        for (int i = 0; i < WORDS; i++) logits[i] = lcg_logit(&seed);
        mnem__sampler_sit(desk, &text[t]);
        const int32_t id = mnem_sampler_choose(desk, logits);
        mnem__sampler_rise(desk, &text[t]);
        assert_int_equal(id, mnem_sampler_choose(own[t], logits));
        mnem_sampler_accept_chosen(own[t], id);
        ids[t][text[t].count++] = id;
    }
    for (int t = 0; t < TEXTS; t++) mnem_sampler_destroy(own[t]);
    mnem_sampler_destroy(desk);
}

static void no_logits_lead_out_of_range(void **state) {
    (void)state;
    const float bad[][4] = {
        {NAN, NAN, NAN, NAN},
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY},
        {INFINITY, INFINITY, INFINITY, INFINITY},
        {NAN, -INFINITY, INFINITY, 0},
        {FLT_MAX, -FLT_MAX, FLT_MAX, 0},
        {NAN, NAN, NAN, -FLT_MAX},
    };
    const int32_t greedy[] = {0, 0, 0, 2, 0, 3};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            for (int t = 0; t < 3; t++) {
                mnem_sampler_options o = mnem_sampler_usual();
                o.temperature = t == 0 ? 0 : t == 1 ? 1e-30f : FLT_MAX;
                o.top_k = k;
                o.repeat_penalty = k % 2 ? 1 : 3;
                mnem_sampler *s = create(o, 4);
                for (int32_t id = 0; id < 4; id++) mnem_sampler_accept(s, id);
                const int32_t id = mnem_sampler_choose(s, bad[i]);
                assert_in_range(id, 0, 3);
                if (t == 0) assert_int_equal(id, greedy[i]);
                assert_true(i < 2 || (!isnan(bad[i][id]) && bad[i][id] != -INFINITY));
                mnem_sampler_destroy(s);
            }
}

static void options_of_zeros_choose_the_best_token(void **state) {
    (void)state;
    mnem_sampler *s;
    const float logits[4] = {1, 3, 2, 3};
    assert_int_equal(mnem_sampler_create(&(mnem_sampler_options){0}, 4, &s), MNEM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mnem_sampler_choose(s, logits), 1);
        mnem_sampler_accept(s, 1);
    }
    mnem_sampler_destroy(s);
}

static void options_out_of_range_are_named(void **state) {
    (void)state;
    const struct {
        const char *said;
        mnem_sampler_options o;
    } cases[] = {
        {"temperature", {.temperature = -1, .top_p = 1, .repeat_penalty = 1}},
        {"temperature", {.temperature = NAN, .top_p = 1, .repeat_penalty = 1}},
        {"top-k", {.top_k = -1, .top_p = 1, .repeat_penalty = 1}},
        {"top-p", {.top_p = 1.5f, .repeat_penalty = 1}},
        {"min-p", {.top_p = 1, .min_p = -0.1f, .repeat_penalty = 1}},
        {"repeat penalty", {.top_p = 1, .repeat_penalty = -1}},
        {"repeat last", {.top_p = 1, .repeat_penalty = 1, .repeat_last = -1}},
        {"presence", {.presence_penalty = INFINITY}},
        {"frequency", {.frequency_penalty = NAN}},
        {"DRY multiplier", {.dry_multiplier = -1}},
        {"DRY base", {.dry_base = 0.5f}},
        {"DRY base", {.dry_base = NAN}},
        {"DRY allowed length", {.dry_allowed_length = -1}},
        {"DRY penalty last", {.dry_penalty_last = (1 << 20) + 1}},
        {"DRY breakers", {.dry_breakers = {.word_count = 1}}},
        {"XTC probability", {.xtc_probability = 1.5f}},
        {"XTC threshold", {.xtc_threshold = -0.1f}},
        {"token 10", {.bias = (mnem_logit_bias[]){{10, 1}}, .bias_count = 1}},
        {"bias of token 9", {.bias = (mnem_logit_bias[]){{9, NAN}}, .bias_count = 1}},
        {"bias_count is -1", {.bias_count = -1}},
    };
    mnem_sampler *s = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mnem_sampler_create(&cases[i].o, 10, &s), MNEM_INVALID);
        assert_non_null(strstr(mnem_last_error(), cases[i].said));
    }
    const mnem_sampler_options o = mnem_sampler_usual();
    assert_int_equal(mnem_sampler_create(&o, 0, &s), MNEM_INVALID);
    assert_null(s);
}

static void choosing_allocates_nothing_and_creation_survives_no_memory(void **state) {
    (void)state;
    float logits[300];
    for (int i = 0; i < 300; i++) logits[i] = (float)(i % 17);
    mnem_sampler_options o = mnem_sampler_usual();
    o.repeat_penalty = 1.1f;
    o.presence_penalty = 1;
    o.dry_multiplier = 0.8f;
    o.xtc_probability = 0.5f;
    o.bias = (mnem_logit_bias[]){{3, 1}};
    o.bias_count = 1;
    mnem_heap_usage before, after;
    mnem_heap_usage_get(&before);
    mnem_status status = MNEM_NO_MEMORY;
    mnem_sampler *s = NULL;
    for (uint64_t n = 1; status != MNEM_OK && n < 20; n++) {
        mnem__heap_fail_at(n, false);
        status = mnem_sampler_create(&o, 300, &s);
        mnem__heap_fail_at(0, false);
        mnem_heap_usage_get(&after);
        if (status != MNEM_OK) assert_int_equal(after.bytes_live, before.bytes_live);
    }
    assert_int_equal(status, MNEM_OK);
    const uint64_t calls = after.calls;
    for (int i = 0; i < 100; i++) mnem_sampler_accept_chosen(s, mnem_sampler_choose(s, logits));
    mnem_heap_usage_get(&after);
    assert_int_equal(after.calls, calls);
    mnem_sampler_destroy(s);
    mnem_heap_usage_get(&after);
    assert_int_equal(after.bytes_live, before.bytes_live);
}

static void logprobs_are_those_of_the_softmax(void **state) {
    (void)state;
    const float logits[] = {1, 3, 2, 3, -9};
    mnem_token_logprob top[5];
    double sum = 0;
    for (int i = 0; i < 5; i++) sum += exp(logits[i]);
    for (int32_t id = 0; id < 5; id++)
        assert_true(fabs(mnem_logprobs_get(logits, 5, id, NULL, 0) - logits[id] + log(sum)) < 1e-5);
    const int32_t best[] = {1, 3, 2, 0, 4};
    for (int32_t count = 1; count <= 5; count++) {
        mnem_logprobs_get(logits, 5, 0, top, count);
        for (int32_t i = 0; i < count; i++) {
            assert_int_equal(top[i].id, best[i]);
            assert_true(fabs(top[i].logprob - logits[best[i]] + log(sum)) < 1e-5);
        }
    }
    const float large[] = {1e30f, -1e30f};
    assert_true(mnem_logprobs_get(large, 2, 0, NULL, 0) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_as_promised),
        cmocka_unit_test(zero_temperature_takes_the_largest_and_the_lowest_id_of_equals),
        cmocka_unit_test(frequencies_follow_the_probabilities),
        cmocka_unit_test(a_seed_gives_the_same_choices),
        cmocka_unit_test(cuts_keep_the_best_only),
        cmocka_unit_test(cuts_equal_their_definition),
        cmocka_unit_test(repetition_costs_only_while_it_is_looked_back_at),
        cmocka_unit_test(biases_and_penalties_equal_their_definition),
        cmocka_unit_test(the_best_is_found_wherever_it_is),
        cmocka_unit_test(a_desk_of_many_texts_chooses_what_samplers_of_their_own_do),
        cmocka_unit_test(no_logits_lead_out_of_range),
        cmocka_unit_test(options_of_zeros_choose_the_best_token),
        cmocka_unit_test(options_out_of_range_are_named),
        cmocka_unit_test(logprobs_are_those_of_the_softmax),
        cmocka_unit_test(choosing_allocates_nothing_and_creation_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
