/* plan_machine.h: a nominal machine, for times where nothing was measured.
 *
 * Times only compare ways with each other, so nominal values give the same choice on every machine.
 * There are two memory bandwidths, because inference reads packed weights sequentially, while
 * training alternately reads and writes f32 weights, gradients and moments. */
#ifndef MNEM_SRC_PLAN_PLAN_MACHINE_H
#define MNEM_SRC_PLAN_PLAN_MACHINE_H

static const struct mnem__plain_machine {
    double read_bytes_per_s;    /* memory, reading only, all cores */
    double traffic_bytes_per_s; /* memory, reading and writing, all cores */
    double disk_bytes_per_s;    /* sequential, past the page cache */
    double packed_macs_per_s;   /* 8-bit multiply-adds, all cores */
    double float_macs_per_s;    /* f32 multiply-adds, one thread */
} mnem__plain_machine = {.read_bytes_per_s = 20e9,
                         .traffic_bytes_per_s = 10e9,
                         .disk_bytes_per_s = 1.5e9,
                         .packed_macs_per_s = 100e9,
                         .float_macs_per_s = 40e9};

#endif
