/* workload_pickle.c: reads a pickle into plain values; nothing in it is executed.
 *
 * Idea: a pickle is a program for a small stack machine (PEP 3154, and pickletools of Python's
 * library describe it). The opcodes that make plain values are carried out here; every opcode that
 * names or calls code ends the reading. How values are kept is told in pickle_values.c; texts are
 * kept once each time that they occur (picklers refer back to them), cut at 4096 bytes.
 *
 * Invariant: every value refers to what exists. Bounds: the stack has at most 2^24 values, marks
 * nest 1000 deep, a memo's number is at most the number of opcodes so far, and what is kept is at
 * most about 40 bytes for a byte of input. Lengths in the file are never allocated: bytes are kept
 * as they arrive.
 * Cost: one pass, a few nanoseconds per opcode. */
#include "replay/workload_pickle.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "replay/pickle_values.h"

enum { TEXT_KEPT = 4096, STACK_MAX = 1 << 24, MARKS_MAX = 1000, NAME_SHOWN = 60 };

typedef enum opcode {
    OP_MARK = '(',
    OP_STOP = '.',
    OP_POP = '0',
    OP_POP_MARK = '1',
    OP_DUP = '2',
    OP_BINBYTES = 'B',
    OP_SHORT_BINBYTES = 'C',
    OP_BINFLOAT = 'G',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_NONE = 'N',
    OP_BINSTRING = 'T',
    OP_SHORT_BINSTRING = 'U',
    OP_BINUNICODE = 'X',
    OP_EMPTY_LIST = ']',
    OP_APPEND = 'a',
    OP_GLOBAL = 'c',
    OP_DICT = 'd',
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_LONG_BINGET = 'j',
    OP_LIST = 'l',
    OP_BINPUT = 'q',
    OP_LONG_BINPUT = 'r',
    OP_SETITEM = 's',
    OP_TUPLE = 't',
    OP_SETITEMS = 'u',
    OP_EMPTY_DICT = '}',
    OP_EMPTY_TUPLE = ')',
    OP_PROTO = 0x80,
    OP_TUPLE1 = 0x85,
    OP_TUPLE2 = 0x86,
    OP_TUPLE3 = 0x87,
    OP_NEWTRUE = 0x88,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
    OP_LONG4 = 0x8b,
    OP_SHORT_BINUNICODE = 0x8c,
    OP_BINUNICODE8 = 0x8d,
    OP_BINBYTES8 = 0x8e,
    OP_EMPTY_SET = 0x8f,
    OP_ADDITEMS = 0x90,
    OP_FROZENSET = 0x91,
    OP_STACK_GLOBAL = 0x93,
    OP_MEMOIZE = 0x94,
    OP_FRAME = 0x95,
    OP_BYTEARRAY8 = 0x96,
} opcode;

/* ---- values ---- */

static mnem_status bad(const mnem__pickle *p, const char *what) {
    return mnem__fail(MNEM_BAD_FILE,
                      "%s: byte %llu: %s; the file is damaged, or not a memory snapshot of PyTorch",
                      p->in->name, (unsigned long long)p->op_at, what);
}

static mnem_status push(mnem__pickle *p, mnem__value v) {
    if (p->stack.count == STACK_MAX)
        return bad(p, "the pickle holds more values at once than any memory snapshot does");
    if (!mnem__array_reserve(&p->stack, 1, sizeof v)) return mnem__heap_status();
    ((mnem__value *)p->stack.p)[p->stack.count++] = v;
    return MNEM_OK;
}

/* Values above the last mark, or on the whole stack. */
static size_t above_mark(const mnem__pickle *p) {
    const size_t *marks = p->marks.p;
    return p->stack.count - (p->marks.count ? marks[p->marks.count - 1] : 0);
}

static mnem_status push_large(mnem__pickle *p, int64_t n, mnem__value_tag value_tag) {
    if (!mnem__array_reserve(&p->large, 1, sizeof n)) return mnem__heap_status();
    ((int64_t *)p->large.p)[p->large.count] = n;
    return push(p, mnem__value_make(value_tag, p->large.count++));
}

static mnem_status push_integer(mnem__pickle *p, int64_t n) {
    const int64_t most = (int64_t)1 << 59;
    if (n >= -most && n < most) return push(p, mnem__value_make(MNEM__VALUE_SMALL, (uint64_t)n));
    return push_large(p, n, MNEM__VALUE_LARGE);
}

/* ---- reading operands ---- */

