# SPDX-License-Identifier: Apache-2.0
"""reigen jobs, status, logs and stop: jobs of this computer, which nobody submitted. Those that
were are in test_submitted.py."""
import json
import os
import pty
import re
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from built import PROGRAMS, environment
from wait import until

LIMIT = 60


class Home:
    """A user's folders, and reigen there."""

    def __init__(self, folder):
        self.folder = folder
        self.tmp = folder / 'tmp'
        self.tmp.mkdir()
        self.run = folder / 'run'
        self.run.mkdir(0o700)
        self.env = environment(XDG_STATE_HOME=folder / 'state', TMPDIR=self.tmp,
                               XDG_RUNTIME_DIR=self.run)

    def reigen(self, *words):
        return subprocess.run([PROGRAMS.reigen, *map(str, words)], env=self.env, text=True,
                              capture_output=True, timeout=LIMIT, check=False,
                              stdin=subprocess.DEVNULL)

    def jobs(self, *options):
        done = self.reigen('jobs', '--json', *options)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def told(self, line):
        """A job's launcher has written this line down."""
        return any(f'\n{line}\n' in file.read_text() for file in
                   (self.folder / 'state/reigen/jobs').glob('[a-z]*'))

    @contextmanager
    def running(self, *words, **options):
        """A job that has begun; its rank has made the file `there`."""
        there = self.folder / 'there'
        script = f'echo hello; echo alas >&2; : >{there}; exec sleep 1000'
        with subprocess.Popen([PROGRAMS.reigen, 'run', '-np', '1', *map(str, words), '--', 'sh',
                               '-c', script], env=self.env, stdin=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, **options) as job:
            try:
                wait_until(lambda: (there.exists() and self.told('running yes')) or
                           job.poll() is not None)
                yield job
            finally:
                there.unlink(missing_ok=True)
                job.terminate()


def wait_until(condition):
    until(condition, "this state of the user's jobs", LIMIT)


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path)


