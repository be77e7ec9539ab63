/* test_tool_drawn.c: answers of a chat as a terminal shows them. A grammar says what the answer
 * is. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/chat/chat_run.h"
#include "tools/chat/model_copy.h"
#include "tools/tool_run.h"

static const char template[] = "{% for m in messages %}{{ m.content }}\n{% endfor %}";
static const char grammar[] =
    "root ::= \"# Title\\nA **bold** word.\\n- one\\n```\\nint x;\\n```\"";

/* Asks for the answer; where it begins. */
static size_t ask(const char *root, const char *option) {
    chat_start((const char *const[]){"run", model_copy(template, 256), "--temp", "0", "--grammar",
                                     root, option, NULL});
    const size_t at = expect_from(0, "> ");
    type("Hello\n");
    return expect_from(at, "Hello\r\n");
}

/* Where the answer ends. */
static size_t leave(size_t at) {
    const size_t prompt = expect_from(at, "> ");
    type("/quit\n");
    expect_from(at, "peak ");
    assert_int_equal(chat_end(), 0);
    return prompt - 2;
}

/* The answer as the terminal gets it. */
static void assert_drawn(const char *root, const char *option, const char *expected) {
    const size_t at = ask(root, option);
    screen[leave(at)] = 0;
    assert_string_equal(screen + at, expected);
}

static void an_answer_is_drawn(void **state) {
    (void)state;
    assert_drawn(grammar, NULL,
                 "\033[0;1;4mTitle\r\n\033[0mA \033[0;1mbold \033[0mword.\r\n"
                 "\xe2\x80\xa2 one\r\n\033[0;36mint x;\r\n\033[0m");
}

static const char as_written[] = "# Title\r\nA **bold** word.\r\n- one\r\n```\r\nint x;\r\n```\r\n";

static void who_wants_no_colours_gets_the_text(void **state) {
    (void)state;
    assert_drawn(grammar, "--plain", as_written);
    chat_kind = "dumb";
    assert_drawn(grammar, NULL, as_written);
    setenv("NO_COLOR", "1", 1);
    assert_drawn(grammar, NULL, as_written);
    unsetenv("NO_COLOR");
}

/* A terminal of 40 columns. */
static void lines_end_between_words(void **state) {
    (void)state;
    static const char root[] = "root ::= \"The heaven and the earth and the waters that were "
                               "divided from the waters, and\"";
    static const char broken[] = "The heaven and the earth and the waters\r\n"
                                 "that were divided from the waters, and\r\n";
    chat_columns = 40;
    assert_drawn(root, NULL, broken);
    chat_columns = 40;
    assert_drawn(root, "--plain",
                 "The heaven and the earth and the waters that were divided from the waters, and"
                 "\r\n");
    chat_columns = 40;
    size_t at = ask(root, NULL);
    at = expect_from(expect_from(at, "and\r\n"), "> ");
    chat_resize(60);
    type("Hello\n");
    at = expect_from(at, "Hello\r\n");
    leave(at);
    static const char wider[] = "The heaven and the earth and the waters that were divided\r\n"
                                "from the waters, and\r\n";
    assert_memory_equal(screen + at, wider, sizeof wider - 1);
}

static void an_answer_controls_no_terminal(void **state) {
    (void)state;
    assert_drawn("root ::= \"a\\x1B[2Jb\\x07\\u009B1m\\rc\"", NULL, "a[2Jb1mc\r\n");
    assert_drawn("root ::= \"a\\x1B[2Jb\\x07\\u009B1m\\rc\"", "--plain", "a[2Jb1mc\r\n");
}

static void what_is_no_terminal_gets_the_text_as_it_is(void **state) {
    (void)state;
    const char *path = folder("answer.txt");
    chat_out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(chat_out >= 0);
    const int file = chat_out;
    leave(ask("root ::= \"# A\\n**b** \\x1B[2J\"", NULL));
    close(file);
    char *text = read_file(path, NULL);
    assert_string_equal(text, "# A\n**b** \033[2J\n");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_drawn),
        cmocka_unit_test(who_wants_no_colours_gets_the_text),
        cmocka_unit_test(lines_end_between_words),
        cmocka_unit_test(an_answer_controls_no_terminal),
        cmocka_unit_test(what_is_no_terminal_gets_the_text_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
