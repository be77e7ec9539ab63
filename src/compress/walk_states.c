/* walk_states.c: the hidden states of all tokens, in memory as far as they fit, then in a file.
 *
 *     memory   [sequence 0][1] ... [in_memory - 1][one more place, if any are spilled, or copied]
 *     file     [in_memory][in_memory + 1] ...
 *
 * Sequences of the file take turns in the one place: read, changed, written back.
 * Invariant: the file has no name from the moment that it is open, so that nothing is left behind
 * however the process ends. Cost: a layer reads and writes what is in the file once. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file/file_bytes.h"
#include "compress/walk_private.h"

static mnem_status failed(const mnem__walk_states *s, const char *what, int error) {
    return mnem__fail(
        MNEM_IO, "%s: the temporary file of hidden states can't be %s (%s)", s->path, what,
        error ? strerrordesc_np(error) : "the file became shorter than what was written to it");
}

mnem_status mnem__walk_states_open(mnem__walk_states *s, const char *spill) {
    snprintf(s->path, sizeof s->path, "%s", spill);
    s->fd = open(spill, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (s->fd < 0) return failed(s, "created", errno);
    unlink(spill);
    return MNEM_OK;
}

void mnem__walk_states_close(mnem__walk_states *s) {
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
}

static uint8_t *place_of(const mnem__walk_states *s, int64_t sequence) {
    const int64_t at = sequence < s->in_memory ? sequence : s->in_memory;
    return s->base + (uint64_t)at * s->sequence_bytes;
}

static uint64_t offset_of(const mnem__walk_states *s, int64_t sequence) {
    return (uint64_t)(sequence - s->in_memory) * s->sequence_bytes;
}

mnem_status mnem__walk_states_get(mnem__walk_states *s, int64_t sequence, bool read, float **rows) {
    uint8_t *to = place_of(s, sequence);
    *rows = (float *)(void *)to;
    if (!read || sequence < s->in_memory) return MNEM_OK;
    const uint64_t n = s->sequence_bytes;
    if (mnem__file_read_at(s->fd, to, n, offset_of(s, sequence)) == n) return MNEM_OK;
    return failed(s, "read", errno);
}

mnem_status mnem__walk_states_copy(mnem__walk_states *s, int64_t sequence, float **rows) {
    uint8_t *copy = s->base + (uint64_t)s->in_memory * s->sequence_bytes;
    if (sequence >= s->in_memory) return mnem__walk_states_get(s, sequence, true, rows);
    memcpy(copy, place_of(s, sequence), s->sequence_bytes);
    *rows = (float *)(void *)copy;
    return MNEM_OK;
}

mnem_status mnem__walk_states_put(mnem__walk_states *s, int64_t sequence) {
    const uint8_t *from = place_of(s, sequence);
    if (sequence < s->in_memory) return MNEM_OK;
    const uint64_t n = s->sequence_bytes;
    if (mnem__file_write_at(s->fd, from, n, offset_of(s, sequence)) == n) return MNEM_OK;
    return failed(s, "written", errno);
}
