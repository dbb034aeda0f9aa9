# SPDX-License-Identifier: Apache-2.0
"""reigen run --on slurm: in an allocation, without one, and in the queue."""
import json
import re

import pytest
from bed import SlurmCluster

import everywhere
from built import PROGRAMS
from jobs import end, start, wait_for

WHERE = 'echo $REIGEN_RANK $SLURMD_NODENAME $(id -un) $PWD'


def run(slurm, *options, command=('sh', '-c', WHERE), inside=None, timeout=90, **more):
    """A job's end; inside: salloc's options for the allocation that it is to run in."""
    argv = [PROGRAMS.reigen, 'run', '--on', 'slurm', *options, '--', *command]
    if inside is not None:
        argv = ['salloc', '--quiet', *inside, *argv]
    return slurm.head.run(argv, timeout=timeout, **more)


def lines(done):
    """What the ranks said, by rank: {0: ['node1', 'alice', '/home/alice']}."""
    assert done.returncode == 0, done.stdout + done.stderr
    told = [re.sub(r'^\[\d+\] ', '', line).split() for line in done.stdout.splitlines()]
    return {int(rank): rest for rank, *rest in told}


# ------------------------------------------------------------------------------ in an allocation

def test_the_ranks_fill_the_allocation(slurm):
    assert lines(run(slurm, inside=['-N3', '-n3'])) == {
        r: [f'node{r + 1}', 'alice', '/home/alice'] for r in range(3)}


@pytest.mark.parametrize('gpus', ['--gres=gpu:2', '--gpus-per-node=2'])
def test_without_tasks_each_gpu_gets_a_rank(slurm, gpus):
    done = run(slurm, inside=['-N2', gpus])
    assert [rest[0] for _, rest in sorted(lines(done).items())] == ['node1'] * 2 + ['node2'] * 2


def test_ranks_follow_an_uneven_layout(slurm):
    done = run(slurm, inside=['-N3', '-n6'])
    nodes = [rest[0] for _, rest in sorted(lines(done).items())]
    assert len(nodes) == 6 and sorted(nodes) == nodes
    assert {n: nodes.count(n) for n in nodes} == dict(node1=4, node2=1, node3=1)


@pytest.mark.parametrize('options,nodes', [
    (['--nodes', '2'], ['node1', 'node2']), (['--nodelist', 'node[2-3]'], ['node2', 'node3']),
    (['--exclude', 'node2'], ['node1', 'node3']), (['-H', 'node3'], ['node3'])])
def test_a_part_of_an_allocation(slurm, options, nodes):
    done = run(slurm, *options, inside=['-N3', '-n3'])
    assert [rest[0] for _, rest in sorted(lines(done).items())] == nodes


def test_two_jobs_at_once_share_the_nodes(slurm):
    """Each rank waits for one of the other job on its node."""
    meet = ('touch /tmp/here-$0; for i in 1 2; do while ! test -e /tmp/here-$i; do sleep 0.1; '
            'done; done; echo met')
    script = (f"for i in 1 2; do {PROGRAMS.reigen} run --on slurm -- sh -c '{meet}' $i & done; "
              'wait')
    try:
        done = slurm.head.run(['salloc', '--quiet', '-N2', '-n2', 'sh', '-c', script], timeout=60)
    finally:
        for node in slurm.nodes:
            node.run(['sh', '-c', 'rm -f /tmp/here-*'])
    assert done.stdout.count('met') == 4, done.stdout + done.stderr


def test_a_heterogeneous_job_has_ranks_in_all_components(slurm):
    done = run(slurm, inside=['-N1', '-n2', ':', '-N2', '-n2'])
    told = lines(done)
    assert sorted(told) == [0, 1, 2, 3]
    assert len({rest[0] for rest in told.values()}) == 3


def test_containers_on_the_nodes(slurm):
    command = ['sh', '-c', 'echo $REIGEN_RANK $(hostname) $(id -un) $PWD']
    assert lines(run(slurm, '--image', 'base', inside=['-N3', '-n3'], command=command)) == {
        r: [f'node{r + 1}', 'alice', '/home/alice'] for r in range(3)}


