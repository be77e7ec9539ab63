/* svg.h: a drawing with two axes, for verbs that draw. */
#ifndef MNEM_TOOLS_MNEM_SVG_H
#define MNEM_TOOLS_MNEM_SVG_H

#include "output_file.h"

enum { SVG_LEFT = 100, SVG_TOP = 64, SVG_WIDTH = 1100, SVG_HEIGHT = 560, SVG_BOTTOM = 90 };

typedef struct tool_svg {
    FILE *file; /* the stream of out */
    tool_new *out;
    double left, right, low, high; /* the values at the edges of the field */
} tool_svg;

/* Draws a title, a subtitle, and an empty field. False, with a message: path can't be written. One
 * drawing at a time. */
bool tool_svg_begin(tool_svg *svg, const char *path, const char *title, const char *subtitle);
/* Completes the file; returns an exit code. */
int tool_svg_end(tool_svg *svg);
/* The pixel coordinate of a value. */
double tool_svg_x(const tool_svg *svg, double x);
double tool_svg_y(const tool_svg *svg, double y);
/* Draws ticks and a label; `text` writes a tick's value. Ticks are at 1, 2 or 5 times a power of
 * ten, or at powers of two for bytes. */
typedef char *tool_svg_number(double number, char text[TOOL_TEXT]);
void tool_svg_axis_x(tool_svg *svg, const char *label, bool bytes, tool_svg_number *text);
void tool_svg_axis_y(tool_svg *svg, const char *label, bool bytes, tool_svg_number *text);
char *tool_svg_bytes(double number, char text[TOOL_TEXT]);
char *tool_svg_plain(double number, char text[TOOL_TEXT]);
/* Writes text, escaped for XML. */
void tool_svg_text(FILE *file, const char *text);

#endif
