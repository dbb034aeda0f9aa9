# SPDX-License-Identifier: Apache-2.0
"""reigen top: a screen of what the ranks of running jobs do, on a terminal and elsewhere."""
import contextlib
import json
import os
import re
import signal
import subprocess

import pytest

from built import PROGRAMS, environment
from test_hosts import FAKE
from test_progress_bars import Screen
from test_submitted import Queue, SINCE
from wait import until

LIMIT = 60
#: Runs what it is told to here.
SRUN = '''#!/bin/sh
while test "${1#-}" != "$1"; do shift; done
exec "$@"
'''
#: What brings the user's own screen back, and its cursor.
CLOSED = b'\033[?7h\033[?25h\033[?1049l'


class Jobs:
    """Jobs of a user, and reigen for that user."""

    def __init__(self, folder):
        ssh = folder / 'fake-ssh'
        ssh.write_text(FAKE.format(folder=folder, before=':'))
        ssh.chmod(0o755)
        self.folder = folder
        self.own = {'XDG_STATE_HOME': folder / 'state', 'HOME': folder, 'REIGEN_SSH': ssh}
        self.running = []

    def run(self, *words):
        return subprocess.run([PROGRAMS.reigen, *map(str, words)], env=environment(**self.own),
                              text=True, capture_output=True, timeout=LIMIT, check=False,
                              stdin=subprocess.DEVNULL)

    def start(self, *options, slow_ms=40):
        """3 ranks, of which rank 1 is late; its id, when each has its numbers."""
        known = {job['id'] for job in json.loads(self.run('jobs', '--json').stdout)}
        script = f'echo hello of $RANK; exec {PROGRAMS.build}/tests/programs/uneven {slow_ms} 5'
        child = subprocess.Popen([PROGRAMS.reigen, 'run', '-np', '3', *map(str, options), '--',
                                  'sh', '-c', script], env=environment(**self.own),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.running.append(child)

        def new():
            assert child.poll() is None, 'the job has ended'
            return [job['id'] for job in json.loads(self.run('jobs', '--json').stdout)
                    if job['id'] not in known]

        ident, = until(new, 'the job', LIMIT)
        until(lambda: (self.reading(ident)['waited_for'] or {}).get('rank') == 1,
              'numbers of all ranks', LIMIT)
        return ident

    def reading(self, ident):
        done = self.run('top', '--json', ident)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def close(self):
        for child in self.running:
            child.send_signal(signal.SIGCONT)
            child.terminate()
        for child in self.running:
            child.wait(LIMIT)


@pytest.fixture
def jobs(tmp_path):
    jobs = Jobs(tmp_path)
    yield jobs
    jobs.close()


@pytest.fixture
def top(jobs, terminal, programs):
    """top(*words, **as Screen): reigen top on a screen."""
    return lambda *words, **more: terminal(programs.reigen, 'top', *words, kind=Screen,
                                           **jobs.own, **more)


@contextlib.contextmanager
def head_of(jobs, folder, number, *options, **env):
    """A job of 3 ranks, of which rank 1 is late, with an agent as its head, which a platform runs
    as its job of this number."""
    plan = folder / 'head.plan'
    done = jobs.run('run', '-np', 3, *options, '--write-plan', plan, '--',
                    PROGRAMS.build / 'tests/programs/uneven', 40, 5)
    assert done.returncode == 0, done
    with subprocess.Popen([PROGRAMS.agent, 'head', '--plan', plan], stdin=subprocess.DEVNULL,
                          env=environment(**{**jobs.own, **env}, SLURM_JOB_ID=number),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as head:
        try:
            yield head
        finally:
            head.terminate()


def see(screen, wanted):
    """Wait until a line has that, and give all lines."""
    until(lambda: any(wanted in line for line in screen.lines()), wanted, LIMIT,
          seen=screen.lines)
    return screen.lines()


def ranks_of(lines):
    """The first column of a table's rows."""
    at = next(i for i, line in enumerate(lines) if ' HOST ' in line)
    rows = [line.lstrip('> ').split() for line in lines[at + 1:]]
    return [row[0] for row in rows if row and len(row) == 10]


def test_elsewhere_than_on_a_terminal_it_is_a_table_or_lines_of_json(jobs):
    none = jobs.run('top')
    assert none.returncode == 2 and 'no job of yours runs' in none.stderr, none
    ident = jobs.start('-H', 'a:2,b:1')
    done = until(lambda: (now := jobs.run('top')) and 'why: ' in now.stdout and now, 'why', LIMIT)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and '\033' not in done.stdout and not done.stderr, done
    assert lines[0].startswith(f'job {ident}: running for 0:'), lines
    assert ', 3 ranks on 2 hosts: sh -c ' in lines[0], lines
    assert lines[2].startswith('waited for: rank 1 on a, '), lines
    why, = [line for line in lines if line.startswith('why: slow input: it waits ')]
    lines.remove(why)
    assert lines[3].split() == ['RANK', 'HOST', 'STEPS', 'STEP/S', 'COMM', 'WAITS', 'CAUSES',
                                'BYTES/S', 'CPU', 'MEMORY']
    assert ranks_of(lines)[0] == '1' and sorted(ranks_of(lines)) == ['0', '1', '2'], lines
    assert [line.split()[1] for line in sorted(lines[4:])] == ['a', 'a', 'b'], lines
    done = jobs.run('top', '--json', '-n', 2, ident)
    first, second = map(json.loads, done.stdout.splitlines())
    assert first['job'] == ident and first['state'] == 'running', first
    assert second['ranks'][0]['steps'] > first['ranks'][0]['steps'], (first, second)
    assert first['waited_for']['rank'] == 1 and first['waited_for']['host'] == 'a', first
    why = second['diagnosis']
    assert (why['cause'], why['rank'], why['host'], why['to']) == ('slow-input', 1, 'a', None), why
    assert why['share'] > 0.5 and why['value'] > 0.5 > why['usual'], why
    assert [(h['host'], h['ranks']) for h in first['hosts']] == [('a', 2), ('b', 1)], first
    assert all(0 <= r['communication'] <= 1 and r['causing'] <= 2 for r in second['ranks']), second
    wrong = jobs.run('top', '-n', 0, ident)
    assert wrong.returncode == 2 and '-n' in wrong.stderr, wrong
    jobs.close()
    ended = jobs.run('top', ident)
    assert ended.returncode == 69 and 'ended with exit code 143' in ended.stderr, ended


@pytest.mark.parametrize('columns', [80, 200])
def test_keys_sort_open_and_go_back_and_hosts_stand_for_ranks(jobs, top, columns):
    elastic = ['--min-np', 2] if columns == 200 else []
    plain = {'NO_COLOR': '1'} if columns == 200 else {}
    jobs.start('-H', 'a:2,b:1', '--output-dir', jobs.folder / 'out', *elastic)
    screen = top(columns=columns, **plain)
    lines = see(screen, 'waited for: rank 1 on a')
    assert max(map(len, lines)) <= columns and len(lines) == 24, lines
    assert ranks_of(lines)[0] == '1' and lines[-1].startswith('1-3 of 3 | q quit'), lines
    screen.send(b'\r')
    lines = see(screen, 'rank 1 on a')
    lines = see(screen, '  | hello of 1')
    assert lines[-1] == 'q quit, Esc back', lines
    screen.send(b'\033')
    see(screen, '(causes)')
    screen.send(b'ssss')  # the last is by rank
    lines = see(screen, '(rank)')
    assert ranks_of(lines) == ['0', '1', '2'], lines
    screen.send(b'\033[H\033[B\033OB')  # to the first, and down twice
    see(screen, '>      2 b')
    screen.screen.resize(9, columns)
    screen.resize(9, columns)  # two rows of three
    lines = see(screen, 'RANKS')
    screen.send(b'\033[H\r')
    lines = see(screen, '1-2 of 2')
    assert ranks_of(lines) == ['0', '1'], lines
    screen.screen.resize(5, columns)
    screen.resize(5, columns)  # what is chosen is seen even there
    see(screen, '>      0 a')
    screen.send(b'q')
    assert screen.wait() == 0 and screen.seen.endswith(CLOSED) and screen.echo_is_on()
    styles = set(re.findall(rb'\033\[(\d+)m', screen.seen))
    # Behind a line that fills its row, terminals would erase its last character.
    assert not re.search(rb'[^H\n]\033\[K', screen.seen)
    assert styles == ({b'0'} if plain else {b'0', b'1', b'7', b'31'}), styles


@pytest.mark.parametrize('end', [b'\x03', signal.SIGTERM, signal.SIGHUP, b'q', 'gone'])
def test_the_terminal_is_as_it_was_whatever_ends_it(jobs, top, end):
    jobs.start()
    screen = top(NO_COLOR=1)
    see(screen, 'waited for: rank 1')
    if isinstance(end, bytes):
        screen.send(end)
    elif end != 'gone':
        os.kill(screen.pid, end)
    else:
        jobs.close()
    code = {b'\x03': 130, signal.SIGTERM: 143, signal.SIGHUP: 129}.get(end, 0)
    assert screen.wait(LIMIT) == code and screen.echo_is_on()
    before, _, after = screen.seen.rpartition(CLOSED)
    assert before.count(b'\033[?1049h') == 1 and b'\033[?1049h' not in after
    if end == 'gone':
        lines = after.decode().split('\r\n')
        assert 'ended with exit code 143' in lines[0] and len(ranks_of(lines)) == 3, lines
    else:
        assert not after


def test_it_stops_for_the_shell_and_goes_on_where_it_was(jobs, terminal):
    ident = jobs.start()
    shell = terminal('/bin/bash', '--norc', '--noprofile', '-i', kind=Screen, PS1='$ ', **jobs.own)
    shell.send(f'{PROGRAMS.reigen} top {ident}\n'.encode())
    see(shell, 'waited for: rank 1')
    shell.send(b'\x1a')
    see(shell, 'Stopped')
    assert shell.seen.count(CLOSED) == 1
    shell.send(b'fg\n')
    until(lambda: shell.lines() and shell.seen.rpartition(CLOSED)[2].count(b'waited for: rank 1'),
          'the screen again', LIMIT, seen=shell.lines)
    for key in ('cpu', 'memory'):
        shell.send(b's')
        see(shell, f'({key})')
    assert shell.seen.count(CLOSED) == 1  # it has the terminal all the time
    shell.send(b'q')
    until(lambda: shell.lines() and shell.seen.count(CLOSED) > 1, 'its end', LIMIT)
    shell.send(b'echo ended $?; exit\n')
    see(shell, 'ended 0')
    assert shell.wait() == 0


def test_several_jobs_have_a_row_each_and_enter_opens_one(jobs, top):
    calm, late = jobs.start(), jobs.start('-H', 'a:2,b:1')
    plain = jobs.run('top').stdout.splitlines()
    assert plain[0].split()[0] == 'JOB' and {line.split()[0] for line in plain[1:]} == {calm, late}
    screen = top()
    lines = see(screen, 'rank 1 on a')
    assert any(line[2:].startswith(calm) for line in lines), lines
    screen.send(b'\r')
    lines = see(screen, 'waited for: rank 1')
    assert 'Esc back' in lines[-1], lines
    screen.send(b'\033')
    lines = see(screen, 'WAITED FOR')
    jobs.running[1].terminate()
    see(screen, 'exit 143')
    screen.send(b'q')
    assert screen.wait() == 0


def test_a_launcher_that_is_paused_keeps_nobody_waiting(jobs, top):
    jobs.start()
    screen = top()
    see(screen, 'waited for: rank 1')
    jobs.running[0].send_signal(signal.SIGSTOP)
    see(screen, 'does not answer')
    silent = top('-n', 2)
    assert silent.wait(LIMIT) == 0 and b'not answered yet' in silent.seen
    screen.send(b'\r')
    see(screen, 'others wait')
    jobs.running[0].send_signal(signal.SIGCONT)
    until(lambda: not any('does not answer' in line for line in screen.lines()), 'an answer',
          LIMIT, seen=screen.lines)
    screen.send(b'q')
    assert screen.wait() == 0


def test_a_head_that_slurm_runs_is_asked_by_a_step_of_its_job(jobs, tmp_path):
    """srun is played, and what it starts is real: the agent that is the head, and who asks it."""
    number = str(os.getpid())  # by which nobody else's head is known
    queue = Queue(tmp_path)
    (queue.folder / 'srun').write_text(SRUN)
    (queue.folder / 'srun').chmod(0o755)
    queue.says('sbatch', f'{number}\n')
    queue.says('squeue', f'{number}|PENDING|Priority|{SINCE}|0:00|\n')
    assert queue.submit().returncode == 0
    waits = queue.reigen('top', number)
    assert waits.returncode == 69 and f'job {number}: Slurm says PENDING' in waits.stderr, waits
    queue.says('squeue', f'{number}|RUNNING|None|{SINCE}|1:02:03|n1\n')
    with head_of(jobs, tmp_path, number) as head:
        def see_top(*words):
            def told():
                assert head.poll() is None, 'the job has ended'
                now = queue.reigen('top', *words)
                return 'why: ' in now.stdout and now.stdout
            return until(told, 'why rank 1 is waited for', LIMIT)
        for words in ([number], []):  # there is no other
            text = see_top(*words)
            assert re.match(rf'job {number}: running for 1:\d\d:\d\d, 3 ranks on 1 host: true\n',
                            text), text
            assert '\nwaited for: rank 1 on localhost' in text, text
        told = json.loads(queue.reigen('top', '--json', number).stdout)
        assert told['job'] == number and len(told['ranks']) == 3, told
        if os.geteuid() == 0:  # as in a pod beside it that has the host's network
            apart = subprocess.run(['unshare', '-pf', PROGRAMS.agent, 'ask', number], text=True,
                                   input='0\n', capture_output=True, timeout=LIMIT, check=False)
            assert apart.stdout == '{"error":"Operation not permitted"}\n', apart
        head.terminate()
        head.wait(LIMIT)
    gone = queue.reigen('top', number)
    assert gone.returncode == 69 and 'its launcher does not answer' in gone.stderr, gone
    (queue.folder / 'srun').write_text('#!/bin/sh\necho srun: error: no node >&2; exit 1\n')
    lost = queue.reigen('top', number)
    assert lost.returncode == 69 and '(srun: error: no node)' in lost.stderr, lost
    ident = jobs.start()
    heading, mine, other = queue.reigen('top').stdout.splitlines()
    assert mine.split()[0] == ident and 'rank 1 on' in mine, mine
    assert other.split()[0] == number, other
    assert f'Slurm: RUNNING; reigen top {number} shows its numbers' in other, other
    assert other.index('Slurm') == heading.index('WAITED FOR')


def test_a_head_whose_name_is_taken_says_that_top_will_not_show_it(jobs, tmp_path):
    number, plan = str(os.getpid()), tmp_path / 'second.plan'
    done = jobs.run('run', '-np', 1, '--write-plan', plan, '--', 'true')
    assert done.returncode == 0, done
    with head_of(jobs, tmp_path, number):
        until(lambda: '"columns"' in subprocess.run(
            [PROGRAMS.agent, 'ask', number], env=environment(**jobs.own), input='0\n', text=True,
            capture_output=True, timeout=LIMIT, check=False).stdout, 'the first head', LIMIT)
        second = subprocess.run([PROGRAMS.agent, 'head', '--plan', plan], text=True, timeout=LIMIT,
                                env=environment(**jobs.own, SLURM_JOB_ID=number), check=False,
                                stdin=subprocess.DEVNULL, capture_output=True)
    assert second.returncode == 0, second
    assert re.search(rf'reigen top {number} will not show this job, r-\S+: another job that is '
                     rf'called {number} runs in the same network\n', second.stderr), second


def test_a_head_in_a_pod_is_asked_by_kubectl_exec(jobs, played, tmp_path):  # noqa: F811
    name = f'job{os.getpid()}'
    played.has_job(name)
    with head_of(jobs, tmp_path, name) as head:
        def told():
            assert head.poll() is None, 'the job has ended'
            done = subprocess.run([PROGRAMS.reigen, 'top', '--namespace', 'space', name],
                                  env=played.env, capture_output=True, text=True, timeout=LIMIT,
                                  check=False, stdin=subprocess.DEVNULL)
            return '\nwaited for: rank 1 on localhost' in done.stdout
        until(told, 'numbers of all ranks', LIMIT)
        head.terminate()
        head.wait(LIMIT)
    assert any(line.startswith(f'exec --stdin --container=reigen {name}-0-a -- /reigen/agent/')
               for line in played.asked()), played.asked()


def test_a_job_that_waited_for_somebody_most_of_its_time_says_so_at_its_end(jobs):
    """Of less than 10 s there would be nothing to say."""
    with (jobs.folder / 'err').open('w') as err, (jobs.folder / 'out').open('w') as out:
        jobs.running.append(subprocess.Popen(
            [PROGRAMS.reigen, 'run', '-np', '2', '--json', '--metrics', jobs.folder / 'x.prom',
             '--record', jobs.folder / 'record', '--',
             PROGRAMS.build / 'tests/programs/uneven', '60', '5'],
            env=environment(**jobs.own), stdin=subprocess.DEVNULL, stdout=out, stderr=err))
    metrics = jobs.folder / 'x.prom'
    until(lambda: metrics.exists() and 'cause="slow-input"} ' in metrics.read_text(), 'a cause',
          LIMIT)
    assert 'reigen_waited_for_ratio{rank="1",host="localhost",cause="slow-input"} 0.' in \
        metrics.read_text()
    ident = json.loads(jobs.run('jobs', '--json').stdout)[0]['id']
    until(lambda: jobs.reading(ident)['elapsed_s'] >= 15, 'some seconds of it', LIMIT)
    jobs.close()
    events = [json.loads(line) for line in (jobs.folder / 'out').read_text().splitlines()]
    slowed, verdict = events[-2:]
    assert (slowed['event'], verdict['event']) == ('slowed', 'verdict'), events
    assert (slowed['cause'], slowed['rank'], slowed['to']) == ('slow-input', 1, None), slowed
    assert slowed['share'] > 0.5 and slowed['value'] > slowed['usual'], slowed
    kept = (jobs.folder / 'record/events.jsonl').read_text()
    recorded, = [e for e in map(json.loads, kept.splitlines()) if e.get('event') == 'slowed']
    assert {**recorded, 'time': slowed['time']} == slowed
    page = jobs.folder / 'page.html'
    jobs.run('report', '-o', page, jobs.folder / 'record')
    assert re.search(r'<span>rank 1 on \S+: \d+ % of the time, slow-input</span>', page.read_text())
    said = (jobs.folder / 'err').read_text()
    assert re.search(r'^reigen: rank 1 on \S+ was waited for \d+ % of the time: slow input: it ',
                     said, re.M), said
