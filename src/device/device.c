/* device.c: to come. */
