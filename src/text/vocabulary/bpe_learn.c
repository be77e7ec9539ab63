/* bpe_learn.c: the merges of byte-level BPE, most frequent pair first.
 *
 * The idea (Sennrich et al., 2016): every byte of a word is a token; the pair of neighbours that is
 * most frequent over all words becomes a token, and so on. Each place where a token starts is in
 * the list of the pair that starts there, so that a merge visits the places of its pair only and
 * moves those of its neighbours to other lists:
 *
 *     text    . l o w e r . l o w .         a merge of (l,o) takes places 1 and 7 from its list,
 *     token   - l o w e r - l o w -         takes 2 and 8 out of (o,w)'s,
 *     after   - lo. w e r - lo. w -         and puts 1 and 7 into (lo,w)'s
 *     span    1 2 2 1 1 1 1 2 2 1 1         (at a token's first and last byte)
 *
 * A heap holds the pairs by count. Counts of pairs that are in it only fall, so a pair whose count
 * fell stays where it is until it comes to the top, and is then put where it belongs.
 * A run of equal tokens is merged from its left end, two by two.
 * Invariant: the count of a pair is the sum of the counts of the words over the places in its list;
 * a place is in at most one list.
 * Cost: 20 bytes for each byte of distinct words and about 60 for each pair; a merge is a few table
 * look-ups for each of its places, in all at most one for each byte of distinct words. */
#include "text/vocabulary/bpe_learn.h"

#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/progress.h"
#include "base/text/id_table.h"
#include "text/token/token_text.h"

enum { BYTES = 256, PAIRS_FIRST = 1 << 10, PROGRESS_EVERY = 64 };
#define NONE UINT32_MAX

typedef struct pair {
    int32_t left, right;
    uint64_t count; /* now */
    uint64_t key;   /* when it was put into the heap: at least count */
    uint32_t head;  /* of its list of places */
} pair;

typedef struct learner {
    const mnem__words *words;
    mnem__learn_memory *memory;
    uint32_t places; /* bytes of text */
    int32_t *token;  /* that starts here; -1: between words */
    uint32_t *span, *next, *before, *word;

    pair *pairs;
    uint32_t *heap, *slots; /* indices of pairs; index + 1 */
    uint32_t count, room, heap_count, slot_count;
} learner;

/* ---- memory ---- */

static mnem_status resize(const learner *l, uint32_t **block, uint64_t had, uint64_t room) {
    void *p = *block;
    const mnem_status status = mnem__learn_resize(l->memory, &p, had, room, sizeof **block);
    *block = p;
    return status;
}

static mnem_status resize_places(learner *l, uint32_t had, uint32_t places) {
    uint32_t *token = (uint32_t *)l->token;
    mnem_status status = resize(l, &token, had, places);
    l->token = (int32_t *)token;
    uint32_t **const blocks[] = {&l->span, &l->next, &l->before, &l->word};
    for (int i = 0; i < 4 && status == MNEM_OK; i++) status = resize(l, blocks[i], had, places);
    return status;
}

static mnem_status resize_slots(learner *l, uint32_t count) {
    const mnem_status status = resize(l, &l->slots, l->slot_count, count);
    if (status == MNEM_OK) l->slot_count = count;
    return status;
}

static mnem_status resize_pairs(learner *l, uint32_t room) {
    void *pairs = l->pairs;
    mnem_status status = mnem__learn_resize(l->memory, &pairs, l->room, room, sizeof *l->pairs);
    l->pairs = pairs;
    if (status != MNEM_OK) return status;
    status = resize(l, &l->heap, l->room, room);
    if (status == MNEM_OK) l->room = room;
    return status;
}

static void learner_fini(learner *l) {
    mnem__free(l->token);
    mnem__free(l->span);
    mnem__free(l->next);
    mnem__free(l->before);
    mnem__free(l->word);
    mnem__free(l->pairs);
    mnem__free(l->heap);
    mnem__free(l->slots);
}

/* ---- pairs ---- */

