/* test_api_seats.c: slots: which one a request gets, and what is saved, restored and erased. */
#include "kit/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/serve/api/fake_serve.h"

static fake_serve fake;
static char folder[] = "slots-XXXXXX";

static int open_fake(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    fake_open(&(api_options){.slot_folder = folder}, &fake);
    return 0;
}

static int close_fake(void **state) {
    (void)state;
    char path[64];
    fake_close(&fake);
    snprintf(path, sizeof path, "%s/a.bin", folder);
    (void)unlink(path);
    return rmdir(folder); /* nothing else is left there */
}

static void has(const char *text) {
    if (!strstr(fake.answer.body, text)) fail_msg("no %s in\n%s", text, fake.answer.body);
}

static void post(const char *path, const char *body, int status) {
    const int got = fake_post(&fake, path, body)->status;
    if (got != status)
        fail_msg("%d, not %d, for %s %s: %s", got, status, path, body, fake.answer.body);
}

/* The fake's ids are those of a path: the query is apart. */
static void act(const char *seat, const char *query, const char *body, int status) {
    char path[96];
    snprintf(path, sizeof path, "/slots/%s?%s", seat, query);
    post(path, body, status);
}

static const char file[] = "{\"filename\":\"a.bin\"}";
#define ASK(more)                                                                                  \
    "{\"prompt\":[5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22],\"n_predict\":2" more "}"

static void a_request_gets_a_slot(void **state) {
    (void)state;
    fake.say = NULL;
    post("/completion", ASK(",\"id_slot\":3"), 200);
    has("\"id_slot\":3");
    post("/completion", "{\"prompt\":\"a\",\"n_predict\":1}", 200);
    has("\"id_slot\":0"); /* nobody was there */
    post("/completion", ASK(""), 200);
    has("\"id_slot\":3"); /* it goes on */
    post("/completion", ASK(",\"id_slot\":99"), 200);
    has("\"id_slot\":3"); /* there is none of that number */
}

static void what_was_said_is_saved_and_restored(void **state) {
    (void)state;
    fake.say = NULL;
    post("/completion", ASK(",\"id_slot\":1"), 200);
    act("1", "action=save", file, 200);
    has("{\"id_slot\":1,\"filename\":\"a.bin\",\"n_written\":80,\"timings\":{\"save_ms\":");
    has("},\"n_saved\":20}");
    act("1", "action=erase", "", 200);
    has("{\"id_slot\":1,\"n_erased\":20}");
    act("1", "action=erase", "{}", 200);
    has("\"n_erased\":0}");
    act("1", "action=save", file, 400);
    has("no conversation has run in the slot 1");
    act("2", "action=restore", file, 200);
    has("\"n_read\":80,");
    has("\"n_restored\":20}");
    act("2", "action=save", file, 200); /* it sits there now */
    has("\"n_saved\":20}");
}

static void another_key_has_nothing_there(void **state) {
    (void)state;
    fake.say = NULL;
    fake.key = 1;
    post("/completion", ASK(",\"id_slot\":1"), 200);
    fake.key = 2;
    act("1", "action=save", file, 400);
    act("1", "action=erase", "", 200);
    has("\"n_erased\":0}");
    fake.key = 1;
    act("1", "action=save", file, 200);
    fake.key = 0;
}

static void what_is_wrong_is_named(void **state) {
    (void)state;
    static const char *const rows[][4] = {
        {"x", "action=save", "{\"filename\":\"a\"}", "id_slot"},
        {"-1", "action=save", "{\"filename\":\"a\"}", "id_slot"},
        {"7", "action=save", "{\"filename\":\"a\"}", "id_slot"},
        {"99999999999999999999", "action=save", "{\"filename\":\"a\"}", "id_slot"},
        {"1", "", "{\"filename\":\"a\"}", "action"},
        {"1", "action=load", "{\"filename\":\"a\"}", "action"},
        {"1", "action=save", "{}", "filename"},
        {"1", "action=save", "{\"filename\":7}", "filename"},
        {"1", "action=save", "{\"filename\":\"\"}", "filename"},
        {"1", "action=save", "{\"filename\":\"../a\"}", "filename"},
        {"1", "action=save", "{\"filename\":\".a\"}", "filename"},
        {"1", "action=save", "{\"filename\":\"a.part\"}", "filename"},
        {"1", "action=restore", "{\"filename\":\"a/b\"}", "filename"},
    };
    char text[64];
    fake.say = NULL;
    post("/completion", ASK(",\"id_slot\":1"), 200);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        act(rows[i][0], rows[i][1], rows[i][2], 400);
        snprintf(text, sizeof text, "\"param\":\"%s\"", rows[i][3]);
        has(text);
    }
    act("1", "action=restore", "{\"filename\":\"none\"}", 404);
    fake.embed = MNEM_OVER_BUDGET;
    act("1", "action=save", "{\"filename\":\"b\"}", 400);
    fake.embed = MNEM_IO;
    act("1", "action=save", "{\"filename\":\"b\"}", 500);
    fake.embed = MNEM_OK;
    fake.submit = MNEM_BUSY;
    act("1", "action=erase", "", 503);
    fake.submit = MNEM_OK;
}

