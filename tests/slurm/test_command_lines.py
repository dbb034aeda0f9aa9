# SPDX-License-Identifier: Apache-2.0
"""The command lines that srun_docker.sh's users have in their notes, letter by letter, as an
ordinary user on two and three nodes. Only the partition and the nodes have other names here, and
the scripts of these names are short ones that start a program on every rank."""
import re

import pytest

from built import PROGRAMS
from jobs import READY

TF = ('nvcr.io/nvidian/sae/avolkov:'
      'tf1.8.0py3_cuda9.0_cudnn7_nccl2.2.13_hvd_ompi3_ibverbs')
TORCH = 'nvcr.io/nvidian/sae/avolkov:pytorch_hvd_apex'
HVD = './tensorflow_mnode/hvd_mnist_example.sh'
PDSH = './pytorch_mnode/pytorch_apex_mnist_example_pdsh.sh'
# Says what it finds, and starts every rank.
SCRIPT = r'''#!/bin/bash
export SHELL=/bin/bash
echo "user $(id -un) np $np args $*"
mpirun -H $hostlist -x SHELL -np $np bash -c 'echo "rank on $(hostname) nv $NVIDIA_VISIBLE_DEVICES'\
' cuda $CUDA_VISIBLE_DEVICES my $MYVAR data $(echo /data/* /datasets/* /scratch/*)"'
'''
SBATCH = f'''#!/bin/bash
srun srun_docker.sh \\
    --container={TORCH} \\
    --privileged \\
    --script=./pytorch_mnode/pytorch_hvd_mnist_example.sh
'''
# Root lacks a right here that --privileged needs; that it was asked for is put down.
DOCKER = '''#!/bin/sh
echo "$(hostname) $*" >>~/docker-calls
for word; do
    shift
    case $word in --privileged|--ulimit=memlock*) ;; *) set -- "$@" "$word";; esac
done
exec /usr/bin/docker "$@"
'''


@pytest.fixture(scope='module')
def filled(cluster3):
    """The images and directories are on all nodes; alice has srun_docker.sh in her PATH."""
    head = cluster3.head
    for name in (HVD, PDSH, './pytorch_mnode/pytorch_hvd_mnist_example.sh'):
        head.write(f'site/{name[2:]}', SCRIPT, mode=0o755)
    head.write('site/pytorch_mnode/sbatch_pytorch.sh', SBATCH, mode=0o755)
    head.write('site/bin/docker', DOCKER, mode=0o755)
    # A cluster whose Slurm counts no GPUs: who names some has them.
    head.write('site/no-gres/sinfo', '#!/bin/sh\necho "(null)"\n', mode=0o755)
    head.path('site/bin/srun_docker.sh').symlink_to(PROGRAMS.reigen)
    for node in cluster3.nodes:
        for image in (TF, TORCH):
            node.docker('tag', 'base', image)
        node.run(['sh', '-c', 'mkdir -p /datasets /scratch; touch /datasets/a /scratch/b'],
                 user='root', check=True)
    yield cluster3
    for node in cluster3.nodes:
        node.docker('rmi', TF, TORCH)
        node.run(['rm', '-rf', '/datasets', '/scratch'], user='root')
    head.run(['rm', '-rf', 'site'])


@pytest.fixture
def site(slurm, filled):
    yield filled
    slurm.head.run(['rm', '-f', 'docker-calls'])


def in_shell(site, line):
    """A line as alice types it; the lines that it prints."""
    done = site.head.run(['sh', '-c', f'PATH=$PWD/bin:$PATH; {line}'], timeout=READY,
                         cwd=f'{site.head.home()}/site')
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def allocated(site, nodes, line, first=''):
    return in_shell(site, f"{first} salloc --quiet -N {nodes} -p p sh -c '{line}'")


def check_ranks(told, hosts, each=1, words=''):
    """Ranks ran on these hosts, and the script found so many and its own words. In a job's file,
    those of a slow start are before it."""
    told = [line for line in told if not re.match(r'reigen: \d+ of \d+ hosts ready', line)]
    ranks = [line.split() for line in told if line.startswith('rank on')]
    assert sorted(rank[2] for rank in ranks) == sorted(hosts * each), told
    assert told[0].split(' args ')[0] == f'user alice np {len(hosts) * each}', told
    assert told[0].split(' args ')[1] == words, told
    return [' '.join(rank[3:]) for rank in ranks]


