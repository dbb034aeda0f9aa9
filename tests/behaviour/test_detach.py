# SPDX-License-Identifier: Apache-2.0
"""reigen run --detach: a job that goes on when its terminal closes, and how it is found again."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from built import PROGRAMS, environment
from processes import assert_gone, mark, wait_count
from terminals import Terminal
from wait import until

LIMIT = 60
MACHINE_ID = Path('/etc/machine-id')
#: A rank that writes a line to each stream, waits for a word, and ends with it.
SCRIPT = 'echo hello $REIGEN_RANK; echo alas >&2; read code <{go}$REIGEN_RANK; echo bye; exit $code'
ENDED = 'reigen: exit code'


class Home:
    """A user's folders, and reigen there."""

    def __init__(self, folder):
        self.folder = folder
        self.state = folder / 'state/reigen'
        self.go = folder / 'go'
        for number in '01':
            os.mkfifo(f'{self.go}{number}')
        (folder / 'run').mkdir(0o700)
        self.variables = {'XDG_STATE_HOME': folder / 'state', 'TMPDIR': folder,
                          'XDG_RUNTIME_DIR': folder / 'run', 'HOME': folder}
        self.env = environment(**self.variables)

    def said(self, ident, words):
        """Wait until a job's log has them: its launcher may be killed before."""
        log = self.state / 'logs' / ident
        until(lambda: words in log.read_text('utf-8'), words, LIMIT)

    def reigen(self, *words, **variables):
        """Nobody may hold its pipes open: they would not end within the limit."""
        return subprocess.run([PROGRAMS.reigen, *map(str, words)], env={**self.env, **variables},
                              text=True, capture_output=True, timeout=LIMIT, check=False,
                              stdin=subprocess.DEVNULL)

    def detach(self, *words, **variables):
        """The name of a job that has started."""
        done = self.reigen('run', '--detach', *words, **variables)
        assert done.returncode == 0, done
        ident, = done.stdout.splitlines()
        for command in ('attach', 'logs -f', 'stop'):
            assert f'reigen {command} {ident}' in done.stderr, done
        return ident

    def rank(self):
        return ['sh', '-c', SCRIPT.format(go=self.go)]

    def tell(self, code, number=0):
        """The rank, or the start, of this number."""
        with open(f'{self.go}{number}', 'w', encoding='utf-8') as go:
            go.write(f'{code}\n')

    def start(self, *words, **how):
        """A command that may not return before its job is told to go on by tell(): it has begun."""
        ssh = self.folder / 'ssh'
        ssh.write_text(f'#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\necho >{self.go}0\n'
                       f'read code <{self.go}1 || exit\nexec sh -c "$3"\n', 'utf-8')
        ssh.chmod(0o755)
        words = ['run', '--detach', '-H', 'a:1', '--', *words]
        command = subprocess.Popen([PROGRAMS.reigen, *words], text=True, stdin=subprocess.DEVNULL,
                                   env={**self.env, 'REIGEN_SSH': str(ssh)}, **how)
        with open(f'{self.go}0', encoding='utf-8') as begun:
            begun.read()
        return command

    def jobs(self, *options):
        return json.loads(self.reigen('jobs', '--json', *options).stdout)

    def close(self):
        self.reigen('stop', '--all')


@pytest.fixture
def home(tmp_path):
    home = Home(tmp_path)
    yield home
    home.close()


def test_a_job_goes_on_when_its_terminal_closes(home):
    shell = f'{PROGRAMS.reigen} run --detach -np 1 --tag-output -- ' \
            f"sh -c '{SCRIPT.format(go=home.go)}'; echo rc=$?; exec cat"
    terminal = Terminal('/bin/sh', '-c', shell, **home.variables)
    try:
        terminal.read_until(b'rc=0')
    finally:
        os.close(terminal.fd)                   # the kernel sends SIGHUP
        assert os.WTERMSIG(os.waitpid(terminal.pid, 0)[1]) == signal.SIGHUP
    job, = home.jobs()
    assert job['id'].encode() in terminal.seen and job['state'] == 'running', job
    home.tell(3)
    for _ in range(2):                          # its end is kept
        attached = home.reigen('attach', job['id'][:-2])
        assert attached.returncode == 3, attached
        assert attached.stdout.startswith('[0] hello 0\n[0] alas\n[0] bye\n'), attached
        assert ENDED + ' 3' in attached.stdout and not attached.stderr, attached
    assert home.jobs() == [] and home.jobs('--all')[0]['exit_code'] == 3
    # As on a terminal; and without colours where there is none, or the user wants none.
    for variables, seen in ({}, b'\033[36m[0]\033[0m hello 0'), ({'NO_COLOR': '1'}, b'[0] hello 0'):
        terminal = Terminal(PROGRAMS.reigen, 'logs', job['id'], **home.variables, **variables)
        try:
            assert terminal.wait() == 0
            assert terminal.seen.startswith(seen), terminal.seen
        finally:
            terminal.close()


