/* ask.h: parses and checks a request: from a body's JSON to one struct for all protocols.
 *
 *     body ──► ask_chat.c        /v1/chat/completions        common fields: ask_fields.c
 *              ask_text.c        /v1/completions, /completion        messages: ask_message.c
 *              ask_responses.c   /v1/responses                       tools: ask_tools.c
 *              ask_messages.c    /v1/messages
 *              ask_ollama.c      /api/chat, /api/generate            keep_alive: ask_keep.c
 *              ask_infill.c      /infill
 *
 * null means absent; unknown fields are ignored; known but unsupported fields are refused, and
 * the error names them. Messages and tools are converted to the form of chat templates, that of
 * /v1/chat/completions. Texts are borrowed from the open document (api_json.h). */
#ifndef MNEM_SRC_SERVER_API_ASK_ASK_H
#define MNEM_SRC_SERVER_API_ASK_ASK_H

#include "mnem/serve.h"
#include "server/api/api_json.h"

enum {
    ASK_IGNORED = 16,     /* fields */
    ASK_STOPS = 16,       /* strings that end an answer */
    ASK_STOP_BYTES = 256, /* longest stop string */
    ASK_CHOICES = 32,     /* answers to one request: prompts times n */
    ASK_BIASES = 512,
    ASK_BIAS_TEXTS = 128,
    ASK_TOOLS = 128,
    ASK_NAME_BYTES = 64, /* of a tool */
};

typedef enum ask_form {
    ASK_CHAT,
    ASK_TEXT,       /* /v1/completions */
    ASK_COMPLETION, /* /completion, llama.cpp's */
    ASK_RESPONSES,
    ASK_MESSAGES,    /* Anthropic's */
    ASK_OLLAMA_CHAT, /* /api/chat */
    ASK_OLLAMA_TEXT, /* /api/generate */
    ASK_INFILL,      /* /infill, llama.cpp's */
    ASK_FORMS
} ask_form;

typedef enum ask_limit { ASK_FREE, ASK_JSON, ASK_SCHEMA, ASK_GRAMMAR } ask_limit;
typedef enum ask_choice { ASK_TOOL_AUTO, ASK_TOOL_NONE, ASK_TOOL_REQUIRED } ask_choice;

/* How long a model stays behind a request. */
typedef struct ask_keep {
    bool said;
    int64_t seconds; /* below 0: for good */
} ask_keep;

typedef struct ask_request {
    ask_form form;
    const char *model; /* the name in the request; NULL: none */

    /* for a chat */
    json_t *messages;  /* NULL: not a chat */
    json_t *tools;     /* NULL: none */
    const char *begun; /* the text that the answer goes on with: what the last message was, if it is
                          the assistant's; NULL: none */
    bool no_turn;      /* the prompt doesn't begin a turn of the assistant's */
    bool verbose;      /* the prompt as text comes with the answer */
    ask_choice tool_choice;
    const char *tool_name; /* the tool that must be called; NULL: any */
    bool tools_parallel;
    const json_t *allowed; /* the allowed tools of tool_choice; NULL: all */
    json_t *arguments;     /* variables of the template; NULL: none */

    json_t *prompt; /* for a text: a string, ids, or a list of these */

    const json_t *prefix, *suffix; /* for a hole; NULL: not a hole */
    const json_t *extra;           /* other files: a list of objects; NULL: none */
    const char *middle;            /* the beginning of its text; NULL: none */

    /* for answers */
    int32_t tokens; /* 0: what the context leaves */
    bool counted;   /* only the number of the prompt's tokens is requested */
    bool no_answer; /* only the prompt is computed */
    bool load;      /* the request only loads the model, or unloads it if keep is 0 */
    ask_keep keep;
    bool echo; /* a text's answer begins with its prompt */
    int32_t n;
    bool timings;   /* in each event of a stream */
    bool progress;  /* a stream says how far the prompt has come */
    bool lists_ids; /* the answer's ids come beside its text */
    int32_t slot;   /* id_slot; -1: none */
    bool stream, usage, logprobs, ignore_end, truncate;
    int32_t top;
    const char *stop[ASK_STOPS];
    int stops;
    ask_limit limit;
    const json_t *schema;    /* of ASK_SCHEMA; an object */
    const char *grammar;     /* of ASK_GRAMMAR */
    const char *limit_field; /* the name in the request: "json_schema", "response_format", ... */

    mnem_sampler_options sampler; /* bias: below */
    mnem_logit_bias bias[ASK_BIASES];
    /* Of each token of these texts; what bias has of one is overridden. */
    struct {
        const char *text;
        float bias;
    } bias_text[ASK_BIAS_TEXTS];
    int32_t bias_texts;
    const char *breaker[MNEM_DRY_BREAKERS]; /* of DRY, in addition to those of sampler */
    int32_t breakers;                       /* -1: not given */
    bool seeded;

    const char *ignored[ASK_IGNORED]; /* fields that the response lists as unsupported */
    int32_t ignored_count;

    float *adapter_scales; /* of all adapters; NULL: as the server's options say */
    bool no_sharing;
    const char *salt; /* "" for none */
    int32_t priority;
} ask_request;

/* Defaults of absent fields. */
typedef struct ask_defaults {
    mnem_sampler_options sampler;
    int32_t tokens; /* 0: what the context leaves */
    int32_t vocab, context;
    bool truncate;
    bool thinks, fills; /* the model has thoughts; it has tokens for holes */
    bool counts;        /* ask_request.counted */
    bool keeps;         /* models are unloaded */
} ask_defaults;

/* Whether tool_choice lets a tool be called. */
bool ask_may_call(const ask_request *ask, const char *name);

/* Whether a value of `prompt` is one prompt: a text, ids, or a list of both; not a list of prompts.
 * The text of a part that isn't ids: a string, or llama.cpp's object with a `prompt_string`; one
 * with media is returned as it is. */
bool ask_is_one_prompt(const json_t *prompt);
const json_t *ask_get_text(const json_t *part);
/* Adds a bias. replaces: a second bias of a token replaces the first; otherwise it is refused. */
bool ask_add_bias(ask_request *ask, int32_t id, float bias, bool replaces, api_error *error);
/* Reads Ollama's keep_alive from a body of any protocol. */
bool ask_read_keep(const json_t *root, ask_keep *keep, api_error *error);
/* Whether the body asks only to unload the model. */
bool ask_is_unload(ask_form form, const json_t *root);
/* false: error is set. json must be open, and owns the values in ask. */
bool ask_read(ask_form form, api_json *json, const ask_defaults *defaults, ask_request *ask,
              api_error *error);

#endif
