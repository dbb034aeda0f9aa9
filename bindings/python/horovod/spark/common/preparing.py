# SPDX-License-Identifier: Apache-2.0
"""A DataFrame as Parquet in a store, for ranks to read. It is written once: its folders' names have
a key that is made of the contents, by Spark, and a second fit() finds them."""
import contextlib
import hashlib
import json
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from pyspark.sql import functions as F

from horovod.spark.common import hadoop, reading
from horovod.spark.common.store import telling

#: Of a row group: what a reader must have in memory at least.
_GROUP_NBYTES = 32 << 20
_COMPLETE = '_COMPLETE'
#: Java's classes of errors where a file system is missing.
_NO_CONNECTOR = ('UnsupportedFileSystemException', 'ClassNotFoundException', 'NoClassDefFoundError')
_SCALE = 1 << 20
#: By path: held while it is written, since tuning fits the same rows in several threads at once.
_writing: Dict[str, threading.Lock] = {}


class Prepared(NamedTuple):
    """What ranks read; val: None without validation."""
    key: str
    train: reading.Dataset
    val: Optional[reading.Dataset]


def _column(name: str) -> Any:
    name = name.replace('`', '``')
    return F.col(f'`{name}`')  # a dot in it does not mean a field


def select(df: Any, names: Sequence[str]) -> Any:
    return df.select(*map(_column, names))


def check_columns(df: Any, names: Sequence[str]) -> None:
    missing = [name for name in names if name not in df.columns]
    if missing:
        raise ValueError(f'the DataFrame has no column {", ".join(map(repr, missing))}; it has '
                         f'{", ".join(df.columns)}')


_NUMBERS = {'boolean', 'byte', 'short', 'integer', 'long', 'float', 'double', 'decimal'}


def _check_types(df: Any, names: Sequence[str], transformed: bool) -> None:
    """Before anything is written. What arrays hold, and their shapes, is seen when they are."""
    for name in names:
        kind = df.schema[name].dataType
        word = kind.typeName()
        if word == 'string' and not transformed:
            raise TypeError(reading.TEXT.format(name))
        if word not in {*_NUMBERS, 'string', 'binary', 'array'} and \
                type(kind).__name__ != 'VectorUDT':
            raise TypeError(f'column {name!r} is {word}: estimators take {reading.TAKEN}')


def _look(df: Any, names: Sequence[str], nulls: Sequence[str]) -> List[Any]:
    """What is the same for the same rows in any order. ValueError when columns have nulls that are
    not among nulls."""
    found = df.agg(
        F.count(F.lit(1)).alias('rows'),
        F.sum(F.xxhash64(*map(_column, names)).cast('decimal(38,0)')).alias('hash'),
        *[F.sum(_column(name).isNull().cast('long')).alias(f'null{number}')
          for number, name in enumerate(names)]).first()
    if not found['rows']:
        raise ValueError('the DataFrame has no rows')
    for number, name in enumerate(names):
        if found[f'null{number}'] and name not in nulls:
            raise ValueError(f'column {name!r} has {found[f"null{number}"]} nulls in '
                             f'{found["rows"]} rows: fill them (df.na.fill), drop their rows '
                             '(df.na.drop), or replace them by transformation_fn')
    return [found['rows'], str(found['hash']), df.schema.json()]


def _cause(error: BaseException) -> str:
    """What was behind an error of Spark's at first, without its calls."""
    java = getattr(error, 'java_exception', None)
    if java is None:
        return str(error)
    while java.getCause() is not None:
        java = java.getCause()
    kind, text = java.getClass().getSimpleName(), java.getMessage()
    if kind in _NO_CONNECTOR:
        return (f'{kind}: {text}. Spark has no package for this file system, or not all of it: '
                'spark.jars.packages adds such as org.apache.hadoop:hadoop-aws')
    return str(text) if text and kind == 'IOException' else f'{kind}: {text}'


def _write(df: Any, store: Any, path: str, partitions: int) -> None:
    store.remove(path)  # what an interrupted write has left
    try:
        (df.repartition(partitions).write.mode('overwrite')
         .option('parquet.block.size', _GROUP_NBYTES)
         .option('compression', 'lz4_raw')  # fast, and Spark has it in Java: no library is loaded
         .options(**hadoop.options_of(df, store, path))
         .parquet(hadoop.path_of(df, path)))
        store.write_text(f'{path}/{_COMPLETE}', '')
    except Exception as error:
        with contextlib.suppress(Exception):  # the first one says more
            store.remove(path)
        if isinstance(error, OSError):
            raise
        with telling('write', path):
            raise OSError(_cause(error)) from error


def prepare(df: Any, store: Any, columns: Sequence[str], validation: Union[None, float, str],
            partitions: int, seed: int, nulls: bool) -> Prepared:
    """Write these columns of df, unless they are there. The rows to validate with are those in
    which the column validation is true, or that part of the rows, by chance: equal rows stay
    together. nulls: they are let through."""
    by_column = isinstance(validation, str)
    names = list(dict.fromkeys([*columns, *([validation] if by_column else [])]))
    check_columns(df, names)
    _check_types(df, columns, nulls)
    df = select(df, names)
    look = _look(df, names, columns if nulls else ())
    if by_column:
        kind = df.schema[validation].dataType.typeName()
        if kind not in _NUMBERS:
            raise TypeError(f'validation: column {validation!r} is {kind}: it is a boolean or a '
                            'number')
        chosen = _column(validation).cast('double') > 0
    else:
        chosen = F.pmod(F.xxhash64(F.lit(seed), *map(_column, names)), F.lit(_SCALE)) < int(
            (validation or 0) * _SCALE)
    about = json.dumps([look, names, validation, partitions, seed, 1])
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    train_path, val_path = store.get_train_data_path(key), store.get_val_data_path(key)
    kept = [name for name in names if name in columns]
    for path, rows in [(train_path, ~chosen)] + ([(val_path, chosen)] if validation else []):
        with _writing.setdefault(path, threading.Lock()):
            if not store.exists(f'{path}/{_COMPLETE}'):
                _write(select(df.where(rows), kept) if validation else df, store, path,
                       partitions)
    return find(store, key, kept, bool(validation))


def _looks(data: reading.Dataset) -> List[Any]:
    """Of its columns: what those to validate with must share. Bytes may have other lengths."""
    return [one[1:3] if one.kind == 'bytes' else one[1:] for one in data.columns]


def find(store: Any, key: Any, columns: Sequence[str], validation: bool) -> Prepared:
    """What lies in the store under that key."""
    train = reading.describe(store, store.get_train_data_path(key), columns)
    val = None
    if validation:
        try:
            val = reading.describe(store, store.get_val_data_path(key), columns)
        except ValueError as error:
            raise ValueError(f'validation: {error}') from error
        if _looks(val) != _looks(train):
            raise ValueError(f'the rows to validate with have columns {val.columns}, and those to '
                             f'train with {train.columns}')
    return Prepared(str(key), train, val)
