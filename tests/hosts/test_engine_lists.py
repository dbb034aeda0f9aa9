# SPDX-License-Identifier: Apache-2.0
"""Users' own lists of networks, wherever they stand: Open MPI refuses one to use beside one to
leave out, so ours is not there then. The hosts have a docker0 that leads nowhere."""
import shutil
from pathlib import Path

import pytest
from bed import Cluster, images

import mpis
from built import PROGRAMS, ROOT
from test_engines import LIMIT, placed, program, reigen_again

NAMES = ['openmpi4', 'openmpi5']
WORDS = '--mca btl_tcp_if_exclude lo,docker0 --mca oob_tcp_if_exclude docker0'
LINES = '# what must not be used\nbtl_tcp_if_exclude = lo,docker0\noob_tcp_if_exclude = docker0\n'
VARIABLES = ['OMPI_MCA_btl_tcp_if_exclude=lo,docker0', 'OMPI_MCA_oob_tcp_if_exclude=docker0',
             'PRTE_MCA_prte_if_exclude=docker0']

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='module')
def two():
    with Cluster(2, docker0=True) as cluster:
        yield cluster


@pytest.fixture
def node1(two):
    yield two[1]
    two.assert_clean()


def sums(done):
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(placed(done.stdout, 10)) == [0, 1, 2, 3]


def run(node, name, *arguments, **options):
    hosts = ['-H', 'node1:2,node2:2']
    return reigen_again(node, name, *hosts, *arguments, **options)


@pytest.mark.parametrize('name', NAMES)
def test_on_the_command_line(node1, name):
    sums(run(node1, name, '--', 'mpirun', *WORDS.split(), program(name)))
    # The other list is still ours: without it ranks would meet on docker0.
    sums(run(node1, name, '--', 'mpirun', '--mca', 'oob_tcp_if_exclude', 'docker0', program(name)))


@pytest.mark.parametrize('name', NAMES)
def test_in_a_script_and_in_one_that_it_calls(node1, name):
    line = f'mpirun {WORDS} -np 4 -H $hostlist {program(name)}\n'
    node1.run(['mkdir', '-p', 'deep'], check=True)
    node1.write('job.sh', 'here=$(cd $(dirname $0) && pwd)\nsh "$here/deep/inner.sh" || exit 3\n'
                          'sh ./deep/../called.sh\n')
    node1.write('deep/inner.sh', 'echo inner\n')
    node1.write('called.sh', line.replace('mpirun', f'{mpis.prefix(name)}/bin/mpirun', 1))
    done = run(node1, name, '--engine', 'script', '--', 'sh', 'job.sh')
    assert done.stdout.startswith('inner\n'), done.stdout + done.stderr
    sums(done)
    node1.write('job.sh', ''.join(f'export {v}\n' for v in VARIABLES) +
                f'mpirun -np $np -H $hostlist {program(name)}\n')
    sums(run(node1, name, '--engine', 'script', '--', 'sh', './job.sh'))


@pytest.mark.parametrize('name', NAMES)
def test_in_the_environment(node1, name):
    if name == 'openmpi4':
        sums(run(node1, name, *(w for v in VARIABLES for w in ('-x', v)), '--', 'mpirun',
                 program(name)))
    sums(run(node1, name, '-x', f'WITH={WORDS}', '--engine', 'script', '--', 'sh', '-c',
             f'mpirun $WITH -np $np {program(name)}'))


@pytest.mark.parametrize('name', NAMES)
def test_in_a_parameter_file(two, node1, name):
    system = ('/etc/openmpi/openmpi-mca-params.conf' if name == 'openmpi4' else
              f'{mpis.prefix(name)}/etc/openmpi-mca-params.conf')
    for node in (two[1], two[2]):
        node.run(['mkdir', '-p', '.openmpi'], check=True)
        # Debian's own file keeps Open MPI 4 from transports that take any network.
        node.write('.openmpi/mca-params.conf', Path(system).read_text(encoding='utf-8') + LINES)
    try:
        sums(run(node1, name, '--', 'mpirun', program(name)))
    finally:
        for node in (two[1], two[2]):
            node.run(['mv', '.openmpi/mca-params.conf', 'list.conf'], check=True)
    mounted = []
    try:
        for node in (two[1], two[2]):
            node.run(['mount', '--bind', f'{node.home()}/list.conf', system], user='root',
                     check=True)
            mounted.append(node)
        sums(run(node1, name, '--', 'mpirun', program(name)))
    finally:
        for node in mounted:
            node.run(['umount', system], user='root', check=True)


@pytest.mark.parametrize('line, left_out', [
    ('btl_tcp_if_include = 10.0.0.0/8', 'OMPI_MCA_btl_tcp_if_include'),
    ('hwloc_base_binding_policy = core', 'OMPI_MCA_hwloc_base_binding_policy'),
    ('# btl_tcp_if_include = 10.0.0.0/8', '')])
def test_what_stands_in_a_file_wins_over_our_variable(node1, line, left_out):
    node1.write('only.conf', f'{line}\n')
    done = run(node1, 'openmpi4', '-x', f'OMPI_MCA_mca_base_param_files={node1.home()}/only.conf',
               '--engine', 'script', '--', 'env')
    assert done.returncode == 0, done.stderr
    ours = {each.split('=')[0] for each in done.stdout.splitlines()}
    wanted = {'OMPI_MCA_btl_tcp_if_include', 'OMPI_MCA_oob_tcp_if_include',
              'OMPI_MCA_hwloc_base_binding_policy', 'PRTE_MCA_prte_if_include'}
    assert {left_out, *ours} >= wanted and left_out not in ours, done.stdout


# ---------------------------------------------------------------------------- in containers

def test_in_the_parameter_file_of_an_image(tmp_path):
    """As in deploy/docker's image, in which README runs mpirun; the file is that image's."""
    shutil.copy(ROOT / 'deploy/docker/setup/openmpi.sh', tmp_path)
    (tmp_path / 'Dockerfile').write_text(f'FROM {images.recipe("base")}\nCOPY openmpi.sh /tmp/\n'
                                         'RUN sh /tmp/openmpi.sh\n')
    image = images.build('lists:1', tmp_path)
    with Cluster(2, dockerd=True, docker0=True, images=[image]) as cluster:
        done = cluster[1].run(
            [PROGRAMS.reigen, 'run', '--timeout', '60', '-H', 'node1:2,node2:2', '--image', image,
             '--', 'mpirun', 'sh', '-c',
             'echo $OMPI_COMM_WORLD_RANK $(hostname) $OMPI_MCA_btl_tcp_if_include'],
            timeout=2 * LIMIT)
        assert done.returncode == 0, done.stdout + done.stderr
        assert sorted(done.stdout.splitlines()) == ['0 node1', '1 node1', '2 node2', '3 node2']
        cluster.assert_clean()
