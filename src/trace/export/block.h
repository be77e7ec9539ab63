/* block.h: a block as memory viewers show it: an address with a lifetime. */
#ifndef MNEM_SRC_TRACE_EXPORT_BLOCK_H
#define MNEM_SRC_TRACE_EXPORT_BLOCK_H

#include <stdint.h>

#include "base/error.h"

typedef struct mnem__block {
    uint64_t address, bytes;
    uint64_t born_ns, total_born; /* total_born: the device's live bytes including it, if set */
    uint32_t account, site, stream;
} mnem__block;

/* Called when a block begins and ends. begin may set total_born. */
typedef struct mnem__block_listener {
    void (*begin)(void *context, mnem__block *b);
    void (*end)(void *context, const mnem__block *b, uint64_t ns);
    void *context;
} mnem__block_listener;

#endif
