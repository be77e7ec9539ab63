/* chat_commands.c: what a line that begins with a slash does.
 *
 * The table is the help, what Tab completes, and what is run; a beginning that is of one command
 * only means it, and so do the words of other tools. */
#include <string.h>

#include "verbs/chat/chat_parts.h"

typedef struct chat_entry {
    const char *name, *also, *value, *help; /* also: other names, spaces between */
    int (*run)(chat *c, const char *rest);  /* NULL: it leaves */
} chat_entry;

static int command_help(chat *c, const char *rest);

static int command_clear(chat *c, const char *rest) {
    (void)rest;
    const int code = chat_begin(c);
    if (code == TOOL_OK) fputs("The conversation begins again.\n", stderr);
    return code;
}

static int command_system(chat *c, const char *rest) {
    return chat_instruct(c, rest);
}

/* A new answer in the place of the last, which nobody wanted. */
static int command_regen(chat *c, const char *rest) {
    (void)rest;
    if (c->said.turns == 0) {
        fputs("There is no message to answer again yet; type one first.\n", stderr);
        return TOOL_OK;
    }
    if (c->g->sampling.temperature <= 0)
        fputs("With temp 0 the answer is always the same; /set temp 0.8 allows different ones.\n",
              stderr);
    tool_conversation_unanswer(&c->said);
    return chat_answer(c);
}

static int command_save(chat *c, const char *rest) {
    chat_save(c, rest);
    return TOOL_OK;
}

static int command_ledger(chat *c, const char *rest) {
    (void)rest;
    tool_report_ledger(stderr, c->stage);
    return TOOL_OK;
}

static int command_stats(chat *c, const char *rest) {
    command_ledger(c, rest);
    tool_generator_report(stderr, c->g);
    fprintf(stderr, "context: %d of %d tokens, %d turn%s\n", c->g->count, c->stage->plan.context,
            c->said.turns, tool_s((uint64_t)c->said.turns));
    return TOOL_OK;
}

static const chat_entry commands[] = {
    {"/help", "/?", "[COMMAND]", "show this list, or what one of them takes", command_help},
    {"/clear", "/reset", "", "begin the conversation again", command_clear},
    {"/system", NULL, "TEXT", "new instructions, without TEXT none; begins again", command_system},
    {"/set", NULL, "[OPTION VALUE]", "temp, tokens, verbose, ...; without OPTION shows them",
     chat_set},
    {"/regen", "/regenerate /retry", "", "answer the last message again", command_regen},
    {"/save", NULL, "FILE", "write the conversation (JSON)", command_save},
    {"/load", NULL, "FILE", "go on with one that was saved", chat_load},
    {"/stats", NULL, "", "context, speed and the ledger", command_stats},
    {"/show", NULL, "[info]", "the model and its context; or: parameters, system", chat_show},
    {"/ledger", NULL, "", "every byte, by kind and tag", command_ledger},
    {"/quit", "/bye /exit", "", "leave (or Ctrl-D)", NULL},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void show_command(const chat_entry *e) {
    char name[64];
    snprintf(name, sizeof name, "%s %s", e->name, e->value);
    fprintf(stderr, "  %-21s %s\n", name, e->help);
}

static const chat_entry *find(const char *word, size_t n, int *like);

/* "set", "/set" or "set temp"; false: there is no such command. */
static bool help_of(const chat *c, const char *rest) {
    char word[32];
    int like;
    const int n = snprintf(word, sizeof word, "/%.*s", (int)strcspn(rest, " "), rest);
    const char *name = *rest == '/' ? word + 1 : word;
    const chat_entry *e = n < (int)sizeof word ? find(name, strlen(name), &like) : NULL;
    if (!e) return false;
    show_command(e);
    if (e->run == chat_set) chat_set_help(c);
    return true;
}

static int command_help(chat *c, const char *rest) {
    if (*rest && help_of(c, rest)) return TOOL_OK;
    for (int i = 0; i < COMMANDS; i++) show_command(&commands[i]);
    fputs("  /clear is also /reset, /help /?, and /quit /bye. Tab completes, Up recalls.\n"
          "  A pasted text is one message; so is what stands between \"\"\" and \"\"\", and a\n"
          "  line that ends with \\ goes on in the next. Ctrl-C stops an answer.\n",
          stderr);
    return TOOL_OK;
}

/* ---- which one ---- */

/* NULL: none, or several begin so; their count goes to *like. */
static const chat_entry *find(const char *word, size_t n, int *like) {
    const chat_entry *found = NULL;
    *like = 0;
    for (int i = 0; i < COMMANDS; i++) {
        const chat_entry *e = &commands[i];
        if (tool_has_word(e->name, word, n) || tool_has_word(e->also, word, n)) return e;
        if (n < 2 || strncmp(e->name, word, n) != 0) continue;
        found = e;
        ++*like;
    }
    return *like == 1 ? found : NULL;
}

/* Commands of other tools, and what does the same, or nearly. */
static const struct {
    const char *words, *text;
} habits[] = {
    {"/read /glob /file", "Paste the text: it is one message, however many lines it has."},
    {"/image /audio /video", "Images and sound are not supported."},
    {"/undo /pop /delete", "/regen answers the last message again, /clear begins anew."},
    {"/model /models /list /ps", "A chat has one model: /show describes it, /quit leaves it."},
    {"/context /tokens /usage", "/stats shows how much of the context is used."},
    {"/copy", "Select the text in the terminal, or write all of it with /save FILE."},
};

static const char *find_habit(const char *word, size_t n) {
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (tool_has_word(habits[i].words, word, n)) return habits[i].text;
    return NULL;
}

static void refuse(const char *word, size_t n, int like) {
    const char *instead = find_habit(word, n);
    if (instead) {
        fprintf(stderr, "No command %.*s. %s\n", (int)n, word, instead);
        return;
    }
    fprintf(stderr, "%s command %.*s; /help lists them.\n", like ? "Which" : "No",
            (int)(n < 40 ? n : 40), word);
    if (!like)
        fputs("To send a message that begins with /, put it between \"\"\" and \"\"\".\n", stderr);
}

bool chat_is_command(const char *line) {
    const size_t n = strcspn(line, " \t");
    int like;
    if (*line != '/') return false;
    return find(line, n, &like) || like || !memchr(line + 1, '/', n - 1);
}

int chat_command(chat *c, bool *quit) {
    const size_t n = strcspn(c->line, " \t");
    const char *rest = c->line + n + strspn(c->line + n, " \t");
    int like;
    const chat_entry *e = find(c->line, n, &like);
    for (size_t end = strlen(c->line); end > n && c->line[end - 1] == ' ';) c->line[--end] = 0;
    if (!e)
        refuse(c->line, n, like);
    else if (!e->run)
        *quit = true;
    else
        return e->run(c, rest);
    return TOOL_OK;
}

void chat_complete(const char *before, tool_words *words) {
    const char *space = strchr(before, ' ');
    int like;
    if (!space) {
        for (int i = 0; i < COMMANDS; i++)
            tool_words_add(words, before, strlen(before), commands[i].name);
        return;
    }
    const chat_entry *e = find(before, (size_t)(space - before), &like);
    const char *word = space + strspn(space, " ");
    words->from = (size_t)(word - before);
    if (!e || !*e->value) return;
    if (e->run == chat_set && !strchr(word, ' ')) chat_set_complete(word, strlen(word), words);
    if (e->run == command_save || e->run == chat_load) chat_file_complete(word, words);
}
