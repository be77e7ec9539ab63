/* template_case.c: runs a template that JSON describes. */
#include "text/template/template_case.h"

#include <stdlib.h>

#include "mnem/template.h"

/* The member as JSON, or NULL. */
static char *dump(const json_t *one, const char *key) {
    const json_t *value = json_object_get(one, key);
    return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)) : NULL;
}

static json_t *failure_of(const mnem_template *t) {
    mnem_template_failure failure;
    mnem_template_failure_get(t, &failure);
    return json_pack("{s:o, s:i}", failure.raised ? "raised" : "error",
                     json_stringn(failure.message.bytes, failure.message.length), "line",
                     (int)failure.line);
}

static json_t *render(mnem_template *t, const json_t *one) {
    char *messages = dump(one, "messages"), *tools = dump(one, "tools");
    char *documents = dump(one, "documents"), *arguments = dump(one, "arguments");
    const mnem_template_input input = {
        .messages = messages,
        .tools = tools,
        .documents = documents,
        .arguments = arguments,
        .bos = json_string_value(json_object_get(one, "bos")),
        .eos = json_string_value(json_object_get(one, "eos")),
        .add_generation_prompt = json_is_true(json_object_get(one, "add_generation_prompt"))};
    mnem_text text;
    json_t *result;
    if (mnem_template_render(t, &input, &text) == MNEM_OK)
        result = json_pack("{s:o}", "text", json_stringn(text.bytes, text.length));
    else
        result = failure_of(t);
    free(messages);
    free(tools);
    free(documents);
    free(arguments);
    return result;
}

json_t *template_case_run(const json_t *one) {
    const json_t *text = json_object_get(one, "template");
    const mnem_template_options options = {
        .bytes = (uint64_t)json_integer_value(json_object_get(one, "bytes")),
        .steps = (uint64_t)json_integer_value(json_object_get(one, "steps")),
        .clock = json_integer_value(json_object_get(one, "clock"))};
    mnem_template *t;
    if (mnem_template_open(json_string_value(text), json_string_length(text), &options, &t) !=
        MNEM_OK)
        return json_pack("{s:s}", "error", mnem_last_error());
    json_t *result = render(t, one);
    mnem_template_close(t);
    return result;
}
