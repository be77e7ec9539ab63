/* pickle_out.h: plain values as a pickle of protocol 2, in the opcodes that every reader of memory
 * snapshots knows: PyTorch's viewer in JavaScript has few, and takes at most 1000 items at a time.
 *
 *     dict: begin, (word or text, value)*, end       list: begin, (item, value)*, end */
#ifndef MNEM_SRC_TRACE_EXPORT_PICKLE_OUT_H
#define MNEM_SRC_TRACE_EXPORT_PICKLE_OUT_H

#include "trace/export/export_file.h"

enum { MNEM__PICKLED_WORDS = 64, MNEM__PICKLED_BATCH = 1000 };

typedef struct mnem__pickle_out {
    mnem__export_file *file;
    uint32_t remembered;                /* values that can be referred to */
    uint32_t word[MNEM__PICKLED_WORDS]; /* its number + 1, of the words written so far */
} mnem__pickle_out;

typedef struct mnem__pickle_items {
    uint64_t count;
} mnem__pickle_items;

void mnem__pickled_begin(mnem__pickle_out *p, mnem__export_file *file);
void mnem__pickled_end(mnem__pickle_out *p);

void mnem__pickled_integer(mnem__pickle_out *p, uint64_t n); /* below 2^63 */
void mnem__pickled_false(mnem__pickle_out *p);
void mnem__pickled_text(mnem__pickle_out *p, const char *text);
/* The same text again and again: number is the caller's for it, below MNEM__PICKLED_WORDS. */
void mnem__pickled_word(mnem__pickle_out *p, uint32_t number, const char *text);

/* The value that was just written can be written again by the number that this returns. */
uint32_t mnem__pickled_remember(mnem__pickle_out *p);
void mnem__pickled_recall(mnem__pickle_out *p, uint32_t number);

void mnem__pickled_dict_begin(mnem__pickle_out *p);
void mnem__pickled_dict_end(mnem__pickle_out *p);
void mnem__pickled_list_begin(mnem__pickle_out *p, mnem__pickle_items *items);
void mnem__pickled_item(mnem__pickle_out *p, mnem__pickle_items *items); /* before each */
void mnem__pickled_list_end(mnem__pickle_out *p, mnem__pickle_items *items);

#endif
