/* arch_nemotron_h_moe.c: Nemotron 3 Nano: Nemotron-H with mixtures of experts, without gates,
 * chosen by sigmoids and a bias, instead of feed-forwards. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_nemotron_h_moe = {
    MNEM__LIKE_NEMOTRON_H_MOE,
    .names = {"nemotron_h_moe"},
    .tensors = {MNEM__LIST_NEMOTRON_H, MNEM__LIST_NEMOTRON_H_ROUTE, MNEM__IN(FEEDING, UP_EXPERTS),
                MNEM__IN(FEEDING, DOWN_EXPERTS), MNEM__LIST_NEMOTRON_H_SHARED, MNEM__LIST_END},
    .others = {{"nemotron-latent", .key = "moe_latent_size"}},
};
