/* test_api_schemas.c: what schemas of tools say is held to in every format that models write calls
 * in, and what can't be held to is named. Which values are valid is jsonschema's word. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/serve/kit/fake_test.h"

static char noted[4000];
static const char path[] = "/v1/chat/completions";

#define BODY       "{% for m in messages %}{{ m.content }}{% endfor %}"
#define TOOLS_HEAD "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}"
static const char coder[] = "{# <tool_call> <function=f> <parameter=p> #}" TOOLS_HEAD BODY;
static const char glm[] = "{# <tool_call> <arg_key> #}" TOOLS_HEAD BODY;
static const char hermes[] = "{# <tool_call> #}" TOOLS_HEAD BODY;

static void on_note(void *context, const char *text) {
    (void)context;
    snprintf(noted, sizeof noted, "%s", text);
}

static void open_with(const char *template) {
    noted[0] = 0;
    fake_open_with(&(api_options){.template = fake_text(template), .on_note = on_note}, 600, &fake);
}

/* A required call of f, whose parameters these are. */
static void post(const char *parameters, const char *more) {
    char *body = malloc(strlen(parameters) + 500);
    sprintf(body,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":560,"
            "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":%s}}],"
            "\"tool_choice\":\"required\",\"parallel_tool_calls\":false%s}",
            parameters, more);
    fake_post(&fake, path, body);
    free(body);
    if (fake.answer.status != 200) fail_msg("%s: %s", parameters, fake.answer.body);
}

/* The arguments of the first call; NULL: there is none, or they were cut. */
static json_t *arguments_of(const char *body) {
    json_t *root = json_loads(body, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(root, "choices"), 0);
    const json_t *calls = json_object_get(json_object_get(choice, "message"), "tool_calls");
    const json_t *function = json_object_get(json_array_get(calls, 0), "function");
    const char *text = json_string_value(json_object_get(function, "arguments"));
    json_t *arguments = text ? json_loads(text, 0, NULL) : NULL;
    json_decref(root);
    return arguments;
}

/* Whether f is called with exactly this, where that is what the model would say. */
static bool calls_with(const char *parameters, const char *want) {
    json_t *expected = json_loads(want, 0, NULL);
    post(parameters, "");
    json_t *got = arguments_of(fake.answer.body);
    assert_non_null(expected);
    const bool same = got && json_equal(got, expected);
    json_decref(got);
    json_decref(expected);
    return same;
}

/* ---- texts of tagged calls ---- */

typedef struct text_case {
    const char *schema, *text, *json; /* of the argument a; json NULL: it is refused */
} text_case;

static const text_case texts[] = {
    {"{\"type\":\"string\",\"const\":\"decision\"}", "decision", "\"decision\""},
    {"{\"type\":\"string\",\"const\":\"decision\"}", "I think", NULL},
    {"{\"const\":\"a \\\"b\\\"\\\\ <c\"}", "a \"b\"\\ <c", "\"a \\\"b\\\"\\\\ <c\""},
    {"{\"enum\":[\"red\",null]}", "null", "null"},
    {"{\"enum\":[\"red\",null]}", "red", "\"red\""},
    {"{\"enum\":[\"red\",null]}", "blue", NULL},
    {"{\"enum\":[\"1\",1,true]}", "1", "\"1\""},
    {"{\"enum\":[\"1\",1,true]}", "true", "true"},
    {"{\"enum\":[\"null\",null]}", "null", "\"null\""},
    {"{\"enum\":[\"nullable\",null]}", "nullable", "\"nullable\""},
    {"{\"anyOf\":[{\"const\":\"x\"},{\"const\":\"y\"}]}", "y", "\"y\""},
    {"{\"anyOf\":[{\"const\":\"x\"},{\"const\":\"y\"}]}", "z", NULL},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "null", "null"},
    {"{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", "nullify", "\"nullify\""},
    {"{\"anyOf\":[{\"type\":\"string\",\"maxLength\":3},{\"type\":\"null\"}]}", "null", "null"},
    {"{\"anyOf\":[{\"type\":\"string\",\"maxLength\":3},{\"type\":\"null\"}]}", "nulls", NULL},
    {"{\"oneOf\":[{\"const\":\"warm\"},{\"const\":\"cold\"}]}", "cold", "\"cold\""},
    {"{\"oneOf\":[{\"const\":\"warm\"},{\"const\":\"cold\"}]}", "hot", NULL},
    {"{\"allOf\":[{\"$ref\":\"#/$defs/c\"}]}", "C", "\"C\""},
    {"{\"allOf\":[{\"$ref\":\"#/$defs/c\"}]}", "K", NULL},
    {"{\"$ref\":\"#/$defs/c\"}", "F", "\"F\""},
    {"{\"$ref\":\"#/$defs/c\"}", "\"F\"", NULL},
    {"{\"$ref\":\"#/properties/b\"}", "bb", "\"bb\""},
    {"{\"$ref\":\"#/properties/b\"}", "c", NULL},
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]{2}$\"}", "cb", "\"cb\""},
    {"{\"type\":\"string\",\"pattern\":\"^[a-c]{2}$\"}", "cd", NULL},
    {"{\"type\":\"string\",\"format\":\"date\"}", "2024-02-28", "\"2024-02-28\""},
    {"{\"type\":\"string\",\"format\":\"date\"}", "2024-02-31", NULL},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":4}", "a\nb<", "\"a\\nb<\""},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":4}", "abcde", NULL},
    {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":4}", "a", NULL},
    {"{\"minimum\":2,\"maximum\":4}", "3", "3"},
    {"{\"minimum\":2,\"maximum\":4}", "5", NULL},
    {"{\"type\":[\"string\",\"integer\"]}", "3", "\"3\""},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/c\"}}", "[\"C\"]", "[\"C\"]"},
    {"{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/c\"}}", "[\"D\"]", NULL},
    {"{}", "3", "\"3\""},
};

