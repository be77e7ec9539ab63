/* report_html.c: a report as a page: one file, which asks no network.
 *
 * The idea: report_page.html is a template with @@NAME@@ where text goes: the verdict, tables that
 * need no JavaScript, the same object as --json, and what the library draws (mnem_report_draw).
 * Invariant: text of others stands in the page only through html_text or as JSON without '<'. */
#include <stdarg.h>
#include <string.h>

#include "output_file.h"
#include "verbs/report/report_tool.h"

extern const char report_page_html[];
extern const size_t report_page_html_bytes;

enum { ROWS = 100, SHOWN = 15 }; /* of a table; before the rest has to be asked for */

typedef struct page {
    FILE *file;
    mnem_report *report;
    const mnem_report_facts *f;
    mnem_report *const *rank; /* of a trace of several, else none */
    int ranks;
} page;

/* A text as HTML takes it; what isn't ASCII is as it is where it is UTF-8. */
static void html_text(const page *p, const char *text) {
    json_t *whole = json_string(text);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) switch (*c) {
        case '&': fputs("&amp;", p->file); break;
        case '<': fputs("&lt;", p->file); break;
        case '>': fputs("&gt;", p->file); break;
        case '"': fputs("&quot;", p->file); break;
        default: fputc(*c < 32 || (*c > 126 && !whole) ? '?' : *c, p->file);
        }
    json_decref(whole);
}

