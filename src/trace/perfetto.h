/* perfetto.h: the layout of mnem's traces in Perfetto's TrackEvent format, for their writer and
 * reader.
 *
 * Source: perfetto/protos (trace_packet, track_event, track_descriptor, interned_data). A file is
 * packets, one after the other, of one sequence:
 *
 *     1. flags 3, names of categories and of annotations, an instant "mnem" whose annotations are
 *        what is said of the whole run
 *     2. names of events, some hundred a packet
 *     3. descriptors of tracks: process, threads, ledgers > kinds > accounts (counters of bytes),
 *        pools > kinds > accounts (blocks), counters; of a request before its first event
 *     4. an event a packet, in the order of their times
 *
 * A track's number says what it is: sort << 48 | number. */
#ifndef MNEM_SRC_TRACE_PERFETTO_H
#define MNEM_SRC_TRACE_PERFETTO_H

/* Fields, by message. */
enum {
    PB_TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_FLAGS = 13,
    PACKET_TRACK = 60,
    EVENT_CATEGORY_IID = 3,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_NAME = 23,
    EVENT_COUNTER = 30,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3,
    ANNOTATION_STRING = 6,
    ANNOTATION_NAME = 10,
    INTERNED_CATEGORY = 1,
    INTERNED_NAME = 2,
    INTERNED_ANNOTATION = 3,
    INTERNED_IID = 1,
    INTERNED_TEXT = 2,
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    COUNTER_UNIT = 3,
    COUNTER_UNIT_BYTES = 3,
};

/* Types of track events. */
enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };

/* What a track is; the number behind it. */
typedef enum mnem__track_sort {
    TRACK_SORT_PROCESS = 1, /* the rank; 0 */
    TRACK_SORT_THREAD,      /* the thread's */
    TRACK_SORT_OWNER,       /* rank << 33 | owner << 1 | pool: a ledger, a pool */
    TRACK_SORT_KIND,        /* rank << 37 | owner << 5 | pool << 4 | kind */
    TRACK_SORT_ACCOUNT,     /* the account's */
    TRACK_SORT_COUNTER,     /* rank << 32 | its name's */
    TRACK_SORT_REQUESTS,    /* the rank; 0 */
    TRACK_SORT_REQUEST,     /* its own */
} mnem__track_sort;

/* Annotations, by their iid. */
typedef enum mnem__note_iid {
    NOTE_BYTES = 1,
    NOTE_ADDRESS,
    NOTE_STREAM,
    NOTE_CLASS,
    NOTE_REQUEST,
    NOTE_MULTIPLY_ADDS,
    NOTE_COUNT
} mnem__note_iid;

/* Categories, by their iid: of spans and marks their sort + 1, then these. */
typedef enum mnem__category {
    CATEGORY_OTHERS = 16,
    CATEGORY_REFUSAL = CATEGORY_OTHERS,
    CATEGORY_ALLOC,
    CATEGORY_FREE,
    CATEGORY_DROPPED,
    CATEGORY_REQUEST, /* + the phase */
    CATEGORY_RUN = CATEGORY_REQUEST + 8,
} mnem__category;

#endif
