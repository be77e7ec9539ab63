/* pool_tell.c: records the blocks of a pool in a trace: address, bytes and site of each.
 *
 * A site's name is looked up by its number, which is a row of the track; the row is read only the
 * first time. Bytes of 4 GiB and more take a second event. */
#include "alloc/pool/pool_private.h"

/* The debugger's view of a path is of no use elsewhere: its last part is. */
static const char *last_part(const char *file) {
    const char *slash = file ? strrchr(file, '/') : NULL;
    return slash ? slash + 1 : file;
}

uint32_t mnem__pool_tell_name(mnem__event_sink *sink, const mnem_pool *pool, uint32_t site) {
    const mnem__site *s = mnem__site_at(&pool->track.sites, site);
    const mnem__tag *tag = mnem__tag_at(&pool->track.sites, s->tag);
    const mnem__event_key key = {.sort = MNEM__NAME_SITE,
                                 .owner = pool->number,
                                 .kind = (uint32_t)tag->kind,
                                 .line = s->line,
                                 .text = tag->text,
                                 .more = last_part(s->name)};
    return mnem__event_name(sink, pool->number, mnem__site_row(site), &key);
}

void mnem__pool_tell_upper(uint64_t bytes) {
    mnem__event_sink *sink = mnem__event_enter();
    if (sink) mnem__event_put(sink, MNEM__EVENT_LARGE, 0, (uint32_t)(bytes >> 32), 0);
}

void mnem__pool_tell(mnem_pool *pool, mnem__event_what what, const mnem_pool_block *block) {
    mnem__pool_tell_at(pool, what, mnem__record_at(&pool->track, block->id), block);
}

/* Fragmentation: as much is free, but not in one piece. */
static uint32_t class_of(mnem_pool *pool, uint64_t bytes, mnem_status status) {
    mnem_pool_info info;
    mnem_pool_info_get(pool, &info);
    const uint64_t live = info.bytes_live - info.bytes_planned - info.bytes_direct;
    if (info.bytes_reserved >= live && info.bytes_reserved - live >= bytes)
        return MNEM__REFUSED_FRAGMENTATION;
    if (status == MNEM_NO_MEMORY) return MNEM__REFUSED_SYSTEM;
    return bytes > info.bytes_max || live > info.bytes_max - bytes ? MNEM__REFUSED_CAPACITY
                                                                   : MNEM__REFUSED_LIMIT;
}

void mnem__pool_tell_refused(mnem_pool *pool, const mnem_pool_request *r, const char *file,
                             int line, mnem_status status) {
    if (status != MNEM_OVER_BUDGET && status != MNEM_NO_MEMORY) return;
    const uint32_t why = class_of(pool, r->bytes, status);
    const mnem__event_key key = {.sort = MNEM__NAME_SITE,
                                 .owner = pool->number,
                                 .kind = (uint32_t)r->kind,
                                 .line = (uint32_t)line,
                                 .text = r->tag ? r->tag : "block",
                                 .more = last_part(file)};
    mnem__event_sink *sink = mnem__event_enter();
    if (sink)
        mnem__event_put_ordered(sink, &pool->tellers, MNEM__EVENT_REFUSE, sink->name(sink, &key),
                                why, r->bytes);
}
