/* workload.c: opens allocation traces, and keeps what every reader needs.
 *
 * Idea: a reader sees its input through a window that is refilled, so that a file of any size, a
 * pipe and memory are one thing; and it writes operations through two functions that check what
 * they are told. Ids, addresses and streams are any 64-bit numbers in a file: a hash table with
 * open addressing gives them indices.
 *
 * Invariant: after every call, live is the sum of the blocks' bytes, every free follows its
 * allocation, and no sum overflowed.
 * Cost: 16 bytes per operation, 16 per block while reading; constant time per operation. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/progress.h"
#include "replay/snapshot_facts.h"
#include "replay/workload_private.h"

static const char tag[] = "workload";

/* ---- input ---- */

/* A signal ends a read that waits for somebody: the caller is asked then, too. */
static mnem_status fill_once(mnem__input *in, size_t used, bool *ended) {
    const ssize_t n = read(in->fd, in->buffer + used, MNEM__INPUT_WINDOW - used);
    if (n < 0 && errno != EINTR)
        return mnem__fail(MNEM_IO, "%s: can't be read: %s", in->name, strerrordesc_np(errno));
    if (n > 0) in->end += n;
    *ended = n == 0;
    const mnem_workload_options *o = in->options;
    const uint64_t done = in->before + (uint64_t)(in->end - in->start);
    if (o && !mnem__progress_tell(&o->progress, "reading", done, 0))
        return mnem__fail(MNEM_CANCELLED, "%s: stopped by the caller", in->name);
    return MNEM_OK;
}

mnem_status mnem__input_need(mnem__input *in, size_t n, size_t *have) {
    *have = (size_t)(in->end - in->at);
    if (*have >= n || in->fd < 0) return MNEM_OK;
    memmove(in->buffer, in->at, *have);
    in->before += (uint64_t)(in->at - in->start);
    in->at = in->start = in->buffer;
    in->end = in->at + *have;
    bool ended = false;
    while ((size_t)(in->end - in->at) < n && !ended) {
        MNEM__TRY(fill_once(in, (size_t)(in->end - in->start), &ended));
    }
    *have = (size_t)(in->end - in->at);
    return MNEM_OK;
}

/* ---- the map ---- */

struct mnem__number_slot {
    uint64_t key;
    uint32_t value;
    uint32_t used;
};

/* Mixes all bits into all others (the finalizer of splitmix64, Steele 2014), so that numbers of any
 * pattern spread. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* The slot of key, or the empty one where it would go. room > 0. */
static struct mnem__number_slot *slot_of(const mnem__number_map *map, uint64_t key) {
    size_t i = mix(key) & (map->room - 1);
    while (map->slots[i].used && map->slots[i].key != key) i = (i + 1) & (map->room - 1);
    return &map->slots[i];
}

uint32_t mnem__number_get(const mnem__number_map *map, uint64_t key) {
    if (!map->room) return MNEM__NUMBER_NONE;
    const struct mnem__number_slot *slot = slot_of(map, key);
    return slot->used ? slot->value : MNEM__NUMBER_NONE;
}

static bool map_grow(mnem__number_map *map) {
    mnem__number_map bigger = {.count = map->count, .room = map->room ? map->room * 2 : 64};
    bigger.slots = mnem__calloc(tag, bigger.room, sizeof *bigger.slots);
    if (!bigger.slots) return false;
    for (size_t i = 0; i < map->room; i++)
        if (map->slots[i].used) *slot_of(&bigger, map->slots[i].key) = map->slots[i];
    mnem__free(map->slots);
    *map = bigger;
    return true;
}

bool mnem__number_set(mnem__number_map *map, uint64_t key, uint32_t value) {
    if (map->count >= map->room / 2 && !map_grow(map)) return false;
    struct mnem__number_slot *slot = slot_of(map, key);
    map->count += !slot->used;
    *slot = (struct mnem__number_slot){key, value, 1};
    return true;
}