static void check_texts(const char *template, const char *frame) {
    char parameters[1000], say[500], want[500];
    open_with(template);
    fake.say = say;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const text_case *t = &texts[i];
        snprintf(parameters, sizeof parameters,
                 "{\"type\":\"object\",\"properties\":{\"a\":%s,\"b\":{\"type\":\"string\","
                 "\"pattern\":\"^b+$\"}},\"required\":[\"a\"],\"$defs\":{\"c\":{\"type\":"
                 "\"string\",\"enum\":[\"C\",\"F\"]}}}",
                 t->schema);
        snprintf(say, sizeof say, frame, t->text);
        snprintf(want, sizeof want, "{\"a\":%s}", t->json ? t->json : "[]");
        if (calls_with(parameters, want) != (t->json != NULL) && t->json)
            fail_msg("%s: not %s: %s", t->schema, t->text, fake.answer.body);
        snprintf(want, sizeof want, "\"arguments\":\"{\\\"a\\\": \\\"%s\\\"}\"", t->text);
        if (!t->json && strstr(fake.answer.body, want)) fail_msg("%s: %s", t->schema, t->text);
    }
}

static void texts_of_coder_fit_their_schema(void **state) {
    (void)state;
    check_texts(coder, "<tool_call>\n<function=f>\n<parameter=a>\n%s\n</parameter>\n</function>\n"
                       "</tool_call>");
}

