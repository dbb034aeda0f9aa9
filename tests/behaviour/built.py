# SPDX-License-Identifier: Apache-2.0
"""Where launcher, agent, library and python are, and the environment that tests start them with.

With REIGEN_TEST_BUILD they are those of that build directory, which is how make check runs the
tests marked `sanitize` with the sanitizers' builds.
"""
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]
# set by tools/check.py for the sanitizers' builds only
SANITIZER = os.environ.get('REIGEN_TEST_SANITIZER')
#: Of what launcher, agents and ranks say to each other.
PROTOCOL = int(re.search(r'define RG_PROTOCOL_VERSION (\d+)',
                         (ROOT / 'src/wire/link.h').read_text('utf-8'))[1])


def find_programs():
    named = os.environ.get('REIGEN_TEST_BUILD')
    build = Path(named) if named else ROOT / 'build'
    venv = ROOT / '.venv/bin'
    # Launcher and agent have one thread, in which ThreadSanitizer finds nothing.
    programs = build if SANITIZER != 'tsan' else ROOT / 'build'
    return SimpleNamespace(
        reigen=programs / 'src/programs/reigen' if named else venv / 'reigen',
        agent=programs / 'src/programs/agent/reigen-agent' if named else venv / 'reigen-agent',
        library=build / 'src/coll/libreigen.so', python=venv / 'python', build=build)


PROGRAMS = find_programs()


def preload():
    """The sanitizer's library, which has to come first in a process that loads our library."""
    if not SANITIZER:
        return {}
    name = {'asan': 'libasan.so', 'tsan': 'libtsan.so'}[SANITIZER]
    path = subprocess.run(['cc', f'-print-file-name={name}'], capture_output=True, text=True,
                          check=True).stdout.strip()
    # python itself leaks.
    asan = os.environ.get('ASAN_OPTIONS', '') + ':detect_leaks=0'
    return {'LD_PRELOAD': str(Path(path).resolve()), 'ASAN_OPTIONS': asan}


def environment(**more):
    """The caller's environment without what would reach into a job, and with the build's files."""
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith(('HOROVOD_', 'REIGEN_')) and
            k not in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'MASTER_ADDR', 'MASTER_PORT')}
    if 'REIGEN_TEST_BUILD' in os.environ:
        keep |= {'REIGEN_AGENT': str(PROGRAMS.agent), 'REIGEN_LIBRARY': str(PROGRAMS.library)}
    keep['REIGEN_CONFIG'] = ''  # the tester's own is none of ours
    return {**keep, **{k: str(v) for k, v in more.items()}}
