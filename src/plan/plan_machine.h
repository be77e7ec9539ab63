/* plan_machine.h: a plain machine, for times where nothing was measured.
 *
 * Times compare ways with each other, so they are nominal: the same choice on every machine. The
 * two jobs see one machine differently, hence two numbers for its memory: inference reads packed
 * weights in a row, training reads and writes f32 weights, gradients and moments by turns. */
#ifndef MNEM_SRC_PLAN_PLAN_MACHINE_H
#define MNEM_SRC_PLAN_PLAN_MACHINE_H

static const struct mnem__plain_machine {
    double read_bytes_per_s;    /* memory that is only read, all cores */
    double traffic_bytes_per_s; /* memory that is read and written, all cores */
    double disk_bytes_per_s;    /* sequential, past the page cache */
    double packed_macs_per_s;   /* 8-bit multiply-adds, all cores */
    double float_macs_per_s;    /* f32 multiply-adds, of one thread */
} mnem__plain_machine = {.read_bytes_per_s = 20e9,
                         .traffic_bytes_per_s = 10e9,
                         .disk_bytes_per_s = 1.5e9,
                         .packed_macs_per_s = 100e9,
                         .float_macs_per_s = 40e9};

#endif