def test_our_python_packages_come_with_the_job(slurm):
    """From the home, or from where a job in containers has put them on that node before."""
    script = 'import horovod, reigen; reigen.init(); print(reigen.rank(), horovod.__file__)'
    told = lines(run(slurm, inside=['-N2', '-n2'], command=['python3', '-c', script]))
    assert sorted(told) == [0, 1] and all(
        re.search(r'/reigen(-\d+)?/bundle-[^/]+/', file) for file, in told.values()), told


def test_the_agent_travels_where_the_nodes_lack_it(slurm):
    """A launcher and an agent in a place that only the login node has. The components of a
    heterogeneous job have tasks of the same numbers, and one home."""
    slurm.head.run(['sh', '-c', 'rm -rf ~/.cache/reigen; mkdir -p /tmp/own; '
                    f'cp {PROGRAMS.reigen} {PROGRAMS.agent} /tmp/own'], check=True)
    argv = ['salloc', '--quiet', '-n1', ':', '-N2', '-n2', '/tmp/own/reigen', 'run', '--on',
            'slurm', '-v', '-v', '--', 'sh', '-c', f'test $(umask) = 0022 && {WHERE}']
    first = slurm.head.run(argv, timeout=60, env={'REIGEN_AGENT': '/tmp/own/reigen-agent'})
    assert len(lines(first)) == 3
    assert 'sending the agent' in first.stderr and 'Text file busy' not in first.stderr
    again = slurm.head.run(argv, timeout=60, env={'REIGEN_AGENT': '/tmp/own/reigen-agent'})
    assert len(lines(again)) == 3 and 'sending the agent' not in again.stderr
    kept = slurm.head.run(['sh', '-c', 'find ~/.cache/reigen -name ".new*"']).stdout
    assert kept == ''


def test_an_agent_that_lies_in_a_strangers_folder_is_not_run(slurm):
    """Where everybody may write, whoever was first could have put anything."""
    own = {'REIGEN_AGENT': '/tmp/own/reigen-agent'}
    argv = ['salloc', '--quiet', '-N2', '-n2', '/tmp/own/reigen', 'run', '--on', 'slurm', '--',
            'sh', '-c', WHERE]
    slurm.head.run(['sh', '-c', 'rm -rf ~/.cache/reigen; mkdir -p /tmp/own; '
                    f'cp {PROGRAMS.reigen} {PROGRAMS.agent} /tmp/own'], check=True)
    assert len(lines(slurm.head.run(argv, timeout=60, env=own))) == 2
    cache = f'{slurm.head.home()}/.cache/reigen'
    bad = '#!/bin/sh\ntouch /tmp/bad-was-here\nexit 0\n'
    slurm.head.run(['sh', '-c', f'chown -R root {cache}; chmod -R 777 {cache}; for f in '
                    f'{cache}/*/reigen-agent; do printf "{bad}" >$f; done'], user='root',
                   check=True)
    try:
        assert len(lines(slurm.head.run(argv, timeout=60, env=own))) == 2
        assert not [node for node in slurm.nodes if node.path('/tmp/bad-was-here').exists()]
        kept = slurm.head.run(['find', cache, '-user', 'alice']).stdout
        assert kept == ''
    finally:
        slurm.head.run(['rm', '-rf', cache], user='root')
        for node in slurm.nodes:
            node.run(['sh', '-c', 'rm -rf /run/user/2001/reigen /tmp/bad-was-here'])


