/* ranks_file.c: a rank without the model's file gets what it needs of it from rank 0.
 *
 * Before the model is opened rank 0 offers its header and the places that opening looks at (the
 * first page of each tensor, and the sample by which files are compared), so that all ranks open
 * and plan the same. When the plan says which bytes a rank reads, it asks for those that it hasn't
 * kept from another run (kept_part.h). One message of a MiB at a time goes to one rank at a time;
 * rank 0 reads nothing that isn't asked for.
 * Cost: a message between all where nobody lacks the file; else memory for a piece, and a list. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks/kept_part.h"
#include "ranks/ranks.h"

enum { CHANNEL = 0, PIECE = 1 << 20, RANGES = 8192, PAGE = 4096, SAMPLE = 64, FLUSH_PIECES = 64 };

/* What rank 0 says of its file. */
typedef struct offer {
    uint64_t bytes, sum, ranges; /* of the file; of what opening reads, and in how many ranges */
    int64_t written;             /* ns */
    char name[80];
} offer;

/* What a rank that lacks it says of itself; of what it asks for, then. */
typedef struct request {
    uint64_t begin, end; /* empty: that is all */
    uint64_t total;      /* still to come */
    char path[PATH_MAX]; /* where it is kept */
} request;

static struct {
    mnem_comm *comm;
    uint8_t lacks[MNEM_COMM_RANKS_MAX];
    bool any;
    uint64_t sent[MNEM_COMM_RANKS_MAX]; /* of the file, to each */
    const char *path;                   /* rank 0's file */
    int fd;                             /* of it */
    uint8_t *piece;                     /* [PIECE], and the ranges behind it */
    tool_ranges need;                   /* what this rank must have: of opening, then of its plan */
    tool_kept_part kept;                /* of a rank that lacks it */
    mnem_ledger *ledger;
    uint64_t charged;
} x = {.fd = -1};

/* ---- messages ---- */

/* A request is of this frame: whatever fails, it must be given up before it goes. */
static int wait_for(mnem_status status, mnem_comm_request *r) {
    if (status == MNEM_OK) status = mnem_comm_wait(x.comm, r, 1);
    if (status == MNEM_OK) return TOOL_OK;
    const char *text = mnem_comm_failure(x.comm);
    mnem_comm_abort(x.comm, text ? text : mnem_last_error());
    return tool_fail(status);
}

static int send_to(int32_t rank, const void *data, size_t bytes) {
    mnem_comm_request r;
    return wait_for(mnem_comm_send(x.comm, rank, CHANNEL, data, bytes, &r), &r);
}

static int receive_from(int32_t rank, void *data, size_t bytes) {
    mnem_comm_request r;
    const int code = wait_for(mnem_comm_post(x.comm, rank, CHANNEL, data, bytes, &r), &r);
    if (code != TOOL_OK || r.bytes == bytes) return code;
    return tool_failed("rank %d sent %zu bytes of a part of the model instead of %zu: start the "
                       "same version of mnem on all ranks",
                       rank, r.bytes, bytes);
}

/* ---- memory ---- */

static int take_memory(void) {
    const size_t lists = 3 * RANGES * sizeof(tool_range);
    const mnem_status status =
        mnem_ledger_charge(x.ledger, MNEM_KIND_IO, "model's part", PIECE + lists);
    if (status != MNEM_OK) return tool_fail(status);
    x.charged = PIECE + lists;
    x.piece = malloc(PIECE + lists);
    if (!x.piece)
        return tool_failed("out of memory for the buffer that receives this rank's part of the "
                           "model; end other programs on this machine");
    tool_range *range = (tool_range *)(void *)(x.piece + PIECE);
    x.need = (tool_ranges){.range = range, .room = RANGES};
    x.kept.have = (tool_ranges){.range = range + RANGES, .room = RANGES};
    x.kept.more = (tool_ranges){.range = range + 2 * RANGES, .room = RANGES};
    return TOOL_OK;
}

