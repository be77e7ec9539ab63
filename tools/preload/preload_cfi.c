/* preload_cfi.c: how the caller's frame is found from an address: the rule that .eh_frame has.
 *
 * Idea: .eh_frame_hdr is a sorted table of functions. The function's entry and its common one are
 * small programs over a table "register -> where it was saved"; they are run up to the address.
 * Only what a stack needs is kept: where the frame begins (CFA) and where the frame pointer was
 * saved; the return address has to lie below the CFA, as it does in all compiled code.
 * Invariant: nothing outside [start, end) is read; what isn't understood is the rule CHAIN.
 * Cost: some hundred instructions; once for each address (preload_unwind.c). x86-64 only. */
#include "preload.h"

#include <string.h>

enum { REG_FP = 6, REG_SP = 7, REG_RETURN = 16, DEPTH = 8 };
enum { ENC_OMIT = 0xff, ENC_PCREL = 0x10, ENC_DATAREL_S4 = 0x3b };

typedef struct reader {
    const uint8_t *at, *end;
    const uint8_t *start, *last; /* the module */
    bool bad;
} reader;

typedef struct cfi_row {
    preload_cfa cfa;
    int64_t cfa_offset;
    preload_saved fp;
    int64_t fp_offset;
    int64_t return_offset;
    bool return_known, first; /* first: no caller */
} cfi_row;

typedef struct entry { /* of a function, and what it has in common with others */
    reader common, own;
    uint64_t code_factor;
    int64_t data_factor;
    uint8_t encoding;
    bool augmented;
    uintptr_t begin, bytes;
} entry;

/* ---- numbers ---- */

static uint64_t take_number(reader *r, int bytes) {
    uint64_t value = 0;
    if (r->bad || r->end - r->at < bytes) {
        r->bad = true;
        return 0;
    }
    for (int i = 0; i < bytes; i++) value |= (uint64_t)r->at[i] << (8 * i);
    r->at += bytes;
    return value;
}

static uint64_t take_uleb(reader *r) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        const uint64_t byte = take_number(r, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        if (!(byte & 0x80) || r->bad) return value;
    }
}

static int64_t take_sleb(reader *r) {
    uint64_t value = 0;
    for (int shift = 0;;) {
        const uint64_t byte = take_number(r, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80 && !r->bad) continue;
        if (shift < 64 && byte & 0x40) value |= ~UINT64_C(0) << shift;
        return (int64_t)value;
    }
}

static void skip(reader *r, uint64_t bytes) {
    if (bytes > (uint64_t)(r->end - r->at))
        r->bad = true;
    else
        r->at += bytes;
}

/* An address as its encoding says; relative ones to where it stands. */
static uintptr_t take_address(reader *r, uint8_t encoding) {
    const uintptr_t here = (uintptr_t)r->at;
    uint64_t value = 0;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c: value = take_number(r, 8); break;
    case 0x02: value = take_number(r, 2); break;
    case 0x0a: value = (uint64_t)(int64_t)(int16_t)take_number(r, 2); break;
    case 0x03: value = take_number(r, 4); break;
    case 0x0b: value = (uint64_t)(int64_t)(int32_t)take_number(r, 4); break;
    default: r->bad = true;
    }
    const uint8_t base = encoding & 0x70;
    if (encoding & 0x80 || (base && base != ENC_PCREL)) r->bad = true;
    return (uintptr_t)value + (base ? here : 0);
}

/* ---- entries ---- */

/* What follows a length of four bytes; r stands there. */
static reader take_entry(reader *r) {
    const uint64_t length = take_number(r, 4);
    reader inner = *r;
    if (!length || length >= 0xfffffff0 || length > (uint64_t)(r->end - r->at))
        inner.bad = true;
    else
        inner.end = r->at + length;
    return inner;
}

static bool read_common(entry *e, reader r) {
    r = take_entry(&r);
    if (take_number(&r, 4) != 0) return false;
    const uint64_t version = take_number(&r, 1);
    char augmentation[8] = "";
    size_t n = 0;
    for (uint64_t c; (c = take_number(&r, 1)) != 0 && n < sizeof augmentation - 1;)
        augmentation[n++] = (char)c;
    if ((version != 1 && version != 3) || (n && augmentation[0] != 'z')) return false;
    e->code_factor = take_uleb(&r);
    e->data_factor = take_sleb(&r);
    if ((version == 1 ? take_number(&r, 1) : take_uleb(&r)) != REG_RETURN) return false;
    e->augmented = n > 0;
    if (n) {
        const uint64_t length = take_uleb(&r);
        reader after = r;
        skip(&after, length);
        for (size_t i = 1; i < n; i++) {
            if (augmentation[i] == 'R') e->encoding = (uint8_t)take_number(&r, 1);
            if (augmentation[i] == 'L') take_number(&r, 1);
            if (augmentation[i] == 'P') {
                const uint8_t encoding = (uint8_t)take_number(&r, 1);
                take_address(&r, encoding & 0x7f);
            }
        }
        if (r.bad) return false;
        r = after;
    }
    e->common = r;
    return !r.bad;
}

