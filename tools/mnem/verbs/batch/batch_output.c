/* batch_output.c: reads the file of answers at the start, and appends answers.
 *
 * An answer is one line and one write. A process that is killed leaves at most one incomplete line,
 * at the end of the file; the next run cuts it off, once its plan fits and the answers are of its
 * model and options. A file with any other line that mnem batch has not written is refused, since
 * it belongs to another program. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs/batch/batch.h"

bool batch_output_is_stdout(const batch *b) {
    return !b->o->out || strcmp(b->o->out, "-") == 0;
}

static int failed(const char *path, int error) {
    return tool_failed("can't write %s: %s", path, strerror(error));
}

static int lock(batch *b) {
    if (flock(b->out, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return TOOL_OK;
    return tool_failed("another mnem batch writes to %s now: wait for it, or choose another --out",
                       b->o->out);
}

static int opened(batch *b) {
    struct stat in, out;
    if (b->out < 0 || fstat(b->out, &out) != 0) return failed(b->o->out, errno);
    if (fstat(b->in, &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino)
        return tool_usage("batch",
                          "--out %s is the file of requests, which would be lost: choose another "
                          "file",
                          b->o->out);
    b->out_keeps = S_ISREG(out.st_mode);
    return b->out_keeps ? lock(b) : TOOL_OK;
}

/* A file that isn't plain is opened for writing only: otherwise a pipe would be its own reader. */
int batch_output_open(batch *b) {
    struct stat about;
    b->out = -1;
    if (batch_output_is_stdout(b)) return TOOL_OK;
    if (stat(b->o->out, &about) != 0) return errno == ENOENT ? TOOL_OK : failed(b->o->out, errno);
    b->out = open(b->o->out, (S_ISREG(about.st_mode) ? O_RDWR : O_WRONLY) | O_CLOEXEC);
    return opened(b);
}

/* Cuts off the incomplete last line. */
static int cut_off(batch *b) {
    if (!b->cut) return TOOL_OK;
    if (ftruncate(b->out, (off_t)b->cut_at) != 0 || lseek(b->out, (off_t)b->cut_at, SEEK_SET) < 0)
        return failed(b->o->out, errno);
    b->cut = false;
    if (!b->serve.model.stage.args->quiet)
        tool_message("the last line of %s is incomplete: its request is answered again", b->o->out);
    return TOOL_OK;
}

