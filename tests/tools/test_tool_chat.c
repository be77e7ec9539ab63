/* test_tool_chat.c: the chat, through a pseudo-terminal, as someone types. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kit/kit.h"
#include "tools/chat/chat_run.h"
#include "tools/chat/model_copy.h"
#include "tools/kit/tool_moment.h"
#include "tools/tool_run.h"

/* ---- what is said ---- */

static const char tagged[] = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";

static void chat_runs_the_models_template(void **state) {
    (void)state;
    const char *model = model_copy(tagged, 256);
    CHAT("run", model, "--temp", "0", "-n", "8", "--system", "Be brief");
    size_t at = expect_from(0, "This chat uses the model's own template");
    at = expect_from(at, "> ");
    type("Hello\n");
    at = expect_from(at, "stopped after 8 tokens, the limit that -n sets");
    at = expect_from(at, "> ");
    type("/system Be long\n");
    at = expect_from(at, "begins again, with this system text");
    at = expect_from(at, "> ");
    type("/stats\n");
    at = expect_from(at, "0 turns");
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

/* What the second turn evaluates is what wasn't there, though the template says the time. */
static void a_turn_evaluates_only_what_is_new(void **state) {
    (void)state;
    char timed[512];
    snprintf(timed, sizeof timed, "{{ strftime_now('%%M:%%S') }} %s", tagged);
    const char *model = model_copy(timed, 256);
    const char long_text[] = "and it came to pass in those days that there went out a decree from "
                             "Caesar that all the world should be taxed\n";
    CHAT("run", model, "--temp", "0", "-n", "4");
    size_t at = expect_from(0, "> ");
    type(long_text);
    at = expect_from(at, "the limit that -n sets");
    at = expect_from(at, "> ");
    type("/stats\n");
    const int first = atoi(screen + expect_from(at, "prompt "));
    at = expect_from(at, "1 turn");
    at = expect_from(at, "> ");
    for (const time_t then = time(NULL); time(NULL) == then;) usleep(10000);
    type("Yes\n");
    at = expect_from(at, "the limit that -n sets");
    at = expect_from(at, "> ");
    type("/stats\n");
    const int both = atoi(screen + expect_from(at, "prompt "));
    at = expect_from(at, "2 turns");
    assert_true(first > 20);
    assert_in_range(both, first + 1, first + 20);
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

static void a_full_context_keeps_the_system_text(void **state) {
    (void)state;
    const char *model = model_copy(tagged, 256);
    CHAT("run", model, "--temp", "0", "-n", "20", "--system", "Be brief", "--ctx", "96");
    size_t at = expect_from(0, "> ");
    for (int i = 0; i < 5; i++) {
        type("Hello\n");
        at = expect_from(at, "the limit that -n sets");
        at = expect_from(at, "> ");
    }
    assert_non_null(strstr(screen, "is full, so the oldest "));
    assert_non_null(strstr(screen, "192"));
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

static void a_template_that_refuses_a_system_text_says_the_way_out(void **state) {
    (void)state;
    const char *model = model_copy("{% for m in messages %}{% if m.role == 'system' %}\n"
                                   "{{ raise_exception('No system.') }}{% endif %}"
                                   "{{ m.content }}{% endfor %}",
                                   256);
    CHAT("run", model, "--system", "Be brief");
    size_t at = expect_from(0, "line 2: the template refuses: No system.");
    expect_from(at, "--raw");
    assert_int_equal(chat_end(), 1);
    CHAT("run", model, "-n", "4");
    at = expect_from(0, "> ");
    type("/system Be brief\n");
    at = expect_from(at, "the template refuses: No system.");
    at = expect_from(at, "> ");
    type("Hello\n");
    at = expect_from(at, "stopped after 4 tokens");
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

static void chat_says_what_it_is_and_ends_with_its_peak(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "-n", "8");
    size_t at = expect_from(0, "all in memory");
    at = expect_from(at, "The model has no chat template");
    at = expect_from(at, "To get a model that chats: models/get_model smollm2-135m FOLDER");
    at = expect_from(at, "> ");
    type("In the beginning\n");
    at = expect_from(at, "\n");
    at = expect_from(at, "> ");
    type("/stats\n");
    at = expect_from(at, "context: ");
    at = expect_from(at, "> ");
    type("/help\n");
    at = expect_from(at, "show this list");
    at = expect_from(at, "/system TEXT");
    at = expect_from(at, "> ");
    type("/frobnicate\n");
    at = expect_from(at, "No command /frobnicate");
    at = expect_from(at, "> ");
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

static void who_types_a_text_is_told_how_it_ends(void **state) {
    (void)state;
    chat_start((const char *const[]){"tokenize", tool_model, NULL});
    expect_from(0, "Ctrl-D on an empty line");
    type("In the\n\x04");
    expect_from(0, "\"In\"");
    assert_int_equal(chat_end(), 0);
}

static void end_of_input_leaves(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "-n", "8");
    size_t at = expect_from(0, "> ");
    type("\x04");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

static void interrupt_at_the_prompt_warns_then_leaves(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "-n", "8");
    size_t at = expect_from(0, "> ");
    type("\x03");
    at = expect_from(at, "to leave the chat)");
    at = expect_from(at, "> ");
    type("\x03");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 130);
}

/* The context is long, so that the answer is still coming when Ctrl-C does. */
static void interrupt_stops_an_answer_and_the_chat_goes_on(void **state) {
    (void)state;
    const char *model = model_copy(tagged, 4096);
    CHAT("run", model, "--seed", "1", "-n", "100000", "--threads", "1", "--ctx", "4096", "--raw");
    size_t at = expect_from(0, "> ");
    type("And it came to pass\n");
    at = expect_from(at, "pass\r\n");
    at = expect_from(at, " ");
    type("\x03");
    at = expect_from(at, "> ");
    type("/stats\n");
    at = expect_from(at, "of 4096 tokens, 1 turn"); /* what there is of it stays */
    at = expect_from(at, "> ");
    assert_null(strstr(screen, "to leave the chat)"));
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

static void a_signal_ends_a_chat_with_its_peak(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "-n", "8");
    const size_t at = expect_from(0, "> ");
    moment_sleeps(chat_child); /* waiting for a line */
    kill(chat_child, SIGTERM);
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 128 + SIGTERM);
}

static void a_full_context_drops_the_oldest_turns(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "-n", "20", "--ctx", "64", "--system", "The book");
    size_t at = expect_from(0, "> ");
    for (int i = 0; i < 4; i++) {
        type("And the Lord said\n");
        at = expect_from(at, "said");
        at = expect_from(at, "> ");
    }
    assert_non_null(strstr(screen, "is full, so the oldest "));
    type("/reset\n");
    at = expect_from(at, "> ");
    type("/stats\n");
    at = expect_from(at, "of 64 tokens, 0 turns");
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

static void too_long_a_message_is_told(void **state) {
    (void)state;
    CHAT("run", "--temp", "0", "-n", "4", "--ctx", "16");
    size_t at = expect_from(0, "> ");
    type("one two three four five six seven eight nine ten eleven twelve thirteen fourteen\n");
    at = expect_from(at, "the context has space for 15");
    at = expect_from(at, "> ");
    type("/quit\n");
    expect_from(at, " · peak ");
    assert_int_equal(chat_end(), 0);
}

/* Of a template that leaves the system text out, so that it takes bytes but no tokens. */
static void a_message_that_has_room_only_alone_drops_all_turns(void **state) {
    (void)state;
    char system[2361];
    memset(system, 's', sizeof system - 1);
    system[sizeof system - 1] = 0;
    const char *model = model_copy("{% for m in messages %}{% if m.role != 'system' %}<{{ m.role }}"
                                   "> {{ m.content }}\n{% endif %}{% endfor %}",
                                   64);
    CHAT("run", model, "--temp", "0", "-n", "4", "--system", system);
    size_t at = expect_from(0, "> ");
    type("Hello\n");
    at = expect_from(at, "the limit that -n sets");
    at = expect_from(at, "> ");
    type("And it came to pass in those days, that there went out a decree from Caesar Augustus, "
         "that all\n");
    at = expect_from(at, "the limit that -n sets");
    at = expect_from(at, "> ");
    type("/stats\n");
    at = expect_from(at, "tokens, 1 turn");
    type("/quit\n");
    expect_from(at, "peak ");
    assert_int_equal(chat_end(), 0);
}

/* The terminal has lines while an answer is written. */
static void an_end_typed_during_an_answer_ends_the_chat_behind_it(void **state) {
    (void)state;
    const char *model = model_copy(tagged, 256);
    CHAT("run", model, "--temp", "0", "-n", "60");
    size_t at = expect_from(0, "> ");
    type("Hello\n");
    at = expect_from(at, "Hello\r\n");
    at = expect_from(at, " ");
    type("\x04");
    at = expect_from(at, "the limit that -n sets");
    expect_from(at, "peak ");
    assert_int_equal(chat_end(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chat_runs_the_models_template),
        cmocka_unit_test(a_turn_evaluates_only_what_is_new),
        cmocka_unit_test(a_full_context_keeps_the_system_text),
        cmocka_unit_test(a_template_that_refuses_a_system_text_says_the_way_out),
        cmocka_unit_test(chat_says_what_it_is_and_ends_with_its_peak),
        cmocka_unit_test(who_types_a_text_is_told_how_it_ends),
        cmocka_unit_test(end_of_input_leaves),
        cmocka_unit_test(interrupt_at_the_prompt_warns_then_leaves),
        cmocka_unit_test(interrupt_stops_an_answer_and_the_chat_goes_on),
        cmocka_unit_test(a_signal_ends_a_chat_with_its_peak),
        cmocka_unit_test(a_full_context_drops_the_oldest_turns),
        cmocka_unit_test(too_long_a_message_is_told),
        cmocka_unit_test(a_message_that_has_room_only_alone_drops_all_turns),
        cmocka_unit_test(an_end_typed_during_an_answer_ends_the_chat_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
