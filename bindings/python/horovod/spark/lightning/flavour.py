# SPDX-License-Identifier: Apache-2.0
"""Lightning comes as two packages with classes of their own, `lightning` and `pytorch_lightning`.
A Trainer takes the modules, callbacks and loggers of its own package alone."""
import importlib
import importlib.util
from typing import Any

#: And the package with what its Trainer does not show.
_NAMES = {'lightning.pytorch': 'lightning.fabric', 'pytorch_lightning': 'lightning_fabric'}


def there() -> bool:
    """Whether one is installed, which is not loaded for that."""
    return any(importlib.util.find_spec(name.partition('.')[0]) for name in _NAMES)


def _name_of(thing: Any) -> str:
    for cls in (thing if isinstance(thing, type) else type(thing)).__mro__:
        for name in _NAMES:
            if f'{cls.__module__}.'.startswith(f'{name}.'):
                return name
    return ''


def of(**things: Any) -> Any:
    """The package that these are of, loaded; else the first that is installed. None is of none, and
    a list may hold some. ValueError: they are of both."""
    found = {}
    for name, thing in things.items():
        for one in thing if isinstance(thing, (list, tuple)) else [thing]:
            found.setdefault(_name_of(one), name)
    found.pop('', None)
    if len(found) > 1:
        raise ValueError(' and '.join(f'{name} is of {package}' for package, name in found.items())
                         + ': import all from one of them')
    for name in [*found, *_NAMES]:
        if importlib.util.find_spec(name.partition('.')[0]):
            return importlib.import_module(name)
    raise ImportError('Lightning is not installed: pip install lightning')


def environments(lightning: Any) -> Any:
    """Its classes of environments in which ranks run."""
    return importlib.import_module(f'{_NAMES[lightning.__name__]}.plugins.environments')
