/* test_dry.c: DRY and XTC against their definition, which is llama.cpp's, and against numbers that
 * llama.cpp's own tests have.
 *
 * The definition here lists, for each breaker, every token that can begin it, and compares the end
 * of the text with every earlier place token by token. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "mnem/session.h"
#include "sampling/dry.h"
#include "sampling/sampler_desk.h"

enum { TOKENS = 300, TEXT = 120, SEQUENCES = 4096, TAIL = 20 };

static mnem_vocabulary *vocabulary;
static mnem_tokenizer *tokenizer;

static uint32_t lcg(uint32_t *seed) {
    return *seed = *seed * 1664525 + 1013904223;
}

static int32_t below(uint32_t *seed, int32_t n) {
    return (int32_t)((lcg(seed) >> 8) % (uint32_t)n);
}

/* ---- the definition ---- */

typedef struct sequence {
    int32_t head, tails, tail[TAIL];
} sequence;

typedef struct sequences {
    sequence one[SEQUENCES];
    int32_t count;
} sequences;

static void add_sequence(sequences *s, int32_t head, const char *rest) {
    sequence *q = &s->one[s->count++];
    const int32_t *ids;
    size_t n = 0;
    assert_true(s->count < SEQUENCES);
    q->head = head;
    if (*rest)
        must(mnem_tokenizer_encode(tokenizer, rest, strlen(rest),
                                   MNEM_ENCODE_NO_SPECIAL | MNEM_ENCODE_PLAIN, &ids, &n));
    q->tails = n > TAIL ? TAIL : (int32_t)n;
    for (int32_t i = 0; i < q->tails; i++) q->tail[i] = ids[i];
}

/* Every token that has the text, or ends with a beginning of it. */
static void list_sequences(sequences *s, const char *text) {
    for (int32_t id = 0; id < TOKENS; id++) {
        char word[300] = "";
        const mnem_text piece = mnem_tokenizer_piece(tokenizer, id, true);
        memcpy(word, piece.bytes, piece.length);
        if (strlen(word) < piece.length) continue; /* the byte 0 */
        if (strstr(word, text)) {
            add_sequence(s, id, "");
            continue;
        }
        for (size_t at = 0; at < piece.length; at++)
            if (strncmp(word + at, text, piece.length - at) == 0)
                add_sequence(s, id, text + piece.length - at);
    }
}

static bool is_single(const sequences *s, int32_t id) {
    for (int32_t i = 0; i < s->count; i++)
        if (s->one[i].head == id && s->one[i].tails == 0) return true;
    return false;
}

/* How many of the last tokens may count, of n. */
static int32_t most_of(const sequences *s, const int32_t *ids, int32_t n) {
    for (int32_t at = n - 1; at >= 0; at--) {
        int32_t longest = -1;
        for (int32_t i = 0; i < s->count; i++) {
            const sequence *q = &s->one[i];
            if (q->head == ids[at] && q->tails < n - at && q->tails > longest &&
                memcmp(q->tail, ids + at + 1, (size_t)q->tails * sizeof *ids) == 0)
                longest = q->tails;
        }
        if (longest >= 0) return n - 1 - at - longest;
    }
    return n;
}

/* The length of the repetition that each token would continue; -1: none, or it loses nothing. */
static void define(const mnem_sampler_options *o, const sequences *s, const int32_t *ids, int32_t n,
                   int32_t length[TOKENS]) {
    for (int32_t id = 0; id < TOKENS; id++) length[id] = -1;
    if (n > o->dry_penalty_last) {
        ids += n - o->dry_penalty_last;
        n = o->dry_penalty_last;
    }
    if (n <= o->dry_allowed_length || o->dry_multiplier == 0) return;
    const int32_t most = most_of(s, ids, n);
    for (int32_t at = 1; at < n; at++) {
        int32_t same = 0;
        while (same < at && ids[at - 1 - same] == ids[n - 1 - same]) same++;
        if (same > most) same = most;
        if (same < o->dry_allowed_length || is_single(s, ids[at])) continue;
        if (same > length[ids[at]]) length[ids[at]] = same;
    }
}

static float defined_penalty(const mnem_sampler_options *o, int32_t length) {
    int32_t exponent = length - o->dry_allowed_length;
    if (o->dry_base > 1.000001f) {
        const int32_t most = (int32_t)(88.7228391f / logf(o->dry_base));
        if (most > 0 && exponent > most) exponent = most;
    }
    return (float)(o->dry_multiplier * pow((double)o->dry_base, exponent));
}

/* ---- random texts ---- */

