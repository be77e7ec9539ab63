/* cliques.c: lifetimes to cliques.
 *
 * Idea: two buffers may share bytes when they never live together. Lifetimes are an interval graph,
 * whose largest cliques are found in one sweep: whenever something ends after something began, what
 * is alive just before is one of them, called a clique. Times don't matter any more then.
 *
 *     time      0   1   2   3   4
 *     a         |-------|               cliques: {a, b}, {b, c}
 *     b             |-----------|       a: [0, 1)  b: [0, 2)  c: [1, 2)
 *     c                 |---|
 *
 * A life with gaps is several pieces, and the item lives in a span of cliques for each.
 *
 * Invariant: two items have a clique in common exactly when their lifetimes meet.
 * Cost: O(n log n) time, 40 bytes and a clique's membership per item; with gaps, O(n^2) for the
 * neighbours. */
#include "place/greedy/cliques.h"

#include <string.h>

#include "base/heap.h"
#include "base/sort.h"
#include "place/greedy/clique_load.h"

/* A moment is a number: 2 x the piece of a life, and 1 more for its end. Without gaps the pieces
 * are the buffers. */
typedef struct timing {
    const mnem_place_buffer *buffers;
    const mnem__lives *lives;
} timing;

static int64_t time_of(const timing *t, uint32_t moment) {
    const uint32_t piece = moment / 2;
    if (t->lives) return moment % 2 ? t->lives->pieces[piece].upper : t->lives->pieces[piece].lower;
    return moment % 2 ? t->buffers[piece].upper : t->buffers[piece].lower;
}

/* By time; ends come before starts of the same time, for lifetimes are half-open. */
static bool before(const void *context, uint32_t a, uint32_t b) {
    const int64_t x = time_of(context, a), y = time_of(context, b);
    if (x != y) return x < y;
    if (a % 2 != b % 2) return a % 2;
    return a < b;
}

/* A piece of a life begins at clique out->count; it goes on with the one before where no clique
 * is between. */
static void begin_span(mnem__item *item, mnem__cliques *out) {
    if (item->spans && out->spans[item->span + item->spans - 1].to == out->count) return;
    out->spans[item->span + item->spans++] = (mnem__span){out->count, out->count};
}

/* The item of a buffer whose life, or a piece of it, begins. */
static mnem__item *begin_item(const timing *t, uint32_t buffer, int32_t *item_of,
                              mnem__cliques *out) {
    const mnem_place_buffer *b = &t->buffers[buffer];
    if (item_of[buffer] == 0) {
        out->items[out->item_count++] =
            (mnem__item){.bytes = (int64_t)b->bytes,
                         .alignment = b->alignment ? (int64_t)b->alignment : 64,
                         .first = out->count,
                         .source = (int32_t)buffer,
                         .twin = -1,
                         .span = t->lives ? (int32_t)t->lives->begin[buffer] : 0};
        item_of[buffer] = out->item_count;
    }
    return &out->items[item_of[buffer] - 1];
}

/* Items in the order of their start, with their cliques, and the bound. item_of: scratch, [n], 0s;
 * owner: the buffers of pieces, or NULL. */
static void sweep(const timing *t, size_t n, const uint32_t *moments, size_t count,
                  int32_t *item_of, const uint32_t *owner, mnem__cliques *out) {
    bool grew = false;
    mnem__load alive;
    mnem__load_init(&alive, t->buffers, n);
    for (size_t i = 0; i < count; i++) {
        const uint32_t piece = moments[i] / 2, buffer = owner ? owner[piece] : piece;
        mnem__item *item = begin_item(t, buffer, item_of, out);
        if (moments[i] % 2 == 0) {
            if (owner) begin_span(item, out);
            grew = true;
            mnem__load_add(&alive, item->bytes);
            const int64_t need = mnem__load_need(&alive);
            if (need > out->bound) out->bound = need;
            continue;
        }
        mnem__load_take(&alive, item->bytes);
        if (grew) out->count++;
        grew = false;
        item->end = out->count;
        if (owner) out->spans[item->span + item->spans - 1].to = out->count;
    }
}

/* Ends come after their starts, so pieces may be numbered as they come. owner: NULL without gaps.
 * */
static size_t collect(const timing *t, size_t n, uint32_t *moments, uint32_t *owner) {
    size_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (t->buffers[i].bytes == 0) continue;
        const uint32_t first = t->lives ? t->lives->begin[i] : i;
        const uint32_t end = t->lives ? t->lives->begin[i + 1] : i + 1;
        for (uint32_t piece = first; piece < end; piece++) {
            if (owner) owner[piece] = i;
            moments[count++] = 2 * piece;
            moments[count++] = 2 * piece + 1;
        }
    }
    mnem__sort(moments, count, before, t);
    return count;
}

/* What lives all the time, or once only, needs no spans. */
static void drop_single_spans(mnem__cliques *s) {
    bool any = false;
    for (int32_t i = 0; i < s->item_count; i++) {
        if (s->items[i].spans == 1) s->items[i].spans = 0;
        any = any || s->items[i].spans;
    }
    if (any) return;
    mnem__free(s->spans);
    s->spans = NULL;
}

static bool twins(const mnem__cliques *s, const mnem__item *a, const mnem__item *b) {
    if (a->first != b->first || a->end != b->end || a->bytes != b->bytes ||
        a->alignment != b->alignment || a->spans != b->spans)
        return false;
    return a->spans == 0 ||
           memcmp(s->spans + a->span, s->spans + b->span, (size_t)a->spans * sizeof *s->spans) == 0;
}

