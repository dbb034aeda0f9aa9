# SPDX-License-Identifier: Apache-2.0
"""The user's own mpirun on simulated hosts, its daemons started through reigen rsh: five real MPIs,
typed, put together by --engine, and in scripts; what can go wrong with them; and nothing left.

The hosts have what makes MPIs fail elsewhere: Docker's docker0 with the same address on each; node2
is known as w2, a name that only ssh's configuration knows; and node1 calls itself box7, a name that
nobody knows."""
import os
import re
import signal
import subprocess

import pytest
from bed import Cluster
from firewall import closed

import mpis
from built import PROGRAMS, ROOT
from wait import until

SOURCE = ROOT / 'tests/hosts/ranks/allreduce.c'
BUILT = ROOT / 'build/engines'
LIMIT = 60
# It hangs now and then, whoever starts its daemons: one more try (docs/mpi.md).
TRIES = {'openmpi5': 2}
DAEMON = {'openmpi4': 'orted', 'openmpi5': 'prted', 'mpich4': 'hydra_pmi_proxy',
          'mpich5': 'hydra_pmi_proxy', 'impi': 'hydra_pmi_proxy'}
ENGINE = {'openmpi4': 'openmpi', 'openmpi5': 'openmpi', 'mpich4': 'hydra', 'mpich5': 'hydra',
          'impi': 'hydra'}
HOSTS = ['-H', 'node1:2,w2:2']
# A rank's number, host, user, and what came by standard input, which is rank 0's.
PLACE = """if True:
    import os, sys
    rank = os.environ['OMPI_COMM_WORLD_RANK']
    words = [rank, os.uname().nodename, str(os.getuid())]
    print(*words, *([sys.stdin.readline().strip()] if rank == '0' else []), flush=True)
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope='module')
def three():
    with Cluster(3, docker0=True) as cluster:
        for number in (2, 3):
            with open(cluster[1].path('.ssh/config'), 'a', encoding='utf-8') as config:
                config.write(f'Host w{number}\n    HostName node{number}\n'
                             f'    HostKeyAlias node{number}\n')
        cluster[1].run(['hostname', 'box7'], user='root', check=True)
        yield cluster


@pytest.fixture
def node1(three):
    """Where the user sits; the test fails where it leaves a process on a node."""
    yield three[1]
    three.assert_clean()


def program(name):
    """allreduce.c for that MPI."""
    BUILT.mkdir(parents=True, exist_ok=True)
    target = BUILT / f'allreduce.{name}'
    if not target.exists() or target.stat().st_mtime < SOURCE.stat().st_mtime:
        new = BUILT / f'{target.name}.{os.getpid()}'
        subprocess.run([mpis.prefix(name) / 'bin/mpicc', '-o', new, SOURCE], check=True,
                       capture_output=True, timeout=120)
        os.replace(new, target)
    return target


def path_of(name):
    return f'{mpis.prefix(name)}/bin:/usr/local/bin:/usr/bin:/bin'


def command(name, *arguments):
    """`reigen run` with that MPI first in PATH, there and on all hosts."""
    found = ['-x', f'PATH={path_of(name)}'] if name else []
    if name == 'mpich4':
        found += ['-x', 'NO_FINALIZE=1']  # see ranks/allreduce.c
    return [PROGRAMS.reigen, 'run', *found, *arguments]


def reigen(node, name, *arguments, timeout=LIMIT, **options):
    return node.run(command(name, *arguments), timeout=timeout, **options)


def reigen_again(node, name, *arguments, **options):
    """The same, with another try for an MPI that is known to hang."""
    for left in reversed(range(TRIES.get(name, 1))):
        try:
            done = reigen(node, name, '--timeout', '40', '--grace', '1', *arguments, **options)
        except subprocess.TimeoutExpired:
            if not left:
                raise
            continue
        if done.returncode == 0 or not left:
            return done
    raise AssertionError('not reached')


def placed(text, sums):
    """{rank: host} from allreduce's lines, which must all show these sums."""
    lines = re.findall(r'rank (\d+) of (\d+) on (\S+): (\S+) (\S+)', text)
    assert lines, text
    for _, size, _, *got in lines:
        assert int(size) == len(lines) and got == [str(sums)] * 2, text
    return {int(rank): host for rank, _, host, *_ in lines}


