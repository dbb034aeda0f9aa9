# SPDX-License-Identifier: Apache-2.0
"""docs/film.svg: a real run on a terminal, as a picture that moves.

usage: bench/film.py     some 30 s; needs pyte and PyTorch, which `make check` has installed

The job's hosts are homes on this computer, behind a program in the place of ssh; all else is as it
is: what is shown has been on a terminal of these columns, at these times. One host is killed.
"""
import fcntl
import html
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT / 'tests/behaviour')]
from elastic_job import SSH, program  # noqa: E402  pylint: disable=wrong-import-position
from processes import parent  # noqa: E402  pylint: disable=wrong-import-position

PICTURE = ROOT / 'docs/film.svg'
COLUMNS, ROWS = 96, 18
#: Pixels of a character, of a line, and around the text.
WIDTH, HEIGHT, MARGIN, BAR = 8.43, 19, 14, 30
COMMAND = ('reigen run -H node1:2,node2:2,node3:2 -np 4 --min-np 2 -- \\\n'
           '    python pytorch_mnist_elastic.py --epochs 2')
#: Of what the host that ends has said last, and what the picture says when it is killed.
KILL_AFTER, CAPTION, CAPTION_UNTIL = 'step 40,', 'node2 is killed', 'epoch 1/2'
#: Seconds: from one picture to the next at least, for a typed letter, for the last picture, and
#: after which the run has failed.
STEP_S, LETTER_S, LAST_S, LIMIT_S = 0.1, 0.035, 6, 120
COLOURS = {'default': '#d7dae0', 'black': '#7f848e', 'red': '#ff7b86', 'green': '#98c379',
           'brown': '#e5c07b', 'blue': '#61afef', 'magenta': '#c678dd', 'cyan': '#56b6c2',
           'white': '#ffffff'}


class Film:
    """A terminal's lines at times: frames of (seconds, lines, caption)."""

    def __init__(self):
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.frames, self.now, self.caption = [], 0.0, ''

    def feed(self, data):
        self.stream.feed(data)
        frame = self.lines(), self.caption
        if self.frames and self.now - self.frames[-1][0] < STEP_S:
            self.frames[-1] = (self.frames[-1][0], *frame)
        elif not self.frames or self.frames[-1][1:] != frame:
            self.frames.append((self.now, *frame))

    def lines(self):
        """Each a tuple of (text, colour, bold), of neighbours that look alike."""
        return tuple(tuple(self.runs(self.screen.buffer[y])) for y in range(ROWS))

    @staticmethod
    def runs(row):
        found = []
        for x in range(COLUMNS):
            look = row[x].fg, row[x].bold
            if found and found[-1][1:] == look:
                found[-1] = (found[-1][0] + row[x].data, *look)
            else:
                found.append((row[x].data, *look))
        while found and not found[-1][0].strip():
            found.pop()
        return [*found[:-1], (found[-1][0].rstrip(), *found[-1][1:])] if found else []

    def type(self, text):
        self.feed(b'$ ')
        self.now += 0.6
        for letter in text:
            self.feed(letter.replace('\n', '\r\n').encode())
            self.now += LETTER_S
        self.now += 0.5
        self.feed(b'\r\n')


def start(folder):
    """The command on a terminal: (pid, descriptor)."""
    env = {**os.environ, 'HOME': str(folder), 'OMP_NUM_THREADS': '1', 'TERM': 'xterm-256color',
           'XDG_STATE_HOME': str(folder / 'state'),
           'REIGEN_SSH': str(program(folder / 'ssh', SSH.format(folder=folder)))}
    words = COMMAND.replace('\\\n', '').split()
    words[0] = str(ROOT / '.venv/bin/reigen')
    words[words.index('python')] = '/usr/bin/python3'
    words = [str(ROOT / 'examples' / w) if w.endswith('.py') else w for w in words]
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', ROWS, COLUMNS, 0, 0))
        os.environ.clear()
        os.execve(words[0], words, {**env, 'PYTHONPATH': str(ROOT / 'bindings/python')})
    return pid, fd


def agent_of(host, launcher):
    """The process that the launcher's ssh to a host has become."""
    for entry in Path('/proc').glob('[0-9]*'):
        try:
            variables = (entry / 'environ').read_bytes().split(b'\0')
            if f'LOGIN={host}'.encode() in variables and parent(int(entry.name)) == launcher:
                return int(entry.name)
        except OSError:
            continue
    raise LookupError(f'no agent of {host}')


