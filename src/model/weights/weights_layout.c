/* weights_layout.c: how matrices are cut into chunks, and the bytes of everything.
 *
 * The idea: a chunk is as many whole groups of 16 rows as a slot takes, evened out over the matrix.
 * With P packed and R raw bytes of a group, packing group i writes [iP, (i+1)P) and reads from
 * raw_at + iR on; raw_at >= P + (n - 1) max(P - R, 0) keeps them apart for all n groups of a chunk,
 * and a direct read adds less than two units of 4096 around the raw bytes.
 * Invariant: measuring and carving is this one code. */
#include <unistd.h>

#include "base/carve.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "model/architecture/roles.h"
#include "model/weights/weights_private.h"

enum { SLOTS_DEFAULT = 4, SLOTS_MAX = 256, SLOT_BYTES_DEFAULT = 1 << 20 };

static uint64_t up(uint64_t bytes) {
    return mnem__align_up(bytes, MNEM__WEIGHTS_ALIGNMENT);
}

/* Where the raw bytes of a chunk of so many groups begin. */
static uint64_t raw_at(const mnem__matrix *m, uint64_t groups) {
    uint64_t more = m->packed_bytes > m->raw_bytes ? m->packed_bytes - m->raw_bytes : 0;
    return up(m->packed_bytes + (groups - 1) * more);
}

/* What a chunk of so many groups needs of a slot. Spans are read behind each other, each from a
 * whole unit on, and moved together: three units more than its bytes and one unit. */
static uint64_t chunk_slot_bytes(const mnem__matrix *m, uint64_t groups) {
    const uint64_t apart = mnem__row_spans_count(&m->here) > 1 ? 3 * MNEM__WEIGHTS_ALIGNMENT : 0;
    uint64_t raw =
        raw_at(m, groups) + apart + up(MNEM__WEIGHTS_ALIGNMENT - 1 + groups * m->raw_bytes);
    uint64_t packed = groups * m->packed_bytes;
    return raw > packed ? raw : packed;
}

uint64_t mnem__matrix_slot_min(const mnem__matrix *m) {
    return chunk_slot_bytes(m, 1);
}

/* The bytes of an expert's matrix, packed; of a resident one none. */
static uint64_t expert_packed(const mnem__matrix *m) {
    return (uint64_t)m->expert_groups * m->packed_bytes;
}

uint64_t mnem__expert_matrix_at(const mnem__matrix *gates, int i, uint64_t *raw) {
    uint64_t at = 0;
    for (int j = 0; j < i; j++) at += up(expert_packed(&gates[j]));
    *raw = at + raw_at(&gates[i], (uint64_t)gates[i].expert_groups);
    return at;
}

/* Matrices are read one after another, each into the places of those that come later. */
static uint64_t expert_slot_bytes(const mnem__matrix *gates) {
    uint64_t bytes = 0, raw;
    for (int i = 0; i < gates->expert_matrices; i++) {
        const uint64_t at = mnem__expert_matrix_at(gates, i, &raw);
        bytes = mnem__max_u64(
            bytes, at + up(chunk_slot_bytes(&gates[i], (uint64_t)gates[i].expert_groups)));
    }
    return bytes;
}

/* The matrices of experts that begin with the body's i-th, which m[0] describes. */
static mnem_status describe_experts(const mnem__weights_options *o, int32_t i, mnem__matrix *m) {
    for (int j = 0; j < m[0].expert_matrices; j++) {
        if (i + j >= o->body_count || o->resident[i + j] != o->resident[i])
            return mnem__fail(MNEM_INVALID, "weights: the matrices of experts of a layer "
                                            "must be all resident or all streamed");
        MNEM__TRY(mnem__matrix_describe(o, i + j, 0, &m[j]));
        const int64_t experts = m[j].expert_groups ? m[j].rows / m[j].expert_groups : 0;
        if (experts == 0 || experts != m[0].rows / m[0].expert_groups)
            return mnem__fail(MNEM_INVALID, "weights: %s has %lld experts, but %s has %lld",
                              m[j].name, (long long)(experts / MNEM_PACK_ROWS), m[0].name,
                              (long long)(m[0].rows / m[0].expert_groups / MNEM_PACK_ROWS));
    }
    return MNEM_OK;
}

