# SPDX-License-Identifier: Apache-2.0
"""Reports of stalls say in which line of Python a rank is: the runtime has faulthandler write the
stacks down, which takes no lock of the interpreter. No signal is sent for it; see stacks.h.
"""
import ctypes
import faulthandler
import os
import signal
import sysconfig
from typing import Optional

from reigen._lib import lib, quick

VARIABLE = 'REIGEN_STACK_SIGNAL'


def wanted() -> Optional[int]:
    """The signal that the variable names; 0: any; None: none is to be used."""
    text = os.environ.get(VARIABLE, '')
    if not text:
        return 0
    number = int(text) if text.isdigit() else getattr(signal, text.upper(), None)
    if number is None or number < 0 or number >= signal.NSIG:
        raise ValueError(f'{VARIABLE}={text}: give the name or the number of a signal, or 0 for '
                         'none')
    return int(number) or None


def _directories():
    """Reigen's own, and those of libraries."""
    here = os.path.dirname(os.path.abspath(__file__))
    own = [here, os.path.join(os.path.dirname(here), 'horovod')]
    paths = sysconfig.get_paths()
    others = [paths[name] for name in ('stdlib', 'platstdlib', 'purelib', 'platlib')]
    return [os.fsencode(':'.join(dict.fromkeys(names))) for names in (own, others)]


def begin(signum: Optional[int]) -> None:
    """From now on, by the signal that is wanted. Where it is not free, the line is not known."""
    if signum is None:
        return
    number = ctypes.c_int(signum)
    fd = quick.reigen_stacks_file(ctypes.byref(number))
    if fd < 0:
        return
    try:
        faulthandler.register(number.value, file=fd, all_threads=True, chain=False)
    except (AttributeError, OSError, RuntimeError, ValueError):
        return
    quick.reigen_stacks_use(number.value, *_directories())


def end() -> None:
    """Before the interpreter ends."""
    lib.reigen_stacks_use(0, None, None)
