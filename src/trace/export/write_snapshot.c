/* write_snapshot.c: a trace as PyTorch's memory snapshot, which PyTorch's viewer, MindStudio
 * Insight and `mnem replay` open.
 *
 *     {"device_traces": [[entry, ...] per device], "segments": [segment, ...]}
 *
 * Each block is a segment of its own: a ledger takes from the system what it is asked for, and
 * gives it back, so what is reserved there is what is live. One device is written in each pass over
 * the events, since a device's list can't be interrupted; live blocks at the end are the segments.
 *
 * The viewer colours by category, and breaks where the category "unknown" doesn't occur: each list
 * begins with an entry that has it. Stacks are lists that are written once and referred to. */
#include <string.h>

#include "base/heap.h"
#include "trace/export/export.h"
#include "trace/export/pickle_out.h"

/* X(NAME, text): what a snapshot is made of, each written once. */
#define WORD_LIST(X)                                                                               \
    X(DEVICE_TRACES, "device_traces")                                                              \
    X(SEGMENTS, "segments")                                                                        \
    X(ACTION, "action")                                                                            \
    X(ADDR, "addr")                                                                                \
    X(SIZE, "size")                                                                                \
    X(STREAM, "stream")                                                                            \
    X(TIME_US, "time_us")                                                                          \
    X(FRAMES, "frames")                                                                            \
    X(CATEGORY, "category")                                                                        \
    X(DEVICE_FREE, "device_free")                                                                  \
    X(FILENAME, "filename")                                                                        \
    X(LINE, "line")                                                                                \
    X(NAME, "name")                                                                                \
    X(UNKNOWN, "unknown")                                                                          \
    X(SNAPSHOT, "snapshot")                                                                        \
    X(ALLOC, "alloc")                                                                              \
    X(FREE_REQUESTED, "free_requested")                                                            \
    X(FREE_COMPLETED, "free_completed")                                                            \
    X(SEGMENT_ALLOC, "segment_alloc")                                                              \
    X(SEGMENT_FREE, "segment_free")                                                                \
    X(OOM, "oom")                                                                                  \
    X(DEVICE, "device")                                                                            \
    X(ADDRESS, "address")                                                                          \
    X(TOTAL_SIZE, "total_size")                                                                    \
    X(ALLOCATED_SIZE, "allocated_size")                                                            \
    X(ACTIVE_SIZE, "active_size")                                                                  \
    X(REQUESTED_SIZE, "requested_size")                                                            \
    X(SEGMENT_TYPE, "segment_type")                                                                \
    X(LARGE, "large")                                                                              \
    X(IS_EXPANDABLE, "is_expandable")                                                              \
    X(BLOCKS, "blocks")                                                                            \
    X(STATE, "state")                                                                              \
    X(ACTIVE_ALLOCATED, "active_allocated")                                                        \
    X(MNEM, "mnem")

typedef enum word {
#define WORD_ENUM(name, text) WORD_##name,
    WORD_LIST(WORD_ENUM)
#undef WORD_ENUM
        WORDS
} word;

/* Kinds come behind the words. */
_Static_assert((int)WORDS + (int)MNEM_KIND_COUNT <= (int)MNEM__PICKLED_WORDS, "words of a pickle");

/* The stack of an account and a site, written before. */
typedef struct stack {
    uint32_t account, site, number; /* number: + 1; 0: the slot is empty */
} stack;

typedef struct snapshot {
    mnem__export_file file;
    mnem__pickle_out pickle;
    mnem__pickle_items traces, entries, segments;
    uint32_t device; /* that this pass writes */
    stack *stacks;   /* [room], a power of two; at most half of them are used */
    uint32_t room, used;
} snapshot;

static snapshot *of(const mnem__export *e) {
    return e->own;
}

static void put_word(snapshot *s, word w) {
    static const char *const texts[] = {WORD_LIST(MNEM__TEXT_ROW)};
    mnem__pickled_word(&s->pickle, w, texts[w]);
}

static void put_number(snapshot *s, word key, uint64_t n) {
    put_word(s, key);
    mnem__pickled_integer(&s->pickle, n);
}

/* Viewers hold addresses in doubles. */
static void put_address(snapshot *s, word key, uint64_t address) {
    put_number(s, key, address & (((uint64_t)1 << 53) - 1));
}

static void put_words(snapshot *s, word key, word value) {
    put_word(s, key);
    put_word(s, value);
}

/* ---- stacks ---- */