def begin(node, name, *arguments):
    return node.popen(command(name, *arguments), stdin=subprocess.DEVNULL,
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(done, limit=LIMIT):
    return until(done, 'this state of the processes', limit)


def pids_of(node, word):
    """Processes of a node whose command line begins with a program of this name."""
    return [pid for pid, line in node.processes().items()
            if os.path.basename(line.split(' ')[0]) == word]


# ---------------------------------------------------------------------------- they run

@pytest.mark.parametrize('name', mpis.NAMES)
def test_an_unchanged_mpirun_runs_on_all_hosts(node1, name):
    # As inside an allocation of Slurm or PBS on other hosts, whose launchers are not there.
    allocation = {'SLURM_JOB_ID': '7', 'SLURM_JOBID': '7', 'SLURM_NNODES': '2',
                  'SLURM_JOB_NODELIST': 'x[1-2]', 'SLURM_NODELIST': 'x[1-2]',
                  'SLURM_TASKS_PER_NODE': '2(x2)', 'PBS_JOBID': '8', 'PBS_NODEFILE': '/nowhere',
                  'PBS_ENVIRONMENT': 'PBS_BATCH', 'LSB_JOBID': '9'}
    named = [word for k, v in allocation.items() for word in ('-x', f'{k}={v}')]
    done = reigen_again(node1, name, *HOSTS, *named, '--', 'mpirun', program(name))
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout, 10) == {0: 'box7', 1: 'box7', 2: 'node2', 3: 'node2'}
    assert '[0]' not in done.stdout  # the engine's output is not tagged unless that is asked for


@pytest.mark.parametrize('name', mpis.NAMES)
def test_engine_puts_the_command_together_and_keeps_secrets_out_of_it(three, node1, name):
    secret = f'canary-{name}'
    script = ('echo "$(hostname) $PLAIN $SECRET"; '
              'until [ -e /work-is-over ]; do sleep 0.1; done; '
              # Open MPI 5 may hang when all end at once.
              'sleep 0.$((${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} * 3))')
    script = script.replace('/work-is-over', '/tmp/over')
    child = node1.popen(command(name, '--engine', ENGINE[name], '-np', '3', *HOSTS, '-x',
                                'PLAIN=plain', '--share-env', 'SECRET', '--', 'sh', '-c', script),
                        env={'SECRET': secret}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, text=True)
    try:
        lines = sorted(child.stdout.readline().split() for _ in range(3))
        assert lines == [['box7', 'plain', secret]] * 2 + [['node2', 'plain', secret]]
        for node in (three[1], three[2]):
            shown = '\n'.join(node.processes().values())
            assert DAEMON[name] in shown or node is three[1]
            assert secret not in shown
            found = node.run(['grep', '-rl', secret, '/tmp', '/run', '/var/tmp', '/home/alice'])
            assert found.stdout == '', found.stdout
    finally:
        for node in (three[1], three[2]):
            node.write('/tmp/over', '')
        try:
            out, err = child.communicate(timeout=LIMIT)
        finally:
            if child.poll() is None:
                child.kill_all()
            for node in (three[1], three[2]):
                node.path('/tmp/over').unlink()
    assert child.returncode == 0, out + err
    assert secret not in err


@pytest.mark.parametrize('name', mpis.NAMES)
def test_ranks_with_our_runtime_meet_under_an_engine(node1, name):
    done = reigen_again(node1, name, *HOSTS, '-x', f'REIGEN_LIBRARY={PROGRAMS.library}', '--',
                        'mpirun', ROOT / 'build/tests/programs/again', '1', '60000', '1')
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == [f'rank {r} of 4' for r in range(4)]


