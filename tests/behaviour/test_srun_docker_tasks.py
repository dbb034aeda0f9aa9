# SPDX-License-Identifier: Apache-2.0
"""What tasks of `srun reigen srun-docker` say to each other, without Slurm."""
import os
import secrets
import signal
import socket
import subprocess
import time

import pytest

from built import PROGRAMS, environment
from wait import until

LIMIT = 60
LINE = [PROGRAMS.reigen, 'srun-docker', '--container=image', '--script=./job.sh']


def step(job, task, **more):
    """The environment of a task in a step of two tasks on one node."""
    return environment(SLURM_JOB_ID=job, SLURM_STEP_ID=0, SLURM_PROCID=task, SLURM_LOCALID=task,
                       SLURM_NODEID=0, SLURM_NTASKS=2, SLURM_STEP_NODELIST='here',
                       SLURM_JOB_NODELIST='here', SLURM_STEP_TASKS_PER_NODE='2',
                       SLURMD_NODENAME='here', **more)


def job_number():
    return 1 + secrets.randbelow(2**31)


def wait_start(process, job):
    """Until the task listens."""
    name = f'@reigen-slurm-{job}-0-task-1'
    def listens():
        assert process.poll() is None, process.communicate()
        with open('/proc/net/unix', encoding='utf-8') as sockets:
            return any(line.split()[-1] == name for line in sockets)
    until(listens, name, LIMIT)


def start(job):
    process = subprocess.Popen(LINE, env=step(job, 1), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_start(process, job)
    return process


def box(job, task):
    """The socket at which a task waits to be called."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f'\0reigen-slurm-{job}-0-task-{task}')
    listener.listen()
    return listener


def release(job, patience_ms=5000):
    """As task 0 has it done on each node; the exit code."""
    with box(job, 0):
        return subprocess.run([PROGRAMS.reigen, 'srun-docker', '--reigen-release', str(job), '0',
                               'here=2', str(patience_ms)], timeout=LIMIT,
                              env=environment(SLURMD_NODENAME='here')).returncode


def ended(process):
    out, err = process.communicate(timeout=LIMIT)
    assert (out, err) == (b'', b'')
    return process.returncode


def agent(job):
    """The socket that the job's agent holds on each node."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f'\0reigen-slurm-{job}-0')
    listener.listen()
    listener.settimeout(LIMIT)
    return listener


def test_a_task_waits_through_signals_and_input_until_it_is_told_of_the_end():
    job = job_number()
    process = start(job)
    try:
        for sig in (signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
            process.send_signal(sig)
        # More than a pipe holds: somebody reads it.
        process.stdin.write(b'x' * (1 << 20))
        process.stdin.flush()
        assert process.poll() is None
        assert release(job) == 0
        assert ended(process) == 0
    finally:
        process.kill()


def test_a_task_ends_soon_after_the_agent_of_its_node():
    job = job_number()
    listener = agent(job)
    process = start(job)
    try:
        connection, _ = listener.accept()
        assert process.poll() is None
        connection.close()
        listener.close()
        assert ended(process) == 0
    finally:
        process.kill()


def test_a_task_that_is_told_to_end_waits_for_its_agent_only():
    job = job_number()
    listener = agent(job)
    process = start(job)
    try:
        connection, _ = listener.accept()
        process.send_signal(signal.SIGTERM)
        time.sleep(0.3)  # patient: it must not end
        assert process.poll() is None
        connection.close()
        listener.close()
        assert ended(process) == 0
    finally:
        process.kill()


NOBODY = ['setpriv', '--reuid=65534', '--clear-groups', PROGRAMS.python, '-c']
STRANGER = """
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
name = chr(0) + sys.argv[2]
if sys.argv[1] == 'call':
    s.connect(name)
else:
    s.bind(name)
    s.listen()
print('done', flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can be somebody else')
def test_a_strangers_call_does_not_end_a_task():
    job = job_number()
    process = start(job)
    try:
        name = f'reigen-slurm-{job}-0-task-1'
        subprocess.run([*NOBODY, STRANGER, 'call', name], stdin=subprocess.DEVNULL, check=True,
                       timeout=LIMIT)
        time.sleep(0.3)  # patient: it must not end
        assert process.poll() is None
        assert release(job) == 0
        assert ended(process) == 0
    finally:
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason='another user is needed')
def test_an_agents_socket_of_another_user_is_not_believed():
    """A stranger who holds the name could else end the task by closing the connection."""
    job = job_number()
    process = start(job)
    try:
        done = subprocess.run(['setpriv', '--reuid=65534', '--clear-groups', PROGRAMS.python, '-c',
                               'import socket\n'
                               's = socket.socket(socket.AF_UNIX)\n'
                               f's.bind("\\0reigen-slurm-{job}-0")\n'
                               's.listen()\n'
                               'for i in range(3):\n'
                               '    c, _ = s.accept()\n'
                               '    assert c.recv(1) == b""\n'],
                              check=False, timeout=LIMIT)
        assert done.returncode == 0 and process.poll() is None
        assert release(job) == 0
        assert ended(process) == 0
    finally:
        process.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can be somebody else')
def test_a_task_whose_name_a_stranger_has_taken_is_missed_and_ends_by_signal():
    job = job_number()
    with subprocess.Popen([*NOBODY, STRANGER, 'take', f'reigen-slurm-{job}-0-task-1'],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout.readline() == b'done\n'
        listener = agent(job)
        process = subprocess.Popen(LINE, env=step(job, 1), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            listener.accept()  # from here on it waits
            assert release(job, 0) == 1
            assert process.poll() is None
            process.send_signal(signal.SIGURG)
            assert ended(process) == 0
        finally:
            process.kill()
            stranger.stdin.close()


def test_a_wrong_command_line_is_told_by_the_first_task_alone():
    for task, silent in ((0, False), (1, True)):
        done = subprocess.run(LINE[:3], env=step(job_number(), task), capture_output=True,
                              text=True, timeout=LIMIT)
        assert done.returncode == (0 if silent else 2)
        assert ('--script is missing' in done.stderr) != silent, done.stderr


def test_a_signal_while_the_others_are_told_of_the_end_does_not_replace_the_exit_code(tmp_path):
    srun = tmp_path / 'srun'
    srun.write_text(f'#!/bin/sh\ntouch {tmp_path}/telling\n'
                    f'until [ -e {tmp_path}/told ]; do sleep 0.1; done\n')
    srun.chmod(0o755)
    path = f'{tmp_path}:{os.environ["PATH"]}'
    process = subprocess.Popen(LINE, env=step(job_number(), 0, PATH=path), cwd=tmp_path,
                               stderr=subprocess.PIPE)
    try:
        until((tmp_path / 'telling').exists, 'scontrol', LIMIT)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        (tmp_path / 'told').touch()
        process.communicate(timeout=LIMIT)
        assert process.returncode == 2  # there is no job.sh
    finally:
        process.kill()


def test_help_is_not_stopped_by_anything_else_on_the_line():
    done = subprocess.run([*LINE[:2], '--slots_per_node=2', '--help'], capture_output=True,
                          text=True, timeout=LIMIT)
    assert done.returncode == 0 and '--slots_per_node=N' in done.stdout
