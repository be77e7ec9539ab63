/* sections.c: lifetimes to sections.
 *
 * Idea: two buffers may share bytes when they never live together. Lifetimes are an interval graph,
 * whose largest cliques are found in one sweep: whenever something ends after something began, what
 * is alive just before is one of them, called a section. Times don't matter any more then.
 *
 *     time      0   1   2   3   4
 *     a         |-------|               sections: {a, b}, {b, c}
 *     b             |-----------|       a: [0, 1)  b: [0, 2)  c: [1, 2)
 *     c                 |---|
 *
 * Invariant: two items have a section in common exactly when their lifetimes meet.
 * Cost: O(n log n) time, 32 bytes and a section's membership per item. */
#include "plan/sections.h"

#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/sort.h"

/* A moment is a number: 2 x the buffer, and 1 more for its end. */
static int64_t time_of(const mnem_plan_buffer *buffers, uint32_t moment) {
    const mnem_plan_buffer *b = &buffers[moment / 2];
    return moment % 2 ? b->upper : b->lower;
}

/* By time; ends come before starts of the same time, for lifetimes are half-open. */
static bool before(const void *context, uint32_t a, uint32_t b) {
    const int64_t x = time_of(context, a), y = time_of(context, b);
    if (x != y) return x < y;
    if (a % 2 != b % 2) return a % 2;
    return a < b;
}

/* Items in the order of their start, with their sections, and the bound. item_of: scratch, [n]. */
static void sweep(const mnem_plan_buffer *buffers, const uint32_t *moments, size_t count,
                  int32_t *item_of, mnem__sections *out) {
    bool grew = false;
    int64_t alive = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t buffer = moments[i] / 2;
        const mnem_plan_buffer *b = &buffers[buffer];
        if (moments[i] % 2 == 0) {
            item_of[buffer] = out->item_count;
            out->items[out->item_count++] =
                (mnem__item){.bytes = (int64_t)b->bytes,
                             .alignment = b->alignment ? (int64_t)b->alignment : 64,
                             .first = out->count,
                             .source = (int32_t)buffer,
                             .twin = -1};
            grew = true;
            alive += (int64_t)b->bytes;
            if (alive > out->bound) out->bound = alive;
            continue;
        }
        alive -= (int64_t)b->bytes;
        if (grew) out->count++;
        grew = false;
        out->items[item_of[buffer]].end = out->count;
    }
}

static size_t collect(const mnem_plan_buffer *buffers, size_t n, uint32_t *moments) {
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (buffers[i].bytes == 0) continue;
        moments[count++] = 2 * i;
        moments[count++] = 2 * i + 1;
    }
    mnem__sort(moments, count, before, buffers);
    return count;
}

static bool twins(const mnem__item *a, const mnem__item *b) {
    return a->first == b->first && a->end == b->end && a->bytes == b->bytes &&
           a->alignment == b->alignment;
}

static void find_twins(mnem__sections *s) {
    for (int32_t i = 0; i < s->item_count; i++) {
        for (int32_t j = i; j-- > 0 && s->items[j].first == s->items[i].first;) {
            if (!twins(&s->items[i], &s->items[j])) continue;
            s->items[i].twin = j;
            break;
        }
    }
}

/* Members of a section in the order of items: those that go on first, then those that start. */
static void fill_members(mnem__sections *s) {
    int32_t at = 0;
    for (int32_t section = 0; section < s->count; section++) {
        const int32_t from = section ? s->begin[section - 1] : 0, to = at;
        s->begin[section] = at;
        for (int32_t i = from; i < to; i++)
            if (s->items[s->members[i]].end > section) s->members[at++] = s->members[i];
        for (int32_t i = s->starts[section]; i < s->starts[section + 1]; i++) s->members[at++] = i;
    }
    s->begin[s->count] = at;
}

static mnem_status make_tables(mnem__sections *s, size_t members_max) {
    size_t members = 0;
    for (int32_t i = 0; i < s->item_count; i++)
        members += (size_t)(s->items[i].end - s->items[i].first);
    const bool listed = members <= members_max;
    const size_t sections = (size_t)s->count + 1;
    s->starts =
        mnem__calloc("plan", sections + (listed ? sections + members : 0), sizeof *s->starts);
    if (!s->starts) return mnem__heap_status();
    for (int32_t i = 0; i < s->item_count; i++) s->starts[s->items[i].first + 1]++;
    for (int32_t section = 0; section < s->count; section++)
        s->starts[section + 1] += s->starts[section];
    if (!listed) return MNEM_OK;
    s->begin = s->starts + sections;
    s->members = s->begin + sections;
    find_twins(s);
    fill_members(s);
    return MNEM_OK;
}

mnem_status mnem__sections_create(const mnem_plan_buffer *buffers, size_t n, size_t members_max,
                                  mnem__sections *out) {
    *out = (mnem__sections){0};
    out->items = mnem__calloc("plan", n, sizeof *out->items);
    uint32_t *moments = mnem__calloc("plan", n, 2 * sizeof *moments + sizeof(int32_t));
    mnem_status status = MNEM_OK;
    if (out->items && moments) {
        const size_t count = collect(buffers, n, moments);
        sweep(buffers, moments, count, (int32_t *)(moments + 2 * n), out);
        status = make_tables(out, members_max);
    } else {
        status = mnem__heap_status();
    }
    mnem__free(moments);
    if (status != MNEM_OK) mnem__sections_destroy(out);
    return status;
}

void mnem__sections_destroy(mnem__sections *s) {
    mnem__free(s->items);
    mnem__free(s->starts);
    *s = (mnem__sections){0};
}
