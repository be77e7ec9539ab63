/* test_tool_shown.c: one answer of `mnem run`, of characters that a terminal obeys: a terminal gets
 * none of them, a pipe gets all. A bias makes one token, a single character, follow itself. */
#include <stdio.h>
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_terminal_gets_no_controls_and_a_pipe_gets_all),
        cmocka_unit_test(lines_stay_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
