/* arch_command_r.c: Command R: attention and feed-forward read one norm, with a mean and without a
 * bias, and are added to x together; logits have a factor. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_command_r = {
    MNEM__LIKE_COHERE,
    .names = {"command-r"},
};
