/* weights.c: what the owner of the weights calls: create, load, schedule, acquire, release.
 *
 * The idea: the owner says which passes will run; the readers walk the same order ahead of it, as
 * far as slots are free. The owner's cursor and the readers' meet only through slots: ticket t is
 * acquired when its slot says READY. What was read on a wrong guess is dropped by setting the
 * readers' cursor and ticket back.
 * Invariant: tickets in [ticket_use, ticket_read) are READING or READY, in the order of use_at.
 * Cost: an acquire is one lock; it waits only for the disk. */
#include "model/weights/weights.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/event.h"
#include "base/heap.h"
#include "base/progress.h"
#include "model/weights/weights_private.h"

/* ---- create, destroy ---- */

static mnem_status matrices_fill(mnem__weights *w, const mnem__weights_options *o) {
    mnem__expert_reads *experts = &w->experts;
    uint64_t place = 0;
    int32_t streamed = 0; /* matrices of experts that follow their first */
    uint32_t sums = 0;
    for (int32_t i = 0; i < w->matrix_count; i++) {
        mnem__matrix *m = &w->matrices[i];
        MNEM__TRY(mnem__matrix_describe(o, i, w->slot_bytes, m));
        m->resident = o->resident[i];
        m->place = place;
        m->sum_at = sums;
        if (i < o->body_count + o->head_count && !m->expert_groups) sums += (uint32_t)m->chunks;
        if (m->expert_groups && !m->resident && streamed-- == 0) {
            experts->gates[experts->mixtures++] = i;
            streamed = m->expert_matrices - 1;
        }
        mnem__matrix_list *list = NULL;
        if (m->resident) {
            place += mnem__matrix_block_bytes(m);
            list = &w->load_list;
        } else if (i < o->body_count) {
            list = m->expert_groups ? NULL : &w->pass_list[MNEM__PASS_BODY];
        } else if (i < o->body_count + o->head_count) {
            list = &w->pass_list[MNEM__PASS_HEAD];
        }
        if (list) list->index[list->count++] = i;
    }
    return MNEM_OK;
}

static mnem_status parts_open(mnem__weights *w, const mnem_model *model) {
    mnem_model_info info;
    mnem_model_info_get(model, &info);
    for (uint32_t i = 0; i < info.files; i++) {
        MNEM__TRY(mnem__weights_part_open(model, i, w->page_cache, &w->parts[i]));
        w->part_count++;
    }
    return MNEM_OK;
}

static mnem_status readers_start(mnem__weights *w) {
    if (!w->load_list.count && !w->pass_list[0].count && !w->pass_list[1].count &&
        !w->experts.mixtures)
        return MNEM_OK;
    mnem_status status = MNEM_OK;
    for (int i = 0; i < MNEM__WEIGHTS_READERS && status == MNEM_OK; i++)
        status =
            mnem__thread_start(&w->readers[i], MNEM__WEIGHTS_STACK_BYTES, mnem__weights_reader, w);
    return status;
}

mnem_status mnem__weights_create(const mnem__weights_options *o, const mnem__weights_blocks *blocks,
                                 mnem__weights **out) {
    *out = NULL;
    int32_t slots;
    uint64_t slot_bytes, sums;
    mnem__weights_mixtures_info mixtures;
    MNEM__TRY(mnem__weights_ring_choose(o, &slots, &slot_bytes));
    MNEM__TRY(mnem__weights_sums(o, slot_bytes, &sums));
    MNEM__TRY(mnem__weights_mixtures(o, &mixtures));
    mnem__weights *w =
        mnem__calloc("weights", 1, mnem__weights_lay_out(o, slots, sums, &mixtures, NULL));
    if (!w) return mnem__heap_status();
    mnem__weights_lay_out(o, slots, sums, &mixtures, w);
    w->matrix_count = o->body_count + o->head_count + o->extra_count;
    w->owner = mnem__event_owner();
    w->model = o->model;
    w->first_handle = o->first_handle;
    w->resident = blocks->resident;
    w->ring = blocks->ring;
    w->experts.base = blocks->experts;
    w->experts.on_want = o->on_experts;
    w->experts.on_want_context = o->on_experts_context;
    w->slot_count = (uint32_t)slots;
    w->slot_bytes = slot_bytes;
    w->page_cache = o->page_cache;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->for_readers, NULL);
    pthread_cond_init(&w->for_owner, NULL);
    mnem_status status = matrices_fill(w, o);
    if (status == MNEM_OK) status = parts_open(w, o->model);
    if (status == MNEM_OK) status = readers_start(w);
    if (status != MNEM_OK) {
        mnem__weights_destroy(w);
        return status;
    }
    *out = w;
    return MNEM_OK;
}

