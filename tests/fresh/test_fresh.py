# SPDX-License-Identifier: Apache-2.0
"""The README's commands in a Debian that has nothing but git and make: what a command needs and
does not install shows here, and nowhere else."""
import os
import re
import subprocess
from pathlib import Path

import compiled
import demo_shown
import pytest

ROOT = Path(__file__).resolve().parents[2]
# The demo leaves its result, and nothing in HOME.
FIRST = r'''make demo
grep -lF '<svg' build/demo/*.html
ls build/demo/log*
test -z "$(find ~ -type f -newer Makefile)"
make check ARGS=lint'''
REST = r'''make wheel deb
/usr/bin/python3 -m venv --system-site-packages ~/try
~/try/bin/pip install build/dist/*.whl
. ~/try/bin/activate
horovodrun -np 2 python examples/pytorch_mnist.py --epochs 1
reigen doctor
deactivate
apt-get install -y /src/reigen/build/dist/*.deb >/dev/null
reigen run -np 2 -- python3 -c 'import horovod, reigen; print(reigen.__file__)'
apt-get purge -y reigen >/dev/null
test -z "$(find /usr -name '*reigen*')"'''
# Of the tests those that start other programs: the rest would only take its time again. make fresh
# has all of them.
TESTS = r'''make check ARGS=lint
/usr/bin/python3 -m pytest -q -n 2 -c tests/pytest.ini --rootdir=tests tests/install \
    -m 'not slow and not serial'
/usr/bin/python3 -m pytest -q -n 2 -c tests/pytest.ini --rootdir=tests \
    tests/behaviour/test_{agent,helper_scripts,kills,run_help,run_options,strangers}.py'''


def fresh(commands):
    """What they print there, and how many tests each of them passed. It takes a compiler and all
    headers to find what was compiled before, and the same ones. A ccache, which has it, is there
    from the beginning."""
    done = subprocess.run([ROOT / 'tools/fresh.sh', commands], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env={**os.environ, **compiled.cache()})
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-8000:]
    return done.stdout, [int(n) for n in re.findall(r'^(\d+) passed(?: in|, 0 failed)',
                                                    done.stdout, re.M)]


def check_first(printed, passed, sizes):
    assert len(passed) == 1 and passed[0] > 30, passed
    demo_shown.check(printed.split('+ make demo\n', 1)[1].split('\n+', 1)[0])
    assert re.findall(r'parameters: identical to the bit on all (\d) ranks', printed) == sizes


@pytest.mark.timeout(2400)
def test_the_two_commands_work_where_nothing_is_installed():
    check_first(*fresh(FIRST), ['4'])


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_every_command_of_the_readme_works_where_nothing_is_installed():
    printed, passed = fresh(f'{FIRST}\n{REST}')
    check_first(printed, passed, ['4', '2'])
    assert printed.count('/usr/lib/python3/dist-packages/reigen/__init__.py\n') == 2


@pytest.mark.soak
@pytest.mark.timeout(2400)
def test_tests_pass_with_the_packages_that_make_check_installs():
    _, passed = fresh(TESTS)
    assert len(passed) == 3 and passed[0] > 30 and passed[1] > 10 and passed[2] > 100, passed
