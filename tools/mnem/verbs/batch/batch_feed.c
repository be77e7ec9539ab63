/* batch_feed.c: one thread that sends requests from the file to the API, and writes the answers.
 *
 * A few more requests are sent than run together, so that the scheduler always has some to choose
 * from. A request that others leave no room for is sent once more. If it was refused at once (429
 * of a full queue), it is sent after the next answer. If shared memory was missing later, it is
 * sent with fewer others under way; if it fails again, alone. So no answer depends on the other
 * requests. After a 500 it is sent again, too: the cause may have been another request, or a device
 * that has failed. In the second case the run stops, and the failed requests stay unanswered. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "server/http/http_thread.h"
#include "sight/monitor_file.h"
#include "verbs/batch/batch.h"

/* ---- lines that aren't valid requests ---- */

static void put_refusal(batch *b, uint64_t line, batch_slice custom_id, int status,
                        const char *code, const char *why) {
    char body[512];
    batch_slot slot = {.place.line = line, .id_bytes = custom_id.n};
    if (custom_id.n) memcpy(slot.id, custom_id.at, custom_id.n);
    const int n = snprintf(body, sizeof body,
                           "{\"error\":{\"message\":\"line %" PRIu64
                           ": %s\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":"
                           "\"%s\"}}",
                           line, why, code);
    batch_output_put(b, &slot, true, status, body, (size_t)n);
}

static void refuse(batch *b, int status, const char *code, const char *why) {
    const uint64_t line = b->reader.number;
    const batch_slice id = b->request.custom_id;
    if (batch_ids_mark(&b->ids, batch_key_refused(line, id), BATCH_ANSWERED)) return;
    put_refusal(b, line, id, status, code, why);
}

/* Reads the request of the reader's line. true: it is valid, and has no answer yet. */
static bool read_line(batch *b) {
    batch_request *r = &b->request;
    char why[80];
    const bool fine = batch_request_read(b->reader.line, b->reader.n, r);
    snprintf(why, sizeof why, "the %s is longer than %d bytes", b->reader.cut ? "line" : "body",
             SERVE_BODY_BYTES);
    if (b->reader.cut || (fine && r->body.n > SERVE_BODY_BYTES)) {
        refuse(b, 413, "request_too_large", why);
        return false;
    }
    if (!fine) {
        refuse(b, 400, r->code, r->why);
        return false;
    }
    const uint64_t key = batch_key(r->custom_id);
    if (batch_ids_mark(&b->ids, key, BATCH_SEEN)) {
        refuse(b, 400, "duplicate_custom_id", "an earlier line has the same 'custom_id'");
        return false;
    }
    return !batch_ids_has(&b->ids, key, BATCH_ANSWERED);
}

static bool prepare_next(batch *b) {
    int more = 0;
    while (b->code == TOOL_OK && b->reader.number < b->counted.lines &&
           (more = batch_reader_next(&b->reader)) > 0) {
        const bool blank = batch_reader_is_blank(&b->reader);
        b->blank += blank;
        if (!blank && read_line(b)) return true;
        if (atomic_load(&b->draining)) return false;
    }
    if (more < 0 && b->code == TOOL_OK)
        b->code = tool_failed("can't read %s: %s", b->in_path, strerror(errno));
    return false;
}

/* Reads the last request of b->again. One with `alone` waits until no other is under way. */
static bool prepare_again(batch *b) {
    if (!b->again_count || (b->in_flight && b->again[b->again_count - 1].alone)) return false;
    b->asked = b->again[--b->again_count];
    if (batch_reader_again(&b->reader, b->asked.line, b->asked.offset, b->asked.bytes) &&
        batch_request_read(b->reader.line, b->reader.n, &b->request))
        return true;
    b->code =
        tool_failed("%s has changed since this run began: run the same command again", b->in_path);
    return false;
}

bool batch_feed_prepare(batch *b) {
    if (b->ready || b->code != TOOL_OK) return b->ready;
    b->asked = (batch_place){0};
    const bool soon = b->again_count && !b->again[b->again_count - 1].alone;
    if (!soon && b->again_count < b->slots) b->ready = prepare_next(b);
    if (!b->ready && b->code == TOOL_OK && !atomic_load(&b->draining)) b->ready = prepare_again(b);
    return b->ready;
}

/* ---- requests and answers ---- */

static batch_slot *free_slot(batch *b) {
    int32_t i = 0;
    while (b->slot[i].used) i++;
    return &b->slot[i];
}

/* Whether the request may succeed without others under way. */
static bool is_crowded(int status) {
    return status == 413 || status == 429 || status == 500 || status == 503;
}

