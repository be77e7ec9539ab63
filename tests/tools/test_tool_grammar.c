/* test_tool_grammar.c: answers by a grammar or a schema: what is admitted comes and nothing else,
 * mistakes are told with their place before anything runs, and what is cut says so. */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "kit/kit.h"
#include "mnem/mnem.h"
#include "tools/chat/chat_run.h"
#include "tools/chat/model_copy.h"
#include "tools/tool_run.h"

#define PROMPT    "In the beginning God created"
#define YES_OR_NO "root ::= \"yes\" | \"no\"\n"
#define PERSON                                                                                     \
    "{\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\", \"maxLength\": 12}," \
    "\"age\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 969},"                          \
    "\"tribe\": {\"enum\": [\"Levi\", \"Judah\"]}}, \"required\": [\"name\", \"age\"]}"

static void assert_one_of(const char *text, const char *a, const char *b) {
    if (strcmp(text, a) != 0 && strcmp(text, b) != 0)
        fail_msg("\"%s\" is neither \"%s\" nor \"%s\"", text, a, b);
}

static void an_answer_is_what_the_grammar_admits_and_ends_with_it(void **state) {
    (void)state;
    const char *grammar = tool_file("yes.gbnf", YES_OR_NO);
    for (int i = 0; i < 3; i++) {
        const char *const temperature[] = {"0", "0.8", "1.5"};
        const tool_result r = RUN("run", "-p", PROMPT, "--grammar", grammar, "-q", "--seed", "5",
                                  "--temp", temperature[i]);
        assert_int_equal(r.code, 0);
        assert_one_of(r.out, "yes", "no");
        assert_string_equal(r.err, "");
    }
}

static void a_schemas_answer_is_json_that_it_admits(void **state) {
    static const char *const kv[] = {"f16", "q8_0", "f32", "q4_0", "q8_0:q4_0"};
    (void)state;
    const char *schema = tool_file("person.json", PERSON);
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++) {
        const tool_result r = RUN("run", "-p", PROMPT, "--json-schema", schema, "-q", "--seed", "3",
                                  "--temp", "1.5", "--kv", kv[i]);
        assert_int_equal(r.code, 0);
        json_t *person = json_loads(r.out, 0, NULL);
        const char *name = json_string_value(json_object_get(person, "name"));
        if (!name) fail_msg("%s", r.out);
        assert_in_range(json_integer_value(json_object_get(person, "age")), 1, 969);
        json_decref(person);
    }
}

/* Tokens of single bytes: whatever the length, what is told is whole characters of the text. */
static void an_answer_that_is_cut_ends_with_a_character(void **state) {
    (void)state;
    static const char whole[] = "\"a\xc3\xa9\xe2\x82\xac\"";
    for (int n = 1; n <= 7; n++) {
        char tokens[8];
        snprintf(tokens, sizeof tokens, "%d", n);
        const tool_result r = RUN(
            "run", "-p", PROMPT, "--json-schema",
            "{\"type\": \"string\", \"pattern\": \"^a\xc3\xa9\xe2\x82\xac$\"}", "-q", "-n", tokens);
        assert_int_equal(r.code, 0);
        size_t length = strlen(r.out);
        while (length && r.out[length - 1] == '\n') length--;
        if (strncmp(whole, r.out, length) != 0) fail_msg("%d tokens: %s", n, r.out);
        if (length == 3 || length == 5 || length == 6)
            fail_msg("%d tokens: a part of a character", n);
    }
}

/* r has 2000 ways back, which 3000 calls at its end look through: more steps than one token may
 * take. */
static void a_grammar_that_passes_a_bound_is_over_no_budget(void **state) {
    enum { WAYS = 2000, CALLS = 3000 };
    static char text[16 * (WAYS + CALLS)];
    char *at = stpcpy(text, "root ::= \"z\"");
    (void)state;
    for (int i = 0; i < WAYS; i++) at = stpcpy(at, "|r\"1\"");
    at = stpcpy(at, "\nr ::= \"x\" (s");
    for (int i = 0; i < CALLS; i++) at = stpcpy(at, "|s");
    stpcpy(at, ")\ns ::= \"y\"\n");
    const tool_result r = RUN("run", "-p", PROMPT, "--grammar", tool_file("ways.gbnf", text), "-q",
                              "--seed", "1", "--temp", "0");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "one token takes more than 100000000 steps"));
    assert_null(strstr(r.err, "--memory"));
}

