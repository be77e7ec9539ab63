/* arch_smallthinker.c: SmallThinker: experts with ReLU, chosen by what a layer begins with; the
 * first of every four layers has no window where the others have one, and turns no heads then. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_smallthinker = {
    MNEM__LIKE_MIXTRAL,
    .names = {"smallthinker"},
    .turn = MNEM__TURN_HALVES,
    .parts[1].core = MNEM_OP_RELU_MUL,
    .parts[1].early = true,
    .windows_behind = 4,
    .windows_turn = MNEM__WINDOWS_TURN,
};