/* At least n bytes at p->in->at, n small. */
static mnem_status need(mnem__pickle *p, size_t n) {
    size_t have = (size_t)(p->in->end - p->in->at);
    if (have >= n) return MNEM_OK;
    MNEM__TRY(mnem__input_need(p->in, n, &have));
    return have >= n ? MNEM_OK : bad(p, "the file is cut off here, in the middle of a value");
}

/* A little-endian unsigned number of n bytes, n <= 8. */
static mnem_status operand(mnem__pickle *p, size_t n, uint64_t *out) {
    MNEM__TRY(need(p, n));
    *out = 0;
    for (size_t i = 0; i < n; i++) *out |= (uint64_t)p->in->at[i] << 8 * i;
    p->in->at += n;
    return MNEM_OK;
}

static mnem_status skip(mnem__pickle *p, uint64_t n) {
    while (n) {
        MNEM__TRY(need(p, 1));
        const uint64_t have = (uint64_t)(p->in->end - p->in->at), step = have < n ? have : n;
        p->in->at += step;
        n -= step;
    }
    return MNEM_OK;
}

static mnem_status skip_and_push(mnem__pickle *p, uint64_t n) {
    MNEM__TRY(skip(p, n));
    return push(p, MNEM__VALUE_OTHER);
}

static mnem_status keep_text(mnem__pickle *p, const uint8_t *bytes, uint32_t n) {
    const mnem__word word = mnem__word_of(bytes, n);
    if (word) return push(p, mnem__value_make(MNEM__VALUE_WORD, (uint64_t)word));
    if (!mnem__array_reserve(&p->text, n + sizeof n, 1)) return mnem__heap_status();
    char *to = (char *)p->text.p + p->text.count;
    memcpy(to, &n, sizeof n);
    memcpy(to + sizeof n, bytes, n);
    const mnem_status status = push(p, mnem__value_make(MNEM__VALUE_TEXT, p->text.count));
    p->text.count += n + sizeof n;
    return status;
}

static mnem_status read_text(mnem__pickle *p, size_t length_bytes) {
    uint64_t n;
    MNEM__TRY(operand(p, length_bytes, &n));
    const uint32_t kept = n < TEXT_KEPT ? (uint32_t)n : TEXT_KEPT;
    MNEM__TRY(need(p, kept));
    MNEM__TRY(keep_text(p, p->in->at, kept));
    return skip(p, n);
}

static mnem_status read_bytes(mnem__pickle *p, size_t length_bytes) {
    uint64_t n;
    MNEM__TRY(operand(p, length_bytes, &n));
    return skip_and_push(p, n);
}

/* Eight bytes, the most significant first. */
static mnem_status read_real(mnem__pickle *p) {
    uint64_t bits;
    const mnem_status status = operand(p, 8, &bits);
    return status == MNEM_OK ? push_large(p, (int64_t)__builtin_bswap64(bits), MNEM__VALUE_REAL)
                             : status;
}

/* An integer in two's complement of any length. */
static mnem_status read_long(mnem__pickle *p, size_t length_bytes) {
    uint64_t n, number = 0;
    MNEM__TRY(operand(p, length_bytes, &n));
    if (n > 9) return skip_and_push(p, n);
    const uint64_t low = n < 8 ? n : 8;
    uint64_t sign = 0;
    MNEM__TRY(operand(p, low, &number));
    if (n == 9) MNEM__TRY(operand(p, 1, &sign));
    if (n == 9) /* a ninth byte of 0: an unsigned number of 64 bits, kept as its bits */
        return sign ? push(p, MNEM__VALUE_OTHER) : push_integer(p, (int64_t)number);
    if (low && low < 8 && number >> (8 * low - 1)) number |= UINT64_MAX << 8 * low;
    return push_integer(p, (int64_t)number);
}

static mnem_status read_integer(mnem__pickle *p, size_t bytes) {
    uint64_t n;
    MNEM__TRY(operand(p, bytes, &n));
    return push_integer(p, bytes == 4 ? (int32_t)(uint32_t)n : (int64_t)n);
}

/* ---- containers ---- */

/* Adds n > 0 values to a container as one chunk. */
static mnem_status add_chunk(mnem__pickle *p, uint64_t to, const mnem__value *values, size_t n) {
    if (!mnem__array_reserve(&p->cells, n + 2, sizeof(uint64_t))) return mnem__heap_status();
    mnem__container *c = (mnem__container *)p->containers.p + to;
    uint64_t *cells = p->cells.p;
    const uint64_t chunk = p->cells.count;
    cells[chunk] = MNEM__NOWHERE;
    cells[chunk + 1] = n;
    memcpy(cells + chunk + 2, values, n * sizeof *values);
    p->cells.count += n + 2;
    if (c->first == MNEM__NOWHERE)
        c->first = chunk;
    else
        cells[c->last] = chunk;
    c->last = chunk;
    return MNEM_OK;
}