int batch_output_create(batch *b) {
    if (batch_output_is_stdout(b)) return TOOL_OK;
    if (b->out >= 0) return cut_off(b);
    b->out = open(b->o->out, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return opened(b);
}

/* ---- answers of earlier runs ---- */

static bool goes_on(void *context, uint64_t bytes) {
    (void)context;
    (void)bytes;
    return !tool_interrupted();
}

int batch_output_count(const batch *b, char *chunk, uint64_t *lines) {
    batch_count count = {0};
    *lines = 0;
    if (!b->out_keeps) return TOOL_OK;
    if (!batch_count_lines(b->out, chunk, goes_on, NULL, &count))
        return errno == ECANCELED ? TOOL_INTERRUPTED : failed(b->o->out, errno);
    *lines = count.lines;
    return TOOL_OK;
}

static int refuse_line(const batch *b, const batch_reader *r) {
    return tool_failed("line %" PRIu64 " of %s is not an answer of mnem batch: choose another "
                       "--out, or remove that line",
                       r->number, b->o->out);
}

static int take_answer(batch *b, const batch_reader *r) {
    batch_answer a;
    if (!batch_answer_read(r->line, r->n, &a)) return refuse_line(b, r);
    if (b->kept_run && a.run != b->kept_run)
        return tool_failed("line %" PRIu64 " of %s was made by another model or with other options "
                           "than the lines before it: choose another --out",
                           r->number, b->o->out);
    b->kept_run = a.run;
    b->kept++;
    b->kept_failed += a.status != 200;
    const uint64_t key =
        a.refused ? batch_key_refused(a.line, a.custom_id) : batch_key(a.custom_id);
    batch_ids_mark(&b->ids, key, BATCH_ANSWERED);
    return TOOL_OK;
}

/* Keeps where the last line begins, which has no newline. */
static int take_incomplete(batch *b, const batch_reader *r) {
    if (!batch_answer_begins(r->line, r->n)) return refuse_line(b, r);
    b->cut = true;
    b->cut_at = r->offset;
    return TOOL_OK;
}

int batch_output_read(batch *b) {
    char line[BATCH_HEAD_MOST + 1];
    batch_reader r;
    int code = TOOL_OK, more = 0;
    if (!b->out_keeps) return TOOL_OK;
    batch_reader_init(&r, b->out, b->reader.chunk, line, BATCH_HEAD_MOST);
    while (code == TOOL_OK && (more = batch_reader_next(&r)) > 0) {
        if (!r.ended)
            code = take_incomplete(b, &r);
        else if (!batch_reader_is_blank(&r))
            code = tool_interrupted() ? TOOL_INTERRUPTED : take_answer(b, &r);
    }
    if (more < 0) code = failed(b->o->out, errno);
    if (code == TOOL_OK && lseek(b->out, 0, SEEK_END) < 0) code = failed(b->o->out, errno);
    return code;
}

int batch_output_check(const batch *b) {
    if (!b->kept_run || b->kept_run == b->run) return TOOL_OK;
    if (b->kept_run >> 32 != b->run >> 32)
        return tool_failed("%s has answers of another model: go on with that model, or choose "
                           "another --out",
                           b->o->out);
    return tool_failed(
        "%s has answers of this model with other options, by which texts differ (context %d and KV "
        "type %s now, template, sampling): go on with the same options, or choose another --out",
        b->o->out, b->serve.model.stage.plan.context, mnem_kv_text(b->serve.model.stage.plan.kv));
}

/* ---- answers of this run ---- */

static bool write_all(int fd, struct iovec *part, int parts) {
    while (parts > 0) {
        const ssize_t n = writev(fd, part, parts);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        size_t left = (size_t)n;
        while (parts > 0 && left >= part->iov_len) {
            left -= part->iov_len;
            part++;
            parts--;
        }
        if (parts > 0) {
            part->iov_base = (char *)part->iov_base + left;
            part->iov_len -= left;
        }
    }
    return true;
}

static void write_line(batch *b, struct iovec *part, int parts) {
    if (b->out < 0) {
        for (int i = 0; i < parts; i++) tool_out(part[i].iov_base, part[i].iov_len);
        if (!tool_out_flush() && b->code == TOOL_OK) b->code = tool_out_end();
        if (tool_out_closed()) atomic_store(&b->draining, true); /* nobody reads */
        return;
    }
    const off_t before = b->out_keeps ? lseek(b->out, 0, SEEK_CUR) : 0;
    if (write_all(b->out, part, parts)) return;
    const int error = errno;
    if (b->out_keeps && ftruncate(b->out, before) == 0) lseek(b->out, before, SEEK_SET);
    b->code = b->out_keeps ? tool_failed("can't write %s: %s; the answers before are kept: run the "
                                         "same command again to continue",
                                         b->o->out, strerror(error))
                           : failed(b->o->out, error);
}

/* Stores the message of an error, with its JSON escapes, in first_why. */
static void keep_why(batch *b, const char *body, size_t bytes) {
    static const char key[] = "\"message\":\"";
    const char *at = memmem(body, bytes, key, sizeof key - 1);
    const size_t begin = at ? (size_t)(at - body) + sizeof key - 1 : bytes;
    size_t n = 0;
    while (begin + n < bytes && body[begin + n] != '"' && n + 1 < sizeof b->first_why)
        n += 1 + (body[begin + n] == '\\' && begin + n + 1 < bytes && n + 2 < sizeof b->first_why);
    memcpy(b->first_why, body + (n ? begin : 0), n);
    b->first_why[n] = 0;
    const char *behind = strstr(b->first_why, ": "); /* the summary prints the line anyway */
    if (strncmp(b->first_why, "line ", 5) == 0 && behind)
        memmove(b->first_why, behind + 2, strlen(behind + 2) + 1);
}

void batch_output_put(batch *b, const batch_slot *slot, bool refused, int status, const char *body,
                      size_t bytes) {
    static char end[] = ",\"error\":null}\n";
    char head[BATCH_HEAD_MOST];
    const batch_answer answer = {.run = b->run,
                                 .line = slot->place.line,
                                 .refused = refused,
                                 .custom_id = {slot->id, slot->id_bytes},
                                 .status = status};
    if (b->code != TOOL_OK) return;
    while (bytes && body[bytes - 1] == '\n') bytes--;
    struct iovec part[] = {{head, batch_answer_head(&answer, head)},
                           {(void *)(uintptr_t)body, bytes},
                           {(void *)(uintptr_t) "}", 1},
                           {end, sizeof end - 1}};
    write_line(b, part, sizeof part / sizeof *part);
    b->done++;
    if (status == 200) return;
    if (!b->failed++ || slot->place.line < b->first_failed) {
        b->first_failed = slot->place.line;
        keep_why(b, body, bytes);
    }
}

uint64_t batch_output_end(const batch *b) {
    const off_t end = b->out_keeps ? lseek(b->out, 0, SEEK_CUR) : 0;
    return end > 0 ? (uint64_t)end : 0;
}

void batch_output_back(batch *b, uint64_t end) {
    if (b->out_keeps && ftruncate(b->out, (off_t)end) == 0) lseek(b->out, (off_t)end, SEEK_SET);
}

int batch_output_close(batch *b) {
    int code = TOOL_OK;
    if (b->out < 0) return code;
    if (b->out_keeps && fsync(b->out) != 0) code = failed(b->o->out, errno);
    if (close(b->out) != 0 && code == TOOL_OK) code = failed(b->o->out, errno);
    b->out = -1;
    return code;
}
