/* test_chat.c: a conversation in one call, against the same conversation rendered and evaluated
 * from its beginning for each answer; its history against jansson's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/heap.h"
#include "engine/session_case.h"
#include "kit/kit.h"
#include "mnem/chat.h"

enum { TOKENS = 12, TURNS = 14, CONTEXT = 160, TEXT_MOST = 4096 };

static const char tagged[] = "{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"
                             "{% if add_generation_prompt %}<assistant>{% endif %}";
static const mnem_sampler_options greedy, cold = {.temperature = -1};
static const mnem_engine_options engine = {.context = CONTEXT, .threads = 1};

static mnem_chat *open_with(mnem_chat_options options) {
    mnem_chat *chat;
    options.sampler = &greedy;
    options.engine = &engine;
    if (options.tokens == 0) options.tokens = TOKENS;
    if (mnem_chat_open(MODEL_SHIPPED, &options, &chat, NULL) != MNEM_OK)
        fail_msg("%s", mnem_last_error());
    return chat;
}

typedef struct told {
    char text[TEXT_MOST];
    size_t bytes;
    int left; /* calls until it stops */
} told;

static bool keep(void *context, const char *text, size_t bytes) {
    told *t = context;
    assert_true(bytes > 0 && t->bytes + bytes < sizeof t->text);
    memcpy(t->text + t->bytes, text, bytes);
    t->bytes += bytes;
    t->text[t->bytes] = 0;
    return t->left-- != 1;
}

static mnem_chat_info info_of(const mnem_chat *chat) {
    mnem_chat_info info;
    mnem_chat_info_get(chat, &info);
    return info;
}

/* ---- by hand ---- */

static bool best(void *context, int32_t index, const float *logits) {
    int32_t *next = context; /* [0]: the choice; [1]: the vocabulary */
    (void)index;
    next[0] = 0;
    for (int32_t i = 1; i < next[1]; i++)
        if (logits[i] > logits[next[0]]) next[0] = i;
    return true;
}

/* The answer to messages, all of them evaluated. */
static void answer_by_hand(mnem_opened *o, mnem_template *template, const char *messages,
                           char text[TEXT_MOST]) {
    const mnem_template_input input = {.messages = messages, .add_generation_prompt = true};
    mnem_tokenizer_info info;
    const int32_t *ids;
    size_t count, bytes = 0;
    mnem_tokenizer_info_get(o->tokenizer, &info);
    int32_t next[2] = {0, info.vocab};
    must(mnem_template_encode(template, o->tokenizer, &input, &ids, &count));
    must(mnem_session_truncate(o->session, 0));
    must(mnem_session_eval(o->session, ids, (int32_t)count, (int32_t)count - 1, best, next));
    for (int i = 0; i < TOKENS && !mnem_tokenizer_is_end(o->tokenizer, *next); i++) {
        const mnem_text piece = mnem_tokenizer_piece(o->tokenizer, *next, false);
        memcpy(text + bytes, piece.bytes, piece.length);
        bytes += piece.length;
        if (mnem_session_length(o->session) == CONTEXT) break;
        must(mnem_session_eval(o->session, next, 1, 0, best, next));
    }
    text[bytes] = 0;
}

/* Each history without its last answer has that answer. */
static void check_answers(char *const *history, int count) {
    mnem_opened o;
    mnem_template *template;
    must(mnem_open(MODEL_SHIPPED, 0, &engine, &o));
    must(mnem_template_open(tagged, strlen(tagged), NULL, &template));
    for (int i = 0; i < count; i++) {
        char text[TEXT_MOST];
        json_t *list = json_loads(history[i], 0, NULL);
        assert_non_null(list);
        const size_t last = json_array_size(list) - 1;
        json_t *message = json_incref(json_array_get(list, last));
        assert_string_equal(json_string_value(json_object_get(message, "role")), "assistant");
        json_array_remove(list, last);
        char *messages = json_dumps(list, 0);
        answer_by_hand(&o, template, messages, text);
        assert_string_equal(json_string_value(json_object_get(message, "content")), text);
        free(messages);
        json_decref(message);
        json_decref(list);
    }
    mnem_template_close(template);
    mnem_close(&o);
}

/* ---- turns ---- */

static void add(json_t *list, const char *role, const char *content) {
    assert_int_equal(
        json_array_append_new(list, json_pack("{s:s,s:s}", "role", role, "content", content)), 0);
}

static char *copy_history(mnem_chat *chat) {
    return strdup(mnem_chat_history(chat).bytes);
}