static void cell(const page *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void cell(const page *p, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("<td>", p->file);
    vfprintf(p->file, format, list);
    fputs("</td>", p->file);
    va_end(list);
}

/* Rounded, the whole number on hover. */
static void cell_bytes(const page *p, uint64_t bytes) {
    char rounded[TOOL_TEXT], exact[TOOL_TEXT];
    cell(p, "<span title=\"%s bytes\">%s</span>", tool_exact(bytes, exact),
         tool_size(bytes, rounded));
}

static void cell_text(const page *p, const char *kind, const char *tag, const char *site) {
    fputs("<tr><td>", p->file);
    html_text(p, kind);
    if (*kind && *tag) fputc(' ', p->file);
    html_text(p, tag);
    if (*site) fputs(": ", p->file);
    html_text(p, site);
    fputs("</td>", p->file);
}

static void put_columns(const page *p, const char *const *columns) {
    fputs("<table><tr>", p->file);
    for (; *columns; columns++) fprintf(p->file, "<th scope=\"col\">%s</th>", *columns);
    fputs("</tr>\n", p->file);
}

static void begin_table(const page *p, const char *title, const char *const *columns) {
    fprintf(p->file, "<section><h2>%s</h2><div class=\"wide\">", title);
    put_columns(p, columns);
}

/* Before row i of so many: a long table's later rows are folded away. */
static void fold_table(const page *p, size_t i, size_t all, const char *const *columns) {
    if (i != SHOWN) return;
    fprintf(p->file, "</table><details><summary>%zu more</summary>", all - SHOWN);
    put_columns(p, columns);
}

static void end_table(const page *p, size_t all) {
    fputs("</table>", p->file);
    if (all > ROWS) fprintf(p->file, "<p class=\"dim\">and %zu in --json</p>", all - ROWS);
    fprintf(p->file, "%s</div></section>\n", all > SHOWN ? "</details>" : "");
}

/* ---- tables ---- */

static void metrics_table(const page *p) {
    static const char *const columns[] = {"number", "value", "exact", "is", NULL};
    begin_table(p, "Numbers", columns);
    for (int i = 0; i < MNEM_REPORT_METRICS; i++) {
        const mnem_report_metric metric = (mnem_report_metric)i;
        const mnem_report_metric_info m = mnem_report_metric_get(metric);
        char text[TOOL_TEXT];
        double value;
        if (!mnem_report_measure(p->f, metric, &value)) continue;
        fprintf(p->file, "<tr><td>%s</td>", m.key);
        cell(p, "%s", report_value(p->f, metric, text));
        cell(p, *m.unit == '%' ? "%.6g" : "%.0f", value);
        cell(p, "%s", m.text);
        fputs("</tr>\n", p->file);
    }
    end_table(p, 0);
}

static void levels_table(const page *p) {
    static const char *const columns[] = {"bytes", "at the peak", "mean", "most", NULL};
    static const char *const name[] = {"live, as requested (L)", "granted (G)", "reserved (R)"};
    const mnem_report_level *level[] = {&p->f->live, &p->f->granted, &p->f->reserved};
    begin_table(p, "Levels", columns);
    for (int i = 0; i < 3; i++) {
        if (!level[i]->known) continue;
        fprintf(p->file, "<tr><td>%s</td>", name[i]);
        cell_bytes(p, level[i]->at_peak);
        cell_bytes(p, (uint64_t)level[i]->mean);
        cell_bytes(p, level[i]->most);
        fputs("</tr>\n", p->file);
    }
    end_table(p, 0);
}

static void owners_table(const page *p, const char *title, const mnem_report_owner *o,
                         size_t count) {
    static const char *const columns[] = {"who",      "at the peak", "share", "blocks",
                                          "own peak", "at the end",  NULL};
    if (!count) return;
    begin_table(p, title, columns);
    for (size_t i = 0; i < count && i < ROWS; i++) {
        fold_table(p, i, count, columns);
        cell_text(p, o[i].kind, o[i].tag, o[i].site);
        cell_bytes(p, o[i].bytes_at_peak);
        cell(p, "%.1f %%",
             p->f->bytes_peak ? 100 * (double)o[i].bytes_at_peak / (double)p->f->bytes_peak : 0);
        cell(p, "%llu", (unsigned long long)o[i].blocks_at_peak);
        cell_bytes(p, o[i].bytes_most);
        cell_bytes(p, o[i].bytes_end);
        fputs("</tr>\n", p->file);
    }
    end_table(p, count);
}

static void leaks_table(const page *p) {
    static const char *const columns[] = {"never freed", "bytes", "blocks", "oldest",
                                          "median",      "grows", NULL};
    char a[TOOL_TEXT];
    if (!p->f->leaks) return;
    begin_table(p, "Never freed", columns);
    for (size_t i = 0; i < p->f->leaks && i < ROWS; i++) {
        const mnem_report_leak *l = &p->f->leak[i];
        fold_table(p, i, p->f->leaks, columns);
        cell_text(p, l->kind, l->tag, l->site);
        cell_bytes(p, l->bytes);
        cell(p, "%llu", (unsigned long long)l->blocks);
        cell(p, "%s", report_time(p->f, l->age_oldest, a));
        cell(p, "%s", report_time(p->f, l->age_median, a));
        cell(p, "%s", l->growing ? "yes" : "");
        fputs("</tr>\n", p->file);
    }
    end_table(p, p->f->leaks);
}

static void operators_table(const page *p) {
    static const char *const columns[] = {"span",  "time", "times",   "longest",
                                          "bytes", "GB/s", "GFLOP/s", NULL};
    char a[TOOL_TEXT];
    if (!p->f->ops) return;
    begin_table(p, "Operators and other spans", columns);
    for (size_t i = 0; i < p->f->ops && i < ROWS; i++) {
        const mnem_report_operator *o = &p->f->op[i];
        fold_table(p, i, p->f->ops, columns);
        cell_text(p, o->name, "", "");
        cell(p, "%s", report_time(p->f, o->ns_total, a));
        cell(p, "%llu", (unsigned long long)o->count);
        cell(p, "%s", report_longest(p->f, o, a));
        if (o->bytes && strcmp(o->sort, "step") != 0)
            cell_bytes(p, o->bytes);
        else
            cell(p, "-");
        cell(p, "%s", report_rate(o, false, a));
        cell(p, "%s", report_rate(o, true, a));
        fputs("</tr>\n", p->file);
    }
    end_table(p, p->f->ops);
}

static void refusals_table(const page *p) {
    static const char *const columns[] = {"refused for", "requests", "largest", "last", NULL};
    double all;
    mnem_report_measure(p->f, MNEM_REPORT_METRIC_REFUSALS, &all);
    if (all == 0) return;
    begin_table(p, "Refused", columns);
    for (int i = 0; i < MNEM_REPORT_REFUSALS; i++) {
        const mnem_report_refused *r = &p->f->refused[i];
        if (!r->count) continue;
        cell_text(p, mnem_report_refusal_text((mnem_report_refusal)i), "", "");
        cell(p, "%llu", (unsigned long long)r->count);
        cell_bytes(p, r->bytes_largest);
        cell_bytes(p, r->bytes_last);
        fputs("</tr>\n", p->file);
    }
    end_table(p, 0);
}

/* What the terminal has first, too: all else on the page is of one rank. */
static void ranks_table(const page *p) {
    char text[REPORT_RANK_CELLS][TOOL_TEXT];
    if (!p->ranks) return;
    fprintf(p->file,
            "<section><h2>Ranks</h2><p class=\"dim\">All else on this page is of rank %u; "
            "<code>mnem report TRACE --rank N --html FILE</code> makes the page of another."
            "</p><div class=\"wide\">",
            p->f->rank);
    put_columns(p, report_rank_columns);
    for (int i = 0; i < p->ranks && i < ROWS; i++) {
        fold_table(p, (size_t)i, (size_t)p->ranks, report_rank_columns);
        report_rank_cells(mnem_report_facts_get(p->rank[i]), text);
        fputs("<tr>", p->file);
        for (int k = 0; k < REPORT_RANK_CELLS; k++) cell(p, "%s", text[k]);
        fputs("</tr>\n", p->file);
    }
    end_table(p, (size_t)p->ranks);
}

/* ---- the parts ---- */

static void put_title(page *p) {
    fputs("mnem report: ", p->file);
    html_text(p, tool_file_name(p->f->path));
}

static void put_head(page *p) {
    report_verdict v;
    char a[TOOL_TEXT], b[TOOL_TEXT];
    fputs("<h1>", p->file);
    html_text(p, p->f->path);
    fprintf(p->file, "</h1>\n<p class=\"dim\">");
    html_text(p, p->f->format);
    if (*p->f->program) fputs(" of ", p->file);
    html_text(p, p->f->program);
    fprintf(p->file, ", %s events over %s</p>\n", tool_exact(p->f->events, a),
            report_time(p->f, p->f->duration, b));
    if (p->f->dropped)
        fprintf(p->file, "<p class=\"bad\">%s events were lost, or contradict others</p>\n",
                tool_exact(p->f->dropped, a));
    report_verdict_make(p->f, &v);
    fputs("<dl class=\"verdict\">", p->file);
    for (int i = 0; i < REPORT_VERDICTS; i++) {
        fprintf(p->file, "<dt>%s</dt><dd>", report_verdict_word[i]);
        html_text(p, v.line[i]);
        fputs("</dd>\n", p->file);
    }
    fputs("</dl>\n", p->file);
    ranks_table(p);
}

static void put_tables(page *p) {
    metrics_table(p);
    levels_table(p);
    owners_table(p, "By tag", p->f->account, p->f->accounts);
    owners_table(p, "By site", p->f->site, p->f->sites);
    leaks_table(p);
    operators_table(p);
    refusals_table(p);
}

static int write_json(const char *text, size_t n, void *context) {
    FILE *file = context;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '<' || text[i] == '>' || text[i] == '&')
            fprintf(file, "\\u%04x", (unsigned)text[i]);
        else
            fputc(text[i], file);
    return 0;
}