def test_an_agent_finds_a_place_where_the_home_cannot_be_written(slurm):
    home = slurm.head.path(slurm.head.home())
    mode = home.stat().st_mode
    slurm.head.run(['sh', '-c', 'rm -rf ~/.cache/reigen; mkdir -p /tmp/own; '
                    f'cp {PROGRAMS.reigen} {PROGRAMS.agent} /tmp/own'], check=True)
    home.chmod(0o555)
    try:
        done = slurm.head.run(['salloc', '--quiet', '-N2', '-n2', '/tmp/own/reigen', 'run', '--on',
                               'slurm', '--', 'sh', '-c', WHERE], timeout=60,
                              env={'REIGEN_AGENT': '/tmp/own/reigen-agent'})
        refused = run(slurm, '--submit', '--nodes', '1')
        noteless = run(slurm, '--submit', '--nodes', '1', cwd='/tmp',
                       env={'XDG_STATE_HOME': slurm.head.home()})
    finally:
        home.chmod(mode)
    assert len(lines(done)) == 2
    assert refused.returncode == 2 and 'submit it from another one' in refused.stderr
    assert noteless.returncode == 2 and 'XDG_STATE_HOME=DIR' in noteless.stderr, noteless.stderr


def test_a_node_without_docker_and_an_image_that_is_nowhere_are_told(slurm):
    done = run(slurm, '--image', 'nowhere.invalid/none:1', inside=['-N2', '-n2'])
    assert done.returncode not in (0, 1), done.stderr
    assert 'nowhere.invalid/none:1' in done.stderr and 'host node' in done.stderr, done.stderr
    node = slurm[2]
    node.stop_dockerd()
    try:
        done = run(slurm, '--image', 'base', '--container-runtime', 'docker',
                   inside=['-w', 'node1,node2', '-n2'])
    finally:
        node.start_dockerd()
    assert done.returncode == 69 and 'host node2' in done.stderr, done.stderr
    assert 'daemon does not run' in done.stderr, done.stderr


@pytest.mark.parametrize('image', [(), ('--image', 'base')])
def test_the_exit_code_is_the_first_failures(slurm, image):
    done = run(slurm, *image, inside=['-N2', '-n2'],
               command=['sh', '-c', 'test $REIGEN_RANK = 1 && exit 7; sleep 60'])
    assert done.returncode == 7 and 'rank 1 on node2 failed first' in done.stderr, done.stderr


def test_ranks_in_containers_have_all_of_their_grace(slurm):
    """Longer than a container is waited for whose launcher is gone; other signals end nothing."""
    rank = ('trap "echo told" USR1; trap "sleep 7; echo saved; exit 0" TERM; echo up; '
            'while :; do sleep 0.1; done')
    job = start(slurm.head, ['salloc', '--quiet', '-N2', '-n2', PROGRAMS.reigen, 'run', '--on',
                             'slurm', '--image', 'base', '--grace', '60', '--', 'sh', '-c', rank])
    try:
        assert [job.stdout.readline()[4:] for _ in range(2)] == ['up\n'] * 2
        slurm.ask('scancel', '--signal=USR1', *map(str, slurm.squeue()))
        # With proctrack/linuxproc it may come twice.
        told = set()
        while len(told) < 2:
            told.add(job.stdout.readline())
        assert told == {'[0] told\n', '[1] told\n'}
        slurm.ask('scancel', *map(str, slurm.squeue()))
        done = end(job)
    finally:
        if job.poll() is None:
            job.kill_all()
    assert done.stdout.count('saved') == 2 and done.returncode == 75, (done.stdout, done.stderr)


@pytest.mark.parametrize('command,code,said', [
    ('./nowhere', 127, 'No such file'), ('./plain', 126, 'not executable')])
def test_a_command_that_cannot_be_run_is_told_by_its_cause(slurm, command, code, said):
    slurm.head.write('plain', 'text', mode=0o644)
    done = run(slurm, inside=['-N2', '-n2'], command=[command])
    assert done.returncode == code, done.stderr
    assert command in done.stderr and said in done.stderr, done.stderr


def test_agents_need_no_memory_and_no_cores_that_other_steps_have():
    """A step of the user's holds all that the job has, where Slurm counts memory, too."""
    settings = {'SelectTypeParameters': 'CR_Core_Memory', 'DefMemPerCPU': 500}
    with SlurmCluster(2, task='affinity', settings=settings) as cluster:
        script = ('srun --exclusive -n4 sh -c "touch ~/on-$SLURM_PROCID; sleep 100" & '
                  'while ! test -e ~/on-3; do sleep 0.1; done; '
                  f"{PROGRAMS.reigen} run --on slurm -- sh -c '{WHERE}'; code=$?; kill $!; wait; "
                  'exit $code')
        script = script.replace('"touch ~/on-$SLURM_PROCID', '"touch ~/on-\\$SLURM_PROCID')
        done = cluster.head.run(['salloc', '--quiet', '-N2', '-n4', 'sh', '-c', script],
                                timeout=60)
        assert sorted(lines(done)) == [0, 1, 2, 3]


