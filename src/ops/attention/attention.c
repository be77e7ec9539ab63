/* attention.c: ATTENTION: cuts a run into units (attention_kernels.h) and deals them to the team.
 *
 * A unit is one KV head of one sequence for as many consecutive tokens as make about 96 rows, so
 * that a tile of keys and values, once in the first cache, serves them all. A row's result depends
 * on nothing but its query, its position and the pages.
 *
 * Many rows (prompts): units are dealt in turn, heads first, so that members get the same mixture
 * of short and long (causal) ones. Few rows (generation): all units are laid end to end by their
 * work, and each member takes an equal share. Shares begin at segments, so a border inside a unit
 * cuts it; its segments' results go to the workspace, and after a barrier one member adds them up.
 *
 *     units    | sequence 0, head 0 |  head 1  | sequence 1, head 0 |  head 1  |
 *     members  |       0       |       1       |       2       |       3       |
 *                              cut             cut             cut
 *
 * Cost: 2 d multiply-adds per query head, position before it and token. The workspace is one
 * scratch for each member, and the results of a unit's segments for each border between two: at
 * most 33 for each row, whatever the context. */
#include <string.h>

#include "ops/attention/attention_kernels.h"
#include "ops/core/op_rows.h"

static const float log2_e = 0x1.715476p+0f;

static int64_t group_of(const mnem_op_desc *desc) {
    return desc->in[0].shape[1] / desc->kv.kv_heads;
}

static bool chooses(const mnem_op_desc *desc) {
    return !mnem__tensor_absent(&desc->in[2]);
}

/* Each token chooses for itself. */
static int64_t unit_tokens(const mnem_op_desc *desc) {
    if (chooses(desc)) return 1;
    const int64_t tokens = MNEM__ATTENTION_ROWS / group_of(desc);
    return tokens > 0 ? tokens : 1;
}

/* A8 out, and a group's heads aren't whole blocks of 32: made f32 first, quantized at the end. */
static bool staged(const mnem_op_desc *desc) {
    const int64_t d = mnem__kv_value_dim(&desc->kv);
    return desc->out.type == MNEM_TYPE_A8 && (d % 16 != 0 || d * group_of(desc) % 32 != 0);
}

static uint64_t staged_bytes(const mnem_op_desc *desc) {
    const int64_t rows = desc->in[0].shape[0] * desc->in[0].shape[1];
    if (!staged(desc)) return 0;
    return mnem__align_up((uint64_t)(rows * mnem__kv_value_dim(&desc->kv)) * sizeof(float), 64);
}

/* n bytes at *at, aligned; NULL while measuring. */
static void *carve(char *start, uint64_t *at, int64_t n) {
    uint64_t offset = *at;
    *at += mnem__align_up((uint64_t)n, 64);
    return start ? start + offset : NULL;
}

