# SPDX-License-Identifier: Apache-2.0
"""What ranks print, shown by this process: where sys.stdout is no file descriptor, as in a
notebook, the launcher cannot show it. Lines come from the launcher's events (`--json`)."""
import base64
import itertools
import re
import shutil
import sys
import threading
import time
import weakref
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from reigen import _travel

_PARTS = re.compile('(\r|\n|\b+|\x1b\\[[?\\d;]*[A-HJKSTfhl])')
_COLOURS = re.compile('(\x1b\\[[\\d;]*m)+')
_ROWS_MAX = 200       # as many as the tallest terminal has, which is as far up as text can go
_WIDTH = 100          # where it is not known
_REDRAW_S = 0.1       # where bars move
_START_S = 1.0        # a start that is over by then is not told of
_LINE_S, _LINE_OF_EACH_RANK_S = 1.0, 0.125  # where each state of a bar is a line


class Rows:
    """What a terminal would show of one stream: text that goes back to the beginning of its line,
    and up and down, as progress bars do. Colours are text."""

    def __init__(self) -> None:
        self._rows: List[List[str]] = [[]]  # each is a list of parts: a line may be long
        self._at = 0
        self._over = False  # the next text replaces what the row has
        self._colours = ''  # of that text: by themselves they replace nothing
        self.redrawn = False
        self.told = ''  # what of it was shown as a line already, while it was being redrawn

    def feed(self, text: str) -> List[str]:
        """Take text; the lines that have ended."""
        ended: List[str] = []
        for part in _PARTS.split(text):
            if part == '\n':
                self._newline(ended)
            elif part and part[0] in '\r\b':
                self._over = True
            elif part.startswith('\x1b[') and _PARTS.fullmatch(part):
                self._move(part[-1], part[2:-1])
            elif part:
                self._put(part)
        return ended

    def _put(self, text: str) -> None:
        if self._over and _COLOURS.fullmatch(text):
            self._colours += text
            return
        if self._over:
            self.redrawn = True
            self._rows[self._at].clear()
        self._over = False
        self._rows[self._at].append(self._colours + text)
        self._colours = ''

    def _newline(self, ended: List[str]) -> None:
        self._over = False
        self._rows[self._at].append(self._colours)
        self._colours = ''
        if self._at + 1 < len(self._rows):
            self._at += 1
            self._over = True
            return
        ended.append(''.join(self._rows.pop(0)))
        self._rows.append([])
        self._at = len(self._rows) - 1
        self.redrawn = self.redrawn and len(self._rows) > 1

    def _move(self, how: str, number: str) -> None:
        count = int(number[:4]) if number.isdigit() else 1
        if how == 'A':
            above = min(count - self._at, _ROWS_MAX - len(self._rows))
            self._rows[:0] = [[] for _ in range(above)]
            self._at = max(self._at - count, 0)
        elif how == 'B':
            self._at = min(self._at + count, len(self._rows) - 1)
        elif how == 'K' and (self._over or number not in ('', '0')):  # else what follows, nothing
            self._rows[self._at].clear()

    def shown(self) -> str:
        """What is there of lines that have not ended."""
        rows = [''.join(row).rstrip() for row in self._rows]
        return '  '.join(row for row in rows if row.strip())


def moves(stream: Any) -> bool:
    """Whether a carriage return goes back to the beginning of the line there."""
    if type(stream).__module__.startswith('ipykernel'):
        return True
    try:
        return bool(stream.isatty())
    except Exception:  # it is closed, or somebody's own object
        return False


def put(stream: Any, text: str) -> None:
    """Write, also what the stream's encoding lacks: as an escape."""
    try:
        stream.write(text)
    except UnicodeEncodeError:
        coding = stream.encoding or 'ascii'
        stream.write(text.encode(coding, 'backslashreplace').decode(coding))
    stream.flush()  # which is a message in a notebook, and takes a millisecond there


#: Those of jobs that run at once, in threads of this process, by their numbers from 1.
_at_once: 'weakref.WeakValueDictionary[int, Display]' = weakref.WeakValueDictionary()
_numbering = threading.Lock()


