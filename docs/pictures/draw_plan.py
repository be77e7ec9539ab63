#!/usr/bin/env python3
"""draw_plan.py <RUN.json >PICTURE.svg: draws the plan of a run beside its ledger and the kernel's count.

The input is the output of `mnem run MODEL --memory SIZE -p TEXT --json -v`; the object with the plan is
used, other lines are passed over. docs/pictures/plan.json is that object of one run of
Qwen2.5-Coder 1.5B, and docs/pictures/plan.svg its picture.
"""
import json
import os
import sys
from html import escape

MIB = 1 << 20
WIDTH, LEFT, RIGHT = 840, 190, 24  # of the picture; LEFT is where bars begin
KINDS = [  # of the ledger, with what they hold and their colour on light and on dark ground
    ("weights", "weights that stay in memory", "#2f6fb3", "#5b9bdc"),
    ("kv", "keys and values", "#2a8a64", "#46b98b"),
    ("activation", "activations and logits", "#b7791f", "#e0a94a"),
    ("io", "ring of buffers for streamed weights", "#8a4fb0", "#b98ae0"),
    ("host", "tokenizer, tables, graph", "#b04a5a", "#e08090"),
    ("runtime", "code, libraries, stacks, reserve", "#6b7280", "#9aa4b2"),
]
STYLE_LIGHT = {"ground": "#ffffff", "frame": "#d0d7de", "ink": "#1f2328", "soft": "#59636e", "rest": "#e4e8ed"}
STYLE_DARK = {"ground": "#0d1117", "frame": "#3d444d", "ink": "#e6edf3", "soft": "#9aa4b2", "rest": "#2a313a"}


def read_run(lines):
    """The object of a run that has a plan, a ledger and statistics."""
    for line in lines:
        run = json.loads(line)
        if {"plan", "ledger", "stats"} <= run.keys():
            return run
    sys.exit("draw_plan: no object with a plan, a ledger and stats (mnem run ... --json -v)")


def by_kind(rows, key):
    """Bytes of each kind. Kinds without a colour of their own (workspace) join the activations."""
    known = {kind for kind, *_ in KINDS}
    sums = dict.fromkeys(known, 0)
    for row in rows:
        sums[row["kind"] if row["kind"] in known else "activation"] += row[key]
    return sums


def size(count):
    value = count / MIB
    return f"{value / 1024:.2f} GiB" if value >= 1024 else f"{value:.1f} MiB" if value < 100 else f"{value:.0f} MiB"


class Picture:
    def __init__(self):
        self.parts = []

    def text(self, x, y, text, kind="", anchor="start"):
        self.parts.append(f'<text x="{x:.1f}" y="{y}" class="t {kind}" text-anchor="{anchor}">{escape(text)}</text>')

    def box(self, x, y, width, height, kind):
        self.parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}" class="{kind}"/>')

    def line(self, x, top, bottom, kind):
        self.parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" class="{kind}"/>')

    def svg(self, height, label):
        def rules(style, column):
            fills = [f".k-{kind[0]}{{fill:{kind[column]}}}" for kind in KINDS]
            return "".join(fills) + (
                f".ground{{fill:{style['ground']};stroke:{style['frame']}}}.rest{{fill:{style['rest']}}}"
                f".t{{fill:{style['ink']}}}.soft{{fill:{style['soft']}}}.edge{{stroke:{style['ink']}}}"
                f".count{{fill:none;stroke:{style['ink']}}}")
        style = (".t{font:14px system-ui,'Segoe UI',Helvetica,Arial,sans-serif}.big{font-size:17px;font-weight:600}"
                 ".num{font-variant-numeric:tabular-nums}.edge{stroke-width:1.5;stroke-dasharray:5 3}"
                 ".count{stroke-width:1.5}" + rules(STYLE_LIGHT, 2) +
                 "@media (prefers-color-scheme:dark){" + rules(STYLE_DARK, 3) + "}")
        ground = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8" class="ground"/>'
        return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                          f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(label)}">',
                          f"<style>{style}</style>", ground, *self.parts, "</svg>", ""])


