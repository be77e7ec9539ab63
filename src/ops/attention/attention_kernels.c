/* attention_kernels.c: attention over one unit's rows, over lanes (lanes.h); the idea is in
 * attention_kernels.h. Compiled once for each level.
 *
 * Few rows (decoding) read the pages where they lie, so that each byte is read once; many rows make
 * an f16 tile f32 first, so that it is converted once, and take q8_0 as it is. Both give the same
 * bits: the order of additions is by element for scores and by position for values, and what is
 * added as integers is exact.
 *
 * Cost for a row: 2 d multiply-adds and one power of two per position. */
#include <math.h>

#include "ops/attention/attention_scores.h"
#include "ops/attention/attention_values.h"
#include "ops/attention/attention_wide.h"
#include "ops/attention/kv_rotate.h"

/* ---- probabilities ---- */

static void cap_scores(step *s) {
    for (int r = 0; r < s->rows; r++)
        for (int b = 0; b < s->blocks; b++) {
            float *p = s->scratch->p + r * TILE + b * BLOCK;
            lanes_store(p, lanes_soft_cap(lanes_load(p), s->soft_cap));
        }
}

/* The largest score of one row; those that it doesn't see become minus infinity. All four vectors
 * are looked at, also those of blocks left out. */
static float mask_and_max(float *p, int64_t hidden, int64_t visible) {
    const lanes none = lanes_set(-INFINITY);
    lanes s[TILE_BLOCKS];
    LANES_UNROLL
    for (int b = 0; b < TILE_BLOCKS; b++) s[b] = lanes_load(p + b * BLOCK);
    if (visible < TILE || hidden > 0) {
        LANES_UNROLL
        for (int b = 0; b < TILE_BLOCKS; b++) {
            s[b] = lanes_below(s[b], visible - b * BLOCK, none);
            s[b] = lanes_below(none, hidden - b * BLOCK, s[b]);
            lanes_store(p + b * BLOCK, s[b]);
        }
    }
    return lanes_reduce_max(lanes_max(lanes_max(s[0], s[1]), lanes_max(s[2], s[3])));
}

/* Scores to e, with each row's max and sum brought up to date. A row that sees nothing of the tile
 * (it is before it, or its window behind it) keeps its bits: shrink is 1, e and grow are 0, whether
 * or not it has seen anything yet (its max is minus infinity until then). */
static void probabilities(step *s) {
    const bool own = s->scratch->words != NULL;
    float reference[ROWS_MAX];
    for (int r = 0; r < s->rows; r++) {
        float *max = s->scratch->max + s->row + r;
        const float top = mask_and_max(s->scratch->p + r * TILE, hidden(s, r), visible(s, r));
        const float m = top > *max ? top : *max;
        const bool none = top == -INFINITY, never = m == -INFINITY;
        reference[r] = own && !none ? top : never ? 0.0f : m;
        s->shrink[r] = never ? 0.0f : *max - m;
        s->grow[r] = !own ? 0.0f : never ? top : top - m;
        *max = m;
    }
    lanes_store(s->shrink, lanes_exp2(lanes_load(s->shrink)));
    lanes_store(s->grow, lanes_exp2(lanes_load(s->grow)));
    for (int r = 0; r < s->rows; r++) {
        float *p = s->scratch->p + r * TILE, *sum = s->scratch->sum + (s->row + r) * LANES;
        const lanes from = lanes_set(reference[r]), grow = lanes_set(s->grow[r]);
        lanes total = lanes_mul(lanes_load(sum), lanes_set(s->shrink[r])), e[TILE_BLOCKS];
        LANES_UNROLL
        for (int b = 0; b < TILE_BLOCKS; b++)
            e[b] = lanes_exp2_upto127(lanes_sub(lanes_load(p + b * BLOCK), from));
        LANES_UNROLL
        for (int b = 0; b < TILE_BLOCKS; b++) {
            lanes_store(p + b * BLOCK, e[b]);
            total = lanes_fma(e[b], grow, total);
        }
        lanes_store(sum, total);
    }
}

/* ---- tiles ---- */

