/* line_editor.c: libedit, with waits that Ctrl-C ends.
 *
 * It writes to stderr, so that stdout has the answers only. */
#include "verbs/run/line_editor.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include <histedit.h>

#include "tool.h"

enum {
    HISTORY_LINES = 64,
    HISTORY_BYTES = 512, /* of a line that is kept */
};

static EditLine *editor;
static History *history_lines;
static bool continued; /* the prompt is of a line that goes on */

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

void tool_editor_open(void) {
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

void tool_editor_close(void) {
    if (history_lines) history_end(history_lines);
    if (editor) el_end(editor);
}

bool tool_editor_works(void) {
    return editor && history_lines;
}

tool_input tool_editor_read(char *text, size_t room) {
    size_t used = 0;
    el_resize(editor); /* the terminal may have another width now */
    for (continued = false;; continued = true) {
        int n;
        /* Before the prompt is shown: el_gets does it after, and what is typed between is lost. */
        el_set(editor, EL_PREP_TERM, 1);
        const char *line = el_gets(editor, &n);
        if (tool_interrupted()) return TOOL_INPUT_INTERRUPTED;
        if (!line || n <= 0) return used ? TOOL_INPUT_LINE : TOOL_INPUT_END;
        size_t length = strcspn(line, "\r\n");
        bool more = length && line[length - 1] == '\\';
        if (more) length--;
        if (used + length + 2 > room) return TOOL_INPUT_LONG;
        memcpy(text + used, line, length);
        used += length;
        if (more) text[used++] = '\n';
        text[used] = 0;
        HistEvent event;
        if (length && length < HISTORY_BYTES) history(history_lines, &event, H_ENTER, line);
        if (!more) return TOOL_INPUT_LINE;
    }
}