static mnem_sampler_options random_options(uint32_t *seed) {
    static const float base[] = {1, 1.1f, 1.75f, 4, 1e30f};
    return (mnem_sampler_options){.top_p = 1,
                                  .dry_multiplier = (float)(1 + below(seed, 20)) / 10,
                                  .dry_base = base[below(seed, 5)],
                                  .dry_allowed_length = below(seed, 5),
                                  .dry_penalty_last = 1 + below(seed, TEXT)};
}

/* Few different tokens, and copies of what was there: many repetitions. */
static int32_t random_text(uint32_t *seed, int32_t *ids) {
    static const char letters[] = "aab\n:xyz";
    const int32_t n = 1 + below(seed, TEXT - 1), kinds = 2 + below(seed, 30);
    int32_t alphabet[32];
    for (int32_t i = 0; i < kinds; i++)
        alphabet[i] =
            below(seed, 3) ? letters[below(seed, sizeof letters - 1)] : below(seed, TOKENS);
    for (int32_t i = 0; i < n; i++) ids[i] = alphabet[below(seed, kinds)];
    for (int32_t i = n / 2; i < n && below(seed, 4); i++) ids[i] = ids[i - n / 2];
    return n;
}

static int32_t random_breakers(uint32_t *seed, const char *text[MNEM_DRY_BREAKERS]) {
    static const char *const some[] = {
        "\n",  ":",     "a",       "ab",
        "aab", "b\n",   "the end", "x:",
        "yz",  "",      "abab",    "and",
        "hea", "\n\n:", "zxy",     "the beginning of the heaven and the eart"};
    const int32_t count = below(seed, 2) ? below(seed, MNEM_DRY_BREAKERS + 1) : 0;
    for (int32_t i = 0; i < count; i++) text[i] = some[below(seed, sizeof some / sizeof *some)];
    return count;
}

static void lengths_equal_their_definition(void **state) {
    (void)state;
    static int32_t words[MNEM_DRY_BREAKERS * MNEM_DRY_WORDS];
    static sequences all;
    uint32_t seed = 7;
    int32_t penalised = 0, broken = 0;
    for (int round = 0; round < 1500; round++) {
        const char *text[MNEM_DRY_BREAKERS];
        int32_t ids[TEXT], wanted[TOKENS];
        mnem__dry_run run[TEXT];
        mnem_sampler_options o = random_options(&seed);
        const int32_t n = random_text(&seed, ids), count = random_breakers(&seed, text);
        const int32_t window = n < o.dry_penalty_last ? n : o.dry_penalty_last;
        must(mnem_dry_breakers_init(tokenizer, text, count, words, sizeof words / sizeof *words,
                                    &o.dry_breakers));
        must(mnem__dry_check(&o.dry_breakers));
        all.count = 0;
        for (int32_t i = 0; i < count; i++)
            if (*text[i]) list_sequences(&all, text[i]);
        define(&o, &all, ids, n, wanted);
        const mnem__dry_text tail = {ids, n, n - 1, window};
        const int32_t found = mnem__dry_find(&o, &tail, run);
        for (int32_t id = 0, at = 0; id < TOKENS; id++) {
            const int32_t got = at < found && run[at].id == id ? run[at++].length : -1;
            if (got != wanted[id])
                fail_msg("round %d: token %d has %d, not %d", round, id, got, wanted[id]);
            if (got < 0) continue;
            assert_true(mnem__dry_penalty(&o, got) == defined_penalty(&o, got));
            penalised++;
        }
        broken += window > 0 && most_of(&all, ids + n - window, window) < window;
    }
    assert_true(penalised > 1000 && broken > 300);
}

