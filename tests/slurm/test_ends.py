# SPDX-License-Identifier: Apache-2.0
"""However a job ends, nothing of it stays: no process and no container on any node that is up."""
import random
import re
import shlex
import sys
import time

import pytest
from bed import SlurmCluster

from built import PROGRAMS, ROOT
from jobs import (KILL_WAIT, clean_up, end, seconds_until_gone, srun_docker, start, wait_for,
                  write_script)
from variants import rest

# A rank with a child that has left its process group and session, and no thought of ending.
RANK = ['sh', '-c', 'echo here; setsid sleep 1000 & sleep 1000']
# Says that it is told to end, and takes its time for it.
SAVING = ['sh', '-c', 'trap "echo saving; sleep 0.5; echo saved; exit 0" TERM USR1; echo here; '
          'while :; do sleep 0.1; done']
# Takes no notice of what it is told.
DEAF = ['sh', '-c', 'trap "" TERM; echo here; while :; do sleep 0.1; done']
STEPS = ROOT / 'tests/programs/elastic_steps.py'
NRANKS = 4

pytestmark = pytest.mark.timeout(300)


def pytest_generate_tests(metafunc):
    if 'tracked' in metafunc.fixturenames:
        # pytest compares by identity: of equal words that differ each would get its own cluster.
        words = [sys.intern(w) for w in metafunc.config.getoption('--proctracks').split(',')]
        # Those that know least and most of a job; other files' clusters have linuxproc.
        words = [rest(w) if w == 'linuxproc' else w for w in words]
        metafunc.parametrize('tracked', words, indirect=True, scope='module')


@pytest.fixture(scope='module')
def tracked(request):
    """Two nodes with dockerd, once with each way in which Slurm knows a job's processes."""
    with SlurmCluster(2, dockerd=True, images=['base'], proctrack=request.param,
                      kill_wait=KILL_WAIT) as cluster:
        yield cluster


@pytest.fixture(scope='module')
def plain():
    """Two nodes without Docker, where jobs of the partition `first` requeue others."""
    # Credentials live two minutes as a rule, and a requeued job waits until its old ones are dead.
    settings = {'PreemptType': 'preempt/partition_prio', 'PreemptMode': 'REQUEUE',
                'AuthInfo': 'cred_expire=10'}
    with SlurmCluster(2, kill_wait=KILL_WAIT, settings=settings) as cluster:
        cluster.ask('scontrol', 'create', 'PartitionName=first', 'Nodes=ALL', 'PriorityTier=10',
                    'State=UP', 'MaxTime=INFINITE')
        yield cluster


@pytest.fixture(scope='module', params=['pgid', 'cgroup'])
def tasked(request):
    """Two nodes without Docker, where Slurm signals none but the processes that it has started."""
    with SlurmCluster(2, proctrack=request.param, kill_wait=KILL_WAIT) as cluster:
        yield cluster


def on_slurm(*words, command=(), allocation=('-N2', f'-n{NRANKS}')):
    return ['salloc', *allocation, PROGRAMS.reigen, 'run', '--on', 'slurm', *words, '--',
            *(command or RANK)]


def ways(cluster, rank=None):
    """Command lines of the same job, as users start it; with another rank than RANK, signals for
    srun-docker's script are mpirun's, which makes its exit code of them."""
    mpirun = 'exec mpirun' if rank else 'mpirun'
    rank = rank or RANK
    script = write_script(cluster, f'{mpirun} -H $hostlist -np $np ' +
                          ' '.join(f"'{word}'" for word in rank), 'ranks.sh')
    return {'bare': on_slurm(command=rank), 'contained': on_slurm('--image', 'base', command=rank),
            'srun-docker': srun_docker(script, '--slots_per_node=2')}


def wait_up(job, nranks=NRANKS):
    """Read until every rank has spoken."""
    for _ in range(nranks):
        line = job.stdout.readline()
        assert 'here' in line, f'{line}{end(job).stderr}'


