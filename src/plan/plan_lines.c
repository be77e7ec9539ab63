/* plan_lines.c: adds up what a plan will take, one line for each kind and tag.
 *
 * Invariant: the lines sum to the total. Cost: a walk over the lines for each part; there are some
 * tens of both. */
#include "plan/plan_lines.h"

#include <stdio.h>
#include <string.h>

static mnem_plan_line *line_of(const mnem__plan_lines *b, mnem_kind kind, const char *tag) {
    for (unsigned i = 0; i < *b->lines; i++)
        if (b->line[i].kind == kind && !strcmp(b->line[i].tag, tag)) return &b->line[i];
    if (*b->lines == b->most) return &b->line[b->most - 1];
    mnem_plan_line *line = &b->line[(*b->lines)++];
    *line = (mnem_plan_line){.kind = kind};
    snprintf(line->tag, sizeof line->tag, "%s", tag);
    return line;
}

void mnem__plan_lines_add(const mnem__plan_lines *b, mnem_kind kind, const char *tag,
                          uint64_t bytes) {
    if (bytes == 0) return;
    line_of(b, kind, tag)->bytes += bytes;
    *b->total += bytes;
}

void mnem__plan_lines_add_live(const mnem__plan_lines *b, mnem_ledger *ledger) {
    mnem_account_info account;
    for (unsigned i = 0; mnem_ledger_account_get(ledger, i, &account); i++)
        mnem__plan_lines_add(b, account.kind, account.tag, account.bytes_live);
}

void mnem__plan_lines_sort(const mnem__plan_lines *b) {
    for (unsigned i = 1; i < *b->lines; i++) {
        const mnem_plan_line line = b->line[i];
        unsigned at = i;
        for (; at > 0 && b->line[at - 1].kind > line.kind; at--) b->line[at] = b->line[at - 1];
        b->line[at] = line;
    }
}