def test_a_log_without_a_job_goes_after_a_day(home):
    logs = home.state / 'logs'
    logs.mkdir(parents=True, mode=0o700)
    for name, days in (('r-20260101-000000-0badcafe', 2), ('r-20260102-000000-0badcafe', 0.5)):
        (logs / name).write_text('started\n')
        then = time.time() - days * 24 * 3600
        os.utime(logs / name, (then, then))
    (home.state / 'jobs').symlink_to('jobs')  # it cannot be looked at, so nothing is known
    home.reigen('jobs')
    assert len(list(logs.iterdir())) == 2
    (home.state / 'jobs').unlink()
    assert home.reigen('jobs').returncode == 0
    assert [log.name for log in logs.iterdir()] == ['r-20260102-000000-0badcafe']


def test_logs_and_attach_follow_it(home):
    ident = home.detach('-np', 2, '--ranks', '0-1', '--', *home.rank())
    job, = home.jobs()
    log = job['output']['path']
    assert job['output']['kind'] == 'log' and log == str(home.state / 'logs' / ident), job
    assert os.stat(log).st_mode & 0o777 == 0o600
    assert os.stat(home.state / 'logs').st_mode & 0o777 == 0o700
    with subprocess.Popen([PROGRAMS.reigen, 'logs', '-f', '--rank', '1', ident], env=home.env,
                          stdout=subprocess.PIPE, text=True) as following:
        assert {following.stdout.readline() for _ in 'ab'} == {'[1] hello 1\n', '[1] alas\n'}
        terminal = Terminal(PROGRAMS.reigen, 'attach', ident, **home.variables)
        try:
            terminal.read_until(b'hello 0')
            terminal.send(b'\x03')
            assert terminal.wait() == 128 + signal.SIGINT
            assert f'left; job {ident} goes on'.encode() in terminal.seen, terminal.seen
        finally:
            terminal.close()
        assert home.jobs()[0]['state'] == 'running'
        home.tell(0, 0)
        home.tell(0, 1)
        assert following.wait(LIMIT) == 0
        assert following.stdout.read() == '[1] bye\n'
    assert home.reigen('attach', ident).returncode == 0
    assert 'has 2 ranks' in home.reigen('logs', '--rank', 2, ident).stderr


def test_attach_by_nohup_stays(home):
    ident = home.detach('-np', 1, '--', *home.rank())
    nohup = ['sh', '-c', 'trap "" HUP; exec "$0" attach "$1"', PROGRAMS.reigen, ident]
    with subprocess.Popen(nohup, env=home.env, stdout=subprocess.PIPE, text=True) as attached:
        assert attached.stdout.readline() == 'hello 0\n'
        attached.send_signal(signal.SIGHUP)
        home.tell(9)
        assert attached.wait(LIMIT) == 9


def test_the_ranks_of_horovodrun_are_told_apart_behind_its_times(home):
    done = home.reigen('horovodrun', '--detach', '--prefix-timestamp', '-np', 2, '--', 'sh', '-c',
                       'echo here $REIGEN_RANK')
    ident = done.stdout.strip()
    assert home.reigen('attach', ident).returncode == 0
    logs = home.reigen('logs', '--rank', 1, ident)
    assert re.fullmatch(r'.{19} [0-9]{4}\[1\]<stdout>:here 1\n', logs.stdout), logs


def test_it_holds_nothing_of_the_caller_open(home):
    """A lock, or a pipe that somebody reads to its end."""
    reader, writer = os.pipe()
    words = ['run', '--quiet', '--detach', '-np', '1', '--', *home.rank()]
    with subprocess.Popen([PROGRAMS.reigen, *words], env=home.env, stdin=subprocess.DEVNULL,
                          pass_fds=[writer]) as job:
        os.close(writer)
        assert job.wait(LIMIT) == 0
    with open(reader, 'rb') as pipe:
        assert pipe.read() == b'' and home.jobs()[0]['state'] == 'running'


@pytest.mark.parametrize('words, code, said', [
    (['--frob', '--', 'true'], 2, 'unknown option --frob'),
    (['--pty', '--', 'true'], 2, 'drop --pty'),
    (['--stdin', 'all', '--', 'true'], 2, 'drop --stdin'),
    (['-np', '2', '--', './nosuchprogram'], 127, 'cannot start ./nosuchprogram'),
    (['-np', '2', '-H', 'a:2', '--', 'true'], 69, 'host a: ssh failed: no way'),
], ids=['option', 'pty', 'stdin', 'program', 'host'])
def test_what_fails_at_once_is_told_at_once(home, words, code, said):
    ssh = home.folder / 'ssh'
    ssh.write_text('#!/bin/sh\necho no way >&2\nexit 255\n', 'utf-8')
    ssh.chmod(0o755)
    done = home.reigen('run', '--detach', *words, REIGEN_SSH=str(ssh))
    assert done.returncode == code and said in done.stderr and not done.stdout, done
    assert home.jobs() == []


