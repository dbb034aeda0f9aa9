# SPDX-License-Identifier: Apache-2.0
"""libreigen_jax.so: finding it, and telling XLA of its one target, for each platform."""
import ctypes
import os
from typing import Any, List

from reigen import _core, _lib

#: XLA knows the handler by this name.
TARGET = 'reigen_collective'
#: With JAX 0.4.36 a program of many collectives on one thread has waited for ever; between the two
#: nothing was tested.
OLDEST = (0, 10)
TESTED = '0.10.2'


def unsuited(why: str) -> ImportError:
    """An error for a JAX with which programs could give wrong results or wait for ever."""
    import jax
    return ImportError(
        f'reigen.jax cannot be used with JAX {jax.__version__}: {why}. It works with JAX '
        f'{".".join(map(str, OLDEST))} and later, and was tested with {TESTED}.')


def _ffi() -> Any:
    try:
        import jax
    except ImportError as error:
        raise ImportError('JAX is not installed: pip install jax') from error
    if jax.__version_info__[:2] < OLDEST:
        raise unsuited('its XLA may hold up a thread for each collective in flight')
    try:
        from jax import ffi
    except ImportError as error:
        raise unsuited('it has no module jax.ffi') from error
    return ffi


def _candidates() -> List[str]:
    """Beside libreigen.so, beside the package, or where the build tree has it."""
    named = os.environ.get('REIGEN_JAX_LIBRARY')
    if named:
        return [named]
    where = os.path.dirname(_lib.path)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return [os.path.join(folder, 'libreigen_jax.so') for folder in (
        where, os.path.join(where, '..', '..', 'bindings', 'jax'),
        os.path.join(where, '..', 'bindings', 'jax'), package)]


def _load() -> Any:
    tried = _candidates()
    path = next((p for p in tried if os.path.exists(p)), None)
    if path is None:
        raise ImportError('libreigen_jax.so was not found; looked for ' + ', '.join(tried)
                          + '. Run make in the source tree, or name it in REIGEN_JAX_LIBRARY.')
    try:
        # It asks for libreigen.so by that name, which is loaded already.
        return ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f'{path} cannot be loaded: {error}') from error


def register() -> Any:
    """Load the library and register the target for CPUs and for CUDA devices, which JAX tells its
    CUDA plugin once that is loaded. Returns JAX's module ffi."""
    ffi = _ffi()
    library = _load()
    # While the runtime shuts down, the library's thread must not look into it.
    _core.before_shutdown.append(library.reigen_jax_pause)
    _core.after_shutdown.append(library.reigen_jax_resume)
    for platform, handler in (('cpu', library.reigen_jax_collective),
                              ('CUDA', library.reigen_jax_collective_cuda)):
        ffi.register_ffi_target(TARGET, ffi.pycapsule(handler), platform=platform)
    return ffi
