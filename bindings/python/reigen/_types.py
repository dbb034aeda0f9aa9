# SPDX-License-Identifier: Apache-2.0
"""Element types, by number and by name.

The runtime reduces the types of `CODES`. Every other type of a framework is added to it by name and
size when it is first used: its elements can be moved, and complex ones also summed and averaged.
The number of such a type is this process's own; ranks compare names.
"""
import ctypes
from typing import Dict, Optional, Tuple

from reigen import _core
from reigen._lib import quick

#: By name: enum reigen_dtype.
CODES: Dict[str, int] = {'uint8': 0, 'int8': 1, 'uint16': 2, 'int16': 3, 'int32': 4, 'int64': 5,
                         'float16': 6, 'float32': 7, 'float64': 8, 'bool': 9, 'bfloat16': 10}
#: The types that a complex number consists of.
_PARTS = {'complex32': 'float16', 'complex64': 'float32', 'complex128': 'float64'}
#: What stands for a name that is too long.
_NAME_MAX = 47

_added: Dict[Tuple[str, int], int] = {}
_names: Dict[int, str] = {number: name for name, number in CODES.items()}


def add(name: str, nbytes: int, parts: Optional[int] = None) -> int:
    """The number of a type that is none of CODES, whose elements have so many bytes. parts: the
    type that they are summed as, where that is not known by the name. ValueError where the runtime
    cannot take it."""
    number = _added.get((name, nbytes))
    if number is None:
        found = ctypes.c_int()
        short = _printable(name)
        if parts is None:
            parts = CODES.get(_PARTS.get(name, ''), -1)
        rc = quick.reigen_type_add(short.encode(), nbytes, parts, ctypes.byref(found))
        if rc < 0:
            raise ValueError(_core.last_error())
        number = _added[name, nbytes] = found.value
        _names[number] = short
    return number


def name_of(number: int) -> str:
    """The name of a type that this process has used."""
    return _names[number]


def _printable(name: str) -> str:
    """The name as the runtime takes it: where something must be left out, a digest tells it from
    other names."""
    plain = ''.join(c if ' ' <= c <= '~' and c not in '"\\' else '?' for c in name)
    if plain == name and len(name) <= _NAME_MAX:
        return name
    import hashlib  # it is needed for such names only
    digest = hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]
    return f'{plain[:_NAME_MAX - len(digest) - 4]}... {digest}'
