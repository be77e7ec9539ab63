/* mnem/kv_types.h: the types of keys and values in the pages of an engine, and their words.
 *
 * A choice is one type for both, or two: keys first. It isn't the layout of a page
 * (mnem_kv_layout in ops.h).
 * Threads: no state; any thread.
 *
 *     mnem_engine_options options = {.ledger = ledger, .kv = MNEM_KV_Q8_0};
 *     if (mnem_kv_parse("q8_0:q4_0", &options.kv) != MNEM_OK)
 *         puts(mnem_last_error());
 */
#ifndef MNEM_KV_TYPES_H
#define MNEM_KV_TYPES_H

#include "mnem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* AUTO: F16, or Q8_0 where that buys more. F32 is for comparing. Q4_0: rows are rotated by a
 * Hadamard matrix before they are rounded (mnem_kv_layout), which costs less of the quality;
 * Q4_0_UNROTATED: they aren't, for comparing. Other values are pairs (mnem_kv_pair). */
typedef enum mnem_kv_choice {
    MNEM_KV_F16,
    MNEM_KV_Q8_0,
    MNEM_KV_AUTO,
    MNEM_KV_F32,
    MNEM_KV_Q4_0,
    MNEM_KV_Q4_0_UNROTATED,
    MNEM_KV_PAIRS_END = 0xffff /* above all pairs, so that C++ has room for them */
} mnem_kv_choice;

/* Keys of one type and values of another, neither AUTO nor a pair itself. */
mnem_kv_choice mnem_kv_pair(mnem_kv_choice keys, mnem_kv_choice values);
/* The type of keys, and that of values; of what isn't a pair: itself. */
mnem_kv_choice mnem_kv_keys(mnem_kv_choice kv);
mnem_kv_choice mnem_kv_values(mnem_kv_choice kv);
/* Whether it is one of the above, or a pair. */
bool mnem_kv_is_valid(mnem_kv_choice kv);
/* The type of the numbers in pages: of keys, where it is a pair. AUTO: F16. */
mnem_type mnem_kv_type(mnem_kv_choice kv);

/* "f16", "q8_0", "auto", "f32", "q4_0", "q4_0-unrotated", or two of them such as "q8_0:q4_0"; "?"
 * for what isn't valid. Static. */
const char *mnem_kv_text(mnem_kv_choice kv);
/* The choice of such a text; two equal ones are no pair. MNEM_INVALID: it is none; *kv is unchanged
 * then. */
mnem_status mnem_kv_parse(const char *text, mnem_kv_choice *kv);

#ifdef __cplusplus
}
#endif

#endif
