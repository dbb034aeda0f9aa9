# SPDX-License-Identifier: Apache-2.0
"""Whether the real Horovod is installed, too: it has the same import name.

Looks at the names in the directories of sys.path that hold a package horovod, and opens nothing.
"""
import os
import re
import sys
import warnings
from typing import Iterator, Tuple

_INFO = re.compile(r'horovod-([^-]+?)(?:-py[\d.]+)?\.(?:dist-info|egg-info|egg)$')
OURS = '+reigen'


def others(own: str) -> Iterator[Tuple[str, str]]:
    """(directory, version) of each Horovod that is not Reigen's; own: the directory we lie in."""
    seen = set()
    for entry in [own, *sys.path]:
        path = os.path.realpath(entry or os.curdir)
        if path in seen or not os.path.isdir(os.path.join(path, 'horovod')):
            continue
        seen.add(path)
        try:
            names = os.listdir(path)
        except OSError:
            continue
        for name in names:
            match = _INFO.match(name)
            if match and not match[1].replace('_', '+').endswith(OURS):
                yield path, match[1]


def check() -> None:
    """ImportError when Horovod's files lie among ours, a warning when they lie elsewhere."""
    own = os.path.realpath(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for path, version in others(own):
        if path == own:
            raise ImportError(
                f'Horovod {version} is installed in {path}, where Reigen\'s package horovod lies: '
                'the files of both are mixed. Remove both and install Reigen again: pip uninstall '
                '-y horovod reigen, then pip install both of Reigen\'s wheels.')
        warnings.warn(f'Horovod {version} in {path} is not used: Reigen\'s package horovod in '
                      f'{own} comes first. pip uninstall horovod removes it.', RuntimeWarning,
                      stacklevel=3)