/* The sampler's own ring, a desk, and the definition: the same best token. */
static void choices_equal_the_definition(void **state) {
    (void)state;
    static int32_t words[MNEM_DRY_BREAKERS * MNEM_DRY_WORDS];
    static sequences all;
    uint32_t seed = 21;
    mnem_sampler *desk;
    must(mnem__sampler_desk_create(TOKENS, TEXT, &desk));
    for (int round = 0; round < 60; round++) {
        const char *text[MNEM_DRY_BREAKERS];
        int32_t ids[TEXT], length[TOKENS], n = 0;
        mnem_sampler *own;
        mnem_sampler_options o = random_options(&seed);
        const int32_t count = random_breakers(&seed, text);
        must(mnem_dry_breakers_init(tokenizer, text, count, words, sizeof words / sizeof *words,
                                    &o.dry_breakers));
        all.count = 0;
        for (int32_t i = 0; i < count; i++)
            if (*text[i]) list_sequences(&all, text[i]);
        must(mnem_sampler_create(&o, TOKENS, &own));
        mnem__sampler_text seat = {&o, 0, ids, 0, 0};
        while (n < TEXT) {
            float logits[TOKENS];
            int32_t best = 0;
            for (int32_t id = 0; id < TOKENS; id++) logits[id] = -9;
            for (int i = 0; i < 4; i++) logits['a' + i] = 2 + (float)below(&seed, 100) / 100;
            logits['\n'] = 1 + (float)below(&seed, 180) / 100;
            define(&o, &all, ids, n, length);
            float most = -INFINITY;
            for (int32_t id = 0; id < TOKENS; id++) {
                const float value =
                    logits[id] - (length[id] < 0 ? 0 : defined_penalty(&o, length[id]));
                if (value > most) most = value, best = id;
            }
            seat.count = n;
            mnem__sampler_sit(desk, &seat);
            const int32_t seated = mnem_sampler_choose(desk, logits);
            mnem__sampler_rise(desk, &seat);
            assert_int_equal(seated, best);
            assert_int_equal(mnem_sampler_choose(own, logits), best);
            mnem_sampler_accept(own, ids[n++] = best);
        }
        mnem_sampler_destroy(own);
    }
    mnem_sampler_destroy(desk);
}

/* ---- numbers of llama.cpp's tests ---- */

static void penalties_are_those_of_llama_cpp(void **state) {
    (void)state;
    const struct {
        int32_t ids[8], n;
        float multiplier;
        int32_t allowed, last;
        const char *breaker;
        int32_t vocab;
        double wanted[5];
    } cases[] = {
        {{'a', 'b'}, 2, 1, 2, 4, NULL, 4, {0.25, 0.25, 0.25, 0.25}},
        {{'a', 'b', 'c', 'a', 'b'}, 5, 1, 2, 5, NULL, 4, {0.296923, 0.296923, 0.109232, 0.296923}},
        {{'a', 'b', 'd', 'e', 'a', 'b'}, 6, 1, 2, 6, "d", 5, {0.2, 0.2, 0.2, 0.2, 0.2}},
        {{'a', 'b', 'c', 'a', 'b'},
         5,
         2,
         2,
         5,
         NULL,
         5,
         {0.241818, 0.241818, 0.032727, 0.241818, 0.241818}},
        {{'a', 'b', 'c', 'd', 'e', 'a', 'b'}, 7, 1, 4, 7, NULL, 5, {0.2, 0.2, 0.2, 0.2, 0.2}},
    };
    int32_t words[MNEM_DRY_WORDS];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mnem_sampler_options o = {.dry_multiplier = cases[i].multiplier,
                                  .dry_base = 1.1f,
                                  .dry_allowed_length = cases[i].allowed,
                                  .dry_penalty_last = cases[i].last};
        const int32_t n = cases[i].n < cases[i].last ? cases[i].n : cases[i].last;
        const mnem__dry_text text = {cases[i].ids, cases[i].n, cases[i].n - 1, n};
        mnem__dry_run run[8];
        double weight[5] = {1, 1, 1, 1, 1}, sum = 0;
        must(mnem_dry_breakers_init(tokenizer, &cases[i].breaker, cases[i].breaker != NULL, words,
                                    MNEM_DRY_WORDS, &o.dry_breakers));
        const int32_t found = mnem__dry_find(&o, &text, run);
        for (int32_t k = 0; k < found; k++)
            weight[run[k].id - 'a'] = exp(-(double)mnem__dry_penalty(&o, run[k].length));
        for (int32_t k = 0; k < cases[i].vocab; k++) sum += weight[k];
        for (int32_t k = 0; k < cases[i].vocab; k++)
            assert_true(fabs(weight[k] / sum - cases[i].wanted[k]) < 1e-5);
    }
}

static void top_choices_are_excluded_as_by_llama_cpp(void **state) {
    (void)state;
    const float logits[] = {logf(0.4f), logf(0.3f), logf(0.2f), logf(0.1f)};
    const float threshold[] = {0.09f, 0.19f, 0.29f, 0.39f};
    const int32_t first[] = {3, 2, 1, 0}; /* of the tokens that are left */
    for (int i = 0; i < 4; i++) {
        mnem_sampler_options o = {
            .temperature = 1, .top_p = 1, .xtc_probability = 1, .xtc_threshold = threshold[i]};
        mnem_sampler *s;
        int count[4] = {0};
        must(mnem_sampler_create(&o, 4, &s));
        for (int k = 0; k < 500; k++) count[mnem_sampler_choose(s, logits)]++;
        mnem_sampler_destroy(s);
        for (int k = 0; k < 4; k++) assert_int_equal(count[k] > 0, k >= first[i]);
    }
}

