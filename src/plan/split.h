/* split.h: divides a chain of layers into parts, one for each device. Works on numbers only.
 *
 * Not here: which bytes a layer has (session.h: mnem_engine_split).
 * Threads: no state; any thread.
 *
 *     const uint64_t layers[3] = {40, 10, 10};
 *     mnem__split_device d[2] = {{.capacity_bytes = 60}, {.capacity_bytes = 50}};
 *     mnem__split_result r;
 *     mnem__plan_split(layers, 3, d, 2, &r);   // d[0] has layer 0, d[1] layers 1 and 2; room 20
 */
#ifndef MNEM_SRC_PLAN_SPLIT_H
#define MNEM_SRC_PLAN_SPLIT_H

#include "mnem/base.h"

typedef struct mnem__split_device {
    uint64_t capacity_bytes;
    uint64_t fixed_bytes;       /* in addition to the layers, on devices with layers */
    size_t layer_begin, layers; /* out: a part of the chain; the parts follow each other */
    uint64_t bytes_used;        /* out: fixed and layers; 0 without layers */
} mnem__split_device;

typedef struct mnem__split_result {
    uint64_t room_bytes;  /* left on the fullest device that has layers: no other cut leaves more */
    uint64_t short_bytes; /* on MNEM_OVER_BUDGET: the least additional bytes on every device with
                             which it would fit */
} mnem__split_result;

/* Cuts the chain, in its order and in the order of the devices, so that the fullest device has the
 * most memory left; a device may get no layer. Then layers move to a neighbour as long as that
 * leaves more memory free on the fuller of the two. Allocates no heap; O((layers + devices) log
 * bytes), and a constant for each layer moved.
 * MNEM_OVER_BUDGET when nothing fits; MNEM_INVALID without layers or devices, or when the layers'
 * bytes together, or a device's and those, pass 2^62. The devices' out fields are unspecified then.
 * Method: bisection over the room with a greedy probe, as for the chains-on-chains problem (Pinar
 * and Aykanat, Fast optimal load balancing algorithms for 1D partitioning, 2004). */
mnem_status mnem__plan_split(const uint64_t *layer_bytes, size_t layers,
                             mnem__split_device *devices, size_t device_count,
                             mnem__split_result *result);

#endif
