/* sparse_form.c: 2:4 weights: the bytes of their forms, rows into a group and back.
 *
 * The idea: of 8 elements in a word, one multiplication gathers which bytes aren't zero, and a
 * table of 16 says for each half which two are kept. Cost: about a cycle an element. */
#include "ops/core/sparse_form.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/checked.h"
#include "base/cpu.h"
#include "ops/core/half.h"

static const mnem__pack_form forms[] = {
    {.type = MNEM_TYPE_F16, .bits = 16, .unit_blocks = 1, .block_bytes = MNEM__SPARSE_F16_BLOCK},
#define FORM(TYPE, name, ...) {MNEM_TYPE_##TYPE, __VA_ARGS__},
    MNEM__SPARSE_QUANTIZED(FORM)
#undef FORM
};

const mnem__pack_form *mnem__sparse_form_get(mnem_type type) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].type == type) return &forms[i];
    return NULL;
}

bool mnem__sparse_pays(mnem_type type) {
    return mnem__sparse_form_get(type) && mnem__cpu_level_get() >= MNEM__CPU_AVX2;
}

/* `bench_sparse` with 512 tokens from the cache, rounded down: AVX2 and AVX-512 with BF16 on a Zen
 * 5; AVX-512 without is an Intel's (a Xeon, whose gathers cost what zeros save). Without vectors
 * zeros are put back first. */
double mnem__sparse_gain(mnem_type type) {
    static const struct {
        mnem_type type;
        double gain[MNEM__CPU_BEST + 1];
    } gains[] = {{MNEM_TYPE_Q4_0, {1, 1.2, 1, 1.15}},
                 {MNEM_TYPE_Q8_0, {1, 1.4, 1, 1.2}},
                 {MNEM_TYPE_F16, {1, 1.1, 1, 1.25}}};
    for (size_t i = 0; i < sizeof gains / sizeof *gains; i++)
        if (gains[i].type == type) return gains[i].gain[mnem__cpu_level_get()];
    return 1;
}

uint64_t mnem_sparse_group_bytes(mnem_type type, int64_t k) {
    const mnem__pack_form *form = mnem__sparse_form_get(type);
    if (!form || k <= 0 || k % 32 || k > INT64_MAX / 1024) return 0;
    const int64_t blocks = k / 32, units = (blocks + form->unit_blocks - 1) / form->unit_blocks;
    return (uint64_t)(units * form->header_bytes + blocks * form->block_bytes);
}

uint64_t mnem_sparse_bytes(mnem_type type, int64_t rows, int64_t k) {
    uint64_t bytes = mnem_sparse_group_bytes(type, k);
    if (rows <= 0 || !mnem__mul_u64(bytes, mnem__div_up((uint64_t)rows, MNEM_PACK_ROWS), &bytes))
        return 0;
    return bytes;
}

/* ---- which two of 4 ---- */

/* By the 4 bits that say which aren't zero; NONE: more than two. */
enum { NONE = 0xff };
static const struct pair {
    uint8_t first, second;
} pairs[16] = {{0, 1}, {0, 1}, {0, 1}, {0, 1},    {0, 2}, {0, 2},    {1, 2},    {NONE, 0},
               {0, 3}, {0, 3}, {1, 3}, {NONE, 0}, {2, 3}, {NONE, 0}, {NONE, 0}, {NONE, 0}};

#define EACH_BYTE(x) ((x) * (uint64_t)0x0101010101010101)

