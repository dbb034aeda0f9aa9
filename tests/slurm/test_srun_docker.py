# SPDX-License-Identifier: Apache-2.0
"""srun_docker.sh's command lines on simulated nodes: each option, and what is wrong with them."""
import os
import signal

import pytest
from built import PROGRAMS

from jobs import (GONE, READY, SLACK, end, seconds_until_gone, srun_docker, start, wait_for,
                  write_script)

PORT = 12345


def run(slurm, script, *words, **options):
    how = {k: options.pop(k) for k in ('srun', 'image') if k in options}
    return slurm.head.run(srun_docker(script, *words, **how), timeout=READY, **options)


def refused(slurm, script, *words, **options):
    """What a call that must fail says on standard error; it must not have run the script."""
    done = run(slurm, script, *words, **options)
    assert done.returncode != 0 and 'RAN' not in done.stdout, done.stdout + done.stderr
    return done.stderr


def variables(text):
    return dict(line.split('=', 1) for line in text.splitlines() if '=' in line)


def test_the_script_finds_hosts_ranks_and_variables(slurm):
    script = write_script(slurm, 'id -u; pwd; env')
    done = run(slurm, script, '--slots_per_node=2', '--envlist=MINE,NOBODYS',
               '--dockopts=-it --rm -e "OWN=two words" --shm-size=33m', '--datamnts=/opt,/srv',
               env={'MINE': 'a b'})
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ['2001', slurm.head.home()]
    found = variables(done.stdout)
    assert found['np'] == '4' and len(found['hostlist'].split(',')) == 2, found
    assert all(each.endswith(':2') for each in found['hostlist'].split(',')), found
    assert (found['MINE'], found['ENVLIST'], found['OWN']) == ('a b', 'MINE', 'two words')
    assert found['SLURM_JOB_ID'].isdigit() and 'SLURM_PROCID' not in found
    assert 'NOBODYS is not set' in done.stderr
    assert '--dockopts: -it is left out' in done.stderr


def test_mounts_size_of_memory_and_name_of_the_container_are_as_asked_for(slurm):
    script = write_script(slurm, 'df -k /dev/shm | tail -n 1; ls -d /srv/data; '
                                 'echo stack $(ulimit -s); touch up; '
                                 'while ! test -e go; do sleep 0.1; done')
    for node in slurm.nodes:
        node.run(['mkdir', '-p', '/srv/data'], user='root', check=True)
    home = slurm.head.path(slurm.head.home())
    job = start(slurm.head, srun_docker(script, '--datamnts=/srv', '--dockname=mine',
                                        '--dockopts=--shm-size=33m', srun=('-N2', '-w',
                                                                           'node1,node2')))
    try:
        wait_for((home / 'up').exists, 'script')
        assert [node.containers() for node in slurm.nodes[:2]] == [['mine']] * 2
        said = refused(slurm, script, '--dockname=mine', srun=('-N1', '-w', 'node2'))
        assert 'your job ' in said and 'squeue --me' in said and 'rm --force' not in said, said
        (home / 'go').touch()
        done = end(job)
    finally:
        if job.poll() is None:
            job.kill_all()
        slurm.head.run(['rm', '-f', 'up', 'go'])
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1] == str(33 * 1024) and '/srv/data' in done.stdout, done.stdout
    assert 'stack 65536\n' in done.stdout, done.stdout
    for node in slurm.nodes:
        node.run(['rmdir', '/srv/data'], user='root')


def test_values_may_follow_a_blank_and_the_scripts_own_options_stay(slurm):
    script = write_script(slurm, 'printf "<%s>" "$@"')
    line = srun_docker(script, '--slots_per_node', '1', '--epochs', '5', '--', '--script=x')
    done = slurm.head.run(line, timeout=READY)
    assert done.stdout == '<--epochs><5><--script=x>', done.stderr
    done = run(slurm, script, '--script_help', 'data', srun=('-N1',))
    assert done.stdout == '<data><--help>', done.stderr


def test_mpirun_ssh_and_pdsh_style_reach_the_other_node(slurm):
    script = write_script(slurm, 'for h in $(echo $hostlist | tr , " "); do ssh ${h%:*} hostname; '
                                 'done; mpirun -H $hostlist -np $np hostname')
    done = run(slurm, script, '--slots_per_node=2', srun=('-N2', '-w', 'node1,node3'))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ['node1', 'node3'] and sorted(lines[2:]) == ['node1'] * 2 + ['node3'] * 2


