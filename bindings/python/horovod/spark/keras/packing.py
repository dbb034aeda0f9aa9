# SPDX-License-Identifier: Apache-2.0
"""Models, optimizers, losses and metrics of Keras as bytes, for ranks, for Spark's tasks and for
files. pickle alone would lose custom objects, and Keras's own pickles of optimizers do not load.

Keras is here 'keras' (2 or 3, also as tensorflow.keras) or 'tf_keras' (Keras 2 beside Keras 3).
"""
import contextlib
import importlib
import io
import os
import tempfile
from typing import Any, Dict, Iterator, Mapping

import cloudpickle

from horovod._keras.optimizer import Distributed

#: What ranks must have in the environment, besides; see environment().
_BACKEND, _LEGACY = 'KERAS_BACKEND', 'TF_USE_LEGACY_KERAS'


def package_of(value: Any) -> str:
    """'keras' or 'tf_keras', to whose classes the value's class belongs; '' if to neither's."""
    for cls in type(value).__mro__:
        root = cls.__module__.partition('.')[0]
        if root in ('keras', 'tf_keras'):
            return root
    return ''


def environment(package: str) -> Dict[str, str]:
    """Variables with which a process computes as this one does."""
    if package == 'tf_keras':
        return {_LEGACY: '1'}
    keras = importlib.import_module(package)
    name = getattr(keras.backend, 'backend', lambda: 'tensorflow')()
    if name not in ('tensorflow', 'torch'):
        raise ValueError(f'Keras computes with {name!r}: KerasEstimator trains with TensorFlow and '
                         'PyTorch; set KERAS_BACKEND to tensorflow or torch before Keras is loaded')
    return {_BACKEND: name}


@contextlib.contextmanager
def _file(name: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix='reigen-keras-') as folder:
        yield os.path.join(folder, name)


def _saved(model: Any) -> bytes:
    with _file('model.keras') as path:
        model.save(path)
        with open(path, 'rb') as stream:
            return stream.read()


def _loaded(package: str, data: bytes) -> Any:
    keras = importlib.import_module(package)
    with _file('model.keras') as path:
        with open(path, 'wb') as stream:
            stream.write(data)
        try:
            return keras.models.load_model(path, safe_mode=False)
        except (AttributeError, TypeError, ValueError):
            # Its loss or a metric may have no name that Keras finds; the model itself may be well.
            return keras.models.load_model(path, compile=False, safe_mode=False)


def _made(cls: type, config: Mapping[str, Any]) -> Any:
    return cls.from_config(config)


class _Pickler(cloudpickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        package = '' if isinstance(obj, type) else package_of(obj)
        keras = importlib.import_module(package) if package else None
        if keras is not None and isinstance(obj, keras.Model):
            return _loaded, (package, _saved(obj))
        if keras is not None and (is_optimizer(keras, obj) or isinstance(
                obj, (keras.metrics.Metric, keras.losses.Loss))):
            plain = next(cls for cls in type(obj).__mro__ if not issubclass(cls, Distributed))
            return _made, (plain, obj.get_config())
        return super().reducer_override(obj)


def is_optimizer(keras: Any, value: Any) -> bool:
    """Also one of the old kind that Keras 2 has beside."""
    legacy = getattr(keras.optimizers, 'legacy', keras.optimizers)
    return isinstance(value, (keras.optimizers.Optimizer, legacy.Optimizer))


def known(package: str, custom_objects: Mapping[str, Any]) -> Dict[str, Any]:
    """What Keras finds by a name, besides its own."""
    keras = importlib.import_module(package)
    return {**keras.utils.get_custom_objects(), **custom_objects}


def dumps(package: str, custom_objects: Mapping[str, Any], value: Any) -> bytes:
    """The value, with whatever of Keras is in it. custom_objects: what Keras finds by these names
    when it is loaded, besides all that has been registered here."""
    body = io.BytesIO()
    _Pickler(body).dump(value)
    return cloudpickle.dumps((package, known(package, custom_objects), body.getvalue()))


def loads(data: bytes) -> Any:
    """What dumps() was given; new objects."""
    package, objects, body = cloudpickle.loads(data)
    keras = importlib.import_module(package)
    with keras.utils.custom_object_scope(objects):
        return cloudpickle.loads(body)