mnem__attention_scratch mnem__attention_scratch_get(const mnem_kv_layout *layout, int64_t rows,
                                                    bool gathers, void *start) {
    const mnem__kv_block block = mnem__kv_block_get(layout);
    const mnem_type keys = layout->type, values = mnem__kv_value_type(layout);
    const int64_t d = block.head_dim, scales = d / MNEM__KV_SCALE, tile = MNEM__ATTENTION_TILE;
    const int64_t value_scales = block.value_dim / MNEM__KV_SCALE;
    mnem__attention_scratch s = {0};
    s.query = carve(start, &s.bytes, rows * d * 4);
    s.acc = carve(start, &s.bytes, rows * block.value_padded * 4);
    s.sum = carve(start, &s.bytes, rows * MNEM__KV_BLOCK * 4);
    s.max = carve(start, &s.bytes, rows * 4);
    s.result = carve(start, &s.bytes, rows * mnem__attention_part_floats(&block) * 4);
    s.begin = carve(start, &s.bytes, rows * 4);
    s.position = carve(start, &s.bytes, rows * 4);
    s.segment = carve(start, &s.bytes, rows * 4);
    s.p = carve(start, &s.bytes, MNEM__ATTENTION_STEP_ROWS * tile * 4);
    if (mnem__kv_is_scaled(keys)) {
        s.query_q8 = carve(start, &s.bytes, rows * d);
        s.query_scale = carve(start, &s.bytes, rows * scales * 4);
        s.query_sum = carve(start, &s.bytes, rows * scales * 4);
    }
    if (mnem__kv_is_scaled(values)) {
        s.value_scale = carve(start, &s.bytes, value_scales * tile * 4);
        s.value_by = carve(start, &s.bytes, value_scales * tile * 4);
        s.value_max = carve(start, &s.bytes, value_scales * 4);
        s.words = carve(start, &s.bytes, value_scales * MNEM__ATTENTION_STEP_ROWS * tile * 2);
    }
    const bool expands = rows >= MNEM__ATTENTION_EXPAND_ROWS;
    if (expands && keys == MNEM_TYPE_F16) s.keys = carve(start, &s.bytes, tile * d * 4);
    if (expands && values == MNEM_TYPE_F16)
        s.values = carve(start, &s.bytes, tile * block.value_padded * 4);
    if (mnem__kv_has_q4(layout))
        s.wide =
            carve(start, &s.bytes, MNEM__ATTENTION_TILE_BLOCKS * mnem__kv_block_wide(layout).bytes);
    if (gathers) s.gathered = carve(start, &s.bytes, MNEM__ATTENTION_TILE_BLOCKS * block.bytes);
    return s;
}

/* Rows of the largest unit. */
static int64_t scratch_rows(const mnem_op_desc *desc) {
    const int64_t tokens = unit_tokens(desc), most = desc->in[0].shape[0];
    return (tokens < most ? tokens : most) * group_of(desc);
}

/* The results of one cut unit's segments: of rows that see at most so many positions. */
typedef struct cut_area {
    int64_t seen, slots; /* slots: segments of a row; 0: no unit is cut */
    uint64_t bytes;
} cut_area;

static cut_area cut_area_of(const mnem_op_desc *desc) {
    const mnem__kv_block block = mnem__kv_block_get(&desc->kv);
    int64_t rows = MNEM__ATTENTION_CUT_ROWS / group_of(desc) * group_of(desc);
    cut_area area = {.seen = desc->max_positions};
    if (rows > scratch_rows(desc)) rows = scratch_rows(desc);
    if (desc->window > 0 && desc->window < area.seen) area.seen = desc->window;
    int64_t most = (area.seen + MNEM__ATTENTION_SEGMENT - 1) / MNEM__ATTENTION_SEGMENT;
    if (most > MNEM__ATTENTION_SEGMENTS) most = MNEM__ATTENTION_SEGMENTS;
    if (rows == 0 || most == 1) return area;
    area.slots = most + (desc->window > 0); /* a window may begin inside a segment */
    const int64_t floats = rows * area.slots * mnem__attention_part_floats(&block);
    area.bytes = mnem__align_up((uint64_t)floats * sizeof(float), 64);
    return area;
}

static uint64_t scratch_bytes(const mnem_op_desc *desc) {
    return mnem__attention_scratch_get(&desc->kv, scratch_rows(desc), chooses(desc), NULL).bytes;
}

/* Of all members: staged results, scratches, areas of cut units. */
static uint64_t workspace(const mnem_op *op) {
    const mnem_op_desc *desc = &op->desc;
    const uint64_t workers = (uint64_t)desc->workers;
    return staged_bytes(desc) + scratch_bytes(desc) * workers +
           cut_area_of(desc).bytes * (workers - 1);
}

static mnem_status check_out(const mnem_op_desc *desc) {
    const mnem_tensor *queries = &desc->in[0], *out = &desc->out;
    const int64_t tokens = queries->shape[0], heads = queries->shape[1];
    const int64_t width = mnem__kv_value_dim(&desc->kv);
    if (out->type == MNEM_TYPE_A8 && mnem__op_is_a8(out, tokens, heads * width)) return MNEM_OK;
    if (mnem__tensor_is_f32(out, 3) && out->shape[0] == tokens && out->shape[1] == heads &&
        out->shape[2] == width)
        return MNEM_OK;
    return mnem__op_fail(MNEM_INVALID, desc,
                         "out must be F32 [T, heads, %d] or A8 [T, heads * %d], with the T and "
                         "heads of in[0]",
                         (int)width, (int)width);
}

