/* bytes_table.c: bytes by kind and tag as tables: of a plan, and of a ledger. */
#include "tool.h"

/* "  weights     resident           5.50 MiB        5,767,168  <note>" */
static void row(FILE *file, const char *kind, const char *tag, uint64_t bytes, const char *note) {
    char size[TOOL_TEXT], exact[TOOL_TEXT];
    fprintf(file, "  %-10s %-18.31s %11s %18s%s%s\n", kind, tag, tool_size(bytes, size),
            tool_exact(bytes, exact), *note ? "  " : "", note);
}

void tool_bytes_plan(FILE *file, const tool_bytes *b) {
    char size[TOOL_TEXT], note[64];
    for (unsigned i = 0; i < b->lines; i++)
        row(file, mnem_kind_text(b->line[i].kind), b->line[i].tag, b->line[i].bytes, "");
    if (b->before_bytes) row(file, "host", "before the steps", b->before_bytes, "");
    snprintf(note, sizeof note, "of %s", tool_size(b->budget_bytes, size));
    row(file, "peak", "", b->peak_bytes, note);
    if (b->kept_bytes) row(file, "kept", "for requests", b->kept_bytes, "beside the peak");
    if (b->budget_chosen) fprintf(file, "  budget   85 %% of what is available: %s\n", size);
}

/* "weights 92.1 MiB + kv 90 MiB + ...", broken between kinds. */
static void plan_kinds(FILE *file, const tool_bytes *b) {
    enum { COLUMNS = 80, LEAD = 11 };
    const int terminal = tool_columns(file);
    const int columns = terminal > 0 && terminal < COLUMNS ? terminal : COLUMNS;
    char size[TOOL_TEXT], text[TOOL_TEXT * 2];
    int at = LEAD;
    fputs("  made of ", file);
    for (int kind = 0; kind < MNEM_KIND_COUNT; kind++) {
        uint64_t sum = 0;
        for (unsigned i = 0; i < b->lines; i++)
            if ((int)b->line[i].kind == kind) sum += b->line[i].bytes;
        if (kind == MNEM_KIND_HOST) sum += b->before_bytes;
        if (!sum) continue;
        const int n = snprintf(text, sizeof text, " %s%s %s", at > LEAD ? "+ " : "",
                               mnem_kind_text((mnem_kind)kind), tool_size(sum, size));
        if (at + n > columns) {
            fprintf(file, "\n%*s", LEAD - 1, "");
            at = LEAD;
        }
        fputs(text, file);
        at += n;
    }
    fputc('\n', file);
}

void tool_bytes_plan_short(FILE *file, const tool_bytes *b) {
    char text[160], peak[TOOL_TEXT], budget[TOOL_TEXT];
    snprintf(text, sizeof text, "%s, in a budget of %s%s", tool_size(b->peak_bytes, peak),
             tool_size(b->budget_bytes, budget),
             b->budget_chosen ? " (85 % of the available memory)" : "");
    tool_wrap(file, "  peak     ", text);
    plan_kinds(file, b);
}

json_t *tool_bytes_json(const tool_bytes *b) {
    json_t *lines = json_array();
    for (unsigned i = 0; i < b->lines; i++)
        json_array_append_new(
            lines, json_pack("{s:s, s:s, s:I}", "kind", mnem_kind_text(b->line[i].kind), "tag",
                             b->line[i].tag, "bytes", (json_int_t)b->line[i].bytes));
    if (b->before_bytes)
        json_array_append_new(
            lines, json_pack("{s:s, s:s, s:I}", "kind", mnem_kind_text(MNEM_KIND_HOST), "tag",
                             "before the steps", "bytes", (json_int_t)b->before_bytes));
    return lines;
}

static void ledger_row(FILE *file, const char *kind, const char *tag, uint64_t live,
                       uint64_t peak) {
    char a[TOOL_TEXT], b[TOOL_TEXT], exact[TOOL_TEXT];
    fprintf(file, "  %-10s %-18.31s %11s %11s %18s\n", kind, tag, tool_size(live, a),
            tool_size(peak, b), tool_exact(peak, exact));
}

uint64_t tool_bytes_unaccounted(const mnem_ledger *ledger) {
    const uint64_t seen = tool_peak_bytes();
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    return seen > info.bytes_peak ? seen - info.bytes_peak : 0;
}

void tool_bytes_ledger_short(FILE *file, const mnem_ledger *ledger, uint64_t predicted_bytes,
                             uint64_t kept_bytes) {
    char peak[TOOL_TEXT], predicted[TOOL_TEXT], budget[TOOL_TEXT], size[TOOL_TEXT], kept[80] = "";
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    if (kept_bytes)
        snprintf(kept, sizeof kept, ", and up to %s more for requests",
                 tool_size(kept_bytes, size));
    fprintf(file, "  the process's peak (VmHWM) was %s; predicted %s%s; budget %s\n",
            tool_size(tool_peak_bytes(), peak), tool_size(predicted_bytes, predicted), kept,
            tool_size(info.budget_bytes, budget));
}

void tool_bytes_ledger(FILE *file, const mnem_ledger *ledger, uint64_t predicted_bytes,
                       uint64_t kept_bytes) {
    mnem_ledger_info info;
    mnem_account_info account;
    mnem_ledger_info_get(ledger, &info);
    fprintf(file, "ledger%35s %11s %18s\n", "now", "peak", "peak, bytes");
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &account); i++)
        ledger_row(file, mnem_kind_text(account.kind), account.tag, account.bytes_live,
                   account.bytes_peak);
    ledger_row(file, "total", "", info.bytes_live, info.bytes_peak);
    const uint64_t beyond = tool_bytes_unaccounted(ledger);
    if (beyond) ledger_row(file, "unaccounted", "", 0, beyond);
    tool_bytes_ledger_short(file, ledger, predicted_bytes, kept_bytes);
}

json_t *tool_ledger_json(const mnem_ledger *ledger) {
    mnem_ledger_info info;
    mnem_ledger_info_get(ledger, &info);
    json_t *accounts = json_array();
    mnem_account_info account;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &account); i++)
        json_array_append_new(accounts, json_pack("{s:s, s:s, s:I, s:I}", "kind",
                                                  mnem_kind_text(account.kind), "tag", account.tag,
                                                  "bytes_live", (json_int_t)account.bytes_live,
                                                  "bytes_peak", (json_int_t)account.bytes_peak));
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "accounts", accounts, "bytes_live",
                     (json_int_t)info.bytes_live, "bytes_peak", (json_int_t)info.bytes_peak,
                     "budget_bytes", (json_int_t)info.budget_bytes, "bytes_unaccounted",
                     (json_int_t)tool_bytes_unaccounted(ledger), "refusals",
                     (json_int_t)info.refusals);
}