static void a_turn_is_answered_as_if_all_were_said_anew(void **state) {
    (void)state;
    static const char *const said[] = {
        "Who art thou?", "\"And\" \\ he\tsaid\nunto\x01 him \xC3\xA9", "bad \xFF byte"};
    static const char *const kept[] = {
        "Who art thou?", "\"And\" \\ he\tsaid\nunto\x01 him \xC3\xA9", "bad \xEF\xBF\xBD byte"};
    enum { SAID = sizeof said / sizeof *said };
    mnem_chat *chat = open_with((mnem_chat_options){.template_source = tagged, .system = "Speak."});
    json_t *expected = json_array();
    char *history[SAID];
    int32_t before = 0;
    add(expected, "system", "Speak.");
    for (int i = 0; i < SAID; i++) {
        told t = {.bytes = 0};
        must(mnem_chat_say(chat, said[i], keep, &t));
        add(expected, "user", kept[i]);
        add(expected, "assistant", t.text);
        history[i] = copy_history(chat);
        json_t *got = json_loads(history[i], 0, NULL);
        assert_true(json_equal(got, expected));
        json_decref(got);
        const mnem_chat_info info = info_of(chat);
        assert_true(info.has_template && info.end == MNEM_CHAT_LIMIT);
        assert_int_equal(info.turns, i + 1);
        assert_int_equal(info.tokens, TOKENS);
        assert_int_equal(info.turns_dropped, 0);
        assert_true(info.kept_tokens + 8 >= before); /* but for where the answer begins */
        before = info.prompt_tokens;
    }
    mnem_chat_close(chat);
    check_answers(history, SAID);
    for (int i = 0; i < SAID; i++) free(history[i]);
    json_decref(expected);
}

static void a_full_context_drops_the_oldest_turns(void **state) {
    (void)state;
    mnem_chat *chat = open_with((mnem_chat_options){.template_source = tagged, .system = "Speak."});
    char *history[TURNS], message[64];
    int dropped = 0;
    for (int i = 0; i < TURNS; i++) {
        snprintf(message, sizeof message, "And number %d said unto him", i);
        must(mnem_chat_say(chat, message, NULL, NULL));
        history[i] = copy_history(chat);
        json_t *list = json_loads(history[i], 0, NULL);
        const json_t *first = json_array_get(list, 0);
        assert_string_equal(json_string_value(json_object_get(first, "content")), "Speak.");
        dropped += info_of(chat).turns_dropped;
        assert_int_equal(info_of(chat).turns, i + 1 - dropped);
        assert_int_equal(json_array_size(list), 1 + 2 * (i + 1 - dropped));
        json_decref(list);
    }
    assert_true(dropped > 2 && dropped < TURNS);
    mnem_chat_close(chat);
    check_answers(history, TURNS);
    for (int i = 0; i < TURNS; i++) free(history[i]);
}

static void a_reset_leaves_the_system_text(void **state) {
    (void)state;
    told first = {.bytes = 0}, again = {.bytes = 0};
    mnem_chat *chat = open_with((mnem_chat_options){.template_source = tagged, .system = "Speak."});
    char *before = copy_history(chat);
    must(mnem_chat_say(chat, "Hear, O Israel", keep, &first));
    must(mnem_chat_say(chat, "Hear again", NULL, NULL));
    mnem_chat_reset(chat);
    assert_string_equal(mnem_chat_history(chat).bytes, before);
    must(mnem_chat_say(chat, "Hear, O Israel", keep, &again));
    assert_string_equal(again.text, first.text);
    mnem_chat_close(chat);
    free(before);
}

/* ---- ends ---- */

static void a_stopped_answer_stays_as_far_as_it_was_told(void **state) {
    (void)state;
    told t = {.left = 3};
    mnem_chat *chat = open_with((mnem_chat_options){.template_source = tagged});
    assert_int_equal(mnem_chat_say(chat, "Hello", keep, &t), MNEM_CANCELLED);
    assert_int_equal(info_of(chat).end, MNEM_CHAT_CANCELLED);
    json_t *list = json_loads(mnem_chat_history(chat).bytes, 0, NULL);
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(list, 1), "content")),
                        t.text);
    json_decref(list);
    must(mnem_chat_say(chat, "Hello", NULL, NULL));
    char *history = copy_history(chat);
    mnem_chat_close(chat);
    check_answers(&history, 1);
    free(history);
}

static void a_message_that_has_no_room_changes_nothing(void **state) {
    (void)state;
    enum { LONG = 8 * CONTEXT + 4000 };
    static char text[LONG + 1];
    mnem_chat *chat = open_with((mnem_chat_options){.template_source = tagged});
    must(mnem_chat_say(chat, "Hello", NULL, NULL));
    char *before = copy_history(chat);
    for (int i = 0; i < LONG; i++) text[i] = i % 2 ? ' ' : (char)('a' + i % 26);
    for (int n = LONG; n > 2 * CONTEXT; n /= 2) { /* too many bytes, then too many tokens */
        text[n] = 0;
        assert_int_equal(mnem_chat_say(chat, text, NULL, NULL), MNEM_OVER_BUDGET);
        assert_non_null(strstr(mnem_last_error(), "a larger context"));
        assert_string_equal(mnem_chat_history(chat).bytes, before);
    }
    must(mnem_chat_say(chat, "Hello", NULL, NULL));
    mnem_chat_close(chat);
    free(before);
}

