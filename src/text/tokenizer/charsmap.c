/* charsmap.c: see charsmap.h.
 *
 * The idea: a trie as a double array (Aoe, 1989), as the Darts library that SentencePiece uses
 * writes it: a unit of 32 bits has the byte that leads to it (0 to 7), whether a text ends there
 * (8), and the offset of its children (10 to 30, times 256 if bit 9 is set), which are found by
 * exclusive or. A leaf (bit 31) holds where the replacement is.
 * Invariant: a unit that a wrong file points to beyond the array ends the search.
 * Cost: a step for each byte of the longest match. */
#include "text/tokenizer/charsmap.h"

#include <string.h>

enum { TEXT_MAX = 256 };

static const char key[] = "tokenizer.ggml.precompiled_charsmap";

mnem_status mnem__charsmap_init(mnem__charsmap *map, const mnem__token_source *source) {
    mnem_value value;
    uint32_t bytes;
    if (!mnem__token_source_find(source, key, &value)) return MNEM_OK;
    if (value.type != MNEM_VALUE_ARRAY ||
        (value.element != MNEM_VALUE_U8 && value.element != MNEM_VALUE_I8))
        return mnem__fail(MNEM_BAD_FILE,
                          "key %s is not an array of bytes; download or convert the file again",
                          key);
    if (value.count == 0) return MNEM_OK;
    const char *data = value.elements;
    if (value.count >= sizeof bytes) memcpy(&bytes, data, sizeof bytes);
    if (value.count < sizeof bytes || bytes >= value.count - sizeof bytes ||
        data[value.count - 1] != 0)
        return mnem__fail(MNEM_BAD_FILE,
                          "key %s, of %llu bytes, is damaged; download or convert the file again",
                          key, (unsigned long long)value.count);
    map->units = data + sizeof bytes;
    map->count = bytes / (uint32_t)sizeof(uint32_t);
    map->texts = map->units + bytes;
    map->bytes = value.count - sizeof bytes - bytes;
    return MNEM_OK;
}

/* Zero, which nothing leads to, beyond the array. */
static uint32_t unit_at(const mnem__charsmap *map, uint32_t index) {
    uint32_t unit = 0;
    if (index < map->count) memcpy(&unit, map->units + (size_t)index * sizeof unit, sizeof unit);
    return unit;
}

static uint32_t offset_of(uint32_t unit) {
    return unit >> 10 << ((unit & 1u << 9) >> 6);
}

size_t mnem__charsmap_find(const mnem__charsmap *map, const char *text, size_t n,
                           mnem_text *replaced) {
    size_t longest = 0;
    uint32_t at = offset_of(unit_at(map, 0));
    for (size_t i = 0; i < n && text[i] != 0 && map->count > 0; i++) {
        at ^= (unsigned char)text[i];
        const uint32_t unit = unit_at(map, at);
        if ((unit & (1u << 31 | 0xFFu)) != (unsigned char)text[i]) break;
        at ^= offset_of(unit);
        const uint32_t place = unit_at(map, at) & ~(1u << 31);
        if (!(unit >> 8 & 1) || place >= map->bytes) continue;
        const size_t length = strnlen(map->texts + place, TEXT_MAX + 1);
        if (length > TEXT_MAX) continue; /* the longest in use has 33 bytes */
        *replaced = (mnem_text){map->texts + place, length};
        longest = i + 1;
    }
    return longest;
}
