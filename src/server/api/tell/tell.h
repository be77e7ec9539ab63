/* tell.h: converts tokens into a client's answer: tokens to text, text to parts, parts to bytes.
 *
 *     token ──► tell_answer.c ──► tell_parts.c ──► form_*.c ──► out
 *               whole characters,  thoughts, text,  a protocol's events,
 *               stops              calls of tools   or its body
 *
 * A tell has all answers of a request, a tell_choice one of them. Bytes are appended to out,
 * from which the caller sends them. Text that may be the beginning of a stop string or a mark is
 * held back, so that a stop string is never sent, whatever its tokens. No function fails: text
 * that doesn't fit in memory sets out.failed, or that of a kept text. */
#ifndef MNEM_SRC_SERVER_API_TELL_TELL_H
#define MNEM_SRC_SERVER_API_TELL_TELL_H

#include "mnem/serve.h"
#include "server/api/api_error.h"
#include "server/api/ask/ask.h"
#include "server/api/calls/call_parser.h"
#include "server/api/calls/call_texts.h"

enum { TELL_ID = 40 };

typedef enum tell_finish {
    TELL_OPEN, /* not ended */
    TELL_STOP,
    TELL_STOPPED, /* by a stop string */
    TELL_LENGTH,
    TELL_CALLS,
    TELL_FAILED
} tell_finish;

typedef enum tell_part {
    TELL_BEGIN, /* nothing but white space so far */
    TELL_THOUGHT,
    TELL_TEXT_BEGIN, /* white space behind a thought */
    TELL_TEXT,
    TELL_CALL
} tell_part;

/* A sent token, and its alternatives. */
typedef struct tell_log {
    uint64_t begin; /* offset of its text in the answer */
    mnem_token_logprob chosen, top[MNEM_TOP_LOGPROBS];
    int32_t top_count;
    bool first; /* the first of a prompt, without a logprob */
} tell_log;

struct tell;

/* Initialize with zeros, except tell and index. */
typedef struct tell_choice {
    struct tell *tell;
    int32_t index;
    mnem_utf8_joiner joiner;
    api_text held; /* unsent text */
    uint64_t told; /* number of bytes before it */
    tell_part part;
    call_parser parser;
    int32_t calls;        /* so far */
    bool in_call, argued; /* a call has begun; arguments of it were sent */
    bool begun;           /* something was sent */
    bool whole_text;      /* the prompt was a text, without the space that its tokens begin with */
    api_text logs;        /* tell_log of tokens with unsent text */
    int32_t tokens;
    int32_t prompt_tokens, computed, cached; /* computed: so far, with those cached */
    bool stepped;                            /* these are known */
    double computed_ms;                      /* that took so long */
    bool has_line;                           /* its text has a line's end */
    double now_ms;            /* when the next token was chosen; set before tell_token */
    double first_ms, last_ms; /* when its first token was, and its last so far */
    tell_finish finish;
    const char *stopped_by; /* of TELL_STOPPED */
    bool ended;             /* ended by one of the tell's end tokens */
    /* Kept if a protocol needs them again, or doesn't stream. */
    api_text text, thought, call_list;
    api_text ids;          /* of tokens, as members of a list; of /completion */
    api_text prompt;       /* its text; of /completion, or where it is asked for */
    api_text log_lists[4]; /* chat: the first one has all entries; text: one per member */
    char call_id[TELL_ID];
    int32_t items;     /* of /v1/responses and /v1/messages: parts that have begun */
    int32_t open_item; /* the kind of the open part, a number defined by the form */
} tell_choice;

/* The output of a protocol; functions of a stream write events, put_whole writes a body. */
typedef struct tell_form {
    void (*put_text)(tell_choice *choice, bool thought, const char *bytes, size_t n);
    void (*put_call)(tell_choice *choice, const char *name, size_t n); /* a call begins */
    void (*put_arguments)(tell_choice *choice, const char *bytes, size_t n);
    void (*end_call)(tell_choice *choice);
    void (*put_finish)(tell_choice *choice);
    void (*put_progress)(tell_choice *choice); /* of its prompt; NULL: it isn't told */
    void (*put_end)(struct tell *tell);        /* all choices have ended */
    void (*put_whole)(struct tell *tell);      /* nothing was streamed */
    api_error_form error;
    bool lines; /* a stream is lines of JSON, not events */
} tell_form;

