/* mnem/chat.h: a conversation with a model under a budget, opened in one call: the model's chat
 * template, the history, and answers that are passed on while they are generated.
 *
 * mnem_chat_open does what mnem_open (session.h) does. Before the plan is made it also allocates
 * what a conversation needs, so that the conversation stays within the budget. For each answer the
 * template renders the whole history again; tokens that the sequence already holds are kept, so
 * that usually only the last turn is evaluated. When the context is full, the oldest turns are
 * dropped; the system text stays. For a model without a chat template, and whose control tokens
 * don't reveal its format, the text of all messages is continued.
 * Not here: tools and other roles (template.h), grammars (grammar.h), many conversations (serve.h).
 * Threads: no other thread may use the library in mnem_chat_open. A chat belongs to one thread at
 * a time; mnem_chat_cancel may be called from any thread and from a signal handler.
 *
 *     mnem_chat *chat;
 *     const mnem_chat_options options = {.budget_bytes = 64 << 20, .system = "Be brief."};
 *     if (mnem_chat_open("model.gguf", &options, &chat, NULL) != MNEM_OK)
 *         fprintf(stderr, "%s\n", mnem_last_error());
 *     mnem_chat_say(chat, "Who was Moses?", on_text, NULL);
 *     mnem_chat_say(chat, "And his brother?", on_text, NULL);
 *     mnem_chat_close(chat);
 */
#ifndef MNEM_CHAT_H
#define MNEM_CHAT_H

#include "mnem/session.h"
#include "mnem/template.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mnem_chat mnem_chat;

/* Zero means default. Texts are copied. */
typedef struct mnem_chat_options {
    uint64_t budget_bytes;       /* of the whole process (default: as mnem_open) */
    const char *system;          /* instructions before the first turn */
    const char *template_source; /* Jinja, instead of the model's template */
    const char *arguments;       /* further variables for the template: a JSON object */
    int32_t tokens;              /* limit for an answer (default: until the model ends it; without
                                    a template, 256) */
    const mnem_sampler_options *sampler; /* default: mnem_sampler_usual */
    const mnem_engine_options *engine;   /* context, threads, types; the ledger is set here */
} mnem_chat_options;

/* Opens the model within the budget. needed_bytes (may be NULL): after MNEM_OVER_BUDGET, the
 * smallest budget that is enough, which the error text states too; 0: not known. Statuses are those
 * of mnem_open, mnem_template_open and mnem_sampler_create; also MNEM_INVALID and MNEM_UNSUPPORTED
 * when the template refuses a first message. *chat is NULL after an error. */
mnem_status mnem_chat_open(const char *path, const mnem_chat_options *options, mnem_chat **chat,
                           uint64_t *needed_bytes);
void mnem_chat_close(mnem_chat *chat); /* NULL is fine */

/* Adds a message to the conversation and generates the answer. on_text receives the text of the
 * answer while it is generated (as in session.h); NULL: the text is only stored in the history. The
 * message and the generated text become part of the history. MNEM_CANCELLED: on_text returned
 * false, or mnem_chat_cancel was called; the text generated so far stays in the history.
 * MNEM_OVER_BUDGET: the message alone does not fit the context; the history is unchanged. After any
 * other error of the template or the engine, the message is not part of the history, unless a part
 * of the answer was already generated. The chat stays usable after each of these errors. */
mnem_status mnem_chat_say(mnem_chat *chat, const char *message, mnem_on_text *on_text,
                          void *context);
/* Forgets all turns; the system text stays. */
void mnem_chat_reset(mnem_chat *chat);
/* Stops the answer that is being generated. Async-signal-safe; as mnem_session_cancel. */
void mnem_chat_cancel(mnem_chat *chat);

typedef enum mnem_chat_end {
    MNEM_CHAT_NO_ANSWER, /* no answer yet, or an error */
    MNEM_CHAT_ENDED,     /* by the model */
    MNEM_CHAT_LIMIT,     /* options.tokens */
    MNEM_CHAT_CONTEXT,   /* the context is full; the next message drops old turns */
    MNEM_CHAT_CANCELLED,
} mnem_chat_end;

typedef struct mnem_chat_info {
    bool has_template; /* false: the text is continued */
    int32_t context;   /* tokens */
    int32_t turns;     /* of the history */
    /* of the last mnem_chat_say */
    mnem_chat_end end;
    int32_t turns_dropped;
    int32_t prompt_tokens; /* of the whole history */
    int32_t kept_tokens;   /* prompt tokens that weren't evaluated again */
    int32_t tokens;        /* of the answer */
} mnem_chat_info;
void mnem_chat_info_get(const mnem_chat *chat, mnem_chat_info *info);
/* The history as a JSON list of messages with role and content, including the system text; without
 * a template, the text that is continued. Borrowed until the next call with chat. */
mnem_text mnem_chat_history(mnem_chat *chat);
/* The objects that the chat uses, borrowed: ledger, plan, and the session (for its statistics). */
const mnem_opened *mnem_chat_opened(const mnem_chat *chat);

#ifdef __cplusplus
}
#endif
#endif
