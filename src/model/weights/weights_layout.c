/* weights_layout.c: how matrices are cut into chunks, and the bytes of everything.
 *
 * The idea: a chunk is as many whole groups of 16 rows as a slot takes, evened out over the matrix.
 * With P packed and R raw bytes of a group, packing group i writes [iP, (i+1)P) and reads from
 * raw_at + iR on; raw_at >= P + (n - 1) max(P - R, 0) keeps them apart for all n groups of a chunk,
 * and a direct read adds less than two units of 4096 around the raw bytes.
 * Invariant: measuring and carving is this one code. */
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
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

/* What a chunk of so many groups needs of a slot. */
static uint64_t chunk_slot_bytes(const mnem__matrix *m, uint64_t groups) {
    uint64_t raw = raw_at(m, groups) + up(MNEM__WEIGHTS_ALIGNMENT - 1 + groups * m->raw_bytes);
    uint64_t packed = groups * m->packed_bytes;
    return raw > packed ? raw : packed;
}

uint64_t mnem__matrix_slot_min(const mnem__matrix *m) {
    return chunk_slot_bytes(m, 1);
}

uint64_t mnem__matrix_place(const mnem__matrix *m, int64_t groups, uint64_t *at) {
    *at = raw_at(m, (uint64_t)groups);
    return up(chunk_slot_bytes(m, (uint64_t)groups));
}

mnem_status mnem__weights_expert_place(const mnem__weights_options *o, uint64_t *bytes) {
    *bytes = 0;
    for (int32_t i = 0; i < o->body_count; i++) {
        mnem__matrix m;
        MNEM__TRY(mnem__matrix_describe(o->model, o->tensors[i], 0, &m));
        uint64_t at;
        if (m.expert_groups == 0) continue;
        /* the largest of all matrices three times: a bound, and simple */
        const uint64_t place = 3 * mnem__matrix_place(&m, m.expert_groups, &at);
        if (place > *bytes) *bytes = place;
    }
    return MNEM_OK;
}

/* The most groups that a slot takes; 0: not even one. */
static uint64_t groups_that_fit(const mnem__matrix *m, uint64_t slot_bytes) {
    uint64_t larger = m->packed_bytes > m->raw_bytes ? m->packed_bytes : m->raw_bytes;
    uint64_t groups = slot_bytes / larger;
    while (groups && chunk_slot_bytes(m, groups) > slot_bytes) groups--;
    return groups;
}

mnem_status mnem__matrix_describe(const mnem_model *model, int32_t tensor, uint64_t slot_bytes,
                                  mnem__matrix *m) {
    mnem_tensor_info info;
    if (tensor < 0 || !mnem_model_tensor_get(model, (uint32_t)tensor, &info))
        return mnem__fail(MNEM_INVALID, "weights: no tensor %d", tensor);
    *m = (mnem__matrix){.name = info.name,
                        .made = mnem__model_is_plain(model, (uint32_t)tensor) ? -1 : tensor,
                        .type = info.type,
                        .file = info.file,
                        .rows = mnem__matrix_rows(&info),
                        .k = mnem__matrix_k(&info),
                        .offset = info.offset};
    int32_t layer;
    const bool experts = mnem__role_is_experts(mnem__role_find(info.name, &layer));
    if (experts && info.dims == 3) m->expert_groups = info.shape[1] / MNEM_PACK_ROWS;
    const bool whole = info.dims == 2 || (info.dims == 3 && info.shape[1] % MNEM_PACK_ROWS == 0);
    m->packed_bytes = whole ? mnem_pack_group_bytes(info.type, m->k) : 0;
    if (!m->packed_bytes || m->rows < 1)
        return mnem__fail(MNEM_UNSUPPORTED, "weights: %s isn't a matrix of a weight's type",
                          info.name);
    m->row_bytes = mnem_type_row_bytes(info.type, m->k);
    m->raw_bytes = MNEM_PACK_ROWS * m->row_bytes;
    if (!slot_bytes) return MNEM_OK;
    uint64_t groups = mnem__div_up((uint64_t)m->rows, MNEM_PACK_ROWS);
    uint64_t fit = groups_that_fit(m, slot_bytes);
    if (!fit)
        return mnem__fail(
            MNEM_INVALID, "weights: 16 rows of %s need a slot of %llu bytes, not %llu", info.name,
            (unsigned long long)mnem__matrix_slot_min(m), (unsigned long long)slot_bytes);
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
        MNEM__TRY(mnem__matrix_describe(o->model, o->tensors[i], 0, &m));
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
        return mnem__fail(MNEM_INVALID, "weights: %d slots; 2 to %d are possible", *slots,
                          SLOTS_MAX);
    if (*slot_bytes % MNEM__WEIGHTS_ALIGNMENT)
        return mnem__fail(MNEM_INVALID, "weights: slots of %llu bytes aren't whole units of %d",
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
        MNEM__TRY(mnem__matrix_describe(o->model, o->tensors[i], slot_bytes, &m));
        *sums += (uint64_t)m.chunks;
    }
    return MNEM_OK;
}

