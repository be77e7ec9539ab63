/* test_api_calls.c: how models write calls: each format comes out as one name and one object, whole
 * and in a stream, and nothing that its grammar refuses is said. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/api/calls/call_parser.h"
#include "tools/serve/kit/fake_test.h"

static const char path[] = "/v1/chat/completions";

#define HEAD "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}"
#define BODY                                                                                       \
    "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}"                      \
    "{{ c.id }}:{{ c.function.arguments | tojson }}{% endfor %}"                                   \
    "{% if m.tool_call_id %}({{ m.tool_call_id }}){% endif %}{% endfor %}"
static const char list[] = "{# [TOOL_CALLS] [AVAILABLE_TOOLS] #}" HEAD BODY;
static const char named[] = "{# [TOOL_CALLS] [ARGS] #}" HEAD BODY;
static const char coder[] = "{# <tool_call> <function=f> <parameter=p> #}" HEAD BODY;
static const char glm[] = "{# <tool_call> <arg_key> #}" HEAD BODY;

#define CHAT "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],"
#define TOOLS                                                                                      \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"put\",\"parameters\":{"            \
    "\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"},\"n\":{\"type\":"          \
    "\"integer\"},\"unit\":{\"enum\":[\"C\",\"F\"]},\"all\":{\"type\":\"array\",\"items\":{"       \
    "\"$ref\":\"#/$defs/word\"}}},\"required\":[\"text\"],\"$defs\":{\"word\":{\"type\":"          \
    "\"string\"}}}}},{\"type\":\"function\",\"function\":{\"name\":\"stop\"}}]"

static void open_with(const char *template) {
    fake_open(&(api_options){.template = fake_text(template)}, &fake);
}

/* The calls of a whole answer, "name arguments;" each; arguments have to be an object. */
static void calls_of_body(char out[2000]) {
    size_t i, used = 0;
    json_t *call, *root = json_loads(fake.answer.body, 0, NULL);
    const json_t *message =
        json_object_get(json_array_get(json_object_get(root, "choices"), 0), "message");
    out[0] = 0;
    json_array_foreach(json_object_get(message, "tool_calls"), i, call) {
        const json_t *function = json_object_get(call, "function");
        const char *text = json_string_value(json_object_get(function, "arguments"));
        json_t *arguments = json_loads(text, 0, NULL);
        if (!json_is_object(arguments)) fail_msg("%s is no object", text);
        json_decref(arguments);
        used += (size_t)snprintf(out + used, 2000 - used, "%s %s;",
                                 json_string_value(json_object_get(function, "name")), text);
    }
    json_decref(root);
}

