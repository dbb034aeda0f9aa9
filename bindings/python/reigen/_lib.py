# SPDX-License-Identifier: Apache-2.0
"""libreigen.so through ctypes: finding it, and the types of its functions.

`lib` releases the GIL during each call and is used for all that may block or move data. `quick`
holds it, which is cheaper, and is used for calls that only look something up. A C thread takes the
GIL in the functions of reigen_on_done alone, when it holds no lock of the runtime, so a call
through `quick` cannot deadlock with one through `lib`.

Pointers are passed as plain ints (c_void_p): making ctypes objects costs more than the calls.
"""
import ctypes
import os
from ctypes import (POINTER, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64,
                    c_void_p)

NDIM_MAX = 16


class Options(ctypes.Structure):
    """struct reigen_options"""
    _fields_ = [('op', c_int), ('root', c_int), ('prescale', c_double), ('postscale', c_double),
                ('process_set', c_int), ('group_size', c_int)]

    def __init__(self, op: int = 1, root: int = 0, prescale: float = 1.0, postscale: float = 1.0,
                 process_set: int = 0):
        super().__init__(op, root, prescale, postscale, process_set, 0)


class InitOptions(ctypes.Structure):
    """struct reigen_init_options"""
    _fields_ = [('timeout_ms', c_int), ('ranks', POINTER(c_int)), ('nranks', c_int)]


#: struct reigen_meeting's function; ret_blobs and ret_nbytes as plain addresses.
Fence = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p)


class Meeting(ctypes.Structure):
    """struct reigen_meeting"""
    _fields_ = [('rank', c_int), ('size', c_int), ('fence', Fence), ('arg', c_void_p)]


class Epoch(ctypes.Structure):
    """struct reigen_epoch"""
    _fields_ = [('number', c_int), ('sync', c_int), ('update', c_int), ('stamp', c_uint64)]


#: What reigen_on_done calls: arg, handle, status.
Done = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_int)


class Stats(ctypes.Structure):
    """struct reigen_stats"""
    _fields_ = [(name, c_uint64) for name in
                ('operations', 'bytes', 'wait_ns', 'busy_ns', 'cache_hits', 'fused')]


