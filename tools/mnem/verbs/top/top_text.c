/* top_text.c: a status file's view as lines: what it is, memory, work, accounts by size.
 *
 * Invariant: no line is wider than the columns, and there are never more than the rows. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "verbs/top/top.h"

enum { LINE = 512, COLUMNS_LEAST = 40 };

typedef struct page {
    int columns, left; /* rows */
    bool colours;
} page;

/* ---- lines ---- */

/* Bytes of text that take so many columns: a character is one. */
static size_t cut(const char *text, int columns) {
    size_t n = 0;
    for (int at = 0; text[n]; n++) {
        if (((unsigned char)text[n] & 0xc0) == 0x80) continue;
        if (at++ == columns) break;
    }
    return n;
}

__attribute__((format(printf, 3, 4))) static void line(page *p, const char *colour,
                                                       const char *format, ...) {
    char text[LINE];
    va_list list;
    if (p->left-- <= 0) return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const bool shown = p->colours && colour;
    tool_outf("%s%.*s%s\n", shown ? colour : "", (int)cut(text, p->columns), text,
              shown ? "\033[0m" : "");
}

/* "######......", of so many places. */
static const char *bar(double part, int places, char text[64]) {
    const double whole = part < 0 ? 0 : part > 1 ? 1 : part;
    const int full = (int)(whole * places + 0.5);
    for (int i = 0; i < places; i++) text[i] = i < full ? '#' : '.';
    text[places] = 0;
    return text;
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

/* ---- parts ---- */

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void head(page *p, const mnem_monitor_view *v) {
    const uint64_t now = now_ms(), up = now > v->started_ms ? (now - v->started_ms) / 1000 : 0;
    const double old = now > v->updated_ms ? (double)(now - v->updated_ms) / 1000 : 0;
    char age[40] = "";
    if (old >= 2) snprintf(age, sizeof age, ", updated %.0f s ago", old);
    line(p, "\033[1m", "%s (process %u)%s%s  up %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 "  %s%s",
         *v->program ? v->program : "a program", v->pid, *v->model ? "  " : "", v->model, up / 3600,
         up / 60 % 60, up % 60,
         !mnem_monitor_alive(v) ? "ended"
         : *v->numbers.phase    ? v->numbers.phase
                                : "running",
         age);
}

/* What is charged is there for who asked for it; the kernel gives pages as they are touched. A low
 * window has no room for it. */
enum { UNTOUCHED_LEAST = 1 << 20, UNTOUCHED_ROWS = 12 };

static void memory(page *p, const mnem_monitor_view *v) {
    char live[TOOL_TEXT], budget[TOOL_TEXT], peak[TOOL_TEXT], text[64];
    const double part = share(v->bytes_live, v->budget_bytes);
    const char *colour = part > 0.95 ? "\033[31m" : part > 0.85 ? "\033[33m" : "\033[32m";
    if (v->budget_bytes)
        line(p, colour, "memory   %10s of %-10s [%s] %5.1f %%, peak %s",
             tool_size(v->bytes_live, live), tool_size(v->budget_bytes, budget),
             bar(part, 20, text), 100 * part, tool_size(v->bytes_peak, peak));
    else
        line(p, NULL, "memory   %10s, peak %s, no budget", tool_size(v->bytes_live, live),
             tool_size(v->bytes_peak, peak));
    line(p, NULL, "process  %10s resident, peak RSS %s; %" PRIu64 " refusal%s of the budget",
         tool_size(v->bytes_resident, live), tool_size(v->bytes_resident_peak, peak), v->refusals,
         tool_s(v->refusals));
    if (p->left >= UNTOUCHED_ROWS && v->bytes_live > v->bytes_resident + UNTOUCHED_LEAST)
        line(p, NULL, "untouched%10s charged to memory, not resident yet (room for later work)",
             tool_size(v->bytes_live - v->bytes_resident, live));
}

static void work(page *p, const mnem_monitor_numbers *n) {
    char steps[TOOL_TEXT], planned[TOOL_TEXT + 4] = "", tokens[TOOL_TEXT], loss[32] = "", text[64];
    char each[TOOL_TEXT];
    if (n->steps_planned) {
        char number[TOOL_TEXT];
        snprintf(planned, sizeof planned, " of %s", tool_exact(n->steps_planned, number));
    }
    if (n->loss != 0) snprintf(loss, sizeof loss, ", loss %.4f", n->loss);
    if (n->step_seconds < 1)
        snprintf(each, sizeof each, "%.3g ms", 1e3 * n->step_seconds);
    else
        tool_seconds(n->step_seconds, each);
    if (n->steps || n->tokens)
        line(p, NULL, "work     %s token%s, %.1f a second; %s%s step%s of %s%s",
             tool_exact(n->tokens, tokens), tool_s(n->tokens), n->tokens_per_s,
             tool_exact(n->steps, steps), planned,
             tool_s(n->steps_planned ? n->steps_planned : n->steps), each, loss);
    if (n->pages_total)
        line(p, NULL, "pages    %10" PRIu64 " of %-10" PRIu64 " [%s] %5.1f %%", n->pages_used,
             n->pages_total, bar(share(n->pages_used, n->pages_total), 20, text),
             100 * share(n->pages_used, n->pages_total));
    if (n->requests_running || n->requests_waiting || n->requests_done || n->requests_refused)
        line(p, NULL,
             "requests %" PRIu64 " running, %" PRIu64 " waiting (%" PRIu64 " preempted), %" PRIu64
             " done, %" PRIu64 " refused",
             n->requests_running, n->requests_waiting, n->requests_preempted, n->requests_done,
             n->requests_refused);
}

static void models(page *p, const mnem_monitor_view *v) {
    char size[TOOL_TEXT];
    uint32_t i = 0;
    if (!v->models) return;
    line(p, NULL, " ");
    line(p, "\033[2m", "%-35s %-10s %11s %9s", "model", "state", "takes", "requests");
    for (; i < v->models && (p->left > 1 || i + 1 == v->models); i++)
        line(p, NULL, "%-35s %-10s %11s %9u", v->served[i].name, v->served[i].state,
             tool_size(v->served[i].bytes, size), v->served[i].requests);
    const uint32_t more = v->models - i + v->models_more;
    if (more) line(p, "\033[2m", "and %u more", more);
}

/* Indexes by live bytes, most first; the order of the file where they are equal. */
static void sort(const mnem_monitor_view *v, uint8_t order[MNEM_MONITOR_ACCOUNTS]) {
    for (uint32_t i = 0; i < v->accounts; i++) {
        uint32_t at = i;
        for (; at > 0 && v->account[order[at - 1]].bytes_live < v->account[i].bytes_live; at--)
            order[at] = order[at - 1];
        order[at] = (uint8_t)i;
    }
}

static void account(page *p, const mnem_monitor_view *v, const mnem_monitor_account *a) {
    char live[TOOL_TEXT], peak[TOOL_TEXT], text[64];
    const double part = share(a->bytes_live, v->bytes_live);
    line(p, NULL, "%-10.10s %-24.24s %11s %11s %5.1f %% %s", a->kind, a->tag,
         tool_size(a->bytes_live, live), tool_size(a->bytes_peak, peak), 100 * part,
         bar(part, 10, text));
}

static void accounts(page *p, const mnem_monitor_view *v) {
    uint8_t order[MNEM_MONITOR_ACCOUNTS];
    uint64_t rest = 0;
    char size[TOOL_TEXT];
    if (!v->accounts) return;
    sort(v, order);
    line(p, NULL, " ");
    line(p, "\033[2m", "%-10s %-24s %11s %11s %7s", "kind", "tag", "live", "peak", "share");
    uint32_t i = 0;
    for (; i < v->accounts && (p->left > 1 || i + 1 == v->accounts); i++)
        account(p, v, &v->account[order[i]]);
    if (i == v->accounts) return;
    const uint32_t more = v->accounts - i;
    for (; i < v->accounts; i++) rest += v->account[order[i]].bytes_live;
    line(p, "\033[2m", "and %u more: %s", more, tool_size(rest, size));
}

void top_text(const mnem_monitor_view *v, int columns, int rows, bool colours) {
    page p = {columns < COLUMNS_LEAST ? COLUMNS_LEAST : columns, rows ? rows : INT32_MAX, colours};
    head(&p, v);
    memory(&p, v);
    work(&p, &v->numbers);
    models(&p, v);
    accounts(&p, v);
}
