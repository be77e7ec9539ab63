/* arch_qwen35.c: Qwen 3.5: most layers are gated delta nets, the last of every four attends, with a
 * gate for what each head gives; a gated feed-forward in all. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_qwen35 = {
    MNEM__LIKE_QWEN35,
    .names = {"qwen35"},
};
