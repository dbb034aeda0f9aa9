# SPDX-License-Identifier: Apache-2.0
"""The agent for hosts of another architecture, run for real by qemu's user emulation."""
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REIGEN = ROOT / 'build/src/programs/reigen'
OTHER = 'x86_64' if platform.machine() == 'aarch64' else 'aarch64'
SIZE_MAX = 512 << 10


@pytest.fixture(scope='module')
def agent():
    done = subprocess.run([sys.executable, ROOT / 'tools/cross.py', OTHER], capture_output=True,
                          text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.fixture
def emulated(agent, tmp_path):
    """A program that is the agent under emulation."""
    qemu = shutil.which(f'qemu-{OTHER}-static')
    assert qemu, 'qemu-user-static is not installed; tools/deps.sh check-all installs it'
    wrapper = tmp_path / 'agent'
    wrapper.write_text(f'#!/bin/sh\nexec {qemu} {agent} "$@"\n')
    wrapper.chmod(0o755)
    return wrapper


def test_the_other_architectures_agent_is_static_and_small(agent):
    told = subprocess.run(['readelf', '-h', '-l', agent], capture_output=True, text=True,
                          timeout=30, check=True).stdout
    assert ('AArch64' if OTHER == 'aarch64' else 'X86-64') in told
    assert 'INTERP' not in told
    assert agent.stat().st_size <= SIZE_MAX


@pytest.mark.timeout(120)
def test_a_job_runs_under_the_other_architectures_agent(emulated, tmp_path):
    # Rank 1 does not fail before rank 0 has got its input.
    script = ('cat; echo rank $RANK of $WORLD_SIZE; test $RANK = 1 || exec touch done; '
              'until test -e done; do sleep 0.05; done; exit 7')
    done = subprocess.run([REIGEN, 'run', '-np', '2', '--', 'sh', '-c', script], cwd=tmp_path,
                          env={'PATH': '/usr/bin:/bin', 'REIGEN_AGENT': str(emulated)},
                          input='words\n', capture_output=True, text=True, timeout=100,
                          check=False)
    assert done.returncode == 7, done.stderr
    assert sorted(done.stdout.splitlines()) == ['[0] rank 0 of 2', '[0] words',
                                                '[1] rank 1 of 2']
    assert 'rank 1 on localhost failed first: exit code 7' in done.stderr
