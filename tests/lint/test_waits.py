# SPDX-License-Identifier: Apache-2.0
"""Tests wait for conditions, by tests/wait.py and by what stands in the C tests' own headers. What
sleeps today is counted, and less of it is the limit tomorrow."""
import ast
import re

import repo

#: Files whose sleeps are no waits: programs that tests start, which are slow or hang on purpose.
PATIENTS = re.compile(r'tests/(wait\.py|programs/|standin/|bed/(program|pause|init)\.c|\w+/ranks/|'
                      r'torch2/distributed_|tensorflow/device/|behaviour/kills\.py)')
PYTHON_MAX, C_MAX = 80, 66
C_SLEEP = re.compile(r'\b(?:usleep|nanosleep|rg_sleep_ms|sleep)\(')


def sleeps(path):
    """The lines of a Python file that call time.sleep."""
    return [node.lineno for node in ast.walk(ast.parse(repo.read(path)))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == 'time.sleep']


def waiting(*suffixes):
    return [p for p in repo.with_suffix(*suffixes, under='tests/')
            if not PATIENTS.match(repo.name(p))]


def test_no_test_written_in_python_sleeps_more_than_they_do():
    found = {repo.name(p): len(sleeps(p)) for p in waiting('.py')}
    assert sum(found.values()) <= PYTHON_MAX, found


def test_no_test_written_in_c_sleeps_more_than_they_do():
    found = {repo.name(p): len(C_SLEEP.findall(repo.COMMENT.sub(' ', repo.read(p))))
             for p in waiting('.c', '.h')}
    assert sum(found.values()) <= C_MAX, found
