# SPDX-License-Identifier: Apache-2.0
"""accelerate, transformers' Trainer and Lightning train over the backend "reigen"."""
import subprocess
from pathlib import Path

import pytest
from test_torch2 import environment, forked_python

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope='module')
def python():
    done = subprocess.run([ROOT / 'tools/trainers.sh'], capture_output=True, text=True,
                          timeout=1800, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize('name', ['accelerate', 'transformers', 'lightning'])
def test_it_trains_the_same_on_both_ranks(python, name, tmp_path):
    done = subprocess.run(
        [ROOT / '.venv/bin/reigen', 'run', '-np', '2', '--', *forked_python(python),
         Path(__file__).parent / 'trainers.py', name, tmp_path],
        capture_output=True, text=True, timeout=200, check=False,
        env=environment(HF_HUB_OFFLINE='1'))
    assert f'{name} trained the same on both ranks' in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
