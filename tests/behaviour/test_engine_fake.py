# SPDX-License-Identifier: Apache-2.0
"""An engine's life, without an MPI: mpirun and orted are scripts that behave as the real ones do
when things go wrong. tests/hosts/test_engines.py has the real ones."""
import re
import signal

import pytest

from built import environment

HOSTS = ['-H', 'localhost:2,127.0.0.2:1']
# mpirun as such, started by the agent of the first host; ENDING is what it does after the start of
# its daemon, which is a remote command on the other host.
MPIRUN = '''#!/bin/sh
case "$1" in --version) echo "mpirun (Open MPI) 9.9"; exit;; esac
"$REIGEN_RSH" reigen-host-1 "${DAEMON-orted} $ORTED" </dev/null &
{ENDING}
'''
ORTED = '''#!/bin/sh
case "$1" in
killed) kill -9 $$;;
code*) exit ${1#code};;
*) sleep 1000;;
esac
'''


@pytest.fixture
def engine(tmp_path):
    """engine(ending, orted): options for a job with such an mpirun and daemon."""
    def put(ending, orted='sleeps'):
        for name, text in (('mpirun', MPIRUN.replace('{ENDING}', ending)), ('orted', ORTED)):
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o755)
        return [*HOSTS, '-x', f'PATH={tmp_path}:/usr/bin:/bin', '-x', f'ORTED={orted}']
    return put


def test_mpirun_runs_once_and_finds_what_it_needs(reigen, engine):
    options = engine('''echo $hostlist $np "$@" ${REIGEN_RANK-none} ${WORLD_SIZE-none} \
                         ${REIGEN_RANK_TOKEN-none} >&2
                     cat $REIGEN_HOSTFILE $HYDRA_HOST_FILE; cat; echo second line
                     exit 4''', 'code0')
    done = reigen('run', *options, '--', 'mpirun', '-x', 'a b', input='in\n')
    assert done.returncode == 4
    assert 'localhost:2,reigen-host-1:1 3 -x a b none none none' in done.stderr
    assert done.stdout == ('localhost slots=2\nreigen-host-1 slots=1\n'
                           'localhost:2\nreigen-host-1:1\nin\nsecond line\n')
    assert "mpirun on localhost failed: exit code 4" in done.stderr
    assert "exit code 4, mpirun's own" in done.stderr


def test_engine_option_and_command_are_put_behind_an_mpirun_that_says_open_mpi(reigen, engine):
    options = engine('echo "$@"', 'code0')
    done = reigen('run', *options, '--engine', 'openmpi', '--engine-option', '--verbose',
                  '--bind-to', 'core', '--oversubscribe', '--', 'train', 'a b')
    remark = r'reigen: localhost and 127\.0\.0\.2 are one machine, .*\n'
    assert done.returncode == 0 and re.fullmatch(remark, done.stderr), done.stderr
    assert done.stdout == '-np 3 --bind-to core --verbose train a b\n'


@pytest.mark.sanitize
def test_an_engine_that_says_0_when_its_daemon_was_killed_has_failed(reigen, engine):
    options = engine('wait; exit 0', 'killed')
    done = reigen('run', *options, '--', 'mpirun')
    assert done.returncode == 76, done.stderr
    assert ('host 127.0.0.2: orted, which mpirun had started there, ended: ' in done.stderr)


@pytest.mark.parametrize('orted, text', [
    ('killed', 'orted, which mpirun had started there, ended: '),
    ('code9', 'ended: exit code 9, and mpirun has not ended because of it')])
def test_an_engine_that_does_not_notice_its_daemons_end_is_ended(reigen, engine, orted, text):
    options = engine('trap "" TERM; while :; do sleep 0.2; done', orted)
    done = reigen('run', *options, '--grace', '1', '--', 'mpirun')
    assert done.returncode == 76, done.stderr
    assert text in done.stderr


def test_a_daemon_that_is_not_there_is_named(reigen, engine):
    options = engine('wait; exit 1')
    done = reigen('run', *options, '-x', 'DAEMON=/nowhere/orted', '--', 'mpirun')
    assert done.returncode == 127, done.stderr
    assert ('host 127.0.0.2: orted, which mpirun on host localhost wanted to start there, is not '
            'installed' in done.stderr)


def test_a_scripts_failing_mpirun_is_its_own_business(reigen, engine):
    options = engine('wait; exit 1', 'code9')
    done = reigen('run', *options, '--engine', 'script', '--', 'sh', '-c',
                  'mpirun || echo once more; ORTED=code0 mpirun; sleep 4; echo done')
    assert done.returncode == 0, done.stderr
    assert done.stdout == 'once more\ndone\n'


@pytest.mark.parametrize('arguments, wanted', [
    (['--', 'mpirun'], 143),
    (['--engine', 'script', '--', 'sh', '-c', 'trap "exit 0" TERM; echo up; while :; do sleep 0.1; '
                                              'done'], 0)])
def test_a_told_end_counts_for_an_mpirun_that_says_0_and_not_for_a_script(start, programs, engine,
                                                                          arguments, wanted):
    options = engine('trap "exit 0" TERM; echo up; while :; do sleep 0.1; done')
    job = start(programs.reigen, 'run', *options, *arguments, env=environment())
    assert job.stdout.readline() == 'up\n'
    job.send_signal(signal.SIGTERM)
    out, err = job.communicate(timeout=60)
    assert job.returncode == wanted, out + err


def test_engines_are_checked_before_anything_runs(reigen):
    wrong = reigen('run', '--engine', 'openmp', '--', 'true')
    assert wrong.returncode == 2 and 'did you mean openmpi?' in wrong.stderr
    twice = reigen('run', '--engine', 'hydra', '--', 'mpiexec', 'true')
    assert twice.returncode == 2 and '--engine hydra calls mpirun itself' in twice.stderr
    shown = reigen('run', '--dry-run', '-H', 'localhost:2', '--engine', 'mpich', '--map-by', 'node',
                   '--', 'true')
    assert shown.returncode == 0
    assert 'mpiexec.hydra -n 2 -ppn 1 true' in shown.stdout
