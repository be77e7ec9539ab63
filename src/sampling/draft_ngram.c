/* draft_ngram.c: drafts looked up in the text: what followed its last tokens before.
 *
 * Idea (Saxena, prompt lookup decoding, 2023): the text's last n tokens, n from 4 down to 2, have a
 * hash, by which a table knows where they occurred last; what follows there is expected here. From
 * then on the place moves along with the text as long as both agree, so a longer match needs no
 * larger n, and 4 is enough to tell places apart; a single token says too little about the next.
 *
 *     text    a b c d e f ... a b c d │ e f       agreed 4, at: behind the first d
 *                     ▲ at
 *     [room]  a ring of the text's last tokens; positions count from its first token
 *     [slots] for each n: hash of n tokens -> the position behind where they occurred last; 0: none
 *
 * A match is compared with the text before it is used, so hashes that collide lose a place and
 * never draft another. Where the place reaches the text's end, the draft goes on in itself: a
 * period repeats.
 * Invariant: the match is of the text's end; at < count, and no further behind it than the ring.
 * Cost: O(1) for each token; nothing is allocated after creation. */
#include <string.h>

#include "base/heap.h"
#include "base/minmax.h"
#include "sampling/draft_pace.h"

enum { N_LEAST = 2, N_MOST = 4, ORDERS = N_MOST - N_LEAST + 1 };
enum { ROOM_LEAST = 64, SLOTS_MOST = 1 << 15, COUNT_MOST = 1 << 30 };

struct mnem_draft {
    int32_t room, slots; /* powers of two */
    int32_t count;       /* tokens of the text */
    int32_t at, agreed;  /* agreed 0: no match */
    mnem__draft_pace pace;
    mnem_draft_stats stats;
    int32_t *text;         /* [room] */
    int32_t *last[ORDERS]; /* [slots] */
    int32_t words[];
};

static int32_t power_of_two(int32_t least, int32_t n, int32_t most) {
    int32_t power = least;
    while (power < n && power < most) power *= 2;
    return power;
}

static int32_t room_for(int32_t tokens) {
    return power_of_two(ROOM_LEAST, tokens, MNEM_DRAFT_TEXT);
}

static int32_t slots_for(int32_t room) {
    return mnem__min_i32(2 * room, SLOTS_MOST);
}

uint64_t mnem_draft_bytes(int32_t tokens) {
    const int32_t room = room_for(tokens);
    return sizeof(mnem_draft) +
           ((uint64_t)room + ORDERS * (uint64_t)slots_for(room)) * sizeof(int32_t);
}

mnem_status mnem_draft_create(int32_t tokens, mnem_draft **draft) {
    *draft = NULL;
    if (tokens < 1)
        return mnem__fail(MNEM_INVALID, "draft: a text of %d tokens, expected 1 or more", tokens);
    const uint64_t bytes = mnem_draft_bytes(tokens);
    mnem_draft *d = mnem__alloc("draft", bytes);
    if (!d) return mnem__heap_status();
    memset(d, 0, bytes); /* touched */
    d->room = room_for(tokens);
    d->slots = slots_for(d->room);
    d->text = d->words;
    for (int i = 0; i < ORDERS; i++) d->last[i] = d->words + d->room + (int64_t)i * d->slots;
    *draft = d;
    return MNEM_OK;
}

void mnem_draft_destroy(mnem_draft *d) {
    mnem__free(d);
}

void mnem_draft_reset(mnem_draft *d) {
    d->count = d->at = d->agreed = 0;
    memset(d->last[0], 0, ORDERS * (size_t)d->slots * sizeof(int32_t));
}

/* ---- the text ---- */

static int32_t token_at(const mnem_draft *d, int32_t position) {
    return d->text[position & (d->room - 1)];
}

/* Of the n tokens before a position. */
static uint32_t hash_before(const mnem_draft *d, int32_t position, int32_t n) {
    uint64_t hash = (uint64_t)n;
    for (int32_t i = 1; i <= n; i++)
        hash = (hash ^ (uint32_t)token_at(d, position - i)) * 0x9e3779b97f4a7c15;
    return (uint32_t)(hash >> 32) & ((uint32_t)d->slots - 1);
}

/* Whether the n tokens before a position are there still, and are the text's last ones. */
static bool agrees(const mnem_draft *d, int32_t position, int32_t n) {
    if (position < n || d->count - (position - n) > d->room) return false;
    for (int32_t i = 1; i <= n; i++)
        if (token_at(d, position - i) != token_at(d, d->count - i)) return false;
    return true;
}

/* Makes the text's end known, and returns where the longest of its matches goes on. */
static int32_t note_end(mnem_draft *d, int32_t *agreed) {
    int32_t at = 0;
    *agreed = 0;
    for (int32_t n = N_LEAST; n <= mnem__min_i32(N_MOST, d->count); n++) {
        int32_t *place = &d->last[n - N_LEAST][hash_before(d, d->count, n)];
        if (*place > 0 && agrees(d, *place, n)) {
            at = *place;
            *agreed = n;
        }
        *place = d->count;
    }
    return at;
}

/* Whether the place of the match expected this token; the match goes on, or is none. */
static void follow_match(mnem_draft *d, int32_t id) {
    const bool right = token_at(d, d->at) == id;
    mnem__draft_pace_saw(&d->pace, d->agreed, right);
    d->at = right ? d->at + 1 : 0;
    d->agreed = right ? mnem__min_i32(d->agreed + 1, d->room) : 0;
}

void mnem_draft_accept(mnem_draft *d, int32_t id) {
    int32_t agreed;
    if (d->count == COUNT_MOST) mnem_draft_reset(d);
    if (d->agreed > 0) follow_match(d, id);
    d->text[d->count++ & (d->room - 1)] = id;
    const int32_t at = note_end(d, &agreed);
    if (d->agreed > 0) return;
    d->at = at;
    d->agreed = agreed;
}

/* ---- drafts ---- */

int32_t mnem_draft_propose(mnem_draft *d, int32_t most, int32_t *ids) {
    if (d->agreed == 0) return 0;
    const int32_t n = mnem__draft_pace_length(&d->pace, d->agreed, most);
    for (int32_t i = 0; i < n; i++) {
        const int32_t from = d->at + i;
        ids[i] = from < d->count ? token_at(d, from) : ids[from - d->count];
    }
    return n;
}

void mnem_draft_tell(mnem_draft *d, int32_t drafted, int32_t accepted, double seconds) {
    const int32_t rows = 1 + mnem__min_i32(drafted, MNEM_DRAFT_MOST);
    d->stats.passes++;
    d->stats.drafted += (uint64_t)drafted;
    d->stats.accepted += (uint64_t)accepted;
    mnem__draft_pace_took(&d->pace, rows, 1 + accepted, seconds);
}

void mnem_draft_stats_get(const mnem_draft *d, mnem_draft_stats *stats) {
    *stats = d->stats;
}