def test_the_originals_scripts_may_leave_networks_out(slurm):
    """All of its mpirun scripts do so; Open MPI refuses that beside a list of ours."""
    script = write_script(slurm, 'mpirun -H $hostlist -np $np -mca btl_tcp_if_exclude docker0,lo,'
                                 'virbr0 -mca oob_tcp_if_exclude docker0 sh -c '
                                 '"env | grep -c ^[A-Z_a-z]*if_include=; hostname"')
    done = run(slurm, script, '--slots_per_node=1', srun=('-N2', '-w', 'node1,node2'))
    assert sorted(done.stdout.split()) == ['0', '0', 'node1', 'node2'], done.stdout + done.stderr


def test_a_real_sshd_runs_in_each_container_with_keys_made_for_it(slurm):
    script = write_script(slurm, '/usr/bin/ssh -F $sshconfigdir/ssh_config node2 hostname; '
                                 'exit 4')
    done = run(slurm, script, f'--sshdport={PORT}', srun=('-N2', '-w', 'node1,node2'))
    assert done.returncode == 4 and done.stdout == 'node2\n', done.stdout + done.stderr
    keys = slurm.head.path(slurm.head.home()) / 'mpisshconfig'
    assert (keys / 'sshd_config').exists()
    before = {p.name: p.read_bytes() for p in keys.iterdir() if p.is_file()}
    listener = start(slurm[2], ['python3', '-c', LISTEN])
    try:
        assert listener.stdout.readline() == 'listening\n'
        said = refused(slurm, script, '--sshconfigdir=~/mpisshconfig',
                       srun=('-N2', '-w', 'node1,node2'))
    finally:
        listener.kill_all()
        listener.communicate()
    assert 'node2: sshd does not listen on port' in said and '--sshdport' in said
    assert f'sshd on node2, port {PORT}, failed, and job.sh did not begin: exit code 69' in said
    assert {p.name: p.read_bytes() for p in keys.iterdir() if p.is_file()} == before
    slurm.head.run(['rm', '-rf', 'mpisshconfig'])


LISTEN = f'''
import socket, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('', {PORT}))
s.listen()
print('listening', flush=True)
time.sleep(300)
'''


@pytest.mark.parametrize('words,remedy', [
    (['--script=./no.sh'], 'no such file in'),
    (['--script=plain.sh'], 'chmod +x ./plain.sh'),
    (['--script=/'], 'this is a directory'),
    (['--script'], 'write --script=FILE'),
    (['--container=', '--script=job.sh'], '--container: the value is empty'),
    (['--nodelist=node9'], 'use srun --nodelist=node9'),
    (['--nodelist=node[1-'], 'is not a list of nodes'),
    (['--slots_per_node=many'], '--slots_per_node many'),
    (['--datamnts=data'], "is not a directory's full path"),
    (['--datamnts=/no/such/place'], 'is not on this host'),
    (['--dockopts=-e "A'], 'a quote is open'),
    (['--dockopts=--no-such-option'], 'no-such-option'),
    (['--dockopts=--entrypoint=sh'], 'let the script start the program'),
    (['--sshdport=22'], 'such as 12345'),
    (['--container=no/such:image'], 'is not on this host'),
])
def test_what_is_wrong_is_told_once_with_a_remedy(slurm, words, remedy):
    script = write_script(slurm, 'echo RAN')
    slurm.head.write('plain.sh', '#!/bin/sh\n', mode=0o644)
    said = refused(slurm, script, *words)
    assert remedy in said, said
    assert said.count(remedy) == 1 and said.count('reigen: ') <= 2, said
    assert said.count('Exited with exit code') == 1, 'only the first task fails'


def test_more_slots_than_the_job_has_are_remarked(slurm):
    done = run(slurm, write_script(slurm, 'echo $np'), '--slots_per_node=9')
    assert done.stdout == '18\n' and 'ranks will share them' in done.stderr


def test_outside_of_slurm_and_without_srun_it_says_what_to_do(slurm):
    script = write_script(slurm, 'echo RAN')
    line = srun_docker(script)[2:]
    done = slurm.head.run(line)
    assert done.returncode == 2 and 'salloc -N 2' in done.stderr, done.stderr
    done = slurm.head.run(['salloc', '-N1', *map(str, line)], timeout=READY)
    assert done.returncode != 0 and 'put srun before it' in done.stderr, done.stderr


def test_a_node_without_a_container_runtime_is_named(slurm):
    script = write_script(slurm, 'echo RAN')
    node = slurm[2]
    node.stop_dockerd()
    try:
        said = refused(slurm, script, '--container-runtime=docker',
                       srun=('-N2', '-w', 'node1,node2'))
    finally:
        node.start_dockerd()
    assert 'host node2' in said and 'daemon does not run' in said, said