void mnem__weights_destroy(mnem__weights *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_broadcast(&w->for_readers);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < MNEM__WEIGHTS_READERS; i++) mnem__thread_join(&w->readers[i]);
    for (uint32_t i = 0; i < w->part_count; i++) close(w->parts[i].fd);
    pthread_cond_destroy(&w->for_readers);
    pthread_cond_destroy(&w->for_owner);
    pthread_mutex_destroy(&w->lock);
    mnem__free(w);
}

/* ---- load ---- */

static uint64_t load_total(const mnem__weights *w) {
    uint64_t total = 0;
    for (int32_t i = 0; i < w->load_list.count; i++) {
        const mnem__matrix *m = &w->matrices[w->load_list.index[i]];
        total += (uint64_t)m->rows * m->row_bytes;
    }
    return total;
}

static mnem_status read_error(const mnem__weights *w) {
    return mnem__fail(w->status, "%s", w->error);
}

/* Waits until every chunk is packed, the owner wants to stop, or a read failed. The lock is held,
 * but not while progress is told. */
static mnem_status load_wait(mnem__weights *w, uint64_t total, const mnem_progress *progress) {
    uint64_t told = UINT64_MAX;
    for (;;) {
        uint64_t done = w->bytes_loaded;
        if (w->status != MNEM_OK) return read_error(w);
        if (progress->tell && done != told) {
            pthread_mutex_unlock(&w->lock);
            bool go_on = mnem__progress_tell(progress, "loading", done, total);
            pthread_mutex_lock(&w->lock);
            told = done;
            if (!go_on)
                return mnem__fail(MNEM_CANCELLED, "weights: loading was stopped by the caller");
        } else if (done == total) {
            return MNEM_OK;
        } else {
            pthread_cond_wait(&w->for_owner, &w->lock);
        }
    }
}

