/* ranks_rows.c: which rows of every matrix each rank gets.
 *
 * Idea: ranks wait for each other four times in a layer, so the same part for each is the fastest;
 * one whose budget hasn't the room gets what it has room for, the others the rest, alike. Parts
 * become rows by rounding where they end to whole units: groups of heads of one key and value,
 * blocks of 32 columns (as A8 has them), groups of 16 rows (as matrices are packed), experts.
 *
 *     4 groups, 3 ranks     | g0 g1 | g2 | g3 |     2 groups, 5 ranks   | g0 : g0 | g1 : g1 : g1 |
 *                                                   ranks of one group each have its keys and
 *                                                   values, and some of its heads
 */
#include "engine/ranks/ranks_rows.h"

#include "base/error.h"
#include "base/heap.h"
#include "base/minmax.h"
#include "engine/engine_parts.h"
#include "engine/ranks/ranks_private.h"
#include "engine/relay/relay_gather.h"
#include "mnem/supports.h"
#include "model/architecture/transformer_graph.h"
#include "model/weights/weights.h"

enum { BLOCK = 32 };

/* Of a rank's room for what is cut; the rest is for what isn't: activations, tables, norms. */
static const double room_for_parts = 0.9;

/* ---- units ---- */

/* A model, and the numbers that are cut together of what is between two products: where one of the
 * second ones reads A8, its blocks. */
typedef struct shape {
    mnem_transformer t;
    int32_t block;
} shape;

static mnem_status shape_of(const mnem_model *model, shape *s) {
    s->block = 1;
    MNEM__TRY(mnem_model_transformer(model, &s->t));
    for (int32_t i = 0; i < 2 * s->t.layers; i++) {
        const mnem__role role = i % 2 ? MNEM__ROLE_DOWN : MNEM__ROLE_O;
        const int32_t tensor = mnem__role_tensor(model, role, i / 2);
        mnem_tensor_info info;
        if (tensor >= 0 && mnem_model_tensor_get(model, (uint32_t)tensor, &info) &&
            mnem_matmul_input(info.type) == MNEM_TYPE_A8)
            s->block = BLOCK;
    }
    return MNEM_OK;
}

/* As few numbers of n each as are whole blocks. */
static int32_t whole_blocks(const shape *s, int64_t n) {
    int32_t count = 1;
    while (count * n % s->block != 0) count++;
    return count;
}

static int32_t ff_unit(const shape *s) {
    return mnem__max_i32(s->block, MNEM_PACK_ROWS);
}

static int32_t units_of(int32_t n, int32_t unit) {
    return (n + unit - 1) / unit;
}

/* How the heads of a model are cut: whole groups together, or so many heads of one group. */
typedef struct heads {
    int32_t group;             /* heads of one */
    int32_t unit, units;       /* groups that are cut together; how many such */
    int32_t in_unit, in_units; /* so many heads of one group; of it */
    int32_t most;              /* ranks */
} heads;

static heads heads_of(const shape *s) {
    const mnem_transformer *t = &s->t;
    heads h = {.group = t->heads / t->kv_heads};
    h.unit = whole_blocks(s, (int64_t)h.group * t->head_dim);
    h.units = units_of(t->kv_heads, h.unit);
    h.in_unit = whole_blocks(s, t->head_dim);
    h.in_units = h.unit == 1 ? units_of(h.group, h.in_unit) : 1;
    h.most = h.unit == 1 ? t->kv_heads * h.in_units : h.units;
    return h;
}

mnem_status mnem__ranks_rows_check(const mnem_model *model, int32_t size) {
    shape s;
    MNEM__TRY(shape_of(model, &s));
    const mnem_transformer *t = &s.t;
    MNEM__TRY(mnem_transformer_supports(t, MNEM_FEATURE_RANKS_ROWS));
    const int32_t most = heads_of(&s).most;
    if (size > most)
        return mnem__fail(
            MNEM_INVALID,
            "ranks: %d ranks are too many to split by rows: the model's %d heads of size %d, with "
            "%d K/V heads, in blocks of %d columns, can be split among at most %d ranks",
            size, t->heads, t->head_dim, t->kv_heads, s.block, most);
    const int32_t between = t->experts > 0 ? t->experts : units_of(t->ff, ff_unit(&s));
    const int32_t units = mnem__min_i32(mnem__min_i32(between, units_of(t->embd, MNEM_PACK_ROWS)),
                                        units_of(t->vocab, MNEM_PACK_ROWS));
    if (size > units)
        return mnem__fail(MNEM_INVALID,
                          "ranks: %d ranks are too many to split by rows: the model's rows%s can "
                          "be split among at most %d ranks",
                          size, t->experts > 0 ? " or experts" : "", units);
    return MNEM_OK;
}