def end_all(cluster, job):
    """After the test: what it has not ended."""
    if job.poll() is None:
        job.kill_all()
    clean_up(cluster)


# ---------------------------------------------------------------------------- scancel

def measure_starts(cluster):
    """Seconds from each way's command line to its ranks' first words."""
    took = {}
    for name, argv in ways(cluster).items():
        since = time.monotonic()
        job = start(cluster.head, argv)
        try:
            wait_up(job)
        except AssertionError as error:
            raise AssertionError(f'{name}: {error}\n{cluster.state()}') from error
        took[name] = time.monotonic() - since
        cancel(cluster, job)
        seconds_until_gone(cluster.nodes)
        assert end(job).returncode != 0
        cluster.wait_idle()
    return took


def cancel(cluster, job):
    """scancel as soon as there is something to cancel."""
    jobs = wait_for(lambda: list(cluster.squeue()) or job.poll() is not None, 'a job')
    if jobs is not True:
        cluster.head.run(['scancel', *map(str, jobs)])


#: What mpirun says that has got scancel's SIGCONT before its daemons were there. It ends by itself
#: with 0 then, and so does the script.
NO_DAEMON_YET = 'ORTE does not know how to route'


#: An srun that Slurm lets wait for its step asks again after SlurmctldTimeout, 60 to 310 s, and so
#: may hear late that its job has ended.
ASKS_AGAIN = 310


def test_scancel_at_any_moment(tracked, request):
    times, seed = request.config.getoption('--times'), request.config.getoption('--seed')
    draw = random.Random(seed)
    whole, worst = measure_starts(tracked), 0.0
    names = list(whole)
    for i in range(times):
        name = names[i % len(names)]
        after = draw.uniform(0, 1.3 * whole[name])
        job = start(tracked.head, ways(tracked)[name])
        time.sleep(after)  # patient: any moment
        try:
            cancel(tracked, job)
            took = seconds_until_gone(tracked.nodes)
            done = end(job, ASKS_AGAIN)
            assert done.returncode != 0 or NO_DAEMON_YET in done.stderr, \
                f'{name} after {after:.2f} s: {[done.stdout, done.stderr]}'
            tracked.wait_idle()
            tracked.assert_clean()
        except BaseException:
            print(f'seed {seed}, number {i}: {name}, scancel after {after:.3f} s')
            end_all(tracked, job)
            raise
        worst = max(worst, took)
    print(f'{times} times: gone after {worst:.2f} s at most')


# ---------------------------------------------------------------------------- sudden deaths

def send(nodes, words, signal='KILL', every=False):
    """A signal for the first process on these nodes whose command line begins so, or for every
    one of that node; the youngest is the first to get it."""
    for node in nodes:
        found = [str(pid) for pid, line in sorted(node.processes().items())
                 if re.match(words, line)]
        if found:
            found = found[::-1] if every else found[:1]
            node.run(['kill', f'-{signal}', *found], user='root', check=True)
            return
    raise AssertionError(f'{words}: {[node.processes() for node in nodes]}')


# What dies, and where it is looked for: on the login node, on all, or on the second one. srun has
# a child that cancels the step for it should it die alone.
DEATHS = {'srun': (r'srun ', 'head'), 'launcher': (r'\S*reigen (run|srun-docker) ', 'all'),
          'agent': (r'\S*reigen-agent (agent|contain)', 'node2'),
          'agent-in-container': (r'\S*reigen-agent inside', 'node2')}


@pytest.mark.parametrize('way,which', [
    (way, which) for way in ('bare', 'contained', 'srun-docker') for which in DEATHS
    if (way, which) != ('bare', 'agent-in-container')])