mnem_status mnem__weights_mixtures(const mnem__weights_options *o, mnem__weights_mixtures_info *x) {
    *x = (mnem__weights_mixtures_info){.slots = 0};
    for (int32_t i = 0; i < o->body_count; i++) {
        mnem__matrix m[MNEM__EXPERT_MATRICES];
        MNEM__TRY(mnem__matrix_describe(o, i, 0, &m[0]));
        if (m[0].expert_groups == 0) continue;
        MNEM__TRY(describe_experts(o, i, m));
        i += m[0].expert_matrices - 1;
        if (o->resident[i]) continue;
        const int32_t experts = (int32_t)(m[0].rows / MNEM_PACK_ROWS / m[0].expert_groups);
        x->mixtures++;
        x->experts = mnem__max_i32(x->experts, experts);
        x->total += experts;
        x->slot_bytes = mnem__max_u64(x->slot_bytes, expert_slot_bytes(m));
        for (int j = 0; j < m[0].expert_matrices; j++)
            x->file_bytes += (uint64_t)m[j].rows * m[j].row_bytes;
    }
    if (x->mixtures == 0) return MNEM_OK;
    x->slots = mnem__min_i32(o->expert_slots ? o->expert_slots : MNEM__EXPERT_SLOTS_LEAST,
                             mnem__max_i32(x->total, MNEM__EXPERT_SLOTS_LEAST));
    if (x->slots >= MNEM__EXPERT_SLOTS_LEAST) return MNEM_OK;
    return mnem__fail(MNEM_INVALID,
                      "weights: the number of slots for experts is %d, expected at least %d",
                      x->slots, MNEM__EXPERT_SLOTS_LEAST);
}

/* The most groups that a slot takes; 0: not even one. */
static uint64_t groups_that_fit(const mnem__matrix *m, uint64_t slot_bytes) {
    uint64_t larger = m->packed_bytes > m->raw_bytes ? m->packed_bytes : m->raw_bytes;
    uint64_t groups = slot_bytes / larger;
    while (groups && chunk_slot_bytes(m, groups) > slot_bytes) groups--;
    return groups;
}

/* Packed rows of a file come in whole groups. */
static bool is_span(const mnem__matrix *m, mnem_row_range rows) {
    if (rows.begin < 0 || rows.begin >= rows.end || rows.end > m->rows) return false;
    const int64_t unit = m->expert_groups * MNEM_PACK_ROWS; /* whole experts */
    if (unit && (rows.begin % unit || rows.end % unit)) return false;
    return !m->compact || (rows.begin % MNEM_PACK_ROWS == 0 &&
                           (rows.end % MNEM_PACK_ROWS == 0 || rows.end == m->rows));
}

/* Only those rows of it. */
static mnem_status take_rows(const char *name, const mnem__row_spans *here, mnem__matrix *m) {
    const int count = mnem__row_spans_count(here);
    for (int i = 0; i < count; i++)
        if (!is_span(m, here->span[i]))
            return mnem__fail(MNEM_UNSUPPORTED,
                              "weights: rows %d to %d of %s can't be loaded separately",
                              here->span[i].begin, here->span[i].end - 1, name);
    m->here = *here;
    if (count > 0) m->rows = mnem__row_spans_rows(here);
    return MNEM_OK;
}

mnem_status mnem__matrix_describe(const mnem__weights_options *o, int32_t index,
                                  uint64_t slot_bytes, mnem__matrix *m) {
    const mnem_model *model = o->model;
    const int32_t tensor = o->tensors[index];
    mnem_tensor_info info;
    if (tensor < 0 || !mnem_model_tensor_get(model, (uint32_t)tensor, &info))
        return mnem__fail(MNEM_INVALID, "weights: tensor %d does not exist", tensor);
    *m = (mnem__matrix){.name = info.name,
                        .made = mnem__model_is_plain(model, (uint32_t)tensor) ? -1 : tensor,
                        .type = info.type,
                        .layout = info.layout,
                        .compact = info.compact,
                        .file = info.file,
                        .rows = mnem__matrix_rows(&info),
                        .k = mnem__matrix_k(&info),
                        .offset = info.offset};
    int32_t layer;
    const mnem__role role = mnem__role_find(info.name, &layer);
    if (mnem__role_is_experts(role) && info.dims == 3)
        m->expert_groups = info.shape[1] / MNEM_PACK_ROWS;
    m->expert_matrices = role == MNEM__ROLE_GATE_EXPERTS ? MNEM__EXPERT_MATRICES : 2;
    const bool whole = info.dims == 2 || (info.dims == 3 && info.shape[1] % MNEM_PACK_ROWS == 0);
    m->packed_bytes = whole ? mnem__matrix_group_bytes(&info) : 0;
    if (!m->packed_bytes || m->rows < 1)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "weights: tensor %s: expected a matrix of a supported type", info.name);
    m->row_bytes =
        info.compact ? m->packed_bytes / MNEM_PACK_ROWS : mnem_type_row_bytes(info.type, m->k);
    m->raw_bytes = MNEM_PACK_ROWS * m->row_bytes;
    if (o->rows) MNEM__TRY(take_rows(info.name, &o->rows[index], m));
    if (!slot_bytes) return MNEM_OK;
    uint64_t groups = mnem__div_up((uint64_t)m->rows, MNEM_PACK_ROWS);
    uint64_t fit = groups_that_fit(m, slot_bytes);
    if (!fit)
        return mnem__fail(MNEM_INVALID,
                          "weights: 16 rows of %s need a slot of %llu bytes, but slots have %llu",
                          info.name, (unsigned long long)mnem__matrix_slot_min(m),
                          (unsigned long long)slot_bytes);
    m->chunks = (int64_t)mnem__div_up(groups, fit);
    m->chunk_groups = (int64_t)mnem__div_up(groups, (uint64_t)m->chunks);
    m->chunks = (int64_t)mnem__div_up(groups, (uint64_t)m->chunk_groups);
    m->raw_at = raw_at(m, (uint64_t)m->chunk_groups);
    return MNEM_OK;
}

