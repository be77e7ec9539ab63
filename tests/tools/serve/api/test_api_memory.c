/* test_api_memory.c: what takes more memory than there is, for a body, an answer, a grammar or a
 * prompt: it is refused with its bytes, and the next request is served. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static const char chat[] = "/v1/chat/completions";
enum { NAME_BYTES = 60 };

static char *filled(size_t n, const char *begin, const char *unit, const char *end) {
    char *body = malloc(n + 256);
    size_t at = (size_t)sprintf(body, "%s", begin);
    while (at < n) at += (size_t)sprintf(body + at, "%s", unit);
    sprintf(body + at, "%s", end);
    return body;
}

static void bodies_never_cost_more_than_their_bound(void **state) {
    (void)state;
    static const char *const units[][3] = {
        {"{\"prompt\":[", "0,", "0]}"},
        {"{\"prompt\":\"a\",\"x\":[", "{},", "{}]}"},
        {"{\"prompt\":\"a\",\"x\":[", "[],", "[]]}"},
        {"{\"prompt\":\"a\",\"x\":[", "{\"a\":{\"b\":0}},", "0]}"},
        {"{\"prompt\":\"a\",\"x\":[", "\"\",", "0]}"},
        {"{\"prompt\":\"", "ab ", "\"}"},
    };
    fake_close(&fake);
    fake_open(&(api_options){.json_bytes = 4 << 20}, &fake);
    fake.say = "God";
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        mnem_process_usage before, after;
        char *body = filled(1 << 20, units[i][0], units[i][1], units[i][2]);
        must(mnem_process_usage_get(&before));
        const int status = fake_post(&fake, "/v1/completions", body)->status;
        must(mnem_process_usage_get(&after));
        free(body);
        assert_true(status == 413 || status == 400);
        assert_true(after.bytes_peak < before.bytes_resident + 40 * MIB);
    }
}

static void nesting_is_bounded(void **state) {
    (void)state;
    char *body = filled(100000, "{\"x\":", "[", "");
    assert_true(fake_refuses(chat, body, 400, NULL));
    assert_true(fake_has("nested more than"));
    free(body);
    body = filled(100000, "{\"x\":", "{\"a\":", "");
    assert_true(fake_refuses(chat, body, 400, NULL));
    free(body);
}

static void what_takes_too_much_is_refused_and_given_back(void **state) {
    (void)state;
    mnem_ledger_info before, after;
    fake_close(&fake);
    fake_open(&(api_options){.memory_bytes = 64 << 10}, &fake);
    fake.say = "God";
    assert_true(fake_serves());
    mnem_ledger_info_get(fake.ledger, &before);
    fake_post(&fake, "/v1/completions", "{\"prompt\":\"a\",\"n\":32,\"logprobs\":20}");
    assert_int_equal(fake.answer.status, 413);
    assert_true(fake_has("\"type\":\"request_too_large\""));
    fake_leave(&fake);
    mnem_ledger_info_get(fake.ledger, &after);
    assert_int_equal(before.bytes_live, after.bytes_live);
}

/* Before anything is computed, where that is known; as a stream nothing is kept. */
static void logprobs_beyond_the_memory_are_413_at_once(void **state) {
    (void)state;
    static const char *const fields[] = {"\"max_tokens\":250", "\"max_tokens\":2,\"n\":3",
                                         "\"max_tokens\":0,\"echo\":true"};
    static const int statuses[] = {413, 200, 413};
    char ids[900] = "0", body[1200];
    for (int i = 0; i < 200; i++) strcat(ids, ",0");
    fake_close(&fake);
    fake_open_with(&(api_options){.memory_bytes = 64 << 10}, 512, &fake);
    fake.say = "God";
    for (int i = 0; i < 3; i++) {
        snprintf(body, sizeof body, "{\"prompt\":[%s],\"logprobs\":20,%s}", i == 2 ? ids : "0",
                 fields[i]);
        fake.submitted = 0;
        assert_int_equal(fake_post(&fake, "/v1/completions", body)->status, statuses[i]);
        assert_int_equal(fake.submitted > 0, statuses[i] == 200);
    }
    /* Between those that fit and those that don't even begin some turn out too large. */
    bool late = false;
    for (int n = 3; n <= 32; n++) {
        snprintf(body, sizeof body, "{\"prompt\":[0],\"logprobs\":20,\"max_tokens\":2,\"n\":%d}",
                 n);
        fake.submitted = 0;
        const int status = fake_post(&fake, "/v1/completions", body)->status;
        assert_true(status == 200 || status == 413);
        late |= status == 413 && fake.submitted == n;
    }
    assert_true(late);
    fake_post(&fake, "/v1/completions",
              "{\"prompt\":[0],\"logprobs\":20,\"max_tokens\":250,\"stream\":true}");
    assert_int_equal(fake.answer.status, 200);
}

