# SPDX-License-Identifier: Apache-2.0
"""What an installation sends to hosts and mounts into images, and what that needs there."""
import os
import re
import subprocess
from pathlib import Path

GLIBC = (2, 28)
GLIBCS_OWN = re.compile(r'(libc|libm|libdl|librt|libpthread|ld-linux-[\w-]+)\.so\.\d')
#: What is there wherever the library of this name is asked for.
BESIDE = {'libreigen_jax.so': {'libreigen.so'},
          'libreigen_tensorflow.so': {'libreigen.so', 'libtensorflow_framework.so.2',
                                      'libstdc++.so.6'}}
LIBRARIES = {'libreigen.so', 'libreigen_jax.so', 'libreigen_tensorflow.so',
             'libreigen_membership.so',
             *(f'libreigen_mpi_{abi}.so' for abi in ('ompi', 'mpich', 'abi'))}


def unpacked(reigen, home):
    """The packages as this launcher packs them and an agent unpacks them. home is new; but another
    run, without a home, may have left the same archive in another of the agent's places."""
    done = subprocess.run(
        [reigen, 'run', '--no-tag-output', '-np', '1', '--inject-runtime', '--', 'sh', '-c',
         'echo "$PYTHONPATH"'],
        env={'HOME': str(home), 'PATH': os.environ['PATH']}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip().split(':')[-1])
    assert folder.name.startswith('bundle-') and folder.is_dir(), done.stdout
    return folder


def check(folder):
    """Every compiled file needs glibc 2.28 and nothing else, and has nothing that is only for
    debuggers: no sections, so that names of versions are looked for where the loader reads them."""
    seen = {path.name: path for path in folder.rglob('*')
            if path.is_file() and path.read_bytes()[:4] == b'\x7fELF'}
    assert set(seen) == LIBRARIES
    for name, path in seen.items():
        said = subprocess.run(['readelf', '-Wd', path], capture_output=True, text=True, timeout=60,
                              check=True).stdout
        needs = set(re.findall(r'NEEDED.*\[(.*)\]', said))
        others = {need for need in needs if not GLIBCS_OWN.fullmatch(need)}
        assert needs and others <= BESIDE.get(name, set()), name
        text = path.read_bytes()
        versions = {tuple(map(int, version.split(b'.')))
                    for version in re.findall(rb'(?<=\0)GLIBC_([\d.]+)(?=\0)', text)}
        assert versions and max(versions) <= GLIBC, (name, versions)
        assert b'.debug_info' not in text and b'.symtab' not in text, name