def test_torch_distributed_meets_over_two_hosts(node1):
    # PyTorch takes its time to be loaded.
    done = reigen(node1, None, '-H', 'node1:1,w2:1', '--no-tag-output', '--', PROGRAMS.python,
                  ROOT / 'tests/hosts/ranks/gloo.py', timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ['torch 0 of 2 on box7: 3',
                                                'torch 1 of 2 on node2: 3']


@pytest.mark.parametrize('name', ['openmpi4', 'openmpi5', 'mpich4'])
def test_its_ports_lie_in_the_range_that_a_firewall_lets_through(three, node1, name):
    with closed(three[1], but='20000:20063'), closed(three[2], but='20000:20063'):
        done = reigen_again(node1, name, *HOSTS, '--port-range', '20000-20063', '--', 'mpirun',
                            program(name))
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(placed(done.stdout, 10)) == 4


@pytest.mark.parametrize('name', ['openmpi4', 'openmpi5', 'mpich5', 'impi'])
def test_ranks_are_dealt_round_as_asked(node1, name):
    done = reigen_again(node1, name, '--engine', ENGINE[name], *HOSTS, '--map-by', 'node', '--',
                        program(name))
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout, 10) == {0: 'box7', 1: 'node2', 2: 'box7', 3: 'node2'}


def test_the_originals_commands_work_in_a_script(node1):
    node1.write('job.sh', f'''
        set -e
        mpirun -H $hostlist -np $np {program('openmpi4')}
        mpirun -np 2 -H node1:1,w2:1 -bind-to none -map-by slot -x NCCL_DEBUG=INFO {
            program('openmpi4')}
        export PATH={mpis.prefix('mpich5')}/bin:$PATH
        mpiexec -n $np -hosts $hostlist {program('mpich5')}
        pdsh -w node1,w2 -N 'echo pdsh $(hostname)'
        ssh -o StrictHostKeyChecking=no -p 12345 w2 'echo ssh $(hostname)'
        echo $hostlist $np
        exit 5
        ''')
    done = reigen(node1, 'openmpi4', *HOSTS, '--engine', 'script', '--', 'sh', 'job.sh')
    assert done.returncode == 5, done.stdout + done.stderr
    assert len(re.findall(r'rank \d of 4 on \S+: 10 10', done.stdout)) == 8
    assert len(re.findall(r'rank \d of 2 on \S+: 3 3', done.stdout)) == 2
    assert {'pdsh box7', 'pdsh node2', 'ssh node2', 'node1:2,w2:2 4'} <= set(
        done.stdout.splitlines())
    assert 'sh on node1 failed: exit code 5' in done.stderr


@pytest.mark.parametrize('name', ['openmpi4', 'openmpi5'])
def test_root_may_run_it_and_daemons_may_start_daemons(three, name):
    # A radix of 1 makes every daemon start the next, as they do above 64 hosts.
    radix = 'routed_radix' if name == 'openmpi4' else 'prte_routed_radix'
    node = three[1]
    hosts = ['-H', 'node1:1,node2:1,node3:1']
    done = reigen_again(node, name, *hosts, '--', 'mpirun',
                        '--mca' if name == 'openmpi4' else '--prtemca', radix, '1', program(name),
                        user='root')
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(placed(done.stdout, 6).values()) == ['box7', 'node2', 'node3']
    three.assert_clean()


def test_an_unchanged_mpirun_runs_in_containers(clean2):
    # The image base has Open MPI and python, and nobody has prepared anything else.
    done = clean2[1].run([PROGRAMS.reigen, 'run', '-H', 'node1:2,node2:2', '--image', 'base', '--',
                          'mpirun', 'python3', '-c', PLACE], input='word\n', timeout=150)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ['0 node1 2001 word', '1 node1 2001',
                                                '2 node2 2001', '3 node2 2001']
    greedy = 'import os; os.environ["OMPI_COMM_WORLD_RANK"] == "1" and bytearray(300 << 20)'
    full = clean2[1].run([PROGRAMS.reigen, 'run', '-H', 'node1:1,node2:1', '--image', 'base',
                          *[f'--container-option=--memory{x}=150m' for x in ('', '-swap')], '--',
                          'mpirun', 'python3', '-c', greedy], timeout=150)
    assert full.returncode == 137, full.stdout + full.stderr
    assert 'host node2: a process was killed because memory ran out (limit 150 MiB' in full.stderr
    gone = clean2[1].run([PROGRAMS.reigen, 'run', '-H', 'node1:1', '--image', 'debian', '--',
                          'mpirun', 'hostname'], timeout=150)
    assert gone.returncode == 127, gone.stdout + gone.stderr
    assert 'mpirun is not installed on host node1' in gone.stderr


