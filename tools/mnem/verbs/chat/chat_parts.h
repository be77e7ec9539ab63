/* chat_parts.h: a chat's state, and the functions that its files share. */
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
    tool_wider wider;     /* the next larger context */
    int32_t tokens;       /* limit of an answer; below 1: none */
    int32_t fixed_tokens; /* tokens of a rendering without messages */
    int32_t answer_at;    /* index of the answer's first token in the sequence */
    bool has_system, told_full;
    bool verbose; /* print the speed behind each answer */
    bool draws;   /* standard output is a terminal: draw answers as Markdown */
    markdown drawn;
    char line[TOOL_CHAT_BYTES]; /* the message */
    char system[TOOL_CHAT_BYTES];
    int interrupts; /* consecutive Ctrl-C at the prompt */
} chat;

/* An exit code other than TOOL_OK ends the chat; recoverable errors are printed, and the chat goes
 * on. */

/* Forgets all messages except the system text, and measures the tokens of that. */
int chat_begin(chat *c);
/* The same with another system text; "": none. If it is refused, the old one stays. */
int chat_begin_with(chat *c, const char *system);
/* The same, with a message. */
int chat_instruct(chat *c, const char *system);
/* Answers the last turn. */
int chat_answer(chat *c);

/* ---- commands (chat_commands.c) ---- */
/* Whether the line begins with a slash and a command's name, or a likely typing error for one. A
 * path, which has a second slash, is a message. */
bool chat_is_command(const char *line);
/* Executes such a line. *quit: it ends the chat. */
int chat_command(chat *c, bool *quit);
/* Completes the text before the cursor. */
void chat_complete(const char *before, tool_words *words);

/* ---- /set and /show (chat_set.c) ---- */
/* Executes /set with these words; without words it shows the values. */
int chat_set(chat *c, const char *words);
/* Prints the parameters of /set, and their values. */
void chat_set_help(const chat *c);
/* /show: the model, the parameters or the system text. */
int chat_show(chat *c, const char *what);
void chat_set_complete(const char *begun, size_t n, tool_words *words);

/* ---- /save and /load (chat_file.c) ---- */
void chat_save(chat *c, const char *path);
int chat_load(chat *c, const char *path);
void chat_file_complete(const char *path, tool_words *words);

#endif
