/* test_tool_commands.c: the commands of a chat, and what it says of a context that is full. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_file.h"
#include "tools/chat/chat_run.h"
#include "tools/chat/model_copy.h"
#include "tools/tool_run.h"

static const char tagged[] = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";

static size_t start_chat(void) {
    CHAT("run", model_copy(tagged, 256), "--temp", "0", "-n", "6");
    return expect_from(0, "> ");
}

/* Types a line, and waits for what it leads to and the next prompt; where that is. */
static size_t say(const char *line, const char *expected, size_t from) {
    type(line);
    type("\n");
    return expect_from(expect_from(from, expected), "> ");
}

static size_t hello(size_t from) {
    return say("Hello", "stopped after 6 tokens", from);
}

static void leave(const char *how, size_t from) {
    type(how);
    type("\n");
    expect_from(from, "peak ");
    assert_int_equal(chat_end(), 0);
}

static const char *command_with(const char *command, const char *path) {
    static char text[512];
    snprintf(text, sizeof text, "%s %s", command, path);
    return text;
}

static char *save(const char *name, size_t *from) {
    const char *path = folder(name);
    *from = say(command_with("/save", path), "/load reads it", *from);
    return read_file(path, NULL);
}

/* ---- names ---- */

static void other_words_mean_the_same(void **state) {
    (void)state;
    static const char *const leaving[] = {"/quit", "/bye", "/exit", "/q"};
    for (int i = 0; i < 4; i++) {
        size_t at = start_chat();
        if (i == 0) {
            at = say("/?", "/system TEXT", at);
            at = say("/help", "/system TEXT", at);
            at = say("/he", "/system TEXT", at);
            at = say("/help nothing", "/system TEXT", at);
            at = say("/help set", "min-p", at);
            at = say("/? /save", "/save FILE", at);
            at = say("/ledger", "code and libraries", at);
            at = hello(at);
            at = say("/clear", "/clear", at);
            at = say("/stats", "0 turns", at);
            at = hello(at);
            at = say("/reset", "/reset", at);
            at = say("/stats", "0 turns", at);
            at = say("/s", "Which command /s;", at);
        }
        leave(leaving[i], at);
    }
}

/* A message's text is saved; a command's isn't. */
static void a_path_begins_a_message(void **state) {
    (void)state;
    size_t at = say("/etc/passwd says what?", "stopped after 6 tokens", start_chat());
    at = say("//", "stopped after 6 tokens", at);
    at = say("/home/x/file.c", "stopped after 6 tokens", at);
    at = say("/sytem Be brief", "No command /sytem; /help lists them.", at);
    at = say("/etc is a folder",
             "No command /etc; /help lists them.\r\nTo send a message that begins", at);
    at = say(command_with("/load", "/nowhere/x"), "can't read /nowhere/x", at);
    char *saved = save("paths.json", &at);
    assert_non_null(strstr(saved, "{\"role\":\"user\",\"content\":\"/etc/passwd says what?\"}"));
    assert_non_null(strstr(saved, "{\"role\":\"user\",\"content\":\"//\"}"));
    assert_non_null(strstr(saved, "{\"role\":\"user\",\"content\":\"/home/x/file.c\"}"));
    assert_null(strstr(saved, "folder"));
    free(saved);
    leave("/quit", at);
}

static void nothing_is_wider_than_80_columns(void **state) {
    (void)state;
    size_t at = start_chat();
    chat_resize(80);
    const size_t from = at;
    at = say("/help", "stops an answer", at);
    const size_t all = at;
    at = say("/help set", "They are now:", at);
    assert_null(strstr(screen + all, "/system TEXT"));
    at = say("/set what 3", "No option what", at);
    at = say("/set", "system", at);
    size_t column = 0;
    for (size_t i = from; i < at; i++) {
        column = screen[i] == '\n' || screen[i] == '\r' ? 0 : column + 1;
        assert_true(column <= 80);
    }
    leave("/quit", at);
}

