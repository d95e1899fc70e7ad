#!/usr/bin/env python3
"""Draws rates over context depth as an SVG.

usage: plot_depth.py OUT.svg TITLE BENCH.json...

Each file is the output of `fathom bench --json` at one depth.
"""
import json
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 300, 70, 40, 70, 45
SERIES = (("prefill_tok_s", "prefill", "#1f5fa8"), ("decode_tok_s", "decode", "#b5482a"))


def position(depth):
    """Depths grow by factors; 0 lies a step before the first of the others."""
    return math.log2(max(depth, 1024) / 1024)


def main():
    out, title, *files = sys.argv[1:]
    runs = sorted((run for name in files for run in json.load(open(name))), key=lambda run: run["depth"])
    depths = [run["depth"] for run in runs]
    last = position(depths[-1])
    x = [LEFT + (WIDTH - LEFT - RIGHT) * position(depth) / last for depth in depths]
    bottom = HEIGHT - BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="14">{title}</text>',
        f'<path d="M{LEFT} {bottom}H{WIDTH - RIGHT}M{LEFT} {TOP}V{bottom}" stroke="#444" fill="none"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">tokens before</text>',
    ]
    for depth, at in zip(depths, x):
        label = f"{depth // 1024}K" if depth >= 1024 else str(depth)
        parts.append(f'<text x="{at:.0f}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    for key, name, colour in SERIES:
        rates = [run[key] for run in runs]
        y = [bottom - (bottom - TOP) * rate / (1.1 * max(rates)) for rate in rates]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for a, b, rate in zip(x, y, rates):
            parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>')
            parts.append(f'<text x="{a:.1f}" y="{b - 8:.1f}" text-anchor="middle" fill="{colour}">{rate:.0f}</text>')
        parts.append(f'<text x="{x[-1] + 12:.0f}" y="{y[-1] + 4:.1f}" fill="{colour}">{name}</text>')
    parts.append("</svg>\n")
    with open(out, "w") as file:
        file.write("\n".join(parts))


main()
