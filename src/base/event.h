/* event.h: the one place where what happens to bytes is told: allocators emit, a trace listens.
 *
 * Events flow down: base owns the sink so that the emitting layers don't know who listens. With no
 * listener an event costs one load. */
#ifndef MNEM_SRC_BASE_EVENT_H
#define MNEM_SRC_BASE_EVENT_H

#include <stdint.h>

typedef enum mnem__event_what {
    MNEM__EVENT_CHARGE,
    MNEM__EVENT_RELEASE,
    MNEM__EVENT_REFUSE,
} mnem__event_what;

typedef struct mnem__event {
    mnem__event_what what;
    int kind;        /* of the account: mnem_kind */
    const char *tag; /* of the account; to be copied */
    uint64_t bytes;
    uint64_t account_live; /* of the account, after */
} mnem__event;

typedef void mnem__event_listener(void *context, const mnem__event *event);

/* One listener for the process; NULL removes it. It may be called from any thread, with the
 * emitter's lock held: it must not charge, allocate or wait. The caller makes sure that nothing is
 * emitted while context goes away. */
void mnem__event_listen(mnem__event_listener *listener, void *context);
void mnem__event_emit(const mnem__event *event);

#endif
