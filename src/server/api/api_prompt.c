/* api_prompt.c: what is asked for as tokens: chats by the template, texts by the tokenizer, ids as
 * they are. */
#include <stdio.h>
#include <string.h>

#include "server/api/api_model.h"
#include "server/api/calls/call_history.h"

/* ---- chats ---- */

/* A chat's parts as JSON, each with a zero behind. */
typedef struct chat_texts {
    api_text messages, tools, arguments;
} chat_texts;

static void put_json(api_text *text, const json_t *value) {
    if (!value) return;
    api_json_put(text, value);
    api_put(text, "", 1);
}

/* Those of the server, where the request doesn't say otherwise; in the open document. */
static const json_t *arguments_of(const api_model *m, const ask_request *ask) {
    if (!m->template_args) return ask->arguments;
    json_t *all = api_json_value(m->template_args, strlen(m->template_args));
    if (all && ask->arguments) json_object_update(all, ask->arguments);
    return all;
}

static void texts_fini(chat_texts *texts) {
    api_text_fini(&texts->messages);
    api_text_fini(&texts->tools);
    api_text_fini(&texts->arguments);
}

bool api_refuse_busy(api_error *error) {
    error->retry_seconds = 1;
    return api_refuse(
        error, 429, NULL,
        "other requests use all of the memory that this server has for requests: try again later");
}

static bool shows_tools(const api_model *m, const ask_request *ask) {
    return m->writes_tools && ask->tools && ask->tool_choice != ASK_TOOL_NONE;
}

static bool texts_make(const api_model *m, api_memory *memory, const ask_request *ask,
                       chat_texts *texts, api_error *error) {
    *texts = (chat_texts){{.memory = memory}, {.memory = memory}, {.memory = memory}};
    put_json(&texts->messages, ask->messages);
    put_json(&texts->arguments, arguments_of(m, ask));
    if (shows_tools(m, ask)) put_json(&texts->tools, ask->tools);
    if (!texts->messages.failed && !texts->tools.failed && !texts->arguments.failed) return true;
    texts_fini(texts);
    return api_refuse_busy(error);
}

/* What a template says against a chat is the client's to mend; what it takes too much of, too. */
static bool refuse_chat(const api_model *m, mnem_status status, api_error *error) {
    mnem_template_failure failure;
    mnem_template_failure_get(m->template, &failure);
    if (status == MNEM_NO_MEMORY) return api_refuse_busy(error);
    if (failure.raised)
        return api_refuse(error, 400, "messages",
                          "the model's chat template rejects these messages: %.*s",
                          (int)(failure.message.length < 300 ? failure.message.length : 300),
                          failure.message.bytes);
    return api_refuse(error, 400, "messages",
                      "the model's chat template can't render this request: %.300s",
                      mnem_last_error());
}

static mnem_template_input input_of(const ask_request *ask, const chat_texts *texts) {
    return (mnem_template_input){.messages = texts->messages.bytes,
                                 .tools = texts->tools.bytes,
                                 .arguments = texts->arguments.bytes,
                                 .add_generation_prompt = !ask->no_turn};
}

/* What a template doesn't know of tools is said in words. */
static void tell_tools(const api_model *m, api_memory *memory, const ask_request *ask) {
    if (m->calls->shape == CALL_LIST || m->calls->shape == CALL_NAMED)
        call_history_short_ids(ask->messages);
    if (m->writes_tools) return;
    if (call_history_has(ask->messages)) call_history_flatten(ask->messages, m->calls, memory);
    if (ask->tools && ask->tool_choice != ASK_TOOL_NONE)
        call_tools_tell(ask->messages, ask->tools, m->calls, memory);
}

bool api_model_render(api_model *m, api_memory *memory, const ask_request *ask, mnem_text *text,
                      api_error *error) {
    chat_texts texts;
    tell_tools(m, memory, ask);
    if (!texts_make(m, memory, ask, &texts, error)) return false;
    mnem_template_input input = input_of(ask, &texts);
    const mnem_text bos = mnem_tokenizer_piece(m->tokenizer, m->info.bos, true);
    const mnem_text eos = mnem_tokenizer_piece(m->tokenizer, m->info.eos, true);
    char marks[2][64];
    snprintf(marks[0], sizeof marks[0], "%.*s", (int)bos.length, bos.bytes);
    snprintf(marks[1], sizeof marks[1], "%.*s", (int)eos.length, eos.bytes);
    input.bos = marks[0];
    input.eos = marks[1];
    const mnem_status status = mnem_template_render(m->template, &input, text);
    texts_fini(&texts);
    return status == MNEM_OK || refuse_chat(m, status, error);
}

static bool encode_once(api_model *m, api_memory *memory, const ask_request *ask,
                        const int32_t **ids, size_t *count, api_error *error) {
    chat_texts texts;
    if (!texts_make(m, memory, ask, &texts, error)) return false;
    const mnem_template_input input = input_of(ask, &texts);
    const mnem_status status = mnem_template_encode(m->template, m->tokenizer, &input, ids, count);
    texts_fini(&texts);
    return status == MNEM_OK || refuse_chat(m, status, error);
}