# ------------------------------------------------------------------------------ GPUs

FAKE_DOCKER = r'''#!/bin/sh
# As docker, which has no GPUs here: puts down what it was asked for, and leaves it out.
for word; do case $word in
--gpus=*) echo "$SLURMD_NODENAME $word" >>~/gpus; shift;;
*) shift; set -- "$@" "$word";;
esac; done
exec /usr/bin/docker "$@"
'''


@pytest.fixture
def docker_of_gpus(slurm):
    slurm.head.write('fake/docker', FAKE_DOCKER, mode=0o755)
    yield {'PATH': f'{slurm.head.home()}/fake:/usr/local/bin:/usr/bin:/bin'}
    for name in ('gpus', 'fake/docker'):
        slurm.head.path(name).unlink(missing_ok=True)


@pytest.mark.parametrize('gres,options,given', [
    ('gpu:1', [], {'node1 --gpus="device=0"', 'node2 --gpus="device=0"'}),
    ('gpu:2', ['--gpus', 'all'], {'node1 --gpus="device=0,1"', 'node2 --gpus="device=0,1"'}),
    ('gpu:2', ['--gpus', '1'], {'node1 --gpus="device=0"', 'node2 --gpus="device=0"'})])
def test_containers_get_the_gpus_that_slurm_gave(slurm, docker_of_gpus, gres, options, given):
    done = run(slurm, '--image', 'base', *options, inside=['-N2', f'--gres={gres}'],
               command=['true'], env=docker_of_gpus)
    assert done.returncode == 0, done.stderr
    assert set(slurm.head.path('gpus').read_text().splitlines()) == given


def test_no_container_gets_a_gpu_that_slurm_did_not_give(slurm, docker_of_gpus):
    done = run(slurm, '--image', 'base', '--gpus', '1,', inside=['-N1', '--gres=gpu:1'],
               command=['true'], env=docker_of_gpus)
    assert done.returncode == 77 and 'Slurm has not given the GPU 1' in done.stderr, done.stderr


@pytest.mark.parametrize('gres,gpus,given', [
    ('gpu:1', 'all', '0'), ('gpu:2', '1', '0'), ('none', 'all', 'void')])
def test_a_container_on_the_jobs_own_node_gets_no_more_either(slurm, gres, gpus, given):
    """Without --on slurm, as in a job's script that calls reigen for one node."""
    done = slurm.head.run(['srun', '-N1', '-n1', f'--gres={gres}', PROGRAMS.reigen, 'run', '-np',
                           '1', '--image', 'base', '--gpus', gpus, '--', 'sh', '-c',
                           'echo 0 $NVIDIA_VISIBLE_DEVICES'], timeout=60)
    assert lines(done) == {0: [given]}, done.stderr


@pytest.mark.parametrize('options,env,code', [
    (['--gpus', 'all'], {}, 0), (['--gpus', '1'], {}, 77), (['--gpus', '1,'], {}, 77),
    ([], {'NV_GPU': '0,1'}, 0)])
def test_a_job_that_asked_slurm_for_no_gpu_gets_none(slurm, docker_of_gpus, options, env, code):
    done = run(slurm, '-np', '1', '--image', 'base', *options, inside=['-N1', '-n1'],
               command=['sh', '-c', 'echo 0 $NVIDIA_VISIBLE_DEVICES'],
               env={**docker_of_gpus, **env})
    assert done.returncode == code, done.stderr
    assert 'Slurm has given this job no GPU' in done.stderr, done.stderr
    assert not slurm.head.path('gpus').exists()
    assert code or lines(done) == {0: ['void']}, done.stdout


