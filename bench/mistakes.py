#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same mistakes under torchrun and under reigen run: what each tells, how soon.

usage: bench/mistakes.py [--rounds N] [--only NAME,...] [--write] [--check]

Four ranks of a script of some ten lines, once with torch.distributed (gloo) and once with
horovod.torch, line by line alike, started by the PyTorch of tools/frameworks.sh torch2. --write
puts the table into docs/mistakes.md and the picture of one of them into docs/mistakes.svg. --check
runs Reigen only, and fails unless it names each cause and each line.
"""
import argparse
import datetime
import html
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / 'docs/mistakes.md', ROOT / 'docs/mistakes.svg'
BIN = ROOT / 'build/envs/torch2/bin'
REIGEN = ROOT / '.venv/bin/reigen'
RANKS = 2 if '--check' in sys.argv else 4  # two show the same, in half of the time
LIMIT = 60  # s; then it is told to end
TOOLS = {'torch': 'torchrun', 'hvd': 'reigen run'}

# What stands for the words in capitals.
WORDS = {
    'torch': {'IMPORT': 'import torch.distributed as dist', 'END': 'dist.destroy_process_group()',
              'INIT': "dist.init_process_group('gloo')", 'RANK': 'dist.get_rank()',
              'LOSS': 'dist.all_reduce(loss)', 'ACC': 'dist.all_reduce(acc)'},
    'hvd': {'IMPORT': 'import horovod.torch as hvd', 'END': 'hvd.shutdown()',
            'INIT': 'hvd.init()', 'RANK': 'hvd.rank()',
            'LOSS': "loss = hvd.allreduce(loss, name='loss')",
            'ACC': "acc = hvd.allreduce(acc, name='acc')"},
}
SCRIPT = """import os, sys, ctypes
import torch
IMPORT

INIT
rank = RANK
for step in range(3):
    loss = torch.ones(1)
    ...
    LOSS