static void give(void) {
    free(x.piece);
    x.piece = NULL;
    if (x.charged) mnem_ledger_release(x.ledger, MNEM_KIND_IO, "model's part", x.charged);
    x.charged = 0;
    if (x.fd >= 0) close(x.fd);
    x.fd = -1;
}

static uint64_t missing_bytes(void) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < x.need.count; i++) {
        tool_range r = x.need.range[i];
        for (;;) {
            const tool_range m = tool_ranges_missing(&x.kept.have, r.begin, r.end);
            if (m.begin >= m.end) break;
            bytes += m.end - m.begin;
            r.begin = m.end;
        }
    }
    return bytes;
}

/* ---- rank 0 ---- */

static int read_piece(uint64_t at, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(x.fd, x.piece + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return tool_failed("can't read the model file %s: %s", x.path,
                               n < 0 ? strerror(errno)
                                     : "the file became shorter while it was read; start again");
        done += (size_t)n;
    }
    return TOOL_OK;
}

/* What opening reads, as the open model says. */
static bool find_ranges(const mnem_model *model) {
    mnem_tensor_info t;
    uint64_t header = UINT64_MAX;
    bool room = true;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) {
        const uint64_t page = t.file_bytes < PAGE ? t.file_bytes : PAGE;
        const uint64_t sample = t.file_bytes < SAMPLE ? t.file_bytes : SAMPLE;
        const uint64_t middle = t.offset + (t.file_bytes - sample) / 2;
        if (t.offset < header) header = t.offset;
        room = room && tool_ranges_add(&x.need, t.offset, t.offset + page) &&
               tool_ranges_add(&x.need, middle, middle + sample);
    }
    room = room && tool_ranges_add(&x.need, 0, header);
    tool_ranges_sort(&x.need);
    return room;
}

/* A part can't be had of a model that isn't one file, or whose tensors don't lie there as they
 * are. */
static int check_model(const mnem_model *model) {
    mnem_model_info info;
    mnem_tensor_info t;
    int32_t rank = 1;
    mnem_model_info_get(model, &info);
    while (!x.lacks[rank]) rank++;
    bool plain = info.version > 0 && info.files == 1;
    for (uint32_t i = 0; mnem_model_tensor_get(model, i, &t); i++) plain = plain && !t.compact;
    if (plain) return TOOL_OK;
    return tool_failed(
        "rank %d has no model file %s, and rank 0 can send only a model that is one plain GGUF "
        "file (no folder, no split or compact file): copy it to every rank's machine",
        rank, x.path);
}

static int sum_ranges(uint64_t *sum) {
    *sum = 14695981039346656037u; /* FNV-1a (Fowler, Noll, Vo) */
    for (int32_t i = 0; i < x.need.count; i++) {
        for (uint64_t at = x.need.range[i].begin, n; at < x.need.range[i].end; at += n) {
            n = x.need.range[i].end - at < PIECE ? x.need.range[i].end - at : PIECE;
            const int code = read_piece(at, n);
            if (code != TOOL_OK) return code;
            for (uint64_t k = 0; k < n; k++) *sum = (*sum ^ x.piece[k]) * 1099511628211u;
        }
    }
    return TOOL_OK;
}

static int make_offer(offer *o) {
    struct stat info;
    mnem_model *model;
    const mnem_status status = mnem_model_open(x.path, &model);
    if (status != MNEM_OK) return tool_fail(status);
    int code = check_model(model);
    if (code == TOOL_OK && !find_ranges(model))
        code = tool_failed("the tensors of %s lie in more than %d separate byte ranges, the most "
                           "that can be sent to other ranks: copy it to every rank's machine",
                           x.path, RANGES);
    mnem_model_close(model);
    if (code != TOOL_OK) return code;
    x.fd = open(x.path, O_RDONLY | O_CLOEXEC);
    if (x.fd < 0 || fstat(x.fd, &info) != 0)
        return tool_failed("can't open the model file %s: %s", x.path, strerror(errno));
    const char *slash = strrchr(x.path, '/');
    *o = (offer){.bytes = (uint64_t)info.st_size,
                 .ranges = (uint64_t)x.need.count,
                 .written = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec};
    snprintf(o->name, sizeof o->name, "%s", slash ? slash + 1 : x.path);
    code = sum_ranges(&o->sum);
    o->sum ^= (uint64_t)o->written * 1099511628211u;
    return code;
}