/* Most templates take arguments of earlier calls as objects, some only as texts. */
static bool encode_chat(api_model *m, api_memory *memory, const ask_request *ask,
                        const int32_t **ids, size_t *count, api_error *error) {
    if (encode_once(m, memory, ask, ids, count, error)) return true;
    if (error->status != 400 || !call_history_has(ask->messages)) return false;
    api_error again = {0};
    call_history_write_out(ask->messages, memory);
    if (!encode_once(m, memory, ask, ids, count, &again)) return false;
    *error = again;
    return true;
}

/* ---- texts and ids ---- */

bool api_model_encode(api_model *m, const char *text, size_t n, unsigned flags, const int32_t **ids,
                      size_t *count, api_error *error) {
    const mnem_status status = mnem_tokenizer_encode(m->tokenizer, text, n, flags, ids, count);
    if (status != MNEM_OK) return api_refuse_busy(error);
    /* A file may ask for an end token behind every text; this one goes on. */
    if (m->info.add_eos && *count && (*ids)[*count - 1] == m->info.eos) --*count;
    return true;
}

bool api_prompts_add(api_prompts *p, const int32_t *ids, size_t count, api_error *error) {
    if (count == 0)
        return api_refuse(error, 400, "prompt",
                          "a prompt has no tokens: send at least one character");
    const size_t total = (size_t)p->total + count;
    int32_t *more = api_alloc(p->memory, total * sizeof *more);
    if (!more) return api_refuse_busy(error);
    if (p->total) memcpy(more, p->ids, (size_t)p->total * sizeof *more);
    memcpy(more + p->total, ids, count * sizeof *more);
    api_free(p->memory, p->ids);
    p->ids = more;
    p->total = (int32_t)total;
    p->begin[++p->count] = p->total;
    return true;
}

bool api_refuse_long(const api_model *m, size_t tokens, const char *param, api_error *error) {
    error->code = "context_length_exceeded";
    error->prompt_tokens = (int64_t)tokens;
    error->context_tokens = m->context;
    return api_refuse(error, 400, param,
                      "the prompt has %zu tokens, which exceeds the available context size of %d, "
                      "including the answer: shorten the prompt, or start with a larger --ctx",
                      tokens, m->context);
}

/* A prompt leaves room for its answer: a quarter of the context at the most. */
static size_t room_of(const api_model *m, const ask_request *ask) {
    const int32_t quarter = m->context / 4 > 0 ? m->context / 4 : 1;
    const int32_t wanted = ask->truncate ? (ask->tokens ? ask->tokens : quarter) : 1;
    const int32_t room = m->context - (wanted < quarter ? wanted : quarter);
    return room > 0 ? (size_t)room : 0;
}

/* Of a text that is too long its last tokens count, where it isn't refused. */
static size_t cut_of(const api_model *m, const ask_request *ask, size_t count, api_error *error) {
    const size_t room = room_of(m, ask);
    if (count <= room) return 0;
    if (!ask->truncate || room == 0) api_refuse_long(m, count, "prompt", error);
    return count - room;
}

/* ---- ids, and texts among them ---- */

bool api_ids_take(api_ids *l, const int32_t *ids, size_t n, api_error *error) {
    if (n > l->room - l->n) {
        const size_t room = l->n + n + l->room;
        int32_t *more = api_alloc(l->memory, room * sizeof *more);
        if (!more) return api_refuse_busy(error);
        if (l->n) memcpy(more, l->id, l->n * sizeof *more);
        api_free(l->memory, l->id);
        l->id = more;
        l->room = room;
    }
    if (n) memcpy(l->id + l->n, ids, n * sizeof *ids);
    l->n += n;
    return true;
}

/* Adds a part of a prompt, an id or a text. Only a text at the beginning gets the tokenizer's
 * beginning tokens. */
static bool take_part(api_model *m, api_ids *l, const json_t *list, size_t i, api_error *error) {
    const json_t *part = ask_get_text(json_array_get(list, i));
    const json_int_t value = json_is_integer(part) ? json_integer_value(part) : -1;
    const int32_t id = (int32_t)value, *ids;
    size_t count;
    if (json_is_string(part))
        return api_model_encode(m, json_string_value(part), json_string_length(part),
                                i ? MNEM_ENCODE_NO_SPECIAL : 0, &ids, &count, error) &&
               api_ids_take(l, ids, count, error);
    if (value < 0 || value >= m->info.vocab)
        return api_refuse(error, 400, "prompt",
                          "element %zu (from 0) of 'prompt' must be a token id from 0 to %d", i,
                          m->info.vocab - 1);
    return api_ids_take(l, &id, 1, error);
}