def test_a_sudden_death_ends_all_of_the_job(tracked, way, which):
    job = start(tracked.head, ways(tracked)[way])
    words, where = DEATHS[which]
    try:
        wait_up(job)
        send([tracked.head, *tracked.nodes] if where == 'all' else [tracked[where]], words,
             every=which == 'srun')
        seconds_until_gone(tracked.nodes)
        # A launcher that died so gives the allocation back to salloc, which has no code to tell.
        code = end(job).returncode
        assert code == 76 if which.startswith('agent') else code != 0 or which == 'launcher', code
        # Slurm itself lets a job go on whose srun died.
        tracked.wait_idle()
        tracked.assert_clean()
    except BaseException:
        end_all(tracked, job)
        raise


@pytest.mark.parametrize('way,what', [('bare', 'step'), ('contained', 'step'), ('bare', 'job')])
def test_what_is_cancelled_ends_with_its_containers_and_is_told_as_that(tracked, way, what):
    """scancel of a step is SIGKILL for all that Slurm knows of it: containers are not among it; of
    bare ranks an agent may tell before it is killed, too."""
    job = start(tracked.head, ways(tracked)[way])
    try:
        wait_up(job)
        tracked.head.run(['scancel', *([s for s in tracked.steps() if s.endswith('.0')]
                                       if what == 'step' else map(str, tracked.squeue()))])
        seconds_until_gone(tracked.nodes)
        done = end(job)
        assert done.returncode == 75, (done.returncode, done.stderr)
        assert 'Slurm ends it: the job or its step was cancelled (scancel)' in done.stderr, done
        assert '(ended-outside)' in done.stderr and 'time limit' not in done.stderr, done.stderr
    except BaseException:
        end_all(tracked, job)
        raise


def test_the_death_of_a_node_ends_the_job_on_the_others():
    with SlurmCluster(3) as cluster:
        job = start(cluster.head, on_slurm(allocation=('-N3', '-n3')))
        wait_up(job, 3)
        cluster[3].kill()
        done = end(job)
        assert done.returncode != 0 and 'node3' in done.stderr, done.stderr
        seconds_until_gone(cluster.nodes[:2])


# ---------------------------------------------------------------------------- time to save

@pytest.mark.parametrize('way', ['bare', 'contained'])
def test_ranks_may_save_when_the_job_is_cancelled(tracked, way):
    """Not those of mpirun, which leaves its ranks a second, or none: see the next test."""
    job = start(tracked.head, ways(tracked, SAVING)[way])
    try:
        wait_up(job)
        tracked.head.run(['scancel', *map(str, tracked.squeue())])
        done = end(job)
        assert done.stdout.count('saved') == NRANKS, done.stdout + done.stderr
        assert done.stdout.count('saving') == NRANKS, done.stdout
        assert done.returncode == 75 and 'cancelled (scancel)' in done.stderr, done
        assert 'time limit' not in done.stderr and 'preempt' not in done.stderr, done.stderr
        seconds_until_gone(tracked.nodes)
        tracked.wait_idle()
    except BaseException:
        end_all(tracked, job)
        raise


# Both ranks are in this line from before they are heard.
RESTING = ('import time, reigen\n'
           'reigen.init()\n'
           'def rest():\n'
           '    print("here", flush=True); time.sleep(1000)\n'
           'rest()\n')


def test_a_cancelled_job_says_where_its_ranks_were(tasked):
    job = start(tasked.head, on_slurm(command=['python3', '-c', RESTING]))
    try:
        wait_up(job)
        tasked.head.run(['scancel', *map(str, tasked.squeue())])
        done = end(job)
        assert done.returncode == 75 and 'cancelled (scancel)' in done.stderr, done
        assert f'\n  ranks 0-{NRANKS - 1} were at <string>:4 in rest\n' in done.stderr, done.stderr
        seconds_until_gone(tasked.nodes)
        tasked.wait_idle()
    except BaseException:
        end_all(tasked, job)
        raise


