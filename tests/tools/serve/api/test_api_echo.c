/* test_api_echo.c: completions that begin with their prompt, as lm-evaluation-harness asks for it.
 *
 * What logprobs should be is computed here: from the logits of a session over the same ids, by a
 * log-softmax in double. */
#include "tools/serve/kit/live_serve.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { IDS = 64 };
static const char prompt[] = "In the beginning God created the heaven and the earth.";
static const char model_path[] = MNEM_TEST_DATA "/../../models/mnem-kjv-5m-q8_0.gguf";

static char out[LIVE_ANSWER];
static struct {
    int32_t ids[IDS], count, vocab;
    double logprob[IDS], best[IDS];
} want;

static bool expect(void *context, int32_t index, const float *logits) {
    double most = -INFINITY, sum = 0;
    (void)context;
    for (int32_t i = 0; i < want.vocab; i++) {
        most = fmax(most, (double)logits[i]);
    }
    for (int32_t i = 0; i < want.vocab; i++) sum += exp((double)logits[i] - most);
    if (index + 1 == want.count) return true;
    want.logprob[index + 1] = (double)logits[want.ids[index + 1]] - most - log(sum);
    want.best[index + 1] = -log(sum);
    return true;
}

static int compute(void **state) {
    mnem_opened o;
    mnem_tokenizer_info info;
    const mnem_engine_options options = {.context = 64, .threads = 1};
    const int32_t *ids;
    size_t n;
    (void)state;
    must(mnem_open(model_path, 256 << 20, &options, &o));
    mnem_tokenizer_info_get(o.tokenizer, &info);
    must(mnem_tokenizer_encode(o.tokenizer, prompt, strlen(prompt), 0, &ids, &n));
    if (n && info.add_eos && ids[n - 1] == info.eos) n--;
    assert_in_range(n, 5, IDS);
    memcpy(want.ids, ids, n * sizeof *ids);
    want.count = (int32_t)n;
    want.vocab = info.vocab;
    must(mnem_session_eval(o.session, want.ids, want.count, 0, expect, NULL));
    mnem_close(&o);
    return 0;
}

static json_t *ask(const char *body) {
    const int status = live_ask("POST", "/v1/completions", body, out);
    if (status != 200) fail_msg("%d: %s", status, out);
    json_t *root = json_loads(out, 0, NULL);
    assert_non_null(root);
    return root;
}

static json_t *choice_of(json_t *root, size_t i) {
    json_t *choice = json_array_get(json_object_get(root, "choices"), i);
    assert_non_null(choice);
    return choice;
}

static json_t *list_of(json_t *choice, const char *name, int32_t length) {
    json_t *list = json_object_get(json_object_get(choice, "logprobs"), name);
    assert_int_equal(json_array_size(list), length);
    return list;
}

/* The sum over a text's tokens, as perplexity has it, and each of them. */
static void check_logprobs(json_t *choice, int32_t length) {
    json_t *logprobs = list_of(choice, "token_logprobs", length);
    json_t *top = list_of(choice, "top_logprobs", length);
    assert_true(json_is_null(json_array_get(logprobs, 0)));
    assert_true(json_is_null(json_array_get(top, 0)));
    for (int32_t i = 1; i < want.count; i++) {
        const char *key;
        json_t *value;
        double best = -INFINITY;
        assert_float_equal(json_real_value(json_array_get(logprobs, (size_t)i)), want.logprob[i],
                           1e-3);
        json_object_foreach(json_array_get(top, (size_t)i), key, value) best =
            fmax(best, json_real_value(value));
        assert_float_equal(best, want.best[i], 1e-3);
    }
}

/* Tokens are the text, each where it is said to begin. */
static void check_tokens(json_t *choice, int32_t length) {
    const char *text = json_string_value(json_object_get(choice, "text"));
    json_t *tokens = list_of(choice, "tokens", length);
    json_t *offsets = list_of(choice, "text_offset", length);
    assert_int_equal(json_integer_value(json_array_get(offsets, 0)), 0);
    for (int32_t i = 1; i < want.count; i++) {
        const char *token = json_string_value(json_array_get(tokens, (size_t)i));
        const json_int_t at = json_integer_value(json_array_get(offsets, (size_t)i));
        const bool spaced = at == 0 && *token == ' ' && *text != ' '; /* the tokenizer's */
        assert_memory_equal(text + at, token + spaced, strlen(token + spaced));
    }
}

