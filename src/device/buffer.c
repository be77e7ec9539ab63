/* buffer.c: bytes that host and device exchange.
 *
 * The idea: where the device's memory is the host's, one pinned block is both sides. Elsewhere
 * there are two, and handing bytes over is a copy in stream order. The caller hands over either
 * way, and so the same code runs on both; the device counts which it was.
 *
 *     zero-copy   host = device = [ block ]
 *     staged      host = [ pinned block ]  -- copy -->  device = [ block ]
 *
 * Cost: zero-copy a counter; staged a copy of the bytes. */
#include "base/checked.h"
#include "base/event.h"
#include "device/backend/backend.h"

static bool shares_memory(const mnem_device *device) {
    return device->backend->host_visible && !device->hidden;
}

uint64_t mnem_buffer_alloc_bytes(mnem_device *device, uint64_t bytes) {
    uint64_t host = mnem_device_alloc_bytes(device, MNEM_SPACE_PINNED, bytes);
    uint64_t own =
        shares_memory(device) ? 0 : mnem_device_alloc_bytes(device, MNEM_SPACE_DEVICE, bytes);
    return mnem__add_u64(host, own, &host) ? host : UINT64_MAX;
}

mnem_status mnem_buffer_alloc(mnem_device *device, uint64_t bytes, uint64_t alignment,
                              mnem_buffer *buffer) {
    mnem_buffer made = {.bytes = bytes, .zero_copy = shares_memory(device)};
    mnem_status status = mnem_device_alloc(device, MNEM_SPACE_PINNED, bytes, alignment, &made.host);
    if (status != MNEM_OK) return status;
    made.device = made.host;
    if (!made.zero_copy)
        status = mnem_device_alloc(device, MNEM_SPACE_DEVICE, bytes, alignment, &made.device);
    if (status != MNEM_OK) {
        mnem_device_free(&made.host);
        return status;
    }
    const mnem__backend *backend = device->backend;
    made.locked = backend->lock && backend->lock(device, made.host.address, made.host.bytes);
    *buffer = made;
    return MNEM_OK;
}

void mnem_buffer_free(mnem_buffer *buffer) {
    if (!buffer->zero_copy) mnem_device_free(&buffer->device);
    mnem_device_free(&buffer->host);
    *buffer = (mnem_buffer){0};
}

/* Zero-copy bytes are in place; the stream's order is all that the other side needs. */
static mnem_status hand_over(const mnem_buffer *b, mnem_stream *stream, const mnem_block *to,
                             const mnem_block *from, uint64_t offset, uint64_t bytes) {
    mnem_device *device = b->host.device;
    if (!device || offset > b->bytes || bytes > b->bytes - offset)
        return mnem__fail(MNEM_INVALID,
                          "buffer: bytes from %llu to %llu + %llu are not all in the buffer, which "
                          "has %llu bytes",
                          (unsigned long long)offset, (unsigned long long)offset,
                          (unsigned long long)bytes, (unsigned long long)b->bytes);
    if (stream && stream->device != device)
        return mnem__fail(MNEM_INVALID, "buffer: the stream belongs to another device than the "
                                        "buffer; use a stream of the buffer's device");
    if (b->zero_copy) {
        atomic_fetch_add(&device->bytes_zero_copy, bytes);
        mnem__event_say(MNEM__EVENT_MARK, MNEM__OWNER_FIXED, MNEM__FIXED_HANDED, MNEM__SPAN_STREAM,
                        "handed over", NULL, bytes);
        return MNEM_OK;
    }
    mnem_status status = mnem_stream_copy(device, stream, to, offset, from, offset, bytes);
    if (status == MNEM_OK) atomic_fetch_add(&device->bytes_staged, bytes);
    return status;
}

mnem_status mnem_buffer_to_device(const mnem_buffer *buffer, mnem_stream *stream, uint64_t offset,
                                  uint64_t bytes) {
    return hand_over(buffer, stream, &buffer->device, &buffer->host, offset, bytes);
}

mnem_status mnem_buffer_to_host(const mnem_buffer *buffer, mnem_stream *stream, uint64_t offset,
                                uint64_t bytes) {
    return hand_over(buffer, stream, &buffer->host, &buffer->device, offset, bytes);
}