static bool read_entry(entry *e, reader r) {
    r = take_entry(&r);
    const uint8_t *field = r.at;
    const uint64_t back = take_number(&r, 4);
    if (r.bad || !back || back > (uint64_t)(field - r.start)) return false;
    if (!read_common(e, (reader){field - back, r.last, r.start, r.last, false})) return false;
    e->begin = take_address(&r, e->encoding);
    e->bytes = take_address(&r, e->encoding & 0x0f);
    if (e->augmented) skip(&r, take_uleb(&r));
    e->own = r;
    return !r.bad;
}

/* The last function of the sorted table that begins at or before pc. */
static bool find_entry(const uint8_t *header, const uint8_t *start, const uint8_t *end,
                       uintptr_t pc, entry *e) {
    reader r = {header, end, start, end, header < start || header >= end};
    const uint64_t version = take_number(&r, 1), frame = take_number(&r, 1),
                   counted = take_number(&r, 1);
    const uint64_t table = take_number(&r, 1);
    if (r.bad || version != 1 || counted == ENC_OMIT || table != ENC_DATAREL_S4) return false;
    take_address(&r, (uint8_t)frame);
    const uint64_t count = take_address(&r, (uint8_t)counted);
    if (r.bad || !count || count > (uint64_t)(end - r.at) / 8) return false;
    uint64_t low = 0, high = count; /* the answer is in [low, high) */
    int32_t pair[2];
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        memcpy(pair, r.at + middle * 8, sizeof pair);
        if ((uintptr_t)header + (uintptr_t)(intptr_t)pair[0] <= pc)
            low = middle;
        else
            high = middle;
    }
    memcpy(pair, r.at + low * 8, sizeof pair);
    const uintptr_t at = (uintptr_t)header + (uintptr_t)(intptr_t)pair[1];
    if (at < (uintptr_t)start || at >= (uintptr_t)end) return false;
    return read_entry(e, (reader){start + (at - (uintptr_t)start), end, start, end, false}) &&
           pc >= e->begin && pc - e->begin < e->bytes;
}

/* ---- programs ---- */

static void frame_begin(cfi_row *row, uint64_t reg, int64_t offset) {
    row->cfa = reg == REG_SP ? PRELOAD_CFA_SP : reg == REG_FP ? PRELOAD_CFA_FP : PRELOAD_CFA_CHAIN;
    row->cfa_offset = offset;
}

/* An expression that is "what register fp + a number points to", or just that address. */
static bool simple_expression(reader *r, bool follow, int64_t *offset) {
    enum { OP_BREG_FP = 0x70 + REG_FP, OP_DEREF = 0x06 };
    const uint64_t length = take_uleb(r);
    reader in = *r;
    skip(r, length);
    if (r->bad) return false;
    in.end = r->at;
    if (take_number(&in, 1) != OP_BREG_FP) return false;
    *offset = take_sleb(&in);
    if (follow && take_number(&in, 1) != OP_DEREF) return false;
    return !in.bad && in.at == in.end;
}

static void saved_at(cfi_row *row, uint64_t reg, int64_t offset) {
    if (reg == REG_FP) {
        row->fp = PRELOAD_FP_AT_CFA;
        row->fp_offset = offset;
    } else if (reg == REG_RETURN) {
        row->return_known = true;
        row->return_offset = offset;
    }
}

static void saved_not(cfi_row *row, const cfi_row *initial, uint64_t reg, bool undefined) {
    if (reg == REG_FP) {
        row->fp = initial ? initial->fp : PRELOAD_FP_KEPT;
        row->fp_offset = initial ? initial->fp_offset : 0;
    }
    if (reg == REG_RETURN && undefined) row->first = true;
}

static void op_expression(cfi_row *row, reader *r, uint64_t reg) {
    int64_t offset;
    const bool simple = simple_expression(r, false, &offset);
    if (reg == REG_RETURN) row->return_known = false;
    if (reg != REG_FP) return;
    row->fp = PRELOAD_FP_AT_FP;
    row->fp_offset = offset;
    if (!simple) row->cfa = PRELOAD_CFA_CHAIN;
}

