/* pack.c: 16 raw rows into one packed group (pack_form.h says where everything goes).
 *
 * Works on quads: one 16-byte vector is 4 bytes of each of 4 rows, made by 4x4 transposes straight
 * from the rows; what types differ in (nibbles of two blocks side by side, bits of eight blocks in
 * a byte) is then a few shifts and masks on whole vectors. The vectors are the compiler's, so that
 * this is one source for every machine. Cost: reads and writes each byte once, about 8 bytes a
 * cycle. */
#include <string.h>

#include "ops/core/half.h"
#include "ops/core/pack_form.h"

typedef uint32_t quad __attribute__((vector_size(16)));
typedef uint16_t octet __attribute__((vector_size(16)));

/* Four rows, and where their lanes are in a group's vectors. */
typedef struct source {
    const uint8_t *row[4];
} source;

static quad splat(uint32_t x) {
    return (quad){x, x, x, x};
}

static quad load_quad(const uint8_t *p) {
    quad x;
    memcpy(&x, p, 16);
    return x;
}

static void store_quad(uint8_t *p, quad x) {
    memcpy(p, &x, 16);
}

/* words (a multiple of 4) 4-byte words of each row, from byte at on: out[w] is word w of 4 rows. */
static inline void load_words(const source *s, int64_t at, int words, quad *out) {
    for (int w = 0; w < words; w += 4) {
        quad a = load_quad(s->row[0] + at + 4 * w), b = load_quad(s->row[1] + at + 4 * w);
        quad c = load_quad(s->row[2] + at + 4 * w), d = load_quad(s->row[3] + at + 4 * w);
        quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        out[w] = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
        out[w + 1] = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
        out[w + 2] = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
        out[w + 3] = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
    }
}

static inline quad load_word(const source *s, int64_t at) {
    return (quad){mnem__load_u32(s->row[0] + at), mnem__load_u32(s->row[1] + at),
                  mnem__load_u32(s->row[2] + at), mnem__load_u32(s->row[3] + at)};
}

/* out points at the quad's place in the first vector. */
static inline void store_words(uint8_t *out, const quad *words, int count) {
    for (int w = 0; w < count; w++) store_quad(out + 64 * w, words[w]);
}

/* Words as they are, where fewer than 4 may be left. */
static inline void copy_words(const source *s, int64_t at, int words, uint8_t *out) {
    for (int w = 0; w < words; w++) store_quad(out + 64 * w, load_word(s, at + 4 * w));
}

static inline void copy_halves(const source *s, int64_t at, uint8_t *out) {
    for (int r = 0; r < 4; r++) memcpy(out + 2 * r, s->row[r] + at, 2);
}

/* Moves bit 4v+b to bit 8b+v: the index v2 v1 v0 b1 b0 becomes b1 b0 v2 v1 v0 by four exchanges of
 * two index bits (Warren, Hacker's Delight, 7-8). */
static inline quad spread_bits(quad x) {
    static const struct {
        int shift;
        uint32_t mask;
    } swaps[4] = {{14, 0x0000cccc}, {7, 0x00aa00aa}, {2, 0x0c0c0c0c}, {1, 0x22222222}};
    for (int i = 0; i < 4; i++) {
        quad t = ((x >> swaps[i].shift) ^ x) & splat(swaps[i].mask);
        x ^= t ^ (t << swaps[i].shift);
    }
    return x;
}

/* Transposes fields of width bits between words[0..count) in each byte: field i of word j becomes
 * field j of word i. */
static inline void transpose_fields(quad *words, int count, int width) {
    for (int d = 1; d < count; d *= 2) {
        int shift = d * width;
        uint32_t mask = 0xff / ((1u << shift) + 1) * 0x01010101u;
        for (int w = 0; w < count; w++) {
            if (w & d) continue;
            quad t = ((words[w] >> shift) ^ words[w + d]) & splat(mask);
            words[w + d] ^= t;
            words[w] ^= t << shift;
        }
    }
}

/* Two blocks whose elements j share byte j (low and high nibble), 8 words, as two packed blocks. */
static inline void split_nibbles(const quad *words, quad *first, quad *second) {
    const quad low = splat(0x0f0f0f0f);
    for (int v = 0; v < 4; v++) {
        first[v] = (words[v] & low) | (words[v + 4] & low) << 4;
        second[v] = (words[v] >> 4 & low) | (words[v + 4] & ~low);
    }
}

