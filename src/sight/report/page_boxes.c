/* page_boxes.c: the largest of many boxes.
 *
 * The idea: a heap with the smallest first: what is larger takes its place. Area is time by bytes,
 * rounded: that changes which of two alike is drawn, never what is counted. */
#include "sight/report/page_boxes.h"

#include "base/heap.h"
#include "base/sort.h"

mnem_status mnem__boxes_init(mnem__boxes *b) {
    *b = (mnem__boxes){.of = mnem__alloc("report", MNEM__BOXES_MOST * sizeof *b->of)};
    return b->of ? MNEM_OK : mnem__heap_status();
}

void mnem__boxes_fini(mnem__boxes *b) {
    mnem__free(b->of);
    *b = (mnem__boxes){0};
}

static double area(const mnem__box *b) {
    return (double)(b->to - b->from + 1) * (double)(b->bytes ? b->bytes : 1);
}

static void sift_down(mnem__boxes *b, uint32_t i, mnem__box box) {
    for (uint32_t child; (child = 2 * i + 1) < b->count; i = child) {
        if (child + 1 < b->count && area(&b->of[child + 1]) < area(&b->of[child])) child++;
        if (area(&b->of[child]) >= area(&box)) break;
        b->of[i] = b->of[child];
    }
    b->of[i] = box;
}

static void sift_up(mnem__boxes *b, uint32_t i, mnem__box box) {
    for (; i && area(&b->of[(i - 1) / 2]) > area(&box); i = (i - 1) / 2)
        b->of[i] = b->of[(i - 1) / 2];
    b->of[i] = box;
}

void mnem__boxes_tell(mnem__boxes *b, const mnem__box *box) {
    b->all++;
    if (b->count < MNEM__BOXES_MOST)
        sift_up(b, b->count++, *box);
    else if (area(box) > area(&b->of[0]))
        sift_down(b, 0, *box);
}

static bool begins_before(const void *context, uint32_t i, uint32_t k) {
    const mnem__box *b = context;
    if (b[i].from != b[k].from) return b[i].from < b[k].from;
    return b[i].low != b[k].low ? b[i].low < b[k].low : b[i].bytes < b[k].bytes;
}

static uint64_t field(const mnem__box *b, int which) {
    const uint64_t value[] = {b->from, b->to - b->from, b->low, b->bytes, b->owner};
    return value[which];
}

mnem_status mnem__boxes_write(mnem__boxes *b, mnem__code *code) {
    uint32_t *order = mnem__alloc("report", (b->count + 1) * sizeof *order);
    if (!order) return mnem__heap_status();
    for (uint32_t i = 0; i < b->count; i++) order[i] = i;
    mnem__sort(order, b->count, begins_before, b->of);
    for (int f = 0; f < 5; f++) {
        uint64_t before = 0;
        mnem__code_text(code, f ? ",\n" : "[");
        mnem__code_begin(code);
        for (uint32_t i = 0; i < b->count; i++) {
            const uint64_t n = field(&b->of[order[i]], f);
            mnem__code_number(code, (int64_t)(n - before));
            before = n;
        }
        mnem__code_end(code);
    }
    mnem__code_text(code, "]");
    mnem__free(order);
    return MNEM_OK;
}
