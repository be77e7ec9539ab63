/* open_metrics.c: families and samples of OpenMetrics, one line at a time.
 *
 * A label's value escapes backslash, quote and line feed, and nothing else; the text is UTF-8, so
 * what isn't a whole character there becomes '?' (tags are cut at a number of bytes). */
#include "server/open_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static void append_format(open_metrics *m, const char *format,
                                                                ...) {
    char line[512];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (n > 0) m->put(m->context, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

/* Bytes of the character that begins here, 1 to 4; 0: none does. */
static size_t character(const unsigned char *s) {
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 1; n <= 4; n++) {
        if ((s[0] & forms[n - 1].mask) != forms[n - 1].lead) continue;
        uint32_t code = s[0] & (unsigned char)~forms[n - 1].mask;
        for (size_t i = 1; i < n; i++) {
            if ((s[i] & 0xc0) != 0x80) return 0; /* the text's end, too */
            code = code << 6 | (s[i] & 0x3f);
        }
        const bool surrogate = code >= 0xd800 && code < 0xe000;
        return code >= forms[n - 1].least && code <= 0x10ffff && !surrogate ? n : 0;
    }
    return 0;
}

static void put_escaped(open_metrics *m, const char *text) {
    while (*text) {
        const size_t n = character((const unsigned char *)text);
        if (*text == '\n')
            m->put(m->context, "\\n", 2);
        else if (*text == '"' || *text == '\\')
            append_format(m, "\\%c", *text);
        else
            m->put(m->context, n ? text : "?", n ? n : 1);
        text += n ? n : 1;
    }
}

void open_metrics_family(open_metrics *m, const char *prefix, const char *name,
                         open_metrics_type type, const char *help) {
    static const char *const types[] = {"gauge", "counter", "histogram"};
    m->prefix = prefix;
    m->name = name;
    m->type = type;
    append_format(m, "# TYPE %s%s %s\n# HELP %s%s %s.\n", prefix, name, types[type], prefix, name,
                  help);
}

/* Writes a sample up to its number: the name with a suffix, and the labels; le is the last label if
 * it isn't NULL. */
static void put_named(open_metrics *m, const char *suffix, const open_metrics_label *labels,
                      const char *le) {
    const char *before = "{";
    append_format(m, "%s%s%s", m->prefix, m->name, suffix);
    for (; labels && labels->name; labels++) {
        append_format(m, "%s%s=\"", before, labels->name);
        put_escaped(m, labels->value);
        m->put(m->context, "\"", 1);
        before = ",";
    }
    if (le) append_format(m, "%sle=\"%s\"", before, le);
    if (le || *before == ',') m->put(m->context, "}", 1);
}

static void put_sample(open_metrics *m, const open_metrics_label *labels) {
    put_named(m, m->type == OPEN_METRICS_COUNTER ? "_total" : "", labels, NULL);
}

void open_metrics_count(open_metrics *m, const open_metrics_label *labels, uint64_t value) {
    put_sample(m, labels);
    append_format(m, " %" PRIu64 "\n", value);
}

void open_metrics_real(open_metrics *m, const open_metrics_label *labels, double value) {
    put_sample(m, labels);
    if (isnan(value))
        append_format(m, " NaN\n");
    else if (isinf(value))
        append_format(m, " %sInf\n", value < 0 ? "-" : "+");
    else
        append_format(m, " %.9g\n", value);
}

void open_metrics_histogram(open_metrics *m, const open_metrics_label *labels,
                            const mnem_histogram *h) {
    uint64_t below = 0;
    char le[32];
    for (int i = 0; i < MNEM_HISTOGRAM_BUCKETS; i++) {
        const double bound = mnem_histogram_bound(i);
        below += h->bucket[i];
        if (isinf(bound))
            snprintf(le, sizeof le, "+Inf");
        else
            snprintf(le, sizeof le, "%.10g", bound);
        put_named(m, "_bucket", labels, le);
        append_format(m, " %" PRIu64 "\n", below);
    }
    put_named(m, "_count", labels, NULL);
    append_format(m, " %" PRIu64 "\n", h->count);
    put_named(m, "_sum", labels, NULL);
    append_format(m, " %.9g\n", h->sum);
}

void open_metrics_end(open_metrics *m) {
    append_format(m, "# EOF\n");
}
