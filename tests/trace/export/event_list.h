/* event_list.h: a reader of events that a test makes up, as if they came from a recording. */
#ifndef MNEM_TESTS_TRACE_EXPORT_EVENT_LIST_H
#define MNEM_TESTS_TRACE_EXPORT_EVENT_LIST_H

#include "trace/trace_source.h"

enum { LIST_MOST = 40000 };

typedef struct event_list {
    mnem_trace_reader *reader;
    uint32_t count, at;
    mnem_trace_event event[LIST_MOST];
} event_list;

/* An empty one; its reader's close is its end. */
void list_begin(event_list *list);
uint32_t list_name(event_list *list, const char *name);
int32_t list_account(event_list *list, mnem_kind kind, const char *tag, uint32_t owner, bool pool);
/* Behind the others, a microsecond later. */
void list_add(event_list *list, mnem_trace_event event);

/* What a ledger with these accounts would have done: 10 accounts, some pools' blocks, spans,
 * refusals and VmRSS, from random_bits(). peak, end: of the ledger's sum; of the pool's. */
typedef struct list_sums {
    uint64_t peak, end, pool_peak, pool_end;
    uint64_t account_at_peak[10];
} list_sums;
list_sums list_random(event_list *list, uint32_t events);

#endif