def test_bare_ranks_see_the_gpus_that_slurm_gave(slurm):
    done = run(slurm, '-np', '1', inside=['-N1', '--gres=gpu:1'],
               command=['sh', '-c', 'echo 0 $CUDA_VISIBLE_DEVICES'])
    assert lines(done) == {0: ['0']}


@pytest.mark.parametrize('inside,counts', [(['-N3', '--gpus=4'], [1, 1, 2]),
                                           (['-N2', '--gpus=4'], [2, 2])])
def test_gpus_that_were_asked_for_as_a_whole_are_all_there(slurm, inside, counts):
    """A rank for each, on nodes with different numbers of them too, and each rank sees its
    node's. srun's own step would be refused, or have one GPU less than the job."""
    done = run(slurm, inside=inside, command=['sh', '-c', 'echo $REIGEN_RANK $SLURMD_NODENAME '
                                              '$CUDA_VISIBLE_DEVICES'])
    told = list(lines(done).values())
    seen = {node: gpus.split(',') for node, gpus in told}
    assert sorted(len(gpus) for gpus in seen.values()) == counts, done.stdout
    assert all([node for node, _ in told].count(node) == len(seen[node]) for node in seen), told


# ------------------------------------------------------------------------------ without one

@pytest.mark.parametrize('image', [(), ('--image', 'base')])
def test_an_allocation_is_asked_for_and_given_back(slurm, image):
    # More than fits into any pipe, with a line that looks like one of Slurm's.
    long = {f'LONG_{i}': '\nSLURM_NNODES=7\n' + 'x' * 120_000 for i in range(0 if image else 10)}
    done = run(slurm, '-np', '4', '--nodes', '2', *image, env=long,
               command=['sh', '-c', 'echo $REIGEN_RANK $(hostname) $SLURM_NNODES'])
    told = lines(done)
    assert sorted(told) == [0, 1, 2, 3]
    assert {rest[0] for rest in told.values()} == {'node1', 'node2'}
    assert image or {rest[1] for rest in told.values()} == {'2'}
    slurm.wait_idle()


@pytest.mark.parametrize('killed', [[r'salloc '], [r'salloc ', r'\S*reigen run ']])
def test_an_allocation_is_given_back_though_its_salloc_was_killed(slurm, killed):
    """Alone, which harms nobody until the end, or with the launcher."""
    job = start(slurm.head, [PROGRAMS.reigen, 'run', '--on', 'slurm', '--nodes', '1', '-np', '1',
                             '--', 'sh', '-c', 'echo up; until test -e go; do sleep 0.1; done'])
    home = slurm.head.path(slurm.head.home())
    try:
        assert 'up' in job.stdout.readline(), job.kill_all()
        for words in killed:  # salloc first, which a launcher's death would end well
            pids = [pid for pid, line in slurm.head.processes().items() if re.match(words, line)]
            slurm.head.run(['kill', '-KILL', *map(str, pids)], check=True)
        (home / 'go').touch()
        assert end(job).returncode == (0 if len(killed) == 1 else -9)
        slurm.wait_idle()
    finally:
        (home / 'go').unlink(missing_ok=True)
        slurm.cancel_all()


def test_the_queues_reason_is_shown_and_the_request_ends_with_us(slurm):
    slurm.head.run(['salloc', '--quiet', '-N3', '--exclusive', '--no-shell'], check=True)
    wait_for(lambda: 'RUNNING' in slurm.squeue().values(), 'the allocation')
    waiting = start(slurm.head, [PROGRAMS.reigen, 'run', '--on', 'slurm', '--nodes', '2', '--',
                                 'true'])
    try:
        # Slurm may not have looked at it yet when it is asked for the first time.
        assert any(re.search(r'waiting for Slurm: job \d+ is pending: (Resources|Priority)', line)
                   for line in iter(waiting.stderr.readline, ''))
        pids = [pid for pid, line in slurm.head.processes().items() if ' run --on slurm ' in line]
        slurm.head.run(['kill', '-INT', *map(str, pids)], check=True)
        done = end(waiting)
        assert done.returncode != 0 and 'was taken back\n' in done.stderr, done.stderr
        wait_for(lambda: len(slurm.squeue()) == 1, 'the request to be gone')
        before = set(slurm.squeue())
        waiting = start(slurm.head, [PROGRAMS.reigen, 'run', '--on', 'slurm', '--nodes', '2', '--',
                                     'true'])
        wait_for(lambda: set(slurm.squeue()) - before, 'the request')
        slurm.ask('scancel', *map(str, set(slurm.squeue()) - before))
        done = end(waiting)
        assert done.returncode == 69 and '; somebody has cancelled it' in done.stderr, done.stderr
    finally:
        waiting.kill_all()
        slurm.cancel_all()