static mnem_status check_attention(const mnem_op_desc *desc) {
    const mnem_tensor *queries = &desc->in[0];
    const char *wrong = mnem__kv_layout_wrong(&desc->kv);
    if (wrong) return mnem__op_fail(MNEM_INVALID, desc, "%s", wrong);
    if (!mnem__tensor_is_f32(queries, 3) || queries->shape[2] != desc->kv.head_dim)
        return mnem__op_fail(
            MNEM_INVALID, desc,
            "in[0] must be F32 [T, heads, head_dim], with the head_dim of desc.kv, %d",
            (int)desc->kv.head_dim);
    if (queries->shape[1] % desc->kv.kv_heads != 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "the number of heads (dimension 1 of in[0]) must be a multiple of "
                             "desc.kv.kv_heads, which is %d",
                             (int)desc->kv.kv_heads);
    if (!(desc->scale > 0.0f && desc->scale < 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "scale is %g, expected more than 0 and less than 1e6",
                             (double)desc->scale);
    if (!(desc->soft_cap >= 0.0f && desc->soft_cap < 1e6f))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "soft_cap is %g, expected 0 (off), or more than 0 and less than 1e6",
                             (double)desc->soft_cap);
    if (!mnem__tensor_absent(&desc->in[1]) &&
        (!mnem__tensor_is_f32(&desc->in[1], 1) || desc->in[1].shape[0] != queries->shape[1]))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[1] must be F32 [heads], with the heads (dimension 1) of in[0]");
    if (!(desc->temperature >= 0.0f && desc->temperature <= 1e6f) ||
        (desc->temperature > 0.0f && desc->temperature_every <= 0))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "temperature is %g and temperature_every %d, expected 0 for both "
                             "(off), or more than 0 for both",
                             (double)desc->temperature, (int)desc->temperature_every);
    if (desc->window < 0)
        return mnem__op_fail(MNEM_INVALID, desc, "window is %d, expected 0 (off) or more",
                             (int)desc->window);
    if (desc->both_ways && desc->window > 0)
        return mnem__op_fail(MNEM_INVALID, desc,
                             "window (%d) and both_ways can't be combined; set one of them to 0",
                             (int)desc->window);
    if (chooses(desc) && !mnem__op_is_choice(&desc->in[2], queries->shape[0]))
        return mnem__op_fail(MNEM_INVALID, desc, "in[2] must be I32 [T, k], with the T of in[0]");
    if (chooses(desc) && (desc->window > 0 || desc->both_ways))
        return mnem__op_fail(MNEM_INVALID, desc,
                             "in[2] can't be combined with window or both_ways; set both to 0");
    if (desc->max_positions <= 0)
        return mnem__op_fail(MNEM_INVALID, desc, "max_positions is %d, expected 1 or more",
                             (int)desc->max_positions);
    return check_out(desc);
}

/* Where the units' f32 results go: out, or the workspace before it is quantized. */
static mnem__op_rows results(const mnem_op *op, const mnem_op_args *args) {
    const int64_t heads = op->desc.in[0].shape[1], d = mnem__kv_value_dim(&op->desc.kv);
    if (!staged(&op->desc)) return mnem__op_rows_get(&op->desc.out, args->out);
    return (mnem__op_rows){
        .heads = heads, .n = d, .token = heads * d * 4, .head = d * 4, .base = args->workspace};
}

static void quantize(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem__attention_kernels *kernels = op->detail;
    const mnem__op_rows from = results(op, args), to = mnem__op_rows_get(&op->desc.out, args->out);
    const int64_t blocks = (to.n + 31) / 32;
    int64_t begin, end;
    mnem_team_split(worker, args->tokens, 1, &begin, &end);
    for (int64_t t = begin; t < end; t++)
        kernels->quantize(mnem__op_row(&from, t, 0), to.n, 0, blocks, mnem__op_row(&to, t, 0));
}

