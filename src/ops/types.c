/* types.c: to come. */
