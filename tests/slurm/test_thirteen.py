# SPDX-License-Identifier: Apache-2.0
"""Thirteen ways in which the srun_docker.sh that this replaces went wrong: one test each."""
import os
import re
import signal
import time

import pytest
from bed import SlurmCluster

from jobs import (GONE, READY, SLACK, end, seconds_until_gone, srun_docker, start,
                  wait_for, write_script)
from wait import soon

FIVE_WORDS = ['--url=http://h:80/p', '--words=two  words', '--quotes=a"b\'c', '', '$HOME *']


def run(slurm, script, *words, **options):
    how = {k: options.pop(k) for k in ('srun', 'image') if k in options}
    return slurm.head.run(srun_docker(script, *words, **how), timeout=READY, **options)


def mpirun(command):
    return f'mpirun -H $hostlist -np $np {command}'


@pytest.mark.parametrize('body,status', [
    ('exit 7', 7), ('kill -KILL $$', 137), (mpirun('/no/such/program'), None)])
def test_1_the_scripts_exit_code_is_sruns(slurm, body, status):
    done = run(slurm, write_script(slurm, body))
    assert done.returncode == status if status else done.returncode != 0, done.stdout + done.stderr


def test_2_scancel_leaves_no_container_and_no_process(slurm):
    script = write_script(slurm, mpirun('sh -c "echo here; sleep 1000"'))
    job = start(slurm.head, srun_docker(script, '--slots_per_node=1'))
    assert [job.stdout.readline() for _ in range(2)] == ['here\n'] * 2, end(job).stderr
    slurm.ask('scancel', *map(str, slurm.squeue()))
    took = seconds_until_gone(slurm.nodes)
    assert end(job).returncode != 0
    assert took < GONE + SLACK


@pytest.mark.parametrize('why', ['no such image', 'name in use'])
def test_3_a_node_whose_container_does_not_start_ends_the_job(slurm, why):
    """The first node must not wait for the second without an end."""
    node, script = slurm[2], write_script(slurm, 'echo here')
    if why == 'no such image':
        node.docker('tag', 'base', 'elsewhere')
        slurm[1].docker('tag', 'base', 'only-here')
        words, image = [], 'only-here'
    else:
        node.docker('create', '--name=taken', '--network=none', 'base', 'true')
        words, image = ['--dockname=taken'], 'base'
    try:
        since = time.monotonic()
        done = run(slurm, script, *words, image=image)
    finally:
        if why == 'no such image':
            node.docker('rmi', 'elsewhere')
            slurm[1].docker('rmi', 'only-here')
        else:
            node.docker('rm', 'taken')
    assert done.returncode != 0 and 'here' not in done.stdout
    assert 'node2' in done.stderr and soon(since, 30), done.stderr
    if why == 'name in use':
        assert "none of Reigen's" in done.stderr and 'rm --force taken' in done.stderr


def test_3_a_node_whose_docker_hangs_ends_the_job_when_it_must_have_started(slurm):
    node, script = slurm[2], write_script(slurm, 'echo here')
    node.dockerd.send_signal(signal.SIGSTOP)
    try:
        done = run(slurm, script, '--start-timeout=2', srun=('-N2', '-w', 'node1,node2'))
    finally:
        node.dockerd.send_signal(signal.SIGCONT)
        os.kill(node.dockerd.pid, signal.SIGCONT)  # nsenter stops with its child
    assert done.returncode == 124 and 'here' not in done.stdout, done.stdout
    told = [line for line in done.stderr.splitlines() if '--start-timeout' in line]
    assert len(told) == 1 and re.search('node2 .*by docker', told[0]), done.stderr
    assert 'node1' not in told[0]
    seconds_until_gone(slurm.nodes)


def test_4_two_jobs_of_one_user_share_the_nodes(slurm):
    script = write_script(slurm, 'touch started-$1; while ! test -e go-$1; do sleep 0.1; done; '
                          + mpirun('hostname') + '; exit $2')
    jobs = [start(slurm.head, srun_docker(script, '--slots_per_node=1', str(i), str(status)))
            for i, status in enumerate((3, 4))]
    home = slurm.head.path(slurm.head.home())
    try:
        for i in range(2):
            wait_for((home / f'started-{i}').exists, f'job {i}')
        assert [len(node.containers()) for node in slurm.nodes].count(2) >= 1
        (home / 'go-0').touch()
        first = end(jobs[0])
        assert first.returncode == 3 and sorted(first.stdout.split()) == ['node1', 'node2']
        # The first one's end has taken nothing from the second.
        (home / 'go-1').touch()
        second = end(jobs[1])
        assert second.returncode == 4, second.stderr
        assert len(second.stdout.split()) == 2, second.stdout
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill_all()
        slurm.head.run(['sh', '-c', 'rm -f started-* go-*'])


def test_5_more_tasks_per_node_run_the_job_once(slurm):
    script = write_script(slurm, 'echo script on $(hostname); exit 5')
    done = run(slurm, script, srun=('-N2', '--ntasks-per-node=2'))
    assert done.returncode == 5, done.stderr
    assert done.stdout.count('script on') == 1, done.stdout


def test_6_arguments_reach_the_script_unchanged(slurm):
    script = write_script(slurm, 'printf "<%s>\\n" "$@"')
    done = run(slurm, script, *FIVE_WORDS)
    assert done.stdout.splitlines() == [f'<{word}>' for word in FIVE_WORDS], done.stderr


