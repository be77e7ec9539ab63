/* session.c: to come. */