static void expand_halves(int64_t n, const uint8_t *from, float *to) {
    const uint16_t *halves = (const uint16_t *)(const void *)from;
    for (int64_t i = 0; i < n; i += LANES) lanes_store(to + i, lanes_load_half(halves + i));
}

/* The scales of a tile's values (0 in blocks left out), the largest of each 32 elements, and what
 * follows for words of rows that see all of the tile. */
static void value_scales(const tile *t, const mnem__attention_scratch *scratch) {
    for (int64_t i = 0; i < t->layout->value_dim / MNEM__KV_SCALE; i++) {
        float *to = scratch->value_scale + i * TILE;
        const int64_t at = t->layout->value_scales + i * BLOCK * 2;
        for (int b = 0; b < TILE_BLOCKS; b++) {
            if (b >= t->blocks) {
                lanes_store(to + b * BLOCK, lanes_zero());
                continue;
            }
            expand_halves(BLOCK, t->block[b] + at, to + b * BLOCK);
            __builtin_prefetch(t->next[b] + at);
        }
        scratch->value_max[i] = largest_scale(to, 0, TILE);
        words_by(to, scratch->value_max[i], scratch->value_by + i * TILE);
    }
}

/* From here on the tile is one of wide blocks. The pages of the next tile are prefetched here. */
static void widen_tile(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                       const mnem__attention_scratch *scratch, tile *t) {
    for (int b = 0; b < t->blocks; b++) {
        uint8_t *to = scratch->wide + b * t->layout->bytes;
        for (int64_t i = 0; i < layout->bytes; i += 64) __builtin_prefetch(t->next[b] + i);
        widen_block(unit->layout, layout, t->layout, t->block[b], to);
        t->block[b] = t->next[b] = to;
    }
}

static void prepare_tile(const tile *t, const mnem__attention_scratch *scratch) {
    const mnem__kv_block *layout = t->layout;
    const int64_t keys = BLOCK * layout->head_dim, vals = BLOCK * layout->value_padded;
    if (scratch->words != NULL) value_scales(t, scratch);
    for (int b = 0; t->expanded && b < t->blocks; b++) {
        if (scratch->keys) expand_halves(keys, t->block[b], scratch->keys + b * keys);
        if (scratch->values)
            expand_halves(vals, t->block[b] + layout->values, scratch->values + b * vals);
    }
}

/* One tile for rows [row, row + rows). Blocks after the last row's position are left out, and tiles
 * before the first row's window, which changes no bits: their probabilities would be 0. */
static void attend_step(const mnem__attention_unit *unit, const mnem__attention_scratch *scratch,
                        const tile *t, int64_t row, int rows) {
    step s = {.scratch = scratch, .tile = t, .row = row, .soft_cap = unit->soft_cap, .rows = rows};
    const int64_t last = visible(&s, rows - 1) - 1;
    if (last < 0 || hidden(&s, 0) >= TILE) return;
    s.blocks = last / BLOCK + 1 < t->blocks ? (int)(last / BLOCK + 1) : t->blocks;
    scores(&s);
    if (s.soft_cap > 0.0f) cap_scores(&s);
    probabilities(&s);
    if (scratch->words != NULL)
        values_q8(&s);
    else
        values(&s);
}

/* ---- a unit ---- */

static void quantize_query(int64_t d, const float *q, int8_t *bytes, float *scale, int32_t *sum) {
    for (int64_t i = 0; i < d; i += MNEM__KV_SCALE) {
        lanes a = lanes_load(q + i), b = lanes_load(q + i + LANES);
        float amax = lanes_reduce_max(lanes_max(lanes_abs(a), lanes_abs(b)));
        lanes inverse = lanes_set(amax > 0.0f ? 127.0f / amax : 0.0f);
        lanes_store_int8(bytes + i, lanes_round127(a, inverse));
        lanes_store_int8(bytes + i + LANES, lanes_round127(b, inverse));
        int32_t total = 0;
        for (int64_t j = i; j < i + MNEM__KV_SCALE; j++) total += bytes[j];
        scale[i / MNEM__KV_SCALE] = amax / 127.0f;
        sum[i / MNEM__KV_SCALE] = total;
    }
}

