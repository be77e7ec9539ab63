/* write_folded.c: who held what at the peak, as folded stacks for flame graphs:
 *
 *     weights;resident;load 5767168
 *     pool 1;activation;cache;attention.c:41 4096
 *
 * A line for each kind, tag and site, those of pools below one of their own: a pool's blocks lie in
 * bytes that a ledger counts already. The peak is that of all ledgers together; of the pools where
 * there is no ledger.
 *
 * Sums are kept as they go; they are copied when the most so far is left, so a peak costs one walk
 * over the sums however many steps led to it. */
#include <inttypes.h>
#include <string.h>

#include "base/heap.h"
#include "trace/export/export.h"
#include "trace/export/export_file.h"

/* What a kind, tag and site hold. */
typedef struct holder {
    uint64_t bytes, peak_bytes; /* now; at the peak so far */
    uint32_t account, site;
    bool known; /* the slot isn't empty */
} holder;

typedef struct folded {
    mnem__export_file file;
    holder *holder; /* [room], a power of two; at most half of them are used */
    uint32_t room, used;
    uint64_t peak;
    bool rising; /* the sums are those of the peak so far */
} folded;

static holder *find(holder *holders, uint32_t room, uint32_t account, uint32_t site) {
    const uint64_t mixed = ((uint64_t)account << 32 | site) * 0x9e3779b97f4a7c15ULL;
    uint32_t at = (uint32_t)(mixed >> 32) & (room - 1);
    while (holders[at].known && (holders[at].account != account || holders[at].site != site))
        at = (at + 1) & (room - 1);
    return &holders[at];
}

static mnem_status grow(folded *f) {
    const uint32_t room = f->room ? 2 * f->room : 64;
    holder *more = mnem__calloc("trace", room, sizeof *more);
    if (!more) return mnem__heap_status();
    for (uint32_t i = 0; i < f->room; i++)
        if (f->holder[i].known)
            *find(more, room, f->holder[i].account, f->holder[i].site) = f->holder[i];
    mnem__free(f->holder);
    f->holder = more;
    f->room = room;
    return MNEM_OK;
}

/* All ledgers' bytes; the pools' where there is no ledger. */
static uint64_t total(const mnem__export *e) {
    uint64_t sum[2] = {0, 0};
    bool ledgers = false;
    for (uint32_t i = 0; i < e->devices; i++) {
        sum[e->device[i].pool] += e->device[i].live;
        ledgers = ledgers || !e->device[i].pool;
    }
    return sum[!ledgers];
}

static void keep_peak(folded *f) {
    if (!f->rising) return;
    for (uint32_t i = 0; i < f->room; i++) f->holder[i].peak_bytes = f->holder[i].bytes;
    f->rising = false;
}

static void on_open(mnem__export *e, const char *path) {
    folded *f = e->own;
    e->status = mnem__export_open(&f->file, path);
}

static void on_begin(mnem__export *e, uint32_t device, const mnem__block *b) {
    folded *f = e->own;
    (void)device;
    if (e->status == MNEM_OK && 2 * (f->used + 1) > f->room) e->status = grow(f);
    if (e->status != MNEM_OK) return;
    holder *h = find(f->holder, f->room, b->account, b->site);
    f->used += !h->known;
    h->account = b->account;
    h->site = b->site;
    h->known = true;
    h->bytes += b->bytes;
    if (total(e) <= f->peak) return;
    f->peak = total(e);
    f->rising = true;
}

static void on_end(mnem__export *e, uint32_t device, const mnem__block *b, uint64_t ns) {
    folded *f = e->own;
    (void)ns;
    if (e->status != MNEM_OK) return;
    if (total(e) < f->peak && (!e->device[device].pool || e->devices == 1)) keep_peak(f);
    find(f->holder, f->room, b->account, b->site)->bytes -= b->bytes;
}

static void put_line(mnem__export *e, const holder *h) {
    folded *f = e->own;
    mnem__export_label label;
    const mnem_trace_account *a = mnem__export_account(e, h->account);
    mnem__export_label_of(e, &(mnem__block){.account = h->account, .site = h->site}, ";", &label);
    if (a && a->pool) mnem__export_text(&f->file, "pool %" PRIu32 ";", a->owner);
    mnem__export_text(&f->file, "%s;%s%s%s %" PRIu64 "\n", label.kind, label.tag,
                      label.site[0] ? ";" : "", label.site, h->peak_bytes);
}

static mnem_status on_close(mnem__export *e, mnem_status status) {
    folded *f = e->own;
    keep_peak(f);
    for (uint32_t i = 0; i < f->room; i++)
        if (f->holder[i].peak_bytes) put_line(e, &f->holder[i]);
    mnem__free(f->holder);
    return mnem__export_close(&f->file, status);
}

static const mnem__export_format format = {
    .bytes = sizeof(folded), .open = on_open, .begin = on_begin, .end = on_end, .close = on_close};

mnem_status mnem__trace_write_folded(mnem_trace_reader *reader, const char *path) {
    return mnem__export_write(&format, reader, path);
}