/* ---- shares ---- */

/* Of all that is cut: matrices as they are packed, keys and values of a modest context. */
static mnem_status bytes_of_all(const mnem_model *model, const mnem_engine_options *o,
                                double *bytes) {
    mnem__transformer_map *map;
    MNEM__TRY(mnem__transformer_map_create(model, &map));
    const mnem_transformer *t = &map->shape;
    const int32_t wanted = o->context ? o->context : o->context_wanted;
    const int32_t context = wanted ? wanted : mnem__min_i32(t->context, MNEM__CONTEXT_MODEST);
    const int64_t position = 2 * (int64_t)t->layers * t->kv_heads * t->head_dim * 2;
    *bytes = (double)(position * context * mnem__max_i32(o->sequences, 1));
    for (int32_t i = 0; i < map->body_count + map->head_count; i++) {
        mnem_tensor_info info;
        mnem__transformer_matrix(map, i, &info);
        *bytes += (double)mnem__matrix_pack_bytes(&info);
    }
    mnem__transformer_map_destroy(map);
    return MNEM_OK;
}

/* In place: what each has room for becomes the part that it gets. */
static void share_out(int32_t size, double *part) {
    double sum = 0, left = 1;
    int32_t open = size;
    for (int32_t i = 0; i < size; i++) sum += part[i];
    for (int32_t i = 0; i < size && sum <= 1; i++) part[i] /= sum;
    if (sum <= 1) return;
    for (bool changed = true; changed;) { /* who has less than the same part gets what it has */
        const double same = left / open;
        changed = false;
        for (int32_t i = 0; i < size && !changed; i++)
            if (part[i] < same && part[i] >= 0) {
                left -= part[i];
                part[i] = -part[i] - 1; /* settled */
                open--;
                changed = true;
            }
    }
    for (int32_t i = 0; i < size; i++) part[i] = part[i] < 0 ? -part[i] - 1 : left / open;
}

/* Where each of size parts of n ends, in whole units, one at the least. */
static void cut_units(int32_t n, int32_t unit, int32_t size, const double *part, int32_t *end) {
    const int32_t units = units_of(n, unit);
    double before = 0, total = 0;
    int32_t at = 0;
    for (int32_t i = 0; i < size; i++) total += part[i];
    for (int32_t i = 0; i < size; i++) {
        before += part[i];
        const int32_t wanted = (int32_t)(units * before / total + 0.5);
        at = mnem__min_i32(mnem__max_i32(wanted, at + 1), units - (size - 1 - i));
        end[i] = i == size - 1 ? n : mnem__min_i32(at * unit, n);
    }
}

/* ---- parts ---- */

static void cut_span(int32_t n, int32_t unit, int32_t size, const double *part, int32_t *end,
                     mnem_row_part *parts, size_t offset) {
    cut_units(n, unit, size, part, end);
    for (int32_t i = 0; i < size; i++) {
        mnem_row_range *span = (mnem_row_range *)(void *)((uint8_t *)&parts[i] + offset);
        *span = (mnem_row_range){i ? end[i - 1] : 0, end[i]};
    }
}

/* Ranks [first, first + size) have a part of one group's heads each, and all its keys. */
static void cut_group(const heads *h, int32_t group, int32_t first, int32_t size,
                      const double *part, int32_t *end, mnem_row_part *parts) {
    cut_units(h->group, h->in_unit, size, part + first, end);
    for (int32_t i = 0; i < size; i++) {
        const int32_t begin = group * h->group;
        parts[first + i].heads = (mnem_row_range){begin + (i ? end[i - 1] : 0), begin + end[i]};
        parts[first + i].kv_heads = (mnem_row_range){group, group + 1};
    }
}

static void cut_heads(const shape *s, int32_t size, const double *part, int32_t *end,
                      mnem_row_part *parts) {
    const mnem_transformer *t = &s->t;
    const heads h = heads_of(s);
    if (size <= h.units) {
        cut_span(t->kv_heads, h.unit, size, part, end, parts, offsetof(mnem_row_part, kv_heads));
        for (int32_t i = 0; i < size; i++)
            parts[i].heads = (mnem_row_range){parts[i].kv_heads.begin * h.group,
                                              parts[i].kv_heads.end * h.group};
        return;
    }
    for (int32_t group = 0; group < t->kv_heads; group++) {
        const int32_t first = group * size / t->kv_heads;
        cut_group(&h, group, first, (group + 1) * size / t->kv_heads - first, part, end, parts);
    }
}