def record(film):
    """Run the command, kill a host on the way, and film it. The exit status."""
    with tempfile.TemporaryDirectory() as name:
        pid, fd = start(Path(name))
        begun, before, seen = time.monotonic(), film.now, b''
        while time.monotonic() - begun < LIMIT_S:
            if not select.select([fd], [], [], 1)[0]:
                continue
            try:
                data = os.read(fd, 65536)
            except OSError:  # the terminal's other end is closed
                break
            film.now = before + time.monotonic() - begun
            film.feed(data)
            seen += data
            if CAPTION_UNTIL.encode() in seen:
                film.caption = ''
            elif not film.caption and KILL_AFTER.encode() in seen:
                film.caption = CAPTION
                os.kill(agent_of('node2', pid), signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# ---------------------------------------------------------------------------- the picture

def span(text, colour, bold):
    looks = [] if colour == 'default' else [f'fill="{COLOURS.get(colour, "#" + colour)}"']
    looks += ['font-weight="bold"'] if bold else []
    body = html.escape(text, quote=False)
    return f'<tspan {" ".join(looks)}>{body}</tspan>' if looks else body


def line(runs, y):
    return (f'<text x="{MARGIN}" y="{y}" xml:space="preserve">'
            + ''.join(span(*run) for run in runs) + '</text>')


def shown(number, start_s, end_s, whole_s):
    """The rule by which something can be seen from one time to another."""
    begin, end = 100 * start_s / whole_s, 100 * end_s / whole_s
    name = f'k{number}'
    steps = [] if begin <= 0 else ['0%{opacity:0}']
    steps += [f'{begin:.2f}%{{opacity:1}}']
    steps += [] if end >= 100 else [f'{end:.2f}%{{opacity:0}}', '100%{opacity:0}']
    return f'@keyframes {name}{{{"".join(steps)}}}.{name}{{animation-name:{name}}}'


def spells(frames, part, whole_s):
    """{what: [(from, to)]} of what part() gives of a frame, as long as it stays."""
    found, since = {}, {}
    ends = [*(at for at, *_ in frames[1:]), whole_s]
    for (at, *frame), end in zip(frames, ends):
        for what in part(*frame):
            if what in since and found[what][-1][1] == at:
                found[what][-1] = (found[what][-1][0], end)
            else:
                found.setdefault(what, []).append((at, end))
            since[what] = at
    return found


def draw(frames, whole_s):
    """The picture: each line stands there for as long as the terminal had it."""
    top = BAR + MARGIN

    def lines(rows, caption):
        yield from (('line', y, row) for y, row in enumerate(rows) if row)
        if caption:
            yield 'caption', caption

    rules, parts = {}, []
    for what, times in spells(frames, lines, whole_s).items():
        for time_ in times:
            number = rules.setdefault(time_, len(rules))
            last = ' last' if time_[1] >= whole_s else ''
            body = line(what[2], top + HEIGHT * (what[1] + 0.75)) if what[0] == 'line' else \
                f'<text class="caption" x="{width() - MARGIN}" y="20">{html.escape(what[1])}</text>'
            parts.append(f'<g class="k{number}{last}">{body}</g>')
    keys = ''.join(shown(number, *time_, whole_s) for time_, number in rules.items())
    return f'''<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width()} {height()}" \
width="{width()}" height="{height()}" role="img" aria-labelledby="t">
<title id="t">reigen run trains on three hosts; one is killed, and the training goes on</title>
<style>
text{{fill:{COLOURS['default']};font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}}
.caption{{fill:{COLOURS['red']};text-anchor:end}}
g g{{opacity:0;animation:{whole_s:.1f}s step-end infinite}}
@media (prefers-reduced-motion:reduce){{g g{{animation:none}}g g.last{{opacity:1}}}}
{keys}
</style>
<rect width="100%" height="100%" rx="8" fill="#1e2127"/>
<circle cx="18" cy="15" r="5" fill="#ff5f56"/><circle cx="36" cy="15" r="5" fill="#ffbd2e"/>\
<circle cx="54" cy="15" r="5" fill="#27c93f"/>
<g>
{chr(10).join(parts)}
</g>
</svg>
'''


def width():
    return round(COLUMNS * WIDTH + 2 * MARGIN)


def height():
    return round(ROWS * HEIGHT + BAR + 2 * MARGIN)


def main():
    film = Film()
    film.type(COMMAND)
    status = record(film)
    if status:
        sys.exit(f'film: the job ended with {status}:\n' + '\n'.join(film.screen.display))
    film.now += 0.2
    film.feed(b'$ ')
    whole_s = film.frames[-1][0] + LAST_S
    PICTURE.write_text(draw(film.frames, whole_s), encoding='utf-8')
    print(f'{PICTURE.relative_to(ROOT)}: {len(film.frames)} frames, {whole_s:.0f} s, '
          f'{PICTURE.stat().st_size // 1024} KiB')


if __name__ == '__main__':
    main()