static bool add_ids(api_model *m, const ask_request *ask, api_prompts *p, const json_t *list,
                    api_error *error) {
    api_ids l = {.memory = p->memory};
    bool fine = true;
    for (size_t i = 0; i < json_array_size(list) && fine; i++)
        fine = take_part(m, &l, list, i, error);
    const size_t from = fine ? cut_of(m, ask, l.n, error) : 0;
    fine = fine && !error->status && api_prompts_add(p, l.id + from, l.n - from, error);
    api_free(p->memory, l.id);
    return fine;
}

static bool add_prompt(api_model *m, const ask_request *ask, api_prompts *p, const json_t *given,
                       api_error *error) {
    const json_t *prompt = ask_get_text(given);
    const int32_t *ids;
    size_t count;
    if (json_is_array(prompt)) return add_ids(m, ask, p, prompt, error);
    if (!json_is_string(prompt))
        return api_refuse(error, 400, "prompt", "'prompt' must be a string or a list of token ids");
    if (!api_model_encode(m, json_string_value(prompt), json_string_length(prompt), 0, &ids, &count,
                          error))
        return false;
    const size_t from = cut_of(m, ask, count, error);
    p->whole_text[p->count] = from == 0;
    return !error->status && api_prompts_add(p, ids + from, count - from, error);
}

/* ---- chats within the context ---- */

/* Whether a rendering ends in a thought that is open. */
static bool ends_in_thought(const api_model *m, const api_prompts *p) {
    enum { TAIL = 8 };
    char text[256];
    size_t n = 0;
    for (int32_t i = p->total > TAIL ? p->total - TAIL : 0; i < p->total; i++) {
        const mnem_text piece = mnem_tokenizer_piece(m->tokenizer, p->ids[i], true);
        if (piece.length > sizeof text - n) return false;
        memcpy(text + n, piece.bytes, piece.length);
        n += piece.length;
    }
    while (n && strchr(" \n", text[n - 1])) n--;
    return n >= 7 && memcmp(text + n - 7, "<think>", 7) == 0;
}

/* The earliest message that isn't the system's goes, with the answers and results that follow it up
 * to the next of the user's; the last one of the user stays. */
static bool drop_turn(json_t *messages) {
    size_t first = 0, n = json_array_size(messages);
    const char *role;
    while (first < n &&
           (role = json_string_value(json_object_get(json_array_get(messages, first), "role"))) &&
           strcmp(role, "system") == 0)
        first++;
    size_t end = first + 1;
    while (end < n &&
           (role = json_string_value(json_object_get(json_array_get(messages, end), "role"))) &&
           strcmp(role, "user") != 0)
        end++;
    if (end >= n) return false;
    for (size_t i = first; i < end; i++) json_array_remove(messages, first);
    return true;
}

/* Appends the tokens of the given beginning of the answer to those of the chat. */
static bool add_begun(api_model *m, const ask_request *ask, api_ids *all, const int32_t **ids,
                      size_t *count, api_error *error) {
    const int32_t *more;
    size_t n;
    if (!api_ids_take(all, *ids, *count, error) ||
        !api_model_encode(m, ask->begun, strlen(ask->begun),
                          MNEM_ENCODE_NO_SPECIAL | MNEM_ENCODE_PLAIN, &more, &n, error) ||
        !api_ids_take(all, more, n, error))
        return false;
    *ids = all->id;
    *count = all->n;
    return true;
}

static bool make_chat(api_model *m, api_json *json, const ask_request *ask, api_prompts *p,
                      api_error *error) {
    const int32_t *ids;
    size_t count;
    const size_t room = room_of(m, ask);
    tell_tools(m, p->memory, ask);
    for (;;) {
        if (!encode_chat(m, p->memory, ask, &ids, &count, error) || !api_json_check(json, error))
            return false;
        if (count <= room || !ask->truncate || !drop_turn(ask->messages)) break;
    }
    api_ids all = {.memory = p->memory};
    const bool fine = !ask->begun || add_begun(m, ask, &all, &ids, &count, error);
    if (fine && count > room && !ask->counted) api_refuse_long(m, count, "messages", error);
    if (fine && !error->status) api_prompts_add(p, ids, count, error);
    api_free(p->memory, all.id);
    if (error->status) return false;
    p->in_thought = m->thinks && ends_in_thought(m, p);
    return true;
}

static bool make_texts(api_model *m, const ask_request *ask, api_prompts *p, api_error *error) {
    json_t *prompt;
    size_t i;
    if (ask_is_one_prompt(ask->prompt)) return add_prompt(m, ask, p, ask->prompt, error);
    json_array_foreach(ask->prompt, i, prompt) {
        if (!add_prompt(m, ask, p, prompt, error)) return false;
    }
    return true;
}

bool api_prompts_make(api_model *m, api_json *json, const ask_request *ask, api_prompts *p,
                      api_error *error) {
    if (ask->messages) return make_chat(m, json, ask, p, error);
    return ask->prefix ? api_fim_make(m, ask, room_of(m, ask), p, error)
                       : make_texts(m, ask, p, error);
}

void api_prompts_fini(api_prompts *p) {
    if (p->memory) api_free(p->memory, p->ids);
    *p = (api_prompts){.memory = p->memory};
}
