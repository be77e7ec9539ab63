/* preload_report.c: what is live, summed by the stack that asked for it.
 *
 * Invariant: the sums of the listed stacks and of "others" are the totals of the same pass over the
 * blocks; no lock of theirs is held while names are looked up.
 * Cost: a pass over the live blocks, and 48 bytes for each stack, mapped. */
#include "preload.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct sum {
    uint64_t bytes, blocks;
    uint32_t stack, oldest_ms, youngest_ms, first, last; /* generations */
} sum;

typedef struct pass {
    sum *sums;
    uint32_t count, from, to;
    uint64_t bytes, blocks;
    preload_text *list; /* each block too; NULL: not */
} pass;

static preload_lock lock; /* one report at a time */

/* ---- text ---- */

void preload_text_flush(preload_text *text) {
    for (size_t at = 0; at < text->used && !text->failed;) {
        const ssize_t n = write(text->fd, text->bytes + at, text->used - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            text->failed = true;
    }
    text->used = 0;
}

void preload_textf(preload_text *text, const char *format, ...) {
    enum { LINE = 1024 };
    va_list list;
    if (sizeof text->bytes - text->used < LINE) preload_text_flush(text);
    va_start(list, format);
    const int n = vsnprintf(text->bytes + text->used, LINE, format, list);
    va_end(list);
    if (n > 0) text->used += (size_t)(n < LINE ? n : LINE - 1);
}

/* ---- where ---- */

static struct stat first_stderr;
static int stderr_kept = -1;

static bool same_file(int fd) {
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == first_stderr.st_dev &&
           st.st_ino == first_stderr.st_ino;
}

/* Programs close standard error before they end; so a copy is kept, far from the numbers that they
 * count on, and looked at before it is used: who closes every number may have given it away. */
void preload_report_start(void) {
    if (fstat(STDERR_FILENO, &first_stderr) != 0) return;
    stderr_kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 200);
}

int preload_report_open(const char *path) {
    char own[280];
    if (!*path)
        return same_file(stderr_kept) ? stderr_kept : same_file(STDERR_FILENO) ? STDERR_FILENO : -1;
    preload_path(path, own, sizeof own);
    return open(own, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* ---- sums ---- */

static void add(void *context, const preload_block *b) {
    pass *p = context;
    if (b->generation < p->from || b->generation > p->to || b->stack >= p->count) return;
    sum *s = &p->sums[b->stack];
    if (!s->blocks) *s = (sum){.oldest_ms = UINT32_MAX, .first = UINT32_MAX, .stack = b->stack};
    s->blocks++;
    s->bytes += b->bytes;
    if (b->born_ms < s->oldest_ms) s->oldest_ms = b->born_ms;
    if (b->born_ms > s->youngest_ms) s->youngest_ms = b->born_ms;
    if (b->generation < s->first) s->first = b->generation;
    if (b->generation > s->last) s->last = b->generation;
    p->blocks++;
    p->bytes += b->bytes;
    if (p->list)
        preload_textf(p->list, "block 0x%llx %llu bytes, serial %llu, generation %u, stack %u\n",
                      (unsigned long long)b->address, (unsigned long long)b->bytes,
                      (unsigned long long)b->serial, b->generation, b->stack);
}

/* Whether x is listed before y. */
static bool before(const sum *x, const sum *y) {
    if (x->bytes != y->bytes) return x->bytes > y->bytes;
    if (x->blocks != y->blocks) return x->blocks > y->blocks;
    return x->stack < y->stack;
}

static void sink(sum *at, size_t i, size_t n) {
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&at[child], &at[child + 1])) child++;
        if (!before(&at[i], &at[child])) return;
        const sum held = at[i];
        at[i] = at[child];
        at[child] = held;
    }
}

/* A heap sort: the C library's takes memory. */
static void sort(sum *at, size_t n) {
    for (size_t i = n / 2; i-- > 0;) sink(at, i, n);
    for (size_t last = n; last-- > 1;) {
        const sum held = at[0];
        at[0] = at[last];
        at[last] = held;
        sink(at, 0, last);
    }
}

/* ---- lines ---- */

static const char *plural(uint64_t n) {
    return n == 1 ? "" : "s";
}