def test_a_request_that_never_starts_is_told_so(slurm):
    """Slurm leaves it in the queue: the nodes could come."""
    waiting = start(slurm.head, [PROGRAMS.reigen, 'run', '--on', 'slurm', '--nodes', '5', '--',
                                 'true'])
    try:
        # It is PartitionConfig or PartitionNodeLimit, perhaps after None or Priority.
        assert any(re.search(r'not start as things are: press Ctrl-C, .* fewer --nodes', line)
                   for line in iter(waiting.stderr.readline, ''))
        pids = [pid for pid, line in slurm.head.processes().items() if ' run --on slurm ' in line]
        slurm.head.run(['kill', '-TERM', *map(str, pids)], check=True)
        done = end(waiting)
        assert done.stderr.endswith('was taken back\n'), done.stderr
        wait_for(lambda: not slurm.squeue(), 'the request to be gone')
    finally:
        waiting.kill_all()
        slurm.cancel_all()


def test_the_doctor_asks_for_nodes_and_gives_them_back(slurm):
    done = slurm.head.run([PROGRAMS.reigen, 'doctor', '--on', 'slurm', '--nodes', '2'], timeout=90)
    assert done.returncode in (0, 1), done.stderr
    assert 'node1' in done.stdout and 'node2' in done.stdout, done.stdout
    wait_for(lambda: not slurm.squeue(), 'the nodes to be given back')


def test_a_job_beside_the_allocation_says_so(slurm):
    job = [PROGRAMS.reigen, 'run', '-np', '1', '--', 'true']
    done = slurm.head.run(['salloc', '--quiet', '-N2', *job], timeout=90)
    assert done.returncode == 0 and '--on slurm uses them' in done.stderr, done.stderr
    done = slurm.head.run(['srun', '-N2', '-n2', *job], timeout=90)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count('srun starts this 2 times') == 1, done.stderr


@pytest.mark.parametrize('options,code,said', [
    (['--partition', 'nope'], 69, 'Invalid partition name specified; sinfo -s lists'),
    (['--time', 'x'], 69, 'Invalid --time specification; write it as 30 (minutes)'),
    (['--gres', 'x:1'], 69, "; sinfo -o '%N %G' lists"),
    (['--nodelist', 'node9'], 69, 'Invalid node name specified; sinfo -N lists'),
    (['--slurm-option=--nope'], 69, "unrecognized option '--nope'; see salloc --help"),
    (['--dry-run'], 69, 'run it in one (salloc -N 2), or with --on local'),
    (['--nodelist', 'node[1-'], 2, '--nodelist'),
    (['--nodes', '0'], 2, '--nodes')])
def test_what_slurm_cannot_give_is_told(slurm, options, code, said):
    done = run(slurm, *options)
    assert done.returncode == code and said in done.stderr, done.stderr


def test_nodes_outside_the_allocation_are_refused(slurm):
    for options in (['-H', 'node3'], ['--nodelist', 'node3'], ['--nodes', '3'], ['-np', '9']):
        done = run(slurm, *options, inside=['-N2', '-n2'])
        assert done.returncode == 2, (options, done.stderr)


def test_where_ranks_run_whose_directory_the_nodes_lack_is_told(slurm):
    """srun has gone to /tmp then, not to the home."""
    slurm.head.run(['mkdir', '-p', '/tmp/only-here'], check=True)
    done = run(slurm, '--nodes', '2', command=['pwd'], cwd='/tmp/only-here')
    assert set(re.findall(r'] (.*)', done.stdout)) == {'/tmp'}, done.stdout + done.stderr
    assert 'there is no directory /tmp/only-here' in done.stderr
    assert 'ranks run in /tmp; go to one that all hosts have, or give --sync' in done.stderr


