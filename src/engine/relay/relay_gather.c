/* relay_gather.c: columns of rows from and to all ranks (relay_gather.h).
 *
 * Cost: a message to each rank and one from each, and a copy of what comes; nothing is taken. */
#include "engine/relay/relay_gather.h"

#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/minmax.h"
#include "base/thread.h"
#include "model/architecture/transformer_graph.h"

enum { ROUTES = 64 }; /* of a token, read at once */
enum { CHANNEL_LOGITS = 2, CHANNEL_GATHER = MNEM_COMM_READY };
enum { SLOTS = 2, SLOT_MOST = 256 << 10, SLOTS_MOST = 8 << 20 };

static const double soon_most = 0.002;

/* A row at the least; as many as a chunk has, while that isn't much. */
size_t mnem__gather_slot(uint64_t row_bytes, int32_t chunk, int32_t size) {
    const uint64_t most = mnem__min_u64(SLOT_MOST, SLOTS_MOST / (uint64_t)(SLOTS * size));
    const uint64_t bytes = mnem__min_u64(row_bytes * (uint64_t)chunk, most);
    return (size_t)mnem__align_up(mnem__max_u64(bytes, row_bytes), 64);
}

static size_t members_bytes(int32_t size) {
    return (size_t)mnem__align_up((uint64_t)size * sizeof(mnem__gather_member), 64);
}

uint64_t mnem__gather_bytes(uint64_t row_bytes, int32_t chunk, int32_t size) {
    const uint64_t slots = (uint64_t)(SLOTS * size + 1);
    return row_bytes ? members_bytes(size) + slots * mnem__gather_slot(row_bytes, chunk, size) : 0;
}

/* ---- the begin and the end ---- */

static mnem_comm_request *request_of(mnem__gather *g, int which, int32_t peer) {
    return g->requests + (int64_t)which * g->size + peer;
}

static uint8_t *slot_of(const mnem__gather *g, int which, int32_t peer) {
    return g->slots + (size_t)(which * g->size + peer) * g->slot_bytes;
}

static mnem_status post(mnem__gather *g, int which, int32_t peer) {
    return mnem_comm_post(g->comm, peer, CHANNEL_GATHER, slot_of(g, which, peer), g->slot_bytes,
                          request_of(g, which, peer));
}

/* By its name; two of one name are taken for one, which only costs some waiting. */
static uint64_t this_machine(void) {
    char name[256] = "";
    uint64_t sum = 14695981039346656037u; /* FNV-1a (Fowler, Noll, Vo) */
    gethostname(name, sizeof name - 1);
    for (const char *c = name; *c; c++) sum = (sum ^ (uint8_t)*c) * 1099511628211u;
    return sum;
}

/* A rank that looks takes a processor: only where no thread of another rank needs it. */
static double looking(const mnem__gather *g) {
    const mnem__gather_member *mine = &g->members[g->rank];
    int64_t threads = 0;
    for (int32_t i = 0; i < g->size; i++)
        if (g->members[i].machine == mine->machine) threads += g->members[i].threads;
    const bool room =
        mine->threads <= mnem__processors() && threads <= sysconf(_SC_NPROCESSORS_ONLN);
    return room ? soon_most : 0;
}

mnem_status mnem__gather_start(mnem__gather *g, void *block, uint64_t row_bytes, int32_t chunk,
                               const mnem__gather_member *mine) {
    size_t begin[MNEM_COMM_RANKS_MAX + 1];
    g->members = block;
    g->slot_bytes = mnem__gather_slot(row_bytes, chunk, g->size);
    g->slots = (uint8_t *)block + members_bytes(g->size);
    g->out = g->slots + (size_t)(SLOTS * g->size) * g->slot_bytes;
    g->at = 0;
    for (int32_t i = 0; i <= g->size; i++) begin[i] = (size_t)i * sizeof *g->members;
    g->members[g->rank] = *mine;
    g->members[g->rank].machine = this_machine();
    for (int which = 0; which < SLOTS; which++)
        for (int32_t p = 0; p < g->size; p++)
            if (p != g->rank) MNEM__TRY(post(g, which, p));
    MNEM__TRY(mnem_comm_gather(g->comm, g->members, begin)); /* behind it all have posted theirs */
    g->soon = looking(g);
    return MNEM_OK;
}

static mnem_status send_all(mnem__gather *g, const void *data, size_t bytes) {
    for (int32_t i = 1; i < g->size; i++) {
        const int32_t p = (g->rank + i) % g->size;
        MNEM__TRY(mnem_comm_send(g->comm, p, CHANNEL_GATHER, data, bytes, request_of(g, SLOTS, p)));
    }
    return MNEM_OK;
}

static mnem_status wait_for(mnem__gather *g, int which, int32_t peer) {
    return mnem_comm_wait_soon(g->comm, request_of(g, which, peer), g->soon);
}

static mnem_status sent_all(mnem__gather *g) {
    for (int32_t p = 0; p < g->size; p++)
        if (p != g->rank) MNEM__TRY(wait_for(g, SLOTS, p));
    return MNEM_OK;
}

