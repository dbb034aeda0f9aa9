# SPDX-License-Identifier: Apache-2.0
"""Pods that wait for jobs, as the workers of deploy/chart do, and the launcher in their master."""
import os
import signal
import socket
import subprocess

import pytest

from built import PROGRAMS
from pods import AGENT
from processes import children, wait_for
from ranks import program
from test_pods import STEPS, saw_sizes

HOSTS = ('-H', 'set-master:1,set-0.set:1,set-1.set:1')
SLEEP = ('--', 'sh', '-c', 'echo up; exec sleep 300')
LOST, LEFT = 76, 75


def run(job, *words, **env):
    return job.master('run', '-np', 3, *HOSTS, '--no-inject-runtime', *words, **env)


@pytest.mark.sanitize
def test_pods_that_wait_do_one_job_after_another_without_ssh(job):
    """Ranks meet; a failed job, another launcher and another directory change nothing; told to
    stop, the pods end at once."""
    pods = [job.waiting(f'set-{i}', WHO=str(i)) for i in range(2)]
    head = run(job, '--', 'sh', '-c', f'echo who ${{WHO:-master}} $PWD; {program("again")[-1]}')
    assert head.wait() == 0, head.out
    said = [line for line in sorted(head.out.splitlines()) if 'who' in line]
    assert said == ['[0] who master /', '[1] who 0 /', '[2] who 1 /'], head.out
    head = run(job, '--cwd', '/usr', '--', 'sh', '-c', 'pwd; [ $REIGEN_RANK != 2 ] || exit 3')
    assert head.wait() == 3 and head.out.count('] /usr\n') == 3, head.out
    assert 'rank 2 on set-1.set failed first: exit code 3' in head.out
    # Workers alone, in another order; the names of Horovod's launcher.
    head = job.master('horovodrun', '-np', '2', '-H', 'set-1.set:1,set-0.set:1', 'sh', '-c',
                      'echo $HOROVOD_RANK is $WHO')
    assert head.wait() == 0, head.out
    assert '0 is 1' in head.out and '1 is 0' in head.out, head.out
    # A pod that the job does not want says so once, and calls less and less often.
    head = job.master('run', '-np', 2, '-H', 'set-master:1,set-0.set:1', '--no-inject-runtime',
                      '--', 'sleep', '3')
    assert head.wait() == 0, head.out
    assert pods[1].out.count('has a job for others') == 1, pods[1].out
    doctor = job.master('doctor', *HOSTS)
    doctor.wait()
    assert 'set-1.set' in doctor.out and 'ssh' not in doctor.out, doctor.out
    for pod in pods:
        pod.saw('waits for a job of the head at 127.0.0.1')
        pod.signal(signal.SIGTERM)
        assert pod.wait() == LEFT, pod.out


def test_a_worker_that_is_lost_ends_the_job_and_is_named_and_others_serve_again(job):
    first, second = (job.waiting(f'set-{i}') for i in range(2))
    head = run(job, *SLEEP)
    for rank in range(3):
        head.saw(rf'(?m)^\[{rank}\] up')
    first.signal(signal.SIGKILL)
    assert head.wait() == LOST, head.out
    assert 'host set-0.set: its pod is gone without a word' in head.out
    first = job.waiting('set-0')
    head = run(job, *SLEEP)
    head.saw(r'(?m)^\[2\] up')
    first.signal(signal.SIGTERM)
    assert head.wait() == LEFT, head.out
    assert 'host set-0.set: its agent was told to stop: signal 15' in head.out
    assert 'Kubernetes ends its pod' in head.out and first.wait() == LEFT
    # An agent that is killed, and a launcher: their pods stay, and nothing of the job does.
    first = job.waiting('set-0')
    head = run(job, *SLEEP)
    head.saw(r'(?m)^\[1\] up')
    agent, = children(first.pid)
    os.kill(agent, signal.SIGKILL)
    assert head.wait() == LOST, head.out
    head = run(job, *SLEEP)
    for rank in range(3):
        head.saw(rf'(?m)^\[{rank}\] up')
    head.signal(signal.SIGKILL)
    for pod in first, second:
        wait_for(lambda p=pod: not children(p.pid), 'a pod without an agent')


