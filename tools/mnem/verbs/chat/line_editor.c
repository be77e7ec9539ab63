/* line_editor.c: libedit, with waits that Ctrl-C ends, pastes, and messages of several lines.
 *
 * It writes to stderr, so that stdout has the answers only. A message of several lines is edited,
 * and comes back from the history, as a whole: libedit shows line ends within a line.
 * The modes of the terminal are in terminal_modes.c. */
#include "verbs/chat/line_editor.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

#include "tool.h"
#include "verbs/chat/message_history.h"
#include "verbs/chat/terminal_modes.h"

enum {
    HISTORY_MESSAGES = 1 << 20,
    HISTORY_BYTES = 64 * 1024, /* of all that are kept, */
    HISTORY_EACH = 64,         /* each with what is around it: the bound that holds */
};
static const wchar_t paste_end[] = L"\033[201~";

static EditLine *editor;
static History *history_lines;
static size_t history_bytes;
static tool_editor_options options;
static bool continued; /* the prompt is of a line that goes on */
static bool ahead;     /* what comes now was typed before the prompt */
static bool gone;      /* the terminal, or soon: what was typed before can still be read */
static bool begun;     /* something was typed when the wait was interrupted */
static bool too_long;  /* a paste was cut off */

static char *prompt_text(EditLine *line) {
    (void)line;
    static char first[] = "> ", next[] = "... ";
    return continued ? next : first;
}

/* ---- the terminal ---- */

static void adapt(void) {
    bool resumed;
    if (!terminal_modes_changed(&resumed)) return;
    if (resumed) {
        el_set(editor, EL_PREP_TERM, 0);
        el_set(editor, EL_PREP_TERM, 1);
    }
    el_resize(editor);
    el_set(editor, EL_REFRESH);
}

/* ---- characters ---- */

/* Waits for one. Ctrl-C ends the wait whichever thread its signal came to, and even if it came just
 * before the wait. */
static bool wait_for_input(void) {
    struct pollfd wait[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                             {.fd = tool_interrupt_fd(), .events = POLLIN}};
    for (;;) {
        adapt();
        const int ready = poll(wait, 2, ahead ? 0 : -1);
        if (ready < 0 && errno != EINTR) return false;
        if (ready == 0) ahead = false;
        errno = EINTR;
        if (tool_interrupted()) return false;
        gone = ready > 0 && wait[0].revents & POLLHUP;
        if (ready > 0 && wait[0].revents) return true;
    }
}

/* A Ctrl-D that was typed ahead, while the terminal had lines, is a zero now: the terminal's mark
 * of where such a line ends. */
static int read_character(EditLine *line, wchar_t *character) {
    enum { CTRL_D = 4 };
    mbstate_t state = {0};
    for (;;) {
        if (!wait_for_input()) {
            const LineInfoW *typed = el_wline(line);
            begun = typed->lastchar > typed->buffer;
            return -1;
        }
        char byte;
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        if (n <= 0 && gone) tool_interrupt_stop(SIGHUP); /* that signal may be late */
        if (n <= 0) return (int)n;
        if (ahead && !byte) byte = CTRL_D;
        size_t length = mbrtowc(character, &byte, 1, &state);
        if (length == (size_t)-2) continue; /* more bytes to come */
        if (length == (size_t)-1) *character = L'?';
        return 1;
    }
}

/* ---- pastes ---- */

/* Lines end as ours do, and what could move the cursor isn't text. */
static void insert(EditLine *line, wchar_t c) {
    const LineInfoW *typed = el_wline(line);
    const wchar_t text[] = {c == L'\r' ? L'\n' : c, 0};
    if ((text[0] < L' ' && text[0] != L'\n' && text[0] != L'\t') || text[0] == 0x7f) return;
    if (typed->lastchar - typed->buffer < TOOL_EDITOR_LONGEST)
        el_winsertstr(line, text);
    else
        too_long = true;
}

