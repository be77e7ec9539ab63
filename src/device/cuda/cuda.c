/* cuda.c: NVIDIA GPUs are known by name; no build can open one yet, and opening says so. */
#include "device/backend/backend.h"

const mnem__backend mnem__backend_cuda = {.name = "cuda"};