/* How many parts a group of heads is cut into, so that a run of few units keeps a large team busy
 * (each part reads the pages again). Parts of an A8 row are whole blocks. */
static int64_t group_parts(const mnem_op_desc *desc, int64_t units, int64_t members) {
    const int64_t group = group_of(desc);
    if (units == 0 || units % members == 0 || units >= 4 * members) return 1;
    if (desc->out.type == MNEM_TYPE_A8 && !staged(desc) && mnem__kv_value_dim(&desc->kv) % 32 != 0)
        return 1;
    const int64_t parts = (2 * members + units - 1) / units;
    return parts < group ? parts : group;
}

static int64_t count_units(const mnem_op *op, const mnem_op_args *args) {
    const int64_t step = unit_tokens(&op->desc);
    int64_t units = 0;
    for (int32_t s = 0; s < args->kv_count; s++)
        if (args->kv[s].rows > 0) units += (args->kv[s].rows + step - 1) / step;
    return units * op->desc.kv.kv_heads;
}

/* The last position that a sequence's row sees; of chosen ones: its index. */
static int64_t last_of(const mnem_op_desc *desc, const mnem_kv_sequence *sequence, int64_t row) {
    const int64_t own = (int64_t)sequence->first_position + row;
    if (desc->both_ways) return (int64_t)sequence->first_position + sequence->rows - 1;
    return chooses(desc) && own >= desc->in[2].shape[1] ? desc->in[2].shape[1] - 1 : own;
}

/* What a row chose; NULL: it sees all. */
static const int32_t *chosen_by(const mnem_op_desc *desc, const mnem_op_args *args, int64_t row,
                                int64_t position) {
    const mnem_tensor *in = &desc->in[2];
    if (!chooses(desc) || position < in->shape[1]) return NULL;
    const char *of = (const char *)args->in[2] + in->offset + row * in->stride[0];
    return (const int32_t *)(const void *)of;
}

/* The unit of a sequence's rows from first on, for group heads from head on. */
static mnem__attention_unit unit_of(const mnem_op *op, const mnem_op_args *args,
                                    const mnem_kv_sequence *sequence, int64_t first, int64_t head,
                                    int64_t group) {
    const mnem__attention_kernels *kernels = op->detail;
    const mnem_op_desc *desc = &op->desc;
    const mnem__op_rows in = mnem__op_rows_get(&desc->in[0], args->in[0]), out = results(op, args);
    const mnem_tensor *sinks = &desc->in[1];
    const bool quantized = desc->out.type == MNEM_TYPE_A8 && !staged(desc);
    const int64_t step = unit_tokens(desc), rest = sequence->rows - first;
    const int64_t row = sequence->first_row + first;
    return (mnem__attention_unit){
        .layout = &desc->kv,
        .sequence = sequence,
        .kv_head = head / group_of(desc),
        .group = group,
        .first = first,
        .tokens = rest < step ? rest : step,
        .scale = desc->scale * log2_e,
        .soft_cap = desc->soft_cap * log2_e,
        .sinks =
            mnem__tensor_absent(sinks)
                ? NULL
                : (const float *)(const void *)((const char *)args->in[1] + sinks->offset) + head,
        .chosen = chosen_by(desc, args, row, sequence->first_position + first),
        .chosen_count = chooses(desc) ? desc->in[2].shape[1] : 0,
        .temperature = desc->temperature,
        .temperature_every = desc->temperature_every,
        .window = desc->window,
        .chunks = desc->window_chunks,
        .from_1 = desc->temperature_from_1,
        .both_ways = desc->both_ways,
        .end = INT64_MAX,
        .query = mnem__op_row(&in, row, head),
        .query_token = in.token,
        .query_head = in.head,
        .out = mnem__op_row(&out, row, quantized ? 0 : head),
        .out_token = out.token,
        .out_head = out.head,
        .quantize = quantized ? kernels->quantize : NULL,
        .out_width = desc->in[0].shape[1] * mnem__kv_value_dim(&desc->kv),
        .out_first = head * mnem__kv_value_dim(&desc->kv),
    };
}

