/* pickle_out.c: the opcodes (pickletools of Python's library describes them). */
#include "trace/export/pickle_out.h"

#include <string.h>

enum {
    OP_APPENDS = 'e',
    OP_BINGET = 'h',
    OP_BININT = 'J',
    OP_BININT1 = 'K',
    OP_BININT2 = 'M',
    OP_BINPUT = 'q',
    OP_BINUNICODE = 'X',
    OP_EMPTY_DICT = '}',
    OP_EMPTY_LIST = ']',
    OP_LONG_BINGET = 'j',
    OP_LONG_BINPUT = 'r',
    OP_MARK = '(',
    OP_SETITEMS = 'u',
    OP_STOP = '.',
    OP_PROTO = 0x80,
    OP_NEWFALSE = 0x89,
    OP_LONG1 = 0x8a,
};

/* An opcode and n bytes of a number, the least significant first. */
static void put_opcode(mnem__pickle_out *p, int opcode, uint64_t number, size_t n) {
    uint8_t bytes[9] = {(uint8_t)opcode};
    for (size_t i = 0; i < n; i++) bytes[1 + i] = (uint8_t)(number >> 8 * i);
    mnem__export_put(p->file, bytes, 1 + n);
}

void mnem__pickled_begin(mnem__pickle_out *p, mnem__export_file *file) {
    *p = (mnem__pickle_out){.file = file};
    put_opcode(p, OP_PROTO, 2, 1);
}

void mnem__pickled_end(mnem__pickle_out *p) {
    put_opcode(p, OP_STOP, 0, 0);
}

void mnem__pickled_integer(mnem__pickle_out *p, uint64_t n) {
    if (n < 1U << 8) {
        put_opcode(p, OP_BININT1, n, 1);
    } else if (n < 1U << 16) {
        put_opcode(p, OP_BININT2, n, 2);
    } else if (n < 1U << 31) {
        put_opcode(p, OP_BININT, n, 4);
    } else {
        uint64_t bytes = 5; /* the highest bit of the last one is the sign */
        while (bytes < 8 && n >> (8 * bytes - 1)) bytes++;
        put_opcode(p, OP_LONG1, bytes, 1);
        uint8_t little[8];
        for (size_t i = 0; i < 8; i++) little[i] = (uint8_t)(n >> 8 * i);
        mnem__export_put(p->file, little, bytes);
    }
}

void mnem__pickled_false(mnem__pickle_out *p) {
    put_opcode(p, OP_NEWFALSE, 0, 0);
}

void mnem__pickled_text(mnem__pickle_out *p, const char *text) {
    const size_t n = strlen(text);
    put_opcode(p, OP_BINUNICODE, n, 4);
    mnem__export_put(p->file, text, n);
}

void mnem__pickled_word(mnem__pickle_out *p, uint32_t number, const char *text) {
    if (p->word[number]) {
        mnem__pickled_recall(p, p->word[number] - 1);
        return;
    }
    mnem__pickled_text(p, text);
    p->word[number] = mnem__pickled_remember(p) + 1;
}

uint32_t mnem__pickled_remember(mnem__pickle_out *p) {
    const bool small = p->remembered < 256;
    put_opcode(p, small ? OP_BINPUT : OP_LONG_BINPUT, p->remembered, small ? 1 : 4);
    return p->remembered++;
}

void mnem__pickled_recall(mnem__pickle_out *p, uint32_t number) {
    const bool small = number < 256;
    put_opcode(p, small ? OP_BINGET : OP_LONG_BINGET, number, small ? 1 : 4);
}

void mnem__pickled_dict_begin(mnem__pickle_out *p) {
    put_opcode(p, OP_EMPTY_DICT, 0, 0);
    put_opcode(p, OP_MARK, 0, 0);
}

void mnem__pickled_dict_end(mnem__pickle_out *p) {
    put_opcode(p, OP_SETITEMS, 0, 0);
}

void mnem__pickled_list_begin(mnem__pickle_out *p, mnem__pickle_items *items) {
    items->count = 0;
    put_opcode(p, OP_EMPTY_LIST, 0, 0);
}

void mnem__pickled_item(mnem__pickle_out *p, mnem__pickle_items *items) {
    if (items->count % MNEM__PICKLED_BATCH == 0) {
        if (items->count) put_opcode(p, OP_APPENDS, 0, 0);
        put_opcode(p, OP_MARK, 0, 0);
    }
    items->count++;
}

void mnem__pickled_list_end(mnem__pickle_out *p, mnem__pickle_items *items) {
    if (items->count) put_opcode(p, OP_APPENDS, 0, 0);
}
