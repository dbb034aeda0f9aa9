# SPDX-License-Identifier: Apache-2.0
"""The first thing a person does, from an empty clone and an empty HOME."""
import os
import re
import subprocess
import time
from pathlib import Path

import compiled
import pytest

ROOT = Path(__file__).resolve().parents[2]


def shown_in_the_readme():
    """The output of `make demo` there. The bars, which a terminal shows in one place, are not."""
    text = (ROOT / 'README.md').read_text()
    return re.search(r'^\$ make demo\n(.*?)^```', text, re.S | re.M)[1].splitlines()


def figureless(lines):
    return [re.sub(r'\d+(\.\d+)?', '0', line) for line in lines]


@pytest.mark.slow
@pytest.mark.serial
@pytest.mark.timeout(600)
def test_demo_of_an_empty_clone_reaches_97_percent_with_equal_ranks(tmp_path):
    clone, home = tmp_path / 'reigen', tmp_path / 'home'
    home.mkdir()
    done = subprocess.run(['git', 'clone', '-q', ROOT, clone], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    # This folder's build has filled the compiler's cache.
    env = {'HOME': str(home), 'PATH': os.environ['PATH'], 'LANG': 'C.UTF-8', **compiled.cache()}

    def make(target):
        start = time.monotonic()
        result = subprocess.run(['make', target], cwd=clone, env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=280, check=False)
        return result, time.monotonic() - start

    done, _ = make('all')
    assert done.returncode == 0, done.stdout
    done, took = make('demo')
    assert done.returncode == 0, done.stdout
    accuracy = [float(a) for a in re.findall(r'accuracy[ =:]+(0\.\d+|1\.0+)', done.stdout)]
    assert accuracy and accuracy[-1] >= 0.97, done.stdout
    assert re.search(r'identical to the bit', done.stdout), done.stdout
    shown, said = figureless(shown_in_the_readme()), figureless(done.stdout.splitlines())
    if not re.search(r'ranks share \d+ core', done.stdout):  # a machine with a core for each
        shown = [line for line in shown if ' share ' not in line]
    said = [line for line in said if ' [' not in line]
    assert len(shown) > 5 and said[-len(shown):] == shown
    assert took <= 120, f'make demo took {took:.0f} s'
    pages = list((clone / 'build/demo').glob('*.html'))
    assert pages and '<svg' in pages[0].read_text()
    assert list((clone / 'build/demo').glob('log*'))
    # A machine's rustup writes its own settings whenever a build system looks for compilers.
    left = [p.name for p in home.iterdir() if p.name != '.rustup']
    assert left == [], 'the demo left something in HOME'
