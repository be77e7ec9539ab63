/* weights_idle.h: when the readers of weights have done all that there is to do. The program links
 * with -Wl,--wrap=pthread_cond_wait, through which they wait for work. */
#ifndef MNEM_TESTS_MODEL_WEIGHTS_IDLE_H
#define MNEM_TESTS_MODEL_WEIGHTS_IDLE_H

#include "model/weights/weights.h"

/* Wakes every reader, and waits until each has looked for work again and found none. Nothing is
 * read from then on unless something is scheduled, wanted, guessed or released. */
void weights_idle(mnem__weights *weights);

#endif
