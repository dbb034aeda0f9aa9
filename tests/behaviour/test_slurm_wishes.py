# SPDX-License-Identifier: Apache-2.0
"""What is asked of Slurm reaches salloc and sbatch as it was said, with programs in their place."""
import os
import subprocess

import pytest

import built

# Puts down what it was asked for, and gives nothing.
ASKED = '#!/bin/sh\nfor word; do echo "$word"; done >"${0%/*}/asked"\necho error: no >&2\nexit 1\n'
WISHES = ['--nodes', '2', '--nodelist', 'n[1-2]', '--exclude', 'n3', '--partition', 'first',
          '--account', 'a b', '--time', '1-2:00', '--gres', 'gpu:4',
          '--slurm-option=--constraint=ib', '--slurm-option=--comment=two  words']
WORDS = ['--nodes=2', '--ntasks=8', '--nodelist=n[1-2]', '--exclude=n3', '--partition=first',
         '--account=a b', '--time=1-2:00', '--gres=gpu:4', '--constraint=ib',
         '--comment=two  words']
LIMIT_S = 60


@pytest.mark.parametrize('program,option', [('salloc', []), ('sbatch', ['--submit'])])
def test_what_is_wished_for_is_asked_for(tmp_path, program, option):
    path = tmp_path / program
    path.write_text(ASKED)
    path.chmod(0o755)
    env = built.environment(PATH=f'{tmp_path}:{os.environ["PATH"]}', HOME=tmp_path)
    done = subprocess.run([built.PROGRAMS.reigen, 'run', '--on', 'slurm', '-np', '8', *WISHES,
                           *option, 'true'], env=env, cwd=tmp_path, capture_output=True, text=True,
                          timeout=LIMIT_S, check=False)
    assert done.returncode == 69 and 'error: no' in done.stderr, done.stderr
    asked = (tmp_path / 'asked').read_text().splitlines()
    end = asked.index('--') if '--' in asked else len(asked)
    assert sorted(set(WORDS) - set(asked[:end])) == [], asked