def test_7_the_container_has_the_gpus_that_slurm_gave(slurm):
    """Two jobs with one of a node's two GPUs each: each sees one, and not the other's."""
    script = write_script(slurm, 'echo "gpus $NVIDIA_VISIBLE_DEVICES cuda $CUDA_VISIBLE_DEVICES '
                          'job $SLURM_JOB_ID on $hostlist"; touch seen-$1; '
                          'while test -z "$(ls go 2>/dev/null)"; do sleep 0.1; done')
    jobs = [start(slurm.head, srun_docker(script, str(i), srun=(
        '-N1', '-n1', '--nodelist=node1', '--gres=gpu:1'))) for i in range(2)]
    home = slurm.head.path(slurm.head.home())
    try:
        for i in range(2):
            wait_for((home / f'seen-{i}').exists, f'job {i}')
    finally:
        slurm.head.run(['sh', '-c', 'echo >go'])
        said = [end(job).stdout for job in jobs]
        slurm.head.run(['sh', '-c', 'rm -f seen-* go'])
    found = [re.search(r'gpus (\S+) cuda (\S*) job (\d+) on node1:1', text) for text in said]
    assert all(found), said
    assert sorted(m[1] for m in found) == ['0', '1'], said
    assert len({m[3] for m in found}) == 2, said


def test_8_no_sshd_listens_and_no_host_key_is_kept(slurm):
    home = slurm.head.path(slurm.head.home())
    before = sorted(p.name for p in (home / '.ssh').iterdir())
    script = write_script(slurm, mpirun('true') + '; touch started; sleep 1000')
    job = start(slurm.head, srun_docker(script, '--slots_per_node=1'))
    try:
        wait_for((home / 'started').exists, 'script')
        for node in slurm.nodes[:2]:
            assert not [line for line in node.processes().values() if 'sshd' in line]
            assert ':12345 ' not in node.run(['ss', '-Hltn']).stdout
        assert not [p for p in home.rglob('ssh_host_*')]
        assert sorted(p.name for p in (home / '.ssh').iterdir()) == before
    finally:
        slurm.ask('scancel', *map(str, slurm.squeue()))
        end(job)
        (home / 'started').unlink()


def test_9_the_working_directory_keeps_its_files(slurm):
    slurm.head.run(['mkdir', '-p', 'work'], check=True)
    for name in ('passwd', 'group'):
        slurm.head.write(f'work/{name}', 'mine\n')
    script = write_script(slurm, 'id -un', 'work/job.sh')
    done = run(slurm, script.replace('work/', ''), cwd=f'{slurm.head.home()}/work')
    assert done.stdout == 'alice\n', done.stderr
    assert slurm.head.run(['sh', '-c', 'cd work; echo *; cat passwd group']).stdout == \
        'group job.sh passwd\nmine\nmine\n'


def test_10_one_container_per_node_which_knows_its_own_users_too(slurm):
    since = {node: node.docker('info', '--format', '{{.SystemTime}}').strip()
             for node in slurm.nodes[:2]}
    script = write_script(slurm, 'id -un; getent passwd alice; getent passwd sshd; ls -d $HOME')
    done = run(slurm, script, srun=('-N2', '--nodelist=node1,node2'))
    lines = done.stdout.splitlines()
    assert lines[0] == 'alice' and lines[-1] == '/home/alice', done.stdout + done.stderr
    assert any(line.startswith('alice:') for line in lines), lines
    for node in slurm.nodes[:2]:
        now = node.docker('info', '--format', '{{.SystemTime}}').strip()
        told = node.docker('events', '--since', since[node], '--until', now, '--filter',
                           'event=create', '--format', '{{.Action}}')
        assert told.split() == ['create'], told


def test_11_input_and_signals_reach_the_script(slurm):
    script = write_script(slurm, 'read line; echo "read $line"\n'
                          'trap "echo told; exit 9" USR1\n'
                          'while :; do sleep 0.1; done')
    job = start(slurm.head, srun_docker(script), stdin=-1)
    try:
        job.stdin.write('a line of text\n')
        job.stdin.flush()
        assert job.stdout.readline() == 'read a line of text\n'
        slurm.ask('scancel', '--signal=USR1', slurm.steps()[0])
        assert job.stdout.readline() == 'told\n'
        job.stdin.close()
        job.stdin = None
        assert end(job).returncode == 9
    finally:
        if job.poll() is None:
            job.send_signal(signal.SIGKILL)
            slurm.cancel_all()


def test_12_no_gpu_is_no_reason_for_no_ranks():
    with SlurmCluster(1, gpus=0, dockerd=True, images=['base']) as slurm:
        script = write_script(slurm, 'echo "$hostlist $np"')
        done = run(slurm, script, srun=('-N1', '-n1'))
        found = re.fullmatch(r'node1:(\d+) (\d+)\n', done.stdout)
        assert found and found[1] == found[2] and int(found[1]) > 0, done.stdout + done.stderr
        slurm.assert_clean()


def test_13_no_sshd_no_shared_home_no_scontrol_is_needed():
    """The image has no ssh, each node has a home of its own, and scontrol is out of reach."""
    with SlurmCluster(2, gpus=0, shared_home=False, dockerd=True, images=['debian']) as slurm:
        for node in slurm.nodes:
            node.write('job.sh', '#!/bin/sh\n$REIGEN_RSH node2 hostname\n'
                                 'test -e /usr/sbin/sshd -o -e /usr/bin/ssh || exit 6\n',
                       mode=0o755)
            node.run(['mount', '--bind', '/bin/false', '/usr/bin/scontrol'], user='root',
                     check=True)
        done = run(slurm, './job.sh', image='debian')
        assert done.returncode == 6 and done.stdout == 'node2\n', done.stdout + done.stderr
        slurm.assert_clean()
