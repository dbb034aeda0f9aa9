# SPDX-License-Identifier: Apache-2.0
"""Objects as text. Never read text of strangers: pickle runs what it is told."""
import base64
import pickle
from typing import Any, Union


def loads_base64(encoded: Union[str, bytes]) -> Any:
    return pickle.loads(base64.b64decode(encoded))


def dumps_base64(obj: Any, to_ascii: bool = True) -> Union[str, bytes]:
    try:
        import cloudpickle as pickler
    except ImportError:
        pickler = pickle
    encoded = base64.b64encode(pickler.dumps(obj))
    return encoded.decode('ascii') if to_ascii else encoded