def draw_stack(picture, y, label, sums, scale):
    picture.text(LEFT - 12, y + 20, label, anchor="end")
    x = LEFT
    for kind, *_ in KINDS:
        picture.box(x, y, sums[kind] * scale, 30, f"k-{kind}")
        x += sums[kind] * scale


def draw_file(picture, y, plan, scale):
    """The weights in the file: what stays in memory, what is read for every token, and the rest."""
    resident, streamed = plan["weight_bytes_resident"], plan["bytes_streamed_per_pass"]
    picture.text(LEFT - 12, y + 20, "Weights in the file", anchor="end")
    picture.box(LEFT, y, plan["weight_bytes"] * scale, 30, "rest")
    picture.box(LEFT, y, resident * scale, 30, "k-weights")
    picture.box(LEFT + resident * scale, y, streamed * scale, 30, "k-io")
    picture.text(LEFT, y + 50, f"{size(resident)} resident", "soft")
    picture.text(LEFT + resident * scale + 4, y + 50, f"{size(streamed)} streamed from disk for every token", "soft")
    picture.text(WIDTH - RIGHT, y + 50, f"{size(plan['weight_bytes'] - resident - streamed)} read by row", "soft", "end")


def draw_table(picture, y, planned, held, totals):
    for x, title in ((WIDTH - 180, "plan"), (WIDTH - RIGHT, "ledger")):
        picture.text(x, y, title, "soft", "end")
    for kind, what, *_ in KINDS:
        y += 22
        picture.box(LEFT, y - 11, 12, 12, f"k-{kind}")
        picture.text(LEFT + 22, y, what)
        picture.text(WIDTH - 180, y, f"{planned[kind]:,} bytes", "num", "end")
        picture.text(WIDTH - RIGHT, y, f"{held[kind]:,} bytes", "num", "end")
    y += 26
    picture.text(LEFT + 22, y, "sum")
    picture.text(WIDTH - 180, y, f"{totals[0]:,} bytes", "num", "end")
    picture.text(WIDTH - RIGHT, y, f"{totals[1]:,} bytes", "num", "end")
    return y


def draw(run):
    plan, ledger, stats = run["plan"], run["ledger"], run["stats"]
    planned, held = by_kind(plan["lines"], "bytes"), by_kind(ledger["accounts"], "bytes_live")
    assert sum(planned.values()) == plan["peak_bytes"] and sum(held.values()) == ledger["bytes_live"]
    budget, room = plan["budget_bytes"], WIDTH - LEFT - RIGHT
    name = os.path.basename(plan["model"]).removesuffix(".gguf")
    picture = Picture()
    picture.text(20, 32, f"{name}: {size(plan['weight_bytes'])} of weights in a budget of {size(budget)}", "big")
    draw_file(picture, 50, plan, room / plan["weight_bytes"])
    scale = room / budget
    draw_stack(picture, 124, "Plan, before loading", planned, scale)
    draw_stack(picture, 160, "Ledger, at the end", held, scale)
    picture.text(LEFT - 12, 216, "Kernel (VmHWM)", anchor="end")
    picture.box(LEFT, 196, stats["vmhwm"] * scale, 30, "count")
    picture.text(LEFT + 10, 216, f"peak of the whole process: {stats['vmhwm']:,} bytes", "num")
    picture.line(LEFT + room, 116, 232, "edge")
    picture.text(LEFT + room, 250, f"budget: {budget:,} bytes", "soft num", "end")
    bottom = draw_table(picture, 282, planned, held, (plan["peak_bytes"], ledger["bytes_live"]))
    label = f"Plan, ledger and kernel's count of {name} in a budget of {size(budget)}"
    return picture.svg(bottom + 20, label)


if __name__ == "__main__":
    sys.stdout.write(draw(read_run(sys.stdin)))
