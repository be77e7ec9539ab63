/* token_set.c: see token_set.h.
 *
 * Cost: a sort of the vocabulary, 0.2 s for 150,000 on a busy machine, and 36 bytes a token while
 * it lasts. */
#include "sampling/grammar/token_set.h"

#include <string.h>

#include "base/heap.h"
#include "base/sort.h"
#include "base/text/utf8.h"
#include "sampling/grammar/grammar_work.h"

bool mnem__token_ends(const mnem_token_set *s, int32_t id) {
    return id >= 0 && (id == s->end || mnem_tokenizer_is_end(s->tokenizer, id));
}

mnem_text mnem__token_bytes(const mnem_token_set *s, uint32_t id) {
    return mnem_tokenizer_piece(s->tokenizer, (int32_t)id, false);
}

/* A token while it is sorted: mostly its first bytes, as a number, say enough. */
typedef struct sort_key {
    uint64_t first;
    mnem_text bytes;
    uint32_t characters; /* of plain text */
} sort_key;

static uint64_t first_bytes(mnem_text text) {
    uint64_t first = 0;
    for (size_t i = 0; i < 8; i++)
        first = first << 8 | (i < text.length ? (uint8_t)text.bytes[i] : 0);
    return first;
}

static bool is_before(const void *context, uint32_t a, uint32_t b) {
    const sort_key *x = (const sort_key *)context + a, *y = (const sort_key *)context + b;
    if (x->first != y->first) return x->first < y->first;
    const size_t n = x->bytes.length < y->bytes.length ? x->bytes.length : y->bytes.length;
    const int order = memcmp(x->bytes.bytes, y->bytes.bytes, n);
    if (order) return order < 0;
    return x->bytes.length != y->bytes.length ? x->bytes.length < y->bytes.length : a < b;
}

/* Characters of plain text, which are whole and neither ", \ nor controls; UINT32_MAX: it isn't. */
static uint32_t plain_characters(mnem_text text) {
    uint32_t characters = 0;
    for (size_t i = 0; i < text.length; characters++) {
        const size_t n = mnem__utf8_length(text.bytes + i, text.length - i);
        const uint8_t c = (uint8_t)text.bytes[i];
        if (n == 0 || c < 0x20 || c == '"' || c == '\\') return UINT32_MAX;
        i += n;
    }
    return characters;
}

static int list_of(uint32_t characters) {
    if (characters > MNEM__LONG_CHARACTERS) return MNEM__TOKENS_OTHER;
    return characters > MNEM__SHORT_CHARACTERS ? MNEM__TOKENS_LONG : MNEM__TOKENS_SHORT;
}

static size_t shared_bytes(mnem_text a, mnem_text b) {
    size_t n = 0;
    while (n < a.length && n < b.length && a.bytes[n] == b.bytes[n]) n++;
    return n;
}

/* The tokens that print something, and those that end a text. */
static void gather(mnem_token_set *s, sort_key *key, uint32_t *order) {
    for (int32_t id = 0; id < s->vocab; id++) {
        const mnem_text bytes = mnem__token_bytes(s, (uint32_t)id);
        if (mnem__token_ends(s, id)) {
            if (s->ends < sizeof s->ending / sizeof *s->ending) s->ending[s->ends++] = (uint32_t)id;
        } else if (bytes.length && bytes.length <= MNEM__GRAMMAR_TOKEN_BYTES) {
            key[id] = (sort_key){first_bytes(bytes), bytes, plain_characters(bytes)};
            order[s->count++] = (uint32_t)id;
        }
    }
}

