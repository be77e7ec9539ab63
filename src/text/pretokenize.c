/* pretokenize.c: cuts text into the words that byte-level BPE never joins, by patterns (PCRE2).
 *
 * The idea: a pre-tokenizer is a list of patterns; the first cuts the text into its matches and
 * what lies between them, the next cuts each of these, and so on; what comes out at the end are
 * words (pre_schemes.c has the patterns). They are compiled for UTF-8 with Unicode properties, and
 * get valid UTF-8 only, so that PCRE2 doesn't check the whole text again for every word.
 * Invariant: words follow each other without gaps.
 * Cost: linear. Inside one match the patterns step back only over one run of spaces, with one
 * frame, so the limits below are never met by them: they are a net. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretokenize.h"

#include <pcre2.h>

#include "base/heap.h"
#include "base/text/utf8.h"

enum { DEPTH_MAX = 1000, FRAMES_MAX_KIB = 1024 };

struct mnem__pretokenizer {
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_match_data *match;
    int patterns;
    pcre2_code *pattern[MNEM__PATTERNS_MAX];
};

static void *pcre_alloc(size_t n, void *context) {
    (void)context;
    return mnem__alloc(MNEM__TOKENIZER_TAG, n);
}

static void pcre_free(void *p, void *context) {
    (void)context;
    mnem__free(p);
}

static mnem_status compile(mnem__pretokenizer *p, const char *const *patterns) {
    pcre2_compile_context *context = pcre2_compile_context_create(p->memory);
    if (!context) return mnem__heap_status();
    int error = 0;
    for (int i = 0; i < MNEM__PATTERNS_MAX && patterns[i] && !error; i++) {
        PCRE2_SIZE at;
        p->pattern[i] = pcre2_compile((PCRE2_SPTR)patterns[i], PCRE2_ZERO_TERMINATED,
                                      PCRE2_UTF | PCRE2_UCP, &error, &at, context);
        if (p->pattern[i]) error = 0;
        p->patterns += p->pattern[i] != NULL;
    }
    pcre2_compile_context_free(context);
    if (error == PCRE2_ERROR_HEAP_FAILED) return mnem__heap_status();
    return error ? mnem__fail(MNEM_UNSUPPORTED,
                              "pre-tokenizer: PCRE2 can't compile a pattern (error %d)", error)
                 : MNEM_OK;
}

static mnem_status pretokenizer_init(mnem__pretokenizer *p, const mnem__pre_scheme *s) {
    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    p->limits = p->memory ? pcre2_match_context_create(p->memory) : NULL;
    p->match = p->limits ? pcre2_match_data_create(1, p->memory) : NULL;
    if (!p->match) return mnem__heap_status();
    pcre2_set_match_limit(p->limits, UINT32_MAX);
    pcre2_set_depth_limit(p->limits, DEPTH_MAX);
    pcre2_set_heap_limit(p->limits, FRAMES_MAX_KIB);
    return compile(p, s->patterns);
}

mnem_status mnem__pretokenizer_create(const mnem__pre_scheme *scheme,
                                      mnem__pretokenizer **pretokenizer) {
    mnem__pretokenizer *p = mnem__calloc(MNEM__TOKENIZER_TAG, 1, sizeof *p);
    if (!p) return mnem__heap_status();
    const mnem_status status = pretokenizer_init(p, scheme);
    if (status != MNEM_OK) {
        mnem__pretokenizer_destroy(p);
        return status;
    }
    *pretokenizer = p;
    return MNEM_OK;
}

void mnem__pretokenizer_destroy(mnem__pretokenizer *p) {
    if (!p) return;
    for (int i = 0; i < p->patterns; i++) pcre2_code_free(p->pattern[i]);
    pcre2_match_data_free(p->match);
    pcre2_match_context_free(p->limits);
    pcre2_general_context_free(p->memory);
    mnem__free(p);
}

typedef struct cutter {
    mnem__pretokenizer *p;
    const char *text;
    mnem__on_word *on_word;
    void *context;
} cutter;

/* The next match of a pattern in [at, end): [*begin, *stop), both end if there is none. */
static mnem_status next_match(const cutter *c, int pattern, size_t from, size_t at, size_t end,
                              size_t *begin, size_t *stop) {
    const int found = pcre2_match(c->p->pattern[pattern], (PCRE2_SPTR)c->text + from, end - from,
                                  at - from, PCRE2_NO_UTF_CHECK, c->p->match, c->p->limits);
    *begin = *stop = end;
    if (found == PCRE2_ERROR_NOMATCH) return MNEM_OK;
    if (found == PCRE2_ERROR_NOMEMORY) return mnem__heap_status();
    if (found < 0)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "pre-tokenizer: matching the text failed (PCRE2 error %d)", found);
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(c->p->match);
    *begin = from + range[0];
    *stop = from + range[1];
    return MNEM_OK;
}

/* Cuts [from, end) by this pattern and those after it. At most MNEM__PATTERNS_MAX deep. */
static mnem_status cut(const cutter *c, int pattern, size_t from, size_t end) {
    if (from == end) return MNEM_OK;
    if (pattern == MNEM__PATTERNS_MAX || pattern == c->p->patterns)
        return c->on_word(c->context, from, end);
    for (size_t at = from, begin, stop; at < end; at = stop) {
        mnem_status status = next_match(c, pattern, from, at, end, &begin, &stop);
        if (status == MNEM_OK) status = cut(c, pattern + 1, at, begin);
        if (status == MNEM_OK) status = cut(c, pattern + 1, begin, stop);
        if (status != MNEM_OK) return status;
    }
    return MNEM_OK;
}

mnem_status mnem__pretokenize(mnem__pretokenizer *pretokenizer, const char *text, size_t n,
                              mnem__on_word *on_word, void *context) {
    const cutter c = {pretokenizer, text, on_word, context};
    return cut(&c, 0, 0, n);
}
