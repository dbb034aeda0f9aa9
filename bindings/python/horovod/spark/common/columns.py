# SPDX-License-Identifier: Apache-2.0
"""Columns of Parquet as numpy arrays: what each holds by its Arrow type, and how it is decoded.

    number, boolean, decimal     an array of so many numbers as rows
    array of numbers (of arrays) an array of rows x its shape, which all rows share
    vector of Spark's ML         the same, dense, also where it is stored sparse
    bytes                        rows x length of uint8, if all have one length; else objects
    text                         objects
"""
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np
import pyarrow as pa
from pyarrow import types

#: For errors.
TAKEN = ('numbers, booleans, arrays of them that all have one shape, vectors of Spark\'s ML, '
          'bytes and text')
_VECTOR = {'type', 'size', 'indices', 'values'}


class Column(NamedTuple):
    """kind: 'number', 'array', 'vector', 'bytes' or 'text'. shape: of one row's value; bytes that
    differ in length have ()."""
    name: str
    kind: str
    dtype: str
    shape: Tuple[int, ...]


def _is_list(kind: Any) -> bool:
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _number(kind: Any) -> str:
    """numpy's name of a type of numbers; '' for any other."""
    if types.is_decimal(kind):
        return 'float64'
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(kind.to_pandas_dtype()).name
    return ''


def _innermost(kind: Any) -> Any:
    while _is_list(kind):
        kind = kind.value_type
    return kind


def _shape(value: Any) -> Tuple[int, ...]:
    """Of nested lists, by their first elements."""
    shape: List[int] = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return tuple(shape)


def describe(field: Any, first: Any) -> Column:
    """The column of a pyarrow field. first: its value in the first row, as Python has it."""
    kind, name = field.type, field.name
    if _number(kind):
        return Column(name, 'number', _number(kind), ())
    if types.is_binary(kind) or types.is_large_binary(kind):
        return Column(name, 'bytes', 'uint8', (len(first),) if first else ())
    if types.is_string(kind) or types.is_large_string(kind):
        return Column(name, 'text', 'object', ())
    if first is None:
        first = {} if types.is_struct(kind) else []
    if types.is_struct(kind) and {kind.field(i).name for i in range(kind.num_fields)} == _VECTOR:
        size = first.get('size')
        return Column(name, 'vector', 'float64',
                      (len(first.get('values') or ()) if size is None else size,))
    if _is_list(kind) and _number(_innermost(kind)):
        return Column(name, 'array', _number(_innermost(kind)), _shape(first))
    raise TypeError(f'column {name!r} is {kind}: estimators take {TAKEN}')


class Null(ValueError):
    """There is no value in a row."""


def _no_null(column: Column, array: Any, within: bool = False) -> None:
    if array.null_count:
        where = 'arrays with ' if within else ''
        raise Null(f'column {column.name!r} has {where}nulls: fill them (df.na.fill), drop their '
                   'rows (df.na.drop), or replace them by transformation_fn')


def _flat(column: Column, array: Any) -> np.ndarray:
    if types.is_decimal(array.type):
        array = array.cast(pa.float64())
    return array.to_numpy(zero_copy_only=False)


def _uneven(column: Column, found: Any) -> ValueError:
    return ValueError(f'column {column.name!r} has a row of {found} elements, and the first row is '
                      f'of shape {column.shape}: estimators take one shape for all rows')


def _check_lengths(column: Column, array: Any, length: int) -> None:
    found = array.value_lengths().to_numpy(zero_copy_only=False)
    if (found != length).any():
        raise _uneven(column, found[found != length][0])


def _array(column: Column, array: Any) -> np.ndarray:
    rows = len(array)
    for length in column.shape:
        if not _is_list(array.type):
            raise _uneven(column, 'other')
        _no_null(column, array)
        _check_lengths(column, array, length)
        array = array.flatten()
    _no_null(column, array, within=True)
    return _flat(column, array).reshape(rows, *column.shape)


def _vector(column: Column, array: Any) -> np.ndarray:
    parts = dict(zip([array.type.field(i).name for i in range(array.type.num_fields)],
                     array.flatten()))
    rows, length = len(array), column.shape[0]
    dense = parts['type'].to_numpy(zero_copy_only=False) == 1
    values = parts['values']
    flat = values.flatten().to_numpy(zero_copy_only=False)
    if dense.all():
        _check_lengths(column, values, length)
        return flat.reshape(rows, length)
    counts = values.value_lengths().to_numpy(zero_copy_only=False)
    sizes = np.where(dense, counts, parts['size'].fill_null(0).to_numpy(zero_copy_only=False))
    if (sizes != length).any():
        raise _uneven(column, sizes[sizes != length][0])
    out = np.zeros((rows, length))
    of_dense = np.repeat(dense, counts)
    out[dense] = flat[of_dense].reshape(-1, length)
    at = np.repeat(np.arange(rows), counts)[~of_dense]
    out[at, parts['indices'].flatten().to_numpy(zero_copy_only=False)] = flat[~of_dense]
    return out


def _bytes(column: Column, array: Any) -> np.ndarray:
    rows = len(array)
    if column.shape and not array.null_count:
        lengths = pa.compute.binary_length(array).to_numpy(zero_copy_only=False)
        if (lengths == column.shape[0]).all():
            array = pa.concat_arrays([array])  # its bytes from the first on
            first = array.offset
            width = np.int64 if types.is_large_binary(array.type) else np.int32
            offsets = np.frombuffer(array.buffers()[1], width)[first:first + rows + 1]
            data = np.frombuffer(array.buffers()[2] or b'', np.uint8)
            return data[offsets[0]:offsets[-1]].reshape(rows, *column.shape)
    return array.to_numpy(zero_copy_only=False)


def decode(column: Column, array: Any, nulls: bool = False) -> np.ndarray:
    """A pyarrow array as numpy's, of as many rows; without a copy where both have the same bytes.
    nulls: numbers and text may lack a value, and have NaN or None instead."""
    if not (nulls and column.kind in ('number', 'bytes', 'text')):
        _no_null(column, array)
    if column.kind == 'array':
        return _array(column, array)
    if column.kind == 'vector':
        return _vector(column, array)
    if column.kind == 'bytes':
        return _bytes(column, array)
    return _flat(column, array)


def decode_all(columns: List[Column], batch: Any, nulls: bool = False) -> Dict[str, np.ndarray]:
    """Of a pyarrow RecordBatch that has these columns."""
    return {column.name: decode(column, batch.column(column.name), nulls) for column in columns}