/* Keeps the request for later, and lowers the limit of requests under way; grow raises it by one
 * after as many answers as the limit. After a 413 the request is sent alone the first time already,
 * since it may be too large even then. */
static void ask_again(batch *b, const batch_slot *slot, int status) {
    batch_place place = slot->place;
    place.alone = place.again || status == 413;
    place.again = true;
    b->again[b->again_count++] = place;
    b->most = b->in_flight > 1 ? b->in_flight : 1;
    b->calm = 0;
}

static void grow(batch *b) {
    if (++b->calm < b->most || b->most >= b->slots) return;
    b->most++;
    b->calm = 0;
}

/* Whether the run stops: BROKEN_MOST answers in a row had status 500, so that further requests
 * would probably fail, too (a disk that is gone). Those of them that were written, since their
 * requests failed alone, are removed: the next run sends these requests again. */
static bool stops_for(batch *b, int status, const char *body, size_t bytes) {
    enum { BROKEN_MOST = 8 };
    if (status == 500 && b->broken == 0) b->broken_at = batch_output_end(b);
    b->broken = status == 500 ? b->broken + 1 : 0;
    if (b->broken < BROKEN_MOST) return false;
    if (b->code == TOOL_OK) {
        batch_output_back(b, b->broken_at);
        b->code = tool_failed("the last %d answers all had status 500: %.*s", BROKEN_MOST,
                              (int)(bytes < 300 ? bytes : 300), body);
    }
    return true;
}

static void on_answer(void *sender, int status, const void *body, size_t bytes) {
    batch_slot *slot = sender;
    batch *b = slot->batch;
    slot->used = false;
    b->in_flight--;
    if (slot->place.alone) b->alone = false;
    if (stops_for(b, status, body, bytes)) return;
    if (is_crowded(status) && !slot->place.alone) {
        if (slot == b->sending && b->in_flight > 0)
            b->bounced = true;
        else
            ask_again(b, slot, status);
        return;
    }
    grow(b);
    batch_output_put(b, slot, false, status, body, bytes);
}

http_local_answer *batch_feed_answer(void) {
    return on_answer;
}

static void send(batch *b) {
    const batch_request *r = &b->request;
    batch_slot *slot = free_slot(b);
    char *end = (char *)(uintptr_t)r->body.at + r->body.n;
    const char held = *end;
    *slot = (batch_slot){.batch = b, .place = b->asked, .used = true, .id_bytes = r->custom_id.n};
    memcpy(slot->id, r->custom_id.at, r->custom_id.n);
    if (!b->asked.again)
        slot->place = (batch_place){
            .line = b->reader.number, .offset = b->reader.offset, .bytes = b->reader.bytes};
    b->in_flight++;
    b->sending = slot;
    b->alone = slot->place.alone;
    b->bounced = false;
    *end = 0;
    http_local_send(b->serve.http, r->path, r->body.at, r->body.n, slot);
    *end = held;
    b->sending = NULL;
    b->ready = b->bounced;
    b->full_at = b->bounced ? b->in_flight : 0;
}

/* ---- the thread ---- */

static void show_progress(batch *b) {
    char note[80];
    mnem_scheduler_stats stats;
    mnem_scheduler_stats_get(b->serve.model.scheduler, &stats);
    tool_monitor_scheduler(&stats);
    const uint64_t done = b->kept + b->done, failed = b->kept_failed + b->failed;
    const int n =
        snprintf(note, sizeof note, "%" PRIu64 " of %" PRIu64 " requests", done, b->counted.lines);
    if (failed) snprintf(note + n, sizeof note - (size_t)n, ", %" PRIu64 " failed", failed);
    tool_progress_step(&b->progress, done, b->counted.lines, note);
}

static void say_draining(batch *b) {
    if (b->said_draining || !tool_interrupted()) return;
    b->said_draining = true;
    if (b->serve.model.stage.args->quiet || !b->in_flight) return;
    tool_message("finishing %d request%s; a second Ctrl-C or SIGTERM stops at once", b->in_flight,
                 tool_s((uint64_t)b->in_flight));
}

static void fill(batch *b) {
    while (b->in_flight < b->most && !b->alone && !atomic_load(&b->draining)) {
        if (b->full_at && b->in_flight >= b->full_at) return;
        if (!batch_feed_prepare(b)) return;
        send(b);
    }
}

void *batch_feed(void *context) {
    batch *b = context;
    http_thread_touch();
    do {
        fill(b);
        if (atomic_load(&b->draining)) say_draining(b);
        show_progress(b);
        if (b->code != TOOL_OK) break;
    } while (b->in_flight > 0 && http_local_turn(b->serve.http, 1000));
    mnem_scheduler_stop(b->serve.model.scheduler, b->code == TOOL_OK);
    return NULL;
}
