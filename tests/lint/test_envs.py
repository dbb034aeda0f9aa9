# SPDX-License-Identifier: Apache-2.0
"""tools/envs.sh, by which trees share environments: with ones that are made of a word."""
import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import repo
from wait import until

# usage: get NAME RECIPE [BASE...]
GET = '''#!/bin/sh
set -eu
cd "$(dirname "$0")"
. ./envs.sh
take_env "$@"
if [ -z "$ready" ]; then
    rm -rf "$env"
    mkdir "$env"
    echo "$1" >>made
    ${MAKER-true}
    keep_env
fi
echo "$env"
'''
OLD = 15 * 24 * 3600


class Tree:
    """One of Reigen's trees, as far as environments are concerned."""

    def __init__(self, folder):
        self.folder, self.envs = folder, folder / 'build/envs'
        folder.mkdir()
        shutil.copy(repo.ROOT / 'tools/envs.sh', folder)
        (folder / 'get').write_text(GET)
        (folder / 'get').chmod(0o755)

    def begin(self, *words, bed=None, **options):
        env = {name: value for name, value in os.environ.items() if name != 'REIGEN_BED_DIR'}
        env.update({'REIGEN_BED_DIR': str(bed)} if bed else {}, **options.pop('env', {}))
        return subprocess.Popen([self.folder / 'get', *words], env=env, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def get(self, *words, **options):
        """Where it lies."""
        with self.begin(*words, **options) as child:
            out, err = child.communicate(timeout=60)
        assert child.returncode == 0, out + err
        self.said = err
        return Path(out.strip())

    @property
    def made(self):
        path = self.folder / 'made'
        return path.read_text().split() if path.exists() else []


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path / 'tree')


@pytest.fixture
def bed(tmp_path):
    return tmp_path / 'bed'


def test_an_environment_is_made_once_for_all_trees(tree, bed, tmp_path):
    one = tree.get('spark', 'pip', bed=bed)
    assert one.parent == bed / 'envs' and (tree.envs / 'spark').readlink() == one
    other = Tree(tmp_path / 'other')
    assert other.get('spark', 'pip', bed=bed) == one and other.made == []
    newer = other.get('spark', 'pip 2', bed=bed)
    assert newer != one and (other.envs / 'spark').readlink() == newer
    assert tree.get('spark', 'pip', bed=bed) == one and tree.made == ['spark']


def test_without_the_folder_what_its_link_leads_to_is_used_while_it_is_right(tree, bed):
    one = tree.get('spark', 'pip', bed=bed)
    assert tree.get('spark', 'pip') == one and tree.made == ['spark']
    own = tree.get('spark', 'pip 2')
    assert own == tree.envs / 'spark' and own.is_dir() and not own.is_symlink()
    # With it, what is right in the tree stays, and what is not makes room for a link.
    assert tree.get('spark', 'pip 2', bed=bed) == own
    assert tree.get('spark', 'pip', bed=bed) == one and own.is_symlink()
    assert tree.made == ['spark'] * 2


def test_what_names_another_environment_is_made_again_with_it(tree, bed):
    for where in (bed, None, bed):
        tree.get('torch', 'pip', bed=where)
        tree.get('apps', 'pip', 'torch', bed=where)
    assert tree.made == ['torch', 'apps']
    tree.get('torch', 'pip 2', bed=bed)
    tree.get('apps', 'pip', 'torch', bed=bed)
    assert tree.made == ['torch', 'apps'] * 2
    shutil.rmtree((tree.envs / 'torch').readlink())
    tree.get('torch', 'pip 2')
    one = tree.get('apps', 'pip', 'torch')
    assert one == tree.envs / 'apps' and tree.made == ['torch', 'apps'] * 3


def test_half_an_environment_is_made_anew(tree, bed):
    with tree.begin('spark', 'pip', bed=bed, env={'MAKER': 'false'}) as child:
        assert child.wait(60) != 0
    one = tree.get('spark', 'pip', bed=bed)
    assert tree.made == ['spark'] * 2 and tree.get('spark', 'pip', bed=bed) == one
    (one / 'ready').unlink()
    tree.get('spark', 'pip', bed=bed)
    assert tree.made == ['spark'] * 3


def test_what_nobody_has_used_goes_but_for_what_somebody_holds(tree, bed):
    held, unused = (tree.get('spark', recipe, bed=bed) for recipe in ('held', 'unused'))
    other = tree.get('ray', 'pip', bed=bed)
    for one in (held, unused, other):
        at = one.stat().st_mtime - OLD
        os.utime(one, (at, at))
    with open(f'{held}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = tree.get('spark', 'pip', bed=bed)
    assert [one.exists() for one in (held, unused, other, fresh)] == [True, False, True, True]


def test_a_maker_holds_the_lock_when_its_program_is_killed(tree, bed, tmp_path):
    """As of a run that is cut off: the next one waits for it, and makes it anew."""
    pipe = tmp_path / 'pipe'
    os.mkfifo(pipe)
    first = tree.begin('spark', 'pip', bed=bed, env={'MAKER': f'cat {pipe}'})
    until(lambda: tree.made, 'the first maker')
    first.kill()
    first.wait(60)
    second = tree.begin('spark', 'pip', bed=bed)
    until(lambda: [path for path in Path('/proc').glob('[0-9]*/cmdline')
                   if flock_of(path, second.pid)], 'the second one, which waits')
    assert tree.made == ['spark']
    with open(pipe, 'w'):
        pass  # the maker ends
    assert second.communicate(timeout=60)[0] and tree.made == ['spark'] * 2
    first.communicate(timeout=60)


def flock_of(cmdline, parent):
    """Whether that is a flock that this process has started."""
    try:
        stat = (cmdline.parent / 'stat').read_text().rsplit(')', 1)[1].split()
        return cmdline.read_bytes() == b'flock\x009\x00' and int(stat[1]) == parent
    except OSError:
        return False


@pytest.mark.parametrize('place', ['/root/.cache/reigen-test', '/proc/no'])
def test_a_folder_of_no_use_is_told_and_not_needed(tree, place):
    """Containers cannot enter /root; another user's folder cannot be written to."""
    assert tree.get('spark', 'pip', bed=place) == tree.envs / 'spark'
    assert not Path(place).exists()
    told = 'cannot write to /proc/no/envs: environments go to build/envs' in tree.said
    assert told == (place == '/proc/no'), tree.said