static void grammar_bombs_do_no_harm(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "{\"prompt\":\"a\",\"grammar\":\"root ::= a{9999}\\na ::= b{9999}\\nb ::= [a-z]{9999}\"}",
        "{\"prompt\":\"a\",\"grammar\":\"root ::= root root\"}",
        "{\"prompt\":\"a\",\"json_schema\":{\"type\":\"array\",\"minItems\":100000000,\"items\":{"
        "\"type\":\"array\",\"minItems\":100000000}}}",
        "{\"prompt\":\"a\",\"json_schema\":{\"type\":\"string\",\"pattern\":"
        "\"^((((a{1,500}){1,500}){1,500}){1,500})$\"}}",
        "{\"prompt\":\"a\",\"json_schema\":{\"$ref\":\"#\"}}",
    };
    char *deep = filled(60000, "{\"prompt\":\"a\",\"grammar\":\"root ::= ", "(", "\"}");
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        /* Refused, or served inside the bounds of a grammar: never a wait, never more bytes. */
        const int status = fake_post(&fake, "/v1/completions", bodies[i])->status;
        assert_true(status == 400 || status == 200);
    }
    assert_int_equal(fake_post(&fake, "/v1/completions", deep)->status, 400);
    free(deep);
}

/* Nothing of their prompts is computed: a text of them is tried before. */
static void what_explodes_in_the_answer_is_refused_before_the_prompt(void **state) {
    (void)state;
    char body[1000], *at = body;
    at = stpcpy(at, "{\"prompt\":\"a\",\"grammar\":\"root ::= a30\\n");
    for (int i = 1; i <= 30; i++)
        at += sprintf(at, "a%d ::= a%d a%d | a%d\\n", i, i - 1, i - 1, i - 1);
    stpcpy(at, "a0 ::= [a-z ]?\"}");
    fake_close(&fake);
    fake_open(&(api_options){.grammar_bytes = 8 << 20, .template_bytes = 8 << 20}, &fake);
    fake.say = "aaaa";
    assert_true(fake_refuses("/v1/completions", body, 400, "grammar"));
    assert_int_equal(fake.submitted, 0);
    assert_true(fake_has("too many of its alternatives begin alike"));
    assert_null(strstr(fake.answer.body, "state_bytes"));
}

/* Each case that may still come has a place in the state of the text. */
static void many_cases_that_begin_alike_are_written(void **state) {
    (void)state;
    enum { CASES = 300 };
    static char body[CASES * 120 + 200], *at = body;
    at = stpcpy(at, "{\"prompt\":\"a\",\"max_tokens\":100,\"json_schema\":{\"anyOf\":[");
    for (int i = 0; i < CASES; i++)
        at += sprintf(at,
                      "%s{\"properties\":{\"a\":{\"type\":\"string\"},\"b%d\":{\"const\":1}},"
                      "\"required\":[\"a\",\"b%d\"]}",
                      i ? "," : "", i, i);
    stpcpy(at, "]}}");
    fake_close(&fake);
    fake_open(&(api_options){.grammar_bytes = 8 << 20, .template_bytes = 8 << 20}, &fake);
    fake.say = "{\"a\":\"x\",\"b7\":1}";
    assert_int_equal(fake_post(&fake, "/v1/completions", body)->status, 200);
    assert_true(fake_has("{\\\"a\\\":\\\"x\\\",\\\"b7\\\":1}"));
    fake_close(&fake);
    fake_open(&(api_options){.grammar_bytes = 1 << 20, .template_bytes = 1 << 20}, &fake);
    assert_true(fake_refuses("/v1/completions", body, 400, "json_schema"));
    assert_true(fake_has("start with --memory"));
}

/* Nobody else is in the way: to try again wouldn't help. */
static void more_grammars_than_there_is_room_for_are_400(void **state) {
    (void)state;
    fake_close(&fake);
    fake_open(&(api_options){.grammar_bytes = 1 << 20}, &fake);
    fake.say = "God";
    assert_true(fake_refuses("/v1/completions",
                             "{\"prompt\":\"a\",\"n\":32,\"grammar\":\"root ::= \\\"a\\\"\"}", 400,
                             NULL));
    assert_int_equal(
        fake_post(&fake, "/v1/completions", "{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\"}")
            ->status,
        200);
}

/* A schema of n members that may be left out. Their long names make it large: as many bytes of more
 * members, whose names are compared with one another, would take longer. */
static char *schema_of(int n) {
    char *body = malloc((size_t)n * 400 + 256);
    char *at = stpcpy(body, "{\"prompt\":\"a\",\"json_schema\":{\"properties\":{");
    for (int i = 0; i < n; i++)
        at += sprintf(at, "%s\"%d%0*d\":{\"type\":\"string\"}", i ? "," : "", i, NAME_BYTES, i);
    stpcpy(at, "}}}");
    return body;
}