/* Elements beyond 1e30 are cut, so that no sum of products can be infinite. */
static void load_query(int64_t d, const float *q, float scale, float *out) {
    const lanes least = lanes_set(-1e30f), most = lanes_set(1e30f);
    for (int64_t i = 0; i < d; i += LANES) {
        int64_t n = d - i < LANES ? d - i : LANES;
        lanes x = lanes_mul(lanes_load_part(q + i, n), lanes_set(scale));
        lanes_store_part(out + i, lanes_max(least, lanes_min(most, x)), n);
    }
}

/* Of the scores of a row at this position (Llama 4's and Mistral 3's attention temperature). */
static float scale_at(const mnem__attention_unit *unit, int64_t position) {
    if (unit->temperature == 0.0f) return unit->scale;
    const double times = (double)(1 + (position + unit->from_1) / unit->temperature_every);
    return unit->scale * (float)(1.0 + (double)unit->temperature * log(times));
}

/* Cut as queries are, so that no difference of scores can be one of infinities. */
static float sink_score(float sink) {
    const float score = sink * 0x1.715476p+0f; /* log2(e) */
    return score > 1e30f ? 1e30f : score < -1e30f ? -1e30f : score;
}

static void clear_row(const mnem__kv_block *layout, const mnem__attention_scratch *scratch,
                      int64_t row) {
    scratch->max[row] = -INFINITY;
    lanes_store(scratch->sum + row * LANES, lanes_zero());
    memset(scratch->acc + row * layout->value_padded, 0,
           (size_t)layout->value_padded * sizeof *scratch->acc);
}

/* The last position that a token's rows see; of chosen ones: its index. */
static int64_t last_seen(const mnem__attention_unit *unit, int64_t token) {
    const int64_t first = unit->sequence->first_position;
    if (unit->chosen) return unit->chosen_count - 1;
    return first + (unit->both_ways ? unit->sequence->rows - 1 : unit->first + token);
}

/* What each row sees, and its result before any segment. */
static void place_rows(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                       const mnem__attention_scratch *scratch) {
    const int64_t part = mnem__attention_part_floats(layout), v = layout->value_padded;
    for (int64_t r = 0; r < unit->tokens * unit->group; r++) {
        int64_t begin, end;
        float *result = scratch->result + r * part;
        mnem__attention_sees(last_seen(unit, r / unit->group), unit->window, unit->chunks, &begin,
                             &end);
        scratch->begin[r] = (int32_t)begin;
        scratch->position[r] = (int32_t)(end - 1);
        scratch->segment[r] = (int32_t)mnem__attention_segment(end - begin);
        memset(result, 0, (size_t)part * sizeof *result);
        result[v + LANES] = unit->sinks ? sink_score(unit->sinks[r % unit->group]) : -INFINITY;
        if (unit->sinks) result[v] = 1;
    }
}

static void load_rows(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                      const mnem__attention_scratch *scratch) {
    const int64_t d = layout->head_dim, scales = d / MNEM__KV_SCALE;
    for (int64_t r = 0; r < unit->tokens * unit->group; r++) {
        int64_t t = r / unit->group, h = r % unit->group;
        const int64_t position = unit->sequence->first_position + unit->first + t;
        const char *from = unit->query + t * unit->query_token + h * unit->query_head;
        load_query(d, (const float *)(const void *)from, scale_at(unit, position),
                   scratch->query + r * d);
        if (unit->layout->keys_rotated) kv_rotate(d, scratch->query + r * d);
        if (scratch->query_q8 != NULL)
            quantize_query(d, scratch->query + r * d, scratch->query_q8 + r * d,
                           scratch->query_scale + r * scales, scratch->query_sum + r * scales);
        clear_row(layout, scratch, r);
    }
}

/* ---- segments ---- */

/* Adds a segment's acc, sum and max to a row's result. */
static void add_part(const mnem__kv_block *layout, const float *acc, const float *sum, float max,
                     float *result) {
    const int64_t v = layout->value_padded;
    float *top = result + v + LANES;
    const float m = max > *top ? max : *top;
    const bool never = m == -INFINITY;
    float by[LANES] = {never ? 0.0f : *top - m, never ? 0.0f : max - m};
    lanes_store(by, lanes_exp2(lanes_load(by)));
    const lanes shrink = lanes_set(by[0]), grow = lanes_set(by[1]);
    for (int64_t i = 0; i < v; i += LANES)
        lanes_store(result + i, lanes_fma(lanes_load(acc + i), grow,
                                          lanes_mul(lanes_load(result + i), shrink)));
    lanes_store(result + v,
                lanes_fma(lanes_load(sum), grow, lanes_mul(lanes_load(result + v), shrink)));
    *top = m;
}

