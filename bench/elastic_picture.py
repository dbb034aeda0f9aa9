# SPDX-License-Identifier: Apache-2.0
"""docs/elastic.svg: the losses of a training that lost a host and gained two, beside another one's.

usage: bench/elastic_picture.py CHANGED UNDISTURBED     reports of pytorch_mnist_elastic.py
"""
import json
import sys
from pathlib import Path

import plot

PICTURE = Path(__file__).resolve().parents[1] / 'docs/elastic.svg'
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 360, 60, 150, 46, 50
TITLE = 'Loss of MNIST while hosts come and go'


def averaged(losses, over=5):
    """[(passes, mean of the last losses)]"""
    values = [loss for *_, loss in losses]
    return [(position, sum(values[max(0, i - over + 1):i + 1]) / min(i + 1, over))
            for i, (_, position, _, _) in enumerate(losses)]


def changes(losses):
    """[(passes, ranks)] where the number of ranks is another one."""
    return [(before[1], after[2]) for before, after in zip(losses, losses[1:])
            if before[2] != after[2]]


def axes(x, y, passes):
    parts = []
    for loss in (0.05, 0.1, 0.2, 0.5, 1, 2):
        parts += [f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(loss):.1f}" '
                  f'y2="{y(loss):.1f}"/>', plot.text(LEFT - 8, y(loss) + 4, f'{loss:g}', 'end')]
    parts += [plot.text(x(i), HEIGHT - BOTTOM + 18, str(i)) for i in range(passes + 1)]
    return [*parts, plot.text(x(passes / 2), HEIGHT - 12, 'passes over the images')]


def curve(points, x, y, index, width, name, raised):
    path = ' '.join(f'{x(p):.1f},{y(loss):.1f}' for p, loss in points)
    return [f'<polyline points="{path}" class="c{index}" stroke-width="{width}"/>',
            plot.text(WIDTH - RIGHT + 10, y(points[-1][1]) + raised, name, 'start',
                      f'class="f{index}"')]


def draw(changed, undisturbed):
    passes = round(changed['losses'][-1][1])
    y = plot.Scale(0.03, 2.5, HEIGHT - BOTTOM, TOP)

    def x(position):
        return LEFT + (WIDTH - RIGHT - LEFT) * position / passes

    parts = [plot.text((LEFT + WIDTH - RIGHT) / 2, 20, TITLE), *axes(x, y, passes)]
    for position, ranks in changes(changed['losses']):
        parts += [f'<line class="grid" x1="{x(position):.1f}" x2="{x(position):.1f}" y1="{TOP}" '
                  f'y2="{HEIGHT - BOTTOM}"/>',
                  plot.text(x(position) + 4, TOP + 10, f'{ranks} ranks', 'start')]
    parts += curve(averaged(undisturbed['losses']), x, y, 0, 1.5, 'undisturbed: 4 ranks', 17)
    parts += curve(averaged(changed['losses']), x, y, 1, 2, 'a host lost, two gained', -5)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'role="img">\n<title>{TITLE}</title>\n{plot.style()}\n' + '\n'.join(parts)
            + '\n</svg>\n')


if __name__ == '__main__':
    PICTURE.write_text(draw(*(json.loads(Path(name).read_text()) for name in sys.argv[1:3])),
                       encoding='utf-8')