void mnem__chunk_rows(const mnem__matrix *m, int64_t chunk, int64_t *begin, int64_t *end) {
    *begin = chunk * m->chunk_groups * MNEM_PACK_ROWS;
    *end = *begin + m->chunk_groups * MNEM_PACK_ROWS;
    if (*end > m->rows) *end = m->rows;
}

uint64_t mnem__chunk_raw_bytes(const mnem__matrix *m, int64_t chunk) {
    int64_t begin, end;
    mnem__chunk_rows(m, chunk, &begin, &end);
    return (uint64_t)(end - begin) * m->row_bytes;
}

static int32_t matrix_count(const mnem__weights_options *o) {
    return o->body_count + o->head_count + o->extra_count;
}

/* The smallest slot that takes 16 rows of every matrix that is read. */
static mnem_status slot_bytes_min(const mnem__weights_options *o, uint64_t *bytes) {
    *bytes = 0;
    for (int32_t i = 0; i < matrix_count(o); i++) {
        mnem__matrix m;
        MNEM__TRY(mnem__matrix_describe(o, i, 0, &m));
        uint64_t need = mnem__matrix_slot_min(&m);
        if (need > *bytes) *bytes = need;
    }
    return MNEM_OK;
}

mnem_status mnem__weights_ring_choose(const mnem__weights_options *o, int32_t *slots,
                                      uint64_t *slot_bytes) {
    *slots = o->slots ? o->slots : SLOTS_DEFAULT;
    *slot_bytes = o->slot_bytes;
    if (*slots < 2 || *slots > SLOTS_MAX)
        return mnem__fail(MNEM_INVALID, "weights: the number of slots is %d, expected 2 to %d",
                          *slots, SLOTS_MAX);
    if (*slot_bytes % MNEM__WEIGHTS_ALIGNMENT)
        return mnem__fail(MNEM_INVALID, "weights: slot_bytes is %llu, expected a multiple of %d",
                          (unsigned long long)*slot_bytes, MNEM__WEIGHTS_ALIGNMENT);
    if (*slot_bytes) return MNEM_OK;
    mnem_status status = slot_bytes_min(o, slot_bytes);
    if (*slot_bytes < SLOT_BYTES_DEFAULT) *slot_bytes = SLOT_BYTES_DEFAULT;
    return status;
}

mnem_status mnem__weights_sums(const mnem__weights_options *o, uint64_t slot_bytes,
                               uint64_t *sums) {
    *sums = 0;
    for (int32_t i = 0; i < o->body_count + o->head_count; i++) {
        mnem__matrix m;
        MNEM__TRY(mnem__matrix_describe(o, i, slot_bytes, &m));
        if (m.expert_groups == 0) *sums += (uint64_t)m.chunks;
    }
    return MNEM_OK;
}