def privileged(site):
    """The nodes whose docker was asked for a privileged container."""
    calls = site.head.path('docker-calls').read_text().splitlines()
    ran = [call.split() for call in calls if ' run ' in call]
    assert ran
    return sorted({call[0] for call in ran if '--privileged' in call})


@pytest.mark.parametrize('nodes', [2, 3])
def test_the_first_line_of_its_manual(site, nodes):
    hosts = [f'node{i + 1}' for i in range(nodes)]
    told = allocated(site, nodes, f'''
        srun srun_docker.sh \\
            --container={TF} \\
            --privileged \\
            --script={HVD}''')
    check_ranks(told, hosts)
    assert privileged(site) == hosts


def test_one_node_of_two_the_first_and_the_second(site):
    told = allocated(site, 2, f'''
        srun -N 1 srun_docker.sh --container={TORCH} --script={HVD}''')
    check_ranks(told, ['node1'])
    told = allocated(site, 2, f'''
        srun -N 1 --exclude=node1  srun_docker.sh --nodelist=node2 --container={TORCH} \\
            --script={HVD}''')
    check_ranks(told, ['node2'])
    assert privileged(site) == []


def test_a_subset_of_gpus_without_privileged(site):
    told = allocated(site, 2, f'''
        NV_GPU=2,3 srun srun_docker.sh \\
            --slots_per_node=2 \\
            --container={TORCH} \\
            --script={PDSH} --epochs=5''', 'PATH=$PWD/no-gres:$PATH;')
    found = check_ranks(told, ['node1', 'node2'], 2, '--epochs=5')
    assert all(rank.startswith('nv 2,3 ') for rank in found), told
    assert privileged(site) == []


@pytest.mark.parametrize('image,script,words', [(TF, HVD, ''), (TORCH, PDSH, '--epochs=5')])
def test_a_subset_of_gpus_with_privileged(site, image, script, words):
    told = allocated(site, 2, f'''
        srun srun_docker.sh \\
            --slots_per_node=2 --dockopts="-e CUDA_VISIBLE_DEVICES=2,3" \\
            --privileged \\
            --container={image} \\
            --script={script} {words}''')
    found = check_ranks(told, ['node1', 'node2'], 2, words)
    assert all(' cuda 2,3 ' in rank for rank in found), told
    assert privileged(site) == ['node1', 'node2']


def test_directories_and_docker_options(site):
    told = allocated(site, 2, f'''
        srun srun_docker.sh --container={TF} --script={HVD} \\
            --datamnts=/datasets,/scratch \\
            --dockopts="--ipc=host -e MYVAR=SOMEVALUE -v /datasets:/data"''')
    found = check_ranks(told, ['node1', 'node2'])
    assert all(rank.endswith('my SOMEVALUE data /data/a /datasets/a /scratch/b')
               for rank in found), told


def test_a_batch_job(site):
    in_shell(site, 'sbatch --wait -N 2 -p p --output="slurm-%j-pytorch_hvd_mnist.out" '
                   '--wrap=./pytorch_mnode/sbatch_pytorch.sh')
    files = list(site.head.path('site').glob('slurm-*-pytorch_hvd_mnist.out'))
    assert len(files) == 1
    check_ranks(files[0].read_text().splitlines(), ['node1', 'node2'])
    assert privileged(site) == ['node1', 'node2']


def test_a_batch_job_with_an_empty_environment(site):
    """Slurm gives its steps no more than its own variables then, not even PATH."""
    in_shell(site, f"""sbatch --wait -N 2 --export=NONE --output=none.out --wrap='
        srun {PROGRAMS.reigen.parent}/reigen srun-docker --container={TORCH} --script={HVD}'""")
    told = site.head.path('site/none.out').read_text().splitlines()
    check_ranks(told, ['node1', 'node2'])


def test_help(site):
    assert any('--slots_per_node' in line for line in in_shell(site, 'srun_docker.sh --help'))
