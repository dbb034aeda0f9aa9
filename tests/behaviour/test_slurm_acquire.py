# SPDX-License-Identifier: Apache-2.0
"""An allocation that is ours, with programs in the place of Slurm's: what salloc must not meet."""
import os
import signal
import subprocess
import time

import pytest
from wait import soon, until

import built

# As salloc does: runs the command and waits for it. On SIGTERM it is busy giving the allocation
# back, and then looks at the command.
SALLOC = '''#!/usr/bin/python3
import os, signal, subprocess, sys, time
os.environ.update(SLURM_JOB_ID='7', SLURM_JOBID='7', SLURM_NNODES='1', SLURM_JOB_NUM_NODES='1',
                  SLURM_NODELIST='node1', SLURM_JOB_NODELIST='node1', SLURM_TASKS_PER_NODE='1',
                  SLURM_JOB_CPUS_PER_NODE='1', SLURM_NTASKS='1')
folder = os.path.dirname(sys.argv[0])
command = subprocess.Popen(sys.argv[sys.argv.index('--') + 1:])
def end(signo, frame):
    time.sleep(0.5)
    found = 'ended' if os.waitpid(command.pid, os.WNOHANG)[0] else 'running'
    if found == 'running':
        os.kill(command.pid, signal.SIGKILL)
    with open(folder + '/new', 'w') as out:
        out.write(found)
    os.rename(folder + '/new', folder + '/found')
    os._exit(1)
signal.signal(signal.SIGTERM, end)
os.waitpid(command.pid, 0)
open(folder + '/released', 'w').close()
'''
SRUN = '#!/bin/sh\ntouch "${0%/*}/started"\nexec sleep 60\n'
# Here the command is ended by somebody while the job runs.
LOST = SALLOC.replace("os.waitpid(command.pid, 0)", """
while not os.path.exists(folder + '/started'):
    time.sleep(0.02)
command.kill()
command.wait()""")
AFTER_SALLOC = """#!/bin/sh
cd "${0%/*}" && touch started
while ! [ -e released ]; do sleep 0.1; done
sleep 0.5
exit 1
"""
REFUSING = '#!/bin/sh\necho srun: error: no >&2\nexit 1\n'
LIMIT_S = 60
#: As RELEASE_MS in platform/slurm/salloc.c: so long salloc's end would be waited for.
RELEASE_S = 5


def start(folder, srun, salloc=SALLOC, command=('run', '-np', '1', 'true')):
    for name, text in (('salloc', salloc), ('srun', srun),
                       ('scancel', '#!/bin/sh\ntouch "${0%/*}/cancelled"\n')):
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
    return subprocess.Popen([built.PROGRAMS.reigen, command[0], '--on', 'slurm', *command[1:]],
                            env=built.environment(PATH=f'{folder}:{os.environ["PATH"]}'),
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for(*paths):
    until(lambda: any(path.exists() for path in paths), f'one of {paths}', LIMIT_S)


def test_sallocs_command_outlives_a_killed_launcher_for_a_while(tmp_path):
    """Of two threads of salloc's one would wait for ever for a command that ends just then."""
    job = start(tmp_path, SRUN)
    try:
        wait_for(tmp_path / 'started')
        job.send_signal(signal.SIGKILL)
        wait_for(tmp_path / 'found', tmp_path / 'released')
        assert (tmp_path / 'found').exists(), 'its command ended first'
        assert (tmp_path / 'found').read_text() == 'running'
    finally:
        job.kill()
        job.communicate(timeout=LIMIT_S)


@pytest.mark.parametrize('command', [('run', 'true'), ('doctor',)])
def test_an_allocation_is_given_back_by_the_end_of_sallocs_command(tmp_path, command):
    job = start(tmp_path, REFUSING, command=command)
    try:
        out, _ = job.communicate(timeout=LIMIT_S)
        assert job.returncode == 69, out
        assert (tmp_path / 'released').exists() and not (tmp_path / 'found').exists()
    finally:
        job.kill()


def test_an_allocation_that_is_gone_is_not_waited_for(tmp_path):
    job = start(tmp_path, AFTER_SALLOC, LOST)
    try:
        out, _ = job.communicate(timeout=LIMIT_S)
        assert job.returncode == 69, out
        # How salloc ended was the loop's to see, so that Slurm is told to be sure: at once.
        times = [(tmp_path / name).stat().st_mtime for name in ('released', 'cancelled')]
        assert times[1] - times[0] < RELEASE_S, times
    finally:
        job.kill()


# Never granted, and its queue does not answer.
WAITING = SALLOC.replace("sys.argv[sys.argv.index('--') + 1:]", "['sleep', '60']").replace(
    'os.waitpid(command.pid, 0)', """
open(folder + '/waiting', 'w').close()
while True:
    time.sleep(0.1)""")
SQUEUE = '#!/bin/sh\ntouch "${0%/*}/looked"\nexec sleep 60\n'


@pytest.mark.parametrize('signo', [signal.SIGINT, signal.SIGTERM])
def test_a_request_is_taken_back_while_the_queue_does_not_answer(tmp_path, signo):
    (tmp_path / 'squeue').write_text(SQUEUE)
    (tmp_path / 'squeue').chmod(0o755)
    job = start(tmp_path, SRUN, WAITING)
    try:
        wait_for(tmp_path / 'looked')
        wait_for(tmp_path / 'waiting')
        began = time.monotonic()
        job.send_signal(signo)
        out, _ = job.communicate(timeout=LIMIT_S)
        assert job.returncode == -signo and 'the request was taken back' in out, out
        assert (tmp_path / 'found').exists() and not (tmp_path / 'started').exists()
        # As ASK_MS in platform/slurm/ask.c: so long squeue's answer is waited for.
        assert soon(began, 10 * 0.8)
    finally:
        job.kill()