/* Which of a row's segments a position is in, counted from its first one; less than 0: before. */
static int64_t slot_of(const mnem__attention_scratch *scratch, int64_t row, int64_t position) {
    return position / scratch->segment[row] - scratch->begin[row] / scratch->segment[row];
}

/* A row's segment that ends with this position: its result goes where it belongs. */
static void end_segment(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                        const mnem__attention_scratch *scratch, int64_t row, int64_t position) {
    const int64_t slot = slot_of(scratch, row, position), v = layout->value_padded;
    const int64_t part = mnem__attention_part_floats(layout);
    const float *acc = scratch->acc + row * v, *sum = scratch->sum + row * LANES;
    if (slot < 0 || slot > slot_of(scratch, row, scratch->position[row])) return;
    if (unit->parts == NULL) {
        add_part(layout, acc, sum, scratch->max[row], scratch->result + row * part);
    } else {
        float *to = unit->parts + (row * unit->slots + slot) * part;
        memcpy(to, acc, (size_t)v * sizeof *to);
        memcpy(to + v, sum, LANES * sizeof *to);
        to[v + LANES] = scratch->max[row];
    }
    clear_row(layout, scratch, row);
}

/* The segments that end at next, or (all) are at their end because nothing follows. */
static void end_segments(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                         const mnem__attention_scratch *scratch, int64_t next, bool all) {
    if (!all && next % MNEM__ATTENTION_SEGMENT != 0) return;
    for (int64_t r = 0; r < unit->tokens * unit->group; r++)
        if ((next % scratch->segment[r] == 0) != all)
            end_segment(unit, layout, scratch, r, next - 1);
}

/* Adding 0 turns a negative zero into a positive one: which zero comes out of a sum that underflows
 * could depend on the positions left out. */
static void finish_row(int64_t d, const float *acc, const float *sum, float *out) {
    const lanes inverse = lanes_set(1.0f / lanes_reduce_add(lanes_load(sum)));
    for (int64_t c = 0; c < d; c += LANES)
        lanes_store_part(out + c, lanes_add(lanes_mul(lanes_load(acc + c), inverse), lanes_zero()),
                         d - c < LANES ? d - c : LANES);
}

/* The same for values that pages hold rotated; acc is overwritten. */
static void finish_rotated(int64_t d, float *acc, const float *sum, float *out) {
    finish_row(d, acc, sum, acc);
    kv_rotate(d, acc);
    if (out != acc) memcpy(out, acc, (size_t)d * sizeof *out);
}

/* A8: a token's heads of the group lie side by side in acc, whole blocks of 32 of its row. */
static void store_rows(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                       const mnem__attention_scratch *scratch) {
    const int64_t d = layout->value_dim, width = unit->group * d;
    const int64_t part = mnem__attention_part_floats(layout);
    for (int64_t r = 0; r < unit->tokens * unit->group; r++) {
        int64_t t = r / unit->group, h = r % unit->group;
        float *result = scratch->result + r * part;
        char *to = unit->out + t * unit->out_token + h * unit->out_head;
        float *out = unit->quantize ? scratch->acc + r * d : (float *)(void *)to;
        if (unit->layout->values_rotated)
            finish_rotated(d, result, result + layout->value_padded, out);
        else
            finish_row(d, result, result + layout->value_padded, out);
        if (unit->quantize && h == unit->group - 1)
            unit->quantize(scratch->acc + t * width, unit->out_width, unit->out_first / 32,
                           width / 32, unit->out + t * unit->out_token);
    }
}

/* A position's keys and values from its place in a block to its place in another, by type. */
typedef struct moved {
    const mnem__kv_block *layout;
    const uint8_t *from;
    uint8_t *to;
    int at, place;
} moved;

