/* pager.h: long texts for a person at a terminal, a screen at a time, as git shows them. */
#ifndef MNEM_TOOLS_MNEM_SCREEN_PAGER_H
#define MNEM_TOOLS_MNEM_SCREEN_PAGER_H

/* Standard output goes through a pager from now on: $PAGER, or less, which prints a text that fits
 * on the screen and ends. Nothing happens where standard input or output isn't a terminal, that is
 * "dumb", or $PAGER is "cat". */
void tool_page_begin(void);
/* Writes what is left, and waits until the reader has closed the pager. Returns code, or what
 * tool_out_end says. */
int tool_page_end(int code);

#endif
