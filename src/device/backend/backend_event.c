/* backend_event.c: a record of an event is reached, or awaited. For backends, below device.c. */
#include "device/backend/backend.h"

bool mnem__event_is_reached(mnem_event *event, uint32_t record) {
    return (int32_t)(atomic_load(&event->reached.value) - record) >= 0;
}

/* The use ends last: afterwards the event may be destroyed. */
void mnem__event_reach(mnem_event *event, uint32_t record) {
    if (!mnem__event_is_reached(event, record)) mnem__turnstile_move(&event->reached, record);
    atomic_fetch_sub(&event->uses, 1);
}

void mnem__event_await(mnem_event *event, uint32_t record) {
    while (!mnem__event_is_reached(event, record)) {
        uint32_t now = atomic_load(&event->reached.value);
        if ((int32_t)(now - record) < 0) mnem__turnstile_wait(&event->reached, now, 100);
    }
    atomic_fetch_sub(&event->uses, 1);
}