static stack *find(stack *stacks, uint32_t room, uint32_t account, uint32_t site) {
    const uint64_t mixed = ((uint64_t)account << 32 | site) * 0x9e3779b97f4a7c15ULL;
    uint32_t at = (uint32_t)(mixed >> 32) & (room - 1);
    while (stacks[at].number && (stacks[at].account != account || stacks[at].site != site))
        at = (at + 1) & (room - 1);
    return &stacks[at];
}

static mnem_status grow(snapshot *s) {
    const uint32_t room = s->room ? 2 * s->room : 64;
    stack *more = mnem__calloc("trace", room, sizeof *more);
    if (!more) return mnem__heap_status();
    for (uint32_t i = 0; i < s->room; i++)
        if (s->stacks[i].number)
            *find(more, room, s->stacks[i].account, s->stacks[i].site) = s->stacks[i];
    mnem__free(s->stacks);
    s->stacks = more;
    s->room = room;
    return MNEM_OK;
}

static void put_frame(snapshot *s, const char *file, const char *name) {
    mnem__pickled_dict_begin(&s->pickle);
    put_word(s, WORD_FILENAME);
    mnem__pickled_text(&s->pickle, file);
    put_number(s, WORD_LINE, 0);
    put_word(s, WORD_NAME);
    mnem__pickled_text(&s->pickle, name);
    mnem__pickled_dict_end(&s->pickle);
}

/* The innermost first: the account, as "kind:0:tag", then where. */
static void put_stack(mnem__export *e, const mnem__block *b) {
    snapshot *s = of(e);
    mnem__pickle_items items;
    mnem__export_label label;
    mnem__export_label_of(e, b, "", &label);
    mnem__pickled_list_begin(&s->pickle, &items);
    mnem__pickled_item(&s->pickle, &items);
    put_frame(s, label.kind, label.tag);
    if (label.site[0]) {
        mnem__pickled_item(&s->pickle, &items);
        put_frame(s, "mnem", label.site);
    }
    mnem__pickled_list_end(&s->pickle, &items);
}

static void put_frames(mnem__export *e, const mnem__block *b) {
    snapshot *s = of(e);
    put_word(s, WORD_FRAMES);
    if (2 * (s->used + 1) > s->room) {
        const mnem_status status = grow(s);
        if (status != MNEM_OK) {
            e->status = status;
            return;
        }
    }
    stack *at = find(s->stacks, s->room, b->account, b->site);
    if (at->number) {
        mnem__pickled_recall(&s->pickle, at->number - 1);
        return;
    }
    put_stack(e, b);
    *at = (stack){b->account, b->site, mnem__pickled_remember(&s->pickle) + 1};
    s->used++;
}

/* ---- entries ---- */

static void put_entry(mnem__export *e, word action, const mnem__block *b, uint64_t ns) {
    snapshot *s = of(e);
    const mnem_trace_account *a = mnem__export_account(e, b->account);
    mnem__pickled_item(&s->pickle, &s->entries);
    mnem__pickled_dict_begin(&s->pickle);
    put_words(s, WORD_ACTION, action);
    put_address(s, WORD_ADDR, b->address);
    put_number(s, WORD_SIZE, b->bytes);
    put_number(s, WORD_STREAM, b->stream);
    put_number(s, WORD_TIME_US, ns / 1000);
    put_frames(e, b);
    if (action == WORD_ALLOC && a) {
        put_word(s, WORD_CATEGORY);
        mnem__pickled_word(&s->pickle, WORDS + (uint32_t)a->kind, mnem_kind_text(a->kind));
    }
    mnem__pickled_dict_end(&s->pickle);
}

static void on_begin(mnem__export *e, uint32_t device, const mnem__block *b) {
    if (device != of(e)->device) return;
    put_entry(e, WORD_SEGMENT_ALLOC, b, b->born_ns);
    put_entry(e, WORD_ALLOC, b, b->born_ns);
}

static void on_end(mnem__export *e, uint32_t device, const mnem__block *b, uint64_t ns) {
    if (device != of(e)->device) return;
    put_entry(e, WORD_FREE_REQUESTED, b, ns);
    put_entry(e, WORD_FREE_COMPLETED, b, ns);
    put_entry(e, WORD_SEGMENT_FREE, b, ns);
}

static void on_refused(mnem__export *e, uint32_t device, const mnem_trace_event *event) {
    snapshot *s = of(e);
    const uint64_t live = e->device[device].live, budget = e->budget_bytes;
    const mnem__block asked = {.account = (uint32_t)event->account};
    if (device != s->device) return;
    mnem__pickled_item(&s->pickle, &s->entries);
    mnem__pickled_dict_begin(&s->pickle);
    put_words(s, WORD_ACTION, WORD_OOM);
    put_number(s, WORD_ADDR, 0);
    put_number(s, WORD_SIZE, event->bytes);
    put_number(s, WORD_STREAM, 0);
    put_number(s, WORD_TIME_US, event->ns / 1000);
    put_number(s, WORD_DEVICE_FREE, budget > live ? budget - live : 0);
    put_frames(e, &asked);
    mnem__pickled_dict_end(&s->pickle);
}

