# SPDX-License-Identifier: Apache-2.0
"""Four ranks learn to read digits, and a page shows how: what `make demo` runs.

usage: python examples/demo.py [-np N] [--out DIR] [options of pytorch_mnist.py]

DIR (build/demo) gets log.txt, report.json, model.pt and index.html.
"""
import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FINAL = re.compile(r'accuracy [0-9.]+, ')
PROGRESS = re.compile(r'train epoch (\d+)/(\d+): +(\d+) %, loss ([0-9.]+)')


def launcher():
    """The reigen that belongs to this python, else the first one on PATH."""
    beside = os.path.join(os.path.dirname(sys.executable), 'reigen')
    found = beside if os.path.exists(beside) else shutil.which('reigen')
    if found is None:
        sys.exit('demo: reigen was found neither beside this python nor on PATH; run make')
    return found


def bar(match, width=28):
    epoch, epochs, percent, loss = int(match[1]), int(match[2]), int(match[3]), match[4]
    done = (epoch - 1 + percent / 100) / epochs
    full = int(width * done)
    blocks = '#' * full + '.' * (width - full)
    return f'  [{blocks}] {100 * done:3.0f} %, epoch {epoch}/{epochs} {percent:3d} %, loss {loss}'


def follow(command, log):
    """Run it: (its status, its last words). The output goes to the log, and here with the progress
    as one line and without rank 0's tag."""
    live = sys.stdout.isatty()
    shown, final = -1, ''
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors='replace')
    try:
        for line in child.stdout:
            log.write(line)
            match = PROGRESS.search(line)
            text = line[4:] if line.startswith('[0] ') else line
            if FINAL.match(text):
                final = text.rstrip()
            elif not match:
                print(('\r\033[K' if live else '') + text, end='', flush=True)
            elif live:
                print('\r\033[K' + bar(match), end='', flush=True)
            elif int(match[3]) // 50 != shown:
                shown = int(match[3]) // 50
                print(bar(match), flush=True)
    except KeyboardInterrupt:
        pass  # The terminal has sent it to the launcher too, which ends its ranks.
    return child.wait(), final


# ---------------------------------------------------------------------------- the page

STYLE = '''
:root{--ink:#1c2430;--soft:#5d6878;--line:#dfe4ea;--paper:#fbfbf9;--a:#2458a6;--b:#d9822b}
@media(prefers-color-scheme:dark){:root{--ink:#e8ebef;--soft:#9aa5b4;--line:#333c48;
--paper:#15191f;--a:#7aa7ec;--b:#eba559}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);
font:16px/1.5 system-ui,sans-serif}main{max-width:900px;margin:0 auto;padding:44px 24px 60px}
h1{font-size:28px;line-height:1.2;font-weight:650;letter-spacing:-.01em;margin:0 0 6px}
h2{font-size:16px;font-weight:600;margin:0 0 2px}p{margin:0;color:var(--soft)}
dl{display:grid;grid-template-columns:repeat(4,1fr);margin:30px 0 34px;padding:20px 0;
border:solid var(--line);border-width:1px 0}dt{color:var(--soft);font-size:13px}
dd{margin:0;font-size:27px;font-weight:600;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.two{display:grid;grid-template-columns:1fr 1fr;gap:36px;margin-bottom:34px}
section p{font-size:13px;margin-bottom:10px}
svg{display:block;width:100%;height:auto;overflow:visible}
text{fill:var(--soft);font:12px system-ui,sans-serif;font-variant-numeric:tabular-nums}
.grid{stroke:var(--line)}.a{stroke:var(--a)}.b{stroke:var(--b)}.line{fill:none;stroke-width:2.2;
stroke-linejoin:round;stroke-linecap:round}.dot{fill:var(--paper);stroke-width:2.2}
.fa{background:var(--a)}.fb{background:var(--b)}
.bars{display:grid;grid-template-columns:max-content 1fr max-content;gap:9px 14px;font-size:14px;
align-items:center;font-variant-numeric:tabular-nums}.bars b{font-weight:600}
.bars span{color:var(--soft)}
.bar{display:flex;gap:2px;height:22px}.bar i{border-radius:2px;min-width:1px}
code{overflow-wrap:anywhere}
@media(max-width:640px){.two{grid-template-columns:1fr}dl{grid-template-columns:1fr 1fr;gap:16px 0}}
'''
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 400, 220, 44, 26, 10


def ticks(low, high, count=4):
    step = (high - low) / count
    return [low + i * step for i in range(count + 1)]