uint64_t mnem__weights_lay_out(const mnem__weights_options *o, int32_t slots, uint64_t sums,
                               const mnem__weights_mixtures_info *x, void *base) {
    mnem_model_info info;
    mnem_model_info_get(o->model, &info);
    const uint64_t count = (uint64_t)matrix_count(o), lists = (1 + MNEM__PASSES) * count;
    mnem__weights measured, *w = base ? base : &measured;
    uint64_t at = sizeof *w;
    w->matrices = mnem__carve(base, &at, count, sizeof *w->matrices);
    w->parts = mnem__carve(base, &at, info.files, sizeof *w->parts);
    w->slots = mnem__carve(base, &at, (uint64_t)slots, sizeof *w->slots);
    w->load_list.index = mnem__carve(base, &at, lists + sums, sizeof *w->load_list.index);
    for (int pass = 0; base && pass < MNEM__PASSES; pass++)
        w->pass_list[pass].index = w->load_list.index + (size_t)(pass + 1) * count;
    if (base) w->sums = (void *)(w->load_list.index + lists);
    const uint64_t experts = mnem__align_up(at, 16);
    if (x->mixtures == 0) return experts;
    return experts + mnem__weights_experts_lay_out(base, x, experts);
}

/* Can the first file be read directly? */
static bool direct_possible(const mnem__weights_options *o) {
    mnem__weights_part part;
    if (o->page_cache) return false;
    if (mnem__weights_part_open(o->model, 0, false, &part) != MNEM_OK) return false;
    close(part.fd);
    return atomic_load(&part.direct);
}

mnem_status mnem__weights_measure(const mnem__weights_options *o, mnem__weights_sizes *sizes) {
    *sizes = (mnem__weights_sizes){0};
    mnem_status status = mnem__weights_ring_choose(o, &sizes->slots, &sizes->slot_bytes);
    if (status != MNEM_OK) return status;
    bool any_read = false;
    uint64_t sums = 0;
    for (int32_t i = 0; i < matrix_count(o); i++) {
        mnem__matrix m;
        status = mnem__matrix_describe(o, i, sizes->slot_bytes, &m);
        if (status != MNEM_OK) return status;
        uint64_t raw = (uint64_t)m.rows * m.row_bytes;
        bool body = i < o->body_count, head = !body && i < o->body_count + o->head_count;
        any_read |= o->resident[i] || body || head;
        if ((body || head) && m.expert_groups == 0) sums += (uint64_t)m.chunks;
        if (o->resident[i])
            sizes->resident_bytes += mnem__matrix_block_bytes(&m);
        else if (body && m.expert_groups == 0)
            sizes->streamed_bytes_body += raw;
        else if (head)
            sizes->streamed_bytes_head += raw;
    }
    mnem__weights_mixtures_info x;
    MNEM__TRY(mnem__weights_mixtures(o, &x));
    sizes->expert_slots = x.slots;
    sizes->expert_slot_bytes = x.slot_bytes;
    sizes->expert_bytes = (uint64_t)x.slots * x.slot_bytes;
    sizes->expert_total = x.total;
    sizes->expert_file_bytes = x.file_bytes;
    sizes->expert_host_bytes = x.mixtures ? mnem__weights_experts_lay_out(NULL, &x, 0) : 0;
    if (any_read) {
        sizes->ring_bytes = (uint64_t)sizes->slots * sizes->slot_bytes;
        sizes->stack_bytes = MNEM__WEIGHTS_READERS * MNEM__WEIGHTS_STACK_BYTES;
    }
    sizes->host_bytes = mnem__weights_lay_out(o, sizes->slots, sums, &x, NULL);
    sizes->direct_io = direct_possible(o);
    return MNEM_OK;
}

static mnem_status tell_rows(const mnem__matrix *m, mnem__on_weights_range *tell, void *context) {
    int64_t n, at;
    for (int64_t row = 0; row < m->rows; row += n) {
        n = mnem__row_spans_together(&m->here, row, m->rows - row, &at);
        MNEM__TRY(tell(context, m->file, m->offset + (uint64_t)at * m->row_bytes,
                       (uint64_t)n * m->row_bytes));
    }
    return MNEM_OK;
}

mnem_status mnem__weights_ranges(const mnem__weights_options *o, mnem__on_weights_range *tell,
                                 void *context) {
    for (int32_t i = 0; i < matrix_count(o); i++) {
        mnem__matrix m;
        mnem_tensor_info info;
        if (i >= o->body_count + o->head_count && !o->resident[i]) continue;
        MNEM__TRY(mnem__matrix_describe(o, i, 0, &m));
        if (m.made >= 0) { /* of the whole tensor */
            mnem_model_tensor_get(o->model, (uint32_t)m.made, &info);
            MNEM__TRY(tell(context, m.file, info.offset, info.file_bytes));
        } else {
            MNEM__TRY(tell_rows(&m, tell, context));
        }
    }
    return MNEM_OK;
}