static uint32_t slot_find(const learner *l, int32_t left, int32_t right) {
    const uint32_t mask = l->slot_count - 1;
    const uint64_t hash =
        mnem__hash_mix(mnem__hash_mix((uint64_t)(uint32_t)left << 32 | (uint32_t)right));
    uint32_t slot = (uint32_t)(hash >> 32) & mask;
    for (; l->slots[slot]; slot = (slot + 1) & mask) {
        const pair *p = &l->pairs[l->slots[slot] - 1];
        if (p->left == left && p->right == right) break;
    }
    return slot;
}

static void fill_slots(learner *l) {
    memset(l->slots, 0, l->slot_count * sizeof *l->slots);
    for (uint32_t i = 0; i < l->count; i++)
        l->slots[slot_find(l, l->pairs[i].left, l->pairs[i].right)] = i + 1;
}

static mnem_status pair_room(learner *l) {
    mnem_status status = MNEM_OK;
    if (l->count == l->room) status = resize_pairs(l, 2 * l->room);
    if (status == MNEM_OK && l->slot_count / 2 <= l->count) {
        status = resize_slots(l, 2 * l->slot_count);
        if (status == MNEM_OK) fill_slots(l);
    }
    return status;
}

/* The pair's index; a new one has no place yet. */
static mnem_status pair_get(learner *l, int32_t left, int32_t right, uint32_t *index) {
    uint32_t slot = slot_find(l, left, right);
    if (l->slots[slot] == 0) {
        MNEM__TRY(pair_room(l));
        slot = slot_find(l, left, right);
        l->pairs[l->count] = (pair){.left = left, .right = right, .head = NONE};
        l->slots[slot] = ++l->count;
    }
    *index = l->slots[slot] - 1;
    return MNEM_OK;
}

/* ---- places ---- */

static uint32_t after(const learner *l, uint32_t at) {
    return at + l->span[at];
}

static uint32_t before(const learner *l, uint32_t at) {
    return at - l->span[at - 1];
}

static uint64_t weight(const learner *l, uint32_t at) {
    return l->words->word[l->word[at]].count;
}

/* Puts a place, which starts a pair, into its list. */
static mnem_status place_put(learner *l, uint32_t at) {
    uint32_t index;
    MNEM__TRY(pair_get(l, l->token[at], l->token[after(l, at)], &index));
    pair *p = &l->pairs[index];
    l->before[at] = NONE;
    l->next[at] = p->head;
    if (p->head != NONE) l->before[p->head] = at;
    p->head = at;
    p->count += weight(l, at);
    return MNEM_OK;
}

static void place_take(learner *l, uint32_t at) {
    pair *p = &l->pairs[l->slots[slot_find(l, l->token[at], l->token[after(l, at)])] - 1];
    if (l->next[at] != NONE) l->before[l->next[at]] = l->before[at];
    if (l->before[at] != NONE)
        l->next[l->before[at]] = l->next[at];
    else
        p->head = l->next[at];
    p->count -= weight(l, at);
}

/* ---- the heap ---- */

/* Bytes in the order of the characters that stand for them, then merged tokens. */
static int32_t rank(int32_t token) {
    return token < BYTES ? (int32_t)mnem__bpe_character((unsigned char)token) : token + BYTES;
}

static bool goes_before(const pair *a, const pair *b) {
    if (a->key != b->key) return a->key > b->key;
    if (a->left != b->left) return rank(a->left) < rank(b->left);
    return rank(a->right) < rank(b->right);
}

static void sift_down(learner *l, uint32_t at) {
    const uint32_t index = l->heap[at];
    for (uint32_t child; (child = 2 * at + 1) < l->heap_count; at = child) {
        if (child + 1 < l->heap_count &&
            goes_before(&l->pairs[l->heap[child + 1]], &l->pairs[l->heap[child]]))
            child++;
        if (!goes_before(&l->pairs[l->heap[child]], &l->pairs[index])) break;
        l->heap[at] = l->heap[child];
    }
    l->heap[at] = index;
}

static void heap_put(learner *l, uint32_t index) {
    uint32_t at = l->heap_count++;
    l->pairs[index].key = l->pairs[index].count;
    for (; at > 0; at = (at - 1) / 2) {
        const uint32_t parent = l->heap[(at - 1) / 2];
        if (!goes_before(&l->pairs[index], &l->pairs[parent])) break;
        l->heap[at] = parent;
    }
    l->heap[at] = index;
}

