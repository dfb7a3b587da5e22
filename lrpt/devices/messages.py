"""Messages between processes, as JSON: numbers, text, containers, arrays, and named tuples of classes that both have imported.

Decoding builds nothing else. Unlike a pickle, a message cannot execute code.
"""

import base64
import json
import sys
from typing import Any

import numpy as np

_SCALARS = (str, int, float, bool, type(None))


def encode(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
      TypeError: the value holds something of another type than a message may hold.
    """
    return json.dumps(_tagged(value)).encode()


def decode(text: bytes) -> Any:
    """Return the value that `encode` was given. JAX arrays become NumPy arrays.

    Raises:
      ValueError: the text was not made by `encode`, or it names a class that this process has not imported.
    """
    return _value(json.loads(text))


def _tagged(value: Any) -> Any:
    """Return scalars unchanged, and other values as a list that begins with the kind of the value."""
    if type(value) in _SCALARS:  # not of a subclass, such as NumPy's float64
        return value
    if isinstance(value, dict):
        return ["dict", [[_tagged(key), _tagged(item)] for key, item in value.items()]]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ["named", type(value).__module__, type(value).__qualname__, [_tagged(item) for item in value]]
    if isinstance(value, tuple | list):
        return [type(value).__name__, [_tagged(item) for item in value]]
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        array = np.asarray(value)
        if array.dtype.kind in "OSU" or array.dtype.names:
            raise TypeError(f"an array of type {array.dtype} cannot be sent to other processes")
        return ["array", array.dtype.name, list(array.shape), base64.b64encode(array.tobytes()).decode()]
    raise TypeError(f"{type(value).__name__} cannot be sent to other processes")


def _value(tagged: Any) -> Any:
    if not isinstance(tagged, list):
        return tagged
    match tagged:
        case ["dict", pairs]:
            return {_value(key): _value(item) for key, item in pairs}
        case ["list", items]:
            return [_value(item) for item in items]
        case ["tuple", items]:
            return tuple(_value(item) for item in items)
        case ["named", str(module), str(name), items]:
            return _named_tuple(module, name)(*(_value(item) for item in items))
        case ["array", str(dtype), shape, text]:
            return np.frombuffer(base64.b64decode(text), np.dtype(dtype)).reshape(shape).copy()
    raise ValueError("a message of another program, or of another version of this one")


def _named_tuple(module: str, name: str) -> Any:
    """Return a class of named tuples by its name. Its module must be imported in this process."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not (isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")):
        raise ValueError(f"a message names {module}.{name}, which is no named tuple here")
    return found