def test_who_does_not_come_is_named_and_strangers_and_old_pods_do_not_count(job):
    pods = [job.waiting(name, REIGEN_POD_MARK=mark)
            for name, mark in (('set-0', 'new'), ('set-1', 'old'), ('other-0', 'new'))]
    for pod in pods:
        pod.saw('waits')
    key = (job.folder / 'key').read_text()
    (job.folder / 'key').write_text('f' * 64)
    pods.append(job.waiting('set-1', REIGEN_POD_MARK='new'))
    pods[-1].saw('waits')
    (job.folder / 'key').write_text(key)
    head = run(job, '--', 'true', REIGEN_POD_MARK='new', REIGEN_POD_START_TIMEOUT='3')
    assert head.wait() == 124, head.out
    assert 'not ready within 3 s (--start-timeout): set-1.set (pending: it has called with ' \
        'another key)' in head.out, head.out
    pods[-1].saw(r'127\.0\.0\.1:\d+ \(it has another key\)')
    # The Secret is right again: nobody has to delete the pod.
    done = pods[-1].inside('sh', '-c', 'cat >/reigen/key/key', input=key, text=True)
    assert done.returncode == 0
    head = run(job, '--', 'true', REIGEN_POD_MARK='new')
    assert head.wait() == 0, head.out


def test_a_second_launcher_and_a_wrong_pod_are_told_so(job):
    with socket.create_server(('', job.port)):
        head = run(job, '--', 'true')
        assert head.wait() == 69, head.out
        assert f'port {job.port} of its pod' in head.out and 'another job in this pod' in head.out
    head = job.master('run', '--on', 'pods', '-np', '1', '--', 'true', REIGEN_POD_HEAD=None)
    assert head.wait() == 2 and 'REIGEN_POD_HEAD is not set here' in head.out, head.out
    head = job.master('run', '--on', 'pods', '-np', '1', '--', 'true')
    assert head.wait() == 2 and '--hostfile /horovod/generated/hostfile' in head.out, head.out
    head = run(job, '--', 'true', REIGEN_POD_START_TIMEOUT='soon')
    assert head.wait() == 2 and 'REIGEN_POD_START_TIMEOUT' in head.out and 'soon' in head.out
    for env, said in (({'MY_JOB_SERVICE_HOST': None}, 'MY_JOB_SERVICE_HOST is not set'),
                      ({'REIGEN_POD_NAME': ''}, 'REIGEN_POD_NAME is set'),
                      ({'REIGEN_POD_PORT': 'x'}, 'REIGEN_POD_PORT')):
        pod = job.waiting('set-0', **env)
        assert pod.wait() in (2, 75) and said in pod.out, pod.out
    (job.folder / 'key').write_text('no key')
    for lost in (job.waiting('set-0'), run(job, '--', 'true')):
        assert lost.wait() == 2 and '/reigen/key/key: not 64 hexadecimal digits' in lost.out


def test_a_pod_is_ready_once_it_waits(job):
    pod = job.waiting('set-0')
    pod.saw('waits')
    assert pod.inside(*AGENT, 'ready').returncode == 0
    assert subprocess.run([PROGRAMS.agent, 'pod', 'ready'], timeout=60, check=False).returncode


# --- elastic jobs ---------------------------------------------------------------------------------

@pytest.mark.parametrize('signo', [signal.SIGKILL, signal.SIGTERM])
def test_an_elastic_job_goes_on_without_a_pod_and_with_the_one_in_its_place(job, signo):
    pods = [job.waiting(f'set-{i}') for i in range(2)]
    head = run(job, '--min-np', 1, '--', PROGRAMS.python, STEPS, '/reigen/run/stop')
    saw_sizes(head, 3)
    for n in range(3):
        lost = n % 2
        pods[lost].signal(signo)
        pods[lost].wait()
        saw_sizes(head, 3, *[2, 3] * n, 2)
        pods[lost] = job.waiting(f'set-{lost}')
        saw_sizes(head, 3, *[2, 3] * (n + 1))
    assert head.inside('touch', '/reigen/run/stop').returncode == 0
    assert head.wait() == 0 and 'aside' not in head.out, head.out


def test_the_hosts_of_a_file_that_changes_are_pods_too(job):
    """As the chart's hostfile when worker.number changes."""
    hosts = job.folder / 'hosts'
    hosts.write_text('set-master slots=1\nset-0.set slots=1\n')
    for i in range(3):
        job.waiting(f'set-{i}')
    head = job.master('run', '-np', 2, '--min-np', 1, '--host-discovery-script',
                      f'cat /reigen/run/hosts 2>/dev/null || printf "{hosts.read_text()}"',
                      '--no-inject-runtime', '--', PROGRAMS.python, STEPS, '/reigen/run/stop',
                      REIGEN_DISCOVERY_MS='100')
    saw_sizes(head, 2)

    def tell(*names):
        text = ''.join(f'{name} slots=1\n' for name in names)
        assert head.inside('sh', '-c', 'cat >/reigen/run/new; mv /reigen/run/new /reigen/run/hosts',
                           input=text, text=True).returncode == 0
    tell('set-master', 'set-0.set', 'set-1.set', 'set-2.set')
    saw_sizes(head, 2, 4)
    tell('set-master', 'set-0.set')
    saw_sizes(head, 2, 4, 2)
    assert head.inside('touch', '/reigen/run/stop').returncode == 0
    assert head.wait() == 0 and 'aside' not in head.out, head.out