/* A server whose parts are what a budget gives. */
static void open_within(uint64_t budget) {
    const uint64_t part = budget / API_PARTS;
    fake_close(&fake);
    fake_open(&(api_options){.grammar_bytes = part, .template_bytes = part}, &fake);
    fake.say = "{}";
}

static int answer_to(const char *body) {
    return fake_post(&fake, "/v1/completions", body)->status;
}

static uint64_t number_behind(const char *key) {
    const char *at = strstr(fake.answer.body, key);
    if (!at) fail_msg("no %s: %s", key, fake.answer.body);
    return strtoull(at + strlen(key), NULL, 10);
}

/* Refused before the prompt is read, with the bytes and with a budget that is enough. */
static void a_refused_schema_is_taken_with_the_budget_that_is_named(void **state) {
    (void)state;
    static const int sizes[] = {800, 1200};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *body = schema_of(sizes[i]);
        open_within(64 << 20);
        assert_true(fake_refuses("/v1/completions", body, 400, "json_schema"));
        assert_int_equal(fake.submitted, 0);
        assert_true(fake_has("\"code\":\"over_budget\""));
        const uint64_t least = number_behind("\"least\":");
        assert_int_equal(number_behind("\"budget_bytes\":"), 1 << 20);
        assert_int_equal(number_behind("\"needed_bytes\":"), least / API_PARTS);
        assert_true(least > 64 << 20 && least <= (uint64_t)API_PARTS * API_PART_MOST);
        open_within(least);
        if (answer_to(body) != 200)
            fail_msg("with %llu: %s", (unsigned long long)least, fake.answer.body);
        open_within(least - API_PARTS); /* a byte less */
        assert_int_equal(answer_to(body), 400);
        free(body);
    }
}

/* The compiling uses the renderings' part, which nobody uses then, too. */
static void a_thousand_values_are_taken_with_2_mib(void **state) {
    (void)state;
    char *body = malloc(1 << 20), *at = body;
    at = stpcpy(at, "{\"prompt\":\"a\",\"json_schema\":{\"enum\":[");
    for (unsigned i = 0, n = 12345; i < 1000; i++) {
        char word[32];
        for (size_t j = 0; j < sizeof word; j++, n = n * 1103515245 + 12345)
            word[j] = (char)('a' + (n >> 16) % 26);
        at += sprintf(at, "%s\"%.*s\"", i ? "," : "", (int)sizeof word, word);
    }
    stpcpy(at, "]}}");
    open_within(128 << 20);
    if (answer_to(body) != 200) fail_msg("%s", fake.answer.body);
    free(body);
}

static void what_no_budget_has_room_for_says_so(void **state) {
    (void)state;
    char *body = schema_of(3000);
    open_within(512 << 20);
    assert_true(fake_refuses("/v1/completions", body, 400, "json_schema"));
    assert_true(fake_has("more than 8388608 bytes"));
    assert_null(strstr(fake.answer.body, "\"least\""));
    free(body);
}

static void what_can_never_fit_is_400_with_the_bytes(void **state) {
    (void)state;
    fake.submit = MNEM_OVER_BUDGET;
    fake.refusal = (mnem_request_refusal){.needed_tokens = 9,
                                          .context_tokens = 8, /* as pages lack */
                                          .needed_bytes = 100,
                                          .budget_bytes = 50,
                                          .least_bytes = 1000};
    assert_true(fake_refuses("/v1/completions", "{\"prompt\":\"a\"}", 400, NULL));
    assert_true(fake_has("\"code\":\"over_budget\""));
    assert_true(fake_has("\"needed_bytes\":100,\"budget_bytes\":50,\"least\":1000"));
    fake.refusal = (mnem_request_refusal){.needed_tokens = 9, .context_tokens = 8};
    assert_true(fake_refuses("/v1/completions", "{\"prompt\":\"a\"}", 400, NULL));
    assert_true(fake_has("\"code\":\"context_length_exceeded\""));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_setup_strict, fake_teardown_serving)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(bodies_never_cost_more_than_their_bound),
        TEST(nesting_is_bounded),
        TEST(what_takes_too_much_is_refused_and_given_back),
        TEST(logprobs_beyond_the_memory_are_413_at_once),
        TEST(grammar_bombs_do_no_harm),
        TEST(what_explodes_in_the_answer_is_refused_before_the_prompt),
        TEST(many_cases_that_begin_alike_are_written),
        TEST(more_grammars_than_there_is_room_for_are_400),
        TEST(a_refused_schema_is_taken_with_the_budget_that_is_named),
        TEST(a_thousand_values_are_taken_with_2_mib),
        TEST(what_no_budget_has_room_for_says_so),
        TEST(what_can_never_fit_is_400_with_the_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