/* Both slots of everybody are met by a message without bytes. */
mnem_status mnem__gather_end(mnem__gather *g) {
    for (int i = 0; i < SLOTS; i++) {
        MNEM__TRY(send_all(g, g->out, 0));
        for (int32_t p = 0; p < g->size; p++)
            if (p != g->rank) MNEM__TRY(wait_for(g, g->at, p));
        MNEM__TRY(sent_all(g));
        g->at = (g->at + 1) % SLOTS;
    }
    return MNEM_OK;
}

/* ---- a gather ---- */

size_t mnem__gather_columns(mnem_type type, int64_t columns) {
    const mnem_type_info *info = mnem_type_get(type);
    const int64_t each = info->block_elements;
    return (size_t)((columns + each - 1) / each) * info->block_bytes;
}

static mnem_row_range columns_of(const mnem__gather *g, int32_t rank,
                                 const mnem_graph_gathered *x) {
    const mnem__gather_member *m = &g->members[rank];
    const mnem_transformer t = {.head_dim = m->head_dim};
    return mnem__transformer_gathered(&t, &m->part, (mnem__gathers)x->what);
}

/* Of a row: where a rank's columns begin, and their bytes. */
static size_t part_of(const mnem__gather *g, int32_t rank, const mnem_graph_gathered *x,
                      size_t *begin) {
    const mnem_row_range columns = columns_of(g, rank, x);
    *begin = mnem__gather_columns(x->type, columns.begin);
    return mnem__gather_columns(x->type, columns.end - columns.begin);
}

/* Rows of a piece, the same on every rank: those of which a slot holds the widest part. */
static int64_t piece_rows(const mnem__gather *g, const mnem_graph_gathered *x) {
    size_t widest = 1, begin;
    for (int32_t i = 0; i < g->size; i++) {
        const size_t bytes = part_of(g, i, x, &begin);
        if (bytes > widest) widest = bytes;
    }
    return mnem__max_i64((int64_t)(g->slot_bytes / widest), 1);
}

/* Slots are what host and device both reach; rows are bound (location.h). */
static mnem_status copy_bytes(const mnem__gather *g, void *to, const void *from, size_t bytes) {
    if (g->device)
        return mnem__location_move(mnem__location_bound(g->device, to),
                                   mnem__location_bound(g->device, from), bytes);
    memcpy(to, from, bytes);
    return MNEM_OK;
}

/* n rows of bytes: those of a message follow each other. in: from it. */
static mnem_status copy_rows(const mnem__gather *g, const mnem_graph_gathered *x, uint8_t *rows,
                             int64_t n, size_t bytes, uint8_t *message, bool in) {
    for (int64_t i = 0; i < n; i++) {
        uint8_t *row = rows + i * x->stride, *beside = message + (size_t)i * bytes;
        MNEM__TRY(copy_bytes(g, in ? row : beside, in ? beside : row, bytes));
    }
    return MNEM_OK;
}

static mnem_status send_rows(mnem__gather *g, const mnem_graph_gathered *x, uint8_t *rows,
                             int64_t n) {
    size_t begin;
    const size_t bytes = part_of(g, g->rank, x, &begin);
    if (n == 1 && !g->device) return send_all(g, rows + begin, bytes);
    MNEM__TRY(copy_rows(g, x, rows + begin, n, bytes, g->out, false));
    return send_all(g, g->out, (size_t)n * bytes);
}

static mnem_status take_rows(mnem__gather *g, int32_t peer, const mnem_graph_gathered *x,
                             uint8_t *rows, int64_t n) {
    size_t begin;
    const size_t bytes = part_of(g, peer, x, &begin);
    MNEM__TRY(wait_for(g, g->at, peer));
    const size_t came = request_of(g, g->at, peer)->bytes;
    if (came != (size_t)n * bytes)
        return mnem__fail(MNEM_IO,
                          "engine: rank %d sent %zu bytes of columns, expected %zu (do all ranks "
                          "run the same version of mnem?)",
                          peer, came, (size_t)n * bytes);
    size_t own; /* a copy of keys is there, and under way to others */
    part_of(g, g->rank, x, &own);
    if (begin != own)
        MNEM__TRY(copy_rows(g, x, rows + begin, n, bytes, slot_of(g, g->at, peer), true));
    return post(g, g->at, peer);
}

static mnem_status gather_piece(mnem__gather *g, const mnem_graph_gathered *x, uint8_t *rows,
                                int64_t n) {
    MNEM__TRY(send_rows(g, x, rows, n));
    for (int32_t i = 1; i < g->size; i++)
        MNEM__TRY(take_rows(g, (g->rank + i) % g->size, x, rows, n));
    g->at = (g->at + 1) % SLOTS;
    return sent_all(g);
}

/* Of a row to rank 0, each part to its place. */
static mnem_status begin_logits(mnem__gather *g, const mnem_graph_gathered *x, uint8_t *row,
                                int which) {
    size_t begin, bytes = part_of(g, g->rank, x, &begin);
    if (g->rank > 0)
        return mnem_comm_send(g->comm, 0, CHANNEL_LOGITS, row, bytes, request_of(g, which, 0));
    for (int32_t p = 1; p < g->size; p++) {
        bytes = part_of(g, p, x, &begin);
        MNEM__TRY(mnem_comm_post(g->comm, p, CHANNEL_LOGITS, row + begin, bytes,
                                 request_of(g, which, p)));
    }
    return MNEM_OK;
}

