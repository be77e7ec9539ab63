/* place.c: to come. */