END
"""


class Mistake:
    """One row. line: what the script does in place of the dots; cause: a pattern that is in an
    output that names the cause; at: the number of the script's line to be named; rank: the one to
    be named."""

    def __init__(self, title, line='pass', cause=None, at=None, rank=None, script=SCRIPT,
                 command=None):
        self.title, self.cause, self.at, self.rank = title, cause, at, rank
        self.script = script.replace('...', line)
        self.command = command or {'torch': ['torchrun', f'--nproc-per-node={RANKS}', 'train.py'],
                                   'hvd': ['reigen', 'run', '-np', str(RANKS), 'python',
                                           'train.py']}


ONE = 'if rank == 1 and step == 1: '
MISTAKES = {
    'none': Mistake('none, for comparison'),
    'exception': Mistake('a `NameError` on rank 1', ONE + 'print(undefined)',
                         "NameError: name 'undefined'", 9, 1),
    'module': Mistake('a module that is not installed', 'import nosuch',
                      "No module named 'nosuch'", 9),
    'init': Mistake('the script does not initialise the library',
                    script=SCRIPT.replace('INIT', '').replace('RANK', '0'),
                    cause=r'init_process_group|hvd\.init', at=10),
    'shape': Mistake('rank 1 has a tensor of another shape', ONE + 'loss = torch.ones(2)',
                     r'(?i)(shape|size).*mismatch|mismatch.*(shape|size)', 10),
    'forgets': Mistake('only rank 0 calls a collective (`if rank == 0`)',
                       'acc = torch.ones(1)\n    if rank == 0 and step == 1: ACC',
                       '(?i)deadlock|has not called|waiting for remainder', 10),
    'exit': Mistake('`sys.exit(3)` on rank 1', ONE + 'sys.exit(3)',
                    r'(?i)exit ?code\s*:? 3', None, 1),
    'killed': Mistake('rank 1 is killed by signal 9', ONE + 'os.kill(os.getpid(), 9)',
                      r'SIGKILL|signal 9|Signal 9', None, 1),
    'segfault': Mistake('a segmentation fault on rank 1', ONE + 'ctypes.string_at(0)',
                        r'SIGSEGV|[sS]ignal 11|Segmentation', None, 1),
    'script': Mistake("the script's name is misspelt", cause=r'trian\.py.*No such file', command={
        'torch': ['torchrun', f'--nproc-per-node={RANKS}', 'trian.py'],
        'hvd': ['reigen', 'run', '-np', str(RANKS), 'python', 'trian.py']}),
    'host': Mistake("another host's name is misspelt",
                    cause=r'(?i)node2\.invalid.*(resolve|not known|unknown|no such host)', command={
                        'torch': ['torchrun', '--nnodes=2', '--nproc-per-node=2', '--node-rank=1',
                                  '--master-addr=node2.invalid', '--master-port=29500',
                                  'train.py'],
                        'hvd': ['reigen', 'run', '-H', 'localhost:2,node2.invalid:2', 'python',
                                'train.py']}),
}
SHOWN = 'exception'  # in the picture


# ---------------------------------------------------------------------------- running

class Run:
    """What one run printed before its end or the limit, when, and how it ended."""

    def __init__(self, lines, whens, code, seconds):
        self.ended = seconds < LIMIT
        self.whens = [when for when in whens if when < LIMIT]
        self.lines = lines[:len(self.whens)]
        self.code, self.seconds = code, seconds

    def has(self, pattern):
        return any(re.search(pattern, line) for line in self.lines)

    def when(self, pattern):
        """Of the first line with it."""
        return next((when for line, when in zip(self.lines, self.whens)
                     if re.search(pattern, line)), None)

    def count(self, pattern):
        return sum(bool(re.search(pattern, line)) for line in self.lines)


def script_for(mistake, tool):
    text = mistake.script
    for word, stands_for in WORDS[tool].items():
        text = re.sub(rf'\b{word}\b', lambda _, s=stands_for: s, text)
    return text


def readable(text, folder):
    """Without what only this machine has: where things are installed."""
    text = text.replace(f'{folder}/', '')
    return re.sub(r'/[^\s"\']*/(?=site-packages/|python|torchrun)', '', text)


def run(mistake, tool):
    places = {'torchrun': BIN / 'torchrun', 'reigen': REIGEN, 'python': BIN / 'python'}
    command = [str(places.get(word, word)) for word in mistake.command[tool]]
    env = {**os.environ, 'PYTHONPATH': str(ROOT / 'bindings/python'), 'OMP_NUM_THREADS': '1'}
    with tempfile.TemporaryDirectory(prefix='mistakes') as folder:
        (Path(folder) / 'train.py').write_text(script_for(mistake, tool), encoding='utf-8')
        lines, whens, start = [], [], time.monotonic()
        with subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              errors='replace') as process:
            limit = threading.Timer(LIMIT, process.send_signal, [signal.SIGTERM])
            limit.start()
            for line in process.stdout:
                lines.append(readable(line.rstrip('\n'), folder))
                whens.append(time.monotonic() - start)
            process.wait()
            limit.cancel()
        return Run(lines, whens, process.returncode, time.monotonic() - start)


# ---------------------------------------------------------------------------- the page

def times(count):
    return {0: '**no**', 1: 'once', 2: 'twice'}.get(count, f'{count} times')


def in_all(runs, pattern):
    """Whether it is in the output; ranks race, so that runs of one mistake may differ."""
    count = sum(run.has(pattern) for run in runs)
    return 'yes' if count == len(runs) else f'{count} of {len(runs)}' if count else '**no**'


def told(mistake, runs):
    """The cells of one tool for one mistake."""
    last = runs[-1]
    named = line = rank = '-'
    if mistake.cause is not None:
        named = in_all(runs, mistake.cause)
        whens = [run.when(mistake.cause) for run in runs if run.has(mistake.cause)]
        named += f', {statistics.median(whens):.1f} s' if whens else ''
    if mistake.at is not None:
        line = times(last.count(rf'train\.py", line {mistake.at}\b'))
    if mistake.rank is not None:
        rank = in_all(runs, rf'rank\s*:? {mistake.rank}\b')
    code, end = 'none', f'not in {LIMIT} s'
    if last.ended:
        code, end = str(last.code), f'{statistics.median(r.seconds for r in runs):.1f} s'
    return [str(len(last.lines)), line, named, rank, code, end]


PAGE_TEXT = """# The same mistakes under torchrun and reigen run

