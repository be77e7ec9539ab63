/* chat.c: a conversation on the terminal that keeps its context.
 *
 * The sequence is [system part][turn][turn]...; a turn is what the user wrote and the answer. When
 * the context is full the oldest turns are dropped: the system part stays where it is in the KV
 * cache, what is kept after it is evaluated again, at its new positions.
 *
 * The line editor writes to stderr, so that stdout has the answers only. */
#include "verbs/run/chat.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

enum {
    TURNS_MAX = 1024,
    USUAL_BYTES = 2048,
    EDITOR_BYTES = 512 * 1024, /* what the editor and its history may take, charged */
    HISTORY_LINES = 64,
    HISTORY_BYTES = 512, /* of a line that is kept */
    DEFAULT_CONTEXT = 4096,
    PLAIN_TOKENS = 128, /* of a continuation, when no format says where it ends */
};

typedef struct chat {
    tool_stage *stage;
    tool_generator *g;
    mnem_chat_format format;
    int32_t system_count;    /* tokens that stay */
    int32_t turn[TURNS_MAX]; /* where each turn begins in the sequence */
    int turns;
    char line[TOOL_CHAT_BYTES]; /* the message, or the system text */
    char system[TOOL_CHAT_BYTES];
    int interrupts; /* Ctrl-C at the prompt, one after another */
} chat;

static EditLine *editor;
static History *history_lines;
static bool continued; /* the prompt is of a line that goes on */

/* ---- the editor ---- */

static char *prompt_text(EditLine *line) {
    (void)line;
    static char first[] = "> ", next[] = "... ";
    return continued ? next : first;
}

/* Reads one character. Ctrl-C ends the wait whichever thread its signal came to, and even if it
 * came just before the wait. */
static int read_character(EditLine *line, wchar_t *character) {
    (void)line;
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = tool_interrupt_fd(), .events = POLLIN}};
    mbstate_t state = {0};
    for (;;) {
        if (poll(wait, 2, -1) < 0 && errno != EINTR) return -1;
        errno = EINTR;
        if (tool_interrupted()) return -1;
        if (!wait[0].revents) continue;
        char byte;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0) return (int)n;
        size_t length = mbrtowc(character, &byte, 1, &state);
        if (length == (size_t)-2) continue; /* more bytes to come */
        if (length == (size_t)-1) *character = L'?';
        return 1;
    }
}

void tool_chat_prepare(void) {
    /* Characters are UTF-8 whatever the locale says. */
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
    HistEvent event;
    tool_interrupt_fd(); /* there before the first wait */
    editor = el_init("mnem", stdin, stderr, stderr);
    history_lines = history_init();
    if (!editor || !history_lines) return;
    history(history_lines, &event, H_SETSIZE, HISTORY_LINES);
    history(history_lines, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_PROMPT, prompt_text);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, history, history_lines);
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_GETCFN, read_character);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

void tool_chat_finish(void) {
    if (history_lines) history_end(history_lines);
    if (editor) el_end(editor);
}

typedef enum input { INPUT_LINE, INPUT_END, INPUT_INTERRUPTED, INPUT_LONG } input;

/* Reads a message; a line that ends with a backslash goes on in the next one. */
static input read_message(chat *c) {
    size_t used = 0;
    el_resize(editor); /* the terminal may have another width now */
    for (continued = false;; continued = true) {
        int n;
        /* Before the prompt is shown: el_gets does it after, and what is typed between is lost. */
        el_set(editor, EL_PREP_TERM, 1);
        const char *text = el_gets(editor, &n);
        if (tool_interrupted()) return INPUT_INTERRUPTED;
        if (!text || n <= 0) return used ? INPUT_LINE : INPUT_END;
        size_t length = strcspn(text, "\r\n");
        bool more = length && text[length - 1] == '\\';
        if (more) length--;
        if (used + length + 2 > sizeof c->line) return INPUT_LONG;
        memcpy(c->line + used, text, length);
        used += length;
        if (more) c->line[used++] = '\n';
        c->line[used] = 0;
        HistEvent event;
        if (length && length < HISTORY_BYTES) history(history_lines, &event, H_ENTER, text);
        if (!more) return INPUT_LINE;
    }
}

/* ---- the sequence ---- */

