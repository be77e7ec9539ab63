/* template_memory.c: a template's bytes, steps and output, and how a rendering ends early.
 *
 * The idea: chunks that are filled from their start and freed all together. Texts lie unaligned
 * behind each other, so that a text at the end of a chunk grows where it lies: a template that adds
 * to its text a thousand times copies it once.
 * Invariant: bytes is the sum of all chunks and the output's room, at most options.bytes.
 * Cost: O(1) a call but for new chunks; at most half of a chunk is left unused. */
#include "text/values/template_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/heap.h"

static const char tag[] = "template";

enum { CHUNK_BYTES = 32 << 10, OUT_BYTES = 4 << 10 };

struct mnem__template_chunk {
    struct mnem__template_chunk *before;
    size_t room, used;
    _Alignas(16) char data[];
};

/* ---- ends ---- */

void mnem__template_fail(mnem_template *t, mnem_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->message, sizeof t->message, format, arguments);
    va_end(arguments);
    t->status = status;
    longjmp(*t->way_out, 1);
}

void mnem__template_raise(mnem_template *t, mnem__any message) {
    const size_t mark = t->out_bytes;
    mnem__template_put_str(t, message);
    memmove(t->out, t->out + mark, t->out_bytes - mark);
    t->out_bytes -= mark;
    t->raised = true;
    t->status = MNEM_INVALID;
    longjmp(*t->way_out, 1);
}

void mnem__template_step(mnem_template *t, uint64_t steps) {
    t->steps += steps;
    if (t->steps > t->options.steps)
        mnem__template_fail(t, MNEM_OVER_BUDGET,
                            "the template needs more than the limit of %llu steps; use fewer or "
                            "shorter messages, or another template",
                            (unsigned long long)t->options.steps);
}

void mnem__template_enter(mnem_template *t) {
    mnem__template_step(t, 1);
    if (++t->depth > MNEM__TEMPLATE_DEPTH_MAX)
        mnem__template_refuse(
            t, "the template or its values are nested more than %d levels deep, the limit",
            MNEM__TEMPLATE_DEPTH_MAX);
}

/* Before more bytes are taken. */
static void charge(mnem_template *t, size_t bytes) {
    if (bytes > t->options.bytes - t->bytes)
        mnem__template_fail(
            t, MNEM_OVER_BUDGET,
            "the template needs more than the limit of %llu bytes of memory: a loop of it may "
            "build too large a value; use another template, or fewer or shorter messages",
            (unsigned long long)t->options.bytes);
    t->bytes += bytes;
    if (t->bytes > t->bytes_peak) t->bytes_peak = t->bytes;
}

static _Noreturn void refused(mnem_template *t, size_t bytes) {
    t->bytes -= bytes;
    mnem__template_fail(t, mnem__heap_status(), "%s", mnem_last_error());
}

/* ---- arenas ---- */

static struct mnem__template_chunk *add_chunk(mnem_template *t, size_t bytes) {
    const size_t least = CHUNK_BYTES - sizeof(struct mnem__template_chunk);
    const size_t room = bytes > least / 2 ? bytes : least;
    const size_t all = sizeof(struct mnem__template_chunk) + room;
    charge(t, all);
    struct mnem__template_chunk *chunk = mnem__alloc(tag, all);
    if (!chunk) refused(t, all);
    *chunk = (struct mnem__template_chunk){.before = t->arena->last, .room = room};
    t->arena->last = chunk;
    return chunk;
}

static void *arena_take(mnem_template *t, size_t bytes, size_t alignment) {
    struct mnem__template_chunk *chunk = t->arena->last;
    size_t at = chunk ? (chunk->used + alignment - 1) & ~(alignment - 1) : 0;
    if (!chunk || at > chunk->room || bytes > chunk->room - at) {
        if (bytes > t->options.bytes) charge(t, bytes); /* which no sum may overflow before */
        chunk = add_chunk(t, bytes);
        at = 0;
    }
    chunk->used = at + bytes;
    return chunk->data + at;
}

void *mnem__template_take(mnem_template *t, size_t bytes) {
    return arena_take(t, bytes, 8);
}

