/* attention_step.h: shared by the scores and the values of a step of attention: the step, and the
 * rows and slices of sums that fit the registers of the compiled level.
 *
 * Both products have the same form: rows x slices sums in registers, a scalar of each row times a
 * slice that all rows share. */
#ifndef MNEM_SRC_OPS_ATTENTION_ATTENTION_STEP_H
#define MNEM_SRC_OPS_ATTENTION_ATTENTION_STEP_H

#include "ops/attention/attention_kernels.h"
#include "ops/attention/attention_slice.h"

/* Slices of each row in registers: of scores or values in f32 and f16, of keys in q8_0, and of
 * values in q8_0 (at most 32 columns, which have one scale). */
#if MNEM__LANES == 512
enum { STEP_DIRECT = 8, STEP_EXPANDED = 6 };
#define FLOAT_SLICES(rows) ((rows) <= 6 ? 4 : 2)
#define KEY_SLICES(rows)   ((rows) <= 4 ? 4 : 2)
#define VALUE_SLICES(rows) 2
#elif MNEM__LANES == 2
enum { STEP_DIRECT = 8, STEP_EXPANDED = 6 };
#define FLOAT_SLICES(rows) ((rows) <= 3 ? 4 : (rows) <= 6 ? 2 : 1)
#define KEY_SLICES(rows)   ((rows) == 1 ? 4 : (rows) <= 4 ? 2 : 1)
#define VALUE_SLICES(rows) ((rows) <= 2 ? 4 : (rows) <= 5 ? 2 : 1)
#else
enum { STEP_DIRECT = 4, STEP_EXPANDED = 4 };
#define FLOAT_SLICES(rows) 1
#define KEY_SLICES(rows)   1
#define VALUE_SLICES(rows) 1
#endif
enum { SLICES_MAX = 4, BLOCK_SLICES = LANES / SLICE };

#define TILE        MNEM__ATTENTION_TILE
#define BLOCK       MNEM__KV_BLOCK
#define TILE_BLOCKS MNEM__ATTENTION_TILE_BLOCKS
#define ROWS_MAX    MNEM__ATTENTION_STEP_ROWS
#define WORD_MAX    32767.0f

typedef enum source { SOURCE_F32, SOURCE_F16 } source;

/* Sums of a step's rows; kept in registers. */
typedef slice sums[ROWS_MAX][SLICES_MAX];
typedef slice_int int_sums[ROWS_MAX][SLICES_MAX];

typedef struct tile {
    const mnem__kv_block *layout; /* of blocks that were widened: in q8_0 */
    mnem_type keys, values;       /* of the pages */
    int64_t first;                /* position of its first */
    int blocks;
    bool expanded; /* scratch holds in f32 what is f16 */
    const uint8_t *block[TILE_BLOCKS];
    const uint8_t *next[TILE_BLOCKS]; /* of the tile after, or the same */
} tile;

static inline bool reads_f32(const tile *t, mnem_type type) {
    return t->expanded || type == MNEM_TYPE_F32;
}

/* Some rows of a unit with one tile. Per row: e = 2^(score - reference), where reference is the
 * row's new max (f16) or the tile's max (q8_0 values, so that e uses all of its 16 bits). Earlier
 * sums are multiplied with shrink, and e with grow. */
typedef struct step {
    const mnem__attention_scratch *scratch;
    const tile *tile;
    int64_t row;
    float soft_cap;
    int rows, blocks;
    float shrink[LANES], grow[LANES];
} step;

/* The number of the tile's first positions up to the last one that a row sees. */
static int64_t visible(const step *s, int r) {
    return s->scratch->position[s->row + r] - s->tile->first + 1;
}

/* The number of the tile's first positions before those that a row sees; 0 or less: none. */
static int64_t hidden(const step *s, int r) {
    return s->scratch->begin[s->row + r] - s->tile->first;
}

/* Calls the macro F with rows as a constant. */
#if MNEM__LANES != 0
#define WITH_ROWS(rows, F)                                                                         \
    switch (rows) {                                                                                \
    case 1: F(1); break;                                                                           \
    case 2: F(2); break;                                                                           \
    case 3: F(3); break;                                                                           \
    case 4: F(4); break;                                                                           \
    case 5: F(5); break;                                                                           \
    case 6: F(6); break;                                                                           \
    case 7: F(7); break;                                                                           \
    default: F(8); break;                                                                          \
    }
#else
#define WITH_ROWS(rows, F) F(rows);
#endif

LANES_INLINE slice load(source from, const void *p, int64_t i) {
    return from == SOURCE_F32 ? slice_load((const float *)p + i)
                              : slice_load_half((const uint16_t *)p + i);
}

#endif