static void texts_of_glm_fit_their_schema(void **state) {
    (void)state;
    check_texts(glm, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>%s</arg_value>\n</tool_call>");
}

/* ---- names ---- */

static const char named[] =
    "{\"type\":\"object\",\"properties\":{\"c d\":{\"type\":\"integer\"},\"a>b\":{\"type\":"
    "\"string\",\"const\":\"x\"},\"q\\\"\\\\<\xC3\xA9\":{\"type\":\"boolean\"},\"\":{\"type\":"
    "\"null\"}},\"required\":[\"c d\",\"a>b\",\"q\\\"\\\\<\xC3\xA9\",\"\",\"more\"]}";
static const char named_arguments[] = "{\"c d\":4,\"a>b\":\"x\",\"q\\\"\\\\<\xC3\xA9\":true,\"\":"
                                      "null,\"more\":\"yes\"}";

static void names_of_any_characters_are_arguments(void **state) {
    (void)state;
    open_with(coder);
    fake.say = "<tool_call>\n<function=f>\n<parameter=c d>\n4\n</parameter>\n<parameter=a>b>\nx\n"
               "</parameter>\n<parameter=q\"\\<\xC3\xA9>\ntrue\n</parameter>\n<parameter=>\nnull\n"
               "</parameter>\n<parameter=more>\nyes\n</parameter>\n</function>\n</tool_call>";
    if (!calls_with(named, named_arguments)) fail_msg("%s", fake.answer.body);
    fake_close(&fake);
    open_with(glm);
    fake.say = "<tool_call>f\n<arg_key>c d</arg_key>\n<arg_value>4</arg_value>\n<arg_key>a>b"
               "</arg_key>\n<arg_value>x</arg_value>\n<arg_key>q\"\\<\xC3\xA9</arg_key>\n"
               "<arg_value>true</arg_value>\n<arg_key></arg_key>\n<arg_value>null</arg_value>\n"
               "<arg_key>more</arg_key>\n<arg_value>yes</arg_value>\n</tool_call>";
    if (!calls_with(named, named_arguments)) fail_msg("%s", fake.answer.body);
}

/* ---- what isn't held to ---- */

/* A reference to another document is never followed. */
static const char partly[] =
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":5},"
    "\"o\":{\"type\":\"object\",\"properties\":{\"far\":{\"$ref\":\"https://example.com/s\"},"
    "\"near\":{\"$ref\":\"#/$defs/list\"}},\"required\":[\"near\"],\"additionalProperties\":false"
    "}},\"required\":[\"n\",\"o\"],\"$defs\":{\"list\":{\"type\":\"object\",\"properties\":{"
    "\"next\":{\"$ref\":\"#/$defs/list\"},\"far\":{\"$ref\":\"https://example.com/s\"},\"v\":{"
    "\"const\":7}},\"required\":[\"v\"]}}}";

static void assert_unsupported(const char *const *want) {
    char quoted[200];
    if (!strstr(fake.answer.body, "\"mnem\":{\"unsupported\":["))
        fail_msg("nothing is named: %s", fake.answer.body);
    for (; *want; want++) {
        snprintf(quoted, sizeof quoted, "\"%s\"", *want);
        if (!strstr(fake.answer.body, quoted)) fail_msg("no %s: %s", *want, fake.answer.body);
        if (!strstr(noted, quoted)) fail_msg("no %s in the log: %s", *want, noted);
    }
}

static void one_word_costs_no_other(void **state) {
    (void)state;
    static const char *const want[] = {"f: #/properties/o/properties/far/$ref",
                                       "f: #/$defs/list/properties/far/$ref", NULL};
    open_with(hermes);
    fake.say = "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\":5,\"o\":{\"far\":[1],\"near\":"
               "{\"next\":{\"v\":7},\"far\":2,\"v\":7}}}}</tool_call>";
    assert_true(calls_with(partly, "{\"n\":5,\"o\":{\"far\":[1],\"near\":{\"next\":{\"v\":7},"
                                   "\"far\":2,\"v\":7}}}"));
    assert_unsupported(want);
    fake.say = "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\":6,\"o\":{\"near\":{\"v\":8}}}}"
               "</tool_call>";
    assert_false(calls_with(partly, "{\"n\":6,\"o\":{\"near\":{\"v\":8}}}"));
    assert_null(strstr(fake.answer.body, "\"n\\\":6"));
    assert_null(strstr(fake.answer.body, "\"v\\\":8"));
}

static void a_tagged_argument_costs_no_other(void **state) {
    (void)state;
    static const char *const want[] = {"f: #/properties/o/properties/far/$ref",
                                       "f: #/$defs/list/properties/far/$ref", NULL};
    open_with(coder);
    fake.say = "<tool_call>\n<function=f>\n<parameter=n>\n6\n</parameter>\n";
    post(partly, "");
    assert_unsupported(want);
    assert_null(strstr(fake.answer.body, "\"n\\\": 6"));
    post("{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\",\"allOf\":[{\"$ref\":"
         "\"https://example.com/s\"}],\"const\":\"x\"},\"t\":{\"const\":\"y\"}},\"required\":["
         "\"s\",\"t\"],\"minProperties\":2}",
         "");
    static const char *const words[] = {"f: #/minProperties", NULL};
    assert_unsupported(words);
    assert_non_null(strstr(fake.answer.body, "\\\"t\\\": \\\"y\\\""));
}

static void every_form_names_it(void **state) {
    (void)state;
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"https://example.com/s\"}}}";
    static const char *const want[] = {"f: #/properties/a/$ref", NULL};
    static const struct {
        const char *path, *body;
    } rows[] = {
        {"/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":3,\"stream\":%s,"
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":%s}}]}"},
        {"/v1/responses", "{\"input\":\"a\",\"max_output_tokens\":3,\"stream\":%s,\"tools\":[{"
                          "\"type\":\"function\",\"name\":\"f\",\"parameters\":%s}]}"},
        {"/v1/messages", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":3,"
                         "\"stream\":%s,\"tools\":[{\"name\":\"f\",\"input_schema\":%s}]}"},
    };
    char body[1000];
    open_with(hermes);
    fake.say = "So it is.";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int k = 0; k < 4; k++) {
            noted[0] = 0;
            snprintf(body, sizeof body, rows[i].body, k % 2 ? "true" : "false",
                     k < 2 ? schema : "{\"type\":\"object\"}");
            assert_int_equal(fake_post(&fake, rows[i].path, body)->status, 200);
            if (k < 2) assert_unsupported(want);
            if (k >= 2) assert_null(strstr(fake.answer.body, "\"mnem\""));
            if (k >= 2) assert_string_equal(noted, "");
        }
}

