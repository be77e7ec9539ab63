/* attention_kernels.h: the kernels of the KV operators at each level of the processor.
 *
 * A unit is the queries of a few consecutive tokens of one sequence for the query heads of one
 * KV head. Its rows (token after token, the heads of the group inside) are independent of each
 * other: each row's result depends on its query, its position and the pages only.
 *
 *     rows of queries   m, l, acc      tile: 64 positions = 4 blocks of 16, from position 0 on
 *     t0 h0  [d]        .              scores  s = q k * scale * log2(e), lanes are positions
 *     t0 h1  [d]        .              m' = max(m, s); p = 2^(s - m')
 *     t1 h0  [d]        .              l = l 2^(m - m') + p; acc = acc 2^(m - m') + p v
 *
 * With a sink a row's result starts with M = the sink's score and L = 1. A soft cap is applied
 * before the max. Positions that a row doesn't see (later ones, or before its window) have the
 * score minus infinity; tiles and blocks that no row sees are skipped. Positions that a token chose
 * are first copied into tiles, so that the cost is proportional to their number.
 *
 * A row's positions are cut into segments, at multiples of a length that follows from the number
 * of positions that the row sees alone (mnem__attention_segment). Each is computed as above from
 * nothing, and added to those before it in the same way, in ascending order:
 *
 *     segment:  | m, l, acc | m, l, acc | m, l, acc |      of 512 positions, longer past 16384
 *     result:   (sink) ---> + --------> + --------> +      M = max(M, m); L = L 2^(M - M') + ...
 *
 * So several members may share a unit, each computing some of its segments, and the bits are the
 * same as those of one member that computes all.
 *
 * (Online softmax: Milakov and Gimelshein 2018; tiles: Dao et al. 2022; split over positions: Dao
 * et al. 2023, "Flash-Decoding".) l is 16 partial sums, added at the end. All levels give the same
 * bits. */
#ifndef MNEM_SRC_OPS_ATTENTION_ATTENTION_KERNELS_H
#define MNEM_SRC_OPS_ATTENTION_ATTENTION_KERNELS_H

#include "ops/attention/kv_block.h"
#include "ops/core/a8.h"
#include "ops/core/op_impl.h"

enum {
    MNEM__ATTENTION_TILE = 64, /* positions */
    MNEM__ATTENTION_TILE_BLOCKS = MNEM__ATTENTION_TILE / MNEM__KV_BLOCK,
    MNEM__ATTENTION_ROWS = 96, /* rows of a unit, more when one token's heads are more */
    MNEM__ATTENTION_EXPAND_ROWS =
        24, /* from this number on a tile is converted to f32 once for all rows */
    MNEM__ATTENTION_STEP_ROWS = 8, /* the most rows of a kernel call */
    MNEM__ATTENTION_CUT_ROWS = 32, /* the most rows of a unit that members share */
    MNEM__ATTENTION_SEGMENT = 512, /* positions of the shortest segments */
    MNEM__ATTENTION_SEGMENTS = 32, /* the most that a row has if they begin at its first position */
};

/* Positions of the segments of a row that sees this many: a power of two times the shortest. */
static inline int64_t mnem__attention_segment(int64_t seen) {
    int64_t segment = MNEM__ATTENTION_SEGMENT;
    while (segment * MNEM__ATTENTION_SEGMENTS < seen) segment *= 2;
    return segment;
}

/* A worker's scratch for units of up to `rows` rows; the same function measures (start NULL) and
 * lays it out. Parts that the type of the pages doesn't need are NULL. */
typedef struct mnem__attention_scratch {
    float *query;         /* [rows][d], times scale; keys of q8_0: then quantized below */
    int8_t *query_q8;     /* [rows][d] */
    float *query_scale;   /* [rows][d/32] */
    int32_t *query_sum;   /* [rows][d/32] */
    float *acc;           /* [rows][D] of the current segment */
    float *sum;           /* [rows][16] */
    float *max;           /* [rows] */
    float *result;        /* [rows][part] of the segments before it */
    int32_t *begin;       /* [rows] the first position that each sees */
    int32_t *position;    /* [rows] the last one */
    int32_t *segment;     /* [rows] positions of its segments */
    float *p;             /* [STEP_ROWS][64] scores, then probabilities */
    float *keys, *values; /* f16: a tile in f32: [4][d][16], [64][D] */
    int16_t *words;       /* q8_0 values: [d/32][STEP_ROWS][64] probabilities times value scales */
    float *value_scale;   /* q8_0 values: [d/32][64] of a tile */
    float *value_by;  /* q8_0 values: [d/32][64] what probabilities are multiplied by to be words */
    float *value_max; /* q8_0 values: [d/32] the largest magnitude of value_scale */
    uint8_t *gathered; /* [4] blocks of chosen positions */
    uint8_t *wide;     /* q4_0: [4] blocks as they are in q8_0 */
    uint64_t bytes;
} mnem__attention_scratch;
mnem__attention_scratch mnem__attention_scratch_get(const mnem_kv_layout *layout, int64_t rows,
                                                    bool gathers, void *start);