/* The same, put together from the deltas of a stream. */
static void calls_of_stream(char out[2000]) {
    size_t used = 0;
    bool any = false;
    out[0] = 0;
    for (const char *at = fake.answer.body; (at = strstr(at, "data: {")); at++) {
        json_t *root = json_loadb(at + 6, strcspn(at + 6, "\n"), 0, NULL);
        const json_t *delta =
            json_object_get(json_array_get(json_object_get(root, "choices"), 0), "delta");
        const json_t *function =
            json_object_get(json_array_get(json_object_get(delta, "tool_calls"), 0), "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        const char *text = json_string_value(json_object_get(function, "arguments"));
        assert_non_null(root);
        if (name) used += (size_t)snprintf(out + used, 2000 - used, any ? ";%s " : "%s ", name);
        if (text) used += (size_t)snprintf(out + used, 2000 - used, "%s", text);
        any = any || name;
        json_decref(root);
    }
    if (any) snprintf(out + used, 2000 - used, ";");
}

/* Each call of want is in the body, its arguments as an object behind `member`. */
static void assert_objects(const char *want, const char *member) {
    char call[300], text[600];
    int n;
    for (const char *at = want; sscanf(at, "%299[^;]%n", call, &n) == 1; at += n + 1) {
        char *arguments = strchr(call, ' ');
        assert_non_null(arguments);
        *arguments++ = 0;
        snprintf(text, sizeof text, "\"name\":\"%s\",\"%s\":%s}", call, member, arguments);
        assert_true(fake_has(text));
    }
}

/* In protocols where they are objects, whole and in a stream of one of them. */
static void assert_calls_as_objects(const char *want) {
    static const char messages[] = CHAT
        "\"max_tokens\":200,\"tools\":[{\"name\":\"put\",\"input_schema\":{\"type\":\"object\","
        "\"properties\":{\"text\":{\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"unit\":{"
        "\"type\":"
        "\"string\"},\"all\":{\"type\":\"array\"}}}},{\"name\":\"stop\"}]}";
    if (strstr(want, "\";") || strchr(want, '\n')) return; /* a ';' in an argument */
    assert_int_equal(fake_post(&fake, "/v1/messages", messages)->status, 200);
    assert_objects(want, "input");
    assert_int_equal(fake_post(&fake, "/api/chat", CHAT TOOLS "}")->status, 200);
    assert_objects(want, "arguments");
    assert_int_equal(fake_post(&fake, "/api/chat", CHAT TOOLS ",\"stream\":false}")->status, 200);
    assert_objects(want, "arguments");
}

static void assert_calls(const char *say, const char *want) {
    char got[2000];
    fake.say = say;
    assert_int_equal(fake_post(&fake, path, CHAT TOOLS "}")->status, 200);
    calls_of_body(got);
    assert_string_equal(got, want);
    if (*want) assert_true(fake_has("\"finish_reason\":\"tool_calls\""));
    assert_int_equal(fake_post(&fake, path, CHAT TOOLS ",\"stream\":true}")->status, 200);
    calls_of_stream(got);
    assert_string_equal(got, want);
    assert_calls_as_objects(want);
}

static void mistral_lists_become_calls(void **state) {
    (void)state;
    open_with(list);
    assert_calls("[TOOL_CALLS] [{\"name\": \"put\", \"arguments\": {\"text\": \"a]b\"}}]",
                 "put {\"text\": \"a]b\"};");
    assert_calls(
        "So: [TOOL_CALLS][{\"name\": \"put\", \"arguments\": {\"text\": \"[{}]\", \"n\": 4}"
        ", \"id\": \"abcdefghi\"}, {\"name\": \"stop\", \"arguments\": {}}]",
        "put {\"text\": \"[{}]\", \"n\": 4};stop {};");
    assert_true(fake_has("\"content\":\"So"));
    assert_calls("[Not a call]", "");
    fake_post(&fake, path, CHAT TOOLS "}");
    assert_true(fake_has("\"content\":\"[Not a call]\""));
}

static void names_before_their_arguments_become_calls(void **state) {
    (void)state;
    open_with(named);
    assert_calls("[TOOL_CALLS]put[ARGS]{\"text\": \"}\"}", "put {\"text\": \"}\"};");
    assert_calls("[TOOL_CALLS]put[CALL_ID]abcdefghi[ARGS]{\"text\": \"a\"}[TOOL_CALLS]stop[ARGS]{}",
                 "put {\"text\": \"a\"};stop {};");
}

static void coder_xml_becomes_calls(void **state) {
    (void)state;
    open_with(coder);
    assert_calls("<tool_call>\n<function=put>\n<parameter=text>\nIn \"the\"\n\tbeginning \\ "
                 "3 < 4\n</parameter>\n<parameter=n>\n12\n</parameter>\n</function>\n</tool_call>",
                 "put {\"text\": \"In \\\"the\\\"\\n\\tbeginning \\\\ 3 < 4\", \"n\": 12};");
    assert_calls("Well.\n<tool_call>\n<function=put>\n<parameter=text>\n3\n</parameter>\n"
                 "<parameter=unit>\nC\n</parameter>\n<parameter=all>\n[\"</parameter>\", \"b\"]\n"
                 "</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=stop>\n"
                 "</function>\n</tool_call>",
                 "put {\"text\": \"3\", \"unit\": \"C\", \"all\": [\"</parameter>\", \"b\"]};"
                 "stop {};");
    fake_post(&fake, path, CHAT TOOLS "}");
    assert_true(fake_has("\"content\":\"Well.\""));
    assert_calls("<tool_call>\n<function=put>\n<parameter=text>\n\n\n</parameter>\n</function>\n"
                 "</tool_call>",
                 "put {\"text\": \"\\n\"};");
}

static void glm_keys_become_calls(void **state) {
    (void)state;
    open_with(glm);
    assert_calls("<tool_call>put\n<arg_key>text</arg_key>\n<arg_value>a <b> </c></arg_value>\n"
                 "<arg_key>n</arg_key>\n<arg_value>-7</arg_value>\n</tool_call>",
                 "put {\"text\": \"a <b> </c>\", \"n\": -7};");
    assert_calls("<tool_call>stop</tool_call>\n<tool_call>put<arg_key>text</arg_key><arg_value>"
                 "</arg_value></tool_call>",
                 "stop {};put {\"text\": \"\"};");
}

/* Whatever a model would rather say: a call that is required comes, and its arguments parse. */
static void a_required_call_parses_in_every_format(void **state) {
    (void)state;
    static const char *const templates[] = {list, named, coder, glm};
    static const char *const says[] = {
        "I would rather not.", "<tool_call>\n<function=put>\n<parameter=n>\nfour\n</parameter>",
        "[TOOL_CALLS]put[ARGS]{\"text\": 5}", "<tool_call>put\n<arg_key>nothing</arg_key>"};
    char got[2000];
    for (size_t t = 0; t < 4; t++) {
        open_with(templates[t]);
        for (size_t i = 0; i < 4; i++) {
            fake.say = says[i];
            fake_post(&fake, path,
                      CHAT TOOLS ",\"max_tokens\":200,\"tool_choice\":{\"type\":\"function\","
                                 "\"function\":{\"name\":\"stop\"}}}");
            assert_int_equal(fake.answer.status, 200);
            calls_of_body(got);
            assert_true(strncmp(got, "stop {", 6) == 0);
        }
        if (t < 3) fake_close(&fake);
    }
}

static void ids_of_9_letters_are_what_mistral_takes(void **state) {
    (void)state;
    open_with(list);
    fake_post(&fake, "/apply-template",
              "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
              "\"content\":null,\"tool_calls\":[{\"id\":\"call_0123456789\",\"type\":\"function\","
              "\"function\":{\"name\":\"put\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\","
              "\"tool_call_id\":\"call_0123456789\",\"content\":\"b\"},{\"role\":\"tool\","
              "\"tool_call_id\":\"abcdefghi\",\"content\":\"c\"}]}");
    assert_int_equal(fake.answer.status, 200);
    const char *id = strstr(fake.answer.body, ":{}") - 9;
    assert_true(strstr(fake.answer.body, "call_") == NULL && fake_has("(abcdefghi)"));
    char result[16];
    snprintf(result, sizeof result, "b(%.9s)", id);
    assert_true(fake_has(result));
}

/* ---- the parser alone: any bytes, in any pieces ---- */

static void read_all(const char *format, const char *text, size_t n, size_t piece, char *out) {
    bool tools;
    call_parser p = {.format = call_format_find(format, strlen(format), &tools)};
    char held[600];
    size_t used = 0, have = 0, at = 0;
    while (at < n) {
        const size_t more = n - at < piece ? n - at : piece;
        memcpy(held + have, text + at, more);
        have += more;
        at += more;
        for (size_t told = 0;;) {
            call_event e;
            const call_state before = p.state;
            const size_t read = call_parser_read(&p, held + told, have - told, &e);
            assert_true(read <= have - told);
            if (e.kind == CALL_BEGINS) used += (size_t)sprintf(out + used, "%s ", p.name);
            if (e.kind == CALL_ARGUMENTS) {
                memcpy(out + used, e.bytes, e.n);
                used += e.n;
            }
            if (e.kind == CALL_ENDS) used += (size_t)sprintf(out + used, ";");
            told += read;
            if (read == 0 && e.kind == CALL_NOTHING && p.state == before) {
                memmove(held, held + told, have - told);
                have -= told;
                break;
            }
        }
        if (p.state == CALL_DONE || p.state == CALL_BAD) break;
    }
    out[used] = 0;
}

static void pieces_of_any_size_say_the_same(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {list,
         "[{\"name\": \"a\", \"arguments\": {\"b\": \"c]\"}}, {\"name\": \"d\", \"arguments\":"
         " {}}]",
         "a {\"b\": \"c]\"};d {};"},
        {named, "a[CALL_ID]x[ARGS]{\"b\": [1, {}]}.", "a {\"b\": [1, {}]};"},
        {coder, "\n<function=a>\n<parameter=b>\nx\n\xC3\xA9</para\n</parameter>\n</function>",
         "a {\"b\": \"x\\n\xC3\xA9</para\"};"},
        {glm, "a\n<arg_key>b</arg_key>\n<arg_value>c</arg_value>\n</tool_call>",
         "a {\"b\": \"c\"};"},
    };
    char out[1000];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t piece = 1; piece < 100; piece++) {
            read_all(rows[i][0], rows[i][1], strlen(rows[i][1]), piece, out);
            assert_string_equal(out, rows[i][2]);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(mistral_lists_become_calls, fake_teardown),
        cmocka_unit_test_teardown(names_before_their_arguments_become_calls, fake_teardown),
        cmocka_unit_test_teardown(coder_xml_becomes_calls, fake_teardown),
        cmocka_unit_test_teardown(glm_keys_become_calls, fake_teardown),
        cmocka_unit_test_teardown(a_required_call_parses_in_every_format, fake_teardown),
        cmocka_unit_test_teardown(ids_of_9_letters_are_what_mistral_takes, fake_teardown),
        cmocka_unit_test(pieces_of_any_size_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
