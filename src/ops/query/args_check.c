/* args_check.c: mnem_op_check: arguments of a run, before it can go wrong.
 *
 * What lies over what is decided by the bytes from an operand's first element to its last; operands
 * with gaps may be each other's gaps, so only those without are refused. */
#include <math.h>
#include <stdio.h>

#include "base/event.h"
#include "mnem/op_query.h"
#include "ops/query/op_extent.h"

typedef struct operand {
    const mnem_tensor *tensor;
    const void *base;
    char name[12];
} operand;

static operand operand_get(const mnem_op_desc *d, const mnem_op_args *args, int i) {
    operand o = {.tensor = mnem__op_operand(d, i)};
    const int also = i - MNEM__OP_OUT - 1;
    if (i < MNEM__OP_OUT)
        o.base = args->in[i];
    else
        o.base = i == MNEM__OP_OUT ? args->out : args->also[also];
    if (i == MNEM__OP_OUT)
        snprintf(o.name, sizeof o.name, "out");
    else
        snprintf(o.name, sizeof o.name, i < MNEM__OP_OUT ? "in[%d]" : "also[%d]",
                 i < MNEM__OP_OUT ? i : also);
    return o;
}

static uint64_t alignment_of(const mnem_tensor *t) {
    const mnem_type_info *info = mnem_type_get(t->type);
    if (t->layout != MNEM_LAYOUT_ROW || t->type == MNEM_TYPE_A8) return 64;
    return info->block_elements == 1 ? info->block_bytes : 1;
}

static mnem_status check_pointer(const mnem_op *op, const operand *o) {
    if (!o->base) return mnem__op_fail(MNEM_INVALID, &op->desc, "%s must not be NULL", o->name);
    if ((uintptr_t)o->base % alignment_of(o->tensor))
        return mnem__op_fail(
            MNEM_INVALID, &op->desc,
            "%s is not aligned: its address must be a multiple of the size of its elements",
            o->name);
    return MNEM_OK;
}

static bool lie_over(const operand *a, const operand *b) {
    const char *first = (const char *)a->base + a->tensor->offset;
    const char *second = (const char *)b->base + b->tensor->offset;
    if (first == second) return true;
    if (!mnem_tensor_contiguous(a->tensor) || !mnem_tensor_contiguous(b->tensor)) return false;
    return first < second + mnem_tensor_bytes(b->tensor) &&
           second < first + mnem_tensor_bytes(a->tensor);
}

/* An output i beside every other operand. Inputs may be each other. */
static mnem_status check_overlap(const mnem_op *op, const mnem_op_args *args, int i,
                                 uint32_t in_place) {
    const operand out = operand_get(&op->desc, args, i);
    for (int j = 0; j < i; j++) {
        const operand o = operand_get(&op->desc, args, j);
        if (mnem__tensor_absent(o.tensor) || !mnem__op_reads(&op->desc, j) || !lie_over(&out, &o))
            continue;
        if (i == MNEM__OP_OUT && in_place >> j & 1 && o.base == out.base) continue;
        return mnem__op_fail(MNEM_INVALID, &op->desc, "%s must not overlap %s", out.name, o.name);
    }
    return MNEM_OK;
}

static mnem_status check_operands(const mnem_op *op, const mnem_op_args *args) {
    for (int i = 0; i < MNEM__OP_OPERANDS; i++) {
        const operand o = operand_get(&op->desc, args, i);
        if (mnem__tensor_absent(o.tensor) || !mnem__op_reads(&op->desc, i)) continue;
        MNEM__TRY(check_pointer(op, &o));
    }
    const uint32_t in_place = mnem_op_in_place(&op->desc);
    for (int i = MNEM__OP_OUT; i < MNEM__OP_OPERANDS; i++)
        if (!mnem__tensor_absent(operand_get(&op->desc, args, i).tensor))
            MNEM__TRY(check_overlap(op, args, i, in_place));
    return MNEM_OK;
}

/* ---- what operators take beside operands ---- */

static mnem_status check_numbers(const mnem_op *op, const char *name, const int32_t *numbers,
                                 int64_t n, int64_t least, int64_t below) {
    if (!numbers && n > 0)
        return mnem__op_fail(MNEM_INVALID, &op->desc, "%s must not be NULL", name);
    for (int64_t i = 0; i < n; i++)
        if (numbers[i] < least || numbers[i] >= below)
            return mnem__op_fail(MNEM_INVALID, &op->desc,
                                 "%s has %d at index %lld, expected %lld to less than %lld", name,
                                 (int)numbers[i], (long long)i, (long long)least, (long long)below);
    return MNEM_OK;
}

static mnem_status check_ids(const mnem_op *op, const mnem_op_args *args, int64_t rows) {
    if (op->desc.by_position)
        return check_numbers(op, "positions", args->positions, args->tokens, 0, rows);
    return check_numbers(op, "ids", args->ids, args->tokens, 0, rows);
}

static mnem_status check_rows(const mnem_op *op, const mnem_op_args *args) {
    const int64_t rows = op->desc.in[1].shape[0];
    if (args->row_begin < 0 || args->row_begin % MNEM_PACK_ROWS ||
        args->row_begin > args->row_end || args->row_end > rows ||
        (args->row_end % MNEM_PACK_ROWS && args->row_end != rows))
        return mnem__op_fail(
            MNEM_INVALID, &op->desc,
            "row_begin is %lld and row_end %lld, expected multiples of 16 (row_end may also be "
            "%lld, the number of rows of in[1]), and row_begin at most row_end",
            (long long)args->row_begin, (long long)args->row_end, (long long)rows);
    return MNEM_OK;
}

