/* template_chars.c: characters of valid UTF-8, from tables of runs with a common class or case.
 * Cost: O(log runs), at most 12 steps, beyond ASCII. */
#include "text/values/template_chars.h"

#include "text/fold.h"
#include "text/values/template_classes.h"
#include "text/values/template_letters.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

uint32_t mnem__char_next(const char *text, size_t *at) {
    const unsigned char *p = (const unsigned char *)text + *at;
    const size_t n = mnem__char_bytes(text[*at]);
    *at += n;
    if (n == 1) return p[0];
    if (n == 2) return (p[0] & 31u) << 6 | (p[1] & 63u);
    if (n == 3) return (p[0] & 15u) << 12 | (p[1] & 63u) << 6 | (p[2] & 63u);
    return (p[0] & 7u) << 18 | (p[1] & 63u) << 12 | (p[2] & 63u) << 6 | (p[3] & 63u);
}

size_t mnem__char_write(uint32_t c, char out[4]) {
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 63));
    out[0] = (char)((0xF00u >> n & 0xF0u) | c);
    return n;
}

size_t mnem__char_count(const char *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xC0) != 0x80;
    return count;
}

size_t mnem__char_offset(const char *text, size_t n, size_t i) {
    size_t at = 0;
    while (at < n && i-- > 0) at += mnem__char_bytes(text[at]);
    return at;
}

/* ---- classes ---- */

typedef struct char_range {
    uint32_t first, last;
} char_range;

static bool is_in(const char_range *ranges, size_t n, uint32_t c) {
    for (size_t i = 0; i < n && ranges[i].first <= c; i++)
        if (c <= ranges[i].last) return true;
    return false;
}

bool mnem__char_is_space(uint32_t c) {
    static const char_range ranges[] = {
        {0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    return is_in(ranges, COUNT(ranges), c);
}

/* Where the run of c begins in class_runs. */
static uint32_t run_of(uint32_t c) {
    size_t low = 0;
    for (size_t high = COUNT(class_runs); high - low > 1;) {
        const size_t middle = (low + high) / 2;
        if (class_runs[middle] >> 5 <= c)
            low = middle;
        else
            high = middle;
    }
    return class_runs[low];
}

static bool has_flag(uint32_t c, int flags) {
    return (class_sets[c < 0x80 ? ascii_sets[c] : run_of(c) & 31] & flags) != 0;
}

bool mnem__char_is_alpha(uint32_t c) {
    return has_flag(c, CHAR_ALPHA);
}
bool mnem__char_is_decimal(uint32_t c) {
    return has_flag(c, CHAR_DECIMAL);
}
bool mnem__char_is_digit(uint32_t c) {
    return has_flag(c, CHAR_DIGIT);
}
bool mnem__char_is_numeric(uint32_t c) {
    return has_flag(c, CHAR_NUMERIC);
}
bool mnem__char_is_alnum(uint32_t c) {
    return has_flag(c, CHAR_ALPHA | CHAR_NUMERIC);
}
bool mnem__char_is_printable(uint32_t c) {
    return has_flag(c, CHAR_PRINTABLE);
}
bool mnem__char_is_lower(uint32_t c) {
    return has_flag(c, CHAR_LOWER);
}
bool mnem__char_is_upper(uint32_t c) {
    return has_flag(c, CHAR_UPPER);
}
bool mnem__char_is_title(uint32_t c) {
    return has_flag(c, CHAR_TITLE);
}
bool mnem__char_is_cased(uint32_t c) {
    return has_flag(c, CHAR_LOWER | CHAR_UPPER | CHAR_TITLE);
}
bool mnem__char_is_ignored(uint32_t c) {
    return has_flag(c, CHAR_IGNORED);
}
bool mnem__char_is_name_first(uint32_t c) {
    return has_flag(c, CHAR_NAME_FIRST);
}
bool mnem__char_is_name(uint32_t c) {
    return has_flag(c, CHAR_NAME);
}

/* A run of digits begins with a 0 and has them in order, maybe several times. */
int mnem__char_decimal(uint32_t c) {
    if (c < 0x80) return c >= '0' && c <= '9' ? (int)c - '0' : -1;
    return mnem__char_is_decimal(c) ? (int)((c - (run_of(c) >> 5)) % 10) : -1;
}

/* ---- cases ---- */

/* The run of c, or NULL. */
static const case_run *case_of(const case_run *runs, size_t n, uint32_t c) {
    size_t low = 0;
    for (size_t high = n; low < high;) { /* the first that ends at or behind c */
        const size_t middle = (low + high) / 2;
        if (runs[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    const bool inside =
        low < n && c >= runs[low].first && (c - runs[low].first) % runs[low].step == 0;
    return inside ? &runs[low] : NULL;
}

static const full_case *full_of(uint32_t c) {
    size_t low = 0;
    for (size_t high = COUNT(full_cases); low < high;) {
        const size_t middle = (low + high) / 2;
        if (full_cases[middle].code < c)
            low = middle + 1;
        else
            high = middle;
    }
    return low < COUNT(full_cases) && full_cases[low].code == c ? &full_cases[low] : NULL;
}

static uint32_t simple_case(uint32_t c, mnem__char_case to) {
    const bool is_upper = to == MNEM__CASE_UPPER || to == MNEM__CASE_TITLE;
    const case_run *run = NULL;
    if (to == MNEM__CASE_TITLE) run = case_of(title_runs, COUNT(title_runs), c);
    if (to == MNEM__CASE_FOLDED) run = case_of(folded_runs, COUNT(folded_runs), c);
    if (!run && is_upper) run = case_of(upper_runs, COUNT(upper_runs), c);
    if (run) return (uint32_t)((int32_t)c + run->difference);
    return is_upper ? c : mnem__fold_lower(c);
}

size_t mnem__char_map(uint32_t c, mnem__char_case to, uint32_t out[3]) {
    const bool is_upper = to == MNEM__CASE_UPPER || to == MNEM__CASE_TITLE;
    const full_case *full = c < 0x80 ? NULL : full_of(c);
    size_t n = 0;
    for (; full && n < 3 && full->to[to][n]; n++) out[n] = full->to[to][n];
    if (full) return n;
    if (c >= 0x80)
        out[0] = simple_case(c, to);
    else if (is_upper)
        out[0] = c >= 'a' && c <= 'z' ? c - 32 : c;
    else
        out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
    return 1;
}

/* ---- white space ---- */

size_t mnem__char_space_before(const char *text, size_t n) {
    for (size_t at = 0; at < n;) {
        const size_t before = at;
        if (!mnem__char_is_space(mnem__char_next(text, &at))) return before;
    }
    return n;
}

size_t mnem__char_space_behind(const char *text, size_t n) {
    size_t end = n;
    while (end > 0) {
        size_t at = end - 1;
        while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) at--;
        const size_t begin = at;
        if (!mnem__char_is_space(mnem__char_next(text, &at))) break;
        end = begin;
    }
    return n - end;
}
