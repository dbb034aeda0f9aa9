# SPDX-License-Identifier: Apache-2.0
"""A line chart with two logarithmic axes, as SVG text that reads well on light and dark pages."""
import math

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 170, 40, 50
#: Of each curve, on a light page and on a dark one.
COLOURS = [('#70757e', '#a3a9b3'), ('#d1495b', '#f08a97'), ('#3d6fb6', '#7fabea'),
           ('#3f8c84', '#7cc7bf'), ('#97701f', '#d9b469'), ('#7b2d8b', '#cf8be0')]
EMPHASISED = 'Reigen'
LABEL_WIDTH = 54


#: The sizes in the tables of a page; its pictures, targets and record have all.
SHOWN = (4, 64 << 10, 1 << 20, 64 << 20)


def shown(sizes):
    """Those of a full run that tables have; a smaller run shows all of its own."""
    return [n for n in sizes if n in SHOWN or len(sizes) <= len(SHOWN)]


def size_name(nbytes):
    for shift, unit in ((20, 'MiB'), (10, 'KiB')):
        if nbytes >= 1 << shift:
            return f'{nbytes >> shift} {unit}'
    return f'{nbytes} B'


def time_name(us):
    return f'{us / 1e6:g} s' if us >= 1e6 else f'{us / 1e3:g} ms' if us >= 1e3 else f'{us:g} us'


def escape(text):
    return text.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')


class Scale:
    """A logarithmic scale from values to coordinates."""

    def __init__(self, low, high, start, end):
        self.low, self.span = math.log(low), max(math.log(high) - math.log(low), 1e-9)
        self.start, self.end = start, end

    def __call__(self, value):
        part = (math.log(value) - self.low) / self.span
        return self.start + part * (self.end - self.start)


def text(x, y, content, anchor='middle', extra=''):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>'
            f'{escape(content)}</text>')


def grid(x, y, sizes, low, high):
    parts = []
    power = low
    while power <= high * 1.001:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" '
                     f'y1="{y(power):.1f}" y2="{y(power):.1f}"/>')
        parts.append(text(LEFT - 8, y(power) + 4, time_name(power), 'end'))
        power *= 10
    # From the right, as the largest sizes are the closest to each other in most tables.
    free = WIDTH
    for nbytes in reversed(sizes):
        if x(nbytes) + LABEL_WIDTH / 2 <= free:
            parts.append(text(x(nbytes), HEIGHT - BOTTOM + 20, size_name(nbytes)))
            free = x(nbytes) - LABEL_WIDTH / 2
    return parts


def labels(ends):
    """The names of the curves at their right ends, moved apart where they would overlap."""
    parts, last = [], -1e9
    for y, name, index in sorted(ends):
        y = max(y, last + 15)
        last = y
        weight = 'font-weight="bold"' if name.startswith(EMPHASISED) else ''
        parts.append(text(WIDTH - RIGHT + 10, y + 4, name, 'start', f'class="f{index}" {weight}'))
    return parts


def style():
    """The colours; a page's own theme says which."""
    def rules(dark):
        lines = [f'.c{i}{{stroke:{c[dark]}}}.f{i}{{fill:{c[dark]}}}' for i, c in enumerate(COLOURS)]
        return f'text{{fill:{("#4d535c", "#b9c0ca")[dark]}}}' + ''.join(lines)

    return ('<style>text{font:12px sans-serif}.grid{stroke:#9996;stroke-width:1}'
            f'polyline{{fill:none}}{rules(0)}'
            f'@media(prefers-color-scheme:dark){{{rules(1)}}}</style>')


def curves(title, data):
    """data: {name: [(nbytes, microseconds)]}."""
    points = [p for curve in data.values() for p in curve]
    sizes = sorted({p[0] for p in points})
    low = 10 ** math.floor(math.log10(min(p[1] for p in points)))
    high = 10 ** math.ceil(math.log10(max(p[1] for p in points)))
    x = Scale(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    y = Scale(low, high, HEIGHT - BOTTOM, TOP)
    parts = grid(x, y, sizes, low, high)
    ends = []
    for index, (name, curve) in enumerate(data.items()):
        index %= len(COLOURS)
        path = ' '.join(f'{x(s):.1f},{y(t):.1f}' for s, t in curve)
        width = 3 if name.startswith(EMPHASISED) else 1.5
        parts.append(f'<polyline points="{path}" class="c{index}" stroke-width="{width}"/>')
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(t):.1f}" r="{width}" class="f{index}"/>'
                  for s, t in curve]
        ends.append((y(curve[-1][1]), name, index))
    body = '\n'.join(parts + labels(ends))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'role="img">\n<title>{escape(title)}</title>\n{style()}\n'
            f'{text((LEFT + WIDTH - RIGHT) / 2, 22, title)}\n{body}\n</svg>\n')
