# SPDX-License-Identifier: Apache-2.0
"""--notify: a command gets the verdict when the job has ended, however that came, and changes
nothing of how it ends."""
import json
import signal

import pytest

from built import PROGRAMS
from wait import until

TELL = 'cat >>told; echo "$WORD"; pwd >where'


def told(path):
    return [json.loads(line) for line in (path / 'told').read_text().splitlines()]


def test_the_command_gets_what_the_last_event_says(reigen, tmp_path, python_ranks):
    done = reigen('run', '-np', 2, '--json', '--notify', TELL, '--max-restarts', 1,
                  '--restart-always', '--', 'sh', '-c', 'echo last; exit 7', cwd=tmp_path,
                  env={**python_ranks, 'WORD': 'from the launcher'})
    verdict = json.loads(done.stdout.splitlines()[-1])
    given, = told(tmp_path)
    given.pop('time'), verdict.pop('time')
    assert done.returncode == 7 and given == verdict and given['event'] == 'verdict'
    assert (given['exit_code'], given['ok'], given['last_lines']) == (7, False, ['last'])
    # Standard output has events and nothing else; the command's environment is the launcher's.
    assert done.stderr.splitlines()[-1] == 'from the launcher'
    assert (tmp_path / 'where').read_text().strip() == str(tmp_path)


@pytest.mark.parametrize('signo', [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_interrupted_is_told_of(start, tmp_path, signo):
    child = start(PROGRAMS.reigen, 'run', '-np', 1, '--notify', TELL, '--', 'sh', '-c',
                  ': >up; exec sleep 600', cwd=tmp_path)
    until((tmp_path / 'up').exists, 'the rank runs')
    child.send_signal(signo)
    child.communicate(timeout=60)
    given, = told(tmp_path)
    assert child.returncode == given['exit_code'] == 128 + signo and not given['ok']


@pytest.mark.parametrize('options, code, cause', [
    (['--cwd', '/nowhere', '--', 'true'], 2, '--cwd /nowhere'),
    (['--', 'no-such-program'], 127, 'not found')])
def test_a_job_that_cannot_start_is_told_of(reigen, tmp_path, options, code, cause):
    done = reigen('run', '-np', 1, '--notify', TELL, *options, cwd=tmp_path)
    given, = told(tmp_path)
    assert done.returncode == given['exit_code'] == code and cause in given['cause'], done.stderr


@pytest.mark.parametrize('code', [0, 3])
def test_a_command_that_fails_is_a_remark(reigen, code):
    done = reigen('run', '-np', 1, '--notify', 'exit 9', '--', 'sh', '-c', f'exit {code}')
    assert done.returncode == code
    assert done.stderr.splitlines()[-1] == 'reigen: --notify: the command failed: exit code 9'


@pytest.mark.parametrize('options, words', [
    (['--write-plan', 'plan'], 'of --write-plan'), (['--submit', '--on', 'slurm'], 'of --submit'),
    (['--on', 'kubernetes', '--image', 'x'], 'on Kubernetes')])
def test_a_job_whose_end_is_not_seen_here_is_refused(reigen, tmp_path, options, words):
    done = reigen('run', '-np', 1, '--notify', TELL, *options, 'true', cwd=tmp_path)
    assert done.returncode == 2 and f'--notify: the end of a job {words}' in done.stderr
    assert not list(tmp_path.iterdir())


def test_what_does_not_run_tells_nobody(reigen, tmp_path):
    done = reigen('run', '-np', 1, '--notify', TELL, '--dry-run', 'true', cwd=tmp_path)
    assert done.returncode == 0
    assert not list(tmp_path.iterdir())


def test_a_usual_command_is_left_out_where_the_end_is_not_seen(reigen, tmp_path, python_ranks):
    (tmp_path / 'config').write_text(f'[defaults]\nnotify = {TELL}\n')
    env = {**python_ranks, 'REIGEN_CONFIG': str(tmp_path / 'config')}
    done = reigen('run', '-np', 1, '--write-plan', 'plan', '--', 'true', cwd=tmp_path, env=env)
    assert done.returncode == 0 and (tmp_path / 'plan').exists(), done.stderr
    done = reigen('run', '-np', 1, '--', 'true', cwd=tmp_path, env=env)
    assert done.returncode == 0 and told(tmp_path)[0]['ok'], done.stderr