class Display:
    """Shows a job's events. One thread at a time.

    hold: a failing rank's traceback is not shown, since the error that is raised tells it.
    tag: a function that makes what stands in front of a line of a rank from its number, stream and
    time; None: the rank where there are several, and the job's number where others had begun before
    it that have not ended. ranks: only these are shown; None: all.
    """

    def __init__(self, receiver: _travel.Receiver, hold: bool,
                 tag: Optional[Callable[[int, str, float], str]] = None,
                 ranks: Optional[Set[int]] = None) -> None:
        self._receiver = receiver
        self._ranks = ranks
        self._hold = hold
        self._tag = tag or (lambda rank, stream, when: self._mark(rank))
        self._nranks = 1
        with _numbering:
            self._number = next(n for n in itertools.count(1) if n not in _at_once)
            _at_once[self._number] = self
        self._rows: Dict[Tuple[int, str], Rows] = {}
        self._blank: Dict[Tuple[int, str], bool] = {}  # an empty line, perhaps a sender's own
        self._failing: Dict[int, bool] = {}
        self._moves = moves(sys.stdout)
        self._drawn = 0      # how long the text is that stands in the last line
        self._dirty = False
        self._due = 0.0
        self._starting = ''
        self._texts: List[Tuple[str, List[str]]] = []  # what show() writes, by stream

    # -------------------------------------------------------------- events

    def _mark(self, rank: int) -> str:
        parts = [f'job {self._number}'] if self._number > 1 else []
        parts += [str(rank)] if self._nranks > 1 else []
        return f'[{", ".join(parts)}] ' if parts else ''

    def start(self, nranks: int) -> None:
        """The job begins, perhaps once more."""
        self._nranks = nranks
        self._rows.clear()
        self._blank.clear()
        self._failing.clear()

    def host(self, host: str, phase: str, reason: str) -> None:
        """A host comes nearer to being ready."""
        self._due = self._due or time.monotonic() + _START_S
        self._starting = f'reigen: {host}: {reason or phase}'
        self._dirty = self._moves

    def running(self) -> None:
        self._starting = ''
        self._due = 0.0
        self._dirty = self._drawn > 0

    def note(self, text: str) -> None:
        self._line('stderr', text + '\n')

    def output(self, event: Dict[str, Any]) -> None:
        """A line of a rank, or a piece of it."""
        rank, stream = event['rank'], event['stream']
        text = event.get('text')
        if text is None:
            text = base64.b64decode(event['base64']).decode(errors='replace')
        key = rank, stream
        blank = self._blank.pop(key, False)
        if self._receiver.is_ours(text):
            if self._receiver.take(text) == _travel.FAILING:
                self._failing[rank] = True
            return
        if blank:
            self._feed(key, '\n', event['time'])
        if not text and event['newline'] and not event['continued']:
            self._blank[key] = True
        else:
            self._feed(key, text + ('\n' if event['newline'] else ''), event['time'])

    def _feed(self, key: Tuple[int, str], text: str, when: float) -> None:
        rank, stream = key
        if self._ranks is not None and rank not in self._ranks:
            return
        if self._hold and stream == 'stderr' and self._failing.get(rank):
            return
        rows = self._rows.setdefault(key, Rows())
        ended = rows.feed(text)
        if ended and rows.told:
            # How the line ends may have been told already.
            ended = ended[1:] if ended[0].rstrip() == rows.told else ended
            rows.told = ''
        if ended:
            tag = self._tag(rank, stream, when)
            self._line(stream, ''.join(f'{tag}{line}\n' for line in ended))
        self._dirty |= rows.redrawn

    # -------------------------------------------------------------- what moves

    def wait_s(self, now: float) -> Optional[float]:
        """After how long tick() is to be called; None: it need not."""
        return max(self._due - now, 0.0) if self._dirty else None

    def tick(self, now: float) -> None:
        """Show what has moved, if it is time."""
        if not self._dirty or now < self._due:
            return
        self._dirty = False
        if self._moves:
            self._due = now + _REDRAW_S
            self._draw()
            return
        self._due = now + max(_LINE_S, _LINE_OF_EACH_RANK_S * self._nranks)
        for (rank, stream), rows in sorted(self._rows.items()):
            if rows.redrawn and rows.shown() not in ('', rows.told):
                rows.told = rows.shown()
                self._line(stream, f'{self._tag(rank, stream, time.time())}{rows.told}\n')

    def _bar(self) -> str:
        bars = [(rank, rows.shown()) for (rank, _), rows in sorted(self._rows.items())
                if rows.redrawn and rows.shown()]
        if not bars:
            return self._starting
        rank, text = bars[0]
        more = f'  (and {len(bars) - 1} more)' if len(bars) > 1 else ''
        width = shutil.get_terminal_size((_WIDTH, 24)).columns - 1
        return f'{self._mark(rank)}{text}'[:width - len(more)] + more

    def _wipe(self) -> None:
        if self._drawn:
            self._write('stdout', '\r' + ' ' * self._drawn + '\r')
        self._drawn = 0

    def _draw(self) -> None:
        text = self._bar()
        self._write('stdout', '\r' + text.ljust(self._drawn) if self._drawn else text)
        self._drawn = max(len(text), self._drawn) if text else 0

    def _line(self, stream: str, text: str) -> None:
        """Whole lines, above what moves."""
        stood = self._drawn > 0
        self._wipe()
        self._write(stream, text)
        self._dirty |= stood

    def _write(self, stream: str, text: str) -> None:
        if not self._texts or self._texts[-1][0] != stream:
            self._texts.append((stream, []))
        self._texts[-1][1].append(text)

    def show(self) -> None:
        """Write what the events so far have brought: many lines at once, where many came."""
        texts, self._texts = self._texts, []
        for stream, parts in texts:
            put(sys.stderr if stream == 'stderr' else sys.stdout, ''.join(parts))

    def finish(self) -> None:
        """Nothing more comes."""
        self._starting = ''
        self._wipe()
        for (rank, stream), rows in sorted(self._rows.items()):
            if rows.shown():
                self._feed((rank, stream), '\n', time.time())
        for key in [key for key, blank in self._blank.items() if blank]:
            self._feed(key, '\n', time.time())
        self.show()
        _at_once.pop(self._number, None)
