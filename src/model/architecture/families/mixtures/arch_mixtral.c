/* arch_mixtral.c: Mixtral: Llama's layer with experts, of which a token uses two. Its files say
 * that they are llama, and how many experts there are. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mixtral = {
    MNEM__LIKE_MIXTRAL,
    .names = {"mixtral"},
};