static inline uint64_t load_u64(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

/* Bit i: byte i isn't zero. */
static inline unsigned bytes_set(uint64_t x) {
    const uint64_t low = EACH_BYTE(0x7f);
    const uint64_t set = (((x & low) + low) | x) >> 7 & EACH_BYTE(1);
    return (unsigned)(set * 0x0102040810204080 >> 56);
}

/* Bit i: the i-th half isn't a zero of either sign. */
static inline unsigned halves_set(uint64_t x) {
    const uint64_t low = 0x7fff7fff7fff7fff, set = (((x & low) + low) >> 15) & 0x0001000100010001;
    return (unsigned)(set * 0x1000200040008000 >> 60);
}

/* Elements 8v to 8v + 7 of a block of a quantized type, less what stands for zero. */
static inline uint64_t eight(const mnem__pack_form *form, const uint8_t *block, int v) {
    if (form->bits == 8) return load_u64(block + 2 + 8 * v);
    return (load_u64(block + 2 + v % 2 * 8) >> (v / 2 * 4) & EACH_BYTE(15)) ^ EACH_BYTE(8);
}

static bool fits(unsigned set) {
    return pairs[set].first != NONE;
}

int64_t mnem_sparse_check(mnem_type type, int64_t k, const void *row) {
    const mnem__pack_form *form = mnem__sparse_form_get(type);
    const int64_t block_bytes = mnem_type_get(type)->block_bytes;
    const uint8_t *p = row;
    if (form->bits == 16) {
        for (int64_t i = 0; i < k; i += 4)
            if (!fits(halves_set(load_u64(p + 2 * i)))) return i;
        return -1;
    }
    for (int64_t i = 0; i < k; i += 8) {
        const unsigned set = bytes_set(eight(form, p + i / 32 * block_bytes, (int)(i % 32 / 8)));
        if (!fits(set & 15)) return i;
        if (!fits(set >> 4)) return i + 4;
    }
    return -1;
}

/* ---- packing ---- */

/* Two values of each half of x, and their places as the bytes of a word. */
static inline uint32_t keep(uint64_t x, unsigned set, uint32_t *places) {
    const struct pair a = pairs[set & 15], b = pairs[set >> 4];
    *places =
        a.first | (uint32_t)a.second << 8 | (uint32_t)b.first << 16 | (uint32_t)b.second << 24;
    return (uint32_t)(x >> 8 * a.first & 255) | (uint32_t)(x >> 8 * a.second & 255) << 8 |
           (uint32_t)(x >> (32 + 8 * b.first) & 255) << 16 |
           (uint32_t)(x >> (32 + 8 * b.second) & 255) << 24;
}

static inline void store_block(const mnem__pack_form *form, uint32_t places, uint32_t *values,
                               uint8_t *lane) {
    memcpy(lane, &places, 4);
    if (form->bits == 4) /* the codes again */
        for (int v = 0; v < 2; v++) values[v] = (values[v] | values[v + 2] << 4) ^ 0x88888888;
    for (int v = 0; v < form->bits / 2; v++) memcpy(lane + 64 + 64 * v, &values[v], 4);
}

/* A row's block; lane: where the row's part of the packed block begins. */
typedef bool pack_block(const mnem__pack_form *form, const uint8_t *block, uint8_t *lane);

static bool pack_block_plain(const mnem__pack_form *form, const uint8_t *block, uint8_t *lane) {
    uint32_t places = 0, values[4], at;
    for (int v = 0; v < 4; v++) {
        const uint64_t x = eight(form, block, v);
        const unsigned set = bytes_set(x);
        if (!fits(set & 15) || !fits(set >> 4)) return false;
        values[v] = keep(x, set, &at);
        places |= at << 2 * v;
    }
    store_block(form, places, values, lane);
    return true;
}

#if defined(__x86_64__)

/* The same two of 4 as bytes of a word, and their places; of more than two no byte. */
static const struct kept {
    uint32_t bytes, places;
} kept[16] = {{0x0000ffff, 0x0100},
              {0x0000ffff, 0x0100},
              {0x0000ffff, 0x0100},
              {0x0000ffff, 0x0100},
              {0x00ff00ff, 0x0200},
              {0x00ff00ff, 0x0200},
              {0x00ffff00, 0x0201},
              {0, 0},
              {0xff0000ff, 0x0300},
              {0xff0000ff, 0x0300},
              {0xff00ff00, 0x0301},
              {0, 0},
              {0xffff0000, 0x0302},
              {0, 0},
              {0, 0},
              {0, 0}};

/* One instruction gathers bits, one the kept bytes: three times as fast. */
__attribute__((target("bmi2"))) static bool pack_block_bmi2(const mnem__pack_form *form,
                                                            const uint8_t *block, uint8_t *lane) {
    const uint64_t low = EACH_BYTE(0x7f);
    uint32_t places = 0, values[4];
    bool good = true;
    for (int v = 0; v < 4; v++) {
        const uint64_t x = eight(form, block, v);
        const uint64_t set = _pext_u64(((x & low) + low) | x, ~low);
        const struct kept *a = &kept[set & 15], *b = &kept[set >> 4];
        good &= a->bytes && b->bytes;
        values[v] = (uint32_t)_pext_u64(x, a->bytes | (uint64_t)b->bytes << 32);
        places |= (a->places | b->places << 16) << 2 * v;
    }
    store_block(form, places, values, lane);
    return good;
}

static pack_block *best_pack_block(void) {
    const bool fast = mnem__cpu_level_get() >= MNEM__CPU_AVX2 && __builtin_cpu_supports("bmi2");
    return fast ? pack_block_bmi2 : pack_block_plain;
}

#else

static pack_block *best_pack_block(void) {
    return pack_block_plain;
}

#endif

static bool pack_quantized(const mnem__pack_form *form, int64_t rows, int64_t k, const uint8_t *raw,
                           uint8_t *packed) {
    const int64_t block_bytes = mnem_type_get(form->type)->block_bytes, blocks = k / 32;
    pack_block *const pack = best_pack_block();
    bool good = true;
    for (int64_t b = 0; b < blocks; b++) {
        uint8_t *unit = packed + b / 2 * mnem__pack_unit_bytes(form);
        uint8_t *block = unit + form->header_bytes + b % 2 * form->block_bytes;
        for (int64_t r = 0; r < rows; r++) {
            const uint8_t *from = raw + (r * blocks + b) * block_bytes;
            memcpy(unit + b % 2 * 32 + 2 * r, from, 2);
            good &= pack(form, from, block + 4 * r);
        }
    }
    return good;
}

static bool pack_f16(int64_t rows, int64_t k, const uint8_t *raw, uint8_t *packed) {
    bool good = true;
    for (int64_t b = 0; b < k / 32; b++, packed += MNEM__SPARSE_F16_BLOCK)
        for (int64_t r = 0; r < rows; r++) {
            const uint8_t *from = raw + (r * k + 32 * b) * 2;
            uint32_t places = 0;
            for (int n = 0; n < 16; n += 2) {
                const unsigned set = halves_set(load_u64(from + 4 * n));
                const struct pair two = pairs[set];
                if (!fits(set)) {
                    good = false;
                    continue;
                }
                places |= (uint32_t)(two.first | two.second << 2) << 2 * n;
                memcpy(packed + 64 + 32 * n + 2 * r, from + 4 * n + 2 * two.first, 2);
                memcpy(packed + 96 + 32 * n + 2 * r, from + 4 * n + 2 * two.second, 2);
            }
            memcpy(packed + 4 * r, &places, 4);
        }
    return good;
}

bool mnem_sparse_group(mnem_type type, int64_t rows, int64_t k, const void *raw, void *packed) {
    const mnem__pack_form *form = mnem__sparse_form_get(type);
    uint8_t *out = packed;
    const bool odd = form->unit_blocks == 2 && k / 32 % 2;
    if (odd) memset(out + k / 64 * mnem__pack_unit_bytes(form), 0, (size_t)form->header_bytes);
    if (rows < MNEM_PACK_ROWS) memset(out, 0, mnem_sparse_group_bytes(type, k));
    return type == MNEM_TYPE_F16 ? pack_f16(rows, k, raw, out)
                                 : pack_quantized(form, rows, k, raw, out);
}

/* ---- and back ---- */

void mnem__sparse_block(const mnem__pack_form *form, const void *group, int64_t block, int row,
                        mnem__block *out) {
    const uint8_t *unit = (const uint8_t *)group + block / 2 * mnem__pack_unit_bytes(form);
    const uint8_t *lane = unit + form->header_bytes + block % 2 * form->block_bytes + 4 * row;
    out->scale[0] = out->scale[1] =
        mnem__half_float(mnem__load_u16(unit + block % 2 * 32 + 2 * row));
    memset(out->q, form->bits == 4 ? 8 : 128, sizeof out->q);
    for (int v = 0; v < 4; v++)
        for (int i = 0; i < 4; i++) {
            const int at = 8 * v + i / 2 * 4 + (lane[i] >> 2 * v & 3);
            if (form->bits == 4)
                out->q[at] = lane[64 + v % 2 * 64 + i] >> v / 2 * 4 & 15;
            else
                out->q[at] = lane[64 + v * 64 + i] ^ 128;
        }
}

/* Where the two values of a half, number i of 2 or 3, are: the later one behind the other. */
static bool rises(unsigned place, unsigned before, int i) {
    return i % 2 == 0 || place > before;
}

static bool row_quantized(const mnem__pack_form *form, int64_t k, const uint8_t *group, int row,
                          uint8_t *raw) {
    const int64_t block_bytes = mnem_type_get(form->type)->block_bytes;
    bool good = true;
    for (int64_t b = 0; b < k / 32; b++, raw += block_bytes) {
        const uint8_t *unit = group + b / 2 * mnem__pack_unit_bytes(form);
        const uint8_t *lane = unit + form->header_bytes + b % 2 * form->block_bytes + 4 * row;
        memcpy(raw, unit + b % 2 * 32 + 2 * row, 2);
        memset(raw + 2, form->bits == 4 ? 0x88 : 0, (size_t)block_bytes - 2);
        for (int v = 0; v < 4; v++)
            for (int i = 0; i < 4; i++) {
                const unsigned place = lane[i] >> 2 * v & 3;
                const int at = 8 * v + i / 2 * 4 + (int)place;
                good &= rises(place, lane[i - i % 2] >> 2 * v & 3, i);
                if (form->bits == 8) {
                    raw[2 + at] = lane[64 + 64 * v + i];
                    continue;
                }
                const unsigned code = lane[64 + v % 2 * 64 + i] >> v / 2 * 4 & 15;
                uint8_t *byte = raw + 2 + at % 16;
                *byte = (uint8_t)(at < 16 ? (*byte & 0xf0) | code : (*byte & 15) | code << 4);
            }
    }
    return good;
}

static bool row_f16(int64_t k, const uint8_t *group, int row, uint8_t *raw) {
    bool good = true;
    memset(raw, 0, (size_t)(2 * k));
    for (int64_t b = 0; b < k / 32; b++, group += MNEM__SPARSE_F16_BLOCK, raw += 64) {
        uint32_t places;
        memcpy(&places, group + 4 * row, 4);
        for (int n = 0; n < 16; n++) {
            const unsigned place = places >> 2 * n & 3;
            good &= rises(place, places >> 2 * (n - n % 2) & 3, n);
            memcpy(raw + 2 * (n / 2 * 4 + (int)place), group + 64 + 32 * n + 2 * row, 2);
        }
    }
    return good;
}

bool mnem__sparse_row(mnem_type type, int64_t k, const void *group, int row, void *raw) {
    return type == MNEM_TYPE_F16 ? row_f16(k, group, row, raw)
                                 : row_quantized(mnem__sparse_form_get(type), k, group, row, raw);
}
