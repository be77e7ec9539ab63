/* in_place.h: which inputs an operator may write over, by its kind alone. */
#ifndef MNEM_SRC_OPS_QUERY_IN_PLACE_H
#define MNEM_SRC_OPS_QUERY_IN_PLACE_H

#include "ops/core/op_impl.h"

/* Bits of the inputs whose place out may take where type, shape and strides are the same. */
unsigned mnem__op_overwrites(mnem_op_kind kind);

#endif
