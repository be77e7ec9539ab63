/* graph.c: to come. */
