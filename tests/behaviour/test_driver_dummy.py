# SPDX-License-Identifier: Apache-2.0
"""A driver is one file and one line: reigen with tests/unit/platform/driver_dummy.c in its
table runs jobs, takes the driver's own options, and asks the driver after jobs in its queue."""
import json
import re
import subprocess

import pytest

from built import PROGRAMS, environment
from wait import until

LIMIT = 60


class Dummy:
    def __init__(self, folder):
        self.folder = folder
        self.env = environment(REIGEN_AGENT=PROGRAMS.agent, XDG_STATE_HOME=folder / 'state',
                               TMPDIR=folder)

    def reigen(self, *words, **env):
        program = PROGRAMS.build / 'tests/unit/platform/reigen-dummy'
        return subprocess.run([program, *words], cwd=self.folder, env={**self.env, **env},
                              text=True, capture_output=True, timeout=LIMIT, check=False,
                              stdin=subprocess.DEVNULL)


@pytest.fixture
def dummy(tmp_path):
    return Dummy(tmp_path)


def test_a_job_runs_with_an_option_of_the_drivers_own(dummy):
    command = ('--', 'sh', '-c', 'echo $DUMMY_GREETING $REIGEN_SIZE')
    done = dummy.reigen('run', '--on', 'dummy', '--dummy-greeting', 'hallo', *command)
    assert (done.returncode, sorted(done.stdout.splitlines())) == \
        (0, ['[0] hallo 2', '[1] hallo 2']), done
    (dummy.folder / 'job.yaml').write_text('on: dummy\ndummy-slots: 1\ndummy-greeting: file\n')
    done = dummy.reigen('run', '--config', 'job.yaml', *command)
    assert (done.returncode, done.stdout) == (0, 'file 1\n'), done
    done = dummy.reigen('run', '--config', 'job.yaml', '-ds', '2', '--dry-run', *command)
    assert done.returncode == 0 and 'rank 1 on localhost' in done.stdout, done
    assert 'DUMMY_GREETING=file' in done.stdout


def test_an_image_is_refused_as_it_makes_no_containers(dummy):
    done = dummy.reigen('run', '--on', 'dummy', '--image', 'busybox', '--', 'true')
    assert (done.returncode, done.stdout) == (2, ''), done
    assert '--image busybox: --on dummy starts no containers; leave it out' in done.stderr
    done = dummy.reigen('run', '--on', 'dummy', '--image', 'none', '--', 'true')
    assert (done.returncode, done.stderr) == (0, ''), done


def test_who_takes_jobs_for_later_is_told(dummy):
    done = dummy.reigen('run', '--on', 'local', '--submit', '--', 'true')
    assert done.returncode == 2 and '--submit is for --on slurm or --on dummy' in done.stderr, done


def test_its_words_are_known_wherever_options_are_told(dummy):
    for refused, said in [
            (('--dummy-slots', '3'), '--dummy-slots is for the dummy; say --on dummy, too'),
            (('--on', 'slurm', '--dummy-greeting', 'x'), 'is for the dummy; say --on dummy, too'),
            (('--on', 'dummy', '--dummy-slots', 'few'), '--dummy-slots few'),
            (('--on', 'dummy', '--nodes', '2'), '--nodes is for Slurm; say --on slurm, too'),
            (('--on', 'dumy'), 'give local, ssh, slurm or dummy; did you mean dummy?'),
            (('--on', 'dummy', '-H', 'a'), 'hosts of its own')]:
        done = dummy.reigen('run', *refused, '--', 'true')
        assert done.returncode == 2 and said in done.stderr, done
    told = dummy.reigen('run', '--help', 'all').stdout
    assert 'or dummy, of the tests.' in re.sub(r'\s+', ' ', told)
    assert '--dummy-greeting TEXT' in dummy.reigen('run', '--help', 'dummy').stdout
    assert '--dummy-greeting' in dummy.reigen('completion', 'bash').stdout
    assert 'dummy-slots: N' in dummy.reigen('man', 'job').stdout
    free = dummy.reigen('run', '-np', '1', '--', 'true', DUMMY_FREE='1')
    assert free.returncode == 0 and 'reigen: the dummy is free' in free.stderr, free


def test_jobs_in_its_queue_are_asked_after_at_the_driver(dummy):
    running = dummy.reigen('run', '--on', 'dummy', '--submit', '--', 'sh', '-c',
                           'echo up; exec sleep 1000').stdout.strip()
    try:
        until(lambda: 'up\n' in dummy.reigen('logs', running).stdout, 'its first line')
        brief = dummy.reigen('run', '--on', 'dummy', '--submit', '--', 'sh', '-c',
                             'echo $DUMMY_JOB; exit 3').stdout.strip()
        followed = dummy.reigen('logs', '-f', brief)
        assert followed.stdout.startswith("dummy's log:\n") and f'[0] {brief}\n' in followed.stdout
        assert "reigen: a remark of the dummy's\n" in followed.stderr, followed
        told = {job['id']: job for job in json.loads(dummy.reigen('jobs', '-a', '--json').stdout)}
        assert set(told) == {running, brief}, told   # not once more as the launchers that they are
        assert told[running]['state'] == 'running' and told[running]['dummy_state'] == 'BUSY', told
        assert told[brief]['state'] == 'ended' and told[brief]['exit_code'] == 3, told
        assert f'job {running}: BUSY on localhost for a while\n' in dummy.reigen('status',
                                                                               running).stdout
        down = dummy.reigen('jobs', DUMMY_DOWN='1')
        assert 'unknown' in down.stdout and 'the dummy does not answer (it is not at home)' in \
            down.stderr
    finally:
        stopped = dummy.reigen('stop', running)
    assert (stopped.returncode, stopped.stdout) == (0, f'stopped {running}\n'), stopped
    assert f'job {running}: ended with exit code 143\n' in dummy.reigen('status', running).stdout
