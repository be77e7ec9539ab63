/* report_compare.c: two runs beside each other: every metric that both know, and the tags whose
 * bytes at the peak differ most. */
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

typedef struct owner_list {
    const mnem_report_owner *o;
    size_t count;
} owner_list;

/* Several owners may have one name: a line of code that asks several pools. */
static uint64_t bytes_of(owner_list list, const mnem_report_owner *name, bool *found) {
    uint64_t sum = 0;
    *found = false;
    for (size_t i = 0; i < list.count; i++) {
        if (!same_owner(&list.o[i], name)) continue;
        sum += list.o[i].bytes_at_peak;
        *found = true;
    }
    return sum;
}

/* The names whose bytes changed most; returns how many. Lists are looked through up to
 * CHANGES_MAX. */
static int find_changes(const owner_list list[2], owner_change found[ROWS]) {
    int n = 0;
    memset(found, 0, ROWS * sizeof *found);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < list[side].count && i < CHANGES_MAX; i++) {
            const mnem_report_owner *o = &list[side].o[i];
            bool told, first, second;
            bytes_of((owner_list){list[side].o, i}, o, &told);
            const owner_change c = {o, bytes_of(list[0], o, &first), bytes_of(list[1], o, &second)};
            if (told || (side && first)) continue; /* by an earlier one of that name */
            if (gap(&c)) insert(found, &n, c);
        }
    return n;
}

static int changes_of(const mnem_report_facts *const facts[2], owner_change found[ROWS]) {
    const bool sites = facts[0]->sites && facts[1]->sites;
    owner_list list[2];
    for (int i = 0; i < 2; i++)
        list[i] = sites ? (owner_list){facts[i]->site, facts[i]->sites}
                        : (owner_list){facts[i]->account, facts[i]->accounts};
    return find_changes(list, found);
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