def chart(lines, epochs, low, high, form):
    """An SVG with lines of (epoch, value). lines: [(class, points, with dots?)]."""
    def x(epoch):
        return LEFT + (WIDTH - LEFT - 8) * epoch / epochs

    def y(value):
        value = min(max(value, low), high)
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for value in ticks(low, high):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH}" y1="{y(value):.1f}" '
                     f'y2="{y(value):.1f}"/><text x="{LEFT - 8}" y="{y(value) + 4:.1f}" '
                     f'text-anchor="end">{form(value)}</text>')
    every = max(1, epochs // 8)
    for epoch in range(0, epochs + 1, every):
        parts.append(f'<text x="{x(epoch):.1f}" y="{HEIGHT - 6}" text-anchor="middle">'
                     f'{epoch}</text>')
    for colour, points, dots in lines:
        path = ' '.join(f'{x(e):.1f},{y(v):.1f}' for e, v in points)
        parts.append(f'<polyline class="line {colour}" points="{path}"/>')
        if dots:
            parts += [f'<circle class="dot {colour}" cx="{x(e):.1f}" cy="{y(v):.1f}" r="3.6">'
                      f'<title>epoch {e}: {form(v)}</title></circle>' for e, v in points]
    return ''.join(parts) + '</svg>'


def smooth(points, weight=0.8):
    """An exponential mean, so that the loss of single steps can be read."""
    result, mean = [], None
    for epoch, value in points:
        mean = value if mean is None else weight * mean + (1 - weight) * value
        result.append((epoch, mean))
    return result


def rank_bars(ranks):
    """A row per rank, which stays readable on a narrow screen."""
    longest = max(rank['seconds'] for rank in ranks)
    rows = []
    for rank in ranks:
        waiting = rank['communicating']
        computing = max(rank['seconds'] - waiting, 0)
        widths = [100 * value / longest for value in (computing, waiting)]
        rows.append(f'<b>rank {rank["rank"]}</b><div class="bar">'
                    f'<i class="fa" style="width:{widths[0]:.1f}%"></i>'
                    f'<i class="fb" style="width:{widths[1]:.1f}%"></i></div>'
                    f'<span>{computing:.1f} + {waiting:.1f} s</span>')
    return f'<div class="bars">{"".join(rows)}</div>'


def sharing(nranks, ncores):
    """What the time for communication means where ranks outnumber cores; else nothing."""
    if nranks <= ncores:
        return ''
    return (f'{nranks} ranks share {ncores} core{"s" if ncores > 1 else ""} here: much of the time '
            'for communication is waiting for a core, not moving data.')


def page(report, command, seconds, ncores):
    epochs, ranks = report['epochs'], report['ranks']
    last, count = epochs[-1], len(epochs)
    rate = sum(rank['images_per_second'] for rank in ranks) / len(ranks)
    share = sum(r['communicating'] for r in ranks) / max(sum(r['seconds'] for r in ranks), 1e-9)
    steps = smooth([(step['epoch'], step['loss']) for step in report['steps']])
    tested = [(e['epoch'], e['test_loss']) for e in epochs]
    accuracy = [(e['epoch'], 100 * e['accuracy']) for e in epochs]
    floor = min(95, 5 * int(min(value for _, value in accuracy) / 5))
    top = max(0.4, 0.4 * -(-max(v for _, v in steps + tested) // 0.4))
    facts = [('accuracy', f'{100 * last["accuracy"]:.2f} %'),
             ('images/s per rank', f'{rate:,.0f}'),
             ('time communicating', f'{100 * share:.0f} %'),
             ('parameters', 'identical' if report['identical'] else 'DIFFERENT')]
    plural = 's' if report['size'] > 1 else ''
    return f'''<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Reigen: {report['size']} rank{plural} reading digits</title><style>{STYLE}</style><main>
<h1>{report['size']} rank{plural} learned to read digits</h1>
<p>In {seconds:.0f} seconds, with PyTorch {html.escape(report['torch'])} and gradients
averaged by Reigen after every step.</p>
<dl>{''.join(f'<div><dt>{name}</dt><dd>{value}</dd></div>' for name, value in facts)}</dl>
<div class="two">
<section><h2>Accuracy</h2><p>on the test images, in per cent, by epoch</p>
{chart([('a', accuracy, True)], count, floor, 100, lambda v: f'{v:g}')}</section>
<section><h2>Loss</h2><p><span style="color:var(--b)">&#9644;</span> training, rank 0 &ensp;
<span style="color:var(--a)">&#9644;</span> test, by epoch</p>
{chart([('b', steps, False), ('a', tested, True)], count, 0, top, lambda v: f'{v:.1f}')}</section>
</div>
<section><h2>Where the time of training went</h2>
<p><span style="color:var(--a)">&#9632;</span> computing &ensp;
<span style="color:var(--b)">&#9632;</span> waiting for other ranks and reducing</p>
{rank_bars(ranks)}
<p style="margin-top:10px">{sharing(report['size'], ncores)}</p></section>
<p style="margin-top:34px;font-size:13px"><code>{html.escape(command)}</code></p>
</main></html>
'''


def main():
    parser = argparse.ArgumentParser(description='Train on digits, and show how it went')
    parser.add_argument('-np', type=int, default=4, help='ranks (default: 4)')
    parser.add_argument('--out', default='build/demo', help='folder for the results')
    args, rest = parser.parse_known_args()
    os.makedirs(args.out, exist_ok=True)
    report_path = os.path.join(args.out, 'report.json')
    if os.path.exists(report_path):
        os.unlink(report_path)
    if not any(option.startswith('--epochs') for option in rest):
        rest = ['--epochs', '6', *rest]
    command = [launcher(), 'run', '-np', str(args.np), '--', sys.executable,
               os.path.join(HERE, 'pytorch_mnist.py'), '--out', args.out, '--report', report_path,
               *rest]
    started = time.time()
    with open(os.path.join(args.out, 'log.txt'), 'w', encoding='utf-8') as log:
        status, final = follow(command, log)
    if status != 0 or not os.path.exists(report_path):
        return status if status > 0 else 70
    with open(report_path, encoding='utf-8') as file:
        report = json.load(file)
    target = os.path.join(args.out, 'index.html')
    seconds, ncores = time.time() - started, len(os.sched_getaffinity(0))
    shown = ' '.join(['reigen run -np', str(args.np), '-- python examples/pytorch_mnist.py', *rest])
    with open(target, 'w', encoding='utf-8') as file:
        file.write(page(report, shown, seconds, ncores))
    print(f'{seconds:.0f} s; curves and times: {target}\n{final}')
    if sharing(args.np, ncores):
        print(sharing(args.np, ncores))
    return 0


if __name__ == '__main__':
    sys.exit(main())