/* ---- files ---- */

/* A chat that loads goes on as the one that saved would have. */
static void a_conversation_goes_on_in_another_chat(void **state) {
    (void)state;
    size_t at = hello(start_chat());
    free(save("first.json", &at));
    at = hello(at);
    char *expected = save("both.json", &at);
    leave("/quit", at);
    at = say(command_with("/load", kit_path("first.json")), "1 turn.", start_chat());
    at = hello(at);
    char *got = save("again.json", &at);
    assert_string_equal(got, expected);
    free(got);
    free(expected);
    leave("/quit", at);
}

static void others_read_what_is_saved(void **state) {
    (void)state;
    size_t at = say("/system Be \"brief\".", "\r\n", start_chat());
    at = hello(at);
    char *saved = save("others.json", &at);
    assert_non_null(strstr(saved, "[{\"role\":\"system\",\"content\":\"Be \\\"brief\\\".\"},\n"));
    free(saved);
    leave("/quit", at);
    const tool_result r =
        RUN("template", kit_path("chat.gguf"), "--messages", kit_path("others.json"));
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.out, "<system> Be \"brief\".\n<user> Hello\n<assistant>"));
}

static void a_text_that_is_continued_is_saved_too(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "-n", "6", "--system", "The book\n");
    size_t at = expect_from(0, "> ");
    at = say("In the \\\nbeginning", "beginning\r\n", at);
    char *saved = save("bare.json", &at);
    assert_non_null(strstr(saved, "[{\"role\":\"system\",\"content\":\"The book\\n\"},\n"
                                  "{\"role\":\"user\",\"content\":\"In the \\nbeginning\"},\n"
                                  "{\"role\":\"assistant\",\"content\":\""));
    at = say(command_with("/load", kit_path("bare.json")), "1 turn and a system text", at);
    char *again = save("bare_again.json", &at);
    assert_string_equal(again, saved);
    free(saved);
    free(again);
    leave("/quit", at);
}

static void what_others_write_of_a_conversation_is_read(void **state) {
    (void)state;
    const char *path = tool_file(
        "others.json", "[{\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": "
                       "\"Be \"}, {\"type\": \"text\", \"text\": \"brief.\"}]},"
                       "{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": "
                       "\"Hello\"}]}, {\"role\": \"assistant\", \"content\": null}]");
    size_t at = say(command_with("/load", path), "1 turn and a system text", start_chat());
    char *saved = save("read.json", &at);
    assert_non_null(strstr(saved, "[{\"role\":\"system\",\"content\":\"Be brief.\"},\n"
                                  "{\"role\":\"user\",\"content\":\"Hello\"},\n"
                                  "{\"role\":\"assistant\",\"content\":\"\"}"));
    free(saved);
    leave("/quit", at);
}

static void what_is_no_conversation_is_refused_and_nothing_forgotten(void **state) {
    (void)state;
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"hello", "the file is not a conversation"},
        {"[{\"role\": \"user\"}]", "'messages[0].content' is missing"},
        {"[{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]",
         "'messages[0].content[0]' is an image, which is not supported"},
        {"[{\"role\": \"user\", \"content\": \"a\\u0000\"}]",
         "'messages[0].content' contains the character U+0000"},
        {"[{\"content\": \"a\"}]", "'messages[0].role' must be one of"},
        {"[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"tool\", \"content\": \"b\"}]",
         "message 2 of the file has the role \"tool\""},
        {"[{\"role\": \"assistant\", \"content\": \"a\"}]",
         "message 1 of the file is an answer (role assistant)"},
        {"[{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"system\", \"content\": \"b\"}]",
         "message 2 of the file has the role system, which only the first message may have"},
        {"[{\"role\": \"user\", \"content\": \"a\"} {", "the file is not a conversation"},
        {"[{\"role\": \"user\", ", "message 1 of the file is not valid JSON"},
    };
    size_t at = hello(start_chat());
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        at = say(command_with("/load", tool_file("wrong.json", wrong[i].text)), wrong[i].why, at);
    at = say("/load", "/load needs the name of a file", at);
    at = say("/load /nowhere.json", "can't read /nowhere.json: No such file", at);
    at = say("/load /", "can't read /", at);
    at = say("/stats", "1 turn", at);
    leave("/quit", at);
}