/* Moves the top n values into the container below them. */
static mnem_status move_into(mnem__pickle *p, size_t n, mnem__value_tag kind) {
    if (kind == MNEM__VALUE_DICT && n % 2)
        return bad(p, "the pickle makes a dict in which a key has no value");
    if (p->stack.count < n + 1)
        return bad(p, "the pickle adds an element, but there is no list, dict or set to add it to");
    p->stack.count -= n;
    const mnem__value *stack = p->stack.p, to = stack[p->stack.count - 1];
    if (mnem__value_tag_of(to) != kind)
        return bad(p, "the pickle adds elements to a value that is no list, dict or set");
    return n ? add_chunk(p, mnem__value_index(to), stack + p->stack.count, n) : MNEM_OK;
}

/* APPEND and SETITEM: n values above no mark of their own. */
static mnem_status move_some(mnem__pickle *p, size_t n, mnem__value_tag kind) {
    return above_mark(p) < n + 1
               ? bad(p,
                     "the pickle adds an element, but there is no list, dict or set to add it to")
               : move_into(p, n, kind);
}

/* Takes the last mark away; *n: values that were above it. */
static mnem_status pop_mark(mnem__pickle *p, size_t *n) {
    *n = 0;
    if (!p->marks.count) return bad(p, "the pickle ends a list, tuple or dict that it never began");
    *n = above_mark(p);
    p->marks.count--;
    return MNEM_OK;
}

static mnem_status move_marked(mnem__pickle *p, mnem__value_tag kind) {
    size_t n;
    MNEM__TRY(pop_mark(p, &n));
    /* The container must lie above the mark before. */
    return above_mark(p) < n + 1
               ? bad(p,
                     "the pickle adds an element, but there is no list, dict or set to add it to")
               : move_into(p, n, kind);
}

/* Replaces the top n values by a container of them. */
static mnem_status make_container(mnem__pickle *p, size_t n, mnem__value_tag kind) {
    if (above_mark(p) < n) return bad(p, "the pickle uses more values than it has made");
    if (kind == MNEM__VALUE_DICT && n % 2)
        return bad(p, "the pickle makes a dict in which a key has no value");
    p->stack.count -= n;
    if (!mnem__array_reserve(&p->containers, 1, sizeof(mnem__container)))
        return mnem__heap_status();
    ((mnem__container *)p->containers.p)[p->containers.count] =
        (mnem__container){MNEM__NOWHERE, MNEM__NOWHERE};
    MNEM__TRY(n ? add_chunk(p, p->containers.count, (mnem__value *)p->stack.p + p->stack.count, n)
                : MNEM_OK);
    return push(p, mnem__value_make(kind, p->containers.count++));
}

static mnem_status make_marked(mnem__pickle *p, mnem__value_tag kind) {
    size_t n;
    const mnem_status status = pop_mark(p, &n);
    return status == MNEM_OK ? make_container(p, n, kind) : status;
}

static mnem_status set_mark(mnem__pickle *p) {
    if (p->marks.count == MARKS_MAX)
        return bad(p, "the pickle nests its values deeper than any memory snapshot does");
    if (!mnem__array_reserve(&p->marks, 1, sizeof(size_t))) return mnem__heap_status();
    ((size_t *)p->marks.p)[p->marks.count++] = p->stack.count;
    return MNEM_OK;
}

/* ---- the memo ---- */

static mnem_status memo_put(mnem__pickle *p, uint64_t at) {
    if (!above_mark(p)) return bad(p, "the pickle stores a value (memo) before it has made one");
    if (at > p->opcodes)
        return bad(p, "the number of a stored value (memo) is higher than any pickle writer uses");
    if (at >= p->memo.count) {
        const size_t more = at + 1 - p->memo.count;
        if (!mnem__array_reserve(&p->memo, more, sizeof(mnem__value))) return mnem__heap_status();
        memset((mnem__value *)p->memo.p + p->memo.count, 0, more * sizeof(mnem__value));
        p->memo.count += more;
    }
    const mnem__value *stack = p->stack.p;
    ((mnem__value *)p->memo.p)[at] = stack[p->stack.count - 1];
    p->memoized++;
    return MNEM_OK;
}

