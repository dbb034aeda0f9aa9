# SPDX-License-Identifier: Apache-2.0
"""Libraries from PyPI that train by Horovod do so on Reigen as they are (docs/applications.md)."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(300)


def test_libraries_that_train_by_horovod_train():
    made = subprocess.run([ROOT / 'tools/frameworks.sh', 'apps'], capture_output=True, text=True,
                          timeout=1800, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    site = subprocess.run([ROOT / '.venv/bin/python', '-c',
                           'import sysconfig; print(sysconfig.get_path("purelib"))'],
                          capture_output=True, text=True, check=True).stdout.strip()
    done = subprocess.run(
        [ROOT / '.venv/bin/horovodrun', '-np', '2', made.stdout.strip(),
         Path(__file__).parent / 'applications.py'], capture_output=True, text=True, timeout=200,
        check=False, env={**os.environ, 'PYTHONPATH': site, 'OMP_NUM_THREADS': '1'})
    said = [line for line in done.stdout.splitlines() if 'trained the same' in line]
    assert done.returncode == 0 and len(said) == 4, done.stdout + done.stderr