static void a_file_of_something_else_is_not_written_over(void **state) {
    (void)state;
    size_t at = hello(start_chat());
    const char *path = tool_file("essay.txt", "An essay.");
    at = say(command_with("/save", path), "exists and is not a conversation", at);
    char *kept = read_file(path, NULL);
    assert_string_equal(kept, "An essay.");
    free(kept);
    free(save("twice.json", &at));
    at = say(command_with("/save", kit_path("twice.json")), "1 turn in", at);
    at = say("/save", "/save needs the name", at);
    at = say("/save /nowhere/x", "can't write the file", at);
    leave("/quit", at);
}

/* The newest turns stay where the conversation hasn't the room. */
static void a_long_conversation_keeps_its_newest_turns(void **state) {
    (void)state;
    const char *path = kit_path("long.json");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 300; i++)
        fprintf(file,
                "%c{\"role\": \"user\", \"content\": \"turn %d\"},"
                "{\"role\": \"assistant\", \"content\": \"answer %d\"}",
                i ? ',' : '[', i, i);
    fputs("]", file);
    fclose(file);
    size_t at = say(command_with("/load", path), " turns.", start_chat());
    char *saved = save("kept.json", &at);
    assert_null(strstr(saved, "turn 0\""));
    assert_non_null(strstr(saved, "turn 299\""));
    free(saved);
    at = hello(at);
    assert_non_null(strstr(screen, "is full, so the oldest "));
    leave("/quit", at);
}

/* ---- /regen and /set ---- */

static void regen_answers_anew_in_place(void **state) {
    (void)state;
    size_t at = hello(start_chat());
    char *first = save("first.json", &at);
    at = say("/regen", "With temp 0 the answer is always the same", at);
    char *same = save("same.json", &at);
    assert_string_equal(same, first);
    at = say("/set temp 1.5", "temp               1.5\r\n", at);
    at = say("/regen", "stopped after 6", at);
    char *other = save("other.json", &at);
    assert_string_not_equal(other, first);
    at = say("/stats", "1 turn", at);
    at = say("/clear", "\r\n", at);
    at = say("/regen", "no message to answer again yet", at);
    leave("/quit", at);
    free(first);
    free(same);
    free(other);
}

/* From there on as though the command line had said so. */
static void set_is_as_on_the_command_line(void **state) {
    (void)state;
    const char *model = model_copy(tagged, 256);
    CHAT("run", model, "--temp", "1.2", "--top-k", "7", "--seed", "5", "-n", "9", "--system", "X");
    size_t at = say("Hello", "stopped after 9", expect_from(0, "> "));
    char *expected = save("expected.json", &at);
    leave("/quit", at);
    CHAT("run", model, "--seed", "77");
    at = expect_from(0, "> ");
    at = say("/set temperature 1.2", "\r\n", at);
    at = say("/set parameter top_k 7", "top-k              7\r\n", at);
    at = say("/set tokens 9", "tokens             9\r\n", at);
    at = say("/set system X", "\r\n", at);
    at = say("/set seed 5", "seed               5\r\n", at);
    const size_t shown = at;
    at = say("/set", "system             X", at);
    expect_from(shown, "temp               1.2");
    expect_from(shown, "tokens             9");
    at = say("Hello", "stopped after 9", at);
    char *got = save("got.json", &at);
    assert_string_equal(got, expected);
    free(got);
    free(expected);
    leave("/quit", at);
}