/* Drops the `drop` oldest turns from the sequence and from the session. */
static bool drop_turns(chat *c, int drop) {
    tool_generator *g = c->g;
    int32_t from = c->turn[drop], gone = from - c->system_count;
    int32_t length = mnem_session_length(c->stage->session);
    if (length > c->system_count &&
        mnem_session_truncate(c->stage->session, c->system_count) != MNEM_OK)
        return false;
    memmove(g->ids + c->system_count, g->ids + from, (size_t)(g->count - from) * sizeof *g->ids);
    g->count -= gone;
    c->turns -= drop;
    for (int i = 0; i < c->turns; i++) c->turn[i] = c->turn[i + drop] - gone;
    tool_message(
        "the context is full: dropped the oldest %d turn%s (%d token%s), reading the last %d "
        "again",
        drop, tool_s((uint64_t)drop), gone, tool_s((uint64_t)gone), g->count - c->system_count);
    return true;
}

/* Makes room for n more tokens by dropping the oldest turns, but not the last `keep`. */
static bool make_room(chat *c, int64_t n, int keep) {
    c->turn[c->turns] = c->g->count; /* where the next one would begin */
    for (int drop = 0; drop <= c->turns - keep; drop++) {
        int32_t gone = c->turn[drop] - c->system_count;
        if (c->g->count - gone + n <= c->stage->plan.context)
            return drop == 0 || drop_turns(c, drop);
    }
    return false;
}

/* The context is full in the middle of an answer: a quarter of it is made free where possible. */
static bool on_full(void *context) {
    chat *c = context;
    if (!c->g->newline && isatty(STDOUT_FILENO)) fputc('\n', stderr);
    return make_room(c, c->stage->plan.context / 4, 1) || make_room(c, 1, 1);
}

/* Encodes text onto the sequence, keeping the last `keep` turns; *at: where it begins. */
static int append(chat *c, const char *text, unsigned flags, int keep, int32_t *at) {
    const int32_t *ids;
    size_t n;
    mnem_tokenizer_info info;
    mnem_status status =
        mnem_tokenizer_encode(c->stage->tokenizer, text, strlen(text), flags, &ids, &n);
    if (status != MNEM_OK) return tool_fail(status);
    mnem_tokenizer_info_get(c->stage->tokenizer, &info);
    if (!(flags & MNEM_ENCODE_NO_SPECIAL) && info.add_eos && n && ids[n - 1] == info.eos) n--;
    int64_t answer = c->stage->plan.context / 4; /* some room to answer, where there is */
    if (!make_room(c, (int64_t)n + answer, keep) && !make_room(c, (int64_t)n + 1, keep))
        return tool_failed("that is %zu token%s; the context has room for %d", n, tool_s(n),
                           c->stage->plan.context - c->system_count - 1);
    if (at) *at = c->g->count;
    tool_generator_add(c->g, ids, n);
    return TOOL_OK;
}

/* Text of one turn as the format writes it; the caller frees it. */
static char *turn_text(chat *c, const char *role, const char *text, bool first, bool open) {
    size_t n = mnem_chat_turn(c->format, role, text, first, open, NULL, 0);
    char *turn = malloc(n + 1);
    if (turn)
        mnem_chat_turn(c->format, role, text, first, open, turn, n + 1);
    else
        tool_message("the machine has no memory for a turn of %zu bytes", n);
    return turn;
}

/* The system part as text. A format without system turns (Mistral) has it as a first exchange,
 * which stays like any system part. NULL: no memory. */
static char *system_text(chat *c) {
    if (!*c->system) return strdup("");
    if (mnem_chat_has_system(c->format)) return turn_text(c, "system", c->system, true, false);
    char *user = turn_text(c, "user", c->system, true, true);
    char *answer = turn_text(c, "assistant", "Understood.", false, false);
    char *text = user && answer ? realloc(user, strlen(user) + strlen(answer) + 1) : NULL;
    if (text)
        strcat(text, answer);
    else
        free(user);
    free(answer);
    return text;
}

/* Empties the sequence and begins it again with the system part (and a begin token, if the file
 * wants one). */
static int begin(chat *c) {
    c->g->count = c->turns = c->system_count = 0;
    mnem_session_truncate(c->stage->session, 0);
    char *text = system_text(c);
    if (!text) return TOOL_FAILED;
    int code = append(c, text, 0, 0, NULL);
    free(text);
    c->system_count = c->g->count;
    return code;
}

