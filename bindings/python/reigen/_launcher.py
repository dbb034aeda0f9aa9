# SPDX-License-Identifier: Apache-2.0
"""Where the launcher, the program `reigen`, lies."""
import os
import shutil
import sys
import sysconfig
from typing import List


def _candidates() -> List[str]:
    """Best first: named, beside this python, where pip puts programs, in the build tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    prefix = os.path.normpath(os.path.join(here, '..', '..', '..', '..'))
    tree = os.path.normpath(os.path.join(here, '..', '..', '..', 'build', 'src', 'cmd'))
    dirs = [os.path.dirname(sys.executable or ''), sysconfig.get_path('scripts'),
            os.path.join(prefix, 'bin')]
    if os.name + '_user' in sysconfig.get_scheme_names():
        dirs.append(sysconfig.get_path('scripts', os.name + '_user'))
    dirs.append(tree)
    return [os.path.join(d, 'reigen') for d in dirs if d]


def find() -> str:
    """The path of the program; FileNotFoundError that says what to do when there is none."""
    named = os.environ.get('REIGEN_LAUNCHER')
    if named:
        if os.access(named, os.X_OK):
            return named
        raise FileNotFoundError(f'REIGEN_LAUNCHER is {named}, which is no program.')
    for path in _candidates():
        if os.access(path, os.X_OK):
            return path
    found = shutil.which('reigen')
    if found:
        return found
    raise FileNotFoundError('The program reigen was not found beside this python or in PATH; '
                            'install Reigen again, or name it in REIGEN_LAUNCHER.')
