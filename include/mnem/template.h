/* mnem/template.h: chat templates: the part of Jinja that they use, run inside fixed bytes.
 *
 * A template and what it is given are text from outside, so a rendering has limits: of bytes (on
 * the heap, charged like all host bytes), of steps, and of depth. What passes one is an error, as
 * is whatever Python's jinja2, in the sandbox that the library transformers sets up, refuses.
 * Results are equal to its text. Whole numbers have 64 bits; what passes them is an error, too, but
 * for numbers of the JSON that is given: these have up to 4,300 digits, are compared and written.
 * Not here: text to tokens (tokenizer.h), but for a conversation to tokens.
 * Threads: a template belongs to one thread at a time.
 *
 *     mnem_template *t;
 *     mnem_text text;
 *     const char source[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
 *     const mnem_template_input input = {
 *         .messages = "[{\"role\": \"user\", \"content\": \"Good day\"}]"};
 *     mnem_status status = mnem_template_open(source, strlen(source), NULL, &t);
 *     if (status == MNEM_OK) status = mnem_template_render(t, &input, &text);
 *     if (status == MNEM_OK) printf("%.*s\n", (int)text.length, text.bytes);
 *     mnem_template_close(t);
 */
#ifndef MNEM_TEMPLATE_H
#define MNEM_TEMPLATE_H

#include "mnem/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_template mnem_template;

typedef struct mnem_template_options {
    uint64_t bytes; /* most that it and a rendering take at once; 0: 32 MiB */
    uint64_t steps; /* most of a rendering; 0: 50 million, some seconds */
    int64_t clock;  /* what strftime_now says: seconds since 1970 began, by a clock on the wall
                       (not UTC); 0: now, of the machine's time zone */
} mnem_template_options;

/* Parses a copy of text, which is UTF-8. options NULL: the defaults. MNEM_BAD_FILE: a mistake in
 * it, with its line; MNEM_UNSUPPORTED: a statement of Jinja that isn't here, by its name. Names of
 * filters, tests and other templates (include, import, extends) are looked up when they are used.
 * MNEM_OVER_BUDGET: it takes more than options->bytes, or the ledger refuses. *t is NULL then. */
mnem_status mnem_template_open(const char *text, size_t length,
                               const mnem_template_options *options, mnem_template **t);
void mnem_template_close(mnem_template *t); /* NULL is fine */

/* Texts are JSON, and end with a zero; NULL: not given. */
typedef struct mnem_template_input {
    /* A list of objects; NULL: the variable isn't defined. Reasoning that a message has under one
     * of the names reasoning_content, thinking and reasoning, it has under the first two. */
    const char *messages;
    const char *tools;     /* a list; NULL: none */
    const char *documents; /* likewise */
    const char
        *arguments; /* an object, each member a variable; the last word where a name is twice */
    const char *bos, *eos; /* bos_token and eos_token, not as JSON; NULL: not defined */
    bool add_generation_prompt;
} mnem_template_input;

/* *text is borrowed until the next call with t. MNEM_INVALID: input isn't JSON, or the template
 * ends in an error, which may be its own (raise_exception) or a name that is unknown;
 * MNEM_UNSUPPORTED: it uses a filter, a method or a template that isn't here; MNEM_OVER_BUDGET: a
 * limit of options, or the ledger. After each of them mnem_template_failure_get says more, and t
 * is usable. */
mnem_status mnem_template_render(mnem_template *t, const mnem_template_input *input,
                                 mnem_text *text);

/* The same as tokens. What the template writes itself may be control tokens; what messages, tools
 * and documents hold is text, whatever it looks like. bos and eos NULL: the tokenizer's. Nothing is
 * added before or behind what the template says. *ids is borrowed until the next call with t. */
mnem_status mnem_template_encode(mnem_template *t, mnem_tokenizer *tokenizer,
                                 const mnem_template_input *input, const int32_t **ids,
                                 size_t *count);

typedef struct mnem_template_failure {
    uint32_t line;     /* of the template; 0: it is about something else */
    bool raised;       /* by the template itself; message is what it said */
    mnem_text message; /* borrowed until the next call with t */
} mnem_template_failure;
/* About the last mnem_template_render, if that failed. */
void mnem_template_failure_get(const mnem_template *t, mnem_template_failure *failure);

/* The most bytes that t had at once so far. */
uint64_t mnem_template_bytes_peak(const mnem_template *t);

#ifdef __cplusplus
}
#endif
#endif
