/* rigid_bodies.c: buffers with constraints, as rigid bodies.
 *
 * Idea: a buffer with gaps is several boxes that keep their distance: its whole height between the
 * gaps, the window of each gap. Buffers that must be at one offset are one body with the boxes of
 * all. What is left to constraint for is then a property of a body: fixed, hinted, a partner.
 *
 *     bytes  +---+       +---+        one body of three pieces: another one fits into the gap,
 *            |   +-------+   |        above or below the window
 *            |   |window |   |
 *            |   +-------+   |
 *            +---+  gap  +---+  time
 *
 * Invariant: pieces of one body lie between its lower and upper, 0 and bytes.
 * Cost: 64 bytes for a body, 32 for a piece. */
#include "place/exact/rigid_bodies.h"

#include "base/error.h"
#include "base/heap.h"

/* ---- checks ---- */

static mnem_status check_gaps(const mnem_place_buffer *b, const mnem_place_constraint *w,
                              size_t i) {
    int64_t after = b->lower;
    for (uint32_t g = 0; g < w->gap_count; g++) {
        const mnem_place_gap *gap = &w->gaps[g];
        if (gap->lower < after || gap->lower >= gap->upper || gap->upper > b->upper)
            return mnem__fail(MNEM_INVALID,
                              "place: gap %lld to %lld of buffer %zu is invalid: gaps must be in "
                              "order, not empty, and within the lifetime",
                              (long long)gap->lower, (long long)gap->upper, i);
        if (gap->window_lower > gap->window_upper || gap->window_upper > b->bytes)
            return mnem__fail(MNEM_INVALID,
                              "place: window %llu to %llu of a gap of buffer %zu isn't within the "
                              "buffer's %llu bytes",
                              (unsigned long long)gap->window_lower,
                              (unsigned long long)gap->window_upper, i,
                              (unsigned long long)b->bytes);
        after = gap->upper;
    }
    return MNEM_OK;
}

static mnem_status check_wish(const mnem_place_buffer *buffers, const mnem_place_constraint *w,
                              size_t n, size_t i) {
    const mnem_place_buffer *b = &buffers[i];
    const uint64_t alignment = b->alignment ? b->alignment : 64;
    if (b->bytes > MNEM__BODY_FAR || alignment > MNEM__BODY_FAR)
        return mnem__fail(MNEM_INVALID,
                          "place: buffer %zu has %llu bytes and an alignment of %llu, expected "
                          "fewer than 2^60 for both",
                          i, (unsigned long long)b->bytes, (unsigned long long)alignment);
    if (w->in_place > n || w->same_as > n || w->in_place == i + 1 || w->same_as == i + 1)
        return mnem__fail(MNEM_INVALID,
                          "place: buffer %zu has in_place %u and same_as %u, expected 0 (none), or "
                          "1 + the index of another buffer, at most %zu",
                          i, w->in_place, w->same_as, n);
    if (w->fixed && (b->offset > MNEM__BODY_FAR || b->offset % alignment))
        return mnem__fail(
            MNEM_INVALID,
            "place: buffer %zu is fixed at offset %llu, expected a multiple of its alignment, %llu",
            i, (unsigned long long)b->offset, (unsigned long long)alignment);
    return check_gaps(b, w, i);
}

/* ---- making ---- */

/* The first of those that i is the same as (each leads to an earlier one of its group). */
static uint32_t root_of(uint32_t *leader, uint32_t i) {
    while (leader[i] != i) i = leader[i] = leader[leader[i]];
    return i;
}

static void number_bodies(const mnem_place_constraint *constraints, size_t n, mnem__bodies *out) {
    uint32_t *leader = out->body_of;
    for (uint32_t i = 0; i < n; i++) leader[i] = i;
    for (uint32_t i = 0; i < n; i++) {
        if (!constraints[i].same_as) continue;
        const uint32_t a = root_of(leader, i), b = root_of(leader, constraints[i].same_as - 1);
        leader[a > b ? a : b] = a > b ? b : a;
    }
    /* Roots come before those they lead, so numbers are final when they are looked up. */
    for (uint32_t i = 0; i < n; i++) leader[i] = leader[i] == i ? out->count++ : leader[leader[i]];
}

static void add_piece(mnem__bodies *out, int64_t lower, int64_t upper, uint64_t bottom,
                      uint64_t top) {
    if (lower >= upper || bottom >= top) return;
    out->pieces[out->piece_count++] = (mnem__piece){lower, upper, (int64_t)bottom, (int64_t)top};
}