static mnem_status check_pages(const mnem_op *op, const mnem_op_args *args) {
    const mnem_op_desc *d = &op->desc;
    if (args->kv_count < 0 || (args->kv_count && !args->kv))
        return mnem__op_fail(MNEM_INVALID, &op->desc, "kv must not be NULL");
    for (int32_t i = 0; i < args->kv_count; i++) {
        const mnem_kv_sequence *s = &args->kv[i];
        if (s->rows == 0) continue;
        if (!s->base || !s->table)
            return mnem__op_fail(MNEM_INVALID, &op->desc,
                                 "base or table of kv[%d] is NULL; set both", (int)i);
        if (s->first_row < 0 || s->rows < 0 || s->first_row > args->tokens - s->rows)
            return mnem__op_fail(MNEM_INVALID, &op->desc,
                                 "first_row of kv[%d] is %d and rows %d, expected 0 or more, and "
                                 "at most args.tokens (%lld) together",
                                 (int)i, (int)s->first_row, (int)s->rows, (long long)args->tokens);
        if (s->first_position < 0 ||
            (mnem__op_reads_pages(d->kind) && s->first_position > d->max_positions - s->rows))
            return mnem__op_fail(MNEM_INVALID, &op->desc,
                                 "positions of kv[%d] are negative or reach beyond max_positions",
                                 (int)i);
    }
    return MNEM_OK;
}

/* Of operators with low-rank products. */
static mnem_status check_low(const mnem_op *op, const mnem_op_args *args) {
    const mnem_low_rank_run *low = args->low;
    return op->desc.low_count == 0 || (low && (low->count == 0 || low->list))
               ? MNEM_OK
               : mnem__op_fail(MNEM_INVALID, &op->desc, "low must not be NULL");
}

static mnem_status check_others(const mnem_op *op, const mnem_op_args *args) {
    const mnem_op_desc *d = &op->desc;
    switch (d->kind) {
    case MNEM_OP_EMBED: return check_ids(op, args, d->in[0].shape[0]);
    case MNEM_OP_EMBED_GRAD: return d->by_token ? MNEM_OK : check_ids(op, args, d->out.shape[0]);
    case MNEM_OP_ROPE_TABLE:
        return check_numbers(op, "positions", args->positions, args->tokens, 0, INT32_MAX);
    case MNEM_OP_STATE_LOSS:
    case MNEM_OP_STATE_LOSS_GRAD:
        if (!isfinite(args->gradient_scale))
            return mnem__op_fail(MNEM_INVALID, &op->desc,
                                 "gradient_scale is NaN or infinite, expected a finite number");
        return check_numbers(op, "targets", args->targets, args->tokens, -1, INT32_MAX);
    case MNEM_OP_LINEAR_LOSS:
        if (!isfinite(args->gradient_scale))
            return mnem__op_fail(MNEM_INVALID, &op->desc,
                                 "gradient_scale is NaN or infinite, expected a finite number");
        return check_numbers(op, "targets", args->targets, args->tokens, -1, d->in[1].shape[0]);
    case MNEM_OP_MATMUL: MNEM__TRY(check_low(op, args)); return check_rows(op, args);
    case MNEM_OP_KV_STORE:
    case MNEM_OP_SHORT_CONV:
    case MNEM_OP_CONV_SILU:
    case MNEM_OP_DELTA:
    case MNEM_OP_SCAN:
    case MNEM_OP_INDEX_STORE:
    case MNEM_OP_INDEX:
    case MNEM_OP_ATTENTION: return check_pages(op, args);
    case MNEM_OP_LOW_RANK: return check_low(op, args);
    case MNEM_OP_EXPERTS:
        return args->experts ? MNEM_OK
                             : mnem__op_fail(MNEM_INVALID, &op->desc, "experts must not be NULL");
    default: return MNEM_OK;
    }
}

mnem_status mnem_op_check(const mnem_op *op, const mnem_op_args *args, int32_t workers) {
    const mnem_tensor *counted = mnem__op_counted(&op->desc);
    if (workers < 1 || workers > op->desc.workers)
        return mnem__op_fail(MNEM_INVALID, &op->desc,
                             "the team has %d threads, expected 1 to %d, the desc.workers that the "
                             "operator was prepared for",
                             (int)workers, (int)op->desc.workers);
    if (counted && (args->tokens < 0 || args->tokens > counted->shape[0]))
        return mnem__op_fail(MNEM_INVALID, &op->desc,
                             "tokens is %lld, expected 0 to %lld, the number of rows that the "
                             "operator was prepared for",
                             (long long)args->tokens, (long long)counted->shape[0]);
    if (op->workspace_bytes && (!args->workspace || (uintptr_t)args->workspace % 64))
        return mnem__op_fail(MNEM_INVALID, &op->desc,
                             "workspace must not be NULL, and must be aligned to 64 bytes");
    MNEM__TRY(check_operands(op, args));
    MNEM__TRY(check_others(op, args));
    if (op->workspace_bytes)
        mnem__event_say(MNEM__EVENT_COUNTER, MNEM__OWNER_FIXED, MNEM__FIXED_WORKSPACE, 0,
                        "workspace used", NULL, op->workspace_bytes);
    return MNEM_OK;
}
