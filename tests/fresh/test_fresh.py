# SPDX-License-Identifier: Apache-2.0
"""The README's commands in a Debian that has nothing but git and make: what a command needs and
does not install shows here, and nowhere else."""
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The tests under sanitizers need nothing that the others do not; they would double the time.
COMMANDS = '''make demo
make check ARGS='lint behaviour install'
make wheel
python3 -m venv --system-site-packages /opt/try
/opt/try/bin/pip install build/dist/*.whl
cp -r examples /srv/examples
cd /srv/examples && . /opt/try/bin/activate
horovodrun -np 2 python pytorch_mnist.py --epochs 1
reigen doctor'''


@pytest.mark.timeout(2400)
def test_every_command_of_the_readme_works_where_nothing_is_installed():
    done = subprocess.run([ROOT / 'tools/fresh.sh', COMMANDS], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:]
    counts = re.findall(r'^(\d+) passed, (\d+) failed', done.stdout, re.M)
    assert counts and int(counts[-1][0]) > 500 and int(counts[-1][1]) == 0, counts
    parameters = re.findall(r'parameters: identical to the bit on all (\d) ranks', done.stdout)
    assert parameters == ['4', '2']