/* ---- one unit, four rows; lane is the quad's number in the group ---- */

/* The header's part of a block that is a unit's i-th; returns where its elements begin. */
static inline int64_t pack_pair_scale(const mnem__pack_form *form, const source *s, int lane, int i,
                                      uint8_t *unit) {
    if (form->scales == MNEM__SCALES_E8) {
        for (int r = 0; r < 4; r++) unit[16 * i + 4 * lane + r] = *s->row[r];
        return 1;
    }
    copy_halves(s, 0, unit + 32 * i + 8 * lane);
    if (form->scales != MNEM__SCALES_PAIR_MIN) return 2;
    copy_halves(s, 2, unit + 64 + 32 * i + 8 * lane);
    return 4;
}

static inline void pack_pair(const mnem__pack_form *form, const source *s, int lane, int i,
                             uint8_t *unit) {
    uint8_t *block = unit + form->header_bytes + i * form->block_bytes + 16 * lane;
    int64_t at = pack_pair_scale(form, s, lane, i, unit);
    if (form->bits == 5) {
        store_quad(block, spread_bits(load_word(s, at)));
        at += 4;
        block += 64;
    }
    quad words[8];
    if (form->bits == 8) {
        load_words(s, at, 8, words);
        for (int w = 0; w < 8; w++) words[w] ^= splat(0x80808080);
        store_words(block, words, 8);
    } else {
        load_words(s, at, 4, words);
        store_words(block, words, 4);
    }
}

/* A bit of 8 blocks in each of 32 bytes: a vector for each block. */
static inline void pack_ones(const source *s, int64_t at, uint8_t *blocks, int64_t block_bytes) {
    quad words[8];
    load_words(s, at, 8, words);
    transpose_fields(words, 8, 1);
    for (int i = 0; i < 8; i++) store_quad(blocks + i * block_bytes, words[i]);
}

/* Two bits of 4 blocks in each of 32 bytes: two vectors for each block. */
static inline void pack_twos(const source *s, int64_t at, uint8_t *blocks, int64_t block_bytes) {
    quad words[8];
    load_words(s, at, 8, words);
    transpose_fields(words, 4, 2);
    transpose_fields(words + 4, 4, 2);
    for (int i = 0; i < 4; i++) {
        store_quad(blocks + i * block_bytes, words[i]);
        store_quad(blocks + i * block_bytes + 64, words[4 + i]);
    }
}

static inline void pack_k(const mnem__pack_form *form, const source *s, int lane, uint8_t *unit) {
    quad words[8], first[4], second[4];
    int64_t at = 16, skip = form->block_bytes - 256;
    uint8_t *blocks = unit + form->header_bytes + 16 * lane;
    copy_halves(s, 0, unit + 8 * lane);
    copy_halves(s, 2, unit + 32 + 8 * lane);
    copy_words(s, 4, 3, unit + 64 + 16 * lane);
    if (form->bits == 5) {
        pack_ones(s, at, blocks, form->block_bytes);
        at += 32;
    }
    for (int i = 0; i < 8; i += 2, at += 32) {
        load_words(s, at, 8, words);
        split_nibbles(words, first, second);
        store_words(blocks + i * form->block_bytes + skip, first, 4);
        store_words(blocks + (i + 1) * form->block_bytes + skip, second, 4);
    }
}

/* Half a superblock of Q6_K: 4 blocks. */
static inline void pack_k6_half(const source *s, int half, uint8_t *blocks, int64_t block_bytes) {
    quad words[8], block[4][4];
    for (int i = 0; i < 2; i++) { /* blocks i (low nibbles) and i + 2 (high nibbles) */
        load_words(s, half * 64 + i * 32, 8, words);
        split_nibbles(words, block[i], block[i + 2]);
    }
    for (int i = 0; i < 4; i++) store_words(blocks + i * block_bytes + 128, block[i], 4);
    pack_twos(s, 128 + half * 32, blocks, block_bytes);
}