/* ---- XTC ---- */

enum { N = 60 };

static int by_value(const void *a, const void *b) {
    const float *const *x = a, *const *y = b;
    if (**x != **y) return **x > **y ? -1 : 1;
    return *x < *y ? -1 : 1;
}

/* Sorted, cut by top-k, top-p and min-p, of what is left the probabilities, and from the last that
 * has the threshold on. Returns where the rest begins and *end. */
static int32_t define_rest(const mnem_sampler_options *o, const float **order, int32_t *end) {
    int32_t n = o->top_k > 0 && o->top_k < N ? o->top_k : N, first = 0;
    double total = 0, sum = 0;
    for (int32_t i = 0; i < n; i++) total += exp((double)*order[i] - *order[0]);
    for (int32_t i = 0; i < n; i++) {
        if (i > 0 && o->top_p < 1 && sum >= o->top_p * total) n = i;
        sum += exp((double)*order[i] - *order[0]);
    }
    while (n > 1 && *order[n - 1] < *order[0] + log(o->min_p)) n--;
    sum = 0;
    for (int32_t i = 0; i < n; i++) sum += exp((double)*order[i] - *order[0]);
    for (int32_t i = 0; i < n; i++)
        if (exp((double)*order[i] - *order[0]) / sum >= o->xtc_threshold) first = i;
    *end = n;
    return o->xtc_threshold > 0.5f ? 0 : first;
}

static void rests_equal_their_definition(void **state) {
    (void)state;
    uint32_t seed = 5;
    int excluded = 0;
    for (int round = 0; round < 600; round++) {
        float logits[N];
        const float *order[N];
        int32_t end, left[N] = {0};
        for (int i = 0; i < N; i++) {
            logits[i] = (float)below(&seed, 1000) / 100;
            order[i] = &logits[i];
        }
        mnem_sampler_options o = {.top_k = round % 3 ? 1 + round % 70 : 0,
                                  .top_p = round % 4 ? 1 : (float)(1 + round % 9) / 10,
                                  .min_p = round % 5 ? 0 : 0.2f,
                                  .xtc_probability = 1,
                                  .xtc_threshold = (float)below(&seed, 24) / 40,
                                  .seed = (uint64_t)round};
        mnem_sampler *s;
        qsort(order, N, sizeof *order, by_value);
        const int32_t first = define_rest(&o, order, &end);
        excluded += first > 0;
        for (int32_t i = first; i < end; i++) left[order[i] - logits] = 1;
        must(mnem_sampler_create(&o, N, &s)); /* without temperature: the best of the rest */
        assert_int_equal(mnem_sampler_choose(s, logits), order[first] - logits);
        mnem_sampler_destroy(s);
        o.temperature = 3;
        must(mnem_sampler_create(&o, N, &s));
        for (int k = 0; k < 60; k++) assert_int_equal(left[mnem_sampler_choose(s, logits)], 1);
        mnem_sampler_destroy(s);
    }
    assert_true(excluded > 100);
}

static void top_choices_go_as_often_as_asked(void **state) {
    (void)state;
    const float logits[] = {3, 2.5f, -9};
    const mnem_sampler_options o = {
        .xtc_probability = 0.3f, .xtc_threshold = 0.1f, .top_p = 1, .seed = 4};
    mnem_sampler *s;
    int second = 0;
    must(mnem_sampler_create(&o, 3, &s));
    for (int i = 0; i < 20000; i++) {
        const int32_t id = mnem_sampler_choose(s, logits);
        assert_true(id < 2);
        second += id == 1;
    }
    assert_in_range(second, 5700, 6300);
    mnem_sampler_destroy(s);
}

/* ---- bounds ---- */

static void breakers_have_bounds(void **state) {
    (void)state;
    const char *many[MNEM_DRY_BREAKERS + 1];
    const char forty[] = "0123456789012345678901234567890123456789",
               more[] = "01234567890123456789012345678901234567890";
    static int32_t words[MNEM_DRY_BREAKERS * MNEM_DRY_WORDS];
    mnem_dry_breakers b;
    for (int i = 0; i <= MNEM_DRY_BREAKERS; i++) many[i] = forty;
    must(mnem_dry_breakers_init(tokenizer, many, MNEM_DRY_BREAKERS, words,
                                sizeof words / sizeof *words, &b));
    assert_int_equal(mnem_dry_breakers_init(tokenizer, many, MNEM_DRY_BREAKERS + 1, words,
                                            sizeof words / sizeof *words, &b),
                     MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "number of DRY breakers is 17"));
    for (int32_t capacity = 0; capacity < 641; capacity += 20) {
        memset(words, 0x55, sizeof words);
        assert_int_equal(mnem_dry_breakers_init(tokenizer, many, 1, words, capacity, &b),
                         MNEM_INVALID);
        assert_int_equal(words[capacity], 0x55555555);
        assert_int_equal(b.word_count, 0);
    }
    many[0] = more;
    assert_int_equal(mnem_dry_breakers_init(tokenizer, many, 1, words, MNEM_DRY_WORDS, &b),
                     MNEM_INVALID);
    assert_non_null(strstr(mnem_last_error(), "41 bytes"));
}