def test_a_job_is_known_from_its_start_to_after_its_end(home):
    out = home.folder / 'out'
    with home.running('--output-dir', out, stdout=subprocess.DEVNULL) as job:
        told, = home.jobs()
        ident = told['id']
        assert told['state'] == 'running' and told['hosts'] == ['localhost'], told
        assert told['ranks'] == 1 and told['output'] == {'kind': 'dir', 'path': str(out)}, told
        assert told['launcher'].split(':')[1] == str(job.pid), told
        table = home.reigen('jobs').stdout.splitlines()
        assert table[0].split() == ['JOB', 'STATE', 'TIME', 'RANKS', 'HOSTS', 'COMMAND']
        assert table[1].split()[:2] == [ident, 'running'], table
        assert table[0].index('COMMAND') == table[1].index('sh -c'), table
        status = home.reigen('status', ident[:-2]).stdout
        assert status.startswith(f'job {ident}: running for 0:') and str(out) in status, status
        # What the rank has written may still be on its way to the files.
        wait_until(lambda: home.reigen('logs', ident).stderr == 'alas\n')
        wait_until(lambda: home.reigen('logs', ident).stdout == 'hello\n')
        assert home.reigen('logs', ident).returncode == 0
        with subprocess.Popen([PROGRAMS.reigen, 'logs', '-f', ident], env=home.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
            assert following.stdout.readline() == 'hello\n'
            assert home.reigen('stop', ident[:-2]).returncode == 0
            assert following.wait(LIMIT) == 0
        assert job.wait(LIMIT) == 143
    assert home.jobs() == [] and 'No job' in home.reigen('jobs').stdout
    ended, = home.jobs('--all')
    assert (ended['id'], ended['state'], ended['exit_code']) == (ident, 'ended', 143), ended
    assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d', ended['ended']), ended
    assert f'job {ident}: ended with exit code 143 at ' in home.reigen('status', ident).stdout
    assert home.reigen('logs', ident).stdout == 'hello\n'
    assert 'has ended already' in home.reigen('stop', ident).stderr


def test_the_only_job_needs_no_name(home):
    out = home.folder / 'out'
    for command in ('status', 'logs', 'attach'):
        done = home.reigen(command)
        assert done.returncode == 2 and f'{command}: no job of yours runs' in done.stderr, done
    with home.running('--output-dir', out, stdout=subprocess.DEVNULL):
        ident = home.jobs()[0]['id']
        says = f'reigen: job {ident}  sh -c '
        status = home.reigen('status')
        assert status.stdout.startswith(f'job {ident}: running'), status
        assert status.stderr.startswith(says), status
        wait_until(lambda: home.reigen('logs', '--rank', 0).stdout == 'hello\n')
        with home.running(stdout=subprocess.DEVNULL):
            wait_until(lambda: len(home.jobs()) == 2)
            both = sorted(told['id'] for told in home.jobs())
            done = home.reigen('logs')
            assert done.returncode == 2 and '2 jobs of yours run or wait' in done.stderr, done
            assert sorted(re.findall(r'^  (r\S+)  sh -c ', done.stderr, re.M)) == both, done
            assert home.reigen('stop').returncode == 2  # it ends nothing unasked
        wait_until(lambda: len(home.jobs()) == 1)
        with subprocess.Popen([PROGRAMS.reigen, 'attach'], env=home.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as attached:
            hello = attached.stdout.readline()
            home.reigen('stop', ident)
            assert hello == 'hello\n' and says in attached.stderr.read()
            assert attached.wait(LIMIT) == 143


def test_a_job_elsewhere_is_no_reason_to_say_that_none_runs(home):
    jobs = home.folder / 'state/reigen/jobs'
    jobs.mkdir(parents=True)
    (jobs / 'r-20260101-000000-0badcafe').write_text('launcher elsewhere.example:1:1\nranks 1\n')
    assert home.jobs()[0]['state'] == 'elsewhere'
    done = home.reigen('status')
    assert done.returncode == 2 and 'runs on this computer, and 1 may run elsewhere' in done.stderr


def test_a_job_that_is_started_again_stays_one_job(home):
    out = home.folder / 'out'
    script = ('echo $REIGEN_JOB_ID; [ $REIGEN_RESTART -lt 2 ] && exit 3; '
              f': >{home.folder}/there; exec sleep 1000')
    with subprocess.Popen([PROGRAMS.reigen, 'run', '-np', '1', '--max-restarts', '5',
                           '--restart-always', '--output-dir', out, '--', 'sh', '-c', script],
                          env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as job:
        try:
            wait_until((home.folder / 'there').exists)
            # The rank is ahead of the launcher, which writes the file.
            wait_until(lambda: len((out / 'rank.0/stdout').read_text().split()) == 3)
            first, _, last = (out / 'rank.0/stdout').read_text().split()
            told, = home.jobs('--all')
            assert (told['id'], told['state'], told['restarts']) == (first, 'running', 2), told
            status = home.reigen('status', last).stdout
            assert status.startswith(f'job {first}: running') and '  restarts: 2\n' in status
            # Its launcher listens under the last id, and answers that no rank has numbers.
            wait_until(lambda: json.loads(home.reigen('status', '--json', first).stdout)
                       ['numbers'] == [])
            # By either of its ids; what follows it ends with it, and not with its first start.
            with subprocess.Popen([PROGRAMS.reigen, 'logs', '-f', first], env=home.env, text=True,
                                  stdout=subprocess.PIPE) as following:
                assert [following.stdout.readline().strip() for _ in range(3)][2] == last
                stopped = home.reigen('stop', last)
                assert (stopped.returncode, stopped.stdout) == (0, f'stopped {first}\n'), stopped
                assert following.wait(LIMIT) == 0
            assert job.wait(LIMIT) == 143
            told = job.stderr.read()
            assert '\nreigen: told to stop by reigen stop\n' in told, told
        finally:
            job.terminate()
    ended, = home.jobs('--all')
    assert (ended['id'], ended['exit_code']) == (first, 143), ended


def test_output_is_shown_where_it_went_or_it_is_said_that_it_is_kept_nowhere(home):
    log = home.folder / 'log'
    log.write_text('of another job\n')
    with log.open('a') as file, home.running(stdout=file):
        told, = home.jobs()
        wait_until(lambda: log.read_text().endswith('hello\n'))
        assert home.reigen('logs', told['id']).stdout == 'hello\n'
    main, side = pty.openpty()
    name = os.ttyname(side)
    with home.running(stdout=side):
        told, = home.jobs()
        logs = home.reigen('logs', told['id'])
        assert logs.returncode == 69 and f'goes to the terminal {name} and is kept' in logs.stderr
        assert '--output-dir DIR' in logs.stderr
    os.close(main)
    os.close(side)
    both = home.reigen('status', 'r-')
    assert both.returncode == 2 and '2 jobs begin so: r-' in both.stderr, both


def test_logs_do_not_follow_themselves(home):
    """Into the file that they come from, by whatever way: it would grow until the disk is full."""
    log, out = home.folder / 'log', home.folder / 'out'
    with log.open('w') as file, home.running(stdout=file):
        ident = home.jobs()[0]['id']
        wait_until(lambda: log.read_text() == 'hello\n')
        for way in ('>> log', '1<> log', '2>> log', '-f >> log'):
            done = subprocess.run(f'exec "{PROGRAMS.reigen}" logs {ident} {way}', shell=True,
                                  timeout=LIMIT, env=home.env, cwd=home.folder, text=True,
                                  capture_output=True, check=False)
            assert done.returncode == 2 and log.read_text().startswith('hello\n'), done
            assert way.startswith('2') or 'input file is output file' in done.stderr, done
        log.write_text('hello\n')
        # Not the file itself, but what comes to it: as much as there was, and no more.
        subprocess.run(f'"{PROGRAMS.reigen}" logs {ident} | tee -a log | cat >> log', shell=True,
                       timeout=LIMIT, env=home.env, cwd=home.folder, check=True)
        assert set(log.read_text().splitlines()) == {'hello'}
    with home.running('--output-dir', out, stdout=subprocess.DEVNULL):
        ident = home.jobs()[0]['id']
        file = out / 'rank.0/stderr'
        wait_until(lambda: file.read_text() == 'alas\n')
        with file.open('a') as ours:
            done = subprocess.run([PROGRAMS.reigen, 'logs', ident], stdout=ours, env=home.env,
                                  stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 2 and str(file) in done.stderr, done
        assert home.reigen('logs', ident).stdout == 'hello\n'
    # A rank of the job itself.
    with log.open('w') as file:
        subprocess.run([PROGRAMS.reigen, 'run', '-np', '1', '--', 'sh', '-c',
                        'for f in "-f" ""; do "$0" logs $f $REIGEN_JOB_ID; echo $?; done',
                        PROGRAMS.reigen], stdout=file, env=home.env, timeout=LIMIT, check=True)
    assert log.read_text().splitlines()[0] == '2' and log.read_text().splitlines()[-1] == '0'


@pytest.mark.parametrize('words', [['jobs', '--all'], ['status', 'fifo'], ['logs', 'fifo'],
                                   ['stop', 'fifo'], ['run', '--', 'true'],
                                   ['doctor', '--clean', '-np', '1']],
                         ids=lambda words: words[0])
def test_what_lies_in_the_registry_is_no_trap(home, words):
    """A fifo hangs nobody, and what somebody else could have written is not obeyed."""
    for folder in ('jobs', 'ended', 'slurm', 'kubernetes', 'openpai'):
        place = home.folder / 'state/reigen' / folder
        place.mkdir(parents=True)
        os.mkfifo(place / 'fifo')
        told = place / 'foreign'
        told.write_text(f'launcher {os.uname().nodename}:1:1\nssh touch\n'
                        f'ssh {home.folder}/touched\nhost elsewhere\nimage x\nranks 1\n')
        told.chmod(0o666)
    done = home.reigen(*words)
    assert done.returncode == (0 if words[0] in ('jobs', 'run', 'doctor') else 2), done
    assert 'foreign' not in done.stdout and not (home.folder / 'touched').exists()
    if words[0] in ('jobs', 'doctor'):
        place = home.folder / 'state/reigen/jobs'
        for file, why in (('fifo', 'not a regular file'), ('foreign', 'others can write it')):
            assert f"the job's file {place / file}: {why}" in done.stderr, done


def test_several_programs_are_listed_as_they_were_written(home):
    done = home.reigen('run', '-np', '1', 'true', ':', '-n', '1', 'echo', 'x')
    assert done.returncode == 0, done
    assert home.jobs('--all')[0]['command'] == 'true : -n 1 echo x'


def test_a_containers_folder_whose_removal_was_cut_short_goes(home):
    base = home.run / 'reigen'
    base.mkdir(mode=0o700)
    (base / 'reigen-cut').mkdir()  # its lock went first
    (base / 'reigen-cut/runtime').write_text('/nowhere/docker\n')
    done = home.reigen('doctor', '--clean', '-np', '1')
    assert done.returncode == 0 and not (base / 'reigen-cut').exists(), done


def test_logs_find_the_files_of_more_than_ten_ranks(home):
    out = home.folder / 'out'
    subprocess.run([PROGRAMS.reigen, 'run', '-np', '11', '--output-dir', out, '--', 'sh', '-c',
                    'echo $RANK'], stdout=subprocess.DEVNULL, env=home.env, timeout=LIMIT,
                   check=True)
    ident = home.jobs('--all')[0]['id']
    shown = home.reigen('logs', ident).stdout.splitlines()
    assert sorted(shown) == sorted(f'[{r}] {r}' for r in range(11))
    assert home.reigen('logs', '--rank', 10, ident).stdout == '[10] 10\n'


@pytest.mark.parametrize('command', [['jobs'], ['status', 'JOB'], ['run', '-np', '1', '--', 'true'],
                                     ['doctor', '-np', '1'], ['doctor', '--clean', '-np', '1']],
                         ids=lambda words: ' '.join(words[:2]))
def test_what_killed_launchers_and_agents_left_is_told_apart_and_goes(home, command):
    """The next command of any kind removes it; what is alive stays."""
    with home.running(stdout=subprocess.DEVNULL) as job:
        ident = home.jobs()[0]['id']
        folder, = home.run.glob('reigen-*/job-*')
        job.send_signal(signal.SIGKILL)
        job.wait(LIMIT)
    wait_until(lambda: not folder.exists())
    # As an agent leaves it that is killed with its guard, and had another folder for such.
    left = home.tmp / folder.parent.name / 'job-left'
    entry = home.folder / 'state/reigen/jobs' / ident
    assert entry.exists()
    with home.running(stdout=subprocess.DEVNULL):
        left.mkdir(parents=True)
        done = home.reigen(*[ident if word == 'JOB' else word for word in command])
        assert done.returncode == 0, done
        if command[0] in ('jobs', 'status'):
            assert 'dead' in done.stdout and ident in done.stdout, done
            assert 'reigen stop' not in done.stdout, done  # nothing is left for it
        assert not entry.exists() and not left.exists()
        assert [told['state'] for told in home.jobs()] == ['running']
    assert [told['state'] for told in home.jobs('--all') if told['id'] == ident] == ['killed']


def test_a_pid_of_another_name_space_is_not_taken_for_a_dead_one(home):
    """In a container with the host's name the launcher's number means another process, or none."""
    # In a chroot even root may make no name space of users, and needs none.
    user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    within = ['unshare', *user, '--pid', '--mount-proc', '--fork']
    if subprocess.run([*within, 'true'], check=False, capture_output=True).returncode:
        pytest.skip('no name spaces can be made here')
    with home.running(stdout=subprocess.DEVNULL):
        done = subprocess.run([*within, PROGRAMS.reigen, 'jobs', '--json'], env=home.env, text=True,
                              capture_output=True, timeout=LIMIT, check=True)
        told, = json.loads(done.stdout)
        assert told['state'] == 'running', told   # its lock shows that
        entry, = Path(home.folder / 'state/reigen/jobs').glob('r-*')
        stop = subprocess.run([*within, PROGRAMS.reigen, 'stop', told['id']], env=home.env,
                              text=True, capture_output=True, timeout=LIMIT, check=False)
        assert stop.returncode == 69 and 'stop it there' in stop.stderr, stop
        assert entry.exists()
