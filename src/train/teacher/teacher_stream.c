/* teacher_stream.c: a thread that reads a teacher's layers ahead of who runs them.
 *
 * The idea: two counters say which slot is whose:
 *
 *     given <= read <= given + slots        [ held or next: given | read | being read ]
 *
 * Invariant: the thread writes slot `read` only, with no lock held; the owner reads slot `given`.
 * Cost: two locks for each layer; nothing is allocated. */
#include "train/teacher/teacher_stream.h"

#include <stdio.h>

#include "base/checked.h"
#include "model/gguf/gguf.h"

bool mnem__teacher_can_stream(const mnem__train_shape *s, const mnem_model *model) {
    for (int32_t i = 0; i < s->frozen_count; i++) {
        const int32_t index = mnem_model_tensor_find(model, s->frozen[i].name);
        if (index < 0 || !mnem__model_is_plain(model, (uint32_t)index)) return false;
    }
    return mnem__teacher_ring_bytes(s) + MNEM__TEACHER_STACK_BYTES < mnem__teacher_read_bytes(s);
}

uint64_t mnem__teacher_ring_bytes(const mnem__train_shape *s) {
    return MNEM__TEACHER_SLOTS * mnem__align_up(mnem__train_layer_most(s), 64);
}

uint64_t mnem__teacher_read_bytes(const mnem__train_shape *s) {
    return s->frozen_bytes - mnem__train_stretch_get(s, -1).bytes;
}

/* ---- the thread ---- */

static uint8_t *slot_of(const mnem__teacher_stream *s, uint64_t number) {
    return s->ring + number % MNEM__TEACHER_SLOTS * s->slot_bytes;
}

static mnem_status read_layer(const mnem__teacher_stream *s, uint64_t number) {
    const int32_t layer = (int32_t)(number % (uint64_t)s->shape->t.layers);
    const mnem__train_stretch part = mnem__train_stretch_get(s->shape, layer);
    for (int32_t i = part.first; i < part.end; i++) {
        const mnem__train_frozen *f = &s->shape->frozen[i];
        MNEM__TRY(mnem__train_frozen_read(s->model, f, 0, f->bytes,
                                          slot_of(s, number) + (f->offset - part.offset)));
    }
    return MNEM_OK;
}

/* The lock is held at both ends, not between. */
static void read_next(mnem__teacher_stream *s) {
    const uint64_t number = s->read;
    s->reading = true;
    pthread_mutex_unlock(&s->lock);
    const mnem_status status = read_layer(s, number);
    pthread_mutex_lock(&s->lock);
    s->reading = false;
    s->status = status;
    if (status == MNEM_OK)
        s->read++;
    else
        snprintf(s->error, sizeof s->error, "%s", mnem_last_error());
}

static void reader(void *context) {
    mnem__teacher_stream *s = context;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (s->status != MNEM_OK || s->read - s->given == MNEM__TEACHER_SLOTS) {
            pthread_cond_wait(&s->for_reader, &s->lock);
            continue;
        }
        read_next(s);
        pthread_cond_signal(&s->for_owner);
    }
    pthread_mutex_unlock(&s->lock);
}

/* ---- the owner ---- */

mnem_status mnem__teacher_stream_start(mnem__teacher_stream *s, const mnem__train_shape *shape,
                                       const mnem_model *model, uint8_t *ring) {
    *s =
        (mnem__teacher_stream){.shape = shape,
                               .model = model,
                               .ring = ring,
                               .slot_bytes = mnem__teacher_ring_bytes(shape) / MNEM__TEACHER_SLOTS};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->for_owner, NULL);
    pthread_cond_init(&s->for_reader, NULL);
    return mnem__thread_start(&s->thread, MNEM__TEACHER_STACK_BYTES, reader, s);
}

void mnem__teacher_stream_stop(mnem__teacher_stream *s) {
    if (!s->thread.map) return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->for_reader);
    pthread_mutex_unlock(&s->lock);
    mnem__thread_join(&s->thread);
    pthread_cond_destroy(&s->for_reader);
    pthread_cond_destroy(&s->for_owner);
    pthread_mutex_destroy(&s->lock);
    *s = (mnem__teacher_stream){.shape = NULL};
}

mnem_status mnem__teacher_stream_take(mnem__teacher_stream *s, uint8_t **layer) {
    pthread_mutex_lock(&s->lock);
    while (s->read == s->given && s->status == MNEM_OK) pthread_cond_wait(&s->for_owner, &s->lock);
    const mnem_status status = s->read > s->given ? MNEM_OK : s->status;
    *layer = slot_of(s, s->given);
    pthread_mutex_unlock(&s->lock);
    return status == MNEM_OK ? MNEM_OK : mnem__fail(status, "%s", s->error);
}

void mnem__teacher_stream_give(mnem__teacher_stream *s) {
    pthread_mutex_lock(&s->lock);
    s->given++;
    pthread_cond_signal(&s->for_reader);
    pthread_mutex_unlock(&s->lock);
}

void mnem__teacher_stream_rewind(mnem__teacher_stream *s) {
    const uint64_t layers = (uint64_t)s->shape->t.layers;
    pthread_mutex_lock(&s->lock);
    while (s->reading) pthread_cond_wait(&s->for_owner, &s->lock);
    if (s->given % layers) s->given = s->read = (s->given / layers + 1) * layers;
    pthread_cond_signal(&s->for_reader);
    pthread_mutex_unlock(&s->lock);
}
