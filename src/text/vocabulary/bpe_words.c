/* bpe_words.c: the different words of a text with their counts, in bounded memory.
 *
 * The idea: a hash table of words, whose bytes lie one after another. When they get too many, those
 * with the smallest counts are dropped until at most half is left (lossy counting; Manku and
 * Motwani, 2002): a word that is frequent keeps its place from its second or third time on, and a
 * count is too small by no more than the largest that was dropped.
 * Invariant: words are in the order in which they came; what is kept depends on the text and the
 * limit only.
 * Cost: a word of the text is one hash and about one comparison; dropping is linear, and happens
 * once for half a table of new words. */
#include "text/vocabulary/bpe_learn.h"

#include <string.h>

#include "base/error.h"
#include "base/heap.h"
#include "base/text/id_table.h"

enum {
    TEXT_FIRST = 1 << 16,
    WORDS_FIRST = 1 << 12,
    TEXT_SHARE = 48, /* learning takes about 30 bytes for each byte of words, and the pairs */
    WORD_SHARE = 4
};

mnem_status mnem__learn_resize(mnem__learn_memory *memory, void **block, uint64_t had,
                               uint64_t room, size_t size) {
    const uint64_t live = memory->live - had * size, bytes = room * size;
    if (room == 0) {
        mnem__free(*block);
        *block = NULL;
        memory->live = live;
        return MNEM_OK;
    }
    if (bytes > memory->max - live)
        return mnem__fail(MNEM_OVER_BUDGET,
                          "vocabulary: learning needs %llu bytes, but bytes_max is %llu; use a "
                          "larger bytes_max, fewer tokens or less text",
                          (unsigned long long)(live + bytes), (unsigned long long)memory->max);
    void *p = mnem__realloc(MNEM__LEARN_TAG, *block, bytes);
    if (!p) return mnem__heap_status();
    *block = p;
    memory->live = live + bytes;
    if (memory->live > memory->peak) memory->peak = memory->live;
    return MNEM_OK;
}

static mnem_status resize_text(mnem__words *w, uint32_t room) {
    void *block = w->text;
    const mnem_status status = mnem__learn_resize(w->memory, &block, w->text_room, room, 1);
    w->text = block;
    if (status == MNEM_OK) w->text_room = room;
    return status;
}

static mnem_status resize_words(mnem__words *w, uint32_t room) {
    void *block = w->word;
    const mnem_status status =
        mnem__learn_resize(w->memory, &block, w->room, room, sizeof *w->word);
    w->word = block;
    if (status == MNEM_OK) w->room = room;
    return status;
}

static mnem_status resize_slots(mnem__words *w, uint32_t count) {
    void *block = w->slots;
    const mnem_status status =
        mnem__learn_resize(w->memory, &block, w->slot_count, count, sizeof *w->slots);
    w->slots = block;
    if (status == MNEM_OK) w->slot_count = count;
    return status;
}

/* The slot of a word, or the empty one where it belongs. */
static uint32_t slot_find(const mnem__words *w, const char *bytes, uint32_t n) {
    const uint32_t mask = w->slot_count - 1;
    uint32_t slot = (uint32_t)(mnem__hash_bytes(bytes, n) >> 32) & mask;
    for (; w->slots[slot]; slot = (slot + 1) & mask) {
        const mnem__word *word = &w->word[w->slots[slot] - 1];
        if (word->length == n && memcmp(w->text + word->at, bytes, n) == 0) break;
    }
    return slot;
}

static void fill_slots(mnem__words *w) {
    memset(w->slots, 0, w->slot_count * sizeof *w->slots);
    for (uint32_t i = 0; i < w->count; i++)
        w->slots[slot_find(w, w->text + w->word[i].at, w->word[i].length)] = i + 1;
}

mnem_status mnem__words_init(mnem__words *words, mnem__learn_memory *memory) {
    const uint64_t text_max = memory->max / TEXT_SHARE;
    *words = (mnem__words){.memory = memory};
    words->text_max = text_max < INT32_MAX ? (uint32_t)text_max : INT32_MAX;
    mnem_status status = resize_text(words, TEXT_FIRST);
    if (status == MNEM_OK) status = resize_words(words, WORDS_FIRST);
    if (status == MNEM_OK) status = resize_slots(words, 2 * WORDS_FIRST);
    if (status != MNEM_OK) return status;
    words->text[words->text_bytes++] = 0;
    fill_slots(words);
    return MNEM_OK;
}

void mnem__words_fini(mnem__words *words) {
    if (!words->memory) return;
    resize_text(words, 0);
    resize_words(words, 0);
    resize_slots(words, 0);
}

void mnem__words_seal(mnem__words *words) {
    if (words->memory) resize_slots(words, 0);
}

/* ---- dropping ---- */

static bool half_is_left(const mnem__words *w, uint64_t dropped_count) {
    uint32_t bytes = 1, count = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->word[i].count <= dropped_count) continue;
        bytes += w->word[i].length + 1;
        count++;
    }
    return bytes <= w->text_max / 2 && count <= w->text_max / WORD_SHARE / 2;
}

static void drop_rare(mnem__words *w) {
    uint64_t most = 1;
    while (!half_is_left(w, most)) most *= 2;
    uint32_t kept = 0;
    w->text_bytes = 1;
    for (uint32_t i = 0; i < w->count; i++) {
        mnem__word word = w->word[i];
        if (word.count <= most) {
            w->dropped += word.count;
            continue;
        }
        memmove(w->text + w->text_bytes, w->text + word.at, word.length + 1);
        word.at = w->text_bytes;
        w->text_bytes += word.length + 1;
        w->word[kept++] = word;
    }
    w->count = kept;
    fill_slots(w);
}

/* ---- adding ---- */

static uint32_t grown(uint32_t room, uint64_t needed, uint32_t most) {
    uint64_t more = room;
    while (more < needed) more *= 2;
    return more < most ? (uint32_t)more : most;
}

static mnem_status make_room(mnem__words *w, uint32_t n) {
    const uint32_t words_max = w->text_max / WORD_SHARE;
    if (w->text_bytes + (uint64_t)n + 1 > w->text_max || w->count == words_max) drop_rare(w);
    const uint64_t bytes = w->text_bytes + (uint64_t)n + 1;
    mnem_status status = MNEM_OK;
    if (bytes > w->text_room) status = resize_text(w, grown(w->text_room, bytes, w->text_max));
    if (status == MNEM_OK && w->count == w->room)
        status = resize_words(w, grown(w->room, w->count + 1, words_max));
    if (status == MNEM_OK && w->slot_count / 2 <= w->count) {
        status = resize_slots(w, 2 * w->slot_count);
        if (status == MNEM_OK) fill_slots(w);
    }
    return status;
}

mnem_status mnem__words_add(mnem__words *words, const char *bytes, size_t n) {
    words->total++;
    if (n > words->text_max / 4) {
        words->dropped++;
        return MNEM_OK;
    }
    uint32_t slot = slot_find(words, bytes, (uint32_t)n);
    if (words->slots[slot]) {
        words->word[words->slots[slot] - 1].count++;
        return MNEM_OK;
    }
    MNEM__TRY(make_room(words, (uint32_t)n));
    slot = slot_find(words, bytes, (uint32_t)n);
    words->word[words->count++] =
        (mnem__word){.count = 1, .at = words->text_bytes, .length = (uint32_t)n};
    words->slots[slot] = words->count;
    memcpy(words->text + words->text_bytes, bytes, n);
    words->text_bytes += (uint32_t)n;
    words->text[words->text_bytes++] = 0;
    return MNEM_OK;
}