/* Words of another tool. */
static void set_and_show_know_other_words(void **state) {
    (void)state;
    size_t at = start_chat();
    at = say("/set parameter num_predict 3", "\r\n", at);
    at = say("/set verbose", "verbose            yes\r\n", at);
    at = say("Hello", "stopped after 3 tokens", at);
    assert_non_null(strstr(screen, "\r\n\033[2m3 tokens at "));
    at = say("/show parameters", "tokens             3\r\n  verbose            yes", at);
    at = say("/set quiet", "verbose            no\r\n", at);
    const size_t quiet = at;
    at = say("Hello", "stopped after 3 tokens", at);
    assert_null(strstr(screen + quiet, "3 tokens at "));
    at = say("/set num_ctx 512", "of 256 tokens is fixed when the model is loaded", at);
    at = say("/set parameter num_ctx 512", "--ctx 512", at);
    at = say("/set ctx much", "--ctx N", at);
    at = say("/show info", "256 tokens here, 256 at most", at);
    at = say("/show", "quantization    Q8_0", at);
    at = say("/show system", "none", at);
    at = say("/show license", "/show needs one of the words info, parameters or system.", at);
    at = say("/?", "/show [info]", at);
    leave("/quit", at);
}

static void what_set_does_not_take_is_said(void **state) {
    (void)state;
    size_t at = start_chat();
    at = say("/set dots 3", "xtc-threshold, seed, tokens", at);
    at = say("/set temp hot", "/set temp takes a number from 0 to 100, not \"hot\"", at);
    at = say("/set temp", "/set temp takes a number", at);
    at = say("/set top-k 1.5", "/set top-k takes a whole number of at least 0", at);
    at = say("/set min-p 2", "from 0 to 1, not \"2\"", at);
    at = say("/set seed -1", "/set seed takes a whole number", at);
    at = say("/set tokens 0", "of at least 1, or -1", at);
    at = say("/set", "temp               0", at);
    at = say("/set nohistory", "start mnem run with --no-history", at);
    at = say("/set parameter stop x", "start mnem run with --stop TEXT", at);
    at = say("/show template", "mnem template MODEL prints", at);
    at = say("/read notes.txt", "No command /read. Paste the text", at);
    leave("/quit", at);
}

/* Penalties are of the tokens of one answer: the same question has the same answer again. */
static void each_answer_has_penalties_of_its_own(void **state) {
    (void)state;
    CHAT("run", model_copy(tagged, 256), "--temp", "0", "-n", "9", "--frequency-penalty", "2");
    size_t at = say("Hello", "stopped after 9", expect_from(0, "> "));
    char *first = save("first.json", &at);
    at = say("/clear", "/clear", at);
    at = say("Hello", "stopped after 9", at);
    char *second = save("second.json", &at);
    assert_string_equal(second, first);
    free(second);
    at = say("/clear", "/clear", at);
    at = say("/set frequency-penalty 0", "\r\n", at);
    at = say("Hello", "stopped after 9", at);
    second = save("third.json", &at);
    assert_string_not_equal(second, first);
    free(second);
    free(first);
    leave("/quit", at);
}

/* ---- a full context ---- */

/* More than a quarter of it, and to its last token. */
static void an_answer_may_use_what_is_left(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "--ctx", "128");
    size_t at = say("In the beginning", "the context of 128 tokens is full; --ctx 256 allows more",
                    expect_from(0, "> "));
    at = say("/stats", "context: 128 of 128 tokens, 1 turn", at);
    at = say("And the Lord", "so the oldest turn is dropped", at);
    leave("/quit", at);
}

/* The text of the first answer in a file of /save, up to the end of the list. */
static char *first_answer(char *saved) {
    char *answer = strstr(saved, "\"assistant\",\"content\":\"");
    assert_non_null(answer);
    answer += strlen("\"assistant\",\"content\":\"");
    char *end = strstr(answer, "\"}");
    assert_non_null(end);
    *end = 0;
    return answer;
}

