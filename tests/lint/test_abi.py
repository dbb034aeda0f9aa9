# SPDX-License-Identifier: Apache-2.0
"""The public C interface keeps what docs/compatibility.md promises."""
import re
import subprocess

import abi
import repo


def test_the_header_declares_what_was_promised_and_nothing_unrecorded():
    promised = (repo.ROOT / 'tests/lint/abi.txt').read_text().splitlines()
    there = abi.interface()
    assert len(there) > 60
    repo.report([f'gone or changed: {line}' for line in promised if line not in there] +
                [f'new, to be recorded in abi.txt: {line}' for line in there
                 if line not in promised])


def test_the_library_exports_what_the_header_declares():
    library = repo.BUILD / 'src/coll/libreigen.so'
    done = subprocess.run(['nm', '-D', '--defined-only', library], capture_output=True, text=True,
                          check=True)
    exported = {line.split()[-1] for line in done.stdout.splitlines()}
    declared = set(re.findall(r'\b(reigen_\w+)\(', '\n'.join(abi.interface())))
    assert exported == declared


def test_the_versions_agree():
    header = repo.read(repo.ROOT / 'include/reigen/reigen.h')
    parts = [re.search(rf'REIGEN_VERSION_{part} (\d+)', header)[1]
             for part in ('MAJOR', 'MINOR', 'PATCH')]
    version = '.'.join(parts)
    assert f"version: '{version}'" in repo.read(repo.ROOT / 'meson.build')
    assert f'\n## {version} ' in repo.read(repo.ROOT / 'CHANGELOG.md')
