# SPDX-License-Identifier: Apache-2.0
"""make deb, and what dpkg says of it. tests/fresh installs it."""
import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

import travels

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run(*argv, **kwargs):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=120,
                          check=False, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_package_for_this_debian(tmp_path):
    printed = run('make', 'deb', 'URL=https://example.org/reigen', cwd=ROOT)
    deb = ROOT / re.search(r'^(build/dist/reigen_[\d.]+_\w+\.deb) ', printed, re.M)[1]
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    run('make', 'deb', 'URL=https://example.org/reigen', cwd=ROOT)
    assert hashlib.sha256(deb.read_bytes()).hexdigest() == digest, 'another build, other bytes'
    needs = run('dpkg-deb', '-f', deb, 'Depends')
    assert 'libsodium23 (' in needs and 'libc6 (' in needs and 'python3' in needs
    assert run('dpkg-deb', '-f', deb, 'Homepage') == 'https://example.org/reigen\n'
    run('dpkg-deb', '-x', deb, tmp_path)
    for name in ('bin/reigen', 'bin/reigen-agent', 'bin/horovodrun', 'lib/libreigen.so',
                 'lib/python3/dist-packages/horovod/torch/__init__.py',
                 'share/man/man1/reigen.1.gz', 'share/doc/reigen/copyright',
                 'share/doc/reigen/examples/pytorch_mnist.py',
                 'share/doc/reigen/licenses/musl', 'share/doc/reigen/licenses/bearssl'):
        assert (tmp_path / 'usr' / name).exists(), name
    for path in tmp_path.rglob('*'):
        assert path.exists(), f'{path} leads nowhere'
        assert path.is_symlink() or not path.stat().st_mode & 0o022, f'others can write {path}'
    assert not [p for p in tmp_path.rglob('__pycache__')]
    sums = {line.split('  ', 1)[1]: line.split()[0]
            for line in run('dpkg-deb', '-I', deb, 'md5sums').splitlines()}
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob('*')
             if p.is_file() and not p.is_symlink()}
    assert set(sums) == files
    home = tmp_path / 'home'
    home.mkdir()
    travels.check(travels.unpacked(tmp_path / 'usr/bin/reigen', home))
    assert run(tmp_path / 'usr/bin/reigen', 'version', env={**os.environ}) == 'reigen 0.1.0\n'