/* ---- turns ---- */

static int32_t answer_limit(const chat *c) {
    int32_t context = c->stage->plan.context;
    if (c->g->asked->tokens) return c->g->asked->tokens;
    if (c->format != MNEM_CHAT_PLAIN) return context;
    return context / 4 < PLAIN_TOKENS ? context / 4 + 1 : PLAIN_TOKENS;
}

static void end_answer(chat *c, tool_end end) {
    if (!c->g->newline) {
        tool_out("\n", 1);
        c->g->newline = true;
    }
    tool_out_flush();
    if (end == TOOL_END_CONTEXT)
        tool_message("stopped: this answer fills the context of %d tokens", c->stage->plan.context);
    if (end == TOOL_END_LIMIT && c->format != MNEM_CHAT_PLAIN)
        tool_message("stopped after %d token%s (-n)", answer_limit(c),
                     tool_s((uint64_t)answer_limit(c)));
}

/* The turn that the user stopped before it had an answer is as if it hadn't been said. */
static void take_back(chat *c) {
    c->g->count = c->turn[--c->turns];
    if (mnem_session_length(c->stage->session) > c->g->count)
        mnem_session_truncate(c->stage->session, c->g->count);
}

static int answer(chat *c) {
    uint64_t before = c->g->tokens;
    tool_interrupt_watch(c->stage->session);
    tool_end end = tool_generate(c->g, answer_limit(c));
    tool_interrupt_watch(NULL);
    if (tool_interrupt_ends()) return TOOL_INTERRUPTED;
    tool_interrupt_clear();
    if (end == TOOL_END_FAILED) return tool_fail(c->g->status);
    end_answer(c, end);
    if (end == TOOL_END_INTERRUPTED && c->g->tokens == before)
        take_back(c);
    else
        append(c, mnem_chat_turn_end(c->format), MNEM_ENCODE_NO_SPECIAL, 1, NULL);
    return TOOL_OK;
}

/* Exit code when the chat can't go on, otherwise TOOL_OK. */
static int talk(chat *c) {
    if (c->turns == TURNS_MAX - 1) drop_turns(c, c->turns / 2);
    char *text = turn_text(c, "user", c->line, c->turns == 0 && !*c->system, true);
    if (!text) return TOOL_FAILED;
    int32_t at;
    int code = append(c, text, MNEM_ENCODE_NO_SPECIAL, 0, &at);
    free(text);
    if (code != TOOL_OK) return TOOL_OK; /* said so; the conversation is as before */
    c->turn[c->turns++] = at;
    return answer(c);
}

/* ---- commands ---- */

static void command_help(void) {
    fputs("  /help           this\n"
          "  /system TEXT    new instructions; begins the conversation again\n"
          "  /reset          begin the conversation again\n"
          "  /stats          context, speed and the ledger\n"
          "  /quit           leave (or Ctrl-D)\n"
          "  A line that ends with \\ goes on in the next. Ctrl-C stops an answer.\n",
          stderr);
}

static void command_stats(chat *c) {
    tool_report_ledger(stderr, c->stage);
    tool_generator_report(stderr, c->g);
    fprintf(stderr, "context: %d of %d tokens, %d turn%s\n", c->g->count, c->stage->plan.context,
            c->turns, tool_s((uint64_t)c->turns));
}

static int command_system(chat *c, const char *text) {
    text += strspn(text, " ");
    char before[TOOL_CHAT_BYTES];
    memcpy(before, c->system, sizeof before);
    snprintf(c->system, sizeof c->system, "%s", text);
    if (begin(c) == TOOL_OK) return TOOL_OK;
    memcpy(c->system, before, sizeof before);
    return begin(c);
}

/* *quit is set by /quit. */
static int command(chat *c, bool *quit) {
    size_t n = strcspn(c->line, " ");
    const char *rest = c->line + n;
    if (strncmp(c->line, "/help", n) == 0)
        command_help();
    else if (strncmp(c->line, "/quit", n) == 0 || strcmp(c->line, "/exit") == 0)
        *quit = true;
    else if (strncmp(c->line, "/stats", n) == 0)
        command_stats(c);
    else if (strncmp(c->line, "/reset", n) == 0)
        return begin(c);
    else if (strncmp(c->line, "/system", n) == 0)
        return command_system(c, rest);
    else
        fprintf(stderr, "No command %.*s; /help lists them.\n", (int)n, c->line);
    return TOOL_OK;
}

