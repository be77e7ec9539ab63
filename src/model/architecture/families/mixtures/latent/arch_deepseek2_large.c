/* arch_deepseek2_large.c: DeepSeek-V2 and V3, as large as they are: as deepseek2, with queries
 * through a latent of their own. Files say that they are deepseek2, and how wide that is. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_deepseek2_large = {
    MNEM__LIKE_DEEPSEEK2_LARGE,
    .names = {"deepseek2-large"},
};
