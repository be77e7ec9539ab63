/* cuda.c: NVIDIA GPUs: the name is known, but opening one isn't supported yet (MNEM_UNSUPPORTED).
 */
#include "device/backend/backend.h"

const mnem__backend mnem__backend_cuda = {.name = "cuda"};