/* ---- the lists ---- */

static void begin_device(snapshot *s) {
    mnem__pickled_item(&s->pickle, &s->traces);
    mnem__pickled_list_begin(&s->pickle, &s->entries);
    mnem__pickled_item(&s->pickle, &s->entries);
    mnem__pickled_dict_begin(&s->pickle);
    put_words(s, WORD_ACTION, WORD_SNAPSHOT);
    put_number(s, WORD_ADDR, 0);
    put_number(s, WORD_SIZE, 0);
    put_number(s, WORD_STREAM, 0);
    put_number(s, WORD_TIME_US, 0);
    put_words(s, WORD_CATEGORY, WORD_UNKNOWN);
    mnem__pickled_dict_end(&s->pickle);
}

static void on_open(mnem__export *e, const char *path) {
    snapshot *s = of(e);
    e->status = mnem__export_open(&s->file, path);
    mnem__pickled_begin(&s->pickle, &s->file);
    mnem__pickled_dict_begin(&s->pickle);
    put_word(s, WORD_DEVICE_TRACES);
    mnem__pickled_list_begin(&s->pickle, &s->traces);
    begin_device(s);
}

static bool on_again(mnem__export *e) {
    snapshot *s = of(e);
    if (s->device + 1 >= e->devices) return false;
    mnem__pickled_list_end(&s->pickle, &s->entries);
    s->device++;
    begin_device(s);
    return true;
}

static void put_segment(void *context, uint32_t device, const mnem__block *b) {
    mnem__export *e = context;
    snapshot *s = of(e);
    mnem__pickle_items blocks;
    mnem__pickled_item(&s->pickle, &s->segments);
    mnem__pickled_dict_begin(&s->pickle);
    put_number(s, WORD_DEVICE, device);
    put_address(s, WORD_ADDRESS, b->address);
    put_number(s, WORD_TOTAL_SIZE, b->bytes);
    put_number(s, WORD_ALLOCATED_SIZE, b->bytes);
    put_number(s, WORD_ACTIVE_SIZE, b->bytes);
    put_number(s, WORD_REQUESTED_SIZE, b->bytes);
    put_number(s, WORD_STREAM, b->stream);
    put_words(s, WORD_SEGMENT_TYPE, WORD_LARGE);
    put_word(s, WORD_IS_EXPANDABLE);
    mnem__pickled_false(&s->pickle);
    put_frames(e, b);
    put_word(s, WORD_BLOCKS);
    mnem__pickled_list_begin(&s->pickle, &blocks);
    mnem__pickled_item(&s->pickle, &blocks);
    mnem__pickled_dict_begin(&s->pickle);
    put_address(s, WORD_ADDRESS, b->address);
    put_number(s, WORD_SIZE, b->bytes);
    put_number(s, WORD_REQUESTED_SIZE, b->bytes);
    put_words(s, WORD_STATE, WORD_ACTIVE_ALLOCATED);
    put_frames(e, b);
    mnem__pickled_dict_end(&s->pickle);
    mnem__pickled_list_end(&s->pickle, &blocks);
    mnem__pickled_dict_end(&s->pickle);
}

static mnem_status on_close(mnem__export *e, mnem_status status) {
    snapshot *s = of(e);
    mnem__pickled_list_end(&s->pickle, &s->entries);
    mnem__pickled_list_end(&s->pickle, &s->traces);
    put_word(s, WORD_SEGMENTS);
    mnem__pickled_list_begin(&s->pickle, &s->segments);
    mnem__export_live(e, e, put_segment);
    mnem__pickled_list_end(&s->pickle, &s->segments);
    mnem__pickled_dict_end(&s->pickle);
    mnem__pickled_end(&s->pickle);
    if (status == MNEM_OK) status = e->status;
    mnem__free(s->stacks);
    return mnem__export_close(&s->file, status);
}

static const mnem__export_format format = {.bytes = sizeof(snapshot),
                                           .open = on_open,
                                           .begin = on_begin,
                                           .end = on_end,
                                           .refused = on_refused,
                                           .again = on_again,
                                           .close = on_close};

mnem_status mnem__trace_write_snapshot(mnem_trace_reader *reader, const char *path) {
    return mnem__export_write(&format, reader, path);
}
