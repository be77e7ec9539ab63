/* test_api_live_slots.c: slots that several clients save, restore and erase while a scheduler
 * generates for others: no action disturbs an answer, and none leaves anything behind.
 *
 * It also runs under ThreadSanitizer: the actions are the scheduler's thread's, their tokens the
 * server's. */
#include <dirent.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/serve/kit/live_serve.h"

enum { TALKERS = 2, ACTORS = 3, ANSWERS = 6, SLOTS = 2, TEXT = 400 };

static char folder[] = "slots-XXXXXX";
static char expected[TALKERS][TEXT];

static int open_live(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    live_open(&(api_options){.slot_folder = folder}, 2 * SLOTS);
    return 0;
}

/* Returns the number of files that were there. */
static int remove_files(void) {
    char path[320];
    int count = 0;
    DIR *all = opendir(folder);
    for (const struct dirent *at; all && (at = readdir(all));) {
        if (at->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, at->d_name);
        unlink(path);
        count++;
    }
    if (all) closedir(all);
    return count;
}

static int close_live(void **state) {
    (void)state;
    live_close();
    remove_files();
    return rmdir(folder);
}

/* ---- requests ---- */

typedef struct reply {
    int status, tokens; /* tokens: cached, saved, restored or erased */
    char text[TEXT];
} reply;

static int number_in(const json_t *json) {
    static const char *const names[] = {"tokens_cached", "n_saved", "n_restored", "n_erased"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *value = json_object_get(json, names[i]);
        if (value) return (int)json_integer_value(value);
    }
    return -1;
}

static reply ask_live(const char *path, const char *body) {
    char *out = malloc(LIVE_ANSWER);
    reply r = {.status = live_ask("POST", path, body, out)};
    json_t *json = json_loads(out, 0, NULL);
    const char *text = json_string_value(json_object_get(json, "content"));
    snprintf(r.text, sizeof r.text, "%s", text ? text : out);
    r.tokens = number_in(json);
    json_decref(json);
    free(out);
    return r;
}

static reply talk(int who) {
    static const char *const prompts[TALKERS] = {
        "In the beginning God created the heaven and the earth. And the earth was",
        "And the LORD said unto Moses, Go in unto Pharaoh, and say unto him, Thus"};
    char body[300];
    snprintf(body, sizeof body,
             "{\"prompt\":\"%s\",\"id_slot\":%d,\"n_predict\":16,\"temperature\":0,"
             "\"ignore_eos\":true}",
             prompts[who], who % SLOTS);
    return ask_live("/completion", body);
}

static reply act(int slot, const char *action, const char *file) {
    char path[64], body[64];
    snprintf(path, sizeof path, "/slots/%d?action=%s", slot, action);
    snprintf(body, sizeof body, "{\"filename\":\"%s\"}", file);
    return ask_live(path, body);
}

/* ---- the threads ---- */

static atomic_int talking;
static atomic_int wrong, done; /* answers that were not expected; actions that succeeded */

static void *run_talker(void *context) {
    const int who = *(const int *)context;
    for (int i = 0; i < ANSWERS; i++) {
        const reply r = talk(who);
        if (r.status != 200 || strcmp(r.text, expected[who]) != 0) {
            print_message("talker %d: %d %s\n", who, r.status, r.text);
            atomic_fetch_add(&wrong, 1);
        }
    }
    atomic_fetch_sub(&talking, 1);
    return NULL;
}

/* A conversation that runs can't be saved or erased, a file may be missing yet, and only some
 * actions may wait. */
static bool may_be(int status) {
    return status == 200 || status == 400 || status == 404 || status == 503;
}

static void *run_actor(void *context) {
    static const char *const actions[] = {"save", "restore", "erase"};
    const int who = *(const int *)context;
    for (int i = who; atomic_load(&talking) > 0 || i < who + 6; i++) {
        const reply r = act(i % SLOTS, actions[(i / SLOTS + who) % 3], i % 3 ? "a.bin" : "b.bin");
        if (r.status == 200) atomic_fetch_add(&done, 1);
        if (may_be(r.status)) continue;
        print_message("actor %d: %d %s\n", who, r.status, r.text);
        atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

static void run_all(void) {
    static const int numbers[] = {0, 1, 2, 3};
    pthread_t talker[TALKERS], actor[ACTORS];
    atomic_store(&talking, TALKERS);
    for (int i = 0; i < TALKERS; i++)
        assert_int_equal(pthread_create(&talker[i], NULL, run_talker, (void *)&numbers[i]), 0);
    for (int i = 0; i < ACTORS; i++)
        assert_int_equal(pthread_create(&actor[i], NULL, run_actor, (void *)&numbers[i]), 0);
    for (int i = 0; i < TALKERS; i++) pthread_join(talker[i], NULL);
    for (int i = 0; i < ACTORS; i++) pthread_join(actor[i], NULL);
}

/* ---- the tests ---- */

static void actions_of_many_clients_disturb_no_answer(void **state) {
    (void)state;
    for (int i = 0; i < TALKERS; i++) {
        const reply r = talk(i);
        assert_int_equal(r.status, 200);
        assert_true(strlen(r.text) > 10);
        snprintf(expected[i], TEXT, "%s", r.text);
    }
    const uint64_t live = live_bytes();
    run_all();
    assert_int_equal(atomic_load(&wrong), 0);
    assert_true(atomic_load(&done) > 0);
    assert_int_equal(live_bytes(), live);
    assert_in_range(remove_files(), 0, 2); /* a.bin and b.bin: no file that is incomplete */
}

/* What was saved is what is used later, after all of that. */
static void a_restored_conversation_goes_on_with_its_tokens(void **state) {
    (void)state;
    for (int i = 0; i < TALKERS; i++) {
        assert_int_equal(talk(i).status, 200);
        const reply saved = act(i % SLOTS, "save", "end.bin");
        assert_int_equal(saved.status, 200);
        assert_true(saved.tokens > 16);
        assert_int_equal(act(i % SLOTS, "erase", "end.bin").tokens, saved.tokens);
        const reply restored = act(i % SLOTS, "restore", "end.bin");
        assert_int_equal(restored.status, 200);
        assert_int_equal(restored.tokens, saved.tokens);
        const reply again = talk(i);
        assert_string_equal(again.text, expected[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(actions_of_many_clients_disturb_no_answer),
        cmocka_unit_test(a_restored_conversation_goes_on_with_its_tokens),
    };
    return cmocka_run_group_tests(tests, open_live, close_live);
}