static inline void pack_k6(const mnem__pack_form *form, const source *s, int lane, uint8_t *unit,
                           uint8_t *tail) {
    uint8_t *blocks = unit + form->header_bytes + 16 * lane;
    quad words[4];
    load_words(s, 192, 4, words);
    store_words(unit + 16 * lane, words, 4);
    for (int half = 0; half < 2; half++)
        pack_k6_half(s, half, blocks + half * 4 * form->block_bytes, form->block_bytes);
    copy_halves(s, 208, tail + 8 * lane);
}

static inline void pack_k23(const mnem__pack_form *form, const source *s, int lane, uint8_t *unit,
                            uint8_t *tail) {
    const bool three = form->bits == 3;
    uint8_t *blocks = unit + form->header_bytes + 16 * lane;
    if (three) {
        copy_words(s, 96, 3, unit + 16 * lane);
        copy_halves(s, 108, tail + 8 * lane);
        pack_ones(s, 0, blocks, form->block_bytes);
        blocks += 64;
    } else {
        copy_words(s, 0, 4, unit + 16 * lane);
        copy_halves(s, 80, unit + 256 + 8 * lane);
        copy_halves(s, 82, unit + 288 + 8 * lane);
    }
    for (int half = 0; half < 2; half++)
        pack_twos(s, (three ? 32 : 16) + 32 * half, blocks + half * 4 * form->block_bytes,
                  form->block_bytes);
}

static inline void pack_xs(const mnem__pack_form *form, const source *s, int lane, uint8_t *unit) {
    uint8_t *blocks = unit + form->header_bytes + 16 * lane;
    quad words[4];
    copy_words(s, 0, 2, unit + 16 * lane);
    for (int i = 0; i < 8; i++) {
        load_words(s, 8 + 16 * i, 4, words);
        store_words(blocks + i * form->block_bytes, words, 4);
    }
}

/* As in the file, but for the scale. */
static inline void pack_grid(const mnem__pack_form *form, const source *s, int lane, uint8_t *unit,
                             uint8_t *tail) {
    copy_halves(s, 0, tail + 8 * lane);
    copy_words(s, 2, form->header_bytes / 64, unit + 16 * lane);
}

static inline void pack_super(const mnem__pack_form *form, const source *s, int lane, uint8_t *unit,
                              uint8_t *tail) {
    switch (form->scales) {
    case MNEM__SCALES_K: pack_k(form, s, lane, unit); break;
    case MNEM__SCALES_K6: pack_k6(form, s, lane, unit, tail); break;
    case MNEM__SCALES_XS: pack_xs(form, s, lane, unit); break;
    case MNEM__SCALES_GRID:
    case MNEM__SCALES_GRID_HALVES: pack_grid(form, s, lane, unit, tail); break;
    default: pack_k23(form, s, lane, unit, tail); break;
    }
}

/* ---- a group ---- */

typedef struct matrix {
    const uint8_t *raw;
    uint64_t row_bytes;
    int64_t rows;
} matrix;

/* At least the bytes of any block: what missing rows are made of. */
static const uint8_t zeros[256];

/* Rows 4 * lane onwards, from byte at of each. */
static inline source source_at(const matrix *m, int lane, uint64_t at) {
    source s;
    for (int r = 0; r < 4; r++)
        s.row[r] =
            4 * lane + r < m->rows ? m->raw + (uint64_t)(4 * lane + r) * m->row_bytes + at : zeros;
    return s;
}

static void pack_pairs(const mnem__pack_form *form, const matrix *m, int64_t blocks,
                       uint8_t *packed) {
    uint64_t block_bytes = mnem_type_get(form->type)->block_bytes;
    for (int64_t b = 0; b < blocks; b++)
        for (int lane = 0; lane < 4; lane++) {
            source s = source_at(m, lane, (uint64_t)b * block_bytes);
            pack_pair(form, &s, lane, (int)(b % form->unit_blocks),
                      packed + b / form->unit_blocks * mnem__pack_unit_bytes(form));
        }
    const int64_t there = blocks % form->unit_blocks;
    if (there) { /* the missing blocks' scales and minimums: a line has one of each block */
        uint8_t *unit = packed + blocks / form->unit_blocks * mnem__pack_unit_bytes(form);
        const size_t used = (size_t)(64 / form->unit_blocks * there);
        for (int i = 0; i < form->header_bytes; i += 64) memset(unit + i + used, 0, 64 - used);
    }
}

