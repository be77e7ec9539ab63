/* report_text.c: a report as text: three lines that say it all, then tables in 80 columns. */
#include <stdarg.h>
#include <string.h>

#include "verbs/replay/replay_snapshot.h"
#include "verbs/report/report_tool.h"

enum { ROWS = 10, SITE_ROOM = 42 };

/* ---- numbers ---- */

char *report_time(const mnem_report_facts *f, uint64_t time, char text[TOOL_TEXT]) {
    const double ns = (double)time;
    char number[TOOL_TEXT];
    if (!f->clocked)
        snprintf(text, TOOL_TEXT, "%s op%s", tool_exact(time, number), tool_s(time));
    else if (ns < 999.5)
        snprintf(text, TOOL_TEXT, "%.0f ns", ns);
    else if (ns < 999.5e3)
        snprintf(text, TOOL_TEXT, "%.*f us", ns < 99.95e3, ns / 1e3);
    else if (ns < 999.5e6)
        snprintf(text, TOOL_TEXT, "%.*f ms", ns < 99.95e6, ns / 1e6);
    else if (ns < 120e9)
        snprintf(text, TOOL_TEXT, "%.*f s", ns < 10e9 ? 2 : 1, ns / 1e9);
    else
        snprintf(text, TOOL_TEXT, "%.1f min", ns / 60e9);
    return text;
}

char *report_value(const mnem_report_facts *f, mnem_report_metric metric, char text[TOOL_TEXT]) {
    const char *unit = mnem_report_metric_get(metric).unit;
    double value;
    if (!mnem_report_measure(f, metric, &value)) return strcpy(text, "-");
    if (*unit == '%')
        snprintf(text, TOOL_TEXT, "%.1f %%", value);
    else if (*unit == 't')
        report_time(f, (uint64_t)value, text);
    else if (*unit == 'B' && value < 0) {
        char size[TOOL_TEXT];
        snprintf(text, TOOL_TEXT, "-%s", tool_size((uint64_t)-value, size));
    } else if (*unit == 'B')
        tool_size((uint64_t)value, text);
    else
        tool_exact((uint64_t)value, text);
    return text;
}

char *report_owner_text(const char *kind, const char *tag, const char *site, int room,
                        char text[TOOL_TEXT * 8]) {
    int n = 0;
    if (*site && *kind && strcmp(kind, "device") != 0) {
        /* Whose bytes they are first, and then where: a short place leaves more of the tag. */
        replay_site_text(site, room - room / 2 - 1, text);
        const int most = room - 1 - (int)strlen(text);
        n = snprintf(text, (size_t)most + 1, "%s%s%s", kind, *tag ? " " : "", tag);
        if (n > most) n = most;
        text[n++] = ' ';
    }
    if (*site) {
        replay_site_text(site, room - n, text + n);
        return text;
    }
    snprintf(text, (size_t)room + 1, "%s%s%s", kind, *kind && *tag ? " " : "", tag);
    return text;
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

/* ---- the verdict ---- */

const char *const report_verdict_word[REPORT_VERDICTS] = {"peak", "room", "leaks"};

static size_t add(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));
static size_t add(char *line, const char *format, ...) {
    const size_t n = strlen(line);
    va_list list;
    va_start(list, format);
    vsnprintf(line + n, REPORT_VERDICT_TEXT - n, format, list);
    va_end(list);
    return n;
}

static void verdict_peak(const mnem_report_facts *f, char *line) {
    char a[TOOL_TEXT], who[TOOL_TEXT * 8];
    add(line, "%s", tool_size(f->bytes_peak, a));
    if (f->budget_bytes)
        add(line, " of %s (%.1f %%)", tool_size(f->budget_bytes, a),
            share(f->bytes_peak, f->budget_bytes));
    if (f->events && f->clocked)
        add(line, " at %s", report_time(f, f->peak_at, a));
    else if (f->events)
        add(line, " at operation %s", tool_exact(f->peak_at, a));
    /* In a trace of ours blocks lie within accounts, which hold more. */
    const mnem_report_owner *o = f->sites && f->granted.known ? f->site
                                 : f->accounts                ? f->account
                                                              : NULL;
    if (o && f->bytes_peak)
        add(line, "; most of it: %s, %.1f %%",
            report_owner_text(o->kind, o->tag, o->site, SITE_ROOM, who),
            share(o->bytes_at_peak, f->bytes_peak));
}