static void find_twins(mnem__cliques *s) {
    for (int32_t i = 0; i < s->item_count; i++) {
        for (int32_t j = i; j-- > 0 && s->items[j].first == s->items[i].first;) {
            if (!twins(s, &s->items[i], &s->items[j])) continue;
            s->items[i].twin = j;
            break;
        }
    }
}

/* Counts item i in each of its cliques; lists it where members are given. */
static void add_member(const mnem__cliques *s, int32_t i, int32_t *at, int32_t *members) {
    for (int32_t k = 0; k < mnem__spans_of(&s->items[i]); k++) {
        const mnem__span p = mnem__span_get(s, &s->items[i], k);
        for (int32_t clique = p.from; clique < p.to; clique++) {
            if (members) members[at[clique]] = i;
            at[clique]++;
        }
    }
}

/* Members of a clique in the order of items. */
static void fill_members(mnem__cliques *s) {
    int32_t *at = s->begin + 1, sum = 0; /* sizes, then where to go on: the next one's beginning */
    for (int32_t i = 0; i < s->item_count; i++) add_member(s, i, at, NULL);
    for (int32_t clique = 0; clique < s->count; clique++) {
        const int32_t size = at[clique];
        at[clique] = sum;
        sum += size;
    }
    for (int32_t i = 0; i < s->item_count; i++) add_member(s, i, at, s->members);
}

/* ---- neighbours ---- */

static bool share_a_section(const mnem__cliques *s, const mnem__item *a, const mnem__item *b) {
    if (a->first >= b->end || b->first >= a->end) return false;
    for (int32_t i = 0, j = 0; i < mnem__spans_of(a) && j < mnem__spans_of(b);) {
        const mnem__span p = mnem__span_get(s, a, i), q = mnem__span_get(s, b, j);
        if (p.from < q.to && q.from < p.to) return true;
        if (p.to <= q.to)
            i++;
        else
            j++;
    }
    return false;
}

/* Counts neighbours, and lists them where near is given. */
static size_t find_near(const mnem__cliques *s, int32_t *near_begin, int32_t *near) {
    size_t count = 0;
    for (int32_t i = 0; i < s->item_count; i++) {
        if (near) near_begin[i] = (int32_t)count;
        for (int32_t j = 0; j < s->item_count; j++) {
            if (i == j || !share_a_section(s, &s->items[i], &s->items[j])) continue;
            if (near) near[count] = j;
            count++;
        }
    }
    if (near) near_begin[s->item_count] = (int32_t)count;
    return count;
}

static mnem_status make_near(mnem__cliques *s, size_t members_max) {
    const size_t count = find_near(s, NULL, NULL), items = (size_t)s->item_count + 1;
    if (count > members_max) {
        s->members = NULL;
        return MNEM_OK;
    }
    s->near_begin = mnem__calloc("plan", items + count, sizeof *s->near);
    if (!s->near_begin) return mnem__heap_status();
    s->near = s->near_begin + items;
    find_near(s, s->near_begin, s->near);
    return MNEM_OK;
}

/* ---- all together ---- */

static size_t count_members(const mnem__cliques *s) {
    size_t members = 0;
    for (int32_t i = 0; i < s->item_count; i++) {
        for (int32_t k = 0; k < mnem__spans_of(&s->items[i]); k++) {
            const mnem__span p = mnem__span_get(s, &s->items[i], k);
            members += (size_t)(p.to - p.from);
        }
    }
    return members;
}

static mnem_status make_tables(mnem__cliques *s, size_t members_max) {
    const size_t members = count_members(s);
    const bool listed = members <= members_max;
    const size_t cliques = (size_t)s->count + 1;
    s->starts = mnem__calloc("plan", cliques + (listed ? cliques + members : 0), sizeof *s->starts);
    if (!s->starts) return mnem__heap_status();
    for (int32_t i = 0; i < s->item_count; i++) s->starts[s->items[i].first + 1]++;
    for (int32_t clique = 0; clique < s->count; clique++)
        s->starts[clique + 1] += s->starts[clique];
    if (!listed) return MNEM_OK;
    s->begin = s->starts + cliques;
    s->members = s->begin + cliques;
    find_twins(s);
    fill_members(s);
    return s->spans ? make_near(s, members_max) : MNEM_OK;
}

mnem_status mnem__cliques_create(const mnem_place_buffer *buffers, const mnem__lives *lives,
                                 size_t n, size_t members_max, mnem__cliques *out) {
    const timing t = {buffers, lives};
    const size_t pieces = lives ? lives->begin[n] : n;
    *out = (mnem__cliques){0};
    out->items = mnem__calloc("plan", n, sizeof *out->items);
    out->spans = lives ? mnem__calloc("plan", pieces, sizeof *out->spans) : NULL;
    uint32_t *moments =
        mnem__calloc("plan", (lives ? 3 : 2) * pieces + n, sizeof *moments); /* and item_of */
    mnem_status status = MNEM_OK;
    if (out->items && moments && (out->spans || !lives)) {
        uint32_t *owner = lives ? moments + 2 * pieces + n : NULL;
        const size_t count = collect(&t, n, moments, owner);
        sweep(&t, n, moments, count, (int32_t *)(moments + 2 * pieces), owner, out);
        if (lives) drop_single_spans(out);
        status = make_tables(out, members_max);
    } else {
        status = mnem__heap_status();
    }
    mnem__free(moments);
    if (status != MNEM_OK) mnem__cliques_destroy(out);
    return status;
}

void mnem__cliques_destroy(mnem__cliques *s) {
    mnem__free(s->items);
    mnem__free(s->starts);
    mnem__free(s->spans);
    mnem__free(s->near_begin);
    *s = (mnem__cliques){0};
}
