# SPDX-License-Identifier: Apache-2.0
"""What `make soak` finds new or changed, and its page."""
import subprocess
import sys

import pytest

import repo

sys.path.insert(0, str(repo.ROOT / 'tools'))
import check  # noqa: E402 (needs the path above)
import soak  # noqa: E402 (likewise)

BEFORE = '''import os

LIST = [1]


def helper():
    return os.getpid()


def through():
    return helper()


def test_a():
    assert through()


@check.parametrize('x', LIST)
def test_b(x):
    assert x


def test_c():
    pass
'''


@pytest.fixture(name='tree')
def _tree(tmp_path):
    """A repository with two commits of tests/test_x.py."""
    def git(*words):
        subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *words], cwd=tmp_path,
                       check=True, capture_output=True)
    (tmp_path / 'tests').mkdir()
    path = tmp_path / 'tests/test_x.py'
    git('init', '-q')
    for text in ('', BEFORE):
        path.write_text(text)
        git('add', '.')
        git('commit', '-qm', 'a step')
    return tmp_path, path, git


@pytest.mark.parametrize('old, new, found', [
    ('    pass\n', '    assert True\n', ['test_c']),
    ('    return os.getpid()\n', '    return 7\n', ['test_a']),
    ('LIST = [1]\n', 'LIST = [2]\n', ['test_b']),
    ('import os\n', 'import os\nimport re\n', []),
    ("@check.parametrize('x', LIST)\n", "@check.parametrize('x', [3])\n", ['test_b']),
    ('    return helper()\n', '    a = 1\n    return helper() + a\n', ['test_a']),
])
def test_the_tests_that_differ_are_found(tree, old, new, found):
    root, path, _ = tree
    path.write_text(BEFORE.replace(old, new))
    base = soak.base_of('HEAD', root)
    assert soak.changed(base, root) == ([f'tests/test_x.py::{name}' for name in found], [])


def test_files_that_are_new_count_as_a_whole_and_those_that_are_gone_do_not(tree):
    root, path, _ = tree
    (root / 'tests/test_y.py').write_text(BEFORE)
    (root / 'tests/test_z.c').write_text('int x;\n')
    path.unlink()
    ids, sources = soak.changed(soak.base_of('HEAD', root), root)
    assert ids == [f'tests/test_y.py::test_{letter}' for letter in 'abc']
    assert sources == ['tests/test_z.c']
    targets = [{'filename': ['/b/test_z'], 'target_sources': [
        {'sources': [str(root / 'tests/test_z.c')]}, {}]}, {'filename': ['/b/o'],
                                                           'target_sources': []}]
    tests = [{'name': 'a/z', 'cmd': ['/b/test_z']}, {'name': 'a/o', 'cmd': ['/b/o']}]
    assert soak.programs_of(tests, targets, sources, root) == ['a/z']


def test_without_a_commit_the_last_landing_is_compared_with(tree):
    root, _, git = tree

    def commit(name):
        return soak.git('rev-parse', name, root=root).strip()
    assert soak.base_of(None, root) == commit('HEAD~1')  # the first one of all
    git('checkout', '-qb', 'side')
    git('commit', '-q', '--allow-empty', '-m', 'beside')
    git('checkout', '-q', '-')
    before = commit('HEAD')
    git('merge', '-q', '--no-ff', '-m', 'a landing', 'side')
    landing = commit('HEAD')
    assert soak.base_of(None, root) == before
    git('commit', '-q', '--allow-empty', '-m', 'later')
    assert soak.base_of(None, root) == landing
    git('update-ref', 'refs/remotes/origin/main', before)
    assert soak.base_of(None, root) == before
    with pytest.raises(SystemExit, match='no such commit'):
        soak.base_of('nothing', root)


def result_of(number, failures=()):
    result = check.Result()
    result.passed = 2 - len(failures)
    result.failures = [f'{name}: it broke' for name in failures]
    result.texts = {line: 'the\nwhole text' for line in result.failures}
    result.runs = [soak.Run(name, name not in failures, 1.5, {'inputs': 10}) for name in 'ab']
    return check.numbered(result, number)


def test_the_page_says_what_ran_and_which_run_failed(tmp_path):
    together = check.Result()
    for number, failures in enumerate(((), ('b',), ()), 1):
        check.merge(together, result_of(number, failures))
    together.seconds, together.cpu_seconds = 9, 18
    together.skips = ['c: no GPU']
    page = soak.Page(3600, '4711', 'HEAD', tmp_path / 'soak/report.md')
    assert 'None.' in page.path.read_text()
    page.add('changed', together)
    text = page.path.read_text()
    assert together.failures == ['b: round 2 of 20: it broke']
    for part in ('seed 4711', 'asked for: 3600 s', '| changed | 5 | 1 | 1 | 9 | 2.0 |',
                 '- changed: b: round 2 of 20: it broke', '      whole text',
                 '| a | 3 | none | 4.5 | 30 inputs |', '| b | 3 | 2 | 4.5 | 30 inputs |',
                 'skipped: c: no GPU'):
        assert part in text, text