uint64_t mnem__weights_lay_out(const mnem__weights_options *o, int32_t slots, uint64_t sums,
                               void *base) {
    mnem_model_info info;
    mnem_model_info_get(o->model, &info);
    uint64_t count = (uint64_t)matrix_count(o);
    uint64_t matrices = mnem__align_up(sizeof(mnem__weights), 16);
    uint64_t parts = mnem__align_up(matrices + count * sizeof(mnem__matrix), 16);
    uint64_t ring = mnem__align_up(parts + info.files * sizeof(mnem__weights_part), 16);
    uint64_t lists = mnem__align_up(ring + (uint64_t)slots * sizeof(mnem__ring_slot), 16);
    if (base) {
        mnem__weights *w = base;
        w->matrices = (void *)((uint8_t *)base + matrices);
        w->parts = (void *)((uint8_t *)base + parts);
        w->slots = (void *)((uint8_t *)base + ring);
        w->load_list.index = (void *)((uint8_t *)base + lists);
        for (int pass = 0; pass < MNEM__PASSES; pass++)
            w->pass_list[pass].index = w->load_list.index + (size_t)(pass + 1) * count;
        w->sums = (void *)(w->load_list.index + (1 + MNEM__PASSES) * count);
    }
    return lists + (1 + MNEM__PASSES) * count * sizeof(int32_t) + sums * sizeof(uint32_t);
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
        status = mnem__matrix_describe(o->model, o->tensors[i], sizes->slot_bytes, &m);
        if (status != MNEM_OK) return status;
        uint64_t raw = (uint64_t)m.rows * m.row_bytes;
        bool body = i < o->body_count, head = !body && i < o->body_count + o->head_count;
        any_read |= o->resident[i] || body || head;
        if (body || head) sums += (uint64_t)m.chunks;
        if (o->resident[i])
            sizes->resident_bytes += mnem_pack_bytes(m.type, m.rows, m.k);
        else if (body)
            sizes->streamed_bytes_body += raw;
        else if (head)
            sizes->streamed_bytes_head += raw;
    }
    uint64_t place;
    MNEM__TRY(mnem__weights_expert_place(o, &place));
    sizes->expert_bytes = MNEM__EXPERT_PLACES * place;
    sizes->resident_bytes += sizes->expert_bytes;
    if (any_read) {
        sizes->ring_bytes = (uint64_t)sizes->slots * sizes->slot_bytes;
        sizes->stack_bytes = MNEM__WEIGHTS_READERS * MNEM__WEIGHTS_STACK_BYTES;
    }
    sizes->host_bytes = mnem__weights_lay_out(o, sizes->slots, sums, NULL);
    sizes->direct_io = direct_possible(o);
    return MNEM_OK;
}