def test_the_mpirun_beside_intels_own_hydra_is_used(node1):
    # Debian's mpiexec.hydra comes first in PATH; Intel's mpirun would run that.
    done = reigen(node1, None, '-x', f'PATH={path_of("mpich4")}', *HOSTS, '--',
                  mpis.prefix('impi') / 'bin/mpirun', program('impi'))
    assert done.returncode == 0, done.stdout + done.stderr
    assert placed(done.stdout, 10)[3] == 'node2'


def test_names_that_only_look_local_lead_to_their_host(tmp_path):
    # Two agents on this computer: Open MPI and Hydra would take both names for their own host.
    env = {**mpis.ordinary_environment(), 'PATH': path_of('openmpi4')}
    done = subprocess.run(
        [PROGRAMS.reigen, 'run', '-H', 'localhost:1,127.0.0.2:1', '--', 'mpirun', 'sh', '-c',
         'echo $OMPI_COMM_WORLD_RANK $REIGEN_AGENT_SOCKET $hostlist'],
        env=env, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = sorted(line.split() for line in done.stdout.splitlines())
    assert (first[0], second[0]) == ('0', '1')
    assert first[1] != second[1], 'both ranks came from one agent'
    assert first[2] == 'localhost:1,reigen-host-1:1'


# ---------------------------------------------------------------------------- they end

@pytest.mark.parametrize('name, wanted', [('openmpi4', 3), ('openmpi5', 3), ('mpich4', 3),
                                          ('mpich5', 3)])
def test_the_engines_exit_code_is_the_jobs(node1, name, wanted):
    done = reigen(node1, name, '-H', 'node1:1,w2:1', '--', 'mpirun', 'sh', '-c',
                  'test $(hostname) = box7 || exit 3; sleep 0.5')
    assert done.returncode == wanted, done.stdout + done.stderr
    assert 'mpirun on node1 failed: exit code 3' in done.stderr


@pytest.mark.parametrize('name', mpis.NAMES)
def test_a_daemon_that_dies_is_named_whatever_its_engine_does(three, node1, name):
    # Open MPI 5 ends with 0 then; MPICH and Intel MPI wait for ever.
    job = begin(node1, name, '--grace', '1', '-H', 'node1:1,w2:1', '--', 'mpirun', 'sleep', '1000')
    try:
        wait_until(lambda: pids_of(three[2], 'sleep'))
        for pid in pids_of(three[2], DAEMON[name]):
            three[2].run(['kill', '-9', str(pid)])
        out, err = job.communicate(timeout=LIMIT)
    finally:
        if job.poll() is None:
            job.kill_all()
    assert job.returncode == 76, out + err
    assert f'host w2: {DAEMON[name]}, which mpirun had started there, ended' in err or (
        'host w2: hydra_bstrap_proxy' in err), err


@pytest.mark.parametrize('name', ['openmpi5', 'mpich5'])
def test_a_host_whose_agent_dies_is_named(three, node1, name):
    job = begin(node1, name, '--grace', '1', '-H', 'node1:1,w2:1', '--', 'mpirun', 'sleep', '1000')
    try:
        wait_until(lambda: pids_of(three[2], 'sleep'))
        agent = max(pids_of(three[2], 'reigen-agent'))  # the other one is its guard
        three[2].run(['kill', '-9', str(agent)])
        out, err = job.communicate(timeout=LIMIT)
    finally:
        if job.poll() is None:
            job.kill_all()
    assert job.returncode == 76, out + err
    assert 'host w2' in err
    wait_until(lambda: not pids_of(three[2], 'sleep'))


@pytest.mark.parametrize('name', ['openmpi4', 'mpich4', 'impi'])
def test_a_signal_to_reigen_ends_the_engine_and_is_the_exit_code(three, node1, name):
    # MPICH 4 says 0 after SIGTERM, whatever became of its ranks.
    job = begin(node1, name, '--grace', '3', '-H', 'node1:1,w2:1', '--', 'mpirun', 'sleep', '1000')
    try:
        wait_until(lambda: pids_of(three[2], 'sleep'))
        job.send_signal(signal.SIGTERM)
        out, err = job.communicate(timeout=LIMIT)
    finally:
        if job.poll() is None:
            job.kill_all()
    assert job.returncode == 143, out + err
    assert 'told to stop by signal 15' in err


# ---------------------------------------------------------------------------- they are not there

def test_a_missing_mpi_is_127_with_the_remedy(node1):
    typed = reigen(node1, None, '-H', 'node1:1', '-x', 'PATH=/nowhere', '--', 'mpirun', 'hostname')
    assert typed.returncode == 127
    assert 'mpirun is not installed on host node1 (not found in PATH)' in typed.stderr
    assert 'reigen run -np 1 -- PROGRAM' in typed.stderr
    other = reigen(node1, None, '-H', 'node1:1', '--engine', 'hydra', '-x',
                   f'PATH={mpis.prefix("openmpi5")}/bin', '--', 'hostname')
    assert other.returncode == 127
    assert 'no mpirun of MPICH or Intel MPI in PATH on host node1, only' in other.stderr
    assert '(Open MPI) 5' in other.stderr


@pytest.mark.parametrize('name', ['openmpi4', 'mpich5'])
def test_another_mpi_on_the_second_host_is_named(three, node1, name):
    folder = '/usr/bin' if name == 'openmpi4' else f'{mpis.prefix(name)}/bin'
    hidden = f'{folder}/{DAEMON[name]}'
    three[2].run(['mount', '--bind', '/dev/null', hidden], user='root', check=True)
    try:
        done = reigen(node1, name, '--grace', '1', *HOSTS, '--', 'mpirun', program(name))
    finally:
        three[2].run(['umount', hidden], user='root', check=True)
    assert done.returncode in (126, 127), done.stdout + done.stderr
    assert (f'host w2: {DAEMON[name]}, which mpirun on host node1 wanted to start there, is not '
            'installed: the same MPI must be on all hosts' in done.stderr), done.stderr


def test_another_version_on_the_second_host_is_named(three, node1):
    newer = mpis.prefix('mpich5') / 'bin'
    hidden = ['hydra_pmi_proxy', 'mpiexec.hydra']
    for name in hidden:
        three[2].run(['mount', '--bind', newer / name, f'/usr/bin/{name}'], user='root', check=True)
    try:
        done = reigen(node1, 'mpich4', '--grace', '1', *HOSTS, '--', 'mpirun', program('mpich4'))
    finally:
        for name in hidden:
            three[2].run(['umount', f'/usr/bin/{name}'], user='root', check=True)
    assert done.returncode not in (0, 124), done.stdout + done.stderr
    # An mpiexec that hangs after its daemon's protest is ended for that.
    assert re.search(r'host node1 has "[^"]*4\.\d[^"]*", host w2 has "[^"]*5\.\d[^"]*": the same '
                     'MPI must be on all hosts|host w2: hydra_pmi_proxy, which mpirun had started '
                     'there, ended: exit code [0-9]+, and mpirun has not ended',
                     done.stderr), done.stderr


def test_a_host_that_the_job_does_not_have_ends_even_mpich4(node1):
    # MPICH 4 would wait for the daemon for ever.
    done = reigen(node1, 'mpich4', '--grace', '1', *HOSTS, '--', 'mpirun', '-n', '2', '-hosts',
                  'node1,node9', 'hostname')
    assert done.returncode == 76, done.stdout + done.stderr
    assert 'hydra_pmi_proxy on node9, which is no host of this job' in done.stderr