static void without_a_template_text_is_continued(void **state) {
    (void)state;
    told t = {.bytes = 0}, c = {.bytes = 0};
    mnem_opened o;
    mnem_chat *chat = open_with((mnem_chat_options){0});
    must(mnem_chat_say(chat, "In the beginning", keep, &t));
    assert_false(info_of(chat).has_template);
    assert_memory_equal(mnem_chat_history(chat).bytes, "In the beginning", 16);
    assert_string_equal(mnem_chat_history(chat).bytes + 16, t.text);
    mnem_chat_close(chat);
    must(mnem_open(MODEL_SHIPPED, 0, &engine, &o));
    must(mnem_continue(&o, "In the beginning", TOKENS, NULL, keep, &c));
    assert_string_equal(t.text, c.text);
    mnem_close(&o);
}

/* ---- refusals ---- */

static void a_refusal_names_the_least_which_holds_a_whole_talk(void **state) {
    (void)state;
    if (MNEM_SANITIZED) skip(); /* a sanitized process is larger than it would be */
    mnem_chat *chat;
    uint64_t needed;
    mnem_ledger_info ledger;
    const mnem_engine_options small = {.context = 64, .threads = 1};
    int dropped = 0;
    mnem_chat_options options = {
        .budget_bytes = 1 << 20, .template_source = tagged, .tokens = 2, .engine = &small};
    assert_int_equal(mnem_chat_open(MODEL_SHIPPED, &options, &chat, &needed), MNEM_OVER_BUDGET);
    assert_null(chat);
    char number[32];
    snprintf(number, sizeof number, "needs %llu", (unsigned long long)needed);
    if (needed <= 1 << 20 || !strstr(mnem_last_error(), number))
        fail_msg("%s: %s", number, mnem_last_error());
    for (int tries = 0; tries < 3 && !chat; tries++) { /* the process has grown by what it did */
        options.budget_bytes = needed;
        mnem_chat_open(MODEL_SHIPPED, &options, &chat, &needed);
    }
    if (!chat) fail_msg("%s", mnem_last_error());
    for (int i = 0; i < 3; i++) { /* few tokens: weights are read for each */
        must(mnem_chat_say(chat,
                           "And he went up unto the mount, and said to all the people of the "
                           "land, Hear ye the word of the LORD, and go not up unto the hill",
                           NULL, NULL));
        dropped += info_of(chat).turns_dropped;
    }
    assert_true(dropped > 0);
    mnem_ledger_info_get(mnem_chat_opened(chat)->ledger, &ledger);
    assert_int_equal(ledger.refusals, 0);
    assert_true(ledger.bytes_peak <= options.budget_bytes);
    mnem_chat_close(chat);
}

static void what_cannot_be_opened_is_said(void **state) {
    (void)state;
    static const struct {
        mnem_chat_options options;
        mnem_status status;
        const char *text;
    } cases[] = {
        {{.template_source = "{% for %}"}, MNEM_BAD_FILE, "template"},
        {{.template_source = "{{ raise_exception('no, no') }}"}, MNEM_INVALID, "no, no"},
        {{.template_source = "{# nothing #}"}, MNEM_UNSUPPORTED, "template_source"},
        {{.template_source = tagged, .arguments = "[1]"}, MNEM_INVALID, "object"},
        {{.tokens = -1}, MNEM_INVALID, "token limit of an answer is -1"},
        {{.sampler = &cold}, MNEM_INVALID, "temperature"},
    };
    mnem_chat *chat;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mnem_chat_open(MODEL_SHIPPED, &cases[i].options, &chat, NULL),
                         cases[i].status);
        assert_null(chat);
        if (!strstr(mnem_last_error(), cases[i].text)) fail_msg("%s", mnem_last_error());
    }
    assert_int_equal(mnem_chat_open("no-such.gguf", &(mnem_chat_options){0}, &chat, NULL), MNEM_IO);
    assert_null(chat);
    mnem_chat_close(NULL);
}

static void every_allocation_of_opening_may_fail(void **state) {
    (void)state;
    const mnem_chat_options options = {
        .template_source = tagged, .arguments = "{}", .engine = &engine};
    mnem_chat *chat = NULL;
    mnem_status status = MNEM_NO_MEMORY;
    for (uint64_t n = 1; status != MNEM_OK; n += 1 + n / 4) {
        mnem__heap_fail_at(n, true);
        status = mnem_chat_open(MODEL_SHIPPED, &options, &chat, NULL);
        mnem__heap_fail_at(0, false);
        if (status != MNEM_OK) assert_null(chat);
        assert_true(status == MNEM_OK || status == MNEM_NO_MEMORY);
    }
    must(mnem_chat_say(chat, "Hello", NULL, NULL));
    mnem_chat_close(chat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_names_the_least_which_holds_a_whole_talk),
        cmocka_unit_test(a_turn_is_answered_as_if_all_were_said_anew),
        cmocka_unit_test(a_full_context_drops_the_oldest_turns),
        cmocka_unit_test(a_reset_leaves_the_system_text),
        cmocka_unit_test(a_stopped_answer_stays_as_far_as_it_was_told),
        cmocka_unit_test(a_message_that_has_no_room_changes_nothing),
        cmocka_unit_test(without_a_template_text_is_continued),
        cmocka_unit_test(what_cannot_be_opened_is_said),
        cmocka_unit_test(every_allocation_of_opening_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
