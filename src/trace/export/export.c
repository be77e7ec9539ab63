/* export.c: from a trace's events to blocks that begin and end, on devices.
 *
 * A ledger's bytes belong to the span that its thread was in, a pool's to the site that the event
 * says. A device's number is the order in which its first account was met. */
#include "trace/export/export.h"

#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "trace/export/export_file.h"

enum { DEPTH = 32 };

typedef struct mnem__span_stack {
    uint32_t depth; /* may be more than what is kept */
    uint32_t name[DEPTH];
} span_stack;

/* ---- devices ---- */

static mnem_status room_for_account(mnem__export *e, uint32_t account) {
    if (account < e->accounts) return MNEM_OK;
    const uint32_t n = account + 32;
    uint32_t *more = mnem__realloc("trace", e->device_of, n * sizeof *more);
    if (!more) return mnem__heap_status();
    memset(more + e->accounts, 0, (n - e->accounts) * sizeof *more);
    e->device_of = more;
    e->accounts = n;
    return MNEM_OK;
}

/* The device of an account; of those beyond the last, the last. */
static mnem_status device_of(mnem__export *e, int32_t account, uint32_t *device) {
    const mnem_trace_account *a = account < 0 ? NULL : mnem__export_account(e, (uint32_t)account);
    if (!a)
        return mnem__fail(MNEM_BAD_FILE,
                          "trace: an event belongs to account %d, which was not declared before "
                          "it; declare the account first",
                          (int)account);
    MNEM__TRY(room_for_account(e, (uint32_t)account));
    uint32_t *known = &e->device_of[account];
    for (uint32_t i = 0; i < e->devices && !*known; i++)
        if (e->device[i].owner == a->owner && e->device[i].pool == a->pool) *known = i + 1;
    if (!*known) {
        if (e->devices < MNEM__EXPORT_DEVICES)
            e->device[e->devices++] = (mnem__export_device){.owner = a->owner, .pool = a->pool};
        *known = e->devices;
    }
    *device = *known - 1;
    return MNEM_OK;
}

static void on_begin(void *context, mnem__block *b) {
    mnem__export *e = context;
    const uint32_t device = e->device_of[b->account] - 1;
    e->device[device].live += b->bytes;
    b->total_born = e->device[device].live;
    e->format->begin(e, device, b);
}

static void on_end(void *context, const mnem__block *b, uint64_t ns) {
    mnem__export *e = context;
    const uint32_t device = e->device_of[b->account] - 1;
    e->device[device].live -= b->bytes;
    e->format->end(e, device, b, ns);
}

/* ---- spans ---- */

static mnem_status room_for_thread(mnem__export *e, uint32_t thread) {
    if (thread < e->threads) return MNEM_OK;
    const uint32_t n = thread + 4;
    span_stack *more = mnem__realloc("trace", e->stack, n * sizeof *more);
    if (!more) return mnem__heap_status();
    memset(more + e->threads, 0, (n - e->threads) * sizeof *more);
    e->stack = more;
    e->threads = n;
    return MNEM_OK;
}

static mnem_status span(mnem__export *e, const mnem_trace_event *event) {
    MNEM__TRY(room_for_thread(e, event->thread));
    span_stack *s = &e->stack[event->thread];
    if (event->what == MNEM_TRACE_BEGIN) {
        if (s->depth < DEPTH) s->name[s->depth] = event->name;
        s->depth++;
    } else if (s->depth) {
        s->depth--; /* the end of a span that began before the recording: none of ours */
    }
    return MNEM_OK;
}

/* The name of the innermost span of a thread, and 1; 0: none. */
static uint32_t site_of(const mnem__export *e, uint32_t thread) {
    if (thread >= e->threads || !e->stack[thread].depth) return MNEM__EXPORT_NO_SITE;
    const uint32_t depth = e->stack[thread].depth;
    return e->stack[thread].name[depth < DEPTH ? depth - 1 : DEPTH - 1] + 1;
}

/* ---- events ---- */

static mnem_status pool_event(mnem__export *e, const mnem_trace_event *event) {
    uint32_t device;
    MNEM__TRY(device_of(e, event->account, &device));
    const uint32_t owner = e->device[device].owner;
    if (event->what == MNEM_TRACE_FREE) {
        mnem__pool_blocks_end(&e->pools, owner, event->id, event->ns);
        return MNEM_OK;
    }
    if (!event->bytes) return MNEM_OK;
    return mnem__pool_blocks_begin(&e->pools, owner,
                                   (mnem__block){.address = event->id,
                                                 .bytes = event->bytes,
                                                 .born_ns = event->ns,
                                                 .account = (uint32_t)event->account,
                                                 .site = event->name + 1,
                                                 .stream = event->stream});
}