static void the_grammar_may_come_through_a_pipe(void **state) {
    (void)state;
    const tool_result r =
        RUN_INPUT(YES_OR_NO, "run", "-p", PROMPT, "--grammar", "-", "-q", "--temp", "0");
    assert_int_equal(r.code, 0);
    assert_one_of(r.out, "yes", "no");
    const tool_result both = RUN_INPUT(YES_OR_NO, "run", "-f", "-", "--grammar", "-", "-q");
    assert_int_equal(both.code, 2);
    assert_non_null(
        strstr(both.err, "both the prompt and the grammar are read from standard input"));
}

static void an_answer_that_is_cut_says_that_it_is_incomplete(void **state) {
    (void)state;
    const char *schema = tool_file("person.json", PERSON);
    tool_result r =
        RUN("run", "-p", PROMPT, "--json-schema", schema, "-q", "-n", "3", "--seed", "1");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.err, "mnem: warning: the answer is incomplete: -n ended it before the "
                               "text matched the grammar\n");
    const char *endless = tool_file("endless.gbnf", "root ::= [a-z ]+\n");
    r = RUN("run", "-p", PROMPT, "--grammar", endless, "-q", "-n", "3", "--seed", "1");
    assert_string_equal(r.err, ""); /* it may end anywhere */
}

static void json_says_that_the_grammar_ended_it(void **state) {
    (void)state;
    const tool_result r = RUN("run", "-p", PROMPT, "--grammar", tool_file("yes.gbnf", YES_OR_NO),
                              "--json", "--seed", "1");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "\"end\":\"grammar\""));
}

static void mistakes_have_a_line_and_a_column_and_nothing_runs(void **state) {
    (void)state;
    const char *bad = tool_file("bad.gbnf", "root ::= a\na ::= \"x\" | [z-a]\n");
    char expected[512];
    tool_result r = RUN("run", "-p", PROMPT, "--grammar", bad);
    snprintf(expected, sizeof expected,
             "mnem: %s: grammar: line 2, column 14: a range in [...] ends before it begins; "
             "swap its ends\n",
             bad);
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, expected);
    assert_string_equal(r.out, "");
    bad = tool_file("bad.json", "{\"properties\": {\"a\": {\"$dynamicRef\": \"#a\"}}}");
    r = RUN("run", "-p", PROMPT, "--json-schema", bad);
    snprintf(expected, sizeof expected,
             "mnem: %s: schema: #/properties/a: the keyword \"$dynamicRef\" is not supported\n",
             bad);
    assert_int_equal(r.code, 1);
    assert_string_equal(r.err, expected);
    r = RUN("run", "-p", PROMPT, "--grammar", bad, "--json-schema", bad);
    assert_int_equal(r.code, 2);
    assert_non_null(strstr(r.err, "give one of them"));
}

/* As llama.cpp's options of these names have it. */
static void a_grammar_may_stand_on_the_command_line(void **state) {
    (void)state;
    tool_result r = RUN("run", "-p", PROMPT, "--grammar", "root ::= \"yes\" | \"no\"", "-q");
    assert_int_equal(r.code, 0);
    assert_one_of(r.out, "yes", "no");
    r = RUN("run", "-p", PROMPT, "--json-schema", " {\"type\": \"integer\", \"const\": 7}", "-q");
    assert_int_equal(r.code, 0);
    assert_string_equal(r.out, "7");
    r = RUN("run", "-p", PROMPT, "--grammar", "root ::= a", "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "mnem: --grammar: grammar: line 1"));
    r = RUN("run", "-p", PROMPT, "--json-schema", "{", "-q");
    assert_int_equal(r.code, 1);
    assert_non_null(strstr(r.err, "mnem: --json-schema: "));
}

static void a_chats_grammar_begins_anew_with_each_answer(void **state) {
    static const char template[] =
        "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}";
    (void)state;
    const char *model = model_copy(template, 256);
    CHAT("run", model, "--temp", "0", "--grammar",
         tool_file("verse.gbnf", "root ::= \"verse \" [0-9] \";\"\n"));
    size_t at = expect_from(0, "> ");
    for (int i = 0; i < 2; i++) {
        type("Which?\n");
        at = expect_from(at, "verse ");
        at = expect_from(at, ";");
        at = expect_from(at, "> ");
    }
    type("/quit\n");
    assert_int_equal(chat_end(), 0);
}

/* What the grammar takes is in the plan: the peak that was predicted holds. */
static void the_grammars_bytes_are_planned(void **state) {
    (void)state;
    const tool_result r = RUN("run", "-p", PROMPT, "--grammar", tool_file("yes.gbnf", YES_OR_NO),
                              "-v", "--temp", "0");
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.err, "grammar"));
}

