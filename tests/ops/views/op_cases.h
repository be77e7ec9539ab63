/* op_cases.h: operators with operands and the results that NumPy had, from a file that
 * op_numpy.py wrote: run with guard pages and compared.
 *
 * A file is cases behind each other, each an op_case, then the bytes of its inputs, of out before
 * and of out afterwards, all little-endian. Tensors say where elements are, as in tensor.h. */
#ifndef MNEM_TESTS_OPS_VIEWS_OP_CASES_H
#define MNEM_TESTS_OPS_VIEWS_OP_CASES_H

#include <stdint.h>

enum { OP_CASE_INPUTS = 7, OP_CASE_DIMS = 4 };

typedef struct op_case_tensor {
    int64_t type, dims; /* dims 0: absent */
    int64_t shape[OP_CASE_DIMS], stride[OP_CASE_DIMS];
    int64_t offset, bytes;
} op_case_tensor;

typedef struct op_case {
    char kind[16];  /* as mnem_op_text says it; "int4": weights of mnem_pack_int4, then MATMUL */
    char text[112]; /* what it is, for a failure */
    int64_t tokens, workers, axis, axes, reduce, accumulate, refused;
    double alpha, scale;
    double absolute, relative; /* how far an element may be from NumPy's */
    op_case_tensor in[OP_CASE_INPUTS], out;
} op_case;

/* All cases of a file, at every level of the processor and in place of inputs too where they say
 * so: gives how many there were, and -1 when one fails, which is printed. */
int64_t op_cases_run(const char *path);

#endif
