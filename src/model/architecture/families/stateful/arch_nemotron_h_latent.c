/* arch_nemotron_h_latent.c: Nemotron 3 Super: the same whose experts read a latent. Files say that
 * they are nemotron_h_moe, and how wide that is. */
#include "model/architecture/families/family.h"

const mnem__architecture mnem__architecture_nemotron_h_latent = {
    MNEM__LIKE_NEMOTRON_H_MOE,
    .names = {"nemotron-latent"},
    .tensors = {MNEM__LIST_NEMOTRON_H, MNEM__LIST_NEMOTRON_H_ROUTE, MNEM__IN(FEEDING, LATENT_DOWN),
                MNEM__IN(FEEDING, UP_EXPERTS), MNEM__IN(FEEDING, DOWN_EXPERTS),
                MNEM__IN(FEEDING, LATENT_UP), MNEM__LIST_NEMOTRON_H_SHARED, MNEM__LIST_END},
    .parts[2].latent_down = MNEM__ROLE_LATENT_DOWN,
    .parts[2].latent_up = MNEM__ROLE_LATENT_UP,
};
