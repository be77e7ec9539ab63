/* report_compare.c: two runs beside each other: every metric that both know, and the tags whose
 * bytes at the peak differ most. */
#include <math.h>
#include <string.h>

#include "verbs/report/report_tool.h"

enum { ROWS = 10, CHANGES_MAX = 512 };

/* ---- metrics ---- */

static char *change_text(double before, double after, const char *unit, char text[TOOL_TEXT]) {
    if (*unit == '%')
        snprintf(text, TOOL_TEXT, "%+.1f", after - before);
    else if (before == after)
        strcpy(text, "=");
    else if (before != 0 && (before > 0) == (after > 0))
        snprintf(text, TOOL_TEXT, "%+.1f %%", 100 * (after / before - 1));
    else
        strcpy(text, "new");
    return text;
}

static void print_metrics(const mnem_report_facts *const facts[2]) {
    tool_outf("  %-18s %14s %14s %12s\n", "", "first", "second", "change");
    for (int i = 0; i < MNEM_REPORT_METRICS; i++) {
        const mnem_report_metric metric = (mnem_report_metric)i;
        const mnem_report_metric_info m = mnem_report_metric_get(metric);
        char a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT];
        double x, y;
        const bool first = mnem_report_measure(facts[0], metric, &x);
        const bool second = mnem_report_measure(facts[1], metric, &y);
        const bool both =
            first && second && (*m.unit != 't' || facts[0]->clocked == facts[1]->clocked);
        if (!first && !second) continue;
        tool_outf("  %-18s %14s %14s %12s\n", m.key, report_value(facts[0], metric, a),
                  report_value(facts[1], metric, b), both ? change_text(x, y, m.unit, c) : "-");
    }
}

/* ---- owners ---- */

typedef struct owner_change {
    const mnem_report_owner *of; /* either's */
    uint64_t before, after;
} owner_change;

static bool same_owner(const mnem_report_owner *a, const mnem_report_owner *b) {
    return strcmp(a->kind, b->kind) == 0 && strcmp(a->tag, b->tag) == 0 &&
           strcmp(a->site, b->site) == 0;
}

static uint64_t gap(const owner_change *c) {
    return c->after > c->before ? c->after - c->before : c->before - c->after;
}

/* In its place by the size of the change. */
static void insert(owner_change *list, int *count, owner_change c) {
    int i = *count < ROWS ? (*count)++ : ROWS - 1;
    if (i == ROWS - 1 && *count == ROWS && list[i].of && gap(&list[i]) >= gap(&c)) return;
    for (; i > 0 && gap(&list[i - 1]) < gap(&c); i--) list[i] = list[i - 1];
    list[i] = c;
}

/* The owners that changed most; returns how many. Lists are looked through up to CHANGES_MAX. */
static int find_changes(const mnem_report_owner *const list[2], const size_t count[2],
                        owner_change found[ROWS]) {
    int n = 0;
    memset(found, 0, ROWS * sizeof *found);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < count[side] && i < CHANGES_MAX; i++) {
            const mnem_report_owner *o = &list[side][i];
            size_t j = 0;
            while (j < count[!side] && !same_owner(o, &list[!side][j])) j++;
            const bool other = j < count[!side];
            if (side && other) continue; /* told from the first side */
            const uint64_t there = other ? list[!side][j].bytes_at_peak : 0;
            const owner_change c = {o, side ? there : o->bytes_at_peak,
                                    side ? o->bytes_at_peak : there};
            if (gap(&c)) insert(found, &n, c);
        }
    return n;
}

static int changes_of(const mnem_report_facts *const facts[2], owner_change found[ROWS]) {
    const bool sites = facts[0]->sites && facts[1]->sites;
    const mnem_report_owner *const list[2] = {sites ? facts[0]->site : facts[0]->account,
                                              sites ? facts[1]->site : facts[1]->account};
    const size_t count[2] = {sites ? facts[0]->sites : facts[0]->accounts,
                             sites ? facts[1]->sites : facts[1]->accounts};
    return find_changes(list, count, found);
}

void report_compare(const mnem_report_facts *const facts[2]) {
    owner_change found[ROWS];
    char a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT], who[TOOL_TEXT * 8];
    tool_outf("\nfirst   %s\nsecond  %s\n", facts[0]->path, facts[1]->path);
    print_metrics(facts);
    const int n = changes_of(facts, found);
    if (n) tool_outf("\n  %-34s %10s %10s %12s\n", "at the peak", "first", "second", "change");
    for (int i = 0; i < n; i++) {
        const owner_change *o = &found[i];
        tool_outf("  %-34s %10s %10s %c%11s\n",
                  report_owner_text(o->of->kind, o->of->tag, o->of->site, 34, who),
                  tool_size(o->before, a), tool_size(o->after, b), o->after > o->before ? '+' : '-',
                  tool_size(gap(o), c));
    }
}

json_t *report_compare_json(const mnem_report_facts *const facts[2]) {
    owner_change found[ROWS];
    json_t *metrics = json_object(), *owners = json_array();
    for (int i = 0; i < MNEM_REPORT_METRICS; i++) {
        double x, y;
        if (mnem_report_measure(facts[0], (mnem_report_metric)i, &x) &&
            mnem_report_measure(facts[1], (mnem_report_metric)i, &y))
            json_object_set_new(metrics, mnem_report_metric_get((mnem_report_metric)i).key,
                                tool_json_real(y - x));
    }
    const int n = changes_of(facts, found);
    for (int i = 0; i < n; i++) {
        const mnem_report_owner *o = found[i].of;
        json_array_append_new(owners,
                              json_pack("{s:s, s:s, s:s, s:I, s:I}", "kind", o->kind, "tag", o->tag,
                                        "site", o->site, "first_bytes", (json_int_t)found[i].before,
                                        "second_bytes", (json_int_t)found[i].after));
    }
    return json_pack("{s:o, s:o}", "metrics", metrics, "owners", owners);
}
