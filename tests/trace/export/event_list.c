/* event_list.c: made-up events. */
#include "trace/export/event_list.h"

#include <string.h>

#include "kit/kit.h"
#include "kit/kit_random.h"

enum { ACCOUNTS = 10, PLACES = 40 };

static int next(mnem_trace_reader *reader, mnem_trace_event *event) {
    event_list *list = reader->state;
    if (list->at == list->count) return 0;
    *event = list->event[list->at++];
    return 1;
}

static mnem_status rewind_list(mnem_trace_reader *reader) {
    ((event_list *)reader->state)->at = 0;
    return MNEM_OK;
}

static void close_list(mnem_trace_reader *reader) {
    (void)reader;
}

void list_begin(event_list *list) {
    static const mnem__trace_source source = {next, rewind_list, close_list};
    list->count = list->at = 0;
    must(mnem__trace_reader_create(&source, 0, &list->reader));
    list->reader->state = list;
    list->reader->info.budget_bytes = GIB;
}

uint32_t list_name(event_list *list, const char *name) {
    uint32_t number;
    must(mnem__trace_name_find(&list->reader->tables, name, strlen(name), &number));
    return number;
}

int32_t list_account(event_list *list, mnem_kind kind, const char *tag, uint32_t owner, bool pool) {
    const char *kept = mnem__trace_name_at(&list->reader->tables, list_name(list, tag));
    uint32_t number;
    must(mnem__trace_account_find(
        &list->reader->tables,
        &(mnem_trace_account){.kind = kind, .tag = kept, .owner = owner, .pool = pool}, &number));
    return (int32_t)number;
}

void list_add(event_list *list, mnem_trace_event event) {
    assert_true(list->count < LIST_MOST);
    event.ns = 1000 * (uint64_t)(list->count + 1);
    list->event[list->count++] = event;
}

/* ---- at random ---- */

typedef struct ledger {
    int32_t account[ACCOUNTS], pool;
    uint64_t live[ACCOUNTS], total;
    uint64_t place[PLACES], pool_live;
    uint32_t site[3], resident;
} ledger;

static void change(event_list *list, ledger *l, list_sums *sums) {
    const uint64_t i = random_below(ACCOUNTS);
    uint64_t bytes = 1 + random_below(random_below(4) ? 5000 : 50 * MIB);
    if (l->live[i] && random_below(2)) {
        if (bytes > l->live[i] || random_below(20) == 0) bytes = l->live[i];
        l->live[i] -= bytes;
        l->total -= bytes;
    } else {
        l->live[i] += bytes;
        l->total += bytes;
    }
    if (l->total > sums->peak) {
        sums->peak = l->total;
        memcpy(sums->account_at_peak, l->live, sizeof l->live);
    }
    list_add(list, (mnem_trace_event){.what = MNEM_TRACE_LIVE,
                                      .account = l->account[i],
                                      .thread = (uint32_t)random_below(3),
                                      .bytes = l->live[i]});
}

static void place(event_list *list, ledger *l, list_sums *sums) {
    const uint64_t i = random_below(PLACES), address = UINT64_C(0x7f0000000000) + i * 65536;
    const bool begins = !l->place[i];
    const uint64_t bytes = begins ? 1 + random_below(65536) : l->place[i];
    l->place[i] = begins ? bytes : 0;
    l->pool_live += begins ? bytes : 0 - bytes;
    if (l->pool_live > sums->pool_peak) sums->pool_peak = l->pool_live;
    list_add(list, (mnem_trace_event){.what = begins ? MNEM_TRACE_ALLOC : MNEM_TRACE_FREE,
                                      .account = l->pool,
                                      .name = l->site[0],
                                      .id = address,
                                      .bytes = bytes,
                                      .stream = (uint32_t)(i % 2)});
}

static void other(event_list *list, ledger *l) {
    const uint32_t thread = (uint32_t)random_below(3), site = l->site[random_below(3)];
    switch (random_below(4)) {
    case 0:
        list_add(list,
                 (mnem_trace_event){.what = MNEM_TRACE_BEGIN, .name = site, .thread = thread});
        break;
    case 1: list_add(list, (mnem_trace_event){.what = MNEM_TRACE_END, .thread = thread}); break;
    case 2:
        list_add(list, (mnem_trace_event){.what = MNEM_TRACE_COUNTER,
                                          .name = l->resident,
                                          .bytes = l->total + 4096});
        break;
    default:
        list_add(list, (mnem_trace_event){
                           .what = MNEM_TRACE_REFUSED, .account = l->account[0], .bytes = GIB});
    }
}

list_sums list_random(event_list *list, uint32_t events) {
    static const char *const tags[ACCOUNTS] = {"resident",    "pages",    "a;b",  "c,d", "e\"f",
                                               "cut\xe2\x82", "\xc3\xa9", "g\nh", "i",   "j"};
    list_sums sums = {0};
    ledger l = {0};
    for (int i = 0; i < ACCOUNTS; i++)
        l.account[i] = list_account(list, (mnem_kind)(i % MNEM_KIND_COUNT), tags[i], 1, false);
    l.pool = list_account(list, MNEM_KIND_ACTIVATION, "cache", 1, true);
    l.site[0] = list_name(list, "attention.c:41");
    l.site[1] = list_name(list, "step");
    l.site[2] = list_name(list, "matmul blk.0;q");
    l.resident = list_name(list, "VmRSS");
    for (uint32_t i = 0; i < events; i++) {
        const uint64_t which = random_below(8);
        if (which < 5)
            change(list, &l, &sums);
        else if (which < 7)
            place(list, &l, &sums);
        else
            other(list, &l);
    }
    sums.end = l.total;
    sums.pool_end = l.pool_live;
    return sums;
}