/* Up to the terminal's end of a paste, which may be cut off by Ctrl-C. */
static unsigned char on_paste(EditLine *line, int key) {
    wchar_t c;
    size_t same = 0;
    (void)key;
    while (paste_end[same] && el_wgetc(line, &c) == 1) {
        if (c == paste_end[same]) {
            same++;
            continue;
        }
        for (size_t i = 0; i < same; i++) insert(line, paste_end[i]);
        same = c == paste_end[0];
        if (!same) insert(line, c);
    }
    return CC_REFRESH;
}

/* ---- completion ---- */

void tool_words_add(tool_words *words, const char *word_begun, size_t n, const char *word) {
    if (strncmp(word, word_begun, n) != 0 || strlen(word) >= TOOL_WORD_BYTES) return;
    if (words->count < TOOL_WORDS_MAX) strcpy(words->word[words->count], word);
    words->count += words->count < TOOL_WORDS_MAX;
}

/* Bytes that all of them begin with, whole characters. */
static size_t in_common(const tool_words *words) {
    size_t n = strlen(words->word[0]);
    for (int i = 1; i < words->count; i++)
        for (size_t k = 0; k < n; k++)
            if (words->word[i][k] != words->word[0][k]) n = k;
    while (n > 0 && (words->word[0][n] & 0xc0) == 0x80) n--;
    return n;
}

static void show_words(const tool_words *words) {
    static char text[TOOL_WORDS_MAX * TOOL_WORD_BYTES];
    size_t n = 0;
    for (int i = 0; i < words->count; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s ", words->word[i]);
    fputc('\n', stderr);
    tool_wrap(stderr, "  ", text);
}

/* As far as it is clear what is meant; then what it may be is shown. */
static unsigned char on_tab(EditLine *line, int key) {
    static tool_words words;
    char before[TOOL_WORD_BYTES];
    const LineInfo *typed = el_line(line);
    const size_t n = (size_t)(typed->cursor - typed->buffer);
    (void)key;
    if (n == 0 || typed->buffer[0] != '/' || !options.complete)
        return el_winsertstr(line, L"\t") == 0 ? CC_REFRESH : CC_ERROR;
    if (n >= sizeof before) return CC_REFRESH_BEEP;
    memcpy(before, typed->buffer, n);
    before[n] = 0;
    words.from = 0;
    words.count = 0;
    options.complete(before, &words);
    if (words.count == 0) return CC_REFRESH_BEEP;
    const size_t same = in_common(&words), have = n - words.from;
    char *more = words.word[0] + have;
    const bool whole = words.count == 1 && words.word[0][same - 1] != '/';
    if (words.count > 1 && same <= have) {
        show_words(&words);
        return CC_REDISPLAY;
    }
    snprintf(more + (same - have), TOOL_WORD_BYTES - same, "%s", whole ? " " : "");
    if (*more) el_insertstr(line, more);
    return CC_REFRESH;
}

/* ---- history ---- */

/* What libedit keeps of messages is bounded in bytes, too. */
static void remember(const char *text) {
    HistEvent event;
    if (!*text || strlen(text) >= HISTORY_BYTES / 2) return;
    if (history(history_lines, &event, H_FIRST) == 0 && strcmp(event.str, text) == 0) return;
    history(history_lines, &event, H_ENTER, text);
    history_bytes += strlen(text) + HISTORY_EACH;
    while (history_bytes > HISTORY_BYTES && history(history_lines, &event, H_LAST) == 0) {
        history_bytes -= strlen(event.str) + HISTORY_EACH;
        history(history_lines, &event, H_DEL, event.num);
    }
}

static void open_history(void) {
    HistEvent event;
    if (!(history_lines = history_init())) return;
    history(history_lines, &event, H_SETSIZE, HISTORY_MESSAGES);
    if (!options.no_history) tool_messages_read(remember);
}

/* ---- life ---- */

void tool_editor_open(const tool_editor_options *asked) {
    /* Characters are UTF-8 whatever the locale says, and its table is the smallest there is. */
    if (!setlocale(LC_CTYPE, "C.UTF-8")) setlocale(LC_CTYPE, "");
    options = *asked;
    tool_interrupt_fd(); /* there before the first wait */
    editor = el_init("mnem", stdin, stderr, stderr);
    open_history();
    if (!tool_editor_works()) return;
    el_set(editor, EL_PROMPT, prompt_text);
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_HIST, history, history_lines);
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_GETCFN, read_character);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(editor, EL_ADDFN, "mnem-paste", "insert what the terminal pastes", on_paste);
    el_set(editor, EL_BIND, "\033[200~", "mnem-paste", NULL);
    el_set(editor, EL_ADDFN, "mnem-complete", "complete a command", on_tab);
    el_set(editor, EL_BIND, "^I", "mnem-complete", NULL);
    terminal_modes_open();
}