def test_ranks_are_spread_evenly_over_the_nodes_asked_for(slurm):
    done = run(slurm, '-np', '4', '--nodes', '2', '--gpus-per-rank', '1')
    nodes = [rest[0] for _, rest in sorted(lines(done).items())]
    assert [nodes.count(node) for node in sorted(set(nodes))] == [2, 2], done.stdout


def test_without_slurm_the_error_says_what_is_missing(slurm):
    done = slurm.head.run(['env', 'PATH=/nowhere', PROGRAMS.reigen, 'run', '--on', 'slurm', '--',
                           'true'])
    assert done.returncode == 69 and 'salloc is not there' in done.stderr, done.stderr


def test_strangers_at_the_launchers_door_harm_nobody(slurm):
    """Whoever connects without the key is let go, and the job starts and ends well."""
    job = start(slurm.head, ['salloc', '--quiet', '-N2', '-n2', PROGRAMS.reigen, 'run', '--on',
                             'slurm', '--', 'sleep', '2'])
    ports = wait_for(lambda: listening(slurm), 'the launcher to listen')
    assert all(61000 <= int(port) <= 62900 for port in ports), 'not among SrunPortRange'
    done = slurm.head.run(['/usr/bin/python3', '-c', STRANGER, *map(str, ports)])
    assert done.returncode == 0, done.stderr
    done = end(job)
    assert done.returncode == 0, done.stderr


STRANGER = '''
import socket, sys
for port in sys.argv[1:]:
    for text in (b"", b"GET / HTTP/1.1\\r\\n\\r\\n", b"reigen-dial2 node1\\n" + b"x" * 96,
                 b"reigen-dial2 " + b"y" * 400):
        try:
            with socket.create_connection(("127.0.0.1", int(port)), 5) as s:
                s.sendall(text)
                s.shutdown(socket.SHUT_WR)
                s.settimeout(15)
                while s.recv(100):
                    pass
        except OSError:
            pass
'''


def test_a_firewall_before_the_launcher_is_told_with_ways_around_it(slurm):
    slurm.head.block(50123, 'REJECT')
    try:
        done = run(slurm, inside=['-N2', '-n2'], env={'REIGEN_SLURM_PORTS': '50123'})
    finally:
        slurm.head.unblock(50123, 'REJECT')
    assert done.returncode == 69, done.stderr
    assert ':50123 (Connection refused)' in done.stderr and '$' not in done.stderr, done.stderr
    assert 'REIGEN_SLURM_PORTS' in done.stderr and 'start the job on a node' in done.stderr


def listening(slurm):
    """Ports on which our launcher listens."""
    text = slurm.head.run(['ss', '-Hltnp'], user='root').stdout
    return [line.split()[3].rsplit(':', 1)[1] for line in text.splitlines() if '"reigen"' in line]


# ------------------------------------------------------------------------------ in the queue

