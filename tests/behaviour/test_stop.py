# SPDX-License-Identifier: Apache-2.0
"""reigen stop and reigen run --dry-run, as far as they need neither hosts nor a container runtime;
tests/hosts/test_containers.py has these."""
import os
import socket

import pytest

from built import environment

JOB = 'r-20000101-000000-00000000'
# In the place of ssh: the host `away` does not answer, the others are written down.
SSH = '''#!/bin/sh
case "$*" in *" away "*) exit 255 ;; esac
echo "$*" >> "$0.calls"
'''


def test_stop_cleans_the_other_hosts_of_a_killed_job_when_one_is_away(reigen, tmp_path):
    ssh = tmp_path / 'ssh'
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    jobs = tmp_path / 'reigen' / 'jobs'
    jobs.mkdir(parents=True)
    (jobs / JOB).write_text(f'launcher {socket.gethostname()}:{2 ** 22 - 1}:1\nimage i\nssh {ssh}\n'
                            'host here1\nhost away\nhost here2\ncommand c\nrestart r-later\n')
    env = environment(XDG_STATE_HOME=tmp_path)
    done = reigen('stop', JOB, env=env)
    assert done.returncode == 69 and 'its containers on away could not be' in done.stderr, done
    calls = (tmp_path / 'ssh.calls').read_text().splitlines()
    assert len(calls) == 2 and ' here1 ' in calls[0] and ' here2 ' in calls[1], calls
    assert all('label=reigen.job=$' in call and f' {JOB} r-later;' in call for call in calls)
    assert JOB in reigen('jobs', env=env).stdout  # to be tried again
    ssh.write_text(SSH.replace('exit 255', 'exit 0'))
    assert reigen('stop', '--all', env=env).returncode == 0
    assert 'No job' in reigen('jobs', env=env).stdout


@pytest.mark.parametrize('options, text', [
    (['--privileged'], '--privileged: Apptainer cannot do that; leave it out'),
    (['--mount', 'volume:/data'], 'it has no named volumes'),
    (['--user', '5'], '--user: Apptainer cannot do that'),
])
def test_a_dry_run_says_what_the_runtime_cannot_do(reigen, options, text):
    done = reigen('run', '--dry-run', '-np', 1, '--image', 'i', '--container-runtime', 'apptainer',
                  *options, '--', 'true')
    assert (done.returncode, text in done.stderr, done.stdout) == (2, True, ''), done


def test_a_dry_run_mounts_files_of_names_only_for_an_ordinary_caller(reigen):
    as_other = reigen('run', '--dry-run', '-np', 1, '--image', 'i', '--user', '1:2', '--', 'true')
    assert '--user=1:2' in as_other.stdout and '/etc/passwd' not in as_other.stdout, as_other
    assert 'HOME=' not in next(line for line in as_other.stdout.splitlines()
                               if line.startswith('# container on'))
    as_caller = reigen('run', '--dry-run', '-np', 1, '--image', 'i', '--', 'true')
    assert ('/etc/passwd' in as_caller.stdout) == (os.geteuid() != 0), as_caller
