/* test_tool_typing.c: what someone types and pastes in a chat: lines, blocks, keys, history, and
 * how the terminal is left. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/chat/chat_run.h"
#include "tools/chat/model_copy.h"
#include "tools/kit/tool_moment.h"
#include "tools/tool_run.h"

#define PASTE(text) "\033[200~" text "\033[201~"
#define UP          "\033[A"

static const char tagged[] = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";

static size_t start_chat(void) {
    CHAT("run", model_copy(tagged, 256), "--temp", "0", "-n", "1");
    return expect_from(0, "> ");
}

/* Types what ends with Enter, and waits for the answer to it. */
static size_t say(const char *text, size_t from) {
    type(text);
    return expect_from(expect_from(from, "the limit that -n sets"), "> ");
}

static void leave(size_t from) {
    type("/quit\n");
    expect_from(from, "peak ");
    assert_int_equal(chat_end(), 0);
}

/* The one turn that was said, as /save has it. */
static void assert_said(const char *json, size_t from) {
    char command[512], expected[512];
    const char *path = folder("said.json");
    snprintf(command, sizeof command, "/save %s\n", path);
    type(command);
    from = expect_from(from, "1 turn in ");
    leave(expect_from(from, "> "));
    char *text = read_file(path, NULL);
    snprintf(expected, sizeof expected, "[{\"role\":\"user\",\"content\":\"%s\"},", json);
    if (strncmp(text, expected, strlen(expected)) != 0) fail_msg("%s, not %s", text, expected);
    free(text);
}

static void a_paste_of_lines_is_one_turn(void **state) {
    (void)state;
    const size_t at = start_chat();
    assert_said("one\\ntwo\\n\\nfour\\tfive", say(PASTE("one\rtwo\r\rfour\tfive\r") "\n", at));
}

static void what_is_pasted_can_be_edited_and_holds_no_keys(void **state) {
    (void)state;
    const size_t at = start_chat();
    type(PASTE("one\ntwo" UP "x\001"));
    assert_said("one\\ntwo[A!", say("\177!\n", at));
}

static void a_pasted_path_is_no_command(void **state) {
    (void)state;
    const size_t at = start_chat();
    assert_said("/usr/bin\\nis a folder", say(PASTE("/usr/bin\nis a folder") "\n", at));
}

static void quotes_open_a_block(void **state) {
    (void)state;
    size_t at = start_chat();
    type("\"\"\"\n/first\n");
    at = expect_from(at, "... /first");
    assert_said("/first\\n  second \\\\", say("  second \\\n\"\"\"\n", at));
    at = start_chat();
    assert_said("/quit", say("\"\"\"/quit\"\"\"\n", at));
    at = start_chat();
    assert_said("a\\n\\nb", say(PASTE("\"\"\"a\n\nb\"\"\"") "\n", at));
}

static void a_backslash_goes_on(void **state) {
    (void)state;
    const size_t at = start_chat();
    assert_said("one\\ntwo", say("one\\\ntwo\n", at));
}

static void characters_may_be_wide(void **state) {
    (void)state;
    const size_t at = start_chat();
    assert_said("中é", say("中文é\033[D\177\n", at));
}

/* Half of it is typed before the terminal becomes narrow. */
static void a_message_survives_another_width(void **state) {
    (void)state;
    size_t at = start_chat();
    type("aaaaaaaaaa bbbbbbbbbb cccccccccc dddddddddd ");
    at = expect_from(at, "dddddddddd");
    chat_resize(24);
    moment_delivered(chat_child, SIGWINCH);
    moment_sleeps(chat_child);
    assert_said("aaaaaaaaaa bbbbbbbbbb cccccccccc dddddddddd eeeeeeeeee", say("eeeeeeeeee\n", at));
}

/* As after Ctrl-Z and fg: what was typed is there, and the terminal is told of pastes again. */
static void a_chat_that_was_stopped_goes_on(void **state) {
    (void)state;
    size_t at = start_chat();
    type("half a ");
    at = expect_from(at, "half a ");
    kill(chat_child, SIGSTOP);
    moment_stopped(chat_child);
    kill(chat_child, SIGCONT);
    at = expect_from(at, "\033[?2004h");
    assert_said("half a message", say("message\n", expect_from(at, "> half a")));
}

