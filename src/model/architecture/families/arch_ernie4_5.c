/* arch_ernie4_5.c: ERNIE 4.5: Llama's layer. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_ernie4_5 = {
    MNEM__LIKE_LLAMA,
    .names = {"ernie4_5"},
};