typedef struct tell {
    const tell_form *form;
    ask_form protocol;
    api_memory *memory;
    api_text out;
    const mnem_tokenizer *tokenizer;
    const char *model;
    char id[TELL_ID];
    int64_t created; /* seconds since 1970 began */
    double begin_ms; /* time of tell_init, of a monotonic clock */
    bool stream, usage, logprobs, thinks, in_thought;
    bool no_answer;                 /* no token is sent */
    bool progress;                  /* steps of prompts are told */
    bool timings_each;              /* in each event, not in the last alone */
    bool lists_ids;                 /* of tokens, in a whole answer of /completion */
    bool truncated;                 /* the prompt was cut */
    int32_t limit, context;         /* tokens: asked for (0: no number), of a conversation */
    int32_t slot;                   /* id_slot, as it was asked for; -1: it wasn't */
    api_text settings;              /* of /completion: what the answers are chosen with */
    bool must_call;                 /* an answer without a call is an error */
    bool begun;                     /* something was written */
    const call_format *call_format; /* NULL: answers have no calls */
    call_texts call_texts;          /* the arguments that are texts */
    api_text unsupported; /* parts of tools' schemas that aren't enforced: members of a JSON list */
    const int32_t *mark;  /* [marks] control tokens whose texts are sent */
    uint32_t marks;
    const char *stop[ASK_STOPS];
    int stops;
    int32_t end[3]; /* [ends] tokens that end an answer beside those of the model */
    int ends;
    tell_choice *choice; /* [choices] */
    int32_t choices;
    int32_t choices_open;
    int32_t n;                            /* answers to each prompt */
    int32_t prompt_tokens, cached_tokens; /* of all prompts */
    uint64_t calls;                       /* of all choices, for their ids */
    int32_t events;                       /* of /v1/responses, which numbers them */
} tell;

/* The protocol's form. */
const tell_form *tell_form_of(ask_form protocol);

/* The caller has set the fields that answers share; false: too little memory for so many. Call
 * fini in any case. */
bool tell_init(tell *tell, api_memory *memory, int32_t choices);
/* After tell_init, for /completion: what its answers are chosen with, and an answer's prompt as
 * text. */
void tell_set_settings(tell *tell, const ask_request *ask);
void tell_set_prompt(tell_choice *choice, const int32_t *ids, int32_t n);
/* Members of an object. */
void tell_put_sampler(api_text *out, const mnem_sampler_options *options);
/* Whether text didn't fit in memory, so that the output is incomplete. */
bool tell_failed(const tell *tell);
/* Adds a token of the prompt, before all others; first: without a logprob. */
void tell_prompt(tell_choice *choice, const mnem_request_token *token, bool first);
/* So many tokens of the prompt are there, of which some were cached. */
void tell_progress(tell_choice *choice, int32_t tokens, int32_t cached, double ms);
/* Adds a token; an end token has no text. false: the answer has reached a stop string
 * (stopped_by) or an end token (ended), and further tokens must not be added. */
bool tell_token(tell_choice *choice, const mnem_request_token *token);
/* Whether an answer ended inside a call, or before a required one; the existing part is sent. */
bool tell_is_cut(tell_choice *choice);
/* Ends a choice: writes held text and the reason. */
void tell_end(tell_choice *choice, tell_finish finish);
/* Writes the event of an error, after a part of the answer was sent. */
void tell_error(tell *tell, const api_error *error);
void tell_fini(tell *tell);

/* The present time of begin_ms's clock. */
double tell_now_ms(void);
/* A moment since 1970 began as RFC 3339 has it, in quotes; and a model's name with its tag, as
 * Ollama's API has names: "NAME:latest". */
void tell_put_time(api_text *out, int64_t seconds, int32_t nanoseconds);
void tell_put_tagged(api_text *out, const char *name);

#endif