/* Ctrl-C at the prompt: the second one in a row leaves. Other signals leave at once. */
static bool interrupted(chat *c) {
    if (tool_interrupt_ends()) return true;
    tool_interrupt_clear();
    fputs("^C\n", stderr);
    if (++c->interrupts == 1) fputs("(again, or /quit, to leave)\n", stderr);
    return c->interrupts > 1;
}

static int conversation(chat *c) {
    int code = begin(c);
    for (bool quit = false; code == TOOL_OK && !quit;) {
        input in = read_message(c);
        if (in == INPUT_INTERRUPTED) {
            if (interrupted(c)) return TOOL_INTERRUPTED;
            continue;
        }
        c->interrupts = 0;
        if (in == INPUT_END) {
            fputc('\n', stderr);
            quit = true;
        } else if (in == INPUT_LONG) {
            tool_message("a message may have %d bytes; a longer one fits in a file (--file)",
                         TOOL_CHAT_BYTES - 2);
        } else if (c->line[0] == '/')
            code = command(c, &quit);
        else if (c->line[strspn(c->line, " \n")])
            code = talk(c);
    }
    return code;
}

/* ---- the way in ---- */

static void banner(const chat *c) {
    fputc('\n', stderr);
    if (c->format == MNEM_CHAT_PLAIN)
        fputs("The model has no chat format that mnem knows: it continues what you type.\n",
              stderr);
    else
        fprintf(stderr, "Chat in the model's format (%s).\n", mnem_chat_format_text(c->format));
    fputs(
        "/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves. When the context is full "
        "the\noldest turns are dropped; --system text stays.\n\n",
        stderr);
}

/* What the talk will take, before the plan: the ids of the sequence, the editor's bytes, and the
 * tokenizer's buffers, which grow with a first message of a usual length. */
static int reserve(chat *c, const run_options *asked) {
    tool_stage *stage = c->stage;
    int32_t most = stage->asked->context;
    if (!most) {
        most = stage->transformer.context;
        if (most > DEFAULT_CONTEXT) most = DEFAULT_CONTEXT;
    }
    int code = tool_generator_open(stage, asked, most, c->g);
    if (code != TOOL_OK) return code;
    c->g->on_full = on_full;
    c->g->context = c;
    const int32_t *ids;
    size_t n;
    memset(c->line, 'a', USUAL_BYTES);
    for (int i = 3; i < USUAL_BYTES; i += 4) c->line[i] = ' ';
    mnem_status status = mnem_tokenizer_encode(stage->tokenizer, c->line, USUAL_BYTES, 0, &ids, &n);
    if (status == MNEM_OK)
        status = mnem_ledger_charge(stage->ledger, MNEM_KIND_HOST, "editor", EDITOR_BYTES);
    return status == MNEM_OK ? TOOL_OK : tool_fail(status);
}

static int plan_and_talk(chat *c) {
    tool_stage *stage = c->stage;
    int code = tool_stage_plan(stage);
    if (code != TOOL_OK) return code;
    tool_report_start(stage);
    if ((code = tool_stage_create(stage)) != TOOL_OK) return code;
    tool_interrupt_watch(NULL); /* cancels nothing at the prompt */
    banner(c);
    code = conversation(c);
    if (stage->args->quiet) return code;
    tool_report_ledger(stderr, stage);
    tool_generator_report(stderr, c->g);
    return code;
}

int tool_chat(tool_stage *stage, const run_options *asked, tool_generator *g) {
    static chat c;
    c.stage = stage;
    c.g = g;
    c.format = mnem_tokenizer_chat_format(stage->tokenizer);
    if (!editor || !history_lines)
        return tool_failed("the terminal can't be used for a chat; give a prompt (-p)");
    if (asked->system) snprintf(c.system, sizeof c.system, "%s", asked->system);
    int code = reserve(&c, asked);
    if (code != TOOL_OK) return code;
    code = plan_and_talk(&c);
    mnem_ledger_release(stage->ledger, MNEM_KIND_HOST, "editor", EDITOR_BYTES);
    return code;
}
