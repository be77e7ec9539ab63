/* arch_granitehybrid.c: Granite 4: scans in most layers, attention without RoPE in others; factors
 * of embedding, residuals, scores and logits. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_granitehybrid = {
    MNEM__LIKE_GRANITEHYBRID,
    .names = {"granitehybrid"},
    .others = {{"granite-h-moe", .key = "expert_count"},
               {"bamba", .key = "rope.scaling.finetuned"}},
};