/* Operations with an operand in a byte of their own; false: not known. */
static bool run_op(const entry *e, cfi_row *row, const cfi_row *initial, reader *r, uint64_t op) {
    int64_t offset;
    uint64_t reg;
    switch (op) {
    case 0x00: return true;
    case 0x05:
        reg = take_uleb(r), saved_at(row, reg, (int64_t)take_uleb(r) * e->data_factor);
        return true;
    case 0x06: saved_not(row, initial, take_uleb(r), false); return true;
    case 0x07: saved_not(row, NULL, take_uleb(r), true); return true;
    case 0x08: saved_not(row, NULL, take_uleb(r), false); return true;
    case 0x09:
        if (take_uleb(r) == REG_FP) row->cfa = PRELOAD_CFA_CHAIN;
        take_uleb(r);
        return true;
    case 0x0c: reg = take_uleb(r), frame_begin(row, reg, (int64_t)take_uleb(r)); return true;
    case 0x0d: frame_begin(row, take_uleb(r), row->cfa_offset); return true;
    case 0x0e: row->cfa_offset = (int64_t)take_uleb(r); return true;
    case 0x0f:
        row->cfa = simple_expression(r, true, &offset) ? PRELOAD_CFA_AT_FP : PRELOAD_CFA_CHAIN;
        if (row->cfa == PRELOAD_CFA_AT_FP) row->cfa_offset = offset;
        return true;
    case 0x10: op_expression(row, r, take_uleb(r)); return true;
    case 0x11: reg = take_uleb(r), saved_at(row, reg, take_sleb(r) * e->data_factor); return true;
    case 0x12:
        reg = take_uleb(r), frame_begin(row, reg, take_sleb(r) * e->data_factor);
        return true;
    case 0x13: row->cfa_offset = take_sleb(r) * e->data_factor; return true;
    case 0x2e: take_uleb(r); return true;
    default: return false;
    }
}

/* How far an operation moves the address on; false: it doesn't. */
static bool moves(const entry *e, reader *r, uint64_t op, uint64_t *by) {
    if (op >> 6 == 1)
        *by = (op & 0x3f) * e->code_factor;
    else if (op >= 0x02 && op <= 0x04)
        *by = take_number(r, 1 << (op - 2)) * e->code_factor;
    else
        return false;
    return true;
}

/* Runs up to pc; false: what isn't understood. */
static bool run_cfi(const entry *e, reader r, cfi_row *row, const cfi_row *initial, uintptr_t pc) {
    cfi_row kept[DEPTH];
    int depth = 0;
    uintptr_t at = e->begin;
    while (r.at < r.end && !r.bad) {
        const uint64_t op = take_number(&r, 1);
        uint64_t by;
        if (moves(e, &r, op, &by)) {
            if (by > pc - at) return !r.bad;
            at += by;
        } else if (op >> 6 == 2) {
            saved_at(row, op & 0x3f, (int64_t)take_uleb(&r) * e->data_factor);
        } else if (op >> 6 == 3) {
            saved_not(row, initial, op & 0x3f, false);
        } else if (op == 0x0a && depth < DEPTH) {
            kept[depth++] = *row;
        } else if (op == 0x0b && depth > 0) {
            *row = kept[--depth];
        } else if (!run_op(e, row, initial, &r, op)) {
            return false;
        }
    }
    return !r.bad;
}

static bool small(int64_t offset) {
    return offset > -(1 << 24) && offset < 1 << 24;
}

preload_rule preload_cfi_find(const uint8_t *header, const uint8_t *start, const uint8_t *end,
                              uintptr_t pc) {
    const preload_rule none = {.cfa = PRELOAD_CFA_CHAIN};
    entry e = {0};
    cfi_row initial = {.cfa = PRELOAD_CFA_CHAIN}, row;
    if (!find_entry(header, start, end, pc, &e)) return none;
    if (!run_cfi(&e, e.common, &initial, NULL, UINTPTR_MAX)) return none;
    row = initial;
    if (!run_cfi(&e, e.own, &row, &initial, pc)) return none;
    if (row.first) return (preload_rule){.cfa = PRELOAD_CFA_END};
    if (!row.return_known || row.return_offset != -8 || row.cfa == PRELOAD_CFA_CHAIN) return none;
    if (!small(row.cfa_offset) || !small(row.fp_offset)) return none;
    return (preload_rule){row.cfa, row.fp, (int32_t)row.cfa_offset, (int32_t)row.fp_offset};
}
