/* arch_cohere2.c: Command R7B and Command A: Command R's layer; three layers of four have a window,
 * and only these turn heads. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_cohere2 = {
    MNEM__LIKE_COHERE,
    .names = {"cohere2"},
    .windowed = MNEM__ALL_BUT_EVERY(4),
    .windows_turn = MNEM__WINDOWS_ALWAYS_TURN,
};
