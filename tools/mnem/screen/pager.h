/* pager.h: shows long texts on a terminal through a pager, as git does. */
#ifndef MNEM_TOOLS_MNEM_SCREEN_PAGER_H
#define MNEM_TOOLS_MNEM_SCREEN_PAGER_H

/* Sends standard output through a pager from now on: $PAGER, or less, which only prints a text that
 * fits on the screen. Does nothing if standard input or output isn't a terminal, the terminal is
 * "dumb", or $PAGER is "cat". */
void tool_page_begin(void);
/* Flushes the output, and waits until the user closes the pager. Returns code if it isn't
 * TOOL_OK, else that of tool_out_end. */
int tool_page_end(int code);

#endif
