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

typedef struct moment {
    int64_t time;
    int32_t buffer;
    bool is_start; /* ends come before starts of the same time: lifetimes are half-open */
} moment;

static bool before(const moment *a, const moment *b) {
    if (a->time != b->time) return a->time < b->time;
    if (a->is_start != b->is_start) return b->is_start;
    return a->buffer < b->buffer;
}

static void sift(moment *heap, size_t at, size_t n) {
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= n) return;
        if (child + 1 < n && before(&heap[child], &heap[child + 1])) child++;
        if (!before(&heap[at], &heap[child])) return;
        const moment swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

static void sort_moments(moment *m, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sift(m, i, n);
    for (size_t end = n; end-- > 1;) {
        const moment swap = m[0];
        m[0] = m[end];
        m[end] = swap;
        sift(m, 0, end);
    }
}

/* Items in the order of their start, with their sections. item_of: scratch, [n]. */
static void sweep(const mnem_plan_buffer *buffers, const moment *moments, size_t count,
                  int32_t *item_of, mnem__sections *out) {
    bool grew = false;
    for (size_t i = 0; i < count; i++) {
        const mnem_plan_buffer *b = &buffers[moments[i].buffer];
        if (moments[i].is_start) {
            item_of[moments[i].buffer] = out->item_count;
            out->items[out->item_count++] =
                (mnem__item){.bytes = (int64_t)b->bytes,
                             .alignment = b->alignment ? (int64_t)b->alignment : 64,
                             .first = out->count,
                             .source = moments[i].buffer,
                             .twin = -1};
            grew = true;
            continue;
        }
        if (grew) out->count++;
        grew = false;
        out->items[item_of[moments[i].buffer]].end = out->count;
    }
}

static size_t collect(const mnem_plan_buffer *buffers, size_t n, moment *moments) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (buffers[i].bytes == 0) continue;
        moments[count++] = (moment){buffers[i].lower, (int32_t)i, true};
        moments[count++] = (moment){buffers[i].upper, (int32_t)i, false};
    }
    sort_moments(moments, count);
    return count;
}

static bool twins(const mnem__item *a, const mnem__item *b) {
    return a->first == b->first && a->end == b->end && a->bytes == b->bytes &&
           a->alignment == b->alignment;
}

/* Members of a section in the order of items: those that go on first, then those that start. */
static void fill_members(mnem__sections *s) {
    int32_t at = 0;
    for (int32_t i = 0; i < s->item_count; i++) {
        for (int32_t j = i; j-- > 0 && s->items[j].first == s->items[i].first;) {
            if (!twins(&s->items[i], &s->items[j])) continue;
            s->items[i].twin = j;
            break;
        }
    }
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
    if (members > members_max)
        return mnem__fail(MNEM_UNSUPPORTED, "plan: %zu memberships are too many", members);
    s->starts = mnem__calloc("plan", 2 * ((size_t)s->count + 1) + members, sizeof(int32_t));
    if (!s->starts) return mnem__heap_status();
    s->begin = s->starts + s->count + 1;
    s->members = s->begin + s->count + 1;
    for (int32_t i = 0; i < s->item_count; i++) s->starts[s->items[i].first + 1]++;
    for (int32_t section = 0; section < s->count; section++)
        s->starts[section + 1] += s->starts[section];
    fill_members(s);
    return MNEM_OK;
}

mnem_status mnem__sections_create(const mnem_plan_buffer *buffers, size_t n, size_t members_max,
                                  mnem__sections *out) {
    *out = (mnem__sections){0};
    out->items = mnem__calloc("plan", n, sizeof *out->items);
    moment *moments = mnem__calloc("plan", n, 2 * sizeof *moments + sizeof(int32_t));
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

int64_t mnem__sections_bound(const mnem__sections *s) {
    int64_t most = 0;
    for (int32_t section = 0; section < s->count; section++) {
        int64_t sum = 0;
        for (int32_t i = s->begin[section]; i < s->begin[section + 1]; i++)
            sum += s->items[s->members[i]].bytes;
        if (sum > most) most = sum;
    }
    return most;
}