static mnem_status memo_get(mnem__pickle *p, uint64_t at) {
    if (at >= p->memo.count)
        return bad(p, "the pickle reads a stored value (memo) that it never stored");
    return push(p, ((const mnem__value *)p->memo.p)[at]);
}

static mnem_status with_operand(mnem__pickle *p, size_t bytes,
                                mnem_status (*act)(mnem__pickle *p, uint64_t n)) {
    uint64_t n;
    const mnem_status status = operand(p, bytes, &n);
    return status == MNEM_OK ? act(p, n) : status;
}

/* ---- opcodes ---- */

static mnem_status refuse_code(const mnem__pickle *p, const char *name) {
    return mnem__fail(MNEM_UNSUPPORTED,
                      "%s: byte %llu: refused, because this pickle would run code (%s); a memory "
                      "snapshot has plain values only",
                      p->in->name, (unsigned long long)p->op_at, name);
}

/* The first line at hand, what isn't ASCII text as '?'. */
static size_t shown_line(const uint8_t *at, const uint8_t *end, char *out) {
    size_t n = 0;
    for (; at + n < end && at[n] != '\n' && n < NAME_SHOWN; n++)
        out[n] = at[n] > 32 && at[n] < 127 ? (char)at[n] : '?';
    out[n] = 0;
    return n;
}

/* GLOBAL: "module\nname\n" follows. */
static mnem_status refuse_global(mnem__pickle *p) {
    size_t have;
    char module[NAME_SHOWN + 1], name[NAME_SHOWN + 1], both[2 * NAME_SHOWN + 4];
    MNEM__TRY(mnem__input_need(p->in, 2 * NAME_SHOWN, &have));
    const uint8_t *at = p->in->at;
    at += shown_line(at, p->in->end, module);
    shown_line(at + (at < p->in->end && *at == '\n'), p->in->end, name);
    snprintf(both, sizeof both, "%s.%s", module, name);
    return refuse_code(p, both);
}

static mnem_status refuse_stack_global(const mnem__pickle *p) {
    char both[2 * NAME_SHOWN + 8] = "";
    size_t used = 0;
    for (size_t i = 2; i >= 1 && p->stack.count >= 2; i--) {
        size_t n;
        const char *text =
            mnem__pickle_text(p, ((mnem__value *)p->stack.p)[p->stack.count - i], &n);
        if (used) both[used++] = '.';
        if (text) used += shown_line((const uint8_t *)text, (const uint8_t *)text + n, both + used);
    }
    return refuse_code(p, used > 1 ? both : "a class or function without a readable name");
}

static mnem_status unknown_opcode(const mnem__pickle *p, uint8_t op) {
    /* INST, OBJ, REDUCE, BUILD, NEWOBJ, EXT1.., PERSID: all of them reach for code. */
    if (op && (strchr("iobRPQ", op) || (op >= 0x81 && op <= 0x84) || op == 0x92)) {
        char name[24];
        snprintf(name, sizeof name, "opcode 0x%02x", op);
        return refuse_code(p, name);
    }
    return mnem__fail(
        MNEM_BAD_FILE,
        "%s: byte %llu: pickle opcode 0x%02x is not one that PyTorch's memory snapshots use",
        p->in->name, (unsigned long long)p->op_at, op);
}

static mnem_status stop(mnem__pickle *p) {
    if (p->stack.count != 1 || p->marks.count)
        return bad(p, "the pickle ends with values that nothing uses");
    p->top = *(mnem__value *)p->stack.p;
    p->stopped = true;
    return MNEM_OK;
}

static mnem_status pop(mnem__pickle *p) {
    if (above_mark(p))
        p->stack.count--;
    else if (p->marks.count)
        p->marks.count--;
    else
        return bad(p, "the pickle drops a value, but has none");
    return MNEM_OK;
}

static mnem_status pop_to_mark(mnem__pickle *p) {
    size_t n;
    const mnem_status status = pop_mark(p, &n);
    if (status == MNEM_OK) p->stack.count -= n;
    return status;
}

static mnem_status duplicate(mnem__pickle *p) {
    if (!above_mark(p)) return bad(p, "the pickle copies a value, but has none");
    return push(p, ((mnem__value *)p->stack.p)[p->stack.count - 1]);
}

