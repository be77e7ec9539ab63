/* ledger.c: to come. */
