# SPDX-License-Identifier: Apache-2.0
"""enroot as the runtime of containers in Slurm, by a program in its place that takes enroot's
options and runs the command: tests/bed/enroot.sh says what it does."""
import shlex
from pathlib import Path

import pytest
from built import PROGRAMS

from jobs import READY, end, seconds_until_gone, srun_docker, start, wait_for, write_script

FAKE = Path(__file__).resolve().parents[1] / 'bed' / 'enroot.sh'
IMAGE = 'nvcr.io/some/image:1'
ADDRESS = 'docker://nvcr.io#some/image:1'
FILE = '/var/tmp/reigen-2001/images/nvcr.io+some+image++1.sqsh'


class Enroot:
    """The cluster's nodes with the program in enroot's place, no image fetched yet."""

    def __init__(self, cluster):
        self.cluster, self.head = cluster, cluster.head
        self.head.write('enroot/enroot', FAKE.read_text(), mode=0o755)
        self.env = {'PATH': f'{self.head.home()}/enroot:/usr/local/bin:/usr/bin:/bin'}

    def on_slurm(self, *options, command, inside=('-n2', '-w', 'node1,node2')):
        return ['salloc', '--quiet', *inside, PROGRAMS.reigen, 'run', '--on', 'slurm',
                '--container-runtime', 'enroot', '--image', IMAGE, *options, '--', *command]

    def run(self, argv):
        return self.head.run(argv, env=self.env, timeout=READY)

    def calls(self, verb):
        """By node: the words of each call."""
        log = self.head.path('enroot.log')
        lines = [shlex.split(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [(words[0], words[2:]) for words in lines if words[1] == verb]

    def close(self):
        self.head.run(['rm', '-rf', 'enroot', 'enroot.log'])
        for node in self.cluster.nodes:
            node.run(['rm', '-rf', '/var/tmp/reigen-2001/images'])


@pytest.fixture
def enroot(slurm):
    made = Enroot(slurm)
    yield made
    made.close()


def test_ranks_run_in_containers_of_an_image_that_each_node_fetches_once(enroot):
    show = 'echo $REIGEN_RANK $(cat /image) $IMAGES_OWN $(id -un) $PWD $HOME'
    home = enroot.head.home()
    for _ in range(2):
        done = enroot.run(enroot.on_slurm(command=['sh', '-c', show]))
        assert done.returncode == 0, done.stderr
        assert sorted(done.stdout.splitlines()) == [
            f'[{r}] {r} {ADDRESS} yes alice {home} {home}' for r in range(2)]
    fetched = enroot.calls('import')
    assert sorted(node for node, _ in fetched) == ['node1', 'node2'], fetched
    assert all('--' in words and ADDRESS in words for _, words in fetched)
    node, words = enroot.calls('start')[-1]
    assert words[:2] == ['--rw', '--rc'] and FILE in words and words[-2] == 'RESTRICT_DEV=', words
    folder = enroot.cluster[node].path(FILE).parent
    assert [p.name for p in folder.glob('*.sqsh')] == [Path(FILE).name]


def test_jobs_at_once_fetch_an_image_once_and_a_broken_file_is_fetched_again(enroot):
    node = enroot.cluster[1]
    node.run(['mkdir', '-p', '-m', '700', '/var/tmp/reigen-2001/images'], check=True)
    node.run(['sh', '-c', f'echo half >{FILE}.part.sqsh'], check=True)
    one = shlex.join(map(str, enroot.on_slurm(command=['cat', '/image'], inside=())[2:]))
    done = enroot.run(['salloc', '--quiet', '-N1', '-n1', '-w', 'node1', 'sh', '-c',
                       f'{one} & {one} & wait'])
    assert done.stdout.count(ADDRESS) == 2, done.stdout + done.stderr
    assert len(enroot.calls('import')) == 1
    assert not Path(node.path(f'{FILE}.part.sqsh')).exists()
    again = enroot.on_slurm('--pull', 'always', command=['true'], inside=('-n1', '-w', 'node1'))
    assert enroot.run(again).returncode == 0 and len(enroot.calls('import')) == 2


def test_srun_dockers_script_runs_with_its_gpus_mounts_and_options(enroot):
    script = write_script(enroot.cluster, 'echo "$NVIDIA_VISIBLE_DEVICES $OWN $np"; ls -d /opt; '
                                          'for h in $(echo $hostlist | tr , " "); do '
                                          'ssh ${h%:*} cat /image; done; exit 7')
    done = enroot.run(srun_docker(script, '--container-runtime=enroot', '--dockopts=-e OWN=mine',
                                  '--datamnts=/opt', '--dockname=mine', image=IMAGE,
                                  srun=('-w', 'node1,node2', '--gres=gpu:1')))
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == ['0 mine 2', '/opt', ADDRESS, ADDRESS], done.stderr
    assert done.stderr.count('--dockname=mine has no effect') == 1
    assert 'job.sh on node1 failed: exit code 7' in done.stderr
    _, words = enroot.calls('start')[-1]
    assert '--mount=/opt:/opt:none:x-create=auto,rbind,rw' in words
    assert words[-3:] == ['NVIDIA_VISIBLE_DEVICES=0', 'RESTRICT_DEV=yes', 'LOGIN=no'], words


@pytest.mark.parametrize('options,code,remedy', [
    (['--image', 'nosuch:1'], 125, 'the registry has no such image'),
    (['--image', './no.sqsh'], 125, 'the image is not on this host'),
    (['--pull', 'never'], 125, 'give the path of a .sqsh file'),
    (['--container-option=--ipc=host'], 2, 'it takes --env, --mount'),
    (['--privileged'], 2, 'enroot cannot do that'),
])
def test_what_enroot_cannot_do_is_told(enroot, options, code, remedy):
    done = enroot.run(enroot.on_slurm(*options, command=['echo', 'RAN'], inside=('-N1', '-n1')))
    assert done.returncode == code and remedy in done.stderr, done.stderr
    assert 'RAN' not in done.stdout


@pytest.mark.parametrize('words', ['reigen-agent inside', 'reigen-agent contain'])
def test_a_killed_agent_takes_its_containers_processes_with_it(enroot, words):
    job = start(enroot.head, enroot.on_slurm(
        command=['sh', '-c', 'setsid sleep 1000 & echo here; sleep 1000']), env=enroot.env)
    try:
        assert 'here' in job.stdout.readline() and 'here' in job.stdout.readline()
        node = enroot.cluster[1]
        # The youngest: with a guard, that is the agent.
        pid = max(pid for pid, line in node.processes().items() if words in line)
        node.run(['kill', '-KILL', str(pid)], user='root', check=True)
        seconds_until_gone(enroot.cluster.nodes)
        assert end(job).returncode == 76
    finally:
        if job.poll() is None:
            job.kill_all()
            job.communicate()


def folders(cluster):
    """The directories of jobs that `contain` has made."""
    return {str(path) for node in cluster.nodes
            for path in node.path('/run/user/2001/reigen').glob('reigen-*')}


def test_scancel_leaves_nothing_of_a_container(enroot):
    others = folders(enroot.cluster)  # of killed agents: this job may have no time to sweep them
    job = start(enroot.head, enroot.on_slurm(
        command=['sh', '-c', 'setsid sleep 1000 & echo here; sleep 1000']), env=enroot.env)
    try:
        assert 'here' in job.stdout.readline() and 'here' in job.stdout.readline()
        enroot.head.run(['scancel', *map(str, enroot.cluster.squeue())], check=True)
        # With proctrack/linuxproc ranks get Slurm's SIGTERM themselves, and may end before an agent
        # has told of its own.
        assert end(job).returncode in (75, 143)
        seconds_until_gone(enroot.cluster.nodes)
        wait_for(lambda: folders(enroot.cluster) <= others, 'the removal of directories')
    finally:
        if job.poll() is None:
            job.kill_all()
            job.communicate()