static void frame(preload_text *t, uintptr_t pc) {
    preload_symbol y;
    preload_symbol_find(pc - 1, &y); /* the call */
    if (!*y.module)
        preload_textf(t, "    0x%llx\n", (unsigned long long)pc);
    else if (y.line)
        preload_textf(t, "    %s  %s:%u\n", *y.name ? y.name : y.module, y.file, y.line);
    else if (*y.name)
        preload_textf(t, "    %s  %s\n", y.name, y.module);
    else
        preload_textf(t, "    %s+0x%llx\n", y.module, (unsigned long long)y.offset);
}

static void stack(preload_text *t, const sum *e, uint64_t now_ms) {
    int count;
    const uintptr_t *pcs = preload_stack_frames(e->stack, &count);
    preload_textf(t, "\n%llu byte%s in %llu block%s, %.2f", (unsigned long long)e->bytes,
                  plural(e->bytes), (unsigned long long)e->blocks, plural(e->blocks),
                  (double)(now_ms - e->youngest_ms) / 1e3);
    if (e->youngest_ms != e->oldest_ms)
        preload_textf(t, " to %.2f", (double)(now_ms - e->oldest_ms) / 1e3);
    preload_textf(t, " s old, generation %u", e->first);
    if (e->last != e->first) preload_textf(t, " to %u", e->last);
    preload_textf(t, "\n");
    for (int i = 0; i < count; i++) frame(t, pcs[i]);
    if (!count) preload_textf(t, "    (no stack)\n");
}

static void head(preload_text *t, const pass *p, const char *title) {
    preload_totals all;
    preload_symbol own;
    preload_totals_get(&all);
    preload_symbol_find((uintptr_t)&preload_report, &own); /* so that modules are known */
    preload_textf(t, "mnem-track: %s (process %d), %s: %llu block%s live, %llu byte%s\n",
                  program_invocation_short_name, (int)getpid(), title,
                  (unsigned long long)p->blocks, plural(p->blocks), (unsigned long long)p->bytes,
                  plural(p->bytes));
    preload_textf(t,
                  "%.2f s, %llu allocations, %llu frees, at most %llu bytes live; %llu frees of "
                  "unknown blocks, %llu allocations not kept; %u stacks, %.1f MiB for all this\n",
                  (double)preload_now_ns() / 1e9, (unsigned long long)all.allocations,
                  (unsigned long long)all.frees, (unsigned long long)all.bytes_peak,
                  (unsigned long long)all.unknown, (unsigned long long)all.lost,
                  preload_stack_count() - 1, (double)preload_mapped_bytes() / 1048576.0);
}

static void stacks(preload_text *t, pass *p) {
    uint32_t used = 0;
    uint64_t bytes = 0, blocks = 0;
    const uint64_t now_ms = preload_now_ns() / 1000000;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->sums[i].blocks) p->sums[used++] = p->sums[i];
    sort(p->sums, used);
    for (uint32_t i = 0; i < used; i++) {
        if (i < (uint32_t)preload_set.top) {
            stack(t, &p->sums[i], now_ms);
        } else {
            bytes += p->sums[i].bytes;
            blocks += p->sums[i].blocks;
        }
    }
    if (used > (uint32_t)preload_set.top)
        preload_textf(t, "\n%llu byte%s in %llu block%s of %u other stacks (top=N shows more)\n",
                      (unsigned long long)bytes, plural(bytes), (unsigned long long)blocks,
                      plural(blocks), used - (uint32_t)preload_set.top);
}

bool preload_report(int fd, const char *title, uint32_t from, uint32_t to) {
    preload_text t = {.fd = fd};
    pass p = {.count = preload_stack_count(), .from = from, .to = to};
    p.sums = preload_map(p.count * sizeof *p.sums);
    if (!p.sums) return false;
    preload_lock_take(&lock);
    preload_modules_note();
    if (preload_set.blocks) p.list = &t;
    preload_block_each(add, &p);
    head(&t, &p, title);
    stacks(&t, &p);
    preload_text_flush(&t);
    preload_symbols_forget();
    preload_lock_give(&lock);
    preload_unmap(p.sums, p.count * sizeof *p.sums);
    return !t.failed;
}