mnem_status mnem__weights_load(mnem__weights *w, const mnem_progress *progress) {
    uint64_t total = load_total(w);
    pthread_mutex_lock(&w->lock);
    if (w->mode != MNEM__WEIGHTS_IDLE) {
        pthread_mutex_unlock(&w->lock);
        return mnem__fail(MNEM_INVALID,
                          "weights: loading was started already; weights can be loaded only once");
    }
    w->mode = MNEM__WEIGHTS_LOADING;
    w->bytes_loaded = 0;
    w->read_at = (mnem__weights_cursor){0};
    pthread_cond_broadcast(&w->for_readers);
    mnem_status status = load_wait(w, total, progress);
    w->mode = MNEM__WEIGHTS_IDLE; /* no reader takes another chunk */
    while (w->reading) pthread_cond_wait(&w->for_owner, &w->lock);
    w->ticket_use = w->ticket_read;
    w->read_at = w->use_at;
    if (status == MNEM_OK) {
        w->mode = MNEM__WEIGHTS_STREAMING;
        pthread_cond_broadcast(&w->for_readers);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

/* ---- the schedule ---- */

/* Drops what was read of passes from first on; the readers go on at first. The lock is held. */
static void drop_from(mnem__weights *w, uint64_t first) {
    while (w->ticket_read > w->ticket_use) {
        mnem__ring_slot *slot = &w->slots[(w->ticket_read - 1) % w->slot_count];
        if (slot->pass < first) break;
        slot->state = slot->state == MNEM__SLOT_READING ? MNEM__SLOT_DROPPED : MNEM__SLOT_FREE;
        w->ticket_read--;
    }
    if (w->read_at.pass >= first) w->read_at = (mnem__weights_cursor){.pass = first};
}

/* A pass that streams nothing is no part of the order. */
mnem_status mnem__weights_schedule(mnem__weights *w, mnem__pass pass) {
    mnem_status status = MNEM_OK;
    if (!w->pass_list[pass].count) return MNEM_OK;
    pthread_mutex_lock(&w->lock);
    mnem__weights_cursor_settle(w, &w->use_at, false);
    if (w->passes - w->use_at.pass >= MNEM__WEIGHTS_PASSES) {
        status = mnem__fail(
            MNEM_BUSY,
            "weights: %d passes are already scheduled, the most that is possible; finish one first",
            MNEM__WEIGHTS_PASSES);
    } else {
        if (pass != mnem__weights_guess(w)) drop_from(w, w->passes);
        w->pass_kind[w->passes++ % MNEM__WEIGHTS_PASSES] = (uint8_t)pass;
        pthread_cond_broadcast(&w->for_readers);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

mnem_status mnem__weights_rewind(mnem__weights *w) {
    pthread_mutex_lock(&w->lock);
    drop_from(w, 0);
    mnem__weights_experts_forget(w);
    w->use_at = w->read_at = (mnem__weights_cursor){.pass = w->passes};
    pthread_cond_broadcast(&w->for_readers);
    pthread_mutex_unlock(&w->lock);
    return MNEM_OK;
}

/* ---- chunks ---- */

mnem__location mnem__weights_at(const mnem__weights *w, int32_t matrix) {
    if (matrix < 0 || matrix >= w->matrix_count || !w->matrices[matrix].resident)
        return (mnem__location){NULL, 0};
    return mnem__location_at(w->resident, w->matrices[matrix].place);
}

const void *mnem__weights_resident(const mnem__weights *w, int32_t matrix) {
    return mnem__location_bind(mnem__weights_at(w, matrix));
}

/* The next chunk in the schedule must be one of matrix. The lock is held. */
const char *mnem__weights_name(const mnem__weights *w, int32_t matrix) {
    return matrix >= 0 && matrix < w->matrix_count ? w->matrices[matrix].name : NULL;
}

static mnem_status acquire_check(mnem__weights *w, int32_t matrix) {
    if (w->mode != MNEM__WEIGHTS_STREAMING)
        return mnem__fail(MNEM_NOT_READY, "weights: a matrix was requested before the weights were "
                                          "loaded: a bug in mnem; report it");
    if (!mnem__weights_cursor_settle(w, &w->use_at, false))
        return mnem__fail(
            MNEM_INVALID,
            "weights: %s was requested, but no scheduled pass reads it; schedule a pass first",
            w->matrices[matrix].name);
    int32_t next = mnem__weights_list(w, w->use_at.pass)->index[w->use_at.at];
    if (next == matrix) return MNEM_OK;
    return mnem__fail(MNEM_INVALID, "weights: %s was requested out of order: %s is next",
                      w->matrices[matrix].name, w->matrices[next].name);
}

/* Waits until the slot's chunk is packed, or a read failed. The lock is held. */
static mnem_status slot_wait(mnem__weights *w, const mnem__ring_slot *slot) {
    double start = 0;
    while (w->ticket_use == w->ticket_read || slot->state != MNEM__SLOT_READY) {
        if (w->status != MNEM_OK) return read_error(w);
        if (start == 0) start = mnem__seconds();
        pthread_cond_wait(&w->for_owner, &w->lock);
    }
    if (start != 0) w->stats.seconds_waiting += mnem__seconds() - start;
    return w->status == MNEM_OK ? MNEM_OK : read_error(w);
}

/* The lock is held. */
static mnem_status acquire_next(mnem__weights *w, int32_t matrix, mnem_graph_chunk *chunk) {
    MNEM__TRY(acquire_check(w, matrix));
    const mnem__matrix *m = &w->matrices[matrix];
    uint32_t slot = (uint32_t)(w->ticket_use % w->slot_count);
    MNEM__TRY(slot_wait(w, &w->slots[slot]));
    w->slots[slot].state = MNEM__SLOT_HELD;
    w->ticket_use++;
    w->stats.bytes_streamed += mnem__chunk_raw_bytes(m, w->use_at.chunk);
    mnem__chunk_rows(m, w->use_at.chunk, &chunk->row_begin, &chunk->row_end);
    chunk->last = chunk->row_end == m->rows;
    chunk->slot = (int32_t)slot;
    chunk->packed = w->ring + (uint64_t)slot * w->slot_bytes;
    mnem__weights_cursor_next(w, mnem__weights_list(w, w->use_at.pass), &w->use_at);
    return MNEM_OK;
}

mnem_status mnem__weights_acquire(mnem__weights *w, int32_t matrix, mnem_graph_chunk *chunk) {
    if (matrix < 0 || matrix >= w->matrix_count)
        return mnem__fail(MNEM_INVALID, "weights: matrix %d does not exist; there are %d (from 0)",
                          matrix, w->matrix_count);
    const mnem__matrix *m = &w->matrices[matrix];
    if (m->resident) {
        *chunk = (mnem_graph_chunk){.packed = mnem__weights_resident(w, matrix),
                                    .row_end = m->rows,
                                    .last = true,
                                    .slot = -1};
        return MNEM_OK;
    }
    pthread_mutex_lock(&w->lock);
    mnem_status status = acquire_next(w, matrix, chunk);
    pthread_mutex_unlock(&w->lock);
    return status;
}

void mnem__weights_release(mnem__weights *w, const mnem_graph_chunk *chunk) {
    if (chunk->slot < 0) return;
    pthread_mutex_lock(&w->lock);
    w->slots[chunk->slot].state = MNEM__SLOT_FREE;
    pthread_cond_broadcast(&w->for_readers);
    pthread_mutex_unlock(&w->lock);
}

void mnem__weights_stats_get(const mnem__weights *weights, mnem__weights_stats *stats) {
    mnem__weights *w = (mnem__weights *)(uintptr_t)weights;
    pthread_mutex_lock(&w->lock);
    *stats = w->stats;
    pthread_mutex_unlock(&w->lock);
}
