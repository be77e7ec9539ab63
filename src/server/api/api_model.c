/* api_model.c: see api_model.h. */
#include "server/api/api_model.h"

#include <string.h>

/* ---- opening ---- */

static const char joined[] =
    "{% for m in messages %}{{ m.content }}{% if not loop.last %}\n{% endif %}{% endfor %}";

static mnem_text find_template(const api_model_options *o) {
    mnem_value value;
    if (o->template.bytes) return o->template;
    if (mnem_model_key_find(o->model, "tokenizer.chat_template", &value) &&
        value.type == MNEM_VALUE_STRING && value.text.length > 0)
        return value.text;
    const char *ours = mnem_chat_format_template(mnem_tokenizer_chat_format(o->tokenizer));
    if (!ours) ours = joined;
    return (mnem_text){ours, strlen(ours)};
}

/* The first of the tokens behind the last text that print nothing but white space. */
static int32_t find_end(const mnem_tokenizer *tokenizer, const int32_t *ids, size_t count) {
    int32_t end = -1;
    for (size_t i = count; i > 0; i--) {
        const mnem_text text = mnem_tokenizer_piece(tokenizer, ids[i - 1], false);
        size_t space = 0;
        while (space < text.length && strchr(" \t\r\n", text.bytes[space])) space++;
        if (space < text.length) break;
        if (text.length == 0) end = ids[i - 1];
    }
    return end;
}

static void read_end(api_model *m) {
    static const char answered[] = "[{\"role\": \"user\", \"content\": \"Hi\"},"
                                   " {\"role\": \"assistant\", \"content\": \"Yes\"}]";
    const mnem_template_input input = {.messages = answered, .arguments = m->template_args};
    const int32_t *ids;
    size_t count;
    if (mnem_template_encode(m->template, m->tokenizer, &input, &ids, &count) == MNEM_OK)
        m->end = find_end(m->tokenizer, ids, count);
}

/* In some vocabularies marks of calls print nothing; they are told, and chosen, all the same. */
static void find_marks(api_model *m) {
    const int32_t *ids;
    size_t count;
    for (const char *const *mark = call_format_marks(); *mark && m->marks < API_MARKS; mark++) {
        if (mnem_tokenizer_encode(m->tokenizer, *mark, strlen(*mark), MNEM_ENCODE_NO_SPECIAL, &ids,
                                  &count) != MNEM_OK)
            return;
        if (count == 1 && mnem_tokenizer_piece(m->tokenizer, ids[0], false).length == 0)
            m->mark[m->marks++] = ids[0];
    }
}

mnem_status api_model_open(const api_model_options *o, api_model *m) {
    enum { STEPS = 5000000 }; /* of a rendering, while others wait for it: half a second */
    const mnem_template_options options = {.bytes = o->template_bytes, .steps = STEPS};
    const mnem_text text = find_template(o);
    *m = (api_model){.model = o->model,
                     .tokenizer = o->tokenizer,
                     .name = o->name,
                     .context = o->context,
                     .template_text = text,
                     .template_args = o->template_args,
                     .end = -1};
    mnem_tokenizer_info_get(o->tokenizer, &m->info);
    const mnem_status status = mnem_template_open(text.bytes, text.length, &options, &m->template);
    if (status != MNEM_OK) return status;
    m->calls = call_format_find(text.bytes, text.length, &m->writes_tools);
    m->thinks = memmem(text.bytes, text.length, "</think>", 8) != NULL;
    read_end(m);
    find_marks(m);
    api_fim_find(m);
    return MNEM_OK;
}

void api_model_close(api_model *m) {
    mnem_token_set_destroy(m->tokens);
    mnem_template_close(m->template);
    *m = (api_model){0};
}
