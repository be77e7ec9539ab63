/* template_chars.c: characters of valid UTF-8. Cost: a search of a few ranges beyond ASCII. */
#include "model/values/template_chars.h"

#include "model/values/template_letters.h"

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
#define IS_IN(ranges, c) is_in(ranges, sizeof(ranges) / sizeof *(ranges), c)

bool mnem__char_is_space(uint32_t c) {
    static const char_range ranges[] = {
        {0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
        {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
    return IS_IN(ranges, c);
}

bool mnem__char_is_digit(uint32_t c) {
    static const char_range ranges[] = {{0x30, 0x39},     {0x660, 0x669},    {0x6F0, 0x6F9},
                                        {0x966, 0x96F},   {0x9E6, 0x9EF},    {0xE50, 0xE59},
                                        {0xFF10, 0xFF19}, {0x1D7CE, 0x1D7FF}};
    return IS_IN(ranges, c);
}

bool mnem__char_is_letter(uint32_t c) {
    static const char_range ranges[] = {
        {0x41, 0x5A},     {0x61, 0x7A},       {0xAA, 0xAA},      {0xB5, 0xB5},     {0xBA, 0xBA},
        {0xC0, 0xD6},     {0xD8, 0xF6},       {0xF8, 0x2C1},     {0x370, 0x374},   {0x376, 0x377},
        {0x37A, 0x37D},   {0x37F, 0x37F},     {0x386, 0x386},    {0x388, 0x3F5},   {0x3F7, 0x481},
        {0x48A, 0x52F},   {0x531, 0x556},     {0x560, 0x588},    {0x5D0, 0x5EA},   {0x620, 0x64A},
        {0x671, 0x6D3},   {0x904, 0x939},     {0x985, 0x9B9},    {0xE01, 0xE30},   {0x10A0, 0x10FA},
        {0x10FC, 0x1248}, {0x1E00, 0x1FBC},   {0x2C00, 0x2CE4},  {0x3041, 0x3096}, {0x30A1, 0x30FA},
        {0x30FC, 0x30FF}, {0x3105, 0x312F},   {0x3131, 0x318E},  {0x3400, 0x4DBF}, {0x4E00, 0xA48C},
        {0xAC00, 0xD7A3}, {0xF900, 0xFA6D},   {0xFB00, 0xFB06},  {0xFF21, 0xFF3A}, {0xFF41, 0xFF5A},
        {0xFF66, 0xFFBE}, {0x10400, 0x1044F}, {0x20000, 0x2FA1D}};
    return IS_IN(ranges, c);
}

bool mnem__char_is_printable(uint32_t c) {
    static const char_range hidden[] = {
        {0x00, 0x1F},     {0x7F, 0xA0},     {0xAD, 0xAD},       {0x61C, 0x61C},
        {0x1680, 0x1680}, {0x180E, 0x180E}, {0x2000, 0x200F},   {0x2028, 0x202F},
        {0x205F, 0x206F}, {0x3000, 0x3000}, {0xD800, 0xF8FF},   {0xFEFF, 0xFEFF},
        {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE00FF}, {0xE01F0, 0x10FFFF}};
    return !IS_IN(hidden, c);
}

/* ---- cases ---- */

static uint32_t move(const case_range *ranges, size_t n, uint32_t c) {
    size_t low = 0;
    for (size_t high = n; low < high;) { /* the first that ends at or behind c */
        const size_t middle = (low + high) / 2;
        if (ranges[middle].last < c)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == n || c < ranges[low].first || (c - ranges[low].first) % ranges[low].step) return c;
    return (uint32_t)((int32_t)c + ranges[low].delta);
}

uint32_t mnem__char_lower(uint32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return move(lower_ranges, sizeof lower_ranges / sizeof *lower_ranges, c);
}

uint32_t mnem__char_upper(uint32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    return move(upper_ranges, sizeof upper_ranges / sizeof *upper_ranges, c);
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
