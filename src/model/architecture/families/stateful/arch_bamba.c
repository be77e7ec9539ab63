/* arch_bamba.c: Bamba: as Granite 4 without experts, but attention turns heads, half of each. Files
 * say that they are granitehybrid. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_bamba = {
    MNEM__LIKE_GRANITEHYBRID,
    .names = {"bamba"},
    .turn = MNEM__TURN_NEIGHBOURS,
    .paired_heads = true,
};
