/* folder_mxfp4.c: blocks of MXFP4 as GGUF has them, of the codes and scales that gpt-oss' folders
 * keep apart.
 *
 *     there  codes [.., rows, blocks, 16]  byte j: elements 2 j (low half) and 2 j + 1
 *            scales [.., rows, blocks]
 *     here   17 bytes a block: the scale, then byte j: elements j (low half) and j + 16
 *
 * Cost: two reads for as many blocks of a row as fit a buffer. */
#include "base/minmax.h"
#include "model/import/folder_model.h"

enum { CODES = 16, BLOCK = CODES + 1, STEP = 128 };

static void pack(const uint8_t *codes, uint8_t scale, uint8_t *block) {
    *block++ = scale;
    for (int j = 0; j < CODES / 2; j++) {
        const uint8_t a = codes[j], b = codes[j + CODES / 2];
        *block++ = (uint8_t)((a & 15) | (b & 15) << 4);
        *block++ = (uint8_t)(a >> 4 | (b & 0xf0));
    }
}

/* n blocks of a row, from number `at` of the view on. */
static mnem_status read_blocks(const mnem__folder *f, const mnem__view *v, int64_t at, int64_t n,
                               uint8_t *blocks) {
    uint8_t codes[STEP * CODES], scales[STEP];
    const mnem__st_tensor *t = f->st.tensor;
    const int64_t row = at / v->each * v->down + v->skip;
    const uint64_t from = (uint64_t)(row * v->each + at % v->each);
    MNEM__TRY(mnem__st_read(&f->st, &t[v->source[0]], from * CODES, (uint64_t)n * CODES, codes));
    MNEM__TRY(mnem__st_read(&f->st, &t[v->source[1]], from, (uint64_t)n, scales));
    for (int64_t i = 0; i < n; i++) pack(codes + i * CODES, scales[i], blocks + i * BLOCK);
    return MNEM_OK;
}

mnem_status mnem__folder_read_mxfp4(const mnem__folder *f, uint32_t tensor, uint64_t offset,
                                    uint64_t bytes, uint8_t *out) {
    const mnem__view *v = &f->view[tensor];
    uint8_t blocks[STEP * BLOCK];
    while (bytes > 0) {
        const int64_t at = (int64_t)(offset / BLOCK), head = (int64_t)(offset % BLOCK);
        const int64_t wanted =
            (head + (int64_t)mnem__min_u64(bytes, sizeof blocks) + BLOCK - 1) / BLOCK;
        const int64_t n = mnem__min_i64(mnem__min_i64(wanted, STEP), v->each - at % v->each);
        const uint64_t part = mnem__min_u64(bytes, (uint64_t)(n * BLOCK - head));
        MNEM__TRY(read_blocks(f, v, at, n, blocks));
        memcpy(out, blocks + head, part);
        out += part;
        offset += part;
        bytes -= part;
    }
    return MNEM_OK;
}