static void put_report(page *p) {
    json_t *root = report_json(p->f);
    static const char *const lists[] = {"tags", "sites", "leaks", "operators"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        json_t *list = json_object_get(root, lists[i]);
        while (json_array_size(list) > ROWS) json_array_remove(list, json_array_size(list) - 1);
    }
    json_dump_callback(root, write_json, p->file, JSON_COMPACT);
    json_decref(root);
}

static bool write_picture(void *context, const char *text, size_t n) {
    return fwrite(text, 1, n, context) == n;
}

static mnem_status put_part(page *p, const char *name, size_t n) {
    static const struct {
        const char *name;
        void (*put)(page *p);
    } parts[] = {
        {"TITLE", put_title}, {"HEAD", put_head}, {"TABLES", put_tables}, {"REPORT", put_report}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strlen(parts[i].name) == n && strncmp(parts[i].name, name, n) == 0) parts[i].put(p);
    if (n == 7 && strncmp(name, "PICTURE", n) == 0)
        return mnem_report_draw(p->report, &(mnem_report_sink){write_picture, p->file});
    return MNEM_OK;
}

/* The template, with its parts filled in. */
static mnem_status put_page(page *p) {
    const char *at = report_page_html, *mark;
    mnem_status status = MNEM_OK;
    while (status == MNEM_OK && (mark = strstr(at, "@@"))) {
        const char *end = strstr(mark + 2, "@@");
        fwrite(at, 1, (size_t)(mark - at), p->file);
        status = put_part(p, mark + 2, (size_t)(end - mark - 2));
        at = end + 2;
    }
    fwrite(at, 1, (size_t)(report_page_html + report_page_html_bytes - at), p->file);
    return status;
}

int report_html(mnem_report *report, mnem_report *const *ranks, int count, const char *path) {
    tool_new out;
    const int code = tool_new_open(&out, path);
    if (code != TOOL_OK) return code;
    page p = {out.file, report, mnem_report_facts_get(report), ranks, count};
    const mnem_status status = put_page(&p);
    /* A picture stops where the file takes no more: why, says the file. */
    if (status == MNEM_OK || ferror(out.file)) return tool_new_end(&out);
    tool_new_drop(&out);
    return tool_fail(status);
}