static void move_keys(const moved *m, mnem_type type) {
    const int64_t group = type == MNEM_TYPE_Q4_0 ? 8 : mnem__kv_is_scaled(type) ? 4 : 1;
    const int64_t unit = group > 1 ? 4 : type == MNEM_TYPE_F32 ? 4 : 2;
    const uint8_t *key = m->from + m->at * unit;
    uint8_t *out = m->to + m->place * unit;
    for (int64_t i = 0; i < m->layout->head_dim; i += group) {
        if (unit == 2)
            memcpy(out, key, 2);
        else
            memcpy(out, key, 4);
        key += BLOCK * unit;
        out += BLOCK * unit;
    }
}

/* Numbers of q8_0 and q4_0: a byte, or half of one, of each element. */
static void move_scaled_values(const moved *m, bool is_half) {
    const int64_t v = m->layout->value_dim, rows = is_half ? 4 : 2; /* in a pair of bytes */
    const int down = is_half ? m->at % 4 / 2 * 4 : 0, up = is_half ? m->place % 4 / 2 * 4 : 0;
    const int mask = is_half ? 15 : 255;
    const uint8_t *from = m->from + m->layout->values + m->at / rows * v * 2 + m->at % 2;
    uint8_t *to = m->to + m->layout->values + m->place / rows * v * 2 + m->place % 2;
    for (int64_t i = 0; i < 2 * v; i += 2)
        to[i] = (uint8_t)((to[i] & ~(mask << up)) | (from[i] >> down & mask) << up);
}

static void move_values(const moved *m, mnem_type type) {
    const int64_t row = m->layout->value_padded * (type == MNEM_TYPE_F32 ? 4 : 2);
    if (mnem__kv_is_scaled(type))
        move_scaled_values(m, type == MNEM_TYPE_Q4_0);
    else
        memcpy(m->to + m->layout->values + m->place * row,
               m->from + m->layout->values + m->at * row, (size_t)row);
}

static void move_scales(const moved *m, int64_t scales, int64_t n) {
    for (int64_t i = 0; i < n / MNEM__KV_SCALE; i++)
        memcpy(m->to + scales + (i * BLOCK + m->place) * 2,
               m->from + scales + (i * BLOCK + m->at) * 2, 2);
}

static void move_position(const mnem_kv_layout *kv, const moved *m) {
    const mnem_type values = mnem__kv_value_type(kv);
    move_keys(m, kv->type);
    move_values(m, values);
    if (mnem__kv_is_scaled(kv->type)) move_scales(m, m->layout->key_scales, m->layout->head_dim);
    if (mnem__kv_is_scaled(values)) move_scales(m, m->layout->value_scales, m->layout->value_dim);
}

/* A tile of chosen positions, from the first-th on. */
static int gather_blocks(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                         uint8_t *gathered, int64_t first, const uint8_t *block[TILE_BLOCKS]) {
    const int64_t rest = unit->chosen_count - first, n = rest < TILE ? rest : TILE;
    if (n % BLOCK != 0) memset(gathered + n / BLOCK * layout->bytes, 0, (size_t)layout->bytes);
    for (int64_t i = 0; i < n; i++) {
        const int64_t position = unit->chosen[first + i];
        const moved m = {.layout = layout,
                         .from = mnem__kv_block_at(unit->layout, layout, unit->sequence,
                                                   unit->kv_head, position / BLOCK * BLOCK),
                         .to = gathered + i / BLOCK * layout->bytes,
                         .at = (int)(position % BLOCK),
                         .place = (int)(i % BLOCK)};
        move_position(unit->layout, &m);
        block[i / BLOCK] = m.to;
    }
    return (int)((n + BLOCK - 1) / BLOCK);
}

/* The blocks of the tile at first, up to the position last. Returns how many. */
static int find_blocks(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                       int64_t first, int64_t last, const uint8_t *block[TILE_BLOCKS]) {
    const mnem_kv_sequence *sequence = unit->sequence;
    const uint32_t tokens = (uint32_t)unit->layout->page_tokens, blocks = tokens / BLOCK;
    uint32_t page = (uint32_t)first / tokens, index = (uint32_t)first % tokens / BLOCK;
    int n = 0;
    for (; n < TILE_BLOCKS && first + n * BLOCK <= last; n++) {
        const uint8_t *start =
            sequence->base + (uint64_t)sequence->table[page] * sequence->page_stride;
        block[n] = start + (uint64_t)(unit->kv_head * blocks + index) * (uint64_t)layout->bytes;
        if (++index == blocks) {
            index = 0;
            page++;
        }
    }
    return n;
}