def test_a_start_that_fails_before_it_is_listed_leaves_no_log(home):
    done = home.reigen('run', '--detach', '--output-dir', '/proc/x', '--', 'true')
    assert done.returncode == 2 and "Try 'reigen run --help'" in done.stderr, done
    assert not list((home.state / 'logs').iterdir())


def test_until_it_has_started_ctrl_c_ends_it(home):
    ssh, word = home.folder / 'ssh', mark()
    ssh.write_text(f'#!/bin/sh\n: {word}\necho >{home.go}0\nread answer\n', 'utf-8')
    ssh.chmod(0o755)
    terminal = Terminal(PROGRAMS.reigen, 'run', '--detach', '-np', '1', '-H', 'a', '--', 'true',
                        word, REIGEN_SSH=ssh, **home.variables)
    try:
        with open(f'{home.go}0', encoding='utf-8') as begun:
            begun.read()
        terminal.read_until(b'0 of 1 host ready')
        terminal.send(b'\x03')
        assert terminal.wait() == 128 + signal.SIGINT, terminal.seen
        assert b'exit code 130' in terminal.seen, terminal.seen
    finally:
        terminal.close()
    assert_gone(word)
    assert home.jobs() == []


def test_a_command_that_is_killed_before_the_start_takes_its_job_along(home):
    word = mark()
    with home.start('true', word, stderr=subprocess.DEVNULL) as command:
        command.kill()
    assert_gone(word)
    assert home.jobs() == []


def test_a_signal_that_the_command_sees_too_late_ends_the_job_and_is_told(home):
    with home.start('sh', '-c', 'echo hello; exec sleep 1000', stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE) as command:
        command.send_signal(signal.SIGSTOP)
        home.tell(0, 1)
        log = home.state / 'logs' / home.jobs()[0]['id']
        until(lambda: 'hello' in log.read_text('utf-8'), 'the start', LIMIT)
        command.send_signal(signal.SIGINT)
        command.send_signal(signal.SIGCONT)
        try:
            out, err = command.communicate(timeout=LIMIT)
        finally:
            command.kill()
    assert command.returncode == 128 + signal.SIGINT and not out, (out, err)
    assert f'job {log.name} had started, and was told to end' in err, err
    assert home.jobs() == []


def test_a_signal_after_the_start_is_for_the_command_alone(home):
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    os.set_blocking(writer, True)
    words = ['run', '--detach', '-np', '1', '--', *home.rank()]
    try:
        with subprocess.Popen([PROGRAMS.reigen, *words], env=home.env, stdin=subprocess.DEVNULL,
                              stdout=writer, stderr=subprocess.PIPE, text=True) as command:
            until(lambda: 'has started' in command.stderr.readline(), 'the start', LIMIT)
            command.send_signal(signal.SIGINT)
            try:
                assert command.wait(LIMIT) == -signal.SIGINT
            finally:
                command.kill()
    finally:
        os.close(reader)
        os.close(writer)
    job, = home.jobs()
    home.tell(7)
    assert home.reigen('attach', job['id']).returncode == 7


def test_hosts_of_ssh_go_on_as_well(home):
    ssh = home.folder / 'ssh'
    ssh.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\n'
                   f'export HOME={home.folder}/home-$2\nmkdir -p "$HOME"\nexec sh -c "$3"\n',
                   'utf-8')
    ssh.chmod(0o755)
    ident = home.detach('-H', 'a:1,b:1', '--', *home.rank(), REIGEN_SSH=str(ssh))
    assert home.jobs()[0]['hosts'] == ['a', 'b']
    home.tell(0, 1)
    home.tell(6, 0)
    attached = home.reigen('attach', ident)
    assert attached.returncode == 6 and 'rank 0 on a failed first' in attached.stdout, attached


def test_two_run_at_once_and_stop_ends_one(home):
    word = mark()
    one, two = (home.detach('-np', 1, '--', *home.rank(), word) for _ in 'ab')
    assert {job['id'] for job in home.jobs()} == {one, two}
    assert home.reigen('stop', one).stdout == f'stopped {one}\n'
    assert [job['id'] for job in home.jobs()] == [two]
    assert 'told to stop by reigen stop' in home.reigen('logs', one).stdout
    assert home.reigen('attach', one).returncode == 143
    home.tell(0)
    assert home.reigen('attach', two).returncode == 0
    assert_gone(word)