def test_a_home_that_cannot_be_written_is_no_obstacle(slurm):
    script = write_script(slurm, 'echo ran; exit 6')
    home = slurm.head.path(slurm.head.home())
    mode = home.stat().st_mode
    os.chmod(home, 0o555)
    try:
        done = run(slurm, script)
    finally:
        os.chmod(home, mode)
    assert done.returncode == 6 and done.stdout == 'ran\n', done.stderr


def test_two_tasks_of_a_node_run_the_job_once_and_end_with_it(slurm):
    done = run(slurm, write_script(slurm, 'echo ran; exit 5'), srun=('-N2', '-n4'))
    assert done.returncode == 5 and done.stdout == 'ran\n'
    assert 'use srun --ntasks-per-node=1' in done.stderr


def test_a_step_of_two_components_of_a_heterogeneous_job_is_one_job(slurm):
    script = write_script(slurm, 'echo $hostlist; for h in $(echo $hostlist | tr , " "); do '
                                 'ssh ${h%:*} hostname; done; exit 8')
    line = srun_docker(script, '--slots_per_node=1', srun=('--het-group=0,1',))
    done = slurm.head.run(['salloc', '--quiet', '-N1', '-n1', ':', '-N1', '-n1', *line],
                          timeout=READY)
    hosts = done.stdout.splitlines()
    assert done.returncode == 8 and len(set(hosts[1:])) == 2, done.stdout + done.stderr
    assert hosts[0] == ','.join(f'{each}:1' for each in hosts[1:])


def test_two_steps_of_one_job_have_their_own_gpus_at_the_same_time(slurm):
    """The job has both GPUs of both nodes, each step asks for one."""
    script = write_script(slurm, 'for h in $(echo $hostlist | tr , " "); do ssh ${h%:*} '
                          '"echo gpus \\$NVIDIA_VISIBLE_DEVICES"; done; touch seen-$1\n'
                          'while ! test -e seen-0 -a -e seen-1; do sleep 0.1; done')
    lines = [' '.join(map(str, srun_docker(script, str(i), srun=(
        '--exact', '-N2', '-n2', '-c1', '--gres=gpu:1')))) for i in range(2)]
    try:
        done = slurm.head.run(['salloc', '--quiet', '-N2', '-n2', '-c2', '--gres=gpu:2', 'sh', '-c',
                               f'{lines[0]} >out-0 & {lines[1]} >out-1 & wait; cat out-0 out-1'],
                              timeout=READY)
    finally:
        slurm.head.run(['sh', '-c', 'rm -f seen-* out-*'])
    told = [line.split()[1] for line in done.stdout.splitlines()]
    assert sorted(told) == ['0', '0', '1', '1'], done.stdout + done.stderr
    assert told[0] == told[1] and told[2] == told[3], told


def test_nodes_with_different_numbers_of_gpus_have_a_slot_for_each(slurm):
    """While the script's own step has them all."""
    script = write_script(slurm, 'echo $hostlist $np $NVIDIA_VISIBLE_DEVICES')
    done = run(slurm, script, srun=('-N3', '--gpus=4'))
    hosts, np, gpus = done.stdout.split()
    slots = [int(host.split(':')[1]) for host in hosts.split(',')]
    assert sorted(slots) == [1, 1, 2] and np == '4', done.stdout
    assert len(gpus.strip(',').split(',')) == slots[0], done.stdout


@pytest.mark.parametrize('gpu,who', [('0', 'NV_GPU asks for GPU 0'), ('1', 'host node2: NV_GPU')])
def test_a_gpu_that_only_one_node_has_ends_the_job_on_both(slurm, gpu, who):
    """Another job has node1's first GPU, so that this one gets the second there."""
    other = start(slurm.head, ['srun', '-N1', '-w', 'node1', '--gres=gpu:1', 'sh', '-c',
                               'echo up; sleep 1000'])
    try:
        assert other.stdout.readline() == 'up\n', end(other).stderr
        said = refused(slurm, write_script(slurm, 'echo RAN'), env={'NV_GPU': gpu},
                       srun=('-N2', '-w', 'node1,node2', '--gres=gpu:1'))
        # A slow start is told meanwhile, with what is known of it by then.
        told = [line for line in said.splitlines() if ' hosts ready after ' not in line]
        assert who in said and '\n'.join(told).count('NV_GPU asks') == 1, said
    finally:
        slurm.cancel_all()
        other.communicate()


