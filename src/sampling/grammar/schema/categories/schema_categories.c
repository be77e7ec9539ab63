/* schema_categories.c: \p{...} of a pattern: the general categories of Unicode, by the names that
 * ECMA-262 has for them (table 68, "General_Category"), short and long.
 *
 * What is not assigned is in none of them but Any, nor in the opposite of one, as a later version
 * of Unicode may assign it. */
#include "sampling/grammar/schema/categories/categories.h"

#include <string.h>

#include "sampling/grammar/schema/categories/category_tables.h"

/* X(name, long name): in the order of the table. */
#define CATEGORIES(X)                                                                              \
    X("Lu", "Uppercase_Letter")                                                                    \
    X("Ll", "Lowercase_Letter")                                                                    \
    X("Lt", "Titlecase_Letter")                                                                    \
    X("Lm", "Modifier_Letter")                                                                     \
    X("Lo", "Other_Letter")                                                                        \
    X("Mn", "Nonspacing_Mark")                                                                     \
    X("Mc", "Spacing_Mark")                                                                        \
    X("Me", "Enclosing_Mark")                                                                      \
    X("Nd", "Decimal_Number")                                                                      \
    X("Nl", "Letter_Number")                                                                       \
    X("No", "Other_Number")                                                                        \
    X("Pc", "Connector_Punctuation")                                                               \
    X("Pd", "Dash_Punctuation")                                                                    \
    X("Ps", "Open_Punctuation")                                                                    \
    X("Pe", "Close_Punctuation")                                                                   \
    X("Pi", "Initial_Punctuation")                                                                 \
    X("Pf", "Final_Punctuation")                                                                   \
    X("Po", "Other_Punctuation")                                                                   \
    X("Sm", "Math_Symbol")                                                                         \
    X("Sc", "Currency_Symbol")                                                                     \
    X("Sk", "Modifier_Symbol")                                                                     \
    X("So", "Other_Symbol")                                                                        \
    X("Zs", "Space_Separator")                                                                     \
    X("Zl", "Line_Separator")                                                                      \
    X("Zp", "Paragraph_Separator")                                                                 \
    X("Cc", "Control")                                                                             \
    X("Cf", "Format")                                                                              \
    X("Cs", "Surrogate")                                                                           \
    X("Co", "Private_Use")                                                                         \
    X("Cn", "Unassigned")

static const char *const names[][2] = {
#define BOTH(name, whole) {name, whole},
    CATEGORIES(BOTH)
#undef BOTH
};
enum { COUNT = sizeof names / sizeof *names };

/* Those that stand for several: by their first letter. */
static const char *const groups[][2] = {
    {"L", "Letter"}, {"M", "Mark"},        {"M", "Combining_Mark"},
    {"N", "Number"}, {"P", "Punctuation"}, {"P", "punct"},
    {"S", "Symbol"}, {"Z", "Separator"},   {"C", "Other"},
};

static bool is_name(const char *name, const char *text, size_t n) {
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

static uint32_t group_of(char letter) {
    uint32_t set = 0;
    for (int i = 0; i < COUNT; i++)
        if (names[i][0][0] == letter) set |= UINT32_C(1) << i;
    return set;
}

static uint32_t set_of(const char *text, size_t n) {
    for (int i = 0; i < COUNT; i++)
        if (is_name(names[i][0], text, n) || is_name(names[i][1], text, n)) return UINT32_C(1) << i;
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (is_name(groups[i][0], text, n) || is_name(groups[i][1], text, n))
            return group_of(*groups[i][0]);
    if (is_name("LC", text, n) || is_name("Cased_Letter", text, n)) return 7;
    if (is_name("cntrl", text, n)) return set_of("Cc", 2);
    if (is_name("digit", text, n)) return set_of("Nd", 2);
    return is_name("Any", text, n) ? MNEM__CATEGORIES_ALL : 0;
}

bool mnem__categories_read(const char *text, size_t n, size_t *at, bool negated, uint32_t *set) {
    static const char *const before[] = {"gc=", "General_Category="};
    const char *end = n > *at ? memchr(text + *at, '}', n - *at) : NULL;
    if (!end || text[*at] != '{') return false;
    const char *name = text + *at + 1;
    for (int i = 0; i < 2; i++)
        if ((size_t)(end - name) > strlen(before[i]) &&
            memcmp(name, before[i], strlen(before[i])) == 0) {
            name += strlen(before[i]);
            break;
        }
    *set = set_of(name, (size_t)(end - name));
    *at = (size_t)(end + 1 - text);
    if (*set != MNEM__CATEGORIES_ALL) *set &= ~MNEM__CATEGORIES_OPEN;
    if (*set == 0) return false;
    if (negated) *set = ~(*set | MNEM__CATEGORIES_OPEN) & MNEM__CATEGORIES_ALL;
    return true;
}

uint32_t mnem__categories_ranges(uint32_t set, mnem__range *range, uint32_t room) {
    const size_t rows = sizeof category_starts / sizeof *category_starts;
    uint32_t n = 0;
    for (size_t i = 0; i < rows; i++) {
        if (!(set >> (category_starts[i] & 31) & 1)) continue;
        const uint32_t low = category_starts[i] >> 5;
        const uint32_t next = i + 1 < rows ? category_starts[i + 1] >> 5 : MNEM__CHARACTER_MAX + 1;
        if (n && range[n - 1].high + 1 == low) {
            range[n - 1].high = next - 1;
            continue;
        }
        if (n == room) return UINT32_MAX;
        range[n++] = (mnem__range){low, next - 1};
    }
    return n;
}
