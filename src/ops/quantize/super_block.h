/* super_block.h: a superblock of 256 while it is fitted, and what of it each type writes. */
#ifndef MNEM_SRC_OPS_QUANTIZE_SUPER_BLOCK_H
#define MNEM_SRC_OPS_QUANTIZE_SUPER_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* x ~ d * scale[i] * q - dmin * min[i] */
typedef struct mnem__super {
    float d, dmin;
    uint8_t scale[16], min[16], q[256];
} mnem__super;
void mnem__put_k2(const mnem__super *s, uint8_t *out);
void mnem__put_k45(bool five, const mnem__super *s, uint8_t *out); /* Q4_K or Q5_K */

/* x ~ d * scale[i] * q */
typedef struct mnem__signed_super {
    float d;
    int8_t scale[16], q[256];
} mnem__signed_super;
void mnem__put_k6(const mnem__signed_super *s, uint8_t *out);
void mnem__put_k3(const mnem__signed_super *s, uint8_t *out);
void mnem__put_xs(const mnem__signed_super *s, uint8_t *out); /* IQ4_XS */

#endif