/* What is kept of a segment or of several: acc [D], sum [16], max. */
static inline int64_t mnem__attention_part_floats(const mnem__kv_block *block) {
    return block->value_padded + 2 * MNEM__KV_BLOCK;
}

/* A row sees the positions [*begin, *end). window: 0 or less: none. */
static inline void mnem__attention_sees(int64_t position, int64_t window, bool chunks,
                                        int64_t *begin, int64_t *end) {
    *end = position + 1;
    if (window <= 0)
        *begin = 0;
    else if (chunks)
        *begin = position / window * window;
    else
        *begin = *end > window ? *end - window : 0;
}

typedef struct mnem__attention_unit {
    const mnem_kv_layout *layout;
    const mnem_kv_sequence *sequence;
    int64_t kv_head, group; /* group: query heads that share this KV head (or a part) */
    int64_t first, tokens;  /* rows of the sequence */
    float scale;            /* times log2(e) */
    float soft_cap;         /* times log2(e); 0: none */
    const float *sinks;     /* of the group's heads; NULL: none */
    const int32_t *chosen;  /* for one token: the positions that it sees, ascending; NULL: all */
    int64_t chosen_count;
    float temperature; /* 0: scores don't depend on the position */
    int32_t temperature_every;
    int64_t window; /* positions that a row sees; 0: all */
    bool chunks;    /* a row sees from the last multiple of window on, instead */
    bool from_1;    /* the temperature counts positions from 1 */
    bool both_ways; /* a row sees up to the sequence's last position, not its own */
    /* What to compute of it: segments of all its rows begin at begin and at end, or nothing of it
     * is beyond them. parts [rows][slots][part]: where the segments' results go, those of each row
     * from its first one on; NULL: they are added, and the rows stored. */
    int64_t begin, end;
    float *parts;
    int64_t slots;
    const char *query;               /* first token, first head of the group */
    int64_t query_token, query_head; /* strides in bytes */
    char *out; /* f32: first token, first head of the group; A8: the first token's row */
    int64_t out_token, out_head;
    mnem__a8_quantize
        *quantize; /* A8: the row has out_width elements, the group's from out_first */
    int64_t out_width, out_first;
} mnem__attention_unit;

/* Stores up to 16 positions (count of them, from begin) of one KV head into one block. key and
 * value are those of position begin, strides in bytes. is_last: zeroes the values after the last
 * one. */
typedef struct mnem__kv_rows {
    const char *key, *value;
    int64_t key_token, value_token;
    int begin, count;
    bool is_last;
} mnem__kv_rows;

typedef void mnem__kv_store_rows(const mnem_kv_layout *layout, const mnem__kv_rows *rows,
                                 uint8_t *block);
mnem__kv_store_rows mnem__kv_store_rows_plain, mnem__kv_store_rows_avx2, mnem__kv_store_rows_avx512;

typedef struct mnem__attention_kernels {
    void (*attend)(const mnem__attention_unit *unit, const mnem__attention_scratch *scratch);
    /* Adds the parts of all segments of a unit, and stores its rows. */
    void (*merge)(const mnem__attention_unit *unit, const mnem__attention_scratch *scratch);
    mnem__kv_store_rows *store;
    mnem__a8_quantize *quantize;
} mnem__attention_kernels;

extern const mnem__attention_kernels mnem__attention_kernels_plain, mnem__attention_kernels_avx2,
    mnem__attention_kernels_avx512;

/* An operator's lists of kernels per level (op_impl.h), one for each type of keys. */
#define MNEM__KV_KERNEL(text, run, level)                                                          \
    static const mnem__op_kernel list_##level[] = {                                                \
        {MNEM_TYPE_F16, MNEM_LAYOUT_ROW, text " f16 " #level, run,                                 \
         &mnem__attention_kernels_##level},                                                        \
        {MNEM_TYPE_Q8_0, MNEM_LAYOUT_ROW, text " q8_0 " #level, run,                               \
         &mnem__attention_kernels_##level},                                                        \
        {MNEM_TYPE_F32, MNEM_LAYOUT_ROW, text " f32 " #level, run,                                 \
         &mnem__attention_kernels_##level},                                                        \
        {MNEM_TYPE_Q4_0, MNEM_LAYOUT_ROW, text " q4_0 " #level, run,                               \
         &mnem__attention_kernels_##level},                                                        \
    };                                                                                             \
    static const mnem__op_kernels kernels_##level = {list_##level, 4};
#if MNEM_X86
#define MNEM__KV_KERNELS(text, run)                                                                \
    MNEM__KV_KERNEL(text, run, plain)                                                              \
    MNEM__KV_KERNEL(text, run, avx2)                                                               \
    MNEM__KV_KERNEL(text, run, avx512)
#else
#define MNEM__KV_KERNELS(text, run) MNEM__KV_KERNEL(text, run, plain)
#endif

static inline mnem__op_key mnem__kv_key(const mnem_op_desc *desc) {
    return (mnem__op_key){desc->kv.type, MNEM_LAYOUT_ROW};
}

#endif