static void damaged_words_are_refused(void **state) {
    (void)state;
    int32_t words[MNEM_DRY_WORDS], damaged[MNEM_DRY_WORDS];
    const char *text = "a line";
    uint32_t seed = 3;
    mnem_sampler_options o = {.dry_multiplier = 1, .dry_penalty_last = 8};
    mnem_sampler *s;
    must(mnem_dry_breakers_init(tokenizer, &text, 1, words, MNEM_DRY_WORDS, &o.dry_breakers));
    const int32_t n = o.dry_breakers.word_count;
    o.dry_breakers.words = damaged;
    memcpy(damaged, words, sizeof damaged);
    for (int32_t cut = 1; cut < n; cut++) {
        o.dry_breakers.word_count = cut;
        assert_int_equal(mnem_sampler_create(&o, TOKENS, &s), MNEM_INVALID);
        assert_non_null(strstr(mnem_last_error(), "DRY breakers"));
    }
    o.dry_breakers.word_count = n;
    for (int i = 0; i < 300; i++) { /* whatever is accepted is read within its words */
        memcpy(damaged, words, sizeof damaged);
        damaged[below(&seed, n)] = below(&seed, 30) - 4;
        if (mnem_sampler_create(&o, TOKENS, &s) != MNEM_OK) continue;
        for (int32_t k = 0; k < 12; k++) mnem_sampler_accept(s, "a line a lin"[k]);
        const float logits[TOKENS] = {0};
        assert_in_range(mnem_sampler_choose(s, logits), 0, TOKENS - 1);
        mnem_sampler_destroy(s);
    }
}

static void without_texts_they_are_the_usual_four(void **state) {
    (void)state;
    static const char *const four[] = {"\n", ":", "\"", "*"};
    int32_t a[4 * MNEM_DRY_WORDS], b[4 * MNEM_DRY_WORDS];
    mnem_dry_breakers x, y;
    must(mnem_dry_breakers_init(tokenizer, NULL, 0, a, sizeof a / sizeof *a, &x));
    must(mnem_dry_breakers_init(tokenizer, four, 4, b, sizeof b / sizeof *b, &y));
    assert_int_equal(x.word_count, y.word_count);
    assert_int_equal(mnem_dry_breakers_size(NULL, 0), x.word_count);
    assert_int_equal(
        mnem_dry_breakers_size((const char *[]){"", "0123456789012345678901234567890123"
                                                    "456789"},
                               2),
        MNEM_DRY_WORDS);
    assert_memory_equal(a, b, (size_t)x.word_count * sizeof *a);
}

/* ---- a tokenizer with some words ---- */

static int begin(void **state) {
    static const char text[] = "the beginning of the heaven and the earth and the end: ab aab abab "
                               "xyz the head\n\n:the hand\n\n:and the land\nab:\nx:\n";
    const char *file = kit_path("words.txt");
    (void)state;
    write_file(file, text, sizeof text - 1);
    must(
        mnem_vocabulary_learn(&(mnem_vocabulary_options){.tokens = TOKENS}, &file, 1, &vocabulary));
    must(mnem_tokenizer_create_from(vocabulary, &tokenizer));
    return 0;
}

static int end(void **state) {
    (void)state;
    mnem_tokenizer_destroy(tokenizer);
    mnem_vocabulary_destroy(vocabulary);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_equal_their_definition),
        cmocka_unit_test(choices_equal_the_definition),
        cmocka_unit_test(penalties_are_those_of_llama_cpp),
        cmocka_unit_test(top_choices_are_excluded_as_by_llama_cpp),
        cmocka_unit_test(rests_equal_their_definition),
        cmocka_unit_test(top_choices_go_as_often_as_asked),
        cmocka_unit_test(breakers_have_bounds),
        cmocka_unit_test(damaged_words_are_refused),
        cmocka_unit_test(without_texts_they_are_the_usual_four),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