static void heap_put_new(learner *l, uint32_t from) {
    for (uint32_t i = from; i < l->count; i++)
        if (l->pairs[i].count > 0) heap_put(l, i);
}

/* The most frequent pair, or NONE when none has a place. */
static uint32_t heap_best(learner *l) {
    while (l->heap_count > 0) {
        pair *p = &l->pairs[l->heap[0]];
        if (p->count > 0 && p->key == p->count) return l->heap[0];
        p->key = p->count;
        if (p->count == 0) l->heap[0] = l->heap[--l->heap_count];
        if (l->heap_count > 0) sift_down(l, 0);
    }
    return NONE;
}

/* ---- merging ---- */

static mnem_status join(learner *l, uint32_t at, int32_t token) {
    const uint32_t right = after(l, at), end = after(l, right), left = before(l, at);
    const bool has_left = l->token[left] >= 0, has_right = l->token[end] >= 0;
    place_take(l, at);
    if (has_right) place_take(l, right);
    if (has_left) place_take(l, left);
    l->token[at] = token;
    l->span[at] = l->span[end - 1] = end - at;
    mnem_status status = has_left ? place_put(l, left) : MNEM_OK;
    if (status == MNEM_OK && has_right) status = place_put(l, at);
    return status;
}

/* Joins at this place and, in a run of equal tokens, all of them from the run's left end on. */
static mnem_status join_run(learner *l, uint32_t at, pair p, int32_t token) {
    if (p.left == p.right)
        while (l->token[before(l, at)] == p.left) at = before(l, at);
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK && l->token[at] == p.left && l->token[after(l, at)] == p.right) {
        status = join(l, at, token);
        at = after(l, at);
    }
    return status;
}

static mnem_status merge(learner *l, uint32_t index, int32_t token, mnem__merge *out) {
    const pair p = l->pairs[index];
    const uint32_t pairs_before = l->count;
    *out = (mnem__merge){.left = p.left, .right = p.right, .at = p.head};
    out->length = after(l, after(l, p.head)) - p.head;
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK && l->pairs[index].head != NONE)
        status = join_run(l, l->pairs[index].head, p, token);
    if (status == MNEM_OK) heap_put_new(l, pairs_before);
    return status;
}

/* ---- start ---- */

static void start_word(learner *l, uint32_t index) {
    const mnem__word *word = &l->words->word[index];
    for (uint32_t i = word->at; i < word->at + word->length; i++) {
        l->token[i] = (unsigned char)l->words->text[i];
        l->word[i] = index;
    }
}

static mnem_status start(learner *l) {
    mnem_status status = resize_places(l, 0, l->places);
    if (status == MNEM_OK) status = resize_pairs(l, PAIRS_FIRST);
    if (status == MNEM_OK) status = resize_slots(l, 2 * PAIRS_FIRST);
    if (status != MNEM_OK) return status;
    fill_slots(l);
    for (uint32_t i = 0; i < l->places; i++) {
        l->token[i] = -1;
        l->span[i] = 1;
    }
    for (uint32_t i = 0; i < l->words->count; i++) start_word(l, i);
    for (uint32_t i = 0; i + 1 < l->places && status == MNEM_OK; i++)
        if (l->token[i] >= 0 && l->token[i + 1] >= 0) status = place_put(l, i);
    if (status == MNEM_OK) heap_put_new(l, 0);
    return status;
}

mnem_status mnem__bpe_learn(const mnem__words *words, uint32_t wanted, mnem__merge *merges,
                            uint32_t *count, const mnem_progress *progress) {
    const uint64_t live = words->memory->live;
    learner l = {.words = words, .memory = words->memory, .places = words->text_bytes};
    mnem_status status = start(&l);
    for (*count = 0; *count < wanted && status == MNEM_OK; ++*count) {
        if (*count % PROGRESS_EVERY == 0 &&
            !mnem__progress_tell(progress, "merging", *count, wanted)) {
            status = mnem__fail(MNEM_CANCELLED, "vocabulary: stopped by the caller");
            break;
        }
        const uint32_t best = heap_best(&l);
        if (best == NONE) break;
        status = merge(&l, best, BYTES + (int32_t)*count, &merges[*count]);
    }
    learner_fini(&l);
    words->memory->live = live;
    return status;
}
