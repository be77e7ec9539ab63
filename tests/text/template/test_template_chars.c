/* test_template_chars.c: characters are to templates what they are to Python's str, all of them.
 *
 * Sums of the answers for every character are made by template_chars.py from str itself. */
#include "kit/kit.h"
#include "text/values/template_chars.h"

typedef struct answer {
    uint32_t values[4];
    size_t count;
} answer;

#define ANSWERS(name, ...)                                                                         \
    static answer of_##name(uint32_t c) {                                                          \
        const answer a = {{__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)};    \
        return a;                                                                                  \
    }
ANSWERS(isspace, mnem__char_is_space(c))
ANSWERS(isalpha, mnem__char_is_alpha(c))
ANSWERS(isdecimal, mnem__char_is_decimal(c))
ANSWERS(isdigit, mnem__char_is_digit(c))
ANSWERS(isnumeric, mnem__char_is_numeric(c))
ANSWERS(isalnum, mnem__char_is_alnum(c))
ANSWERS(isprintable, mnem__char_is_printable(c))
ANSWERS(islower, mnem__char_is_lower(c))
ANSWERS(isupper, mnem__char_is_upper(c))
ANSWERS(istitle, mnem__char_is_title(c))
ANSWERS(isidentifier, mnem__char_is_name_first(c), mnem__char_is_name(c))
ANSWERS(decimal, mnem__char_decimal(c) < 0 ? 99 : (uint32_t)mnem__char_decimal(c))
/* Does a sigma behind it end a word, with a letter before it, and without? */
ANSWERS(sigma, mnem__char_is_ignored(c) || mnem__char_is_cased(c),
        mnem__char_is_cased(c) && !mnem__char_is_ignored(c))

static answer mapped(uint32_t c, mnem__char_case to) {
    answer a;
    a.values[0] = (uint32_t)mnem__char_map(c, to, a.values + 1);
    a.count = a.values[0] + 1;
    return a;
}
static answer of_lower(uint32_t c) {
    return mapped(c, MNEM__CASE_LOWER);
}
static answer of_upper(uint32_t c) {
    return mapped(c, MNEM__CASE_UPPER);
}
static answer of_title(uint32_t c) {
    return mapped(c, MNEM__CASE_TITLE);
}
static answer of_casefold(uint32_t c) {
    return mapped(c, MNEM__CASE_FOLDED);
}

/* FNV-1a of 32 bits at a time. */
static uint64_t sum_of(answer (*of)(uint32_t c)) {
    static const uint32_t parts[][2] = {
        {0, 0xD800}, {0xE000, 0x32400}, {0xE0000, 0xE0200}, {0x10FFFE, 0x110000}};
    uint64_t sum = UINT64_C(0xCBF29CE484222325);
    for (size_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (uint32_t c = parts[part][0]; c < parts[part][1]; c++) {
            const answer a = of(c);
            for (size_t i = 0; i < a.count; i++)
                sum = (sum ^ a.values[i]) * UINT64_C(0x100000001B3);
        }
    return sum;
}

static void every_character_is_as_in_python(void **state) {
    (void)state;
    static const struct {
        const char *name;
        answer (*of)(uint32_t c);
        uint64_t expected;
    } rows[] = {
        {"isspace", of_isspace, UINT64_C(0xB7BCB8E3B3207A48)},
        {"isalpha", of_isalpha, UINT64_C(0xC9E6646FA0983AA1)},
        {"isdecimal", of_isdecimal, UINT64_C(0xDBB2062C4703A051)},
        {"isdigit", of_isdigit, UINT64_C(0xE638BF3D3663066D)},
        {"isnumeric", of_isnumeric, UINT64_C(0xF2D666153DA20479)},
        {"isalnum", of_isalnum, UINT64_C(0xC407186425733BDA)},
        {"isprintable", of_isprintable, UINT64_C(0xCE115377FEAFA841)},
        {"islower", of_islower, UINT64_C(0xB654092356558C60)},
        {"isupper", of_isupper, UINT64_C(0x5C1D73B8BE76DF44)},
        {"istitle", of_istitle, UINT64_C(0xC04FF06E2DF97AF8)},
        {"isidentifier", of_isidentifier, UINT64_C(0xF78714DBE0D9897F)},
        {"decimal", of_decimal, UINT64_C(0x2133D7002F91EB0F)},
        {"sigma", of_sigma, UINT64_C(0xDC9269334599B41F)},
        {"lower", of_lower, UINT64_C(0xC5D094BB07DC3450)},
        {"upper", of_upper, UINT64_C(0x3B9D2ECC18075F75)},
        {"title", of_title, UINT64_C(0x2E80E238D615E5ED)},
        {"casefold", of_casefold, UINT64_C(0xDDE7E7B68112D910)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (sum_of(rows[i].of) != rows[i].expected) fail_msg("%s differs", rows[i].name);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_as_in_python),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
