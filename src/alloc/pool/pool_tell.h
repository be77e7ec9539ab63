/* pool_tell.h: a pool's blocks and refusals as events (base/event.h), where somebody listens. */
#ifndef MNEM_SRC_ALLOC_POOL_POOL_TELL_H
#define MNEM_SRC_ALLOC_POOL_POOL_TELL_H

#include "alloc/pool/pool_private.h"
#include "base/event.h"

/* What: ALLOC, FREE. The block is live: its row says whose it is. */
void mnem__pool_tell(const mnem_pool *pool, mnem__event_what what, const mnem_pool_block *block);
/* No lock is held. */
void mnem__pool_tell_refused(mnem_pool *pool, const mnem_pool_request *request, const char *file,
                             int line, mnem_status status);

#endif