/* One of the lists, of what is sorted. With entries NULL: only counts; *bytes: of text so far. */
static void fill_list(mnem_token_set *s, int which, const sort_key *key, const uint32_t *order,
                      uint32_t *bytes) {
    mnem__token_list *l = &s->list[which];
    mnem_text last = {NULL, 0};
    l->count = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const mnem_text text = key[order[i]].bytes;
        const uint32_t characters = key[order[i]].characters;
        if (list_of(characters) != which) continue;
        const size_t n = shared_bytes(last, text);
        if (characters > l->characters) l->characters = characters;
        if (l->entry) {
            l->entry[l->count] = (mnem__token_entry){
                order[i], *bytes, 0, (uint8_t)n, (uint8_t)text.length, (uint8_t)characters};
            memcpy(s->text + *bytes, text.bytes + n, text.length - n);
        }
        if (l->mask) l->mask[order[i] / 64] |= UINT64_C(1) << order[i] % 64;
        l->count++;
        *bytes += (uint32_t)(text.length - n);
        last = text;
    }
}

static void link_list(mnem__token_list *l) {
    for (uint32_t i = l->count; i-- > 0;) {
        uint32_t next = i + 1;
        while (next < l->count && l->entry[next].shared >= l->entry[i].shared)
            next = l->entry[next].next;
        l->entry[i].next = next;
    }
}

static mnem_status fill_lists(mnem_token_set *s, const sort_key *key, const uint32_t *order) {
    const size_t words = s->mask_words;
    uint32_t bytes = 0, at = 0;
    for (int i = 0; i < MNEM__TOKEN_LISTS; i++) fill_list(s, i, key, order, &bytes);
    s->entry = mnem__calloc(MNEM__GRAMMAR_TAG, (size_t)s->count + 1, sizeof *s->entry);
    s->mask = s->entry ? mnem__calloc(MNEM__GRAMMAR_TAG, 2 * words, sizeof *s->mask) : NULL;
    s->text = s->mask ? mnem__calloc(MNEM__GRAMMAR_TAG, (size_t)bytes + 1, 1) : NULL;
    if (!s->text) return mnem__heap_status();
    s->list[MNEM__TOKENS_SHORT].mask = s->mask;
    s->list[MNEM__TOKENS_LONG].mask = s->mask + words;
    bytes = 0;
    for (int i = 0; i < MNEM__TOKEN_LISTS; i++) {
        s->list[i].entry = s->entry + at;
        at += s->list[i].count;
        fill_list(s, i, key, order, &bytes);
        link_list(&s->list[i]);
    }
    return MNEM_OK;
}

static mnem_status order_tokens(mnem_token_set *s) {
    const size_t vocab = (size_t)s->vocab;
    sort_key *key = mnem__calloc(MNEM__GRAMMAR_TAG, vocab, sizeof *key);
    uint32_t *order = key ? mnem__calloc(MNEM__GRAMMAR_TAG, vocab, sizeof *order) : NULL;
    mnem_status status = order ? MNEM_OK : mnem__heap_status();
    if (status == MNEM_OK) {
        gather(s, key, order);
        mnem__sort(order, s->count, is_before, key);
        status = fill_lists(s, key, order);
    }
    mnem__free(order);
    mnem__free(key);
    return status;
}

mnem_status mnem_token_set_create(const mnem_tokenizer *tokenizer, int32_t end,
                                  mnem_token_set **set) {
    mnem_tokenizer_info info;
    mnem_tokenizer_info_get(tokenizer, &info);
    *set = NULL;
    mnem_token_set *s = mnem__calloc(MNEM__GRAMMAR_TAG, 1, sizeof *s);
    if (!s) return mnem__heap_status();
    *s = (mnem_token_set){.tokenizer = tokenizer, .vocab = info.vocab, .end = end};
    s->mask_words = (uint32_t)(((uint64_t)info.vocab + 63) / 64);
    const mnem_status status = order_tokens(s);
    if (status != MNEM_OK) {
        mnem_token_set_destroy(s);
        return status;
    }
    *set = s;
    return MNEM_OK;
}

void mnem_token_set_destroy(mnem_token_set *s) {
    if (!s) return;
    mnem__free(s->entry);
    mnem__free(s->mask);
    mnem__free(s->text);
    mnem__free(s);
}
