/* test_match.c: which tokens a grammar allows, alone and as masks, and what the sampler makes of
 * them.
 *
 * The vocabulary is that of the model that ships, but where tokens have to be chosen: there it is
 * the bytes, and an end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit_file.h"
#include "kit/kit_heap.h"
#include "mnem/mnem.h"
#include "sampling/grammar/match_case.h"

#define MODEL MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf"

static mnem_vocabulary *vocabulary;
static mnem_model *model;
static mnem_tokenizer *bytes, *shipped;
static mnem_token_set *byte_set, *shipped_set;
enum { BYTES = 257, END = 256 }; /* a byte's id is its value */

static int setup(void **state) {
    (void)state;
    const char *file = kit_path("text");
    write_file(file, "ab", 2);
    must(mnem_vocabulary_learn(&(mnem_vocabulary_options){.tokens = BYTES}, &file, 1, &vocabulary));
    must(mnem_tokenizer_create_from(vocabulary, &bytes));
    must(mnem_token_set_create(bytes, -1, &byte_set));
    must(mnem_model_open(MODEL, &model));
    must(mnem_tokenizer_create(model, &shipped));
    must(mnem_token_set_create(shipped, -1, &shipped_set));
    return 0;
}

static int teardown(void **state) {
    (void)state;
    mnem_token_set_destroy(shipped_set);
    mnem_tokenizer_destroy(shipped);
    mnem_model_close(model);
    mnem_token_set_destroy(byte_set);
    mnem_tokenizer_destroy(bytes);
    mnem_vocabulary_destroy(vocabulary);
    return 0;
}

typedef struct fixture {
    mnem_grammar *grammar;
    mnem_match *match;
} fixture;

static fixture open_grammar(const mnem_token_set *set, const char *text,
                            const mnem_grammar_options *options) {
    fixture f;
    must(mnem_grammar_create(set, text, strlen(text), options, &f.grammar));
    must(mnem_match_create(f.grammar, &f.match));
    return f;
}

static void close_grammar(fixture *f) {
    mnem_match_destroy(f->match);
    mnem_grammar_destroy(f->grammar);
}

static bool allows(mnem_match *m, int32_t id) {
    bool allowed;
    must(mnem_match_allows(m, id, &allowed));
    return allowed;
}

static bool in_mask(const uint64_t *mask, int32_t id) {
    return mask[id / 64] >> id % 64 & 1;
}

static void a_mask_says_of_every_token_what_asking_says(void **state) {
    static const char *const begins[] = {"",          "{",       "{\"a",    "{\"a\\",
                                         "{\"a\":[1", "{\"\xC3", "{\"a\": "};
    const char text[] =
        "root ::= v\nv ::= \"{\" w (s \":\" w v (\",\" w s \":\" w v)* w)? \"}\" | s | [0-9]+ |"
        " \"[\" (v (\",\" w v)*)? \"]\"\ns ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f] | \"\\\\\" [nt\"])* "
        "\"\\\"\"\nw ::= [ \\n]{0,2}";
    (void)state;
    fixture f = open_grammar(shipped_set, text, NULL);
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(shipped, &info);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        const uint64_t *mask;
        int some = 0;
        mnem_match_reset(f.match);
        match_text(f.match, begins[i]);
        must(mnem_match_mask(f.match, &mask));
        for (int32_t id = 0; id < info.vocab; id++) {
            if (in_mask(mask, id) != allows(f.match, id)) fail_msg("%s: token %d", begins[i], id);
            some += in_mask(mask, id);
        }
        assert_true(some > 0);
    }
    close_grammar(&f);
}

/* Masks of the shipped vocabulary behind each of several beginnings, beside asking. */
static void expect_masks(const char *grammar, const mnem_grammar_options *options,
                         const char *const *begins, size_t count) {
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(shipped, &info);
    fixture f = open_grammar(shipped_set, grammar, options);
    for (size_t i = 0; i < count; i++) {
        const uint64_t *mask;
        mnem_match_reset(f.match);
        match_text(f.match, begins[i]);
        must(mnem_match_mask(f.match, &mask));
        for (int32_t id = 0; id < info.vocab; id++)
            if (in_mask(mask, id) != allows(f.match, id))
                fail_msg("%s behind %s: token %d", grammar, begins[i], id);
    }
    close_grammar(&f);
}

