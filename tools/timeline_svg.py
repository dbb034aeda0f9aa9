#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw a part of a timeline as an SVG picture, for the documentation.

usage: tools/timeline_svg.py TIMELINE.json OUT.svg [--from MS] [--for MS] [--title TEXT]

A row for each tensor that has something to show in that time, its operations as bars, what they do
within as a second, thinner bar, and a tick for each rank that comes. Without --from: the middle.
"""
import argparse
import html
import json

WIDTH, LEFT, RIGHT, TOP, ROW = 1000, 190, 24, 92, 46
COLOURS = {'NEGOTIATE': '#d9a441', 'OPERATION': '#3f7cac', 'QUEUE': '#c9ced6', 'INLINE': '#6bb39b',
           'PLANE': '#6bb39b', 'MEMCPY': '#b07aa1', 'ALLOCATE': '#b07aa1'}
LEGEND = [('NEGOTIATE', 'waits for the other ranks'), ('OPERATION', 'operation'),
          ('QUEUE', 'queued'), ('PLANE', 'moves and reduces'), ('MEMCPY', 'copies, allocates')]


def kind(name):
    for start in ('NEGOTIATE', 'QUEUE', 'MEMCPY', 'ALLOCATE'):
        if name.startswith(start):
            return start
    return 'PLANE' if name.startswith('REIGEN') else 'OPERATION'


def read(path):
    """({lane: name}, [(lane, depth, name, begin, end)], [(lane, rank, time)]), in milliseconds."""
    with open(path, encoding='utf-8') as file:
        events = json.load(file)
    names, open_spans, spans, ranks = {}, {}, [], []
    for event in events:
        lane = event['pid']
        if event.get('name') == 'process_name':
            names[lane] = event['args']['name']
        elif event['ph'] == 'B':
            open_spans.setdefault(lane, []).append((event['name'], event['ts'] / 1000))
        elif event['ph'] == 'E':
            name, begin = open_spans[lane].pop()
            spans.append((lane, len(open_spans[lane]), name, begin, event['ts'] / 1000))
        elif event['ph'] == 'i' and event['name'].isdigit():
            ranks.append((lane, event['name'], event['ts'] / 1000))
    return names, spans, ranks


def short(name):
    name = name.split('.', 1)[-1]
    return name if len(name) < 25 else name[:23] + '…'


#: Words and lines take their colours from the theme of the page.
STYLE = '''<style>
.paper{fill:#fff}.ink{fill:#2b2f36}.soft{fill:#5d6674}.dark{fill:#23272e}.light{fill:#fff}
.rank{fill:#c0392b}line.grid{stroke:#e6e8ec}line.rank{stroke:#c0392b;stroke-width:1.2}
.stripe{fill:#2b2f36;fill-opacity:.03}
@media(prefers-color-scheme:dark){.paper{fill:#14181e}.ink{fill:#e6e9ee}.soft{fill:#9aa4b2}
.rank{fill:#ff8a7a}line.grid{stroke:#2f3742}line.rank{stroke:#ff8a7a}.stripe{fill:#fff}}
</style>'''


class Picture:
    """The parts of the SVG, and the scale of time."""

    def __init__(self, begin, length, rows):
        self.begin, self.length, self.rows = begin, length, rows
        self.height = TOP + ROW * len(rows) + 48
        self.parts = []

    def x(self, ms):
        return LEFT + (ms - self.begin) / self.length * (WIDTH - LEFT - RIGHT)

    def add(self, element, text=None, **attributes):
        words = ' '.join(f'{k.rstrip("_").replace("_", "-")}="{v}"'
                         for k, v in attributes.items())
        body = f'>{html.escape(text)}</{element}>' if text is not None else '/>'
        self.parts.append(f'<{element} {words}{body}')

    def text(self, x, y, text, size=12, colour='ink', anchor='start', weight='normal'):
        self.add('text', text, x=f'{x:.1f}', y=f'{y:.1f}', font_size=size, class_=colour,
                 text_anchor=anchor, font_weight=weight)

    def bar(self, begin, end, y, height, colour, label=''):
        left, right = max(self.x(begin), LEFT), min(self.x(end), WIDTH - RIGHT)
        width = max(right - left, 1.5)
        self.add('rect', x=f'{left:.2f}', y=y, width=f'{width:.2f}', height=height, rx=2,
                 fill=colour)
        if width > 6.4 * len(label) + 6:
            on_bar = 'dark' if colour == COLOURS['QUEUE'] else 'light'
            self.text(left + width / 2, y + height - 4, label, 10, on_bar, 'middle')


def draw_frame(picture, title):
    picture.text(16, 28, title, 17, weight='600')
    x = 16
    for name, words in LEGEND:
        picture.add('rect', x=x, y=43, width=12, height=12, rx=2, fill=COLOURS[name])
        picture.text(x + 18, 53, words, 12)
        x += 40 + 6.4 * len(words)
    picture.text(x, 53, '│', 12, 'rank')
    picture.text(x + 12, 53, 'a rank comes')
    step = next(s for s in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 1000, 1e9)
                if picture.length / s <= 12)
    bottom = TOP + ROW * len(picture.rows)
    for i in range(int(picture.length / step + 1e-9) + 1):
        x = picture.x(picture.begin + i * step)
        picture.add('line', x1=f'{x:.1f}', x2=f'{x:.1f}', y1=TOP - 8, y2=bottom, class_='grid')
        picture.text(x, bottom + 18, f'{i * step:g}', 11, 'soft', 'middle')
    picture.text(WIDTH - RIGHT, bottom + 36, 'milliseconds', 11, 'soft', 'end')


def draw(names, spans, ranks, begin, length, title):
    seen = {}
    for lane, depth, _, start, end in spans:
        if depth == 0 and end > begin and start < begin + length:
            seen.setdefault(lane, start)
    rows = sorted(seen, key=seen.get)
    picture = Picture(begin, length, rows)
    draw_frame(picture, title)
    for number, lane in enumerate(rows):
        y = TOP + ROW * number
        if number % 2 == 0:
            picture.add('rect', x=0, y=y, width=WIDTH, height=ROW, class_='stripe')
        picture.text(LEFT - 12, y + 21, short(names[lane]), 12, anchor='end')
        picture.text(LEFT - 12, y + 36, names[lane].split('.')[0], 10, 'soft', 'end')
        for each, depth, name, start, end in spans:
            if each == lane and end > begin and start < begin + length:
                label = name if depth == 0 else name.replace('REIGEN_', '')
                picture.bar(start, end, y + (6 if depth == 0 else 24), 16 if depth == 0 else 14,
                            COLOURS[kind(name)], label)
        for each, rank, when in ranks:
            if each == lane and begin <= when < begin + length:
                x = picture.x(when)
                picture.add('line', x1=f'{x:.1f}', x2=f'{x:.1f}', y1=y + 3, y2=y + 45,
                            class_='rank')
                # Below the bars, so that it covers no label of theirs.
                picture.text(x + 2, y + 45, rank, 8, 'rank')
    return picture


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('timeline')
    parser.add_argument('out')
    parser.add_argument('--from', dest='begin', type=float)
    parser.add_argument('--for', dest='length', type=float, default=50.0)
    parser.add_argument('--title', default='Timeline')
    args = parser.parse_args()
    names, spans, ranks = read(args.timeline)
    begin = args.begin
    if begin is None:
        begin = sorted(s[3] for s in spans)[len(spans) // 2]
    picture = draw(names, spans, ranks, begin, args.length, args.title)
    with open(args.out, 'w', encoding='utf-8') as out:
        out.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {picture.height}" '
                  f'width="{WIDTH}" height="{picture.height}" font-family="sans-serif">\n'
                  f'{STYLE}\n<rect width="100%" height="100%" class="paper"/>\n'
                  + '\n'.join(picture.parts) + '\n</svg>\n')


if __name__ == '__main__':
    main()