@pytest.mark.parametrize('way', ['bare', 'contained', 'srun-docker'])
def test_a_signal_for_the_job_reaches_its_ranks_and_nothing_else(tracked, way):
    """As of `sbatch --signal=USR1@60`, by which jobs save before their time is over."""
    job = start(tracked.head, ways(tracked, SAVING)[way])
    try:
        wait_up(job)
        tracked.ask('scancel', '--signal=USR1', *map(str, tracked.squeue()))
        done = end(job)
        assert done.returncode == 0 and done.stdout.count('saved') == NRANKS, (
            done.returncode, done.stdout, done.stderr)
        tracked.wait_idle()
    except BaseException:
        end_all(tracked, job)
        raise


# Says which signals it gets, and ends a while after the first. It writes more than a pipe holds.
LISTENING = ('import os, signal as s, sys\n'
             'known = {s.SIGTERM, s.SIGUSR1}\n'
             's.pthread_sigmask(s.SIG_BLOCK, known)\n'
             'print("here", flush=True)\n'
             'heard = open(sys.argv[1] + os.environ["RANK"], "w", buffering=1)\n'
             'got = s.sigwaitinfo(known)\n'
             'while got:\n'
             '    print("got", got.si_signo, file=heard)\n'
             '    print("x" * 100000, flush=True)\n'
             '    got = s.sigtimedwait(known, 1.5)\n'
             'print("end", file=heard)\n')


@pytest.mark.parametrize('signal, number, how', [
    ('USR1', 10, 'exec'), (None, 15, 'exec'), (None, 15, '')])
def test_each_rank_gets_each_signal_once(tracked, signal, number, how):
    """Slurm tells the batch script, the step's first processes or all of them, by its way to know
    processes; the launcher hands on what it gets. A script without exec ends by its signal, and
    Slurm then kills the launcher, whose ranks have their time all the same."""
    name = f'heard-{number}-{how}-'
    out, files = tracked.head.path(name), [tracked.head.path(f'{name}{rank}') for rank in (0, 1)]
    for file in (out, *files):
        file.unlink(missing_ok=True)
    tracked.head.write('listen.py', LISTENING)
    home = tracked.head.home()
    job = on_slurm(command=['python3', f'{home}/listen.py', f'{home}/{name}'])[3:]
    tracked.head.write('listen.sh', f'#!/bin/sh\n{how} {shlex.join(map(str, job))}\necho over\n',
                       mode=0o755)
    told = tracked.head.run(['sbatch', '--parsable', '-N2', '-n2', '-o', out.name, 'listen.sh'],
                            check=True).stdout.strip()
    try:
        wait_for(lambda: all(file.exists() for file in files), 'ranks')
        tracked.ask('scancel', *(['--full', f'--signal={signal}'] if signal else []), told)
        wait_for(lambda: not tracked.squeue(), 'the end')
        heard = [file.read_text() for file in files]
        assert heard == [f'got {number}\nend\n'] * 2, (heard, out.read_text())
        tracked.wait_idle()
    except BaseException:
        clean_up(tracked)
        raise


def test_ranks_that_do_not_heed_the_end_have_their_grace_and_no_more(plain):
    job = start(plain.head, on_slurm('--grace', '1', allocation=('-N2', '-n2'), command=DEAF))
    try:
        wait_up(job, 2)
        plain.head.run(['scancel', *map(str, plain.squeue())])
        seconds_until_gone(plain.nodes)
        assert end(job).returncode == 75
    except BaseException:
        end_all(plain, job)
        raise


