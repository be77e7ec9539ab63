/* chat_parts.h: a chat's state, and what its files use of each other. */
#ifndef MNEM_TOOLS_MNEM_VERBS_CHAT_CHAT_PARTS_H
#define MNEM_TOOLS_MNEM_VERBS_CHAT_CHAT_PARTS_H

#include "verbs/chat/chat_verb.h"
#include "verbs/chat/line_editor.h"
#include "verbs/chat/markdown.h"
#include "verbs/run/rendering.h"
#include "verbs/run/wider.h"

typedef struct chat {
    tool_stage *stage;
    tool_generator *g;
    tool_rendering rendering;
    tool_conversation said;
    tool_wider wider;     /* the context that would be next */
    int32_t tokens;       /* of an answer at the most; below 1: no limit */
    int32_t fixed_tokens; /* of a rendering before anything is said */
    int32_t answer_at;    /* where the answer begins in the sequence */
    bool has_system, told_full;
    bool verbose; /* the speed is told behind each answer */
    bool draws;   /* standard output is a terminal: answers are drawn */
    markdown drawn;
    char line[TOOL_CHAT_BYTES]; /* the message */
    char system[TOOL_CHAT_BYTES];
    int interrupts; /* Ctrl-C at the prompt, one after another */
} chat;

/* Exit codes end the chat where they aren't TOOL_OK; what can be told and gone on with is. */

/* Forgets what was said, but for the system text, and finds out what that takes. */
int chat_begin(chat *c);
/* The same with another system text; "": none. What is wrong with it leaves the old one. */
int chat_begin_with(chat *c, const char *system);
/* The same, and says so. */
int chat_instruct(chat *c, const char *system);
/* Answers the last turn. */
int chat_answer(chat *c);

/* ---- commands (chat_commands.c) ---- */
/* Does the line begin with a slash and a word that is a command's, or may be a typing error for
 * one? A path, which has a second slash, is a message. */
bool chat_is_command(const char *line);
/* Of such a line. *quit is set where it leaves. */
int chat_command(chat *c, bool *quit);
/* Of the text before the cursor. */
void chat_complete(const char *before, tool_words *words);

/* ---- /set and /show (chat_set.c) ---- */
/* The words behind it; none shows the values. */
int chat_set(chat *c, const char *words);
/* What it takes, and what is set. */
void chat_set_help(const chat *c);
/* /show: the model, the parameters or the system text. */
int chat_show(chat *c, const char *what);
void chat_set_complete(const char *begun, size_t n, tool_words *words);

/* ---- /save and /load (chat_file.c) ---- */
void chat_save(chat *c, const char *path);
int chat_load(chat *c, const char *path);
void chat_file_complete(const char *path, tool_words *words);

#endif