static void fill_and_go_on(const char *grammar) {
    CHAT("run", model_copy(tagged, 128), "--temp", "0", "--grammar", grammar);
    size_t at = say("Hello", "the context of 128 tokens is full", expect_from(0, "> "));
    char *whole = save("whole.json", &at);
    at = say("/set tokens 3", "\r\n", at);
    at = say("Go on", "so the beginning of the last answer is dropped", at);
    at = say("/stats", "2 turns", at);
    assert_null(strstr(screen, "so the oldest"));
    char *cut = save("cut.json", &at);
    at = say(command_with("/load", kit_path("cut.json")), "2 turns", at);
    const char *before = first_answer(whole), *after = first_answer(cut);
    assert_memory_equal(after, "... ", 4);
    after += 4;
    assert_in_range(strlen(after), 10, strlen(before) - 10);
    assert_string_equal(before + strlen(before) - strlen(after), after);
    free(whole);
    free(cut);
    leave("/quit", at);
}

/* The next turn reads the end of it, from a whole character on. */
static void an_answer_that_fills_the_context_is_cut(void **state) {
    (void)state;
    fill_and_go_on("root ::= [a-z] [a-z ]* \"#\"");
    fill_and_go_on("root ::= ([\\\"] \"\u00e9\" \"\u4e2d\" \"\\t\"){100} \"#\"");
}

/* The context and the budget that are named hold what they are said to hold. */
static void a_full_context_names_a_budget_that_holds_more(void **state) {
    (void)state;
    if (!MNEM_RELEASE) skip(); /* sanitizers take other bytes in every run */
    char least[24], budget[24];
    CHAT("run", "--temp", "0", "--ctx", "64", "--memory", "1M");
    size_t at = expect_from(0, "--memory ");
    chat_end();
    assert_int_equal(sscanf(screen + at, "%23s", least), 1);
    for (int i = 0; i < 12; i++) { /* what a terminal needs is there in whole, in every run */
        char again[24];
        CHAT("run", "--temp", "0", "--ctx", "64", "--memory", "1M");
        at = expect_from(0, "--memory ");
        chat_end();
        assert_int_equal(sscanf(screen + at, "%23s", again), 1);
        assert_string_equal(again, least);
    }
    CHAT("run", "--temp", "0", "--ctx", "64", "--memory", least);
    at = say("In the beginning", "the context of 64 tokens is full; --ctx 128 --memory ",
             expect_from(0, "> "));
    at = (size_t)(strstr(screen, "--ctx 128 --memory ") - screen) + strlen("--ctx 128 --memory ");
    assert_int_equal(sscanf(screen + at, "%23s", budget), 1);
    leave("/quit", at);
    CHAT("run", "--temp", "0", "--ctx", "128", "--memory", budget);
    leave("/quit", expect_from(0, "> "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_words_mean_the_same),
        cmocka_unit_test(a_path_begins_a_message),
        cmocka_unit_test(nothing_is_wider_than_80_columns),
        cmocka_unit_test(a_conversation_goes_on_in_another_chat),
        cmocka_unit_test(others_read_what_is_saved),
        cmocka_unit_test(a_text_that_is_continued_is_saved_too),
        cmocka_unit_test(what_others_write_of_a_conversation_is_read),
        cmocka_unit_test(what_is_no_conversation_is_refused_and_nothing_forgotten),
        cmocka_unit_test(a_file_of_something_else_is_not_written_over),
        cmocka_unit_test(a_long_conversation_keeps_its_newest_turns),
        cmocka_unit_test(regen_answers_anew_in_place),
        cmocka_unit_test(set_is_as_on_the_command_line),
        cmocka_unit_test(set_and_show_know_other_words),
        cmocka_unit_test(what_set_does_not_take_is_said),
        cmocka_unit_test(each_answer_has_penalties_of_its_own),
        cmocka_unit_test(an_answer_may_use_what_is_left),
        cmocka_unit_test(an_answer_that_fills_the_context_is_cut),
        cmocka_unit_test(a_full_context_names_a_budget_that_holds_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