/* As many as there may be: tries end, and the tool takes any object. */
static void what_is_tried_has_a_bound(void **state) {
    (void)state;
    enum { MANY = 600 };
    char *schema = malloc(MANY * 100 + 200);
    size_t n = (size_t)sprintf(schema, "{\"type\":\"object\",\"properties\":{");
    for (int i = 0; i < MANY; i++)
        n += (size_t)sprintf(schema + n,
                             "%s\"p%d\":{\"$ref\":\"https://example.com/s\",\"pattern\":\"(\"}",
                             i ? "," : "", i);
    sprintf(schema + n, "}}");
    open_with(hermes);
    fake.say = "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\":5}}</tool_call>";
    assert_true(calls_with(schema, "{\"x\":5}"));
    static const char *const want[] = {"f: #", NULL};
    assert_unsupported(want);
    free(schema);
}

/* 128 tools, each with a schema of its own, so that none is the same part as another. */
static char *many_tools(int count) {
    char *body = malloc((size_t)count * 300 + 500);
    size_t n = (size_t)sprintf(body, "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
                                     "\"max_tokens\":200,\"tool_choice\":\"required\","
                                     "\"tools\":[");
    for (int i = 0; i < count; i++)
        n += (size_t)sprintf(
            body + n,
            "%s{\"type\":\"function\",\"function\":{\"name\":\"t%d\",\"parameters\":{"
            "\"type\":\"object\",\"properties\":{\"a%d\":{\"type\":\"integer\","
            "\"enum\":[%d,%d]},\"b\":{\"type\":\"string\",\"const\":\"c%d\"}},"
            "\"required\":[\"a%d\",\"b\"]}}}",
            i ? "," : "", i, i, i, i + 1, i, i);
    sprintf(body + n, "]}");
    return body;
}

static void a_hundred_and_twenty_eight_tools_are_held_to(void **state) {
    (void)state;
    static const char *const templates[] = {hermes, coder};
    static const char *const says[] = {
        "<tool_call>{\"name\": \"t127\", \"arguments\": {\"a127\":128,\"b\":\"c127\"}}</tool_call>",
        "<tool_call>\n<function=t127>\n<parameter=a127>\n128\n</parameter>\n<parameter=b>\nc127\n"
        "</parameter>\n</function>\n</tool_call>"};
    char *body = many_tools(128), *more = many_tools(129);
    for (int i = 0; i < 2; i++) {
        if (i) fake_close(&fake);
        fake_open_with(&(api_options){.template = fake_text(templates[i])}, 2000, &fake);
        fake.say = says[i];
        assert_int_equal(fake_post(&fake, path, body)->status, 200);
        if (strstr(fake.answer.body, "\"mnem\"")) fail_msg("%s", fake.answer.body);
        json_t *got = arguments_of(fake.answer.body),
               *want = json_loads("{\"a127\":128,\"b\":\"c127\"}", 0, NULL);
        assert_true(json_equal(got, want));
        json_decref(got);
        json_decref(want);
        assert_int_equal(fake_post(&fake, path, more)->status, 400);
    }
    free(body);
    free(more);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(texts_of_coder_fit_their_schema, fake_teardown),
        cmocka_unit_test_teardown(texts_of_glm_fit_their_schema, fake_teardown),
        cmocka_unit_test_teardown(names_of_any_characters_are_arguments, fake_teardown),
        cmocka_unit_test_teardown(one_word_costs_no_other, fake_teardown),
        cmocka_unit_test_teardown(a_tagged_argument_costs_no_other, fake_teardown),
        cmocka_unit_test_teardown(every_form_names_it, fake_teardown),
        cmocka_unit_test_teardown(what_is_tried_has_a_bound, fake_teardown),
        cmocka_unit_test_teardown(a_hundred_and_twenty_eight_tools_are_held_to, fake_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
