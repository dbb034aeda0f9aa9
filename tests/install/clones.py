# SPDX-License-Identifier: Apache-2.0
"""Copies of the source tree, as a clone would have it, and make in them."""
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def source_files():
    git = subprocess.run(['git', 'ls-files', '-z', '-co', '--exclude-standard'], cwd=ROOT,
                         capture_output=True, text=True, check=False)
    assert git.returncode == 0, 'these tests need a git checkout'
    return [n for n in git.stdout.split('\0') if n and (ROOT / n).is_file()]


def copy_source(where):
    for name in source_files():
        (where / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, where / name)
    return where


def make_in(home, **variables):
    """make as a person has it whose home is this folder."""
    env = {'HOME': str(home), 'PATH': os.environ['PATH'], 'LANG': 'C.UTF-8', **variables}

    def run(tree, *arguments, timeout=300):
        done = subprocess.run(['make', *arguments], cwd=tree, env=env, timeout=timeout,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    return run
