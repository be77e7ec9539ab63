/* test_tool_shown.c: what a terminal gets and a pipe does not, or the other way round: a pager for
 * long texts, and one answer of `mnem run`, of characters that a terminal obeys: a terminal gets
 * none of them, a pipe gets all. A bias makes one token, a single character, follow itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "mnem/session.h"
#include "tools/chat/chat_run.h"

enum { TIMES = 3 };

static char bias[32];

/* Makes the token of a character follow whatever there is. */
static void prefer(char character) {
    mnem_tokenizer_info info;
    mnem_opened o;
    int32_t id = 0;
    must(mnem_open(tool_model, 0, &(mnem_engine_options){.context = 32}, &o));
    mnem_tokenizer_info_get(o.tokenizer, &info);
    for (; id < info.vocab; id++) {
        const mnem_text piece = mnem_tokenizer_piece(o.tokenizer, id, false);
        if (piece.length == 1 && *piece.bytes == character) break;
    }
    assert_true(id < info.vocab);
    mnem_close(&o);
    snprintf(bias, sizeof bias, "%d+100", id);
}

#define WORDS                                                                                      \
    "run", tool_model, "--raw", "-p", "x", "-q", "-n", "3", "--temp", "0", "--ctx", "32",          \
        "--logit-bias", bias

/* How often the terminal got the character. */
static int shown(char character) {
    int count = 0;
    CHAT(WORDS);
    assert_int_equal(chat_end(), 0);
    for (const char *at = screen; *at; at++) count += *at == character;
    return count;
}

static void a_terminal_gets_no_controls_and_a_pipe_gets_all(void **state) {
    (void)state;
    static const char obeyed[] = {0x1b, 0x07, 0x08, 0x7f, 0x0e}, plain[] = {'\t', 'q', '~'};
    for (size_t i = 0; i < sizeof obeyed + sizeof plain; i++) {
        const bool is_plain = i >= sizeof obeyed;
        const char character = is_plain ? plain[i - sizeof obeyed] : obeyed[i];
        prefer(character);
        const tool_result r = RUN(WORDS);
        assert_int_equal(r.code, 0);
        for (int k = 0; k < TIMES; k++) assert_int_equal(r.out[k], character);
        assert_int_equal(r.out[TIMES], 0);
        if (shown(character) != (is_plain ? TIMES : 0))
            fail_msg("the terminal got 0x%02x %d times: %s", character, shown(character), screen);
    }
}

/* A line end stays one, beside what goes. */
static void lines_stay_lines(void **state) {
    (void)state;
    prefer('\n');
    assert_true(shown('\n') >= TIMES);
    CHAT("run", tool_model, "--raw", "-p", "In the beginning", "-q", "-n", "20", "--temp", "0",
         "--ctx", "64");
    assert_int_equal(chat_end(), 0);
    const tool_result r = RUN("run", tool_model, "--raw", "-p", "In the beginning", "-q", "-n",
                              "20", "--temp", "0", "--ctx", "64");
    assert_true(r.out_bytes > 20);
    if (!strstr(screen, r.out)) fail_msg("%s\nis not on the screen:\n%s", r.out, screen);
}

/* ---- lines ---- */

enum { NARROW = 40 };

#define LONG_TEXT                                                                                  \
    "run", tool_model, "--raw", "-p", "In the beginning", "-n", "90", "--seed", "3", "--ctx", "128"

/* No line is wider than the terminal, so that the terminal broke none in a word. */
static void assert_narrow(const char *text) {
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\r\n");
        if (n > NARROW) fail_msg("%zu columns: %.*s", n, (int)n, line);
        line += n + strspn(line + n, "\r\n");
    }
}

/* The words of a, in order, in b from its first one on; line ends are spaces. */
static void assert_words(const char *a, const char *b) {
    char word[128];
    int n;
    while (sscanf(a, "%127s%n", word, &n) == 1) {
        const char *at = strstr(b, word);
        if (!at || at - b > 8) fail_msg("\"%s\" isn't next in: %.60s", word, b);
        a += n;
        b = at + strlen(word);
    }
}

/* A word at the edge goes to the next line, as in a chat; a pipe gets the text as it is. */
static void a_terminal_breaks_lines_at_words(void **state) {
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, "%s", RUN(LONG_TEXT, "-q").out);
    assert_true(strlen(text) > 4 * NARROW);
    chat_columns = NARROW;
    CHAT(LONG_TEXT, "-q");
    assert_int_equal(chat_end(), 0);
    assert_narrow(screen);
    assert_words(text, screen);
    chat_columns = NARROW; /* behind the prompt, which is shown before the text */
    CHAT(LONG_TEXT);
    assert_int_equal(chat_end(), 0);
    char *from = strstr(screen, "In the beginning"), *end = from ? strstr(from, "\033[2m") : NULL;
    assert_non_null(end); /* of the line with the speed */
    *end = 0;
    assert_narrow(from);
    assert_words(text, from + strlen("In the beginning"));
}

static void plain_texts_are_not_broken(void **state) {
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, "%.60s", RUN(LONG_TEXT, "-q").out);
    text[strcspn(text, "\n")] = 0;
    chat_columns = NARROW;
    CHAT(LONG_TEXT, "-q", "--plain");
    assert_int_equal(chat_end(), 0);
    if (!strstr(screen, text)) fail_msg("%s\nis not on the screen:\n%s", text, screen);
}

/* What -v says on a terminal leaves room for the answer; elsewhere it is tables. */
static void verbose_is_a_summary_on_a_terminal(void **state) {
    (void)state;
    enum { ROWS = 24 };
    CHAT("run", tool_model, "-p", "In the", "-n", "4", "--temp", "0", "-v", "--no-history");
    assert_int_equal(chat_end(), 0);
    int rows = 0;
    for (const char *at = screen; (at = strchr(at, '\n')); at++) rows++;
    assert_true(rows < ROWS);
    assert_non_null(strstr(screen, "peak (VmHWM) was "));
    assert_null(strstr(screen, "code and libraries"));
    assert_non_null(strstr(screen, "mnem plan -v"));
}

/* Of a text that is longer than a screen, a terminal would show the end. */
static void long_texts_go_through_the_pager(void **state) {
    (void)state;
    const char *const own = getenv("PAGER");
    setenv("PAGER", "sed 's/^/| /'", 1);
    CHAT("plan", tool_model, "-v");
    assert_int_equal(chat_end(), 0);
    assert_non_null(strstr(screen, "| plan\r\n"));
    CHAT("help", "run");
    assert_int_equal(chat_end(), 0);
    assert_non_null(strstr(screen, "| Usage: mnem run"));
    CHAT("plan", tool_model); /* it is short */
    assert_int_equal(chat_end(), 0);
    assert_null(strstr(screen, "| "));
    assert_null(strstr(RUN("plan", tool_model, "-v").out, "| "));
    setenv("PAGER", "cat", 1);
    CHAT("plan", "--help");
    assert_int_equal(chat_end(), 0);
    assert_null(strstr(screen, "| Usage"));
    setenv("PAGER", "true", 1); /* one that is left at once */
    CHAT("help", "run");
    assert_int_equal(chat_end(), 0);
    if (own)
        setenv("PAGER", own, 1);
    else
        unsetenv("PAGER");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_no_controls_and_a_pipe_gets_all),
        cmocka_unit_test(lines_stay_lines),
        cmocka_unit_test(a_terminal_breaks_lines_at_words),
        cmocka_unit_test(plain_texts_are_not_broken),
        cmocka_unit_test(verbose_is_a_summary_on_a_terminal),
        cmocka_unit_test(long_texts_go_through_the_pager),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