static mnem_status ledger_event(mnem__export *e, const mnem_trace_event *event) {
    uint32_t device;
    MNEM__TRY(device_of(e, event->account, &device));
    if (event->what == MNEM_TRACE_LIVE)
        return mnem__account_blocks_set(&e->ledgers, event->ns, (uint32_t)event->account,
                                        event->bytes, site_of(e, event->thread));
    if (e->format->refused) e->format->refused(e, device, event);
    return MNEM_OK;
}

static mnem_status tell(mnem__export *e, const mnem_trace_event *event) {
    switch (event->what) {
    case MNEM_TRACE_LIVE:
    case MNEM_TRACE_REFUSED: return ledger_event(e, event);
    case MNEM_TRACE_ALLOC:
    case MNEM_TRACE_FREE: return pool_event(e, event);
    case MNEM_TRACE_BEGIN:
    case MNEM_TRACE_END: return span(e, event);
    case MNEM_TRACE_COUNTER:
        if (e->format->resident &&
            strcmp(mnem__trace_name_at(&e->reader->tables, event->name), "VmRSS") == 0)
            e->format->resident(e, event->ns, event->bytes);
        return MNEM_OK;
    default: return MNEM_OK;
    }
}

/* ---- a pass, and all ---- */

static mnem_status tell_all(mnem__export *e) {
    mnem_trace_event event;
    int more = 0;
    while (e->status == MNEM_OK && (more = e->reader->source->next(e->reader, &event)) == 1) {
        const mnem_status status = tell(e, &event);
        if (e->status == MNEM_OK) e->status = status;
    }
    if (e->status == MNEM_OK && more < 0) e->status = MNEM_BAD_FILE; /* the reader has said why */
    return e->status;
}

static void forget(mnem__export *e) {
    mnem__account_blocks_fini(&e->ledgers);
    mnem__pool_blocks_fini(&e->pools);
    mnem__free(e->stack);
    e->stack = NULL;
    e->threads = 0;
    for (uint32_t i = 0; i < e->devices; i++) e->device[i].live = 0;
}

/* Another pass, if the format wants one. */
static bool again(mnem__export *e) {
    if (e->status != MNEM_OK || !e->format->again || !e->format->again(e)) return false;
    forget(e);
    e->status = e->reader->source->rewind(e->reader);
    return e->status == MNEM_OK;
}

static mnem_status write_all(mnem__export *e, const char *path) {
    e->format->open(e, path);
    do tell_all(e);
    while (again(e));
    const mnem_status status = e->format->close(e, e->status);
    forget(e);
    mnem__free(e->device_of);
    return status;
}

mnem_status mnem__export_write(const mnem__export_format *format, mnem_trace_reader *reader,
                               const char *path) {
    mnem__export *e = mnem__calloc("trace", 1, sizeof *e + format->bytes);
    if (!e) return mnem__heap_status();
    e->format = format;
    e->reader = reader;
    e->budget_bytes = reader->info.budget_bytes;
    e->ledgers.on = e->pools.on = (mnem__block_listener){on_begin, on_end, e};
    e->own = e + 1;
    const mnem_status status = write_all(e, path);
    mnem__free(e);
    return status;
}

/* ---- for formats ---- */

void mnem__export_label_of(const mnem__export *e, const mnem__block *b, const char * not,
                           mnem__export_label *label) {
    const mnem_trace_account *a = mnem__export_account(e, b->account);
    snprintf(label->kind, sizeof label->kind, "%s", a ? mnem_kind_text(a->kind) : "");
    mnem__export_name(a ? a->tag : "", not, label->tag);
    const char *site = b->site ? mnem__trace_name_at(&e->reader->tables, b->site - 1) : "";
    mnem__export_name(site, not, label->site);
}

void mnem__export_live(const mnem__export *e, void *context,
                       void (*tell_live)(void *context, uint32_t device, const mnem__block *b)) {
    for (uint32_t i = 0; i < e->ledgers.count; i++)
        if (e->ledgers.block[i].live) {
            const mnem__block *b = &e->ledgers.block[i].block;
            tell_live(context, e->device_of[b->account] - 1, b);
        }
    for (uint32_t i = 0; i < e->pools.room; i++)
        if (e->pools.slot[i].block.bytes) {
            const mnem__block *b = &e->pools.slot[i].block;
            tell_live(context, e->device_of[b->account] - 1, b);
        }
}