/* Each prompt's answer is what it would be alone, with its own place in the grammar. */
static void several_prompts_follow_the_grammar_each_by_itself(void **state) {
    static const char *const prompts[] = {PROMPT, "And the LORD said", "Now these are", "Selah"};
    static const char *const seeds[] = {"7", "8", "9", "10"};
    static char alone[4][512];
    (void)state;
    const char *schema = tool_file("person.json", PERSON);
    for (int i = 0; i < 4; i++) {
        const tool_result r = RUN("run", "-p", prompts[i], "--json-schema", schema, "-q", "--seed",
                                  seeds[i], "--temp", "1.5", "-n", "60");
        snprintf(alone[i], sizeof alone[i], "%s", r.out);
    }
    const tool_result r =
        RUN("run", "-p", prompts[0], "-p", prompts[1], "-p", prompts[2], "-p", prompts[3],
            "--json-schema", schema, "--seed", "7", "--temp", "1.5", "-n", "60", "--json");
    assert_int_equal(r.code, 0);
    const char *line = r.out;
    for (int i = 0; i < 4; i++, line = strchr(line, '\n') + 1) {
        json_t *answer = json_loadb(line, strcspn(line, "\n"), 0, NULL);
        assert_string_equal(json_string_value(json_object_get(answer, "text")), alone[i]);
        json_decref(answer);
    }
}

/* ---- marks of calls in vocabularies that have them as control tokens ---- */

static int32_t id_of(const char *text) {
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    const int32_t *ids;
    size_t n;
    must(mnem_model_open(tool_model, &model));
    must(mnem_tokenizer_create(model, &tokenizer));
    must(mnem_tokenizer_encode(tokenizer, text, strlen(text), MNEM_ENCODE_NO_SPECIAL, &ids, &n));
    const int32_t id = ids[0];
    assert_int_equal(n, 1);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    return id;
}

static void check_mark(const mnem_token_set *tokens, int32_t id, bool marked) {
    static const char text[] = "root ::= \"And\" \"!\"";
    const mnem_grammar_options options = {.marks = &id, .mark_count = marked};
    mnem_grammar *grammar;
    mnem_match *match;
    const uint64_t *mask;
    bool allowed;
    size_t fits;
    must(mnem_grammar_create(tokens, text, sizeof text - 1, &options, &grammar));
    must(mnem_match_create(grammar, &match));
    must(mnem_match_allows(match, id, &allowed));
    assert_int_equal(allowed, marked);
    must(mnem_match_mask(match, &mask));
    assert_int_equal(mask[id / 64] >> id % 64 & 1, marked);
    if (marked) {
        must(mnem_match_accept(match, id));
        assert_false(mnem_match_may_end(match));
        must(mnem_match_allows(match, id, &allowed));
        assert_false(allowed);
        must(mnem_match_accept_text(match, "!", 1, &fits));
        assert_true(mnem_match_is_done(match));
    } else
        assert_int_equal(mnem_match_accept(match, id), MNEM_INVALID);
    mnem_match_destroy(match);
    mnem_grammar_destroy(grammar);
}

static void a_mark_stands_where_the_grammar_has_its_text(void **state) {
    (void)state;
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_token_set *tokens;
    const int32_t id = id_of("And");
    must(mnem_model_open(model_copy_with("{{ messages }}", 256, id), &model));
    must(mnem_tokenizer_create(model, &tokenizer));
    must(mnem_token_set_create(tokenizer, -1, &tokens));
    assert_int_equal(mnem_tokenizer_piece(tokenizer, id, false).length, 0);
    check_mark(tokens, id, false);
    check_mark(tokens, id, true);
    mnem_token_set_destroy(tokens);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_what_the_grammar_admits_and_ends_with_it),
        cmocka_unit_test(a_mark_stands_where_the_grammar_has_its_text),
        cmocka_unit_test(a_schemas_answer_is_json_that_it_admits),
        cmocka_unit_test(an_answer_that_is_cut_ends_with_a_character),
        cmocka_unit_test(a_grammar_that_passes_a_bound_is_over_no_budget),
        cmocka_unit_test(the_grammar_may_come_through_a_pipe),
        cmocka_unit_test(an_answer_that_is_cut_says_that_it_is_incomplete),
        cmocka_unit_test(json_says_that_the_grammar_ended_it),
        cmocka_unit_test(mistakes_have_a_line_and_a_column_and_nothing_runs),
        cmocka_unit_test(a_grammar_may_stand_on_the_command_line),
        cmocka_unit_test(a_chats_grammar_begins_anew_with_each_answer),
        cmocka_unit_test(the_grammars_bytes_are_planned),
        cmocka_unit_test(several_prompts_follow_the_grammar_each_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