/* The tile at first, as the kernels read it. */
static tile find_tile(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                      const mnem__kv_block *wide, const mnem__attention_scratch *scratch,
                      int64_t first, int64_t last) {
    tile t = {.layout = wide,
              .keys = unit->layout->type,
              .values = mnem__kv_value_type(unit->layout),
              .first = first,
              .expanded = unit->tokens * unit->group >= MNEM__ATTENTION_EXPAND_ROWS};
    t.blocks = unit->chosen ? gather_blocks(unit, layout, scratch->gathered, first, t.block)
                            : find_blocks(unit, layout, first, last, t.block);
    memcpy(t.next, t.block, sizeof t.next);
    if (!unit->chosen) find_blocks(unit, layout, first + TILE, last, t.next);
    if (scratch->wide) widen_tile(unit, layout, scratch, &t);
    prepare_tile(&t, scratch);
    return t;
}

/* One tile for all rows, from the position first on. */
static void attend_tile(const mnem__attention_unit *unit, const mnem__kv_block *layout,
                        const mnem__kv_block *wide, const mnem__attention_scratch *scratch,
                        int64_t first) {
    const int64_t rows = unit->tokens * unit->group, last = scratch->position[rows - 1];
    const bool expanded = rows >= MNEM__ATTENTION_EXPAND_ROWS && (scratch->keys || scratch->values);
    const int64_t steps = (rows + STEP_DIRECT - 1) / STEP_DIRECT;
    const int64_t stride = expanded ? STEP_EXPANDED : (rows + steps - 1) / steps;
    const tile t = find_tile(unit, layout, wide, scratch, first, last);
    for (int64_t r = 0; r < rows; r += stride)
        attend_step(unit, scratch, &t, r, (int)(rows - r < stride ? rows - r : stride));
}

static void attend(const mnem__attention_unit *unit, const mnem__attention_scratch *scratch) {
    const mnem__kv_block layout = mnem__kv_block_get(unit->layout);
    const mnem__kv_block wide = mnem__kv_block_wide(unit->layout);
    place_rows(unit, &layout, scratch);
    load_rows(unit, &layout, scratch);
    const int64_t own = scratch->begin[0] / TILE * TILE;
    const int64_t all = scratch->position[unit->tokens * unit->group - 1] + 1;
    const int64_t end = all < unit->end ? all : unit->end;
    for (int64_t first = own > unit->begin ? own : unit->begin; first < end; first += TILE) {
        attend_tile(unit, &layout, &wide, scratch, first);
        if (first + TILE <= end) end_segments(unit, &layout, scratch, first + TILE, false);
    }
    end_segments(unit, &layout, scratch, end, true);
    if (unit->parts == NULL) store_rows(unit, &layout, scratch);
}

static void merge(const mnem__attention_unit *unit, const mnem__attention_scratch *scratch) {
    const mnem__kv_block layout = mnem__kv_block_get(unit->layout);
    const int64_t part = mnem__attention_part_floats(&layout), v = layout.value_padded;
    place_rows(unit, &layout, scratch);
    for (int64_t r = 0; r < unit->tokens * unit->group; r++) {
        const float *from = unit->parts + r * unit->slots * part;
        const int64_t last = slot_of(scratch, r, scratch->position[r]);
        for (int64_t i = 0; i <= last; i++, from += part)
            add_part(&layout, from, from + v, from[v + LANES], scratch->result + r * part);
    }
    store_rows(unit, &layout, scratch);
}

const mnem__attention_kernels MNEM__AT_LEVEL(mnem__attention_kernels) = {
    .attend = attend,
    .merge = merge,
    .store = MNEM__AT_LEVEL(mnem__kv_store_rows),
    .quantize = MNEM__AT_LEVEL(mnem__a8_quantize),
};