@pytest.fixture
def no_release(slurm):
    """An environment in which no step can be started that tells tasks of the job's end."""
    slurm.head.write('no-release/srun', '#!/bin/sh\n'
                     'case "$*" in *--reigen-release*) exit 1;; esac\n'
                     'exec /usr/bin/srun "$@"\n', mode=0o755)
    path = f'{slurm.head.home()}/no-release:{slurm.head.environment("alice", {})["PATH"]}'
    yield {'PATH': path}
    slurm.head.run(['rm', '-r', 'no-release'])


@pytest.mark.parametrize('code', [0, 3])
def test_tasks_on_unused_nodes_end_with_the_job_though_no_step_can_tell_them(slurm, no_release,
                                                                             code):
    """Such as in a job that is just being ended; then they get a signal."""
    done = run(slurm, write_script(slurm, f'echo $hostlist; exit {code}'), '--nodelist=node1',
               '--slots_per_node=1', srun=('-N2', '-w', 'node1,node2'), env=no_release)
    assert (done.returncode, done.stdout) == (code, 'node1:1\n'), done.stderr


def test_the_step_is_cancelled_where_a_node_is_lost_and_its_task_cannot_be_told(slurm, no_release):
    """srun would wait for that task without an end: as for one on a node that is cut off and comes
    back after its task has ended, of which Slurm tells srun but once."""
    job = start(slurm.head, srun_docker(write_script(slurm, 'echo up; sleep 1000'),
                                        srun=('-N2', '-w', 'node1,node2')), env=no_release)
    assert job.stdout.readline() == 'up\n', end(job).stderr
    agents = [pid for pid, line in slurm[2].processes().items() if 'reigen-agent contain' in line]
    tasks = [pid for pid, line in slurm[2].processes().items() if 'reigen srun-docker' in line]
    slurm[2].run(['kill', '-STOP', *map(str, tasks)], user='root', check=True)
    slurm[2].run(['kill', '-KILL', *map(str, agents)], user='root', check=True)
    done = end(job)
    assert done.returncode in (76, 137), done.stderr
    # The second where the tasks are gone before srun tells that it waits for them.
    assert 'Job step aborted' in done.stderr or 'Force Terminated' in done.stderr, done.stderr
    assert 'task 0: Exited with exit code 76' in done.stderr, done.stderr


def test_the_exit_code_is_the_scripts_where_srun_ends_at_the_first_failure(slurm):
    assert run(slurm, write_script(slurm, 'exit 9'), srun=('-N3', '-K')).returncode == 9


def test_a_script_that_saves_on_sigterm_decides_the_exit_code(slurm):
    script = write_script(slurm, 'trap "echo saved; exit 9" TERM; echo up\n'
                                 'while :; do sleep 0.1; done')
    job = start(slurm.head, srun_docker(script))
    assert job.stdout.readline() == 'up\n'
    slurm.ask('scancel', *map(str, slurm.squeue()))
    done = end(job)
    assert done.returncode == 9 and 'saved' in done.stdout, done.stderr


@pytest.mark.parametrize('whom', ['srun', 'task 0'])
def test_nothing_outlives_what_is_killed(slurm, whom):
    script = write_script(slurm, 'mpirun -H $hostlist -np $np sh -c "echo up; sleep 1000"')
    job = start(slurm.head, srun_docker(script))
    assert [job.stdout.readline() for _ in range(2)] == ['up\n'] * 2
    if whom == 'srun':
        job.send_signal(signal.SIGKILL)
    else:
        kill_first_task(slurm)
    took = seconds_until_gone(slurm.nodes)
    assert took < GONE + SLACK
    assert end(job).returncode != 0


def kill_first_task(slurm):
    for node in slurm.nodes:
        for pid, line in node.processes().items():
            if ' srun-docker ' not in line or line.startswith('srun'):
                continue
            environ = node.run(['cat', f'/proc/{pid}/environ'], user='root').stdout
            if 'SLURM_PROCID=0' in environ.split('\0'):
                node.run(['kill', '-KILL', str(pid)], user='root', check=True)
                return
    raise AssertionError('no task 0')


def test_help_needs_no_slurm_and_is_printed_once(slurm):
    done = slurm.head.run([PROGRAMS.reigen, 'srun-docker', '--help'])
    assert done.returncode == 0
    twice = slurm.head.run(['srun', '-N2', PROGRAMS.reigen, 'srun-docker', '--help'], timeout=READY)
    assert twice.stdout == done.stdout and twice.returncode == 0, 'two tasks print it once'
    for option in ('container', 'script', 'slots_per_node', 'datamnts', 'dockopts', 'privileged',
                   'nodelist', 'envlist', 'ibdevices', 'dockname', 'sshconfigdir', 'sshdport',
                   'start-timeout', 'script_help'):
        assert f'--{option}' in done.stdout