static void add_pieces(mnem__bodies *out, const mnem_place_buffer *b,
                       const mnem_place_constraint *w) {
    int64_t after = b->lower;
    for (uint32_t g = 0; g < w->gap_count; g++) {
        const mnem_place_gap *gap = &w->gaps[g];
        add_piece(out, after, gap->lower, 0, b->bytes);
        add_piece(out, gap->lower, gap->upper, gap->window_lower, gap->window_upper);
        out->windows = out->windows || gap->window_lower < gap->window_upper;
        after = gap->upper;
    }
    add_piece(out, after, b->upper, 0, b->bytes);
}

static mnem_status join(mnem__bodies *out, const mnem_place_buffer *b,
                        const mnem_place_constraint *w, size_t i) {
    mnem__body *body = &out->bodies[out->body_of[i]];
    const int64_t alignment = b->alignment ? (int64_t)b->alignment : 64;
    if (alignment > body->alignment) body->alignment = alignment;
    if ((int64_t)b->bytes > body->bytes) body->bytes = (int64_t)b->bytes;
    if (b->lower < body->lower) body->lower = b->lower;
    if (b->upper > body->upper) body->upper = b->upper;
    if (w->in_place && body->partner < 0 && out->body_of[w->in_place - 1] != out->body_of[i])
        body->partner = (int32_t)out->body_of[w->in_place - 1];
    if (w->hinted && body->hint < 0 && b->offset <= MNEM__BODY_FAR) body->hint = (int64_t)b->offset;
    if (w->fixed && body->fixed && body->offset != (int64_t)b->offset)
        return mnem__fail(
            MNEM_INVALID,
            "place: buffer %zu is fixed at offset %llu, but must have the offset of a "
            "buffer fixed at %lld (same_as); give both one offset",
            i, (unsigned long long)b->offset, (long long)body->offset);
    if (!w->fixed) return MNEM_OK;
    body->fixed = true;
    body->offset = (int64_t)b->offset;
    return MNEM_OK;
}

/* Pieces lie body after body. */
static mnem_status fill_bodies(const mnem_place_buffer *buffers,
                               const mnem_place_constraint *constraints, size_t n,
                               mnem__bodies *out) {
    for (uint32_t i = 0; i < out->count; i++)
        out->bodies[i] = (mnem__body){
            .lower = INT64_MAX, .upper = INT64_MIN, .alignment = 1, .hint = -1, .partner = -1};
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < n && status == MNEM_OK; i++)
        status = join(out, &buffers[i], &constraints[i], i);
    if (status != MNEM_OK) return status;
    /* Groups are rare: members are looked for only among those after the first. */
    uint32_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (out->body_of[i] != next) continue;
        mnem__body *body = &out->bodies[next];
        body->first = out->piece_count;
        add_pieces(out, &buffers[i], &constraints[i]);
        for (size_t j = i + 1; j < n; j++)
            if (out->body_of[j] == next) add_pieces(out, &buffers[j], &constraints[j]);
        body->end = out->piece_count;
        next++;
    }
    return MNEM_OK;
}

mnem_status mnem__bodies_create(const mnem_place_buffer *buffers,
                                const mnem_place_constraint *constraints, size_t n,
                                mnem__bodies *out) {
    *out = (mnem__bodies){0};
    size_t pieces = 0;
    mnem_status status = MNEM_OK;
    for (size_t i = 0; i < n && status == MNEM_OK; i++) {
        status = check_wish(buffers, &constraints[i], n, i);
        pieces += 1 + 2 * (size_t)constraints[i].gap_count;
    }
    if (status != MNEM_OK) return status;
    if (pieces > MNEM__PIECES_MAX)
        return mnem__fail(MNEM_INVALID,
                          "place: with constraints, the number of buffers plus twice the number of "
                          "gaps is %zu, expected at most %d",
                          pieces, MNEM__PIECES_MAX);
    out->body_of = mnem__calloc("plan", n, sizeof *out->body_of);
    out->bodies = mnem__calloc("plan", n, sizeof *out->bodies);
    out->pieces = mnem__calloc("plan", pieces, sizeof *out->pieces);
    if (out->body_of && out->bodies && out->pieces) {
        number_bodies(constraints, n, out);
        status = fill_bodies(buffers, constraints, n, out);
    } else {
        status = mnem__heap_status();
    }
    if (status != MNEM_OK) mnem__bodies_destroy(out);
    return status;
}

void mnem__bodies_destroy(mnem__bodies *b) {
    mnem__free(b->body_of);
    mnem__free(b->bodies);
    mnem__free(b->pieces);
    *b = (mnem__bodies){0};
}

/* ---- what follows ---- */

bool mnem__bodies_agree(const mnem__bodies *b, const mnem__body *a, const mnem__body *c) {
    const bool partners = a->partner == c - b->bodies || c->partner == a - b->bodies;
    if (partners && a->offset == c->offset) return true;
    for (uint32_t i = a->first; i < a->end; i++) {
        const mnem__piece *p = &b->pieces[i];
        for (uint32_t j = c->first; j < c->end; j++) {
            const mnem__piece *q = &b->pieces[j];
            if (p->lower < q->upper && q->lower < p->upper &&
                a->offset + p->bottom < c->offset + q->top &&
                c->offset + q->bottom < a->offset + p->top)
                return false;
        }
    }
    return true;
}

