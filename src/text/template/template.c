/* template.c: the public calls: a template is opened, given its variables and run.
 *
 * All failures return here: guard() sets the jump, and freeing the arena undoes what was begun. */
#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/text/utf8.h"
#include "mnem/tokenizer.h"
#include "text/template/template_run.h"

enum { BYTES_DEFAULT = 32 << 20, STEPS_DEFAULT = 50000000 };

static mnem_status failed(const mnem_template *t) {
    if (t->raised)
        return mnem__fail(t->status, "template: line %u: the template refuses: %.*s", t->line,
                          (int)(t->out_bytes < 200 ? t->out_bytes : 200), t->out);
    if (t->line == 0) return mnem__fail(t->status, "template: %s", t->message);
    return mnem__fail(t->status, "template: line %u: %s", t->line, t->message);
}

/* Runs work, or fails where it jumped out of it. */
static mnem_status guard(mnem_template *t, void (*work)(mnem_template *t, const void *context),
                         const void *context) {
    jmp_buf way_out;
    t->way_out = &way_out;
    t->line = 0;
    t->depth = 0;
    t->raised = false;
    if (setjmp(way_out)) return failed(t);
    work(t, context);
    return MNEM_OK;
}

/* ---- opening ---- */

/* With Python's newlines, and without the last one, which Jinja drops. */
static void copy_text(mnem_template *t, const char *text, size_t length) {
    char *copy = mnem__template_take(t, length + 1);
    size_t n = 0;
    for (size_t i = 0; i < length; i++) {
        const bool pair = text[i] == '\r' && i + 1 < length && text[i + 1] == '\n';
        if (!pair) copy[n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (n > 0 && copy[n - 1] == '\n') n--;
    t->text = copy;
    t->length = n;
}

static void parse(mnem_template *t, const void *context) {
    const mnem_text *text = context;
    const size_t valid = mnem__utf8_invalid(text->bytes, text->length);
    if (valid < text->length)
        mnem__template_fail(t, MNEM_BAD_FILE,
                            "the text is not valid UTF-8 at byte %zu; save it as UTF-8", valid);
    /* Names that a rendering sets: it finds them here, whose arena stays. */
    static const char *const own[] = {"loop", "caller", "kwargs", "varargs"};
    t->arena = &t->parsed;
    mnem__template_put(t, "", 0); /* there is an output from here on */
    for (int i = 0; i < 4; i++) mnem__template_intern(t, own[i], strlen(own[i]));
    copy_text(t, text->bytes, text->length);
    mnem__template_parse(t);
}

mnem_status mnem_template_open(const char *text, size_t length,
                               const mnem_template_options *options, mnem_template **template) {
    *template = NULL;
    mnem_template *t = mnem__calloc("template", 1, sizeof *t);
    if (!t) return mnem__heap_status();
    if (options) t->options = *options;
    if (!t->options.bytes) t->options.bytes = BYTES_DEFAULT;
    if (!t->options.steps) t->options.steps = STEPS_DEFAULT;
    const mnem_status status = guard(t, parse, &(mnem_text){text, length});
    if (status != MNEM_OK) {
        mnem_template_close(t);
        return status == MNEM_INVALID ? MNEM_BAD_FILE : status;
    }
    *template = t;
    return MNEM_OK;
}

void mnem_template_close(mnem_template *t) {
    if (!t) return;
    mnem__template_arena_free(t, &t->parsed);
    mnem__template_arena_free(t, &t->rendered);
    mnem__free(t->out);
    mnem__free(t->ids);
    mnem__free(t);
}

/* ---- rendering ---- */

static void set(mnem_template *t, const char *name, mnem__any value) {
    mnem__any_dict_set(t, t->variables, mnem__any_word(name), value);
}

static void set_json(mnem_template *t, const char *name, const char *json) {
    mnem__any value = mnem__any_of(MNEM__ANY_NONE);
    if (json) value = mnem__template_mark(t, mnem__template_json_read(t, json, name));
    set(t, name, value);
}

/* transformers gives a message's reasoning under each of the names that templates read: thinking in
 * front of the rest, reasoning_content behind it. */
static mnem__any alias_reasoning(mnem_template *t, mnem__any message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const mnem__any *found = NULL;
    if (!mnem__any_is(message, MNEM__ANY_DICT)) return message;
    for (int i = 0; i < 3 && (!found || mnem__any_is(*found, MNEM__ANY_NONE)); i++)
        found = mnem__any_dict_find(t, message.dict, mnem__any_word(names[i]));
    if (!found || mnem__any_is(*found, MNEM__ANY_NONE)) return message;
    const mnem__any both = mnem__any_dict_make(t, MNEM__ANY_DICT);
    mnem__any_dict_set(t, both.dict, mnem__any_word("thinking"), *found);
    for (uint32_t i = 0; i < message.dict->count; i++)
        mnem__any_dict_set(t, both.dict, message.dict->entries[i].key,
                           message.dict->entries[i].value);
    mnem__any_dict_set(t, both.dict, mnem__any_word("reasoning_content"), *found);
    return both;
}

static void set_messages(mnem_template *t, const char *json) {
    if (!json) return;
    const mnem__any messages =
        mnem__template_mark(t, mnem__template_json_read(t, json, "messages"));
    if (!mnem__any_is(messages, MNEM__ANY_LIST))
        mnem__template_refuse(t, "messages: expected a JSON list, found a value of type %s",
                              mnem__any_type(messages));
    for (uint32_t i = 0; i < messages.list->count; i++)
        messages.list->items[i] = alias_reasoning(t, messages.list->items[i]);
    set(t, "messages", messages);
}

static void set_arguments(mnem_template *t, const char *json) {
    if (!json) return;
    const mnem__any arguments = mnem__template_json_read(t, json, "arguments");
    if (!mnem__any_is(arguments, MNEM__ANY_DICT))
        mnem__template_refuse(t, "arguments: expected a JSON object, found a value of type %s",
                              mnem__any_type(arguments));
    for (uint32_t i = 0; i < arguments.dict->count; i++)
        mnem__any_dict_set(t, t->variables, arguments.dict->entries[i].key,
                           arguments.dict->entries[i].value);
}

/* text NULL: the tokenizer's, where there is one. */
static void set_token(mnem_template *t, const char *name, const char *text, int32_t id) {
    if (!text && t->tokenizer && id >= 0) {
        const mnem_text piece = mnem_tokenizer_piece(t->tokenizer, id, true);
        if (mnem__utf8_invalid(piece.bytes, piece.length) == piece.length)
            set(t, name, mnem__any_text(piece.bytes, piece.length));
    }
    if (!text) return;
    const size_t n = strlen(text), valid = mnem__utf8_invalid(text, n);
    if (valid < n) mnem__template_refuse(t, "%s is not valid UTF-8 at byte %zu", name, valid);
    set(t, name, mnem__any_text(text, n));
}

static void render(mnem_template *t, const void *context) {
    const mnem_template_input *input = context;
    mnem_tokenizer_info tokens = {.bos = -1, .eos = -1};
    t->arena = &t->rendered;
    if (t->tokenizer) mnem_tokenizer_info_get(t->tokenizer, &tokens);
    t->variables = mnem__any_dict_make(t, MNEM__ANY_DICT).dict;
    set_messages(t, input->messages);
    set_json(t, "tools", input->tools);
    set_json(t, "documents", input->documents);
    set(t, "add_generation_prompt", mnem__any_bool(input->add_generation_prompt));
    set_token(t, "bos_token", input->bos, tokens.bos);
    set_token(t, "eos_token", input->eos, tokens.eos);
    set_arguments(t, input->arguments);
    t->scope = mnem__scope_make(t, NULL);
    mnem__template_run(t, t->body);
}

mnem_status mnem_template_render(mnem_template *t, const mnem_template_input *input,
                                 mnem_text *text) {
    t->out_bytes = 0;
    t->steps = 0;
    const mnem_status status = guard(t, render, input);
    mnem__template_arena_free(t, &t->rendered);
    t->scope = NULL;
    t->variables = NULL;
    *text = status == MNEM_OK ? (mnem_text){t->out, t->out_bytes} : (mnem_text){0};
    return status;
}

void mnem_template_failure_get(const mnem_template *t, mnem_template_failure *failure) {
    const mnem_text message = {t->message, strlen(t->message)};
    *failure = (mnem_template_failure){.line = t->line, .raised = t->raised, .message = message};
    if (t->raised) failure->message = (mnem_text){t->out, t->out_bytes};
}

uint64_t mnem_template_bytes_peak(const mnem_template *t) {
    return t->bytes_peak;
}
