/* copy.h: elements of any strides, and of any type, to others of the same shape. */
#ifndef MNEM_SRC_OPS_VIEWS_COPY_H
#define MNEM_SRC_OPS_VIEWS_COPY_H

#include "ops/views/view.h"

/* This member's part of from's elements to to's. */
void mnem__view_copy(mnem__view_shape shape, mnem__view from, mnem__view to,
                     const mnem_worker *worker);

#endif
