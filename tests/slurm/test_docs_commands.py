# SPDX-License-Identifier: Apache-2.0
"""The commands for Slurm that README.md and docs/ show, as they stand there, by an ordinary user:
each block is typed into one shell. Only images have names here that Docker takes."""
import re
import shutil

import mnist
import pages
import pytest
from bed import SlurmCluster
from built import PROGRAMS, ROOT

pytestmark = pytest.mark.timeout(600)
LIMIT_S = 200
BLOCKS = pages.blocks_for_a_cluster()
IMAGES = ('pytorch/pytorch', 'my-image', 'my/image')
JOB = '''#!/bin/sh
echo "script on $(hostname), np $np, arguments $*"
'''
TRAIN = '''
import os
print('trained by', os.uname().nodename, flush=True)
'''


@pytest.fixture(scope='module')
def site():
    """Two nodes; alice has the source tree's examples, scripts of the pages' names, and the
    programs of ~/bin in her PATH. IMAGE is an image with sshd, but for examples that train."""
    with SlurmCluster(2, gpus=4, dockerd=True, images=['base', 'mnode']) as cluster:
        head = cluster.head
        home = head.path(head.home())
        shutil.copytree(ROOT / 'examples/slurm', home / 'examples/slurm',
                        ignore=shutil.ignore_patterns('__pycache__'))
        mnist.shorten(home / 'examples/data')
        for file in [home / 'examples', *(home / 'examples').rglob('*')]:
            shutil.chown(file, 2001, 2001)
        for name in ('job.sh', 'train.sh'):
            head.write(name, JOB, mode=0o755)
        head.write('train.py', TRAIN)
        (home / 'bin').mkdir(exist_ok=True)
        for name in ('reigen', 'srun_docker.sh', 'run_dock_asuser.sh', 'create_mpisshconfig.sh'):
            (home / 'bin' / name).symlink_to(PROGRAMS.reigen)
        (home / 'bin/python').symlink_to('/usr/bin/python3')
        for node in cluster.nodes:
            for image in IMAGES:
                node.docker('tag', 'mnode', image)
        yield cluster


def name_of(block):
    return f'{block[0].page.rpartition("/")[2]}-{block[0].block}'


def gives_a_shell(command):
    words = command.words
    return words[0] == 'salloc' and all(w.startswith('-') or w.isdigit() for w in words[1:])


def typed(block):
    """The block as lines for one shell. A salloc without a command starts one that types on; the
    last of several, where they stand for each other."""
    image = 'mnode' if any('mnode/' in c.text for c in block) else 'base'
    lines, end = [], ''
    for command, after in zip(block, [*block[1:], None]):
        text = re.sub(r'\bIMAGE\b(?!=)', image, command.text)
        text = text.replace('IMAGE=my-image sbatch', 'IMAGE=my-image sbatch --wait')
        lines.append(text)
        if gives_a_shell(command) and (after is None or gives_a_shell(after)):
            lines[-1] += ' true'
        elif gives_a_shell(command):
            lines[-1] += " <<'END-OF-SALLOC'\nset -e"
            end = '\nEND-OF-SALLOC\n'
    return 'set -e\nPATH=$HOME/bin:$PATH\n' + '\n'.join(lines) + end


@pytest.mark.parametrize('block', BLOCKS, ids=map(name_of, BLOCKS))
def test_commands_of_the_pages_run_on_a_cluster(site, block):
    # Docker is on the nodes, not where users log in.
    host = site[1] if any(c.program == 'run_dock_asuser.sh' for c in block) else site.head
    done = host.run(['bash', '-c', typed(block)], timeout=LIMIT_S)
    assert done.returncode == 0, typed(block) + done.stdout + done.stderr
    site.wait_idle()
