/* arch_mimo2.c: MiMo V2: values that are narrower than keys; layers with a window have more of
 * both, another base of RoPE, and a sink in each head; dense layers first, then experts chosen by
 * sigmoids and a bias. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_mimo2 = {
    MNEM__LIKE_MIMO2,
    .names = {"mimo2"},
    .others = {{"mimo2-qkv", .role = MNEM__ROLE_QKV}},
};