mnem_status mnem__bodies_check_fixed(const mnem__bodies *out, const uint32_t *space_of) {
    for (uint32_t i = 0; i < out->count; i++) {
        const mnem__body *a = &out->bodies[i];
        if (!a->fixed) continue;
        if (a->offset % a->alignment)
            return mnem__fail(MNEM_INVALID,
                              "place: buffers are fixed at offset %lld, expected a multiple of "
                              "their largest alignment, %lld",
                              (long long)a->offset, (long long)a->alignment);
        for (uint32_t j = 0; j < i; j++)
            if (out->bodies[j].fixed && (!space_of || space_of[i] == space_of[j]) &&
                !mnem__bodies_agree(out, a, &out->bodies[j]))
                return mnem__fail(MNEM_INVALID,
                                  "place: buffers fixed at offsets %lld and %lld overlap",
                                  (long long)a->offset, (long long)out->bodies[j].offset);
    }
    return MNEM_OK;
}

/* ---- the lowest offset ---- */

void mnem__ranges_free(mnem__ranges *ranges) {
    mnem__free(ranges->data);
    *ranges = (mnem__ranges){0};
}

static void add_range(mnem__ranges *r, mnem__range taken) {
    if (r->count == r->room) {
        const size_t room = r->room ? 2 * r->room : 256;
        mnem__range *data = mnem__realloc("plan", r->data, room * sizeof *data);
        if (!data) {
            r->no_memory = true;
            return;
        }
        r->data = data;
        r->room = room;
    }
    size_t at = r->count++;
    for (; at > 0 && r->data[at - 1].after > taken.after; at--) r->data[at] = r->data[at - 1];
    r->data[at] = taken;
}

/* The offsets that other, which is placed, takes from body. */
static void take_from(const mnem__bodies *b, const mnem__body *body, const mnem__body *other,
                      mnem__ranges *ranges) {
    if (other->lower >= body->upper || body->lower >= other->upper) return;
    for (uint32_t i = body->first; i < body->end; i++) {
        const mnem__piece *p = &b->pieces[i];
        for (uint32_t j = other->first; j < other->end; j++) {
            const mnem__piece *q = &b->pieces[j];
            if (p->lower >= q->upper || q->lower >= p->upper) continue;
            add_range(ranges, (mnem__range){other->offset + q->bottom - p->top,
                                            other->offset + q->top - p->bottom});
        }
    }
}

int64_t mnem__bodies_lowest(const mnem__bodies *b, const mnem__body *body, const uint32_t *space_of,
                            mnem__ranges *ranges) {
    int64_t at = 0;
    ranges->count = 0;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->bodies[i].placed && (!space_of || space_of[i] == space_of[body - b->bodies]))
            take_from(b, body, &b->bodies[i], ranges);
    for (size_t i = 0; i < ranges->count; i++) {
        const mnem__range *r = &ranges->data[i];
        if (r->after < at && at < r->before)
            at = (r->before + body->alignment - 1) & -body->alignment;
    }
    return at;
}

/* ---- the bound ---- */

/* The most of a body's bytes that one of its pieces takes at a time. */
static int64_t height_at(const mnem__bodies *b, const mnem__body *body, int64_t time) {
    int64_t most = 0;
    if (time < body->lower || time >= body->upper) return 0;
    for (uint32_t i = body->first; i < body->end; i++) {
        const mnem__piece *p = &b->pieces[i];
        if (p->lower <= time && time < p->upper && p->top - p->bottom > most)
            most = p->top - p->bottom;
    }
    return most;
}

/* Partners may share: the smaller of the two isn't counted where both are alive. */
static int64_t sum_at(const mnem__bodies *b, int64_t time) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const mnem__body *body = &b->bodies[i];
        const int64_t height = height_at(b, body, time);
        sum += height;
        if (body->partner < 0 || height == 0) continue;
        const int64_t other = height_at(b, &b->bodies[body->partner], time);
        sum -= other < height ? other : height;
    }
    return sum;
}

int64_t mnem__bodies_bound(const mnem__bodies *b) {
    int64_t bound = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const mnem__body *body = &b->bodies[i];
        if (body->fixed && body->offset + body->bytes > bound) bound = body->offset + body->bytes;
        if (body->bytes > bound) bound = body->bytes;
    }
    for (uint32_t i = 0; i < b->piece_count; i++) {
        const int64_t sum = sum_at(b, b->pieces[i].lower);
        if (sum > bound) bound = sum;
    }
    return bound;
}
