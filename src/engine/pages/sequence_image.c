/* sequence_image.c: a sequence's pages as pieces of bytes.
 *
 * Invariant: the pieces of a shape are as many and as large whenever and wherever it is; only their
 * addresses differ. Cost: O(1) for a piece. */
#include "engine/pages/sequence_image.h"

static size_t ids_bytes(const mnem__kv_pages *pages) {
    return pages->ids ? (size_t)pages->layout.page_tokens * sizeof *pages->ids : 0;
}

mnem__sequence_shape mnem__sequence_shape_get(const mnem_sequence *s) {
    mnem__sequence_shape shape = {.length = s->length, .ready = s->ready};
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        shape.first[k] = s->table[k].first;
        shape.used[k] = s->table[k].used;
    }
    return shape;
}

void mnem__sequence_shape_set(mnem_sequence *s, const mnem__sequence_shape *shape) {
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        mnem__kv_table *table = &s->table[k];
        const mnem__kv_room room = {.keep = 0, .write = shape->used[k], .end = shape->used[k]};
        if (s->engine->pages[k].count == 0) continue;
        if (table->used == 0) table->first = table->used = shape->first[k];
        mnem__kv_pages_make_room(&s->engine->pages[k], table, &room);
    }
    s->length = shape->length;
    s->ready = shape->ready;
}

bool mnem__sequence_image_joins(const mnem_engine *e) {
    return e->pages[MNEM__KV_WINDOW].count == 0 && !e->pages[MNEM__KV_FULL].ids;
}

uint64_t mnem__sequence_image_bytes(const mnem_sequence *s) {
    uint64_t bytes = 0;
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const mnem__kv_pages *pages = &s->engine->pages[k];
        bytes += (uint64_t)(s->table[k].used - s->table[k].first) *
                 (pages->page_bytes + ids_bytes(pages));
    }
    return bytes;
}

uint64_t mnem__sequence_image_most(const mnem_engine *e) {
    uint64_t bytes = 0;
    for (int k = 0; k < MNEM__KV_KINDS; k++)
        bytes += (uint64_t)e->tables.kind[k].need.pages *
                 (e->pages[k].page_bytes + ids_bytes(&e->pages[k]));
    return bytes;
}

bool mnem__sequence_piece_get(const mnem_sequence *s, int32_t index, mnem__sequence_piece *piece) {
    for (int k = 0; k < MNEM__KV_KINDS; k++) {
        const mnem__kv_pages *pages = &s->engine->pages[k];
        const mnem__kv_table *table = &s->table[k];
        const int32_t each = pages->ids ? 2 : 1, count = each * (table->used - table->first);
        if (index >= count) {
            index -= count;
            continue;
        }
        const int32_t page = table->first + index / each, number = table->page[page];
        *piece = (mnem__sequence_piece){pages->base + pages->page_bytes * (uint64_t)number,
                                        pages->page_bytes, page};
        if (index % each) {
            piece->address = pages->ids + (int64_t)number * pages->layout.page_tokens;
            piece->bytes = ids_bytes(pages);
        }
        return true;
    }
    return false;
}