/* Sends what one rank asks for, until it has all. */
static int serve(int32_t rank, request *last) {
    char what[64];
    uint64_t done = 0;
    tool_progress progress;
    snprintf(what, sizeof what, "to rank %d", rank);
    tool_progress_begin(&progress, what);
    int code;
    for (;;) {
        if ((code = receive_from(rank, last, sizeof *last)) != TOOL_OK) break;
        const uint64_t n = last->end - last->begin;
        if (last->begin >= last->end) break;
        if (tool_interrupted()) code = TOOL_INTERRUPTED;
        if (code == TOOL_OK && n > PIECE)
            code =
                tool_failed("rank %d requested %" PRIu64
                            " bytes of the model at once, but a message has at most %d: start the "
                            "same version of mnem on all ranks",
                            rank, n, PIECE);
        if (code == TOOL_OK) code = read_piece(last->begin, n);
        if (code == TOOL_OK) code = send_to(rank, x.piece, n);
        if (code != TOOL_OK) break;
        done += n;
        x.sent[rank] += n;
        tool_progress_step(&progress, done, done - n + last->total, NULL);
    }
    tool_progress_end(&progress);
    return code;
}

static int offer_to_all(void) {
    offer o;
    request last;
    int code = make_offer(&o);
    for (int32_t i = 1; i < mnem_comm_size(x.comm) && code == TOOL_OK; i++) {
        if (!x.lacks[i]) continue;
        code = send_to(i, &o, sizeof o);
        if (code == TOOL_OK) code = send_to(i, x.need.range, o.ranges * sizeof *x.need.range);
        if (code == TOOL_OK) code = serve(i, &last);
    }
    return code;
}

/* ---- a rank that lacks it ---- */

/* Gets what it needs and hasn't kept; total: bytes of it. */
static int fetch(void) {
    request ask = {.total = missing_bytes()};
    int code = TOOL_OK;
    snprintf(ask.path, sizeof ask.path, "%s", x.kept.path);
    for (int32_t i = 0, pieces = 0; i < x.need.count && code == TOOL_OK;) {
        const tool_range m =
            tool_ranges_missing(&x.kept.have, x.need.range[i].begin, x.need.range[i].end);
        if (m.begin >= m.end) {
            i++;
            continue;
        }
        for (ask.begin = m.begin; ask.begin < m.end && code == TOOL_OK; ask.begin = ask.end) {
            ask.end = m.end - ask.begin < PIECE ? m.end : ask.begin + PIECE;
            const size_t n = ask.end - ask.begin;
            code = send_to(0, &ask, sizeof ask);
            if (code == TOOL_OK) code = receive_from(0, x.piece, n);
            if (code == TOOL_OK) code = tool_kept_write(&x.kept, ask.begin, x.piece, n);
            ask.total -= n;
            if (code == TOOL_OK && ++pieces % FLUSH_PIECES == 0) code = tool_kept_flush(&x.kept);
        }
        if (code == TOOL_OK && ask.end == m.end)
            x.need.range[i].begin = m.end; /* `have` knows it when it is flushed */
    }
    if (code == TOOL_OK) code = tool_kept_flush(&x.kept);
    ask.begin = ask.end = 0;
    return code == TOOL_OK ? send_to(0, &ask, sizeof ask) : code;
}

