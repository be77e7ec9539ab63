/* attention_contexts.h: the table of bench_attention about long contexts. */
#ifndef MNEM_BENCH_ATTENTION_CONTEXTS_H
#define MNEM_BENCH_ATTENTION_CONTEXTS_H

/* Prints a row for each case whose name contains all of the texts; 0: a case was measured. */
int bench_attention_contexts(int texts, char *const *text);

#endif