def test_a_batch_job_that_is_cancelled_ends_with_the_code_for_that(plain):
    """There the launcher itself gets Slurm's signal, here it alone; its ranks save, and end with
    0."""
    plain.head.write('batch.sh', '#!/bin/sh\nexec ' +
                     shlex.join(map(str, on_slurm(command=SAVING)[3:])) + '\n', mode=0o755)
    told = plain.head.run(['sbatch', '--parsable', '-N2', '-n2', '-o', 'cancelled', 'batch.sh'],
                          check=True).stdout
    out = plain.head.path('cancelled')

    def says(text):
        return out.exists() and out.read_text().count(text) >= 2
    try:
        wait_for(lambda: says('here'), 'ranks')
        plain.ask('scancel', '--batch', '--signal=TERM', told.strip())
        wait_for(lambda: not plain.squeue(), 'the end')
        assert says('saved') and 'Slurm ends it' in out.read_text(), out.read_text()
        shown = plain.ask('scontrol', 'show', 'job', '--oneliner', told.strip())
        assert ' ExitCode=75:0 ' in shown, shown + out.read_text()
        seconds_until_gone(plain.nodes)
    except BaseException:
        plain.cancel_all()
        raise


def test_ranks_that_ask_for_notice_have_slurms_time_for_it(plain):
    """Their steps take longer than the grace time."""
    program = plain.head.write('steps.py', STEPS.read_text())
    job = start(plain.head, on_slurm(
        '--grace', '400ms', '--chaos', 'slow:rank=0@step=3 by 3s', allocation=('-N2', '-n2'),
        command=['env', 'SAVES=1', 'python3', program, 'never']))
    try:
        while 'step 4 size 2' not in (line := job.stdout.readline()):
            assert line, end(job)
        plain.head.run(['scancel', *map(str, plain.squeue())])
        done = end(job)
        assert done.returncode == 75, done
        assert len(re.findall(r'saved . at \d+', done.stdout)) == 2, done
        seconds_until_gone(plain.nodes)
    except BaseException:
        end_all(plain, job)
        raise


@pytest.mark.slow
def test_ranks_may_save_when_the_time_is_over(plain):
    job = start(plain.head, on_slurm(allocation=('-N2', '-n2', '--time=1'), command=SAVING))
    try:
        wait_up(job, 2)
        number = next(iter(plain.squeue()))
        plain.ask('scontrol', 'update', f'JobId={number}', 'EndTime=now+1')
        done = end(job, timeout=120)
        assert {'[0] saved', '[1] saved'} <= set(done.stdout.splitlines()), done.stderr
        assert done.returncode == 75 and 'time limit' in done.stderr, done.stderr
        seconds_until_gone(plain.nodes)
    except BaseException:
        end_all(plain, job)
        raise


@pytest.mark.parametrize('why', ['requeue', 'preemption'])
def test_a_requeued_job_lets_its_ranks_save_and_starts_clean(plain, why):
    home = plain.head.path(plain.head.home())
    plain.head.write('batch.sh', '\n'.join([
        '#!/bin/sh', f'#SBATCH -N2 -n2 --requeue -o out-%j-{why} --open-mode=append',
        'echo "start ${SLURM_RESTART_COUNT:-0}"',
        f'test -n "$SLURM_RESTART_COUNT" && exec {PROGRAMS.reigen} run --on slurm -- echo clean',
        f'exec {PROGRAMS.reigen} run --on slurm -- sh -c "{SAVING[2]}"'.replace(
            'trap "', "trap '").replace('exit 0" TERM', "exit 0' TERM")]), mode=0o755)
    told = plain.head.run(['sbatch', '--parsable', 'batch.sh'], check=True).stdout
    out = home / f'out-{told.strip()}-{why}'

    def says(text, count):
        return out.exists() and out.read_text().count(text) >= count
    try:
        wait_for(lambda: says('here', 2), 'first run')
        if why == 'requeue':
            plain.head.run(['scontrol', 'requeue', told.strip()], check=True)
        else:
            done = plain.head.run(['srun', '-p', 'first', '-N2', '--exclusive', 'true'],
                                  timeout=90)
            assert done.returncode == 0, done.stderr
        wait_for(lambda: says('saved', 2), 'saving')
        seconds_until_gone(plain.nodes)
        wait_for(lambda: says('clean', 2), 'second run', 120)
        assert 'start 1' in out.read_text()
        plain.wait_idle(plain.nodes)
        plain.assert_clean()
    except BaseException:
        plain.cancel_all()
        raise