static void verdict_refusals(const mnem_report_facts *f, char *line) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    bool any = false;
    for (int i = 0; i < MNEM_REPORT_REFUSALS; i++) {
        const mnem_report_refused *r = &f->refused[i];
        if (!r->count) continue;
        add(line, "%s%s refused for %s (the largest %s)", any ? ", " : "; ",
            tool_exact(r->count, a), mnem_report_refusal_text((mnem_report_refusal)i),
            tool_size(r->bytes_largest, b));
        any = true;
    }
    if (!any) add(line, "; nothing was refused");
}

static void verdict_room(const mnem_report_facts *f, char *line) {
    char a[TOOL_TEXT];
    if (f->reserved.known) {
        add(line, "fragmentation %s", report_value(f, MNEM_REPORT_METRIC_FRAGMENTATION, a));
        add(line, " (%s reserved)", tool_size(f->reserved.at_peak, a));
        add(line, ", efficiency %s", report_value(f, MNEM_REPORT_METRIC_EFFICIENCY, a));
    } else if (f->resident_most) {
        add(line, "%s resident", tool_size(f->resident_most, a));
        if (f->unaccounted_known)
            add(line, ", %s of it unaccounted",
                f->unaccounted_bytes > 0 ? report_value(f, MNEM_REPORT_METRIC_UNACCOUNTED, a)
                                         : "none");
    } else if (f->budget_bytes > f->bytes_peak) {
        add(line, "%s of the budget never used", tool_size(f->budget_bytes - f->bytes_peak, a));
    } else {
        add(line, "the trace doesn't contain reserved bytes");
    }
    verdict_refusals(f, line);
}

static void verdict_leaks(const mnem_report_facts *f, char *line) {
    char a[TOOL_TEXT], b[TOOL_TEXT], who[TOOL_TEXT * 8];
    uint64_t oldest = 0;
    for (size_t i = 0; i < f->leaks; i++)
        if (f->leak[i].age_oldest > oldest) oldest = f->leak[i].age_oldest;
    if (!f->blocks) {
        add(line, "the trace doesn't contain single blocks");
    } else if (!f->leaked_blocks && !f->allocations) {
        add(line, "nothing was allocated during the trace");
    } else if (!f->leaked_blocks) {
        add(line, "none: everything allocated during the trace was freed");
    } else {
        add(line, "%s block%s of %s never freed", tool_exact(f->leaked_blocks, a),
            tool_s(f->leaked_blocks), tool_size(f->leaked_bytes, b));
        add(line, ", the oldest since %s", report_time(f, oldest, a));
        add(line, "; most: %s",
            report_owner_text(f->leak[0].kind, f->leak[0].tag, f->leak[0].site, SITE_ROOM, who));
    }
    if (f->samples_equal < f->samples)
        add(line, "; %s samples of the ledger were checked, and %s disagree with these sums",
            tool_exact(f->samples, a), tool_exact(f->samples - f->samples_equal, b));
    if (f->dropped)
        add(line, "; %s event%s lost", tool_exact(f->dropped, a),
            f->dropped == 1 ? " was" : "s were");
}

void report_verdict_make(const mnem_report_facts *f, report_verdict *v) {
    memset(v, 0, sizeof *v);
    verdict_peak(f, v->line[0]);
    verdict_room(f, v->line[1]);
    verdict_leaks(f, v->line[2]);
}

/* ---- tables ---- */

static void print_head(const mnem_report_facts *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    tool_outf("%s\n  %s", f->path, f->format);
    if (*f->program) tool_outf(" of %s", f->program);
    if (f->events) tool_outf(", %s event%s", tool_exact(f->events, a), tool_s(f->events));
    tool_outf(" over %s\n", report_time(f, f->duration, b));
    if (f->bytes_before)
        tool_outf("  %s were live when the trace began\n", tool_size(f->bytes_before, a));
}

