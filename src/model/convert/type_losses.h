/* type_losses.h: the loss of a tensor in each type, measured on some of its rows. */
#ifndef MNEM_SRC_MODEL_CONVERT_TYPE_LOSSES_H
#define MNEM_SRC_MODEL_CONVERT_TYPE_LOSSES_H

#include "model/convert/tensor_weights.h"
#include "model/convert/type_choice.h"

/* The types among which a target chooses, at most MNEM__CHOICE_OPTIONS_MAX. */
typedef struct mnem__losses {
    const mnem_model *model;
    const mnem_imatrix *imatrix; /* or NULL */
    mnem_team *team;
} mnem__losses;

/* Measures the options of a tensor: bytes, the weighted squared error over the weighted squares,
 * and their types in types[]. */
mnem_status mnem__losses_measure(const mnem__losses *losses, uint32_t tensor, mnem__choice *choice,
                                 mnem_type *types);

#endif