static void a_prompt_comes_with_its_logprobs(void **state) {
    (void)state;
    char body[1024];
    snprintf(body, sizeof body,
             "{\"prompt\":\"%s\",\"echo\":true,\"max_tokens\":0,\"logprobs\":1,\"temperature\":0}",
             prompt);
    json_t *root = ask(body), *choice = choice_of(root, 0);
    assert_string_equal(json_string_value(json_object_get(choice, "text")), prompt);
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "length");
    check_logprobs(choice, want.count);
    check_tokens(choice, want.count);
    json_t *usage = json_object_get(root, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), want.count);
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 0);
    json_decref(root);
}

/* As ids, two of them, and a token behind each, which clients cut off. */
static void ids_come_with_their_logprobs(void **state) {
    (void)state;
    char body[4096];
    size_t n = (size_t)snprintf(body, sizeof body, "{\"prompt\":[");
    for (int k = 0; k < 2; k++) {
        for (int32_t i = 0; i < want.count; i++)
            n += (size_t)snprintf(body + n, sizeof body - n, "%s%d",
                                  i   ? ","
                                  : k ? ",["
                                      : "[",
                                  want.ids[i]);
        n += (size_t)snprintf(body + n, sizeof body - n, "]");
    }
    snprintf(body + n, sizeof body - n,
             "],\"echo\":true,\"max_tokens\":1,\"logprobs\":2,\"temperature\":0,\"seed\":1234}");
    json_t *root = ask(body);
    for (size_t k = 0; k < 2; k++) {
        json_t *choice = choice_of(root, k);
        check_logprobs(choice, want.count + 1);
        check_tokens(choice, want.count + 1);
    }
    json_decref(root);
}

/* A token that ends the turn has an entry, though no text: lists have a length that is known. */
static void an_end_has_an_entry(void **state) {
    (void)state;
    char body[1024];
    mnem_tokenizer_info info = {0};
    mnem_model *model;
    mnem_tokenizer *tokenizer;
    must(mnem_model_open(model_path, &model));
    must(mnem_tokenizer_create(model, &tokenizer));
    mnem_tokenizer_info_get(tokenizer, &info);
    mnem_tokenizer_destroy(tokenizer);
    mnem_model_close(model);
    snprintf(body, sizeof body,
             "{\"prompt\":\"%s\",\"echo\":true,\"max_tokens\":5,\"logprobs\":0,"
             "\"logit_bias\":{\"%d\":100}}",
             prompt, info.eos);
    json_t *root = ask(body), *choice = choice_of(root, 0);
    assert_string_equal(json_string_value(json_object_get(choice, "text")), prompt);
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "stop");
    list_of(choice, "token_logprobs", want.count + 1);
    json_decref(root);
}

/* Without logprobs, with an answer, whole and as a stream; a stop string within the prompt stops
 * nothing. */
static void an_answer_follows_its_prompt(void **state) {
    (void)state;
    static const char fields[] = "\"max_tokens\":8,\"temperature\":0,\"stop\":\"beginning\"";
    char body[1024], whole[1024], told[1024] = "\"";
    snprintf(body, sizeof body, "{\"prompt\":\"%s\",%s}", prompt, fields);
    json_t *root = ask(body);
    snprintf(whole, sizeof whole, "%s%s", prompt,
             json_string_value(json_object_get(choice_of(root, 0), "text")));
    json_decref(root);
    snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"echo\":true,%s}", prompt, fields);
    root = ask(body);
    assert_string_equal(json_string_value(json_object_get(choice_of(root, 0), "text")), whole);
    json_decref(root);
    snprintf(body, sizeof body, "{\"prompt\":\"%s\",\"echo\":true,\"stream\":true,%s}", prompt,
             fields);
    assert_int_equal(live_ask("POST", "/v1/completions", body, out), 200);
    for (char *at = out; (at = strstr(at, "\"text\":\""));) {
        at += 8;
        strncat(told, at, (size_t)(strchr(at, '"') - at));
    }
    strcat(told, "\"");
    root = json_loads(told, JSON_DECODE_ANY, NULL);
    assert_string_equal(json_string_value(root), whole);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_prompt_comes_with_its_logprobs, live_setup,
                                        live_teardown),
        cmocka_unit_test_setup_teardown(ids_come_with_their_logprobs, live_setup, live_teardown),
        cmocka_unit_test_setup_teardown(an_end_has_an_entry, live_setup, live_teardown),
        cmocka_unit_test_setup_teardown(an_answer_follows_its_prompt, live_setup, live_teardown),
    };
    return cmocka_run_group_tests(tests, compute, NULL);
}