void mnem__number_fini(mnem__number_map *map) {
    mnem__free(map->slots);
    *map = (mnem__number_map){0};
}

/* ---- the workload as it grows ---- */

/* Room for one more element of size bytes. */
static bool grow(void **array, size_t count, size_t *room, size_t size) {
    if (count < *room) return true;
    const size_t more = *room ? *room * 2 : 1024;
    void *bigger = mnem__realloc(tag, *array, more * size);
    if (!bigger) return false;
    *array = bigger;
    *room = more;
    return true;
}

mnem_status mnem__workload_stream(mnem_workload *w, uint64_t stream, uint32_t *index) {
    *index = mnem__number_get(&w->streams, stream);
    if (*index != MNEM__NUMBER_NONE) return MNEM_OK;
    *index = w->info.streams;
    if (!mnem__number_set(&w->streams, stream, *index)) return mnem__heap_status();
    w->info.streams++;
    return MNEM_OK;
}

static mnem_status add_op(mnem_workload *w, mnem_workload_op op) {
    if (!grow((void **)&w->ops, w->info.count, &w->room, sizeof *w->ops))
        return mnem__heap_status();
    w->ops[w->info.count++] = op;
    return MNEM_OK;
}

mnem_status mnem__workload_alloc(mnem_workload *w, uint64_t bytes, uint64_t stream,
                                 uint32_t *block) {
    uint64_t live, total;
    uint32_t index;
    if (!bytes) return mnem__fail(MNEM_BAD_FILE, "an allocation has 0 bytes, expected at least 1");
    if (!mnem__add_u64(w->live, bytes, &live) || !mnem__add_u64(w->info.bytes_total, bytes, &total))
        return mnem__fail(MNEM_BAD_FILE,
                          "the sizes of all allocations up to this one, of %llu bytes, add up to "
                          "2^64 bytes or more",
                          (unsigned long long)bytes);
    if (w->info.allocations >= MNEM__NUMBER_NONE)
        return mnem__fail(MNEM_UNSUPPORTED,
                          "the trace has more than %u blocks; record a shorter run",
                          MNEM__NUMBER_NONE);
    MNEM__TRY(mnem__workload_stream(w, stream, &index));
    if (!grow((void **)&w->blocks, w->info.allocations, &w->blocks_room, sizeof *w->blocks))
        return mnem__heap_status();
    *block = (uint32_t)w->info.allocations;
    MNEM__TRY(add_op(w, (mnem_workload_op){bytes, *block, index}));
    w->blocks[w->info.allocations++] = (mnem__live_block){bytes, index};
    w->live = live;
    w->info.bytes_total = total;
    if (live > w->info.bytes_peak) w->info.bytes_peak = live;
    if (++w->blocks_live > w->info.blocks_peak) w->info.blocks_peak = w->blocks_live;
    return MNEM_OK;
}

static mnem_status free_on(mnem_workload *w, uint32_t block, uint32_t stream) {
    if (!w->blocks[block].bytes) return mnem__fail(MNEM_BAD_FILE, "a block is freed a second time");
    MNEM__TRY(add_op(w, (mnem_workload_op){0, block, stream}));
    w->live -= w->blocks[block].bytes;
    w->blocks[block].bytes = 0;
    w->blocks_live--;
    return MNEM_OK;
}

mnem_status mnem__workload_free(mnem_workload *w, uint32_t block, uint64_t stream) {
    uint32_t index;
    const mnem_status status = mnem__workload_stream(w, stream, &index);
    return status != MNEM_OK ? status : free_on(w, block, index);
}

mnem_status mnem__workload_free_there(mnem_workload *w, uint32_t block) {
    return free_on(w, block, w->blocks[block].stream);
}

/* ---- open ---- */

static bool begins(const mnem__input *in, size_t have, const char *magic, size_t n) {
    return have >= n && memcmp(in->at, magic, n) == 0;
}