static mnem_status end_logits(mnem__gather *g, int which) {
    if (g->rank > 0) return wait_for(g, which, 0);
    for (int32_t p = 1; p < g->size; p++) MNEM__TRY(wait_for(g, which, p));
    return MNEM_OK;
}

/* ---- what experts make ---- */

typedef struct rows_span {
    int64_t row, n;
} rows_span;

/* Rows of a token's experts (graph.h), of which a rank has those of its own; *total bytes. */
static mnem_status copy_routed(const mnem__gather *g, int32_t rank, const mnem_graph_gathered *x,
                               const rows_span *span, uint8_t *message, bool in, size_t *total) {
    const mnem_row_range own = g->members[rank].part.experts;
    const int32_t used = x->routes_used;
    const size_t bytes = (size_t)(x->end - x->begin) / (size_t)used * sizeof(float);
    float route[ROUTES];
    *total = 0;
    for (int64_t k = span->row * used; k < (span->row + span->n) * used; k++) {
        const int64_t t = k / used, i = k % used;
        const float *routes = (const void *)(x->routes + t * x->routes_stride);
        if (i % ROUTES == 0)
            MNEM__TRY(copy_bytes(g, route, routes + i,
                                 (size_t)mnem__min_i64(ROUTES, used - i) * sizeof *route));
        const float expert = route[i % ROUTES];
        if (expert < (float)own.begin || expert >= (float)own.end) continue;
        uint8_t *at = x->rows + t * x->stride + (size_t)i * bytes;
        if (message) MNEM__TRY(copy_rows(g, x, at, 1, bytes, message + *total, in));
        *total += bytes;
    }
    return MNEM_OK;
}

static mnem_status take_routed(mnem__gather *g, int32_t peer, const mnem_graph_gathered *x,
                               const rows_span *span) {
    size_t bytes;
    MNEM__TRY(copy_routed(g, peer, x, span, NULL, true, &bytes));
    MNEM__TRY(wait_for(g, g->at, peer));
    const size_t came = request_of(g, g->at, peer)->bytes;
    if (came != bytes)
        return mnem__fail(MNEM_IO,
                          "engine: rank %d sent %zu bytes of experts, expected %zu (do all ranks "
                          "run the same version of mnem?)",
                          peer, came, bytes);
    MNEM__TRY(copy_routed(g, peer, x, span, slot_of(g, g->at, peer), true, &bytes));
    return post(g, g->at, peer);
}

/* All know who has what, since all have the routes: a rank may have nothing to send. */
static mnem_status gather_experts(mnem__gather *g, const mnem_graph_gathered *x) {
    const size_t row_bytes = (size_t)(x->end - x->begin) * sizeof(float);
    const int64_t piece = mnem__max_i64((int64_t)(g->slot_bytes / row_bytes), 1);
    for (int64_t row = 0; row < x->count; row += piece) {
        const rows_span span = {row, mnem__min_i64(piece, x->count - row)};
        size_t bytes;
        MNEM__TRY(copy_routed(g, g->rank, x, &span, g->out, false, &bytes));
        MNEM__TRY(send_all(g, g->out, bytes));
        for (int32_t i = 1; i < g->size; i++)
            MNEM__TRY(take_routed(g, (g->rank + i) % g->size, x, &span));
        g->at = (g->at + 1) % SLOTS;
        MNEM__TRY(sent_all(g));
    }
    return MNEM_OK;
}

/* Some rows at once, so that a link's latency isn't waited for with each. They are where the host
 * reaches them on every device. */
static mnem_status gather_logits(mnem__gather *g, const mnem_graph_gathered *x) {
    uint8_t *rows = x->rows;
    if (g->device) rows = mnem__location_host(mnem__location_bound(g->device, rows));
    for (int64_t row = 0; row < x->count; row += MNEM__GATHER_LOGITS) {
        const int n = (int)mnem__min_i64(MNEM__GATHER_LOGITS, x->count - row);
        for (int i = 0; i < n; i++)
            MNEM__TRY(begin_logits(g, x, rows + (row + i) * x->stride, SLOTS + i));
        for (int i = 0; i < n; i++) MNEM__TRY(end_logits(g, SLOTS + i));
    }
    return MNEM_OK;
}

mnem_status mnem__gather_run(void *context, const mnem_graph_gathered *x) {
    mnem__gather *g = context;
    if (x->what == MNEM__GATHERS_LOGITS) return gather_logits(g, x);
    if (x->what == MNEM__GATHERS_EXPERTS) return gather_experts(g, x);
    const int64_t piece = piece_rows(g, x);
    for (int64_t row = 0; row < x->count; row += piece)
        MNEM__TRY(
            gather_piece(g, x, x->rows + row * x->stride, mnem__min_i64(piece, x->count - row)));
    return MNEM_OK;
}
