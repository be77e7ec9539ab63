/* test_api_adapters.c: adapters by request: by number, by name, by what was set for all; and what
 * is refused. */
#include <stdio.h>
#include <string.h>

#include "engine/adapters/adapter_case.h"
#include "kit/kit_file.h"
#include "tools/serve/kit/live_serve.h"

enum { ADAPTERS = 2 };
static mnem_adapter adapters[ADAPTERS];
static char out[LIVE_ANSWER];

static int open_live(void **state) {
    (void)state;
    static const char *const names[ADAPTERS] = {"formal.v2.gguf", "adapter.gguf"};
    for (int i = 0; i < ADAPTERS; i++) {
        mnem_model *file;
        const char *path = kit_path(names[i]);
        adapter_make(live_model, path, &(adapter_recipe){.rank = 8, .seed = 5 + (uint32_t)i});
        must(mnem_model_open(path, &file));
        adapters[i] = (mnem_adapter){file, i ? 4 : 0};
    }
    live_open_with(&(api_options){.pooling = MNEM_POOLING_MEAN},
                   &(live_room){.sequences = 4, .adapters = adapters, .adapter_count = ADAPTERS});
    return 0;
}

static int close_live(void **state) {
    (void)state;
    live_close();
    for (int i = 0; i < ADAPTERS; i++) mnem_model_close((mnem_model *)(uintptr_t)adapters[i].model);
    return 0;
}

/* ---- what is said ---- */

enum { SAID = 2000 };

/* The likeliest tokens of an answer, with this value of "lora"; NULL: without the field. */
static void say(const char *lora, char said[SAID]) {
    char body[300];
    snprintf(body, sizeof body,
             "{\"prompt\":\"In the beginning\",\"max_tokens\":24,\"temperature\":0%s%s}",
             lora ? ",\"lora\":" : "", lora ? lora : "");
    if (live_ask("POST", "/v1/completions", body, out) != 200) fail_msg("%s: %s", body, out);
    const char *text = strstr(out, "\"text\":");
    assert_non_null(text);
    snprintf(said, SAID, "%.*s", (int)strcspn(text + 8, "\""), text + 8);
}

static void assert_says(const char *lora, const char *wanted) {
    char said[SAID];
    say(lora, said);
    assert_string_equal(said, wanted);
}

static void set_all(const char *body) {
    assert_int_equal(live_ask("POST", "/lora-adapters", body, out), 200);
    assert_string_equal(out, "{\"success\":true}\n");
}

static void refused(const char *path, const char *body, const char *text) {
    const int status = live_ask("POST", path, body, out);
    if (status != 400 || !strstr(out, text)) fail_msg("%s: %d %s", body, status, out);
}

static void refused_list(const char *lora, const char *text) {
    char body[300];
    snprintf(body, sizeof body, "{\"prompt\":\"a\",\"lora\":%s}", lora);
    refused("/v1/completions", body, text);
    if (*lora == '[') refused("/lora-adapters", lora, text);
}

/* ---- tests ---- */

static void adapters_are_listed_as_the_command_line_has_them(void **state) {
    (void)state;
    assert_int_equal(live_ask("GET", "/lora-adapters", "", out), 200);
    assert_non_null(strstr(out, "[{\"id\":0,\"name\":\"formal.v2\",\"path\":\""));
    assert_non_null(strstr(out, "formal.v2.gguf\",\"scale\":0,\"task_name\":\"\","));
    assert_non_null(strstr(out, "{\"id\":1,\"name\":\""));
    assert_non_null(strstr(out, "/adapter.gguf\",\"scale\":4,"));
    assert_null(strstr(out, "\"name\":\"adapter\"")); /* its folder's */
}

static void a_request_chooses_by_number_or_name(void **state) {
    (void)state;
    char none[SAID], first[SAID], second[SAID], both[SAID];
    say("[]", none);
    say("[{\"id\":0,\"scale\":5}]", first);
    say("[{\"id\":1,\"scale\":4}]", second);
    say("[{\"id\":0,\"scale\":5},{\"id\":1,\"scale\":-4}]", both);
    assert_string_not_equal(none, first);
    assert_string_not_equal(none, second);
    assert_string_not_equal(first, both);
    assert_says("[{\"name\":\"formal.v2\",\"scale\":5}]", first);
    assert_says("[{\"id\":0,\"scale\":5},{\"id\":1,\"scale\":0}]", first);
    assert_says("[{\"id\":1,\"scale\":0}]", none);
    assert_says(NULL, second); /* as the command line says */
    assert_says("null", second);
}

static void what_is_set_for_all_holds_where_a_request_says_nothing(void **state) {
    (void)state;
    char none[SAID], first[SAID];
    say("[]", none);
    say("[{\"id\":0,\"scale\":5}]", first);
    set_all("[{\"id\":0,\"scale\":5}]");
    assert_says(NULL, first);
    assert_says("[]", none);
    assert_int_equal(live_ask("GET", "/lora-adapters", "", out), 200);
    assert_non_null(strstr(out, "formal.v2.gguf\",\"scale\":5,"));
    assert_non_null(strstr(out, "/adapter.gguf\",\"scale\":0,"));
    set_all("[]");
    assert_says(NULL, none);
    set_all("[{\"id\":1,\"scale\":4}]");
}

static void embeddings_choose_too(void **state) {
    (void)state;
    static char as_said[LIVE_ANSWER], none[LIVE_ANSWER];
    assert_int_equal(live_ask("POST", "/v1/embeddings", "{\"input\":\"God\"}", as_said), 200);
    assert_int_equal(live_ask("POST", "/v1/embeddings", "{\"input\":\"God\",\"lora\":[]}", none),
                     200);
    assert_int_equal(live_ask("POST", "/v1/embeddings",
                              "{\"input\":\"God\",\"lora\":[{\"id\":1,\"scale\":4}]}", out),
                     200);
    assert_string_equal(out, as_said);
    assert_string_not_equal(out, none);
    refused("/v1/embeddings", "{\"input\":\"God\",\"lora\":[{\"id\":2}]}", "id");
}

static void what_there_is_not_is_refused(void **state) {
    (void)state;
    refused_list("[{\"name\":\"x\"}]",
                 "the adapter 'x' does not exist on this server, which has: formal.v2, ");
    refused_list("[{\"id\":2}]", "id");
    refused_list("[{\"id\":-1}]", "id");
    refused_list("[{\"scale\":1}]", "has neither 'id' nor 'name'");
    refused_list("[{\"id\":0,\"scale\":\"x\"}]", "scale");
    refused_list("[{\"id\":0,\"scale\":1e30}]", "scale");
    refused_list("[3]", "must be an object");
    refused_list("\"formal.v2\"", "must be a list of objects");
    refused_list("{\"id\":0}", "must be a list of objects");
    refused("/lora-adapters", "{\"id\":0}", "must be a list of objects");
    refused("/lora-adapters", "x", "must be a list of objects");
    refused("/lora-adapters", "", "must be a list of objects");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adapters_are_listed_as_the_command_line_has_them),
        cmocka_unit_test(a_request_chooses_by_number_or_name),
        cmocka_unit_test(what_is_set_for_all_holds_where_a_request_says_nothing),
        cmocka_unit_test(embeddings_choose_too),
        cmocka_unit_test(what_there_is_not_is_refused),
    };
    return cmocka_run_group_tests(tests, open_live, close_live);
}