static void too_long_a_paste_is_told(void **state) {
    (void)state;
    enum { PARTS = 24 };
    char part[1025];
    size_t at = start_chat();
    memset(part, 'a', sizeof part - 1);
    part[sizeof part - 1] = 0;
    type("\033[200~");
    for (int i = 0; i < PARTS; i++) type(part);
    type("\033[201~\n");
    at = expect_from(at, "the line is longer than 16382 bytes");
    leave(expect_from(at, "> "));
}

/* ---- Ctrl-C, and the terminal behind it ---- */

static void interrupt_drops_what_is_half_typed(void **state) {
    (void)state;
    size_t at = start_chat();
    for (int i = 0; i < 3; i++) {
        type(i < 2 ? "half" : "\"\"\"\nhalf\n");
        at = expect_from(at, "half");
        if (i == 2) at = expect_from(at, "... ");
        moment_sleeps(chat_child);
        type("\x03");
        at = expect_from(at, "^C\r\n");
        at = expect_from(at, "> ");
    }
    assert_null(strstr(screen, "to leave the chat)"));
    assert_said("whole", say("whole\n", at));
}

static void the_terminal_is_left_as_it_was(void **state) {
    (void)state;
    static const char *const ways[] = {"/quit\n", "\x04", "\x03"};
    for (int i = 0; i < 3; i++) {
        size_t at = start_chat();
        const char *on = strstr(screen, "\033[?2004h");
        assert_non_null(on);
        assert_null(strstr(on, "\033[?2004l"));
        type(ways[i]);
        if (i == 2) {
            expect_from(expect_from(at, "to leave the chat)"), "> ");
            type(ways[i]);
        }
        expect_from(at, "\033[?2004l");
        assert_int_equal(chat_end(), i == 2 ? 130 : 0);
        assert_true(chat_left_plain);
    }
}

/* The second signal leaves at once, if the first has not by then. */
static void two_signals_leave_the_terminal_as_it_was(void **state) {
    (void)state;
    const size_t at = start_chat();
    type("/\t"); /* the editor has the terminal */
    expect_from(at, "/ledger");
    kill(chat_child, SIGTERM);
    kill(chat_child, SIGINT);
    expect_from(at, "\033[?2004l");
    assert_in_range(chat_end(), 130, 128 + SIGTERM);
    assert_true(chat_left_plain);
}

/* ---- during an answer ---- */

/* Its answer goes on until something ends it. */
static size_t start_answer(void) {
    CHAT("run", model_copy(tagged, 4096), "--seed", "1", "--threads", "1", "--ctx", "4096", "--raw",
         "-n", "100000");
    size_t at = expect_from(0, "> ");
    type("And it came to pass\n");
    at = expect_from(at, "pass\r\n");
    return expect_from(at, " ");
}

static void what_is_typed_during_an_answer_is_not_in_it(void **state) {
    (void)state;
    size_t at = start_answer();
    assert_false(chat_echoes());
    type("QQQ");
    expect_from(at, "\n"); /* text that came later */
    type("\x03");
    at = expect_from(at, "^C\r\n");
    at = expect_from(at, "> ");
    assert_null(strstr(screen, "QQQ"));
    leave(at);
}

static void what_is_typed_during_an_answer_begins_the_next_message(void **state) {
    (void)state;
    CHAT("run", model_copy(tagged, 256), "--temp", "0", "-n", "60");
    size_t at = expect_from(0, "> ");
    type("Hello\n");
    at = expect_from(expect_from(at, "Hello\r\n"), " ");
    type("typed ");
    at = expect_from(expect_from(at, "the limit that -n sets"), "typed ");
    type("early\n/clear\n");
    at = expect_from(expect_from(at, "the limit that -n sets"), "> ");
    assert_said("again", say("again\n", at));
}

static void every_end_of_an_answer_leaves_the_terminal_as_it_was(void **state) {
    (void)state;
    static const struct {
        int number, code;
    } ends[] = {{SIGTERM, 128 + SIGTERM}, {SIGQUIT, 128 + SIGQUIT}, {SIGXCPU, 128 + SIGXCPU}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t at = start_answer();
        kill(chat_child, ends[i].number);
        expect_from(at, "\033[?2004l");
        assert_int_equal(chat_end(), ends[i].code);
        assert_true(chat_left_plain);
    }
}

