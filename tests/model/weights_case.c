/* weights_case.c: see weights_case.h. Whatever fails here fails the test. */
#include "model/weights_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"
#include "model/gguf/gguf_writer.h"

static const mnem_type types[] = {
    MNEM_TYPE_F32,  MNEM_TYPE_F16,    MNEM_TYPE_BF16,  MNEM_TYPE_Q4_0,
    MNEM_TYPE_Q4_1, MNEM_TYPE_Q5_0,   MNEM_TYPE_Q5_1,  MNEM_TYPE_Q8_0,
    MNEM_TYPE_Q4_K, MNEM_TYPE_Q5_K,   MNEM_TYPE_Q6_K,  MNEM_TYPE_Q2_K,
    MNEM_TYPE_Q3_K, MNEM_TYPE_IQ4_XS, MNEM_TYPE_MXFP4, MNEM_TYPE_IQ2_S};
enum { TYPES = sizeof types / sizeof *types, K_SMALL = 256, K_LARGE = 768 };

/* Rows that are no multiple of 16, fewer than 16, exactly 16, and many. */
static void shape_of(int matrix, int64_t *shape) {
    static const int64_t rows[] = {100, 5, 16, 33, 256, 640};
    shape[0] = rows[matrix % 6];
    shape[1] = matrix % 2 ? K_LARGE : K_SMALL;
}

void weights_file_write(const char *path) {
    mnem_gguf_writer *w;
    must(mnem_gguf_create(path, &w));
    must(mnem_gguf_key_text(w, "general.architecture", "none"));
    for (int i = 0; i < 2 * TYPES; i++) {
        char name[32];
        int64_t shape[2];
        snprintf(name, sizeof name, "m%d", i);
        shape_of(i, shape);
        must(mnem__gguf_write_tensor(w, name, types[i % TYPES], 2, shape));
    }
    uint32_t random = 1;
    for (int i = 0; i < 2 * TYPES; i++) {
        int64_t shape[2];
        shape_of(i, shape);
        uint64_t bytes = (uint64_t)shape[0] * mnem_type_row_bytes(types[i % TYPES], shape[1]);
        uint8_t *raw = malloc(bytes);
        for (uint64_t b = 0; b < bytes; b++) {
            random = random * 1664525 + 1013904223;
            raw[b] = (uint8_t)(random >> 24);
        }
        must(mnem__gguf_write_data(w, raw, bytes));
        free(raw);
    }
    must(mnem_gguf_finish(w));
}

int64_t weights_case_rows(const weights_case *c, int32_t matrix) {
    mnem_tensor_info info;
    mnem_model_tensor_get(c->model, (uint32_t)c->tensors[matrix], &info);
    int64_t rows = 0;
    for (int i = 0; i < MNEM__ROW_SPANS; i++)
        rows += c->here[matrix].span[i].end - c->here[matrix].span[i].begin;
    return rows ? rows : info.shape[0];
}

/* The rows that are here. */
static uint8_t *pack_matrix(const weights_case *c, int32_t matrix) {
    const uint32_t tensor = (uint32_t)c->tensors[matrix];
    const mnem_row_range *span = c->here[matrix].span;
    mnem_tensor_info info;
    mnem_model_tensor_get(c->model, tensor, &info);
    const int64_t here = weights_case_rows(c, matrix);
    uint64_t group = mnem_pack_group_bytes(info.type, info.shape[1]);
    uint64_t row = mnem_type_row_bytes(info.type, info.shape[1]), got = 0;
    uint8_t *raw = malloc((uint64_t)here * row);
    uint8_t *packed = aligned_alloc(64, mnem_pack_bytes(info.type, here, info.shape[1]));
    const mnem_row_range all = {0, (int32_t)info.shape[0]};
    if (span[0].end == 0) span = &all;
    for (int i = 0; got < (uint64_t)here * row; i++) {
        const uint64_t bytes = (uint64_t)(span[i].end - span[i].begin) * row;
        must(mnem_model_tensor_read(c->model, tensor, (uint64_t)span[i].begin * row, bytes,
                                    raw + got));
        got += bytes;
    }
    for (int64_t r = 0; r < here; r += MNEM_PACK_ROWS) {
        int64_t rows = here - r < MNEM_PACK_ROWS ? here - r : MNEM_PACK_ROWS;
        mnem_pack_group(info.type, rows, info.shape[1], raw + (uint64_t)r * row,
                        packed + (uint64_t)(r / MNEM_PACK_ROWS) * group);
    }
    free(raw);
    return packed;
}

void weights_case_init(weights_case *c, const char *path, int32_t head, int32_t extra) {
    *c = (weights_case){0};
    must(mnem_model_open(path, &c->model));
    mnem_tensor_info info;
    for (uint32_t i = 0; mnem_model_tensor_get(c->model, i, &info); i++) {
        if (info.dims != 2 || !mnem_pack_group_bytes(info.type, info.shape[1])) continue;
        c->tensors[c->count] = (int32_t)i;
        c->packed[c->count] = pack_matrix(c, c->count);
        c->count++;
    }
    assert_true(c->count > head + extra);
    c->body = c->count - head - extra;
    c->head = head;
    must(mnem_device_open("host", NULL, &c->device));
}

static int32_t pick(uint64_t *random, int32_t low, int32_t high) {
    return low + (int32_t)(next_random(random) % (uint64_t)(high - low + 1));
}

