/* fuzz_match.c: see fuzz_match.h. */
#include "fuzz_match.h"

const mnem_grammar_options fuzz_match_limits = {
    .bytes = 1 << 20, .state_bytes = 8 << 10, .steps = 200000};

/* Something goes on, where it hasn't ended. */
static void check_alive(mnem_match *match, mnem_match *other) {
    size_t fits = 0;
    for (int byte = 0; byte < 256 && !mnem_match_may_end(match) && !fits; byte++) {
        const char c = (char)byte;
        mnem_match_copy(other, match);
        if (mnem_match_accept_text(other, &c, 1, &fits) != MNEM_OK) return; /* a bound */
    }
    FUZZ_CHECK(fits || mnem_match_may_end(match));
}

/* Byte by byte as at once; a bound may be met by one of them. */
static void check_steps(mnem_match *match, mnem_match *other, const char *text, size_t n,
                        size_t fits) {
    size_t at = 0, one = 1;
    mnem_match_reset(other);
    for (; at < n && one; at += one)
        if (mnem_match_accept_text(other, text + at, 1, &one) != MNEM_OK) return;
    FUZZ_CHECK(at == fits);
    FUZZ_CHECK(mnem_match_may_end(match) == mnem_match_may_end(other));
    FUZZ_CHECK(mnem_match_is_done(match) == mnem_match_is_done(other));
}

void fuzz_match(mnem_grammar *grammar, const char *text, size_t n) {
    mnem_match *match, *other;
    size_t fits = 0;
    if (mnem_match_create(grammar, &match) != MNEM_OK) return; /* a bound */
    FUZZ_CHECK(mnem_match_create(grammar, &other) == MNEM_OK);
    check_alive(match, other);
    if (mnem_match_accept_text(match, text, n, &fits) == MNEM_OK) {
        check_alive(match, other);
        check_steps(match, other, text, n, fits);
    }
    mnem_match_destroy(match);
    mnem_match_destroy(other);
}