/* Nobody could continue it, so that the kernel doesn't stop it: it goes on as if it had been. */
static void a_stop_during_an_answer_lends_the_terminal(void **state) {
    (void)state;
    size_t at = start_answer();
    kill(chat_child, SIGTSTP);
    at = expect_from(at, "\033[?2004l");
    at = expect_from(at, "\n"); /* it goes on */
    assert_false(chat_echoes());
    type("\x03");
    at = expect_from(at, "\033[?2004h");
    leave(expect_from(at, "> "));
    assert_true(chat_left_plain);
}

static void a_terminal_without_pastes_is_told_nothing(void **state) {
    (void)state;
    chat_kind = "dumb";
    size_t at = start_chat();
    at = say("Hello\n", at);
    leave(at);
    assert_null(strstr(screen, "2004"));
}

static void a_terminal_that_goes_away_ends_the_chat(void **state) {
    (void)state;
    start_chat();
    assert_int_equal(chat_hang_up(), 128 + SIGHUP);
}

/* The signal comes after the terminal's end was read, or, as here, not at all. */
static void a_terminal_may_go_without_a_signal(void **state) {
    (void)state;
    signal(SIGHUP, SIG_IGN);
    start_chat();
    signal(SIGHUP, SIG_DFL);
    assert_int_equal(chat_hang_up(), 128 + SIGHUP);
}

/* Nobody reads the answers: after the first the chat is over. */
static void a_closed_output_ends_the_chat(void **state) {
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    chat_out = ends[1];
    const size_t at = start_chat();
    close(ends[1]);
    type("Hello\n");
    expect_from(at, "peak ");
    assert_int_equal(chat_end(), 0);
}

static void a_full_output_is_a_failure(void **state) {
    (void)state;
    chat_out = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(chat_out >= 0);
    const int full = chat_out;
    const size_t at = start_chat();
    close(full);
    type("Hello\n");
    expect_from(at, "writing to standard output failed");
    assert_int_equal(chat_end(), 1);
}

/* ---- history ---- */