static void print_verdict(const mnem_report_facts *f) {
    report_verdict v;
    char lead[16];
    report_verdict_make(f, &v);
    for (int i = 0; i < REPORT_VERDICTS; i++) {
        snprintf(lead, sizeof lead, "  %-7s", report_verdict_word[i]);
        tool_wrap(stdout, lead, v.line[i]);
    }
}

static void print_level(const char *name, const mnem_report_level *l) {
    char a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT];
    if (!l->known)
        tool_outf("  %-24s %12s %12s %12s\n", name, "-", "-", "-");
    else
        tool_outf("  %-24s %12s %12s %12s\n", name, tool_size(l->at_peak, a),
                  tool_size((uint64_t)l->mean, b), tool_size(l->most, c));
}

static void print_levels(const mnem_report_facts *f) {
    char a[TOOL_TEXT];
    if (!f->events) return;
    tool_outf("\n  %-24s %12s %12s %12s\n", "bytes", "at the peak", "mean", "most");
    print_level("live, as requested (L)", &f->live);
    print_level("granted (G)", &f->granted);
    print_level("reserved (R)", &f->reserved);
    if (f->hole_known)
        tool_outf("  %-24s %12s\n", "largest hole (H)", tool_size(f->hole_at_peak, a));
}

static void print_shares(const mnem_report_facts *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT];
    bool any = false;
    for (int i = MNEM_REPORT_METRIC_RESIDENT; i <= MNEM_REPORT_METRIC_PREDICTION_ERROR; i++) {
        const mnem_report_metric_info m = mnem_report_metric_get((mnem_report_metric)i);
        double value;
        if (!mnem_report_measure(f, (mnem_report_metric)i, &value)) continue;
        tool_outf("%s", any ? "" : "\n");
        any = true;
        tool_outf("  %-17s %8s  %s\n", m.key, report_value(f, (mnem_report_metric)i, a), m.text);
    }
    if (f->samples)
        tool_outf("  %-17s %8s  of %s samples of the ledger's own sums, to the byte\n", "equal",
                  tool_exact(f->samples_equal, a), tool_exact(f->samples, b));
}

/* How many rows are worth it: those that held something at the peak, or a hundredth of it ever. */
static size_t rows_of(const mnem_report_facts *f, const mnem_report_owner *o, size_t count) {
    size_t rows = 0;
    while (rows < count && rows < ROWS &&
           (o[rows].bytes_at_peak || o[rows].bytes_most > f->bytes_peak / 100))
        rows++;
    return rows;
}

static void print_owners(const mnem_report_facts *f, const char *title, const mnem_report_owner *o,
                         size_t count) {
    char a[TOOL_TEXT], b[TOOL_TEXT], who[TOOL_TEXT * 8];
    const size_t rows = rows_of(f, o, count);
    if (!rows) return;
    tool_outf("\n  %-*s %10s %6s %8s %10s\n", SITE_ROOM - 4, title, "at peak", "share", "blocks",
              "own peak");
    for (size_t i = 0; i < rows; i++)
        tool_outf("  %-*s %10s %4.1f %% %8s %10s\n", SITE_ROOM - 4,
                  report_owner_text(o[i].kind, o[i].tag, o[i].site, SITE_ROOM - 4, who),
                  tool_size(o[i].bytes_at_peak, a), share(o[i].bytes_at_peak, f->bytes_peak),
                  o[i].blocks_at_peak || o[i].allocations
                      ? tool_count((double)o[i].blocks_at_peak, who + TOOL_TEXT * 4)
                      : "-",
                  tool_size(o[i].bytes_most, b));
    if (count > rows) tool_outf("  and %zu more (--json has all)\n", count - rows);
}

static void print_leaks(const mnem_report_facts *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT], who[TOOL_TEXT * 8];
    if (!f->leaks) return;
    tool_outf("\n  %-*s %10s %8s %9s %9s\n", SITE_ROOM - 5, "never freed", "bytes", "blocks",
              "oldest", "median");
    for (size_t i = 0; i < f->leaks && i < ROWS; i++) {
        const mnem_report_leak *l = &f->leak[i];
        tool_outf("  %-*s %10s %8s %9s %9s%s\n", SITE_ROOM - 5,
                  report_owner_text(l->kind, l->tag, l->site, SITE_ROOM - 5, who),
                  tool_size(l->bytes, a), tool_count((double)l->blocks, who + TOOL_TEXT * 4),
                  report_time(f, l->age_oldest, b), report_time(f, l->age_median, c),
                  l->growing ? " grows" : "");
    }
    if (f->leaks > ROWS) tool_outf("  and %zu more (--json has all)\n", f->leaks - ROWS);
}