/* Most tokens are plain text, which isn't walked along where any is allowed. */
static void a_mask_of_counted_text_is_right(void **state) {
    static const char *const begins[] = {"",         "\"",           "\"a",
                                         "\"ab\xC3", "\"abcdefghij", "\"abcdefghijklmn"};
    (void)state;
    for (int most = 0; most < 20; most++) {
        char text[160];
        snprintf(text, sizeof text,
                 "root ::= \"\\\"\" c{0,%d} \"\\\"\"?\nc ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" [nt]",
                 14 + most);
        expect_masks(text, NULL, begins, 6);
    }
    expect_masks("root ::= \"\\\"\" [^\"x\\\\\\x00-\\x1f]* \"\\\"\"", NULL, begins, 5);
    expect_masks("root ::= \"\\\"\" [a-z\\u0080-\\U0010FFFF]* \"\\\"\"", NULL, begins, 5);
    expect_masks("root ::= \"\\\"\" ([^\"\\\\\\x00-\\x1f]* | [a-z]{0,9} \"\\\\n\") \"\\\"\"", NULL,
                 begins, 5);
    expect_masks("root ::= \"\\\"\" (a? \"b\" a* | [\\u0100-\\u0fff] a* | [c-z]{0,3}) \"\\\"\"\n"
                 "a ::= [^\"\\\\\\x00-\\x1f] | \"\\\\\" \"n\"",
                 NULL, begins, 4);
}

/* A text that stands at any of 2^9 sets of places: more than the tables of a walk have states. */
static void a_mask_of_more_states_than_a_table_has_is_right(void **state) {
    static const char *const begins[] = {"", "a", "abcabcaa", "aaaaaaaaaaaa"};
    const mnem_grammar_options small = {.state_bytes = 1024};
    (void)state;
    expect_masks("root ::= [a-z]* [aeiou] [a-z]{9}", NULL, begins, 4);
    expect_masks("root ::= [a-z]* [aeiou] [a-z]{9}", &small, begins, 4);
    expect_masks("root ::= ([ a-zA-Z] | root [aeiou] r | [a-z] root \"t\")*\nr ::= [a-z] r?", NULL,
                 begins, 4);
}

static void end_tokens_are_allowed_where_a_text_may_end(void **state) {
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= \"a\" \"b\"?", NULL);
    const uint64_t *mask;
    assert_false(allows(f.match, END));
    assert_int_equal(mnem_match_accept(f.match, END), MNEM_INVALID);
    assert_int_equal(mnem_match_accept(f.match, 'b'), MNEM_INVALID);
    must(mnem_match_accept(f.match, 'a'));
    assert_true(allows(f.match, END) && allows(f.match, 'b') && !allows(f.match, 'a'));
    must(mnem_match_mask(f.match, &mask));
    assert_true(in_mask(mask, END) && in_mask(mask, 'b') && !in_mask(mask, 'a'));
    assert_false(mnem_match_is_done(f.match));
    must(mnem_match_accept(f.match, 'b'));
    assert_true(mnem_match_is_done(f.match));
    close_grammar(&f);
}

static void another_end_may_be_named(void **state) {
    mnem_token_set *set;
    (void)state;
    must(mnem_token_set_create(bytes, 'z', &set));
    fixture f = open_grammar(set, "root ::= \"z\"? \"a\"*", NULL);
    assert_true(allows(f.match, 'z')); /* as the end */
    must(mnem_match_accept(f.match, 'z'));
    assert_true(allows(f.match, 'a'));
    close_grammar(&f);
    mnem_token_set_destroy(set);
}

static void characters_may_be_split_among_tokens(void **state) {
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= [\\u00e9\\U0001F600]", NULL);
    assert_true(allows(f.match, 0xC3) && allows(f.match, 0xF0) && !allows(f.match, 0xE2));
    must(mnem_match_accept(f.match, 0xC3));
    assert_true(allows(f.match, 0xA9) && !allows(f.match, 0xA8) && !allows(f.match, END));
    must(mnem_match_accept(f.match, 0xA9));
    assert_true(mnem_match_is_done(f.match));
    close_grammar(&f);
}

static void copies_go_their_own_ways(void **state) {
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= (\"a\" | \"(\" root \")\")+", NULL);
    mnem_match *other;
    must(mnem_match_create(f.grammar, &other));
    match_text(f.match, "a((a");
    mnem_match_copy(other, f.match);
    match_text(f.match, "))");
    assert_true(mnem_match_may_end(f.match) && !mnem_match_may_end(other));
    match_text(other, ")a)");
    assert_true(mnem_match_may_end(other));
    mnem_match_reset(other);
    assert_false(allows(other, ')'));
    mnem_match_destroy(other);
    close_grammar(&f);
}