_TENSOR = [c_int, c_void_p, c_int]  # dtype, shape, ndim
_OPTIONS = POINTER(Options)
_HANDLE = POINTER(c_int64)
_PROTOTYPES = {
    'reigen_deterministic': (c_int, [c_int]),
    'reigen_type_add': (c_int, [c_char_p, c_size_t, c_int, POINTER(c_int)]),
    'reigen_init': (c_int, [POINTER(InitOptions)]),
    'reigen_init_meeting': (c_int, [POINTER(Meeting), c_int]),
    'reigen_shutdown': (c_int, []),
    'reigen_is_initialized': (c_int, []),
    'reigen_rank': (c_int, []),
    'reigen_size': (c_int, []),
    'reigen_local_rank': (c_int, []),
    'reigen_local_size': (c_int, []),
    'reigen_cross_rank': (c_int, []),
    'reigen_cross_size': (c_int, []),
    'reigen_is_homogeneous': (c_int, []),
    'reigen_epoch': (c_int, [POINTER(Epoch)]),
    'reigen_elastic': (c_int, [c_int]),
    'reigen_preemptible': (c_int, []),
    'reigen_apart': (c_int, [c_int]),
    'reigen_step': (c_int, []),
    'reigen_failing': (c_int, []),
    'reigen_allreduce_async':
        (c_int, [c_char_p, c_void_p, c_void_p, *_TENSOR, _OPTIONS, _HANDLE]),
    'reigen_allgather_async': (c_int, [c_char_p, c_void_p, *_TENSOR, _OPTIONS, _HANDLE]),
    'reigen_broadcast_async':
        (c_int, [c_char_p, c_void_p, c_void_p, *_TENSOR, _OPTIONS, _HANDLE]),
    'reigen_alltoall_async':
        (c_int, [c_char_p, c_void_p, *_TENSOR, c_void_p, c_int, _OPTIONS, _HANDLE]),
    'reigen_reducescatter_async': (c_int, [c_char_p, c_void_p, *_TENSOR, _OPTIONS, _HANDLE]),
    'reigen_into_async':
        (c_int, [c_int, c_char_p, c_void_p, c_void_p, c_int, c_size_t, _OPTIONS, _HANDLE]),
    'reigen_grouped_async':
        (c_int, [c_int, c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p, _OPTIONS,
                 c_void_p]),
    'reigen_barrier_async': (c_int, [_OPTIONS, _HANDLE]),
    'reigen_join_async': (c_int, [_HANDLE]),
    'reigen_use_device': (c_int, [c_int, c_void_p]),
    'reigen_nccl_version': (c_int, []),
    'reigen_poll': (c_int, [c_int64]),
    'reigen_wait': (c_int, [c_int64, c_int]),
    'reigen_wait_us': (c_int, [c_int64, c_int64]),
    'reigen_on_done': (c_int, [c_int64, Done, c_void_p]),
    'reigen_wait_all': (c_int, [c_int, c_void_p, c_int]),
    'reigen_output':
        (c_int, [c_int64, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_int64), POINTER(c_int)]),
    'reigen_output_copy': (c_int, [c_int64, c_void_p, c_size_t]),
    'reigen_received_splits': (c_int, [c_int64, POINTER(c_int32), c_int]),
    'reigen_handle_error': (c_char_p, [c_int64]),
    'reigen_release': (c_int, [c_int64]),
    'reigen_release_all': (c_int, [c_int, c_void_p]),
    'reigen_process_set_add': (c_int, [POINTER(c_int), c_int, POINTER(c_int)]),
    'reigen_process_set_meet': (c_int, [POINTER(Meeting), POINTER(c_int), c_int, POINTER(c_int)]),
    'reigen_process_set_remove': (c_int, [c_int]),
    'reigen_process_set_rank': (c_int, [c_int]),
    'reigen_process_set_size': (c_int, [c_int]),
    'reigen_process_set_included': (c_int, [c_int]),
    'reigen_process_set_ranks': (c_int, [c_int, POINTER(c_int), c_int]),
    'reigen_process_set_ids': (c_int, [POINTER(c_int), c_int]),
    'reigen_request_create':
        (c_int, [c_int, c_char_p, *_TENSOR, _OPTIONS, POINTER(c_void_p)]),
    'reigen_request_start': (c_int, [c_void_p, c_void_p, c_void_p]),
    'reigen_request_test': (c_int, [c_void_p]),
    'reigen_request_wait': (c_int, [c_void_p, c_int]),
    'reigen_request_run': (c_int, [c_void_p, c_void_p, c_void_p, c_int]),
    'reigen_request_error': (c_char_p, [c_void_p]),
    'reigen_request_free': (None, [c_void_p]),
    'reigen_last_error': (c_char_p, []),
    'reigen_version': (c_char_p, []),
    'reigen_describe': (c_char_p, []),
    'reigen_mpi': (c_int, []),
    'reigen_get_stats': (c_int, [POINTER(Stats)]),
    'reigen_timeline_start': (c_int, [c_char_p, c_int]),
    'reigen_timeline_stop': (c_int, []),
    'reigen_diagnose': (c_int, [c_int, POINTER(c_void_p)]),
    'reigen_stacks_file': (c_int, [POINTER(c_int)]),
    'reigen_stacks_use': (c_int, [c_int, c_char_p, c_char_p]),
    'reigen_planes': (c_int, [POINTER(c_void_p)]),
    'reigen_free': (None, [c_void_p]),
}


def _candidates():
    """Where the library may lie, best first: named, installed beside us, in the build tree."""
    named = os.environ.get('REIGEN_LIBRARY')
    if named:
        return [named]
    here = os.path.dirname(os.path.abspath(__file__))
    tree = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(here))), 'build', 'src')
    return [os.path.join(here, 'libreigen.so'), os.path.join(tree, 'coll', 'libreigen.so'),
            os.path.join(tree, 'libreigen.so')]


def _declare(library):
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


def _load():
    tried = _candidates()
    path = next((p for p in tried if os.path.exists(p)), None)
    if path is None:
        raise ImportError('libreigen.so was not found; looked for ' + ', '.join(tried)
                          + '. Run make in the source tree, or name it in REIGEN_LIBRARY.')
    try:
        library = ctypes.CDLL(path)
        return path, _declare(library), _declare(ctypes.PyDLL(path, handle=library._handle))
    except (OSError, AttributeError) as error:
        raise ImportError(f'{path} cannot be used as libreigen.so, which needs glibc 2.28 or '
                          f'later: {error}') from error


def has_driver() -> bool:
    """Whether this computer has NVIDIA's driver. It is not started: a process that has started it
    cannot fork ranks that use it."""
    try:
        ctypes.CDLL('libcuda.so.1')
    except OSError:
        return False
    return True


path, lib, quick = _load()
