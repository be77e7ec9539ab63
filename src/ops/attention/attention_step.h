/* attention_step.h: shared by the scores and the values of a step of attention: the step, and the
 * rows and vectors of sums that fit the registers of the compiled level.
 *
 * Both products have the same form: rows x vectors sums in registers, a scalar of each row times a
 * vector that all rows share. */
#ifndef MNEM_SRC_OPS_ATTENTION_ATTENTION_STEP_H
#define MNEM_SRC_OPS_ATTENTION_ATTENTION_STEP_H

#include "ops/attention/attention_kernels.h"
#include "ops/core/lanes.h"

#if MNEM__LANES == 512
enum { STEP_DIRECT = 8, STEP_EXPANDED = 6 };
#define FLOAT_VECTORS(rows) ((rows) <= 6 ? 4 : 2) /* sums that fit 32 registers */
#define KEY_VECTORS(rows)   ((rows) <= 4 ? 4 : 2)
#define VALUE_VECTORS       2
#elif MNEM__LANES == 2
enum { STEP_DIRECT = 6, STEP_EXPANDED = 6 };
#define FLOAT_VECTORS(rows) ((rows) <= 3 ? 2 : 1)
#define KEY_VECTORS(rows)   1
#define VALUE_VECTORS       1
#else
enum { STEP_DIRECT = 4, STEP_EXPANDED = 4 };
#define FLOAT_VECTORS(rows) 1
#define KEY_VECTORS(rows)   1
#define VALUE_VECTORS       1
#endif
enum { VECTORS_MAX = 4 };

#define TILE        MNEM__ATTENTION_TILE
#define BLOCK       MNEM__KV_BLOCK
#define TILE_BLOCKS MNEM__ATTENTION_TILE_BLOCKS
#define ROWS_MAX    MNEM__ATTENTION_STEP_ROWS
#define WORD_MAX    32767.0f

typedef enum source { SOURCE_F32, SOURCE_F16 } source;

/* Sums of a step's rows; kept in registers. */
typedef lanes sums[ROWS_MAX][VECTORS_MAX];

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
    int64_t row, window;
    bool chunks;
    float soft_cap;
    int rows, blocks;
    float shrink[LANES], grow[LANES];
} step;

/* The number of the tile's first positions up to the last one that a row sees. */
static int64_t visible(const step *s, int r) {
    return s->scratch->position[s->row + r] - s->tile->first + 1;
}

/* The number of the tile's first positions before a row's window; 0 or less: none. */
static int64_t hidden(const step *s, int r) {
    if (!s->chunks) return visible(s, r) - s->window;
    const int64_t position = s->scratch->position[s->row + r];
    return position / s->window * s->window - s->tile->first;
}

/* Calls the macro F with rows as a constant. */
#if MNEM__LANES == 512
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
#elif MNEM__LANES == 2
#define WITH_ROWS(rows, F)                                                                         \
    switch (rows) {                                                                                \
    case 1: F(1); break;                                                                           \
    case 2: F(2); break;                                                                           \
    case 3: F(3); break;                                                                           \
    case 4: F(4); break;                                                                           \
    case 5: F(5); break;                                                                           \
    default: F(6); break;                                                                          \
    }
#else
#define WITH_ROWS(rows, F) F(rows);
#endif

LANES_INLINE lanes load(source from, const void *p, int64_t i) {
    return from == SOURCE_F32 ? lanes_load((const float *)p + i)
                              : lanes_load_half((const uint16_t *)p + i);
}

#endif