static void masks_that_come_again_are_cached(void **state) {
    static const mnem_grammar_options none = {.cache_bytes = 1};
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture f =
            open_grammar(shipped_set, "root ::= \"\\\"\" [a-z ]* \"\\\"\"", i ? &none : NULL);
        const uint64_t *mask;
        mnem_grammar_info info;
        for (int k = 0; k < 5; k++) {
            match_text(f.match, k ? "a" : "\"");
            must(mnem_match_mask(f.match, &mask));
        }
        mnem_grammar_info_get(f.grammar, &info);
        assert_int_equal(info.masks, 5);
        assert_int_equal(info.masks_cached, i ? 0 : 4);
        close_grammar(&f);
    }
}

/* ---- the choice ---- */

static mnem_sampler *sampler_of(float temperature, int32_t top_k) {
    mnem_sampler *s;
    const mnem_sampler_options o = {
        .temperature = temperature, .top_k = top_k, .top_p = 1, .repeat_penalty = 1, .seed = 7};
    must(mnem_sampler_create(&o, BYTES, &s));
    return s;
}

static int32_t choose(fixture *f, mnem_sampler *s, const float *logits) {
    int32_t id;
    must(mnem_match_choose(f->match, s, logits, &id));
    return id;
}

static void the_greedy_choice_is_the_best_that_is_allowed(void **state) {
    float logits[BYTES] = {0};
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= [ab] \"!\"", NULL);
    mnem_sampler *s = sampler_of(0, 0);
    logits['z'] = 9, logits['b'] = 2, logits[END] = 8;
    assert_int_equal(choose(&f, s, logits), 'b');
    logits['a'] = 3;
    assert_int_equal(choose(&f, s, logits), 'a');
    match_text(f.match, "a!");
    assert_int_equal(choose(&f, s, logits), -1); /* nothing can follow */
    mnem_sampler_destroy(s);
    close_grammar(&f);
}

static void frequencies_are_those_of_a_mask_before_the_softmax(void **state) {
    enum { ROUNDS = 40000 };
    float logits[BYTES];
    int counts[BYTES] = {0};
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= [a-d]", NULL);
    mnem_sampler *s = sampler_of(1, 0);
    for (int i = 0; i < BYTES; i++) logits[i] = (float)(i % 7) / 3;
    for (int i = 0; i < 4; i++) logits['a' + i] = logf((float)(i + 1)) - 1;
    for (int i = 0; i < ROUNDS; i++) counts[choose(&f, s, logits)]++;
    for (int i = 0; i < 4; i++)
        assert_in_range(counts['a' + i], (i + 1) * ROUNDS / 10 - 500, (i + 1) * ROUNDS / 10 + 500);
    assert_int_equal(counts['a'] + counts['b'] + counts['c'] + counts['d'], ROUNDS);
    mnem_sampler_destroy(s);
    close_grammar(&f);
}

/* Half of the two best is refused; the cut then keeps the two best that are allowed. */
static void cuts_share_out_what_they_leave_that_is_refused(void **state) {
    enum { ROUNDS = 40000 };
    float logits[BYTES];
    int counts[BYTES] = {0};
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= [a-c]", NULL);
    mnem_sampler *s = sampler_of(1, 2);
    for (int i = 0; i < BYTES; i++) logits[i] = -9;
    logits['z'] = 0, logits['a'] = 0, logits['b'] = logf(0.5f), logits['c'] = -3;
    for (int i = 0; i < ROUNDS; i++) counts[choose(&f, s, logits)]++;
    assert_int_equal(counts['a'] + counts['b'], ROUNDS);
    assert_in_range(counts['a'], ROUNDS * 5 / 6 - 500, ROUNDS * 5 / 6 + 500); /* 1/2 + 1/2 * 2/3 */
    mnem_sampler_destroy(s);
    close_grammar(&f);
}