![one mistake, twice](mistakes.svg)

A script of some ten lines makes each mistake with `torch.distributed` (gloo) under `torchrun`, and
with `horovod.torch` under `reigen run`: {ranks} ranks on one computer, with PyTorch {version}.
`bench/mistakes.py --write` has the scripts, and makes this page.

Each cell has torchrun first, then reigen run; what is the same stands once. *lines* counts both
outputs, and *named* how often the script's wrong line is named. *cause* and *rank* say whether a
line tells what was wrong, when, and which rank began it. *end* is when the command ended, imports
included ({rounds}).

| mistake | lines | named | cause | rank | exit code | end |
|---|---|---|---|---|---|---|
{table}

{notes}

Measured {now} on {cores} cores, load {load:.1f} at the end.
"""


def notes(results):
    """What the table cannot say."""
    texts = []
    shape = results.get(('shape', 'torch'))
    if shape and shape[-1].ended and shape[-1].code == 0:
        texts.append('torchrun ends well although rank 1 has a tensor of another shape: gloo '
                     'compares no shapes, and the results are wrong.')
    forgets = results.get(('forgets', 'torch'))
    if forgets and forgets[-1].ended:
        texts.append("If only rank 0 calls a collective, gloo pairs it with the others' next "
                     'one. The sums of that step are wrong, and the error comes later, elsewhere, '
                     'or never. Reigen names within seconds what each rank waits for, and its '
                     'line; `--deadlock-timeout 60` ends such a job.')
    return '\n\n'.join(texts)


def version():
    return subprocess.run([BIN / 'python', '-c', 'import torch; print(torch.__version__)'],
                          capture_output=True, text=True, check=True).stdout.split('+')[0].strip()


def write_page(results, rounds):
    rows = []
    for name, mistake in MISTAKES.items():
        both = zip(*(told(mistake, results[name, tool]) for tool in TOOLS))
        cells = ['; '.join(dict.fromkeys(cell)) for cell in both]
        rows.append('| ' + ' | '.join([mistake.title, *cells]) + ' |')
    PAGE.write_text(PAGE_TEXT.format(
        ranks=RANKS, version=version(), table='\n'.join(rows),
        rounds=f'medians of {rounds} runs' if rounds > 1 else 'of one run',
        notes=notes(results), now=datetime.date.today().isoformat(), cores=os.cpu_count(),
        load=os.getloadavg()[0]), encoding='utf-8')


# ---------------------------------------------------------------------------- the picture

WIDTH, MARGIN, ROW, COLUMNS = 800, 14, 16, 102
HEAD, TAIL = 12, 14  # of a long output
STYLE = """
.page { fill: #ffffff } .frame { fill: #f6f8fa; stroke: #d0d7de } .bar { fill: #eaeef2 }
text { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #424a53 }
.title { font-family: system-ui, sans-serif; font-size: 14px; font-weight: 600; fill: #1f2328 }
.fold { fill: #818b98; font-style: italic } .key { fill: #c1121f; font-weight: 700 }
@media (prefers-color-scheme: dark) {
.page { fill: #0d1117 } .frame { fill: #151b23; stroke: #3d444d } .bar { fill: #212830 }
text { fill: #b7bec7 } .title { fill: #f0f6fc }
.fold { fill: #8b949e } .key { fill: #ff8f87 }
}
"""


def folded(lines):
    if len(lines) <= HEAD + TAIL + 1:
        return lines
    return [*lines[:HEAD], len(lines) - HEAD - TAIL, *lines[-TAIL:]]


def draw_line(line, mistake, y):
    if isinstance(line, int):
        return f'<text class="fold" x="{2 * MARGIN}" y="{y}">        ({line} more lines)</text>'
    named = re.search(rf'{mistake.cause}|train\.py", line {mistake.at}\b|failed first|'
                      'failed with the same|Root Cause',
                      line)
    clipped = line.rstrip() if len(line) <= COLUMNS else line[:COLUMNS - 1] + '…'
    return (f'<text{" class=" + chr(34) + "key" + chr(34) if named else ""} x="{2 * MARGIN}" '
            f'y="{y}" xml:space="preserve">{html.escape(clipped)}</text>')


def draw_terminal(mistake, tool, lines, top):
    """(parts, the y below it)"""
    shown = folded(lines)
    height = 34 + ROW * len(shown) + 12
    command = ' '.join(mistake.command[tool])
    parts = [f'<rect class="frame" x="{MARGIN}" y="{top}" width="{WIDTH - 2 * MARGIN}" '
             f'height="{height}" rx="8"/>',
             f'<rect class="bar" x="{MARGIN + 1}" y="{top + 1}" width="{WIDTH - 2 * MARGIN - 2}" '
             f'height="25" rx="7"/>',
             f'<text class="title" x="{2 * MARGIN}" y="{top + 18}">{html.escape(command)}</text>',
             f'<text class="title" x="{WIDTH - 2 * MARGIN}" y="{top + 18}" text-anchor="end">'
             f'{len(lines)} lines</text>']
    for index, line in enumerate(shown):
        parts.append(draw_line(line, mistake, top + 46 + ROW * index))
    return parts, top + height + MARGIN


def write_picture(results):
    mistake = MISTAKES[SHOWN]
    y, parts = MARGIN, []
    for tool in TOOLS:
        more, y = draw_terminal(mistake, tool, results[SHOWN, tool][-1].lines, y)
        parts += more
    PICTURE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" '
        f'height="{y}">\n<title>{html.escape(mistake.title.replace("`", ""))}: what torchrun '
        f'prints, and what reigen run prints</title>\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="100%" height="100%"/>\n' + '\n'.join(parts) + '\n</svg>\n',
        encoding='utf-8')


# ---------------------------------------------------------------------------- main

def check(name, mistake, outcome):
    """Problems of Reigen's."""
    lines, line, cause, rank, *_ = told(mistake, [outcome])
    # Of a job that hangs no line is known.
    for cell, what in ((line if outcome.ended else '-', "the script's line"),
                       (cause, 'the cause'), (rank, 'the rank')):
        if '**no**' in cell:
            yield f'{name}: {what} is not named in {lines} lines:\n' + '\n'.join(outcome.lines)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('\n\n')[1].removeprefix('usage: '))
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--only')
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--check', action='store_true')
    options = parser.parse_args()
    names = options.only.split(',') if options.only else list(MISTAKES)
    results, problems = {}, []
    for _ in range(1 if options.check else options.rounds):
        for name in names:
            for tool in ('hvd',) if options.check else TOOLS:
                if results.get((name, tool), []) and not results[name, tool][-1].ended:
                    continue  # it would not end again
                outcome = run(MISTAKES[name], tool)
                results.setdefault((name, tool), []).append(outcome)
                print(f'{name:10} {TOOLS[tool]:10}', *told(MISTAKES[name], results[name, tool]),
                      sep='  ', flush=True)
                if tool == 'hvd':
                    problems += check(name, MISTAKES[name], outcome)
    if options.write:
        write_page(results, options.rounds)
        write_picture(results)
    return '\n'.join(problems) or 0 if options.check else 0


if __name__ == '__main__':
    sys.exit(main())
