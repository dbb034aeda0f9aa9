# SPDX-License-Identifier: Apache-2.0
"""The examples of examples/slurm, by the command lines that srun_docker.sh's users know, and its
helper scripts, on simulated nodes as an ordinary user."""
import re
import shutil
import subprocess
from pathlib import Path

import mnist
import pytest
from bed import SlurmCluster

from built import PROGRAMS, ROOT

pytestmark = pytest.mark.timeout(240)
LIMIT_S = 200


@pytest.fixture(scope='module')
def site():
    """Two nodes; alice has the examples in her home and the three scripts in ~/bin."""
    with SlurmCluster(2, dockerd=True, images=['mnode']) as cluster:
        home = cluster.head.path(cluster.head.home())
        shutil.copytree(ROOT / 'examples/slurm', home / 'slurm',
                        ignore=shutil.ignore_patterns('__pycache__'))
        mnist.shorten(home / 'data')
        (home / 'bin').mkdir(exist_ok=True)
        for name in ('srun_docker.sh', 'run_dock_asuser.sh', 'create_mpisshconfig.sh'):
            (home / 'bin' / name).symlink_to(PROGRAMS.reigen)
        for path in [home / 'slurm', *(home / 'slurm').rglob('*'), home / 'data', home / 'bin',
                     *(home / 'data').iterdir()]:
            shutil.chown(path, 2001, 2001)
        yield cluster


def run(site, *argv, **options):
    """A command as alice types it in ~/slurm, with ~/bin in her PATH."""
    line = ['sh', '-c', 'PATH=$HOME/bin:$PATH; exec "$@"', 'sh', *argv]
    return site.head.run(line, cwd=f'{site.head.home()}/slurm', timeout=LIMIT_S, **options)


@pytest.mark.parametrize('script, words', [
    ('pytorch_hvd_mnist_example.sh', []),
    ('pytorch_dist_mnist_example.sh', []),
    ('pytorch_apex_mnist_example.sh', []),
    ('pytorch_apex_mnist_example_pdsh.sh', ['--slots_per_node=2']),
])
def test_an_example_trains_on_two_nodes(site, script, words):
    done = run(site, 'srun', '-N2', 'srun_docker.sh', *(words or ['--slots_per_node=1']),
               '--container=mnode', f'--script=./pytorch_mnode/{script}', '--epochs=2',
               '--lr=0.02', '--batch-size=32', f'--data={site.head.home()}/data')
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r'epoch (\d)/2: accuracy (0\.\d+) on (\d) ranks', done.stdout)
    assert [f[0] for f in found] == ['1', '2'], done.stdout + done.stderr
    assert found[0][2] == ('4' if words else '2') and float(found[-1][1]) > 0.4, done.stdout


@pytest.fixture
def tensorflow():
    """The folder of an environment with TensorFlow, which is made where it is not there yet."""
    done = subprocess.run([ROOT / 'tools/frameworks.sh', 'tf215'], capture_output=True, text=True,
                          timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Path(done.stdout.split()[-1]).parents[1]


def test_the_tensorflow_example_trains_on_two_nodes(site, tensorflow):
    """The image has no TensorFlow: it is shown in the containers, as a site's software would be."""
    done = run(site, 'srun', '-N2', 'srun_docker.sh', '--slots_per_node=1', '--container=mnode',
               f'--dockopts=-e PATH={tensorflow}/bin:/usr/bin:/bin -e OMP_NUM_THREADS=1',
               f'--datamnts={tensorflow}',
               '--script=./tensorflow_mnode/hvd_mnist_example.sh', '--epochs=3', '--lr=0.003',
               '--batch-size=25', f'--data={site.head.home()}/data')
    found = re.search(r'^3 epochs: accuracy (0\.\d+) on 2 ranks$', done.stdout, re.M)
    assert done.returncode == 0 and found and float(found[1]) > 0.6, done.stdout + done.stderr


def test_sbatch_runs_the_same_without_a_terminal(site):
    done = run(site, 'sbatch', '--wait', '-N2', '--output=%x.out', '--job-name=batch',
               '--wrap=./pytorch_mnode/sbatch_pytorch.sh --slots_per_node=1 --epochs=1 '
               f'--batch-size=32 --data={site.head.home()}/data', env={'IMAGE': 'mnode'})
    home = Path(site.head.path(site.head.home()))
    said = (home / 'slurm/batch.out').read_text()
    assert done.returncode == 0 and re.search(r'epoch 1/1: accuracy 0\.\d+ on 2 ranks', said), said


def test_create_mpisshconfig_makes_a_block_for_the_nodes_that_slurm_has(site):
    home = site.head.path(site.head.home())
    done = run(site, 'create_mpisshconfig.sh')
    assert done.returncode == 0, done.stderr
    assert 'Host node*\n    Port 12345\n' in (home / '.ssh/config').read_text()
    assert (home / 'mpisshconfig/ssh_host_ed25519_key').stat().st_mode & 0o777 == 0o600
    assert {p.stat().st_uid for p in (home / 'mpisshconfig').iterdir()} == {2001}


def test_run_dock_asuser_is_the_user_and_leaves_nothing(site):
    node = site.nodes[0]
    line = ['sh', '-c', 'PATH=$HOME/bin:$PATH; exec "$@"', 'sh', 'run_dock_asuser.sh',
            '--container=mnode', '--noninteractive', '--dockopts=--hostname=inside',
            '--dockcmd=sh -c "id -un; id -u; hostname; getent passwd daemon; ls; touch made; '
            'exit 7"']
    node.run(['mkdir', '-p', 'work'], check=True)
    done = node.run(line, cwd=f'{node.home()}/work', timeout=LIMIT_S)
    assert done.returncode == 7, done
    lines = done.stdout.splitlines()
    assert lines[:3] == ['alice', '2001', 'inside'] and lines[3].startswith('daemon:'), done
    assert lines[4:] == [], done
    made = node.path('work/made').stat()
    assert (made.st_uid, made.st_gid) == (2001, 2001)
    done = node.run([*line[:5], '--container=mnode', '--daemon'], cwd=f'{node.home()}/work')
    assert done.returncode == 0 and node.containers() == ['alice_dock'], done
    inside = node.docker('exec', 'alice_dock', 'sh', '-c', 'id -un; echo $HOME $PWD')
    assert inside == f'alice\n{node.home()} {node.home()}/work\n'
    node.docker('rm', '-f', 'alice_dock')
    site.assert_clean()
