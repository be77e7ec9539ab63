/* ledger_sums.c: samples of a ledger's own sums in a recording: a counter for each kind that was
 * ever charged, and, last, one for the total. Cost: ten events. */
#include <stdio.h>

#include "alloc/ledger/ledger_events.h"
#include "alloc/ledger/ledger_private.h"

/* Records a counter "ledger N KIND", or "ledger N total". */
static void tell_sum(mnem_ledger *ledger, uint32_t number, const char *of, uint64_t bytes) {
    char text[24];
    mnem__event_sink *sink = mnem__event_enter();
    if (!sink) return;
    number += MNEM__ACCOUNTS_MAX + MNEM_KIND_COUNT; /* lower numbers belong to accounts */
    uint32_t name = mnem__event_name_known(sink, ledger->owner, number);
    if (!name) {
        snprintf(text, sizeof text, "ledger %u", ledger->owner);
        const mnem__event_key key = {.sort = MNEM__NAME_PLAIN, .text = text, .more = of};
        name = mnem__event_name(sink, ledger->owner, number, &key);
    }
    mnem__event_put_ordered(sink, &ledger->tellers, MNEM__EVENT_COUNTER, name, 0, bytes);
}

void mnem__ledger_tell_sums(mnem_ledger *ledger) {
    for (uint32_t kind = 0; kind < MNEM_KIND_COUNT; kind++)
        if (ledger->kinds & 1u << kind)
            tell_sum(ledger, kind, mnem_kind_text((mnem_kind)kind), ledger->kind_live[kind]);
    tell_sum(ledger, MNEM_KIND_COUNT, "total", ledger->live);
}

void mnem__ledger_tell_sample(void *context, bool last) {
    mnem_ledger *ledger = context;
    pthread_mutex_lock(&ledger->lock);
    mnem__ledger_tell_sums(ledger);
    if (last) ledger->sampled = false;
    pthread_mutex_unlock(&ledger->lock);
}

void mnem__ledger_tell_end(const mnem_ledger *ledger) {
    mnem__event_sampler_last(ledger);
}
