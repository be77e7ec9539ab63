/* api_model.h: a model as clients see it: its names, its template, its forms of thoughts and calls;
 * and requests as tokens.
 *
 * A model without a template gets mnem's for its control tokens; without such tokens, messages are
 * concatenated, as in `mnem run`. */
#ifndef MNEM_SRC_SERVER_API_API_MODEL_H
#define MNEM_SRC_SERVER_API_API_MODEL_H

#include "mnem/template.h"
#include "server/api/ask/ask.h"
#include "server/api/calls/call_format.h"

enum { API_MARKS = 16 };

/* Tokens for filling a hole; -1: the vocabulary has none. */
typedef struct api_fim {
    int32_t pre, suf, mid;
    int32_t pad, rep, sep; /* padding, a repository's name, a file's name: each ends a filling */
} api_fim;

typedef struct api_model {
    const mnem_model *model;
    mnem_tokenizer *tokenizer;
    mnem_tokenizer_info info;
    const char *name;
    int32_t context;         /* tokens of a conversation */
    mnem_template *template; /* never NULL */
    mnem_text template_text;
    const char *template_args; /* NULL: none */
    const call_format *calls;
    bool writes_tools;       /* the template writes the tools */
    bool thinks;             /* the template has </think> */
    int32_t mark[API_MARKS]; /* control tokens that are marks of calls and thoughts */
    uint32_t marks;
    api_fim fim;
    int32_t end;            /* the token that the template puts behind an answer; -1: unknown */
    mnem_token_set *tokens; /* for grammars; created with the first one */
} api_model;

typedef struct api_model_options {
    const mnem_model *model;
    mnem_tokenizer *tokenizer;
    const char *name;
    mnem_text template;        /* no bytes: the model's */
    const char *template_args; /* as in api_options */
    int32_t context;
    uint64_t template_bytes; /* limit of a rendering */
} api_model_options;

mnem_status api_model_open(const api_model_options *options, api_model *model);
void api_model_close(api_model *model); /* zeros are allowed */

/* Prompts as tokens, one behind another. */
typedef struct api_prompts {
    api_memory *memory;
    int32_t *ids;
    int32_t count, total;
    int32_t begin[ASK_CHOICES + 1]; /* prompt i is ids [begin[i], begin[i + 1]) */
    bool in_thought;                /* the template has opened a thought */
    bool whole_text[ASK_CHOICES];   /* prompt i was a text, and wasn't cut */
} api_prompts;

/* Converts a request's prompts to tokens; false: error is set. */
bool api_prompts_make(api_model *model, api_json *json, const ask_request *ask,
                      api_prompts *prompts, api_error *error);
void api_prompts_fini(api_prompts *prompts);
/* A list of ids that grows. */
typedef struct api_ids {
    api_memory *memory;
    int32_t *id;
    size_t n, room;
} api_ids;
bool api_ids_take(api_ids *list, const int32_t *ids, size_t n, api_error *error);
/* Adds a prompt. */
bool api_prompts_add(api_prompts *prompts, const int32_t *ids, size_t count, api_error *error);
/* Set the error for missing memory, and for a prompt that is too long. Always return false. */
bool api_refuse_busy(api_error *error);
bool api_refuse_long(const api_model *model, size_t tokens, const char *param, api_error *error);

/* ---- api_infill.c ---- */
/* Finds the tokens in the model's file, or by their names. */
void api_fim_find(api_model *model);
/* Whether holes can be filled. */
bool api_fim_is(const api_fim *fim);
/* Gets the tokens that end a filling; returns their number. */
int api_fim_ends(const api_fim *fim, int32_t ends[3]);
/* Makes the prompt of a hole, of at most `room` tokens. */
bool api_fim_make(api_model *model, const ask_request *ask, size_t room, api_prompts *prompts,
                  api_error *error);
/* Renders a chat with the template; the text is borrowed until the next call. */
bool api_model_render(api_model *model, api_memory *memory, const ask_request *ask, mnem_text *text,
                      api_error *error);
/* A text's tokens (flags: MNEM_ENCODE_*), without an end token; borrowed until the next call. */
bool api_model_encode(api_model *model, const char *text, size_t n, unsigned flags,
                      const int32_t **ids, size_t *count, api_error *error);

#endif
