/* mnem/mnem.h: all of libmnem. */
#ifndef MNEM_H
#define MNEM_H

#include "mnem/models.h"
#include "mnem/runtime.h"

#endif
