/* gguf.c: to come. */
