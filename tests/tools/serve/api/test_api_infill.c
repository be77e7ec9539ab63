/* test_api_infill.c: holes between two texts, in three protocols; and what is refused of them. The
 * model that ships has no tokens for that: some of its others stand for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/api_private.h"
#include "tools/serve/kit/fake_test.h"

static const api_fim none = {-1, -1, -1, -1, -1, -1}, all = {3, 4, 5, 6, 7, 8};

static int open_fake(void **state) {
    (void)state;
    fake_open_with(&(api_options){0}, 200, &fake);
    return 0;
}

static const char *name_of(int32_t id) {
    static const char *const names[] = {"<P>", "<S>", "<M>", "<X>", "<R>", "<F>"};
    return id >= 3 && id <= 8 ? names[id - 3] : NULL;
}

/* The last prompt: its tokens for holes as letters, the others as text. */
static const char *prompted(void) {
    return fake_prompted_as(name_of);
}

static void post(const char *path, const char *body, const char *prompt) {
    assert_int_equal(fake_post(&fake, path, body)->status, 200);
    if (!strstr(prompted(), prompt)) fail_msg("%s: %s, not %s", body, prompted(), prompt);
}

static void holes_become_prompts(void **state) {
    (void)state;
    fake.api->slot->served->model.fim = all;
    fake.say = "God said";
    post("/v1/completions", "{\"prompt\":\"ab\",\"suffix\":\"cd\"}", "<P>ab<S>cd<M>");
    assert_true(fake_has("\"text\":\"God said\""));
    assert_null(strstr(prompted(), "<R>"));
    post("/api/generate", "{\"prompt\":\"ab\",\"suffix\":\"cd\",\"stream\":false}",
         "<P>ab<S>cd<M>");
    assert_true(fake_has("\"response\":\"God said\""));
    post("/infill", "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"prompt\":\"ef\"}",
         "<R>myproject\n<F>filename\n<P>abef<S>cd<M>");
    assert_true(fake_has("\"content\":\"God said\"") && fake_has("\"stop_type\":\"eos\""));
    post("/infill",
         "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"n_predict\":1,\"input_extra\":[{\"text\":"
         "\"gh\",\"filename\":\"a.c\"},{\"text\":\"ij\"}]}",
         "<R>myproject\n<F>a.c\ngh<F>tmp\nij<F>filename\n<P><S><M>");
    fake.api->slot->served->model.fim.rep = fake.api->slot->served->model.fim.sep = -1;
    post("/infill",
         "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"input_extra\":[{\"text\":\"gh\"}]}",
         "\n\n--- snippet ---\n\ngh<P>ab<S>cd<M>");
}

static void an_empty_suffix_is_none(void **state) {
    (void)state;
    fake.api->slot->served->model.fim = none;
    fake.say = "God";
    assert_int_equal(
        fake_post(&fake, "/v1/completions", "{\"prompt\":\"ab\",\"suffix\":\"\"}")->status, 200);
    assert_int_equal(
        fake_post(&fake, "/api/generate", "{\"prompt\":\"ab\",\"suffix\":\"\"}")->status, 200);
}

/* Other tokens of the model's text aren't told, and the answer ends there. */
static void a_token_around_holes_ends_the_answer(void **state) {
    (void)state;
    static const char body[] = "{\"input_prefix\":\"ab\",\"input_suffix\":\"cd\",\"stream\":true}";
    const int32_t *ids;
    size_t n;
    fake.say = "God said";
    assert_int_equal(mnem_tokenizer_encode(fake.tokenizer, fake.say, strlen(fake.say),
                                           MNEM_ENCODE_NO_SPECIAL, &ids, &n),
                     MNEM_OK);
    assert_true(n > 1);
    fake.api->slot->served->model.fim = all;
    fake.api->slot->served->model.fim.pad = ids[n - 1];
    assert_int_equal(fake_post(&fake, "/infill", body)->status, 200);
    assert_true(fake_has("\"stop_type\":\"eos\""));
    assert_null(strstr(fake.answer.body, "said"));
}

static char *long_body(const char *format, int prefix, int suffix) {
    char *body = malloc(8000), *text[2];
    const int counts[] = {prefix, suffix};
    assert_non_null(body);
    for (int k = 0; k < 2; k++) {
        text[k] = calloc(1, 3000);
        assert_non_null(text[k]);
        for (int i = 0; i < counts[k]; i++)
            sprintf(text[k] + strlen(text[k]), "%c ", k ? 'y' : 'x');
    }
    snprintf(body, 8000, format, text[0], text[1]);
    for (int k = 0; k < 2; k++) free(text[k]);
    return body;
}

static int letters_in(const char *text, char letter) {
    int n = 0;
    for (; *text; text++) n += *text == letter;
    return n;
}

