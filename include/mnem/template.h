/* mnem/template.h: chat templates: the subset of Jinja that they use, rendered within fixed limits.
 *
 * A template and its input are untrusted text, so a rendering has limits: of bytes (on the heap,
 * charged like all host bytes), of steps, and of depth. Exceeding a limit is an error, as is
 * everything that Python's jinja2 refuses in the sandbox that the library transformers sets up.
 * Output is identical to that of jinja2. Integers have 64 bits; a larger result is an error, too,
 * except for numbers in the input JSON: these may have up to 4,300 digits, and can be compared and
 * written.
 * Not here: tokenizing other text than a conversation (tokenizer.h).
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
    uint64_t bytes; /* limit for the template and a rendering together; 0: 32 MiB */
    uint64_t steps; /* limit of a rendering; 0: 50 million, some seconds */
    int64_t clock;  /* the time of strftime_now: seconds since 1970, in local time (not UTC); 0: the
                       current time, in the machine's time zone */
} mnem_template_options;

/* Parses a copy of text (UTF-8). options NULL: the defaults. MNEM_BAD_FILE: a syntax error, with
 * its line; MNEM_UNSUPPORTED: a Jinja statement that isn't supported, by its name. Names of
 * filters, tests and other templates (include, import, extends) are resolved when they are used.
 * MNEM_OVER_BUDGET: the template takes more than options->bytes, or the ledger refuses. *t is NULL
 * after an error. */
mnem_status mnem_template_open(const char *text, size_t length,
                               const mnem_template_options *options, mnem_template **t);
void mnem_template_close(mnem_template *t); /* NULL is fine */

/* The input of a template. Texts are JSON, terminated by a zero; NULL: not given. */
typedef struct mnem_template_input {
    /* A list of objects; NULL: the variable isn't defined. If a message has its reasoning under one
     * of the names reasoning_content, thinking and reasoning, the template finds it under the first
     * two. */
    const char *messages;
    const char *tools;     /* a list; NULL: none */
    const char *documents; /* likewise */
    const char
        *arguments; /* an object, each member a variable; the last one of duplicates counts */
    const char *bos, *eos; /* bos_token and eos_token, not as JSON; NULL: not defined */
    bool add_generation_prompt;
} mnem_template_input;

/* Renders a template; *text is borrowed until the next call with t. MNEM_INVALID: the input isn't
 * JSON, or the template fails, by its own error (raise_exception) or an unknown name;
 * MNEM_UNSUPPORTED: it uses a filter, a method or a template that isn't supported;
 * MNEM_OVER_BUDGET: a limit of options, or of the ledger. After each of these errors
 * mnem_template_failure_get gives details, and t stays usable. */
mnem_status mnem_template_render(mnem_template *t, const mnem_template_input *input,
                                 mnem_text *text);

/* Renders a template to tokens. Text of the template itself may become control tokens; the contents
 * of messages, tools and documents are always plain text. bos and eos NULL: those of the tokenizer.
 * Nothing is added before or after the output of the template. *ids is borrowed until the next call
 * with t. */
mnem_status mnem_template_encode(mnem_template *t, mnem_tokenizer *tokenizer,
                                 const mnem_template_input *input, const int32_t **ids,
                                 size_t *count);

typedef struct mnem_template_failure {
    uint32_t line;     /* in the template; 0: the error is not in the template */
    bool raised;       /* by raise_exception in the template, with its message */
    mnem_text message; /* borrowed until the next call with t */
} mnem_template_failure;
/* Gets the failure of the last mnem_template_render, if it failed. */
void mnem_template_failure_get(const mnem_template *t, mnem_template_failure *failure);

/* The largest number of bytes that t has held so far. */
uint64_t mnem_template_bytes_peak(const mnem_template *t);

#ifdef __cplusplus
}
#endif
#endif
