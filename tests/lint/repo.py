# SPDX-License-Identifier: Apache-2.0
"""The source files of the repository, and what the lint tests need to read them."""
import functools
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get('REIGEN_TEST_BUILD', ROOT / 'build'))
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*', re.S)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')


@functools.lru_cache(maxsize=None)
def files():
    """Every file that is, or would be, committed; all files where this is no git checkout."""
    git = subprocess.run(['git', 'ls-files', '-z', '-co', '--exclude-standard'], cwd=ROOT,
                         capture_output=True, text=True, check=False)
    if git.returncode == 0 and git.stdout:
        names = [n for n in git.stdout.split('\0') if n]
    else:
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob('*')
                 if not re.match(r'(build[^/]*|\.venv|\.git)(/|$)', str(p.relative_to(ROOT)))]
    return sorted(ROOT / n for n in names if (ROOT / n).is_file())


def with_suffix(*suffixes, under=''):
    return [p for p in files() if p.suffix in suffixes and name(p).startswith(under)]


@functools.lru_cache(maxsize=None)
def read(path):
    """The text of a file, or None where it is not text."""
    data = path.read_bytes()
    if b'\0' in data[:4096]:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def name(path):
    return str(path.relative_to(ROOT))


def report(problems):
    """Fail with every problem at once, one per line."""
    assert not problems, '\n' + '\n'.join(problems)