/* What compresses this input, or NULL. */
static const char *compressor(const mnem__input *in, size_t have) {
    if (begins(in, have,
               "\xfd"
               "7zXZ",
               5))
        return "xz -dc";
    if (begins(in, have, "\x1f\x8b", 2)) return "gzip -dc";
    if (begins(in, have, "\x28\xb5\x2f\xfd", 4)) return "zstd -dc";
    return NULL;
}

static mnem_status read_any(mnem__input *in, mnem_workload *w) {
    size_t have;
    MNEM__TRY(mnem__input_need(in, 8, &have));
    const char *with = compressor(in, have);
    if (begins(in, have, "PK\3\4", 4))
        return mnem__fail(MNEM_UNSUPPORTED,
                          "%s: the file is a zip archive: unpack a compressed trace with unzip -p "
                          "first; if torch.save wrote it, it has no record of allocations (those "
                          "are of torch.cuda.memory._dump_snapshot)",
                          in->name);
    if (with)
        return mnem__fail(MNEM_UNSUPPORTED, "%s: the file is compressed; unpack it with %s first",
                          in->name, with);
    const bool pickle = begins(in, have, "\x80", 1);
    return pickle ? mnem__workload_read_snapshot(in, w) : mnem__workload_read_text(in, w);
}

/* What only the reading needed goes. */
static void settle(mnem_workload *w) {
    w->info.bytes_end = w->live;
    w->info.ops = w->ops;
    mnem__number_fini(&w->streams);
    mnem__free(w->blocks);
    w->blocks = NULL;
}

static mnem_status open_input(mnem__input *in, mnem_workload **out) {
    *out = NULL;
    mnem_workload *w = mnem__calloc(tag, 1, sizeof *w);
    if (!w) return mnem__heap_status();
    mnem_status status = MNEM_OK;
    if (in->fd >= 0) {
        in->buffer = mnem__alloc(tag, MNEM__INPUT_WINDOW);
        in->start = in->at = in->end = in->buffer;
        if (!in->buffer) status = mnem__heap_status();
    }
    if (status == MNEM_OK) status = read_any(in, w);
    if (status == MNEM_OK && !w->info.allocations)
        status = mnem__fail(MNEM_BAD_FILE, "%s: the trace has no allocation; record a longer run",
                            in->name);
    mnem__free(in->buffer);
    settle(w);
    if (status == MNEM_OK)
        *out = w;
    else
        mnem_workload_close(w);
    return status == MNEM_BAD_FILE
               ? mnem__fail_ending(status, "the trace is damaged: correct it, or record it again")
               : status;
}

mnem_status mnem_workload_open_fd(const char *name, int fd, const mnem_workload_options *options,
                                  mnem_workload **workload) {
    return open_input(&(mnem__input){.name = name, .fd = fd, .options = options}, workload);
}

mnem_status mnem_workload_open(const char *path, const mnem_workload_options *options,
                               mnem_workload **workload) {
    *workload = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return mnem__fail(MNEM_IO, "%s: can't be opened: %s", path, strerrordesc_np(errno));
    const mnem_status status = mnem_workload_open_fd(path, fd, options, workload);
    close(fd);
    return status;
}

mnem_status mnem_workload_read(const char *name, const void *data, size_t bytes,
                               const mnem_workload_options *options, mnem_workload **workload) {
    const uint8_t *p = data;
    return open_input(
        &(mnem__input){
            .name = name, .fd = -1, .at = p, .start = p, .end = p + bytes, .options = options},
        workload);
}

void mnem_workload_close(mnem_workload *w) {
    if (!w) return;
    mnem__number_fini(&w->streams);
    mnem__free(w->blocks);
    mnem__free(w->ops);
    mnem__free(w->site_text);
    mnem__free(w->site_at);
    mnem__facts_destroy(w->facts);
    mnem__free(w);
}

void mnem_workload_info_get(const mnem_workload *w, mnem_workload_info *info) {
    *info = w->info;
}

const char *mnem_workload_site(const mnem_workload *w, uint32_t block) {
    return w->site_at && block < w->info.allocations ? mnem__stack_short(w, w->site_at[block]) : "";
}