mnem_status mnem__ranks_rows_cut(const mnem_model *model, const mnem_engine_options *options,
                                 int32_t size, const uint64_t *room, mnem_row_part *parts) {
    shape s;
    double all = 1;
    MNEM__TRY(shape_of(model, &s));
    const mnem_transformer *t = &s.t;
    MNEM__TRY(bytes_of_all(model, options, &all));
    double *part = mnem__calloc("plan", (size_t)size, sizeof *part);
    int32_t *end = mnem__calloc("plan", (size_t)size, sizeof *end);
    const mnem_status status = part && end ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) {
        for (int32_t i = 0; i < size; i++) part[i] = room_for_parts * (double)room[i] / all;
        share_out(size, part);
        cut_heads(&s, size, part, end, parts);
        if (t->experts > 0)
            cut_span(t->experts, 1, size, part, end, parts, offsetof(mnem_row_part, experts));
        for (int32_t i = 0; i < size; i++) parts[i].ff = (mnem_row_range){0, t->ff};
        if (t->experts == 0)
            cut_span(t->ff, ff_unit(&s), size, part, end, parts, offsetof(mnem_row_part, ff));
        cut_span(t->embd, MNEM_PACK_ROWS, size, part, end, parts, offsetof(mnem_row_part, embd));
        cut_span(t->vocab, MNEM_PACK_ROWS, size, part, end, parts, offsetof(mnem_row_part, vocab));
    }
    mnem__free(part);
    mnem__free(end);
    return status;
}

/* ---- where they meet ---- */

static void add_meeting(mnem__ranks_job *job, mnem__gathers what, mnem_type type, bool last) {
    int i = 0;
    while (job->meetings[i].times + job->meetings[i].last &&
           (job->meetings[i].what != what || job->meetings[i].type != type))
        i++;
    mnem__ranks_meeting *m = &job->meetings[i];
    m->what = what;
    m->type = type;
    m->times += !last;
    m->last += last;
}

/* Before what follows attention and before down, as those read it, and behind both; of a mixture
 * before what its experts make is added up; before a norm over all heads. */
mnem_status mnem__ranks_meet(const mnem_model *model, const mnem_row_part *parts,
                             mnem__ranks_job *job) {
    mnem__transformer_map *map;
    MNEM__TRY(mnem__transformer_map_create(model, &map));
    const uint64_t row_bytes = mnem__transformer_gather_bytes(map);
    job->parts = parts;
    job->head_dim = map->shape.head_dim;
    job->slot_bytes = mnem__gather_slot(row_bytes, job->chunk, job->ranks);
    for (int32_t i = 0; i < 2 * map->shape.layers; i++) {
        const mnem__role role = i % 2 ? MNEM__ROLE_DOWN : MNEM__ROLE_O;
        const int32_t tensor = mnem__role_tensor(model, role, i / 2);
        mnem_tensor_info info;
        if (tensor < 0 || !mnem_model_tensor_get(model, (uint32_t)tensor, &info)) continue;
        const bool a8 = mnem_matmul_input(info.type) == MNEM_TYPE_A8;
        const bool last = i / 2 == map->shape.layers - 1;
        add_meeting(job, i % 2 ? MNEM__GATHERS_FF : MNEM__GATHERS_HEADS,
                    a8 ? MNEM_TYPE_A8 : MNEM_TYPE_F32, last);
        add_meeting(job, MNEM__GATHERS_HIDDEN, MNEM_TYPE_F32, last);
    }
    for (int32_t i = 0; i < map->shape.layers && map->shape.wide_qk_norm; i++) {
        add_meeting(job, MNEM__GATHERS_KEYS, MNEM_TYPE_F32, false); /* of all rows */
        add_meeting(job, MNEM__GATHERS_HEADS, MNEM_TYPE_F32, i == map->shape.layers - 1);
    }
    job->experts = map->shape.experts;
    job->expert_columns = (int64_t)map->shape.route.used * map->shape.embd;
    for (int32_t i = 0; i < map->shape.layers && job->experts > 0; i++)
        add_meeting(job, MNEM__GATHERS_EXPERTS, MNEM_TYPE_F32, i == map->shape.layers - 1);
    mnem__transformer_map_destroy(map);
    return MNEM_OK;
}