static void pack_supers(const mnem__pack_form *form, const matrix *m, int64_t units,
                        uint8_t *packed) {
    uint64_t block_bytes = mnem_type_get(form->type)->block_bytes;
    uint8_t *tails = packed + units * mnem__pack_unit_bytes(form);
    for (int64_t u = 0; u < units; u++)
        for (int lane = 0; lane < 4; lane++) {
            source s = source_at(m, lane, (uint64_t)u * block_bytes);
            uint8_t *unit = packed + u * mnem__pack_unit_bytes(form);
            pack_super(form, &s, lane, unit, tails + form->tail_bytes * u);
        }
    if (form->tail_bytes && units % 2) memset(tails + 32 * units, 0, 32);
}

/* Words of 4 bytes: F32, and pairs of BF16. */
static void pack_words(const matrix *m, int64_t words, uint8_t *packed) {
    for (int lane = 0; lane < 4; lane++) {
        for (int64_t w = 0; w < words; w++) {
            source s = source_at(m, lane, (uint64_t)w * 4);
            quad four[4];
            if (w + 4 <= words) {
                load_words(&s, 0, 4, four);
                store_words(packed + 64 * w + 16 * lane, four, 4);
                w += 3;
            } else {
                store_quad(packed + 64 * w + 16 * lane, load_word(&s, 0));
            }
        }
    }
}

/* Elements of 2 bytes from element first on, one by one, step bytes apart. */
static void pack_halves(const matrix *m, int64_t first, int64_t k, int64_t step, uint8_t *packed) {
    for (int64_t i = first; i < k; i++)
        for (int r = 0; r < MNEM_PACK_ROWS; r++) {
            uint16_t x =
                r < m->rows ? mnem__load_u16(m->raw + (uint64_t)r * m->row_bytes + 2 * i) : 0;
            memcpy(packed + i * 32 + r * step, &x, 2);
        }
}

static void pack_f16(const matrix *m, int64_t k, uint8_t *packed) {
    int64_t whole = k / 8 * 8;
    for (int lane = 0; lane < 4; lane++)
        for (int64_t i = 0; i < whole; i += 8) {
            source s = source_at(m, lane, (uint64_t)i * 2);
            quad words[4];
            load_words(&s, 0, 4, words);
            for (int w = 0; w < 4; w++) { /* elements i + 2w (low halves) and i + 2w + 1 */
                octet x = (octet)words[w];
                octet sorted = __builtin_shufflevector(x, x, 0, 2, 4, 6, 1, 3, 5, 7);
                memcpy(packed + (i + 2 * w) * 32 + 8 * lane, &sorted, 8);
                memcpy(packed + (i + 2 * w + 1) * 32 + 8 * lane, (uint8_t *)&sorted + 8, 8);
            }
        }
    pack_halves(m, whole, k, 2, packed);
    if (k % 2) memset(packed + k * 32, 0, 32);
}

static void pack_bf16(const matrix *m, int64_t k, uint8_t *packed) {
    pack_words(m, k / 2, packed);
    if (k % 2 == 0) return;
    memset(packed + k / 2 * 64, 0, 64);
    pack_halves(m, k - 1, k, 4, packed);
}

void mnem_pack_group(mnem_type type, int64_t rows, int64_t k, const void *raw, void *packed) {
    const mnem__pack_form *form = mnem__pack_form_get(type);
    matrix m = {raw, mnem_type_row_bytes(type, k), rows};
    switch (form->scales) {
    case MNEM__SCALES_PAIR:
    case MNEM__SCALES_PAIR_MIN:
    case MNEM__SCALES_E8: pack_pairs(form, &m, k / 32, packed); break;
    default: pack_supers(form, &m, k / 256, packed); break;
    case MNEM__SCALES_NONE:
        if (type == MNEM_TYPE_F32)
            pack_words(&m, k, packed);
        else if (type == MNEM_TYPE_F16)
            pack_f16(&m, k, packed);
        else
            pack_bf16(&m, k, packed);
    }
}
