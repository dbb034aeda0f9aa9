# SPDX-License-Identifier: Apache-2.0
"""Small helpers that scripts and the framework modules share."""
import contextlib
import functools
import importlib.util
import os
import re
import subprocess
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import reigen
from reigen._lib import quick

#: The framework modules that Horovod has.
EXTENSIONS = ['tensorflow', 'torch', 'mxnet']
#: How long a framework may take to be imported, in seconds.
IMPORT_SECONDS_MAX = 120


def get_average_backwards_compatibility_fun(reduce_ops=reigen):
    """A function (op, average) -> op that understands the old `average` argument."""

    def choose(op: Optional[int], average: Optional[bool]) -> int:
        if op is not None:
            if average is not None:
                raise ValueError('The op parameter supersedes average. Please provide only one of '
                                 'them.')
            return op
        if average is not None:
            warnings.warn('Parameter `average` has been replaced with `op` and will be removed in '
                          'v1.0',
                          DeprecationWarning, stacklevel=3)
            return reduce_ops.Average if average else reduce_ops.Sum
        return reduce_ops.Average

    return choose


def num_rank_is_power_2(num_rank: int) -> bool:
    return num_rank != 0 and num_rank & (num_rank - 1) == 0


def split_list(l: Sequence, n: int) -> List[Sequence]:  # noqa: E741 (Horovod's name)
    """The list in n runs whose lengths differ by at most one; never an empty run."""
    n = min(n, len(l))
    if n == 0:
        return []
    size, extra = divmod(len(l), n)
    cuts = [i * size + min(i, extra) for i in range(n + 1)]
    return [l[a:b] for a, b in zip(cuts, cuts[1:])]


def is_iterable(x: Any) -> bool:
    try:
        iter(x)
    except TypeError:
        return False
    return True


@contextlib.contextmanager
def env(**kwargs: Optional[str]) -> Iterator[None]:
    """Environment variables for the time of a with block; a value of None is passed over."""
    wanted = {name: value for name, value in kwargs.items() if value is not None}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _cache(function: Callable) -> Callable:
    """The function, which is called once for each set of arguments."""
    results: Dict[Any, Any] = {}

    @functools.wraps(function)
    def cached(*args, **kwargs):
        key = (args, frozenset(kwargs.items()))
        if key not in results:
            results[key] = function(*args, **kwargs)
        return results[key]

    return cached


# ---------------------------------------------------------------------------- versions

def _numbers(version: str) -> Tuple[Tuple[int, ...], bool]:
    """(its numbers without zeros at the end, True when it is no pre-release)."""
    match = re.match(r'\s*v?(\d+(?:\.\d+)*)\s*[.-]?(a|b|c|rc|alpha|beta|pre|dev)?', version)
    if not match:
        raise ValueError(f'{version!r} is not a version.')
    numbers = [int(part) for part in match[1].split('.')]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), match[2] is None


@_cache
def is_version_greater_equal_than(ver: str, target: str) -> bool:
    """ver >= target, where target is major.minor.patch; a pre-release comes before its release.
    ValueError for anything else."""
    for value in (ver, target):
        if not isinstance(value, str):
            raise ValueError(f'Versions are compared as strings; {value!r} is not one.')
    if len(target.split('.')) != 3:
        raise ValueError(f'The version to compare with must be major.minor.patch, not {target!r}.')
    return _numbers(ver) >= _numbers(target)


def check_installed_version(name: str, version: str,
                            exception: Optional[BaseException] = None) -> None:
    """Nothing: Reigen is not compiled against a framework, whose version could have changed."""


# ---------------------------------------------------------------------------- what is there

def get_ext_suffix() -> str:
    """How the file names of this Python's extension modules end."""
    import sysconfig  # takes a tenth of the time in which all of horovod.torch is imported
    return sysconfig.get_config_var('EXT_SUFFIX') or '.so'


def get_extension_full_path(pkg_path: str, *args: str) -> str:
    """Where Horovod keeps the extension that it compiles; Reigen has no such file."""
    return os.path.join(os.path.dirname(pkg_path), *args[:-1], args[-1] + get_ext_suffix())


def check_extension(ext_name: str, ext_env_var: str = '', pkg_path: str = '', *args: str) -> None:
    """ImportError for a framework that Reigen does not carry (MXNet); nothing is compiled, so
    there is nothing else to check."""
    if ext_name.rpartition('.')[2] == 'mxnet':
        raise ImportError('Extension horovod.mxnet has not been built: MXNet is archived, and '
                          'Reigen does not carry it.')


def _in_new_process(ext_base_name: str, expression: str, verbose: bool) -> Optional[str]:
    """What the expression over `ext`, the module horovod.<ext_base_name>, prints; None when the
    module cannot be imported. In a process of its own: frameworks are large, and some of them do
    not live together."""
    framework = 'keras' if ext_base_name == 'keras' else ext_base_name
    if not ext_base_name.isidentifier() or importlib.util.find_spec(framework) is None:
        return None
    packages = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    paths = [packages] + [p for p in [os.environ.get('PYTHONPATH')] if p]
    code = f'import horovod.{ext_base_name} as ext; print(); print({expression})'
    try:
        done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True,
                              timeout=IMPORT_SECONDS_MAX, stdin=subprocess.DEVNULL, check=False,
                              env={**os.environ, 'PYTHONPATH': os.pathsep.join(paths)})
    except subprocess.TimeoutExpired:
        return None
    if verbose and done.returncode:
        print(done.stderr, file=sys.stderr)
    return done.stdout.rstrip('\n').rpartition('\n')[2] if done.returncode == 0 else None


@_cache
def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether horovod.<ext_base_name> can be imported by this Python."""
    return _in_new_process(ext_base_name, 'True', verbose) == 'True'


@_cache
def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the framework sees a GPU."""
    return _in_new_process(ext_base_name, 'bool(ext._check_has_gpu())', verbose) == 'True'


def mpi_built(verbose: bool = False) -> bool:
    """As HorovodBasics.mpi_built()."""
    return True


def gloo_built(verbose: bool = False) -> bool:
    """As HorovodBasics.gloo_built()."""
    return True


def nccl_built(verbose: bool = False) -> int:
    """As HorovodBasics.nccl_built()."""
    return quick.reigen_nccl_version()


def ddl_built(verbose: bool = False) -> bool:
    return False


def ccl_built(verbose: bool = False) -> bool:
    return False