mnem__any mnem__template_copy(mnem_template *t, const char *bytes, size_t n) {
    if (n > UINT32_MAX)
        mnem__template_fail(t, MNEM_OVER_BUDGET,
                            "the template makes a text of %zu bytes, expected fewer than 2^32: use "
                            "shorter messages",
                            n);
    mnem__template_step(t, n / 64);
    char *copy = arena_take(t, n, 1);
    if (n > 0) memcpy(copy, bytes, n);
    return mnem__any_text(copy, n);
}

mnem__any mnem__template_join(mnem_template *t, mnem__any a, mnem__any b) {
    struct mnem__template_chunk *chunk = t->arena->last;
    const size_t n = (size_t)a.length + b.length;
    if (b.length == 0) return mnem__any_text(a.text, a.length);
    const bool at_end = chunk && a.length > 0 && a.text + a.length == chunk->data + chunk->used;
    if (!at_end || b.length > chunk->room - chunk->used) {
        if (n > UINT32_MAX)
            mnem__template_fail(
                t, MNEM_OVER_BUDGET,
                "the template makes a text of %zu bytes, expected fewer than 2^32: use "
                "shorter messages",
                n);
        /* Twice the room, for what may be added to it next. */
        char *bytes = arena_take(t, n < CHUNK_BYTES / 4 ? n : 2 * n, 1);
        chunk = t->arena->last;
        chunk->used = (size_t)(bytes - chunk->data) + a.length;
        if (a.length > 0) memcpy(bytes, a.text, a.length);
        a.text = bytes;
    }
    memcpy(chunk->data + chunk->used, b.text, b.length);
    chunk->used += b.length;
    mnem__template_step(t, b.length / 64);
    return mnem__any_text(a.text, n);
}

void mnem__template_arena_free(mnem_template *t, mnem__template_arena *arena) {
    while (arena->last) {
        struct mnem__template_chunk *chunk = arena->last;
        arena->last = chunk->before;
        t->bytes -= sizeof *chunk + chunk->room;
        mnem__free(chunk);
    }
}

/* ---- names ---- */

struct mnem__template_name {
    struct mnem__template_name *next;
    size_t n;
    char bytes[];
};

const char *mnem__template_intern(mnem_template *t, const char *bytes, size_t n) {
    unsigned hash = 0;
    for (size_t i = 0; i < n; i++) hash = hash * 31 + (unsigned char)bytes[i];
    struct mnem__template_name **list = &t->names[hash % (sizeof t->names / sizeof *t->names)];
    for (struct mnem__template_name *name = *list; name; name = name->next)
        if (name->n == n && memcmp(name->bytes, bytes, n) == 0) return name->bytes;
    struct mnem__template_name *name = arena_take(t, sizeof *name + n + 1, 8);
    *name = (struct mnem__template_name){.next = *list, .n = n};
    memcpy(name->bytes, bytes, n);
    name->bytes[n] = 0;
    *list = name;
    return name->bytes;
}

/* ---- the output ---- */

static void grow_out(mnem_template *t, size_t n) {
    size_t room = t->out_room ? 2 * t->out_room : OUT_BYTES;
    if (room - t->out_bytes < n) room = t->out_bytes + n;
    const size_t more = room - t->out_room;
    charge(t, more);
    char *out = mnem__realloc(tag, t->out, room);
    if (!out) refused(t, more);
    t->out = out;
    t->out_room = room;
}

void mnem__template_put(mnem_template *t, const char *bytes, size_t n) {
    if (!t->out || n > t->out_room - t->out_bytes) grow_out(t, n);
    if (n > 0) memcpy(t->out + t->out_bytes, bytes, n);
    t->out_bytes += n;
    mnem__template_step(t, n / 64);
}

void mnem__template_puts(mnem_template *t, const char *text) {
    mnem__template_put(t, text, strlen(text));
}

mnem__any mnem__template_cut(mnem_template *t, size_t mark) {
    const mnem__any text = mnem__template_copy(t, t->out + mark, t->out_bytes - mark);
    t->out_bytes = mark;
    return text;
}