void tool_editor_close(void) {
    fflush(stderr);
    if (history_lines) history_end(history_lines);
    if (editor) el_end(editor);
    terminal_modes_close();
}

bool tool_editor_works(void) {
    return editor && history_lines;
}

/* ---- messages ---- */

static const char quotes[] = "\"\"\"";
enum { QUOTES = sizeof quotes - 1 };

static size_t trimmed(const char *text, size_t n) {
    while (n > 0 && strchr(" \t\n", text[n - 1])) n--;
    return n;
}

static bool is_block(const char *text) {
    return strncmp(text, quotes, QUOTES) == 0;
}

/* The text opens a block that it doesn't close. */
static bool is_open(const char *text, size_t n) {
    n = trimmed(text, n);
    return is_block(text) && (n < 2 * QUOTES || strncmp(text + n - QUOTES, quotes, QUOTES) != 0);
}

/* Without the quotes of a block, and without line ends around it. */
static tool_input finish(char *text, size_t n) {
    const bool block = is_block(text);
    size_t from = 0;
    if (block) {
        if (!is_open(text, n)) n = trimmed(text, n) - QUOTES;
        from = QUOTES;
    }
    while (n > from && text[n - 1] == '\n') n--;
    if (block && n > from && text[from] == '\n') from++;
    memmove(text, text + from, n - from);
    text[n - from] = 0;
    return block || strchr(text, '\n') ? TOOL_INPUT_TEXT : TOOL_INPUT_LINE;
}

static tool_input keep(char *text, size_t n) {
    remember(text);
    if (n && !options.no_history) tool_messages_add(text, options.quiet);
    return finish(text, n);
}

/* What the line of libedit adds to the text, without its end; *more: a line follows. */
static bool add_line(const char *line, char *text, size_t *used, bool *more) {
    size_t length = strlen(line);
    if (length && strchr("\r\n", line[length - 1])) length--;
    if (too_long || *used + length + 2 > TOOL_EDITOR_LONGEST) return false;
    memcpy(text + *used, line, length);
    *used += length;
    text[*used] = 0;
    const bool block = is_open(text, *used);
    const bool slash = !block && length && line[length - 1] == '\\';
    *more = block || slash;
    if (slash) text[*used - 1] = '\n';
    if (block) text[(*used)++] = '\n';
    text[*used] = 0;
    return true;
}

static tool_input read_message(char *text) {
    size_t used = 0;
    ahead = true;
    el_resize(editor); /* the terminal may have another width now */
    *text = 0;
    for (continued = false;; continued = true) {
        int n;
        bool more;
        begun = too_long = false;
        /* Before the prompt is shown: el_gets does it after, and what is typed between is lost. */
        el_set(editor, EL_PREP_TERM, 1);
        const char *line = el_gets(editor, &n);
        if (tool_interrupt_ends()) return TOOL_INPUT_INTERRUPTED;
        if (tool_interrupted())
            return begun || continued ? TOOL_INPUT_DROPPED : TOOL_INPUT_INTERRUPTED;
        if (!line || n <= 0) return used ? keep(text, used) : TOOL_INPUT_END;
        if (!add_line(line, text, &used, &more)) return TOOL_INPUT_LONG;
        if (!more) return keep(text, used);
    }
}

tool_input tool_editor_read(char *text) {
    terminal_modes_read(true);
    const tool_input in = read_message(text);
    terminal_modes_read(false);
    return in;
}
