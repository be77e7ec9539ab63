/* main.c: the mnem command. */
#include <stdio.h>

#include "mnem/mnem.h"

int main(void) {
    printf("mnem %s\n", mnem_version());
    return 0;
}