static void run_units(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker,
                      const mnem__attention_scratch *scratch) {
    const mnem__attention_kernels *kernels = op->detail;
    const int64_t heads = op->desc.in[0].shape[1], step = unit_tokens(&op->desc);
    const int64_t parts = group_parts(&op->desc, count_units(op, args), worker->count);
    const int64_t group = group_of(&op->desc), part = (group + parts - 1) / parts;
    int64_t index = 0;
    for (int32_t s = 0; s < args->kv_count; s++)
        for (int64_t first = 0; first < args->kv[s].rows; first += step)
            for (int64_t head = 0; head < heads; index++) {
                const int64_t end = (head / group + 1) * group; /* of this KV head's */
                const int64_t n = end - head < part ? end - head : part;
                if (index % worker->count == worker->index) {
                    const mnem__attention_unit unit =
                        unit_of(op, args, &args->kv[s], first, head, n);
                    kernels->attend(&unit, scratch);
                }
                head += n;
            }
}

/* ---- equal shares ---- */

/* What the rows of a unit see: all together, the most of one, and the longest of their segments. */
typedef struct unit_span {
    int64_t rows, begin, end, seen, segment;
    int64_t tile_work, work;
} unit_span;

static unit_span span_of(const mnem_op_desc *desc, const mnem_kv_sequence *sequence,
                         int64_t first) {
    const int64_t tile = MNEM__ATTENTION_TILE, step = unit_tokens(desc);
    const int64_t rest = sequence->rows - first, tokens = rest < step ? rest : step;
    unit_span span = {.begin = INT64_MAX, .rows = tokens * group_of(desc)};
    for (int64_t t = first; t < first + tokens; t++) {
        int64_t begin, end;
        mnem__attention_sees(last_of(desc, sequence, t), desc->window, desc->window_chunks, &begin,
                             &end);
        if (begin < span.begin) span.begin = begin;
        if (end > span.end) span.end = end;
        if (end - begin > span.seen) span.seen = end - begin;
    }
    span.segment = mnem__attention_segment(span.seen);
    span.tile_work = 8 + span.rows;
    span.work = ((span.end + tile - 1) / tile - span.begin / tile) * span.tile_work;
    return span;
}

/* Where a border cuts a unit that has so much work before it: at a multiple of its segment, or at
 * one of its ends. */
static int64_t border_in(const unit_span *span, int64_t work) {
    if (work <= 0) return span->begin;
    if (work >= span->work) return span->end;
    const int64_t position = span->begin + work / span->tile_work * MNEM__ATTENTION_TILE;
    const int64_t nearest = (position + span->segment / 2) / span->segment * span->segment;
    return nearest < span->begin ? span->begin : nearest > span->end ? span->end : nearest;
}

/* A member's part of a unit, and the number of the first border inside it; 0: it isn't cut. */
typedef struct unit_cut {
    int64_t begin, end, border;
} unit_cut;

/* before: the work of the units before this one. */
static unit_cut cut_of(const unit_span *span, int64_t before, int64_t total,
                       const mnem_worker *worker) {
    const int64_t count = worker->count, index = worker->index;
    unit_cut cut = {.begin = border_in(span, total * index / count - before),
                    .end = border_in(span, total * (index + 1) / count - before)};
    for (int64_t i = before * count / total + 1; i < count && cut.border == 0; i++) {
        const int64_t at = border_in(span, total * i / count - before);
        if (at >= span->end) break;
        if (at > span->begin) cut.border = i;
    }
    return cut;
}

/* A run by equal shares: the same for every member. */
typedef struct shares {
    const mnem_op *op;
    const mnem_op_args *args;
    const mnem_worker *worker;
    const mnem__attention_scratch *scratch;
    cut_area area;
    char *areas; /* of the borders from 1 on */
    int64_t total, segments;
    bool few;  /* every unit has few enough rows to be cut */
    bool cuts; /* one is */
} shares;

/* A unit's sequence, its first row there, and its first head; the work of the units before it. */
typedef struct unit_place {
    int32_t sequence;
    int64_t first, head, before;
} unit_place;