/* A client that goes while its file is written leaves nothing. */
static void a_client_may_go(void **state) {
    (void)state;
    fake.say = NULL;
    post("/completion", ASK(",\"id_slot\":1"), 200);
    fake_begin(&fake, "POST", "/slots/1?action=save", file, sizeof file - 1);
    fake_leave(&fake);
    while (fake_step(&fake)) {
    }
    act("1", "action=restore", file, 200);
}

static bool is_there(const char *name) {
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void a_refused_save_leaves_no_file(void **state) {
    (void)state;
    fake.say = NULL;
    post("/completion", ASK(",\"id_slot\":1"), 200);
    fake.submit = MNEM_CANCELLED;
    act("1", "action=save", "{\"filename\":\"c\"}", 503);
    fake.submit = MNEM_OK;
    fake.embed = MNEM_IO;
    act("1", "action=save", "{\"filename\":\"c\"}", 500);
    fake.embed = MNEM_OK;
    assert_false(is_there("c") || is_there("c.1.part"));
}

enum { WAIT = 8 };

/* Two conversations under one name: each answer is true, and the file has the one saved last. */
static void actions_that_wait_are_some_and_do_not_mix(void **state) {
    (void)state;
    struct http_exchange exchange[WAIT];
    static fake_answer answer[WAIT];
    fake.say = NULL;
    post("/completion", ASK(",\"id_slot\":1"), 200);
    post("/completion", "{\"prompt\":[5,6,7],\"n_predict\":2,\"id_slot\":2}", 200);
    for (int i = 0; i < WAIT; i++)
        fake_ask(&fake, &exchange[i], &answer[i], "POST",
                 i % 2 ? "/slots/2?action=save" : "/slots/1?action=save", file, sizeof file - 1);
    struct http_exchange more;
    static fake_answer refused;
    fake_ask(&fake, &more, &refused, "POST", "/slots/1?action=save", file, sizeof file - 1);
    assert_int_equal(refused.status, 503);
    assert_string_equal(refused.headers, "Retry-After: 1\r\n");
    assert_non_null(strstr(refused.body, "other actions of slots wait: try again later"));
    assert_false(is_there("a.bin.9.part"));
    while (fake_step(&fake)) {
    }
    for (int i = 0; i < WAIT; i++) {
        assert_int_equal(answer[i].status, 200);
        assert_non_null(strstr(answer[i].body, i % 2 ? "\"n_written\":20," : "\"n_written\":80,"));
        fake_part(&fake, &exchange[i]);
        free(answer[i].body);
    }
    fake_part(&fake, &more);
    free(refused.body);
    act("3", "action=restore", file, 200);
    has("\"n_read\":20,");
}

/* Seats take a quarter of the memory for requests at most: 3 of them, with 16 KiB each. */
static void seats_leave_memory_for_requests(void **state) {
    (void)state;
    char body[64];
    fake_close(&fake);
    fake_open_with(&(api_options){.slot_folder = folder, .memory_bytes = 200 << 10}, 4096, &fake);
    for (int i = 0; i < 6; i++) {
        snprintf(body, sizeof body, "{\"prompt\":[%d],\"n_predict\":2,\"id_slot\":%d}", 5 + i, i);
        post("/completion", body, 200);
    }
    act("2", "action=save", file, 400);
    has("no conversation has run in the slot 2");
    for (int i = 3; i < 6; i++) {
        snprintf(body, sizeof body, "%d", i);
        act(body, "action=save", file, 200);
    }
    fake_close(&fake);
    fake_open(&(api_options){.slot_folder = folder}, &fake);
}

static void without_a_folder_there_are_none(void **state) {
    (void)state;
    fake_serve bare;
    fake_open(&(api_options){0}, &bare);
    bare.say = NULL;
    fake_post(&bare, "/completion", ASK(",\"id_slot\":2"));
    assert_non_null(strstr(bare.answer.body, "\"id_slot\":2"));
    assert_int_equal(fake_post(&bare, "/slots/0?action=erase", "")->status, 400);
    assert_non_null(strstr(bare.answer.body, "--slot-save-path FOLDER"));
    fake_close(&bare);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_gets_a_slot),
        cmocka_unit_test(what_was_said_is_saved_and_restored),
        cmocka_unit_test(another_key_has_nothing_there),
        cmocka_unit_test(what_is_wrong_is_named),
        cmocka_unit_test(a_client_may_go),
        cmocka_unit_test(a_refused_save_leaves_no_file),
        cmocka_unit_test(actions_that_wait_are_some_and_do_not_mix),
        cmocka_unit_test(seats_leave_memory_for_requests),
    };
    const struct CMUnitTest bare[] = {cmocka_unit_test(without_a_folder_there_are_none)};
    return cmocka_run_group_tests(tests, open_fake, close_fake) |
           cmocka_run_group_tests(bare, NULL, NULL);
}