void weights_case_cut(weights_case *c, uint64_t seed) {
    c->cut = true;
    for (int32_t m = 0; m < c->count; m++) {
        mnem_tensor_info info;
        mnem_model_tensor_get(c->model, (uint32_t)c->tensors[m], &info);
        const int32_t rows = (int32_t)info.shape[0];
        const int spans = pick(&seed, 1, rows < MNEM__ROW_SPANS ? rows : MNEM__ROW_SPANS);
        mnem__row_spans *here = &c->here[m];
        *here = (mnem__row_spans){0};
        for (int i = 0; i < spans; i++) { /* each in its own part, as q, k and v are */
            const int32_t begin = pick(&seed, rows * i / spans, rows * (i + 1) / spans - 1);
            here->span[i] = (mnem_row_range){begin, pick(&seed, begin + 1, rows * (i + 1) / spans)};
        }
        free(c->packed[m]);
        c->packed[m] = pack_matrix(c, m);
    }
}

void weights_case_fini(weights_case *c) {
    weights_case_close(c);
    for (int32_t i = 0; i < c->count; i++) free(c->packed[i]);
    mnem_model_close(c->model);
    assert_int_equal(mnem_device_close(c->device), MNEM_OK);
}

static mnem_status block_take(weights_case *c, uint64_t bytes, mnem_block *block) {
    if (!bytes) return MNEM_OK;
    mnem_status status = mnem_device_alloc(c->device, MNEM_SPACE_HOST, bytes, 4096, block);
    if (status == MNEM_OK) memset(mnem_block_host(block), 0xee, bytes);
    return status;
}

mnem_status weights_case_open(weights_case *c, int32_t n, int32_t slots, uint64_t slot_bytes,
                              bool page_cache) {
    for (int32_t i = 0; i < c->count; i++) c->resident[i] = n && i % n == 0;
    c->options = (mnem__weights_options){.model = c->model,
                                         .tensors = c->tensors,
                                         .rows = c->cut ? c->here : NULL,
                                         .resident = c->resident,
                                         .body_count = c->body,
                                         .head_count = c->head,
                                         .extra_count = c->count - c->body - c->head,
                                         .slots = slots,
                                         .slot_bytes = slot_bytes,
                                         .page_cache = page_cache};
    mnem_status status = mnem__weights_measure(&c->options, &c->sizes);
    if (status == MNEM_OK) status = block_take(c, c->sizes.resident_bytes, &c->resident_block);
    if (status == MNEM_OK) status = block_take(c, c->sizes.ring_bytes, &c->ring_block);
    if (status == MNEM_OK)
        status = mnem__weights_create(
            &c->options,
            &(mnem__weights_blocks){.resident = mnem__location_of(&c->resident_block),
                                    .ring = mnem_block_host(&c->ring_block)},
            &c->weights);
    return status;
}

void weights_case_close(weights_case *c) {
    mnem__weights_destroy(c->weights);
    c->weights = NULL;
    mnem_device_free(&c->resident_block);
    mnem_device_free(&c->ring_block);
}

/* The chunk's bytes, but for groups' padding none, equal the whole matrix's at its rows. */
static void chunk_check(const weights_case *c, int32_t matrix, const mnem_graph_chunk *chunk) {
    mnem_tensor_info info;
    mnem_model_tensor_get(c->model, (uint32_t)c->tensors[matrix], &info);
    uint64_t group = mnem_pack_group_bytes(info.type, info.shape[1]);
    uint64_t first = (uint64_t)(chunk->row_begin / MNEM_PACK_ROWS);
    uint64_t past = (uint64_t)((chunk->row_end + MNEM_PACK_ROWS - 1) / MNEM_PACK_ROWS);
    assert_int_equal(chunk->row_begin % MNEM_PACK_ROWS, 0);
    assert_int_equal((uintptr_t)chunk->packed % 64, 0);
    assert_memory_equal(chunk->packed, c->packed[matrix] + first * group, (past - first) * group);
}

typedef struct pass_walk {
    weights_case *c;
    mnem_graph_chunk held;
    bool holds, two;
    int left; /* chunks until the stop */
} pass_walk;

static void hold_end(pass_walk *w) {
    if (w->holds) mnem__weights_release(w->c->weights, &w->held);
    w->holds = false;
}

/* false when the walk stops here. */
static bool matrix_walk(pass_walk *w, int32_t matrix) {
    mnem_graph_chunk chunk = {0};
    for (int64_t row = 0; !chunk.last; row = chunk.row_end) {
        if (w->left-- == 0) return false;
        must(mnem__weights_acquire(w->c->weights, matrix, &chunk));
        assert_int_equal(chunk.row_begin, row);
        chunk_check(w->c, matrix, &chunk);
        hold_end(w);
        if (w->two) {
            w->held = chunk;
            w->holds = true;
        } else {
            mnem__weights_release(w->c->weights, &chunk);
        }
        if (chunk.last) assert_int_equal(chunk.row_end, weights_case_rows(w->c, matrix));
    }
    return true;
}

void weights_case_pass(weights_case *c, mnem__pass pass, bool two, int stop) {
    pass_walk w = {.c = c, .two = two, .left = stop};
    int32_t first = pass == MNEM__PASS_BODY ? 0 : c->body;
    int32_t past = pass == MNEM__PASS_BODY ? c->body : c->body + c->head;
    for (int32_t i = first; i < past && matrix_walk(&w, i); i++) {
    }
    hold_end(&w);
}