static void what_does_not_fit_is_cut_or_refused(void **state) {
    (void)state;
    static const char infill[] =
        "{\"input_prefix\":\"%s\",\"input_suffix\":\"%s\",\"n_predict\":4}";
    static const char text[] = "{\"prompt\":\"%s\",\"suffix\":\"%s\",\"max_tokens\":4}";
    fake.api->slot->served->model.fim = all;
    fake.say = "God";
    const int rows[][2] = {{600, 600}, {600, 3}, {3, 600}};
    for (int i = 0; i < 3; i++) {
        char *body = long_body(infill, rows[i][0], rows[i][1]);
        assert_int_equal(fake_post(&fake, "/infill", body)->status, 200);
        assert_in_range(fake.request[0].request.prompt_tokens, 150, 199);
        const char *said = prompted();
        assert_non_null(strstr(said, "<P>"));
        assert_non_null(strstr(said, "<S>"));
        assert_non_null(strstr(said, "<M>"));
        assert_null(strstr(said, "myproject"));
        assert_true(letters_in(said, 'x') >= (rows[i][0] > 3 ? 60 : 3));
        assert_true(letters_in(said, 'y') >= (rows[i][1] > 3 ? 15 : 3));
        free(body);
        body = long_body(text, rows[i][0], rows[i][1]);
        assert_int_equal(fake_post(&fake, "/v1/completions", body)->status, 400);
        assert_true(fake_has("context_length_exceeded"));
        free(body);
    }
}

static const struct {
    bool fim;
    const char *path, *body, *param;
} refused[] = {
    {false, "/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix"},
    {false, "/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}", "input_suffix"},
    {true, "/v1/completions", "{\"prompt\":[1],\"suffix\":\"b\"}", "prompt"},
    {true, "/v1/completions", "{\"prompt\":\"a\",\"suffix\":1}", "suffix"},
    {true, "/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\",\"echo\":true}", "echo"},
    {true, "/infill", "{\"input_prefix\":\"a\"}", "input_suffix"},
    {true, "/infill", "{\"input_suffix\":\"a\"}", "input_prefix"},
    {true, "/infill", "{\"input_prefix\":[],\"input_suffix\":\"b\"}", "input_prefix"},
    {true, "/infill", "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"prompt\":1}", "prompt"},
    {true, "/infill", "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"input_extra\":{}}",
     "input_extra"},
    {true, "/infill", "{\"input_prefix\":\"\",\"input_suffix\":\"\",\"input_extra\":[{}]}",
     "input_extra[0]"},
    {true, "/completion", "{\"prompt\":\"a\",\"input_prefix\":\"b\"}", "input_prefix"},
};

static void what_is_no_hole_is_refused(void **state) {
    (void)state;
    char param[80];
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        fake.api->slot->served->model.fim = refused[i].fim ? all : none;
        fake_post(&fake, refused[i].path, refused[i].body);
        snprintf(param, sizeof param, "\"param\":\"%s\"", refused[i].param);
        if (fake.answer.status != 400 || !strstr(fake.answer.body, param))
            fail_msg("%s: %d %s", refused[i].body, fake.answer.status, fake.answer.body);
    }
    fake.api->slot->served->model.fim = none;
    assert_int_equal(
        fake_post(&fake, "/api/generate", "{\"prompt\":\"a\",\"suffix\":\"b\"}")->status, 400);
    assert_true(fake_has("{\"error\":\"'suffix' is not supported: the vocabulary of this model"));
}

/* ---- /v1/messages/count_tokens ---- */

static void tokens_of_messages_are_counted(void **state) {
    (void)state;
    static const char path[] = "/v1/messages/count_tokens";
    char text[60];
    fake.say = "God";
    fake_post(&fake, "/v1/messages",
              "{\"max_tokens\":4,\"system\":\"Be.\",\"messages\":[{\"role\":\"user\",\"content\":"
              "\"Hi\"}]}");
    snprintf(text, sizeof text, "{\"input_tokens\":%d}\n", fake.request[0].request.prompt_tokens);
    assert_int_equal(
        fake_post(&fake, path,
                  "{\"system\":\"Be.\",\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}")
            ->status,
        200);
    assert_string_equal(fake.answer.body, text);
    char *body = long_body("{\"messages\":[{\"role\":\"user\",\"content\":\"%s%s\"}]}", 600, 100);
    assert_int_equal(fake_post(&fake, path, body)->status, 200);
    assert_true(atoi(fake.answer.body + strlen("{\"input_tokens\":")) > 600);
    free(body);
    assert_int_equal(fake_post(&fake, path, "{\"messages\":[]}")->status, 400);
    assert_true(
        fake_has("{\"type\":\"error\",\"error\":{\"message\":\"'messages' is an empty list"));
}

/* An editor asks for holes where Ollama's template has a word for the text behind one. */
static void the_template_says_that_holes_are_filled(void **state) {
    (void)state;
    for (int fills = 0; fills < 2; fills++) {
        fake.api->slot->listing.known.fills = fills;
        assert_int_equal(fake_post(&fake, "/api/show", "{}")->status, 200);
        assert_int_equal(strstr(fake.answer.body, "\"insert\"") != NULL, fills);
        assert_int_equal(strstr(fake.answer.body, "\"{# .Suffix #}") != NULL, fills);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holes_become_prompts),
        cmocka_unit_test(an_empty_suffix_is_none),
        cmocka_unit_test(a_token_around_holes_ends_the_answer),
        cmocka_unit_test(what_does_not_fit_is_cut_or_refused),
        cmocka_unit_test(what_is_no_hole_is_refused),
        cmocka_unit_test(tokens_of_messages_are_counted),
        cmocka_unit_test(the_template_says_that_holes_are_filled),
    };
    return cmocka_run_group_tests(tests, open_fake, fake_teardown);
}
