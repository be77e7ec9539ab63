/* arch_nemotron_h.c: Nemotron-H and Nemotron Nano 2: layers of one part each: a scan of Mamba 2,
 * attention without positions, or a feed-forward of one product and squared ReLU. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_nemotron_h = {
    MNEM__LIKE_NEMOTRON_H,
    .names = {"nemotron_h"},
};
