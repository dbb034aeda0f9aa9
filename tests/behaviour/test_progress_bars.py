# SPDX-License-Identifier: Apache-2.0
"""Progress bars: rows that move on a terminal, states elsewhere."""
import json
import os
import select
import signal

import pyte
import pytest

from processes import state
from terminals import Terminal
from wait import until

#: What ranks run: $1 tells where the test says, by files, how far they may go.
PROLOGUE = 'at() { until [ -e "$0/$1" ]; do sleep 0.05; done; }; '
#: A loop in a loop, as tqdm draws it where it has no terminal.
NESTED = PROLOGUE + r'''
printf "\repoch 0%%" >&2; printf "\n\rbatch 10%%\033[A" >&2; at 1
printf "\n\r          \033[A\repoch 50%%" >&2; printf "\n\rbatch 20%%\033[A" >&2; at 2
printf "\n\r          \033[A\repoch 100%%\n" >&2; echo trained'''


class Screen(Terminal):
    """A program on a terminal, and what stands there."""

    def __init__(self, *argv, rows=24, columns=80, **variables):
        self.screen = pyte.HistoryScreen(columns, rows, history=10000)
        self.stream = pyte.ByteStream(self.screen)
        self.drawn = 0
        super().__init__(*argv, rows=rows, columns=columns, **variables)

    def lines(self):
        """What is there, also what has left the screen at its top."""
        if select.select([self.fd], [], [], 0.02)[0]:
            try:
                self.seen += os.read(self.fd, 65536)
            except OSError:
                pass
        self.stream.feed(self.seen[self.drawn:])
        self.drawn = len(self.seen)
        gone = [''.join(line[i].data for i in range(self.screen.columns))
                for line in self.screen.history.top]
        lines = [line.rstrip() for line in gone + self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def until(self, *wanted):
        """Wait until these lines are there, and no others."""
        until(lambda: self.lines() == list(wanted), f'these lines: {wanted}', seen=self.lines)


@pytest.fixture
def run(terminal, programs, tmp_path):
    """run(script, *options, **as Screen): ranks that run it on a screen."""
    def begin(script, *options, np=2, **kwargs):
        return terminal(programs.reigen, 'run', '-np', np, *options, '--', 'sh', '-c',
                        PROLOGUE + script, tmp_path, kind=Screen, **kwargs)

    return begin


@pytest.fixture
def go(tmp_path):
    return lambda name: (tmp_path / name).touch()


@pytest.mark.parametrize('columns', [80, 200])
def test_each_bar_has_a_row_as_wide_as_the_terminal_and_lines_scroll_above(run, go, columns):
    wide = '你好' * 24  # 96 columns
    t = run(rf'printf "\r\033[7D\033[31m{wide}\033[0m %d%%" $((10 + RANK)); at word; '
            r'if [ $RANK = 1 ]; then echo a word >&2; fi; at end; printf "\rdone 99%%\n"',
            columns=columns)
    rows = [f'[{rank}] {wide} {10 + rank}%' for rank in range(2)]
    if columns == 80:
        rows = [row[:4 + (80 - 1 - 4) // 2] for row in rows]
    t.until(*rows)
    go('word')
    t.until('[1] a word', *rows)
    go('end')
    assert t.wait() == 0
    assert sorted(t.lines()) == ['[0] done 99%', '[1] a word', '[1] done 99%']


def test_ranks_whose_rows_do_not_fit_are_told_of_in_one(run, go):
    t = run(r'printf "\r%3d%%" $((RANK ? 30 : 20)); at more; '
            r'printf "\r%3d%%" $((RANK * 10)); at end', np=6, rows=8)
    t.until(*[f'[{r}]  {30 if r else 20}%' for r in range(3)], 'ranks 3-5 alike: 30 %')
    go('more')
    t.until('[0]   0%', '[1]  10%', '[2]  20%', 'ranks 3-5: 30 to 50 %')
    go('end')
    assert t.wait() == 0
    assert sorted(t.lines()) == [f'[{r}] {10 * r:3}%' for r in range(6)]


def test_bars_of_several_rows_stand_below_each_other(run, go):
    t = run(NESTED, '--ranks', 0)
    t.until('[0] epoch 0%', '[0] batch 10%')
    go('1')
    t.until('[0] epoch 0%', '[0] epoch 50%', '[0] batch 20%')
    go('2')
    assert t.wait() == 0
    assert t.lines()[0] == '[0] epoch 0%'
    assert sorted(t.lines()[1:]) == ['[0] epoch 100%', '[0] trained']


def test_elsewhere_a_state_is_a_line_and_the_last_one_is_whole(reigen, go, tmp_path):
    go('1'), go('2')
    many = r'''i=0; while [ $i -le 2000 ]; do printf "\r%d of 2000" $i; i=$((i + 1)); done; echo'''
    done = reigen('run', '-np', 2, '--', 'sh', '-c', many + '\n' + NESTED, tmp_path)
    assert done.returncode == 0, done
    for stream, last in ((done.stdout, '2000 of 2000'), (done.stderr, 'epoch 100%')):
        for rank in range(2):
            lines = [line for line in stream.splitlines() if line.startswith(f'[{rank}] ')]
            assert lines.count(f'[{rank}] {last}') == 1, lines
            assert len(lines) < 100 and max(map(len, lines)) < 30, lines
    assert '\r' not in done.stdout and '\033' not in done.stderr, done


def test_events_have_all_of_a_bar_once(reigen, go, tmp_path):
    go('1'), go('2')
    done = reigen('run', '-np', 2, '--json', '--', 'sh', '-c', NESTED, tmp_path)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    for rank in range(2):
        assert ''.join(e['text'] + '\n' * e['newline'] for e in events if e['event'] == 'output' and
                       (e['rank'], e['stream']) == (rank, 'stderr')) == (
            '\repoch 0%\n\rbatch 10%\033[A\n\r          \033[A\repoch 50%\n\rbatch 20%\033[A'
            '\n\r          \033[A\repoch 100%\n'), events


def test_who_is_stopped_leaves_the_terminal_clean_and_draws_again(run, go):
    t = run(r'printf "\r 50%%"; at end; echo')
    t.until('[0]  50%', '[1]  50%')
    os.kill(t.pid, signal.SIGTSTP)
    until(lambda: state(t.pid) == 'T', 'reigen stops')
    t.until()
    os.kill(t.pid, signal.SIGCONT)
    t.until('[0]  50%', '[1]  50%')
    go('end')
    assert t.wait() == 0 and sorted(t.lines()) == ['[0]  50%', '[1]  50%']


def test_a_terminal_that_is_resized_gets_rows_that_fit(run, go):
    t = run(r'printf "\r%070d 50%%" 0; at end', rows=10)
    t.until(*(f'[{rank}] {0:070} 50%' for rank in range(2)))
    t.resize(2, 100)
    t.screen.resize(2, 100)
    t.until('ranks 0-1 alike: 50 %')
    go('end')
    assert t.wait() == 0


@pytest.mark.parametrize('rows, columns, term', [(1, 1, 'xterm'), (24, 80, 'dumb')])
def test_a_terminal_that_has_no_room_for_rows_does_no_harm(run, go, rows, columns, term):
    t = run(r'printf "\r 50%%"; at end; echo', rows=rows, columns=columns, TERM=term)
    until(lambda: len(t.lines()) >= 1, 'something', seen=lambda: t.seen)
    go('end')
    assert t.wait() == 0
    t.lines()
    assert (b'\033' in t.seen) == (term == 'xterm')
    assert b'[1]' in t.seen and b' 50%' in t.seen


def test_what_reigen_says_has_a_line_of_its_own_below_a_bar(run):
    t = run(r'printf "\r 10%%"; printf "\r 50%%"; exit 3', np=1)
    assert t.wait() == 3
    assert t.lines()[0] == ' 50%' and t.lines()[1].startswith('reigen: rank 0 '), t.lines()


def test_the_verdict_has_a_bar_as_it_stood_last(reigen):
    done = reigen('run', '-np', 2, '--', 'sh', '-c',
                  r'[ $RANK = 1 ] || exit 0; printf "\r 10%%"; printf "\r 50%%"; exit 3')
    assert done.returncode == 3 and done.stderr.count('10%') == 0 and 'x0d' not in done.stderr
