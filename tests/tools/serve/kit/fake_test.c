/* fake_test.c: see fake_test.h. */
#include "tools/serve/kit/fake_test.h"

#include <stdio.h>
#include <string.h>

fake_serve fake;

int fake_teardown(void **state) {
    (void)state;
    fake_close(&fake);
    return 0;
}

int fake_setup_strict(void **state) {
    (void)state;
    fake_open(&(api_options){.name = "kjv", .strict_model = true}, &fake);
    fake.say = "God";
    return 0;
}

bool fake_serves(void) {
    static const char hi[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";
    return fake_post(&fake, "/v1/chat/completions", hi)->status == 200 && fake_ends_a_line();
}

int fake_teardown_serving(void **state) {
    assert_true(fake.submit != MNEM_OK || fake_serves());
    return fake_teardown(state);
}

/* ---- the last answer ---- */

bool fake_has(const char *text) {
    if (strstr(fake.answer.body, text)) return true;
    print_message("no %s in\n%s\n", text, fake.answer.body);
    return false;
}

int fake_count(const char *text) {
    int n = 0;
    for (const char *at = fake.answer.body; (at = strstr(at, text)); at++) n++;
    return n;
}

json_t *fake_last_line(void) {
    const char *body = fake.answer.body;
    const size_t n = strlen(body);
    assert_true(n && body[n - 1] == '\n');
    size_t begin = n - 1;
    while (begin && body[begin - 1] != '\n') begin--;
    json_t *line = json_loads(body + begin, 0, NULL);
    assert_non_null(line);
    return line;
}

json_int_t fake_number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

bool fake_ends_a_line(void) {
    const size_t n = fake.answer.bytes;
    return n > 2 && strcmp(fake.answer.body + n - 2, "}\n") == 0;
}

/* ---- requests ---- */

const char *fake_get(const char *path) {
    assert_int_equal(fake_send(&fake, "GET", path, "", 0)->status, 200);
    return fake.answer.body;
}

bool fake_refuses(const char *path, const char *body, int status, const char *param) {
    char line[128];
    const int got = fake_post(&fake, path, body)->status;
    if (got != status) print_message("%d for %s: %s\n", got, body, fake.answer.body);
    snprintf(line, sizeof line, param ? "\"param\":\"%s\"" : "\"param\":null", param);
    return got == status && fake_has("\"error\":{\"message\":\"") && fake_has(line) &&
           fake_ends_a_line();
}

const char *fake_prompted_as(const char *(*name_of)(int32_t id)) {
    static char text[4000];
    size_t used = 0;
    const fake_request *r = &fake.request[0];
    for (int32_t i = 0; i < r->request.prompt_tokens; i++) {
        const int32_t id = r->prompt[i];
        const char *name = name_of ? name_of(id) : NULL;
        const mnem_text piece =
            name ? (mnem_text){name, strlen(name)} : mnem_tokenizer_piece(fake.tokenizer, id, true);
        assert_true(used + piece.length < sizeof text);
        memcpy(text + used, piece.bytes, piece.length);
        used += piece.length;
    }
    text[used] = 0;
    return text;
}

const char *fake_prompted(void) {
    return fake_prompted_as(NULL);
}