static void without_a_grammars_refusal_the_choices_are_the_samplers(void **state) {
    float logits[BYTES];
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= [\\x00-\\x7f]*", NULL);
    mnem_sampler *with = sampler_of(1, 40), *without = sampler_of(1, 40);
    for (int i = 0; i < BYTES; i++) logits[i] = i < 128 ? (float)(i * 37 % 101) / 20 : -9;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(choose(&f, with, logits), mnem_sampler_choose(without, logits));
    mnem_sampler_destroy(with);
    mnem_sampler_destroy(without);
    close_grammar(&f);
}

static void a_token_of_minus_infinity_is_chosen_only_where_no_other_is_allowed(void **state) {
    float logits[BYTES];
    (void)state;
    fixture f = open_grammar(byte_set, "root ::= [xy]", NULL);
    mnem_sampler *s = sampler_of(1, 0);
    for (int i = 0; i < BYTES; i++) logits[i] = 0;
    logits['x'] = -INFINITY;
    assert_int_equal(choose(&f, s, logits), 'y');
    logits['y'] = -INFINITY;
    assert_int_equal(choose(&f, s, logits), 'x');
    mnem_sampler_destroy(s);
    close_grammar(&f);
}

static void without_memory_nothing_is_left(void **state) {
    (void)state;
    heap_sweep sweep = {.most = 200};
    mnem_status status;
    do {
        mnem_token_set *set = NULL;
        mnem_grammar *g = NULL;
        heap_sweep_begin(&sweep, false);
        status = mnem_token_set_create(bytes, -1, &set);
        if (status == MNEM_OK) status = mnem_grammar_create(set, "root ::= [a]", 12, NULL, &g);
        mnem_grammar_destroy(g);
        mnem_token_set_destroy(set);
    } while (heap_sweep_next(&sweep, status));
}

/* ---- steps: what a mask costs, whatever the machine ---- */

/* A mask at every byte of a text, each within so many steps. */
static void expect_steps(const char *schema, const char *text, uint64_t steps) {
    const mnem_grammar_options options = {.steps = steps};
    fixture f;
    must(mnem_grammar_create_schema(shipped_set, schema, strlen(schema), &options, &f.grammar));
    must(mnem_match_create(f.grammar, &f.match));
    for (size_t i = 0; i <= strlen(text); i++) {
        const uint64_t *mask;
        const char one[] = {text[i], 0};
        if (mnem_match_mask(f.match, &mask) != MNEM_OK)
            fail_msg("%.40s: %.*s: %s", schema, (int)i, text, mnem_last_error());
        match_text(f.match, one);
    }
    close_grammar(&f);
}

/* They took fewer than 100 steps, and 1,000. */
static void masks_of_many_values_and_members_take_few_steps(void **state) {
    enum { VALUES = 1000, MEMBERS = 5000, TEXT = 1 << 18 };
    static char text[TEXT];
    (void)state;
    char *at = stpcpy(text, "{\"enum\":[");
    for (int i = 0; i < VALUES; i++)
        at += sprintf(at, "%s\"the value %d of all\"", i ? "," : "", i);
    stpcpy(at, "]}");
    expect_steps(text, "\"the value 123 of all\"", 400);
    at = stpcpy(text, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < MEMBERS; i++)
        at += sprintf(at, "%s\"member_%d\":{\"type\":\"integer\"}", i ? "," : "", i);
    stpcpy(at, "}}");
    expect_steps(text, "{\"member_0\":1,\"member_2500\": 17,\"member_4999\":2}", 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_of_many_values_and_members_take_few_steps),
        cmocka_unit_test(a_mask_says_of_every_token_what_asking_says),
        cmocka_unit_test(a_mask_of_counted_text_is_right),
        cmocka_unit_test(a_mask_of_more_states_than_a_table_has_is_right),
        cmocka_unit_test(end_tokens_are_allowed_where_a_text_may_end),
        cmocka_unit_test(another_end_may_be_named),
        cmocka_unit_test(characters_may_be_split_among_tokens),
        cmocka_unit_test(copies_go_their_own_ways),
        cmocka_unit_test(masks_that_come_again_are_cached),
        cmocka_unit_test(the_greedy_choice_is_the_best_that_is_allowed),
        cmocka_unit_test(frequencies_are_those_of_a_mask_before_the_softmax),
        cmocka_unit_test(cuts_share_out_what_they_leave_that_is_refused),
        cmocka_unit_test(without_a_grammars_refusal_the_choices_are_the_samplers),
        cmocka_unit_test(a_token_of_minus_infinity_is_chosen_only_where_no_other_is_allowed),
        cmocka_unit_test(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
