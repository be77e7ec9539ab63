/* in_place.h: the inputs that an operator may overwrite, by its kind. */
#ifndef MNEM_SRC_OPS_QUERY_IN_PLACE_H
#define MNEM_SRC_OPS_QUERY_IN_PLACE_H

#include "ops/core/op_impl.h"

/* Bits of the inputs that out may overwrite if type, shape and strides are equal. */
unsigned mnem__op_overwrites(mnem_op_kind kind);

#endif