/* Opcodes that make or keep one value. */
static mnem_status run_value(mnem__pickle *p, uint8_t op) {
    switch ((opcode)op) {
    case OP_NONE: return push(p, MNEM__VALUE_OTHER);
    case OP_NEWTRUE: return push_integer(p, 1);
    case OP_NEWFALSE: return push_integer(p, 0);
    case OP_BININT: return read_integer(p, 4);
    case OP_BININT1: return read_integer(p, 1);
    case OP_BININT2: return read_integer(p, 2);
    case OP_LONG1: return read_long(p, 1);
    case OP_LONG4: return read_long(p, 4);
    case OP_BINFLOAT: return read_real(p);
    case OP_SHORT_BINUNICODE:
    case OP_SHORT_BINSTRING: return read_text(p, 1);
    case OP_BINUNICODE:
    case OP_BINSTRING: return read_text(p, 4);
    case OP_BINUNICODE8: return read_text(p, 8);
    case OP_SHORT_BINBYTES: return read_bytes(p, 1);
    case OP_BINBYTES: return read_bytes(p, 4);
    case OP_BINBYTES8:
    case OP_BYTEARRAY8: return read_bytes(p, 8);
    case OP_BINPUT: return with_operand(p, 1, memo_put);
    case OP_LONG_BINPUT: return with_operand(p, 4, memo_put);
    case OP_MEMOIZE: return memo_put(p, p->memoized);
    case OP_BINGET: return with_operand(p, 1, memo_get);
    case OP_LONG_BINGET: return with_operand(p, 4, memo_get);
    case OP_GLOBAL: return refuse_global(p);
    case OP_STACK_GLOBAL: return refuse_stack_global(p);
    default: return unknown_opcode(p, op);
    }
}

static mnem_status run_opcode(mnem__pickle *p, uint8_t op) {
    switch ((opcode)op) {
    case OP_FRAME: return skip(p, 8); /* only says how much could be read at once */
    case OP_STOP: return stop(p);
    case OP_MARK: return set_mark(p);
    case OP_POP: return pop(p);
    case OP_POP_MARK: return pop_to_mark(p);
    case OP_DUP: return duplicate(p);
    case OP_EMPTY_LIST:
    case OP_EMPTY_TUPLE:
    case OP_EMPTY_SET: return make_container(p, 0, MNEM__VALUE_LIST);
    case OP_EMPTY_DICT: return make_container(p, 0, MNEM__VALUE_DICT);
    case OP_APPEND: return move_some(p, 1, MNEM__VALUE_LIST);
    case OP_APPENDS:
    case OP_ADDITEMS: return move_marked(p, MNEM__VALUE_LIST);
    case OP_SETITEM: return move_some(p, 2, MNEM__VALUE_DICT);
    case OP_SETITEMS: return move_marked(p, MNEM__VALUE_DICT);
    case OP_TUPLE1: return make_container(p, 1, MNEM__VALUE_LIST);
    case OP_TUPLE2: return make_container(p, 2, MNEM__VALUE_LIST);
    case OP_TUPLE3: return make_container(p, 3, MNEM__VALUE_LIST);
    case OP_TUPLE:
    case OP_LIST:
    case OP_FROZENSET: return make_marked(p, MNEM__VALUE_LIST);
    case OP_DICT: return make_marked(p, MNEM__VALUE_DICT);
    default: return run_value(p, op);
    }
}

static mnem_status read_protocol(mnem__pickle *p) {
    uint64_t head;
    p->op_at = mnem__input_offset(p->in);
    MNEM__TRY(operand(p, 2, &head));
    const unsigned protocol = (unsigned)(head >> 8);
    if ((head & 255) != OP_PROTO)
        return bad(p,
                   "the file does not begin as a pickle of torch.cuda.memory._dump_snapshot does");
    if (protocol < 2 || protocol > 5)
        return mnem__fail(
            MNEM_UNSUPPORTED,
            "%s: the pickle has protocol %u, but 2 to 5 are supported; write it again", p->in->name,
            protocol);
    return MNEM_OK;
}

mnem_status mnem__pickle_read(mnem__input *in, mnem__pickle **out) {
    *out = NULL;
    mnem__pickle *p = mnem__calloc("workload", 1, sizeof *p);
    if (!p) return mnem__heap_status();
    p->in = in;
    mnem_status status = read_protocol(p);
    while (status == MNEM_OK && !p->stopped) {
        p->op_at = mnem__input_offset(in);
        p->opcodes++;
        status = need(p, 1);
        if (status == MNEM_OK) status = run_opcode(p, *in->at++);
    }
    if (status == MNEM_OK)
        *out = p;
    else
        mnem__pickle_free(p);
    return status;
}
