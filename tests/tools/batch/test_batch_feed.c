/* test_batch_feed.c: which requests of a file are asked again, and which get an answer, if some or
 * all fail with status 500. The API and the file of answers are functions here. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kit/kit.h"
#include "server/http/http_thread.h"
#include "sight/monitor_file.h"
#include "verbs/batch/batch.h"

enum { REQUESTS = 24, SLOTS_MOST = 12, LINE_ROOM = 200, AGAIN = 2 * SLOTS_MOST };

static struct {
    batch_slot *waiting[SLOTS_MOST]; /* in the order in which they were sent */
    int count;
    int asked[REQUESTS + 1];                  /* by line */
    int alone[REQUESTS + 1];                  /* how often with no other under way */
    int (*status_of)(uint64_t line, int ask); /* ask: from 1 */
    struct {
        uint64_t line;
        int status;
    } written[4 * REQUESTS];
    uint64_t lines_written;
    bool stopped;
} fake;

/* ---- what batch_feed.c calls ---- */

bool http_local_send(http_server *server, const char *path, const char *body, size_t bytes,
                     void *sender) {
    (void)server;
    assert_string_equal(path, "/v1/completions");
    assert_int_equal(body[bytes], 0);
    assert_true(fake.count < SLOTS_MOST);
    fake.waiting[fake.count++] = sender;
    return true;
}

bool http_local_turn(http_server *server, int32_t most_ms) {
    static const char body[] = "{\"error\":{\"message\":\"gone\"}}";
    (void)server;
    (void)most_ms;
    batch_slot *first = fake.waiting[0];
    const uint64_t line = first->place.line;
    fake.alone[line] += fake.count == 1;
    memmove(fake.waiting, fake.waiting + 1, sizeof *fake.waiting * (size_t)--fake.count);
    batch_feed_answer()(first, fake.status_of(line, ++fake.asked[line]), body, sizeof body - 1);
    return true;
}

void batch_output_put(batch *b, const batch_slot *slot, bool refused, int status, const char *body,
                      size_t bytes) {
    (void)body;
    (void)bytes;
    assert_false(refused);
    if (b->code != TOOL_OK) return;
    fake.written[fake.lines_written].line = slot->place.line;
    fake.written[fake.lines_written++].status = status;
}

uint64_t batch_output_end(const batch *b) {
    (void)b;
    return fake.lines_written;
}

void batch_output_back(batch *b, uint64_t end) {
    (void)b;
    assert_true(end <= fake.lines_written);
    fake.lines_written = end;
}

void mnem_scheduler_stop(mnem_scheduler *scheduler, bool drain) {
    (void)scheduler;
    (void)drain;
    fake.stopped = true;
}

void mnem_scheduler_stats_get(const mnem_scheduler *scheduler, mnem_scheduler_stats *stats) {
    (void)scheduler;
    *stats = (mnem_scheduler_stats){0};
}

void tool_monitor_scheduler(const mnem_scheduler_stats *stats) {
    (void)stats;
}

void tool_progress_step(tool_progress *progress, uint64_t done, uint64_t total, const char *note) {
    (void)progress;
    (void)done;
    (void)total;
    (void)note;
}

void http_thread_touch(void) {}

bool tool_interrupted(void) {
    return false;
}

const char *tool_s(uint64_t number) {
    return number == 1 ? "" : "s";
}

void tool_message(const char *format, ...) {
    (void)format;
}

int tool_failed(const char *format, ...) {
    (void)format;
    return TOOL_FAILED;
}

/* ---- a run ---- */

/* Returns the exit code. */
static int run(int32_t slots, int (*status_of)(uint64_t line, int ask)) {
    static batch b;
    static batch_options options;
    static batch_slot slot[SLOTS_MOST];
    static batch_place again[AGAIN];
    static char chunk[BATCH_CHUNK], line[LINE_ROOM + 1];
    static uint64_t ids[1024];
    FILE *file = tmpfile();
    assert_non_null(file);
    for (int i = 1; i <= REQUESTS; i++)
        fprintf(file, "{\"custom_id\": \"r%d\", \"url\": \"/v1/completions\", \"body\": {}}\n", i);
    assert_int_equal(fflush(file), 0);
    assert_true(batch_ids_bytes(REQUESTS) <= sizeof ids);
    memset(&fake, 0, sizeof fake);
    memset(ids, 0, sizeof ids);
    memset(slot, 0, sizeof slot);
    memset(&b, 0, sizeof b);
    fake.status_of = status_of;
    b.o = &options;
    b.in_path = "requests";
    b.slot = slot;
    b.again = again;
    b.slots = b.most = slots;
    b.counted.lines = REQUESTS;
    for (int i = 0; i < SLOTS_MOST; i++) slot[i].batch = &b;
    batch_ids_init(&b.ids, ids, REQUESTS);
    batch_reader_init(&b.reader, fileno(file), chunk, line, LINE_ROOM);
    batch_feed(&b);
    assert_true(fake.stopped);
    fclose(file);
    return b.code;
}

/* Checks that each line has one answer, with status 200 except for the line `failed`. */
static void all_answered(uint64_t failed) {
    bool has[REQUESTS + 1] = {false};
    assert_int_equal(fake.lines_written, REQUESTS);
    for (int i = 0; i < REQUESTS; i++) {
        const uint64_t line = fake.written[i].line;
        assert_false(has[line]);
        has[line] = true;
        assert_int_equal(fake.written[i].status, line == failed ? 500 : 200);
    }
}

/* ---- tests ---- */

enum { FINE = 5, ODD = 7 };

static int gone_after_some(uint64_t line, int ask) {
    (void)ask;
    return line <= FINE ? 200 : 500;
}

static void requests_that_a_lost_disk_fails_get_no_answer(void **state) {
    (void)state;
    for (int32_t slots = 1; slots <= SLOTS_MOST; slots++) {
        assert_int_equal(run(slots, gone_after_some), TOOL_FAILED);
        assert_int_equal(fake.lines_written, FINE);
        for (int i = 0; i < FINE; i++) assert_int_equal(fake.written[i].status, 200);
    }
}

static int fails_once(uint64_t line, int ask) {
    return line % ODD == 0 && ask == 1 ? 500 : 200;
}

static void a_request_that_fails_once_is_asked_again(void **state) {
    (void)state;
    for (int32_t slots = 1; slots <= SLOTS_MOST; slots++) {
        assert_int_equal(run(slots, fails_once), TOOL_OK);
        all_answered(0);
        for (int line = 1; line <= REQUESTS; line++)
            assert_int_equal(fake.asked[line], line % ODD ? 1 : 2);
    }
}

static int fails_always(uint64_t line, int ask) {
    (void)ask;
    return line == ODD ? 500 : 200;
}

static void a_request_that_fails_alone_has_its_error(void **state) {
    (void)state;
    for (int32_t slots = 1; slots <= SLOTS_MOST; slots++) {
        assert_int_equal(run(slots, fails_always), TOOL_OK);
        all_answered(ODD);
        assert_true(fake.alone[ODD] > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_that_a_lost_disk_fails_get_no_answer),
        cmocka_unit_test(a_request_that_fails_once_is_asked_again),
        cmocka_unit_test(a_request_that_fails_alone_has_its_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
