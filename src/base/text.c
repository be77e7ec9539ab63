/* text.c: sizes from and to text.
 *
 * The idea: whole numbers only. "1.5GiB" is 15 tenths of 2^30, divided last, so that nothing is
 * rounded but a part of a byte. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/minmax.h"

typedef unsigned __int128 wide;

enum { DIGITS_MAX = 19 }; /* before and after the point together: 10^19 fits 64 bits */

/* Bytes of a unit such as "", "B", "M", "MiB", "MB"; 0 when it isn't one. */
static uint64_t unit_bytes(const char *unit) {
    if (!*unit || !strcasecmp(unit, "b")) return 1;
    static const char letters[] = "kmgt";
    const char *letter = strchr(letters, unit[0] | 0x20);
    if (!letter) return 0;
    int power = (int)(letter - letters) + 1;
    bool decimal = !strcasecmp(unit + 1, "b");
    if (!decimal && unit[1] && strcasecmp(unit + 1, "ib")) return 0;
    uint64_t bytes = 1;
    while (power--) bytes *= decimal ? 1000 : 1024;
    return bytes;
}

mnem_status mnem_size_parse(const char *text, uint64_t *bytes) {
    const char *p = text;
    uint64_t digits = 0, scale = 1;
    int count = 0;
    bool point = false;
    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        if (++count > DIGITS_MAX) break;
        digits = digits * 10 + (uint64_t)(*p - '0');
        if (point) scale *= 10;
    }
    uint64_t unit = unit_bytes(p);
    wide value = (wide)digits * unit / scale;
    bool fraction = scale > 1 && unit == 1;
    if (!count || p[-1] == '.' || !unit || fraction || !value || value > INT64_MAX)
        return mnem__fail(MNEM_INVALID,
                          "\"%.40s\" is not a size; write 4096, 64M, 64MiB, 64MB or 1.5G", text);
    *bytes = (uint64_t)value;
    return MNEM_OK;
}

char *mnem_size_format(uint64_t bytes, char *out, size_t n) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1023.5 && unit < 6; unit++) value /= 1024;
    char number[24];
    int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(number, sizeof number, "%.*f", decimals, value);
    if (decimals) {
        size_t end = strlen(number);
        while (number[end - 1] == '0') end--;
        if (number[end - 1] == '.') end--;
        number[end] = 0;
    }
    snprintf(out, n, "%s %s", number, units[unit]);
    return out;
}

char *mnem_size_budget(uint64_t bytes, char *out, size_t n) {
    enum { PAGE = 4 << 10, MIB = 1 << 20 };
    const uint64_t most = INT64_MAX / PAGE * PAGE; /* what mnem_size_parse takes */
    const uint64_t pages = (mnem__min_u64(bytes, most - PAGE) + PAGE - 1) / PAGE;
    const uint64_t up = (pages ? pages : 1) * PAGE;
    const bool short_form = up % (MIB / 8) == 0; /* at most three places behind the point */
    if (short_form)
        snprintf(out, n, "%.15gM", (double)(up / (MIB / 8)) / 8);
    else
        snprintf(out, n, "%lluK", (unsigned long long)(up / 1024));
    return out;
}