char *report_rate(const mnem_report_operator *o, bool operations, char text[TOOL_TEXT]) {
    const double all = operations ? 2 * (double)o->multiply_adds : (double)o->bytes;
    if (!o->ns_total || all <= 0 || strcmp(o->sort, "step") == 0) return strcpy(text, "-");
    snprintf(text, TOOL_TEXT, "%.2f", all / (double)o->ns_total);
    return text;
}

/* "-": not known, as in a line of the history. */
char *report_longest(const mnem_report_facts *f, const mnem_report_operator *o,
                     char text[TOOL_TEXT]) {
    if (o->ns_total && !o->ns_longest) return strcpy(text, "-");
    return report_time(f, o->ns_longest, text);
}

const char *report_unit(const mnem_report_operator *o) {
    if (strcmp(o->sort, "phase") != 0) return "times";
    return strcmp(o->name, mnem_phase_text(MNEM_PHASE_STEPS)) == 0 ? "steps" : "tokens";
}

/* Of a line of the history: each phase counts in a unit of its own. */
static void print_phases(const mnem_report_facts *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT], rate[TOOL_TEXT];
    tool_outf("\n  %-30s %9s %9s %-6s %10s\n", "phases", "time", "count", "of", "per second");
    for (size_t i = 0; i < f->ops; i++) {
        const mnem_report_operator *o = &f->op[i];
        snprintf(rate, sizeof rate, "-");
        if (o->ns_total)
            snprintf(rate, sizeof rate, "%.2f", (double)o->count * 1e9 / (double)o->ns_total);
        tool_outf("  %-30.30s %9s %9s %-6s %10s\n", o->name, report_time(f, o->ns_total, a),
                  tool_exact(o->count, b), report_unit(o), rate);
    }
}

static void print_operators(const mnem_report_facts *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT], d[TOOL_TEXT], e[TOOL_TEXT];
    if (!f->ops) return;
    if (strcmp(f->op[0].sort, "phase") == 0) {
        print_phases(f);
        return;
    }
    tool_outf("\n  %-30s %9s %9s %9s %7s %8s\n", "operators and spans", "time", "times", "longest",
              "GB/s", "GFLOP/s");
    for (size_t i = 0; i < f->ops && i < ROWS; i++) {
        const mnem_report_operator *o = &f->op[i];
        tool_outf("  %-30.30s %9s %9s %9s %7s %8s\n", o->name, report_time(f, o->ns_total, a),
                  tool_exact(o->count, b), report_longest(f, o, c), report_rate(o, false, d),
                  report_rate(o, true, e));
    }
    if (f->ops > ROWS) tool_outf("  and %zu more (--json has all)\n", f->ops - ROWS);
    if (f->runs_left_out)
        tool_outf("  %s more executions are not included: their operators are short, and only some "
                  "are recorded\n",
                  tool_exact(f->runs_left_out, a));
}

static void print_disk(const mnem_report_facts *f) {
    char a[TOOL_TEXT], b[TOOL_TEXT], c[TOOL_TEXT];
    if (!f->disk_reads) return;
    tool_outf("\n  disk: %s in %s reads, %s in total", tool_size(f->disk_bytes, a),
              tool_exact(f->disk_reads, b), report_time(f, f->disk_ns, c));
    if (f->disk_ns) tool_outf(" (%.2f GB/s)", (double)f->disk_bytes / (double)f->disk_ns);
    tool_outf("\n");
}

void report_print(const mnem_report_facts *f) {
    print_head(f);
    tool_out_flush();
    print_verdict(f);
    print_levels(f);
    print_shares(f);
    print_owners(f, "by tag", f->account, f->accounts);
    print_owners(f, "by site", f->site, f->sites);
    print_leaks(f);
    print_operators(f);
    print_disk(f);
}