static void messages_come_back_in_the_next_chat(void **state) {
    (void)state;
    struct stat about;
    kit_remove(at("mnem"));
    say(PASTE("first\nof two lines") "\n", start_chat());
    type("/quit\n");
    assert_int_equal(chat_end(), 0);
    assert_int_equal(stat(at("mnem/history"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    const size_t from = start_chat();
    assert_said("first\\nof two lines!", say(UP UP "!\n", from));
}

static void no_history_neither_reads_nor_writes(void **state) {
    (void)state;
    kit_remove(at("mnem"));
    leave(say("remembered\n", start_chat()));
    char *before = read_file(at("mnem/history"), NULL);
    CHAT("run", model_copy(tagged, 256), "--temp", "0", "-n", "1", "--no-history");
    size_t from = expect_from(0, "> ");
    from = say(UP "mine\n", from);
    from = say(UP "!\n", from); /* of this chat there is one */
    assert_null(strstr(screen, "remembered"));
    assert_non_null(strstr(screen, "mine!"));
    leave(from);
    char *after = read_file(at("mnem/history"), NULL);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

/* The folder's place is taken by a file. */
static void what_cannot_be_kept_is_told_but_for_quiet(void **state) {
    (void)state;
    kit_remove(at("mnem"));
    tool_file("mnem", "");
    leave(say("Hello\n", start_chat()));
    assert_non_null(strstr(screen, "the message history is not saved"));
    CHAT("run", model_copy(tagged, 256), "--temp", "0", "-n", "1", "-q");
    const size_t from = say("Hello\n", expect_from(0, "> "));
    type("/quit\n");
    expect_from(from, "\033[?2004l");
    assert_int_equal(chat_end(), 0);
    assert_null(strstr(screen, "history"));
    kit_remove(at("mnem"));
}

/* A file that has grown long is cut to its newest lines; what isn't a text in it is passed over. */
static void a_long_history_keeps_its_newest(void **state) {
    (void)state;
    char path[256];
    struct stat about;
    kit_remove(at("mnem"));
    leave(say("x\n", start_chat()));
    snprintf(path, sizeof path, "%s", at("mnem/history"));
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 40000; i++) fprintf(file, "\"message %d\"\n", i);
    fputs("{\"no\": 1}\nnor this\n", file);
    fclose(file);
    const size_t from = start_chat();
    assert_int_equal(stat(path, &about), 0);
    assert_true(about.st_size <= 64 * 1024);
    assert_said("message 39999", say(UP "\n", from));
}

/* ---- completion ---- */

static void tab_completes_commands_options_and_files(void **state) {
    (void)state;
    char command[256];
    tool_file("conversation.json", "[]");
    size_t from = start_chat();
    type("/he\t\n");
    from = expect_from(from, "/system TEXT");
    type("/set repeat-p\t1.5\n");
    from = expect_from(from, "> ");
    type("/set\n");
    from = expect_from(from, "repeat-penalty     1.5");
    snprintf(command, sizeof command, "/load %s/conv\t\n", tool_scratch());
    type(command);
    from = expect_from(from, "0 turns");
    type("/he\t\n"); /* a command again, after a word that began further on */
    from = expect_from(from, "/system TEXT");
    type("/s\t");
    from = expect_from(from, "/system /set /save /stats");
    type("\x15");
    assert_said("a\\tb", say("a\tb\n", from));
}

/* A chat that can't begin is told about alone: a terminal that isn't asked anything gets no escape
 * sequence, and is left as it was. */
static void a_chat_that_cannot_begin_leaves_the_terminal_alone(void **state) {
    (void)state;
    const char *text = strdup(tool_file("text.gguf", "this is no model"));
    const char *const wrong[][3] = {
        {"/nowhere/model.gguf", NULL, NULL},
        {text, NULL, NULL},
        {tool_model, "--memory", "1M"},
        {tool_model, "--lora", "/nowhere/adapter.gguf"},
        {tool_model, "--template", "/nowhere/template.jinja"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHAT("run", wrong[i][0], wrong[i][1], wrong[i][2]);
        assert_true(chat_end() != 0);
        const char *error = strstr(screen, "mnem: ");
        if (!error || strchr(screen, '\033')) fail_msg("%s", screen);
        assert_true(error == screen);
        assert_true(chat_left_plain);
    }
    free((char *)(uintptr_t)text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paste_of_lines_is_one_turn),
        cmocka_unit_test(a_chat_that_cannot_begin_leaves_the_terminal_alone),
        cmocka_unit_test(what_is_pasted_can_be_edited_and_holds_no_keys),
        cmocka_unit_test(a_pasted_path_is_no_command),
        cmocka_unit_test(quotes_open_a_block),
        cmocka_unit_test(a_backslash_goes_on),
        cmocka_unit_test(characters_may_be_wide),
        cmocka_unit_test(a_message_survives_another_width),
        cmocka_unit_test(a_chat_that_was_stopped_goes_on),
        cmocka_unit_test(too_long_a_paste_is_told),
        cmocka_unit_test(interrupt_drops_what_is_half_typed),
        cmocka_unit_test(the_terminal_is_left_as_it_was),
        cmocka_unit_test(two_signals_leave_the_terminal_as_it_was),
        cmocka_unit_test(what_is_typed_during_an_answer_is_not_in_it),
        cmocka_unit_test(what_is_typed_during_an_answer_begins_the_next_message),
        cmocka_unit_test(every_end_of_an_answer_leaves_the_terminal_as_it_was),
        cmocka_unit_test(a_stop_during_an_answer_lends_the_terminal),
        cmocka_unit_test(a_terminal_without_pastes_is_told_nothing),
        cmocka_unit_test(a_terminal_that_goes_away_ends_the_chat),
        cmocka_unit_test(a_terminal_may_go_without_a_signal),
        cmocka_unit_test(a_closed_output_ends_the_chat),
        cmocka_unit_test(a_full_output_is_a_failure),
        cmocka_unit_test(messages_come_back_in_the_next_chat),
        cmocka_unit_test(no_history_neither_reads_nor_writes),
        cmocka_unit_test(what_cannot_be_kept_is_told_but_for_quiet),
        cmocka_unit_test(a_long_history_keeps_its_newest),
        cmocka_unit_test(tab_completes_commands_options_and_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
