/* report_condition.c: conditions of --fail-on: "peak>600M,leaks>0,fragmentation>10".
 *
 * A name, a sign, a number with the unit of the name's: sizes as everywhere, percents with or
 * without %, times with s, ms, us or ns. What a record doesn't know fails: a check that can't be
 * made must not pass. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/report/report_tool.h"

static int wrong(const char *word, int length, const char *why) {
    return tool_usage("report", "--fail-on: the condition \"%.*s\": %s", length < 60 ? length : 60,
                      word, why);
}

static int wrong_name(const char *word, int length) {
    char names[400] = "";
    for (int i = 0; i < MNEM_REPORT_METRICS; i++) {
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, " %s",
                 mnem_report_metric_get((mnem_report_metric)i).key);
    }
    return tool_usage("report", "--fail-on: the metric \"%.*s\" is unknown; it must be one of%s",
                      length < 40 ? length : 40, word, names);
}

static bool find_metric(const char *word, size_t length, mnem_report_metric *metric) {
    for (int i = 0; i < MNEM_REPORT_METRICS; i++) {
        const char *key = mnem_report_metric_get((mnem_report_metric)i).key;
        if (strlen(key) != length || strncmp(key, word, length) != 0) continue;
        *metric = (mnem_report_metric)i;
        return true;
    }
    return false;
}

/* A number and what stands behind it; false: it isn't one. */
static bool read_number(const char *text, double *number, const char **behind) {
    char *end;
    errno = 0;
    if (!strchr("-0123456789.", *text) || !*text) return false;
    *number = strtod(text, &end);
    *behind = end;
    return end != text && !errno && *number == *number;
}

static bool read_time(const char *text, double *ns) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9}, {"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
    const char *unit;
    double number;
    if (!read_number(text, &number, &unit)) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].unit) == 0) {
            *ns = number * units[i].ns;
            return true;
        }
    return false;
}

static bool read_limit(const char *text, const char *unit, double *limit) {
    const char *behind;
    uint64_t bytes;
    if (strcmp(unit, "time") == 0) return read_time(text, limit);
    if (strcmp(unit, "B") == 0 && strcmp(text, "0") != 0) {
        if (mnem_size_parse(text, &bytes) != MNEM_OK) return false;
        *limit = (double)bytes;
        return true;
    }
    if (!read_number(text, limit, &behind)) return false;
    return !*behind || (strcmp(behind, "%") == 0 && strcmp(unit, "%") == 0);
}

static int parse_one(const char *word, int length, report_condition *c) {
    char number[32];
    const size_t name = strcspn(word, "<>=!,"), signs = strspn(word + name, "<>=!");
    const int left = length - (int)(name + signs);
    if (!name || !find_metric(word, name, &c->metric)) return wrong_name(word, (int)name);
    snprintf(c->sign, sizeof c->sign, "%.*s", (int)(signs < 3 ? signs : 2), word + name);
    if (strcmp(c->sign, "=") == 0) strcpy(c->sign, "==");
    if (signs == 0 || signs > 2 || !strstr(" < <= > >= == != ", c->sign) ||
        strcmp(c->sign, "!") == 0)
        return wrong(
            word, length,
            "the name of the metric must be followed by one of < <= > >= = != and a number");
    if (left <= 0 || left >= (int)sizeof number)
        return wrong(word, length, "the comparison sign must be followed by a number");
    snprintf(number, sizeof number, "%.*s", left, word + name + signs);
    const char *unit = mnem_report_metric_get(c->metric).unit;
    if (!read_limit(number, unit, &c->limit))
        return wrong(word, length,
                     *unit == 'B'   ? "the value must be a size such as 600M or 1.5G"
                     : *unit == '%' ? "the value must be a percentage such as 10 or 12.5%"
                     : *unit == 't' ? "the value must be a time such as 5s or 20ms"
                                    : "the value must be a number such as 0");
    c->text = word;
    c->length = length;
    return TOOL_OK;
}

int report_conditions_parse(const char *text, report_conditions *all) {
    all->count = 0;
    for (const char *at = text; at && *at;) {
        const int length = (int)strcspn(at, ",");
        if (all->count == REPORT_CONDITIONS_MAX)
            return tool_usage(
                "report",
                "--fail-on has more than %d conditions, the most that it takes: leave some out",
                REPORT_CONDITIONS_MAX);
        const int code = parse_one(at, length, &all->of[all->count]);
        if (code != TOOL_OK) return code;
        all->count++;
        at += length;
        if (*at == ',' && !*++at)
            return wrong(text, (int)strlen(text), "the list ends with a comma; remove it");
    }
    return text && !*text ? wrong(text, 0,
                                  "the condition is empty; write a metric, a comparison sign and a "
                                  "number, such as leaks>0")
                          : TOOL_OK;
}

/* False: it isn't known. */
static bool holds(const report_condition *c, const mnem_report_facts *f, double *value, bool *is) {
    if (!mnem_report_measure(f, c->metric, value)) return false;
    const double v = *value, l = c->limit;
    const bool equal = v == l, more = v > l;
    *is = *c->sign == '!'                 ? !equal
          : *c->sign == '='               ? equal
          : strchr(c->sign, '=') && equal ? true
          : *c->sign == '>'               ? more
                                          : v < l;
    return true;
}

int report_conditions_check(const report_conditions *all, const mnem_report_facts *f) {
    int code = TOOL_OK;
    for (int i = 0; i < all->count; i++) {
        const report_condition *c = &all->of[i];
        const char *key = mnem_report_metric_get(c->metric).key;
        char text[TOOL_TEXT];
        double value;
        bool is = false;
        if (!holds(c, f, &value, &is))
            tool_message(
                "the trace %s has no value of %s (format %s), so --fail-on %.*s can't be checked",
                f->path, key, f->format, c->length, c->text);
        else if (is)
            tool_message(
                "in the trace %s, %s is %s, so --fail-on %.*s is met and this command fails",
                f->path, key, report_value(f, c->metric, text), c->length, c->text);
        else
            continue;
        code = TOOL_FAILED;
    }
    return code;
}

json_t *report_conditions_json(const report_conditions *all, const mnem_report_facts *f) {
    json_t *list = json_array();
    for (int i = 0; i < all->count; i++) {
        const report_condition *c = &all->of[i];
        double value;
        bool is = true;
        const bool known = holds(c, f, &value, &is);
        json_array_append_new(list,
                              json_pack("{s:o, s:o, s:b}", "condition",
                                        json_stringn(c->text, (size_t)c->length), "value",
                                        known ? tool_json_real(value) : json_null(), "failed", is));
    }
    return list;
}