def test_a_killed_launcher_and_a_restarted_computer_are_told_apart(home):
    word = mark()
    ident = home.detach('-np', 1, '--', *home.rank(), word)
    launcher = int(home.jobs()[0]['launcher'].split(':')[1])
    wait_count(word, 2)                         # with the launcher
    home.said(ident, 'hello 0')
    os.kill(launcher, signal.SIGKILL)
    assert_gone(word)
    assert 'dead: its launcher was killed' in home.reigen('status', ident).stdout
    assert 'its launcher was killed before' in home.reigen('status', ident).stdout
    attached = home.reigen('attach', ident)
    assert attached.returncode == 69 and 'its launcher was killed' in attached.stderr, attached
    assert attached.stdout.startswith('hello 0\n'), attached
    # As a boot changes it.
    note = home.state / 'ended' / ident
    lines = note.read_text('utf-8').splitlines()
    lines = [f'kernel another {line.split(" ", 2)[2]}' if line.startswith('kernel ') else line
             for line in lines]
    note.write_text('\n'.join(lines) + '\n', 'utf-8')
    # Another one may have the same name; only this file tells whether it is the same computer.
    known = MACHINE_ID.exists() and MACHINE_ID.stat().st_size > 0
    assert ('or this computer started again' in home.reigen('status', ident).stdout) == known
    note.rename(home.state / 'jobs' / ident)
    assert ('this computer was started again since' in home.reigen('status', ident).stdout) == known


def fill_ended(home, nbytes):
    """With 32 jobs that have ended, and their logs."""
    ended = home.state / 'ended'
    for folder in (ended, home.state / 'logs'):
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    for i in range(32):
        log = home.state / f'logs/r-{i}'
        (ended / f'r-{i}').write_text(f'launcher a:1:1\noutput log {log}\nexit 0\n', 'utf-8')
        os.utime(ended / f'r-{i}', (2000 + i, 2000 + i))
        with log.open('wb') as hole:
            hole.truncate(nbytes)


def test_a_killed_launcher_of_an_old_job_leaves_its_log(home):
    """Others have ended since it has begun."""
    word = mark()
    ident = home.detach('-np', 1, '--', *home.rank(), word)
    home.said(ident, 'hello 0')
    os.kill(int(home.jobs()[0]['launcher'].split(':')[1]), signal.SIGKILL)
    assert_gone(word)
    os.utime(home.state / 'jobs' / ident, (1000, 1000))
    fill_ended(home, 1)
    assert home.jobs()[0]['state'] == 'dead'    # told once, and then among those that have ended
    assert home.reigen('logs', ident).stdout.startswith('hello 0\n')
    assert {path.name for path in (home.state / 'ended').iterdir()} == {
        ident, *(f'r-{i}' for i in range(1, 32))}


def test_the_job_file_may_say_it_and_other_options_go_with_it(home):
    job, told = home.folder / 'job.yaml', home.folder / 'told'
    command = f'read code <{home.go}$REIGEN_RESTART; exit $code'
    job.write_text(f'detach: true\nnp: 1\nmax-restarts: 1\ntimeout: 1h\n'
                   f'notify: cat >{told}.new; mv {told}.new {told}\n'
                   f'command: [sh, -c, "{command}"]\n', 'utf-8')
    done = home.reigen('run', '--config', job)
    assert done.returncode == 0, done
    home.tell(5, 0)
    home.tell(4, 1)
    assert home.reigen('attach', done.stdout.strip()).returncode == 4
    until(told.exists, "the command's file", LIMIT)
    assert json.loads(told.read_text('utf-8'))['exit_code'] == 4


def test_who_has_it_in_the_configuration_may_stay_with_a_job(home):
    config = home.folder / 'config'
    config.write_text('[defaults]\ndetach = true\n', 'utf-8')
    for words, said in (['--detach=false'], 'here\n'), (['--stdin', 'all'], 'here\n'), ([], 'r-'):
        done = home.reigen('run', *words, '-np', 1, '--', 'echo', 'here', REIGEN_CONFIG=str(config))
        assert done.returncode == 0 and done.stdout.startswith(said), done


def test_logs_of_jobs_that_are_forgotten_go(home):
    ended = home.state / 'ended'
    fill_ended(home, 100 << 20)
    ident = home.detach('-np', 1, '--', 'true')
    left = {ident, *(f'r-{i}' for i in range(22, 32))}     # 1 GiB
    until(lambda: {path.name for path in (home.state / 'logs').iterdir()} == left,
          'no more logs than are kept', LIMIT, lambda: list((home.state / 'logs').iterdir()))
    assert {path.name for path in ended.iterdir()} == {ident, *(f'r-{i}' for i in range(1, 32))}
    assert 'has no output here' in home.reigen('logs', 'r-21').stderr