static int take_offer(const char **path) {
    offer o;
    int code = receive_from(0, &o, sizeof o);
    if (code == TOOL_OK && o.ranges > RANGES)
        code = tool_failed("this rank's part of %s has more than %d separate byte ranges: "
                           "copy the model file to this machine instead",
                           o.name, RANGES);
    if (code == TOOL_OK) code = receive_from(0, x.need.range, o.ranges * sizeof *x.need.range);
    if (code != TOOL_OK) return code;
    x.need.count = (int32_t)o.ranges;
    x.kept.written = o.written;
    code = tool_kept_open(&x.kept, o.name, o.sum, o.bytes, mnem_comm_rank(x.comm));
    *path = x.kept.path;
    return code == TOOL_OK ? fetch() : code;
}

/* ---- before the model is opened, and after the plan ---- */

int tool_ranks_file_open(const char **path, mnem_ledger *ledger) {
    static size_t begin[MNEM_COMM_RANKS_MAX + 1];
    x.comm = tool_ranks();
    if (!x.comm) return TOOL_OK;
    const int32_t size = mnem_comm_size(x.comm), me = mnem_comm_rank(x.comm);
    for (int32_t i = 0; i <= size; i++) begin[i] = (size_t)i;
    x.lacks[me] = access(*path, R_OK) != 0 && errno == ENOENT;
    const mnem_status status = mnem_comm_gather(x.comm, x.lacks, begin);
    if (status != MNEM_OK) return tool_fail(status);
    for (int32_t i = 1; i < size; i++) x.any = x.any || x.lacks[i];
    x.any = x.any && !x.lacks[0]; /* opening says that rank 0 has none */
    if (!x.any || (me > 0 && !x.lacks[me])) return TOOL_OK;
    x.path = *path;
    x.ledger = ledger;
    const int code = take_memory();
    if (code != TOOL_OK) return code;
    return me == 0 ? offer_to_all() : take_offer(path);
}

static mnem_status add_need(void *context, uint32_t file, uint64_t offset, uint64_t bytes) {
    (void)context, (void)file;
    if (tool_ranges_add(&x.need, offset, offset + bytes)) return MNEM_OK;
    return MNEM_UNSUPPORTED;
}

static int fetch_part(const mnem_model *model, const mnem_engine_options *options,
                      const mnem_engine_plan *plan) {
    x.need.count = 0;
    const mnem_status status = mnem_engine_reads(model, options, plan, add_need, NULL);
    if (status == MNEM_UNSUPPORTED)
        return tool_failed("this rank's part of %s has more than %d separate byte ranges: copy the "
                           "model file to this machine instead",
                           x.kept.path, RANGES);
    if (status != MNEM_OK) return tool_fail(status);
    tool_ranges_sort(&x.need);
    return fetch();
}

static int serve_all(bool quiet) {
    int code = TOOL_OK;
    for (int32_t i = 1; i < mnem_comm_size(x.comm) && code == TOOL_OK; i++) {
        static request last;
        char size[TOOL_TEXT];
        if (!x.lacks[i]) continue;
        code = serve(i, &last);
        if (code != TOOL_OK || quiet) continue;
        if (x.sent[i])
            tool_message("rank %d has no file %s: it received %s of the model from rank 0 and "
                         "stored them in %s on its machine",
                         i, x.path, tool_size(x.sent[i], size), last.path);
        else
            tool_message("rank %d has no file %s: it uses its part of the model, which an earlier "
                         "run stored in %s on its machine",
                         i, x.path, last.path);
    }
    return code;
}

int tool_ranks_file_fill(const mnem_model *model, const mnem_engine_options *options,
                         const mnem_engine_plan *plan, bool quiet) {
    if (!x.any || !x.piece) return TOOL_OK;
    x.comm = tool_ranks(); /* there may be a slow link around it by now */
    const int code =
        mnem_comm_rank(x.comm) == 0 ? serve_all(quiet) : fetch_part(model, options, plan);
    give();
    return code;
}