def test_a_submitted_job_is_followed_asked_after_and_stopped(slurm):
    command = ['sh', '-c', 'echo rank $REIGEN_RANK; sleep 1; exit 5']
    done = run(slurm, '--submit', '--record', 'it', '--nodes', '2', '-np', '2', command=command)
    assert done.returncode == 0 and re.fullmatch(r'\d+\n', done.stdout), done.stdout + done.stderr
    number = done.stdout.strip()
    followed = slurm.head.run([PROGRAMS.reigen, 'logs', '-f', number], timeout=60)
    assert followed.returncode == 0
    assert 'rank 0' in followed.stdout and 'rank 1' in followed.stdout, followed.stdout
    status = slurm.head.run([PROGRAMS.reigen, 'status', number]).stdout
    assert f'job {number}: ended with exit code 5' in status
    assert ' ExitCode=5:0\n' in slurm.ask('scontrol', 'show', 'job', number)
    page = slurm.head.run([PROGRAMS.reigen, 'report', '-o', '-', number])
    assert page.returncode == 0 and 'rank 1' in page.stdout, page.stderr
    saving = ('trap "sleep 0.5; echo saved; exit 0" TERM; echo up; '
              'while :; do sleep 0.1; done')
    number = run(slurm, '--submit', '--nodes', '2', '-np', '2', '--record', '/tmp/its-own',
                 command=['sh', '-c', saving]).stdout.strip()
    wait_for(lambda: slurm.head.run([PROGRAMS.reigen, 'logs', number]).stdout.count('up') >= 2,
             'its ranks')
    assert 'RUNNING' in slurm.head.run([PROGRAMS.reigen, 'status', number]).stdout
    top = slurm.head.run([PROGRAMS.reigen, 'top', '--json', number], timeout=60)
    assert top.returncode == 0 and json.loads(top.stdout)['job'] == number, top.stderr
    # The folder is the first node's: a step of the job fetches it.
    page = slurm.head.run([PROGRAMS.reigen, 'report', number], timeout=60)
    assert page.stdout == f'{number}.record/report.html\n', page
    assert 'The job runs, and the record goes on' in slurm.head.run(
        ['cat', f'{number}.record/report.html']).stdout
    assert slurm.head.run([PROGRAMS.reigen, 'stop', number], timeout=60).returncode == 0
    slurm.wait_idle()
    assert 'ended with exit code 75' in slurm.head.run([PROGRAMS.reigen, 'status', number]).stdout
    log = slurm.head.run([PROGRAMS.reigen, 'logs', number]).stdout
    assert log.count('saved') >= 2, log
    unknown = slurm.head.run([PROGRAMS.reigen, 'logs', '1'])
    assert unknown.returncode == 2 and 'no such job' in unknown.stderr


# ------------------------------------------------------------------------------ pyxis

FAKE_SRUN = r'''#!/bin/sh
# As srun with the plug-in pyxis, which cannot be had here: puts down its options, and does without.
for word; do case $word in
--container-*) echo "$word" >>~/options; shift;;
*) shift; set -- "$@" "$word";;
esac; done
exec /usr/bin/srun "$@"
'''


def test_pyxis_makes_the_containers_where_it_is_asked_to(slurm):
    slurm.head.write('pyxis/srun', FAKE_SRUN, mode=0o755)
    options = slurm.head.path('options')
    done = run(slurm, '--container-runtime', 'pyxis', '--image', 'nvcr.io#some/image:1', '--mount',
               '/data', '--mount', '/a:/b:ro', '--container-option=--container-remap-root',
               inside=['-N2', '-n2'],
               env={'PATH': f'{slurm.head.home()}/pyxis:/usr/local/bin:/usr/bin:/bin'})
    try:
        assert [rest[0] for _, rest in sorted(lines(done).items())] == ['node1', 'node2']
        home = slurm.head.home()
        assert options.read_text().splitlines() == [
            '--container-image=nvcr.io#some/image:1',
            f'--container-mounts={home}:{home},/data:/data,/a:/b:ro',
            f'--container-workdir={home}', '--container-remap-root']
    finally:
        options.unlink(missing_ok=True)
        slurm.head.path('pyxis/srun').unlink(missing_ok=True)


def test_a_cluster_without_pyxis_is_told_so(slurm):
    done = run(slurm, '--container-runtime', 'pyxis', '--image', 'x', inside=['-N1', '-n1'])
    assert done.returncode == 69 and 'no pyxis' in done.stderr, done.stderr
    done = run(slurm, '--container-runtime', 'pyxis', '--image', 'x', '--on', 'ssh')
    assert done.returncode == 2 and '--on slurm' in done.stderr, done.stderr


@pytest.mark.timeout(400)
def test_the_command_line_of_all_platforms_asks_slurm_for_nodes(slurm):
    """As hosts/test_training.py and kubernetes/test_run.py have it."""
    everywhere.give(slurm.head)
    places = everywhere.run(slurm.head, 'slurm')
    assert len(set(places)) == 1, places  # one node has room for all; the login node has no dockerd
