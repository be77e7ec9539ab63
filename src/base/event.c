/* event.c: the event sink: one listener behind an atomic pointer. */
#include "base/event.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic(mnem__event_listener *) listener_now;
static void *_Atomic context_now;

void mnem__event_listen(mnem__event_listener *listener, void *context) {
    atomic_store(&listener_now, NULL);
    atomic_store(&context_now, context);
    atomic_store(&listener_now, listener);
}

void mnem__event_emit(const mnem__event *event) {
    mnem__event_listener *listener = atomic_load_explicit(&listener_now, memory_order_acquire);
    if (listener) listener(atomic_load(&context_now), event);
}
