/* kv_types.c: choices of types for keys and values, as numbers and as words.
 *
 * A pair is the number of the keys' type, and in the bits from SHIFT on that of the values' type
 * plus 1, so that a single type is the same number as before there were pairs. */
#include "mnem/kv_types.h"

#include <string.h>

#include "base/error.h"

enum { KINDS = MNEM_KV_Q4_0_UNROTATED + 1, SHIFT = 8, MASK = (1 << SHIFT) - 1 };

static const char *const words[KINDS] = {"f16", "q8_0", "auto", "f32", "q4_0", "q4_0-unrotated"};

/* [keys][values] */
#define PAIRS(keys)                                                                                \
    { keys ":f16", keys ":q8_0", keys ":auto", keys ":f32", keys ":q4_0", keys ":q4_0-unrotated" }
static const char *const pairs[KINDS][KINDS] = {PAIRS("f16"),  PAIRS("q8_0"),
                                                PAIRS("auto"), PAIRS("f32"),
                                                PAIRS("q4_0"), PAIRS("q4_0-unrotated")};

mnem_kv_choice mnem_kv_pair(mnem_kv_choice keys, mnem_kv_choice values) {
    if (keys == values) return keys;
    return (mnem_kv_choice)((unsigned)keys | ((unsigned)values + 1) << SHIFT);
}

mnem_kv_choice mnem_kv_keys(mnem_kv_choice kv) {
    return (mnem_kv_choice)((unsigned)kv & MASK);
}

mnem_kv_choice mnem_kv_values(mnem_kv_choice kv) {
    const unsigned values = (unsigned)kv >> SHIFT;
    return values ? (mnem_kv_choice)(values - 1) : mnem_kv_keys(kv);
}

bool mnem_kv_is_valid(mnem_kv_choice kv) {
    const mnem_kv_choice keys = mnem_kv_keys(kv), values = mnem_kv_values(kv);
    if ((unsigned)keys >= KINDS || (unsigned)values >= KINDS) return false;
    return keys == kv ||
           (kv == mnem_kv_pair(keys, values) && keys != MNEM_KV_AUTO && values != MNEM_KV_AUTO);
}

mnem_type mnem_kv_type(mnem_kv_choice kv) {
    switch (mnem_kv_keys(kv)) {
    case MNEM_KV_Q8_0: return MNEM_TYPE_Q8_0;
    case MNEM_KV_F32: return MNEM_TYPE_F32;
    case MNEM_KV_Q4_0:
    case MNEM_KV_Q4_0_UNROTATED: return MNEM_TYPE_Q4_0;
    default: return MNEM_TYPE_F16;
    }
}

const char *mnem_kv_text(mnem_kv_choice kv) {
    if (!mnem_kv_is_valid(kv)) return "?";
    const mnem_kv_choice keys = mnem_kv_keys(kv);
    return kv == keys ? words[keys] : pairs[keys][mnem_kv_values(kv)];
}

/* The kind that the first n characters name; KINDS: none. */
static unsigned find(const char *text, size_t n) {
    unsigned i = 0;
    while (i < KINDS && (strlen(words[i]) != n || memcmp(words[i], text, n) != 0)) i++;
    return i;
}

mnem_status mnem_kv_parse(const char *text, mnem_kv_choice *kv) {
    const size_t n = strcspn(text, ":");
    const unsigned keys = find(text, n);
    const unsigned values = text[n] ? find(text + n + 1, strlen(text + n + 1)) : keys;
    const bool automatic = text[n] && (keys == MNEM_KV_AUTO || values == MNEM_KV_AUTO);
    if (keys == KINDS || values == KINDS || automatic)
        return mnem__fail(
            MNEM_INVALID,
            "kv: \"%s\" is no type of keys and values, expected f16, q8_0, q4_0, f32, "
            "q4_0-unrotated or auto, or two of the first five such as q8_0:q4_0, keys "
            "first",
            text);
    *kv = mnem_kv_pair((mnem_kv_choice)keys, (mnem_kv_choice)values);
    return MNEM_OK;
}
