/* api_model.h: what a model is to clients: its names, its template, how it thinks and calls tools;
 * and what they ask as tokens.
 *
 * A model without a template of its own gets mnem's for its control tokens, and one without those
 * texts that follow one another, as `mnem run` has it. */
#ifndef MNEM_SRC_SERVER_API_API_MODEL_H
#define MNEM_SRC_SERVER_API_API_MODEL_H

#include "mnem/template.h"
#include "server/api/ask/ask.h"
#include "server/api/calls/call_format.h"

enum { API_MARKS = 16 };

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
    bool writes_tools;       /* the template does */
    bool thinks;             /* it knows </think> */
    int32_t mark[API_MARKS]; /* control tokens that are marks of calls and thoughts */
    uint32_t marks;
    int32_t end;            /* the token that it puts behind an answer; -1: none that is known */
    mnem_token_set *tokens; /* for grammars; made when the first one is asked for */
} api_model;

typedef struct api_model_options {
    const mnem_model *model;
    mnem_tokenizer *tokenizer;
    const char *name;
    mnem_text template;        /* no bytes: the model's */
    const char *template_args; /* as in api_options */
    int32_t context;
    uint64_t template_bytes; /* of a rendering, at most */
} api_model_options;

mnem_status api_model_open(const api_model_options *options, api_model *model);
void api_model_close(api_model *model); /* zeros are fine */

/* Prompts as tokens, one behind another. */
typedef struct api_prompts {
    api_memory *memory;
    int32_t *ids;
    int32_t count, total;
    int32_t begin[ASK_CHOICES + 1]; /* prompt i is ids [begin[i], begin[i + 1]) */
    bool in_thought;                /* the template has opened one */
    bool whole_text[ASK_CHOICES];   /* prompt i was a text, and all of it is there */
} api_prompts;

/* What is asked for as tokens; error says why not. */
bool api_prompts_make(api_model *model, api_json *json, const ask_request *ask,
                      api_prompts *prompts, api_error *error);
void api_prompts_fini(api_prompts *prompts);
/* A chat as the text that the template makes of it, borrowed until the next call. */
bool api_model_render(api_model *model, api_memory *memory, const ask_request *ask, mnem_text *text,
                      api_error *error);
/* A text's tokens (flags: MNEM_ENCODE_*), without one that ends it; borrowed until the next. */
bool api_model_encode(api_model *model, const char *text, size_t n, unsigned flags,
                      const int32_t **ids, size_t *count, api_error *error);

#endif