typedef void visit_unit(shares *s, const unit_place *at, const unit_span *span);

static void visit_units(shares *all, visit_unit *visit) {
    const mnem_op_desc *desc = &all->op->desc;
    const int64_t step = unit_tokens(desc), group = group_of(desc);
    unit_place at = {0};
    for (; at.sequence < all->args->kv_count; at.sequence++) {
        const mnem_kv_sequence *sequence = &all->args->kv[at.sequence];
        for (at.first = 0; at.first < sequence->rows; at.first += step) {
            const unit_span span = span_of(desc, sequence, at.first);
            for (at.head = 0; at.head < desc->in[0].shape[1]; at.head += group) {
                visit(all, &at, &span);
                at.before += span.work;
            }
        }
    }
}

static void add_work(shares *s, const unit_place *at, const unit_span *span) {
    s->total = at->before + span->work;
    s->segments += (span->end - span->begin + span->segment - 1) / span->segment;
    if (span->rows > MNEM__ATTENTION_CUT_ROWS || span->seen > s->area.seen) s->few = false;
}

/* The unit; a cut one with the place for its parts. */
static mnem__attention_unit unit_at(const shares *s, const unit_place *at, int64_t border) {
    mnem__attention_unit unit = unit_of(s->op, s->args, &s->args->kv[at->sequence], at->first,
                                        at->head, group_of(&s->op->desc));
    if (border == 0) return unit;
    unit.parts = (float *)(void *)(s->areas + (uint64_t)(border - 1) * s->area.bytes);
    unit.slots = s->area.slots;
    return unit;
}

static void attend_share(shares *s, const unit_place *at, const unit_span *span) {
    const mnem__attention_kernels *kernels = s->op->detail;
    const unit_cut cut = cut_of(span, at->before, s->total, s->worker);
    if (cut.border) s->cuts = true;
    if (cut.begin >= cut.end) return;
    mnem__attention_unit unit = unit_at(s, at, cut.border);
    if (cut.begin > span->begin) unit.begin = cut.begin;
    unit.end = cut.end;
    kernels->attend(&unit, s->scratch);
}

static void merge_cut(shares *s, const unit_place *at, const unit_span *span) {
    const mnem__attention_kernels *kernels = s->op->detail;
    const unit_cut cut = cut_of(span, at->before, s->total, s->worker);
    if (cut.border == 0 || cut.border % s->worker->count != s->worker->index) return;
    const mnem__attention_unit unit = unit_at(s, at, cut.border);
    kernels->merge(&unit, s->scratch);
}

/* Whether the run is cut into equal shares: else there are many rows, or too few segments. */
static bool run_shares(shares *s) {
    if (s->worker->count == 1 || s->area.slots == 0) return false;
    visit_units(s, add_work);
    if (!s->few || s->segments < 2 * s->worker->count) return false;
    visit_units(s, attend_share);
    if (!s->cuts) return true;
    mnem_team_barrier(s->worker);
    visit_units(s, merge_cut);
    return true;
}

static void run_attention(const mnem_op *op, const mnem_op_args *args, const mnem_worker *worker) {
    const mnem_op_desc *desc = &op->desc;
    const uint64_t one = scratch_bytes(desc);
    char *start = (char *)args->workspace + staged_bytes(desc);
    const mnem__attention_scratch scratch = mnem__attention_scratch_get(
        &desc->kv, scratch_rows(desc), chooses(desc), start + (uint64_t)worker->index * one);
    shares by_work = {.op = op,
                      .args = args,
                      .worker = worker,
                      .scratch = &scratch,
                      .area = cut_area_of(desc),
                      .areas = start + (uint64_t)desc->workers * one,
                      .few = true};
    if (!run_shares(&by_work)) run_units(op, args, worker, &scratch);
    if (!staged(desc)) return;
    mnem_team_barrier(worker);
    quantize(op, args, worker);
}

MNEM__KV_KERNELS("attention", run_attention)

const mnem__op_table mnem__op_attention = {.check = check_attention,
                                           .key = mnem__kv_key,
                                           .workspace = workspace,
                                           .levels = MNEM__OP_LISTS(kernels)};
