# SPDX-License-Identifier: Apache-2.0
"""accelerate, transformers' Trainer and Lightning train over the backend "reigen"."""
import os
import subprocess
from pathlib import Path

import pytest

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
    site = subprocess.run([ROOT / '.venv/bin/python', '-c',
                           'import sysconfig; print(sysconfig.get_path("purelib"))'],
                          capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run(
        [ROOT / '.venv/bin/reigen', 'run', '-np', '2', '--', python,
         Path(__file__).parent / 'trainers.py', name, tmp_path],
        capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, 'PYTHONPATH': site, 'OMP_NUM_THREADS': '1', 'HF_HUB_OFFLINE': '1'})
    assert f'{name} trained the same on both ranks' in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
