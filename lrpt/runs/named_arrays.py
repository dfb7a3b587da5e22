"""Parameters as flat named arrays, so that a network can start from the parameters of another code base.

A name is the path of a parameter: `recurrent/cell/recurrent/update/left`. Kept weights have all collections of a network, so their names
begin with a collection: `params/recurrent/cell/recurrent/update/left`. Such names are accepted too, if every name begins with `params/`.
"""

import hashlib
import math
import zipfile
from collections.abc import Collection, Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from lrpt.errors import UsageError
from lrpt.files import MOST, read_regular
from lrpt.runs.files import write_bytes

PARAMS = "params/"
"""first part of the names in kept weights of a network that has no other collection"""

SHOWN = 3
"""names of arrays that an error lists of those found"""

WIDEST, SLACK = 8, 2**20
"""bytes of the widest number, and of the headers of all arrays"""


def to_named(params: PyTree) -> dict[str, np.ndarray]:
    """Return parameters as arrays by name, in the order of the tree. `save` writes them."""
    return {_name(path): np.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(params)}


def from_named(template: PyTree, arrays: Mapping[str, Any]) -> PyTree:
    """Return parameters from named arrays, in the types of the template.

    Args:
      template: parameters of the network, or what `jax.eval_shape` returns for them.
      arrays: one array for each parameter, by name. A `params/` before every name is left out, unless the template has it too.

    Raises:
      UsageError: an array is missing, is not known, has another shape than the parameter, or holds numbers that do not fit its type.
    """
    leaves, treedef = jax.tree_util.tree_flatten_with_path(template)
    shapes = {_name(path): tuple(leaf.shape) for path, leaf in leaves}
    needed = _few(shapes, 2 * SHOWN)
    if not _begin_with_collection(shapes):
        arrays = _without_collection(arrays)
    for name, shape in shapes.items():
        if name not in arrays:
            raise UsageError(f"array '{name}' of shape {shape} is missing, and {_listed(arrays, shapes)} found: the network needs {needed}")
    for name in arrays:
        if name not in shapes:
            raise UsageError(f"array '{name}' is no parameter of the network, which has {needed}: leave it out or rename it")
    return treedef.unflatten(_checked(_name(path), np.asarray(arrays[_name(path)]), leaf) for path, leaf in leaves)


def load(path: str | Path, template: PyTree) -> PyTree:
    """Return the parameters in a .npz file, checked as in `from_named`.

    Raises:
      UsageError: the errors of `load_arrays`, or the file does not hold the parameters of `template`.
    """
    needed = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(template))
    return from_named(template, load_arrays(path, 2 * WIDEST * needed + SLACK))


def load_arrays(path: str | Path, most: int = MOST) -> dict[str, np.ndarray]:
    """Return every array in a .npz file, by name.

    Args:
      path: path of the file.
      most: limit of the size in bytes, packed and unpacked, because a small compressed file may unpack to a very large one.

    Raises:
      UsageError: the file is missing, cannot be read, or is damaged.
    """
    try:
        content = BytesIO(read_regular(Path(path), most))
    except OSError as error:
        raise UsageError(f"parameter file {path} cannot be read ({error.strerror}): name an .npz file that numpy.savez wrote") from None
    unpacked = _unpacked_size(content)
    if unpacked > most:
        raise UsageError(f"parameter file {path} unpacks to {unpacked:,} bytes, and the limit is {most:,}: it holds more than parameters")
    try:
        with np.load(content, allow_pickle=False) as stored:
            return dict(stored)
    except Exception as error:  # NumPy, zipfile and zlib raise a dozen different errors for a damaged archive
        kind = type(error).__name__
        raise UsageError(f"parameter file {path} is damaged or no .npz ({kind}): write it again with numpy.savez") from None


def save(path: str | Path, params: PyTree, flag: str) -> None:
    """Write parameters as a .npz file for `load`, and make its directory.

    Raises:
      UsageError: the file cannot be written. `flag` is the option that names another place.
    """
    save_arrays(path, to_named(params), flag)


def save_arrays(path: str | Path, arrays: Mapping[str, np.ndarray], flag: str) -> None:
    """Write named arrays as a .npz file, atomically, and make its directory. bfloat16 becomes float32. Raise the error of `save`."""
    try:
        write_npz(Path(path), arrays)
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): name another {flag}", code=1) from error


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays as `save_arrays` does. Raise an OSError if that fails."""
    content = BytesIO()
    np.savez(content, **{name: storable(array) for name, array in arrays.items()})  # type: ignore[arg-type]
    write_bytes(path, content.getvalue())


def digest(arrays: Mapping[str, Any]) -> str:
    """Return the SHA-256 of named arrays as `from_named` reads them: of their names, shapes, and numbers in float32.

    A `params/` before every name does not change it.

    Raises:
      UsageError: an array does not hold finite real numbers.
    """
    found, arrays = hashlib.sha256(), _without_collection(arrays)
    for name in sorted(arrays):
        numbers = finite_float32(name, np.asarray(arrays[name]))
        found.update(f"{name} {numbers.shape} ".encode() + numbers.tobytes())
    return found.hexdigest()


def finite_float32(name: str, array: np.ndarray) -> Float[np.ndarray, "..."]:
    """Return real numbers as float32.

    Raises:
      UsageError: the array does not hold real numbers, or one of them is not finite in float32.
    """
    if not (jnp.issubdtype(array.dtype, jnp.floating) or jnp.issubdtype(array.dtype, jnp.integer)):
        raise UsageError(f"array '{name}' is of type {array.dtype}: give real numbers, such as float32")
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if not np.isfinite(narrow).all():
        raise UsageError(f"array '{name}' holds numbers that are not finite in float32: give parameters that did not diverge")
    return narrow


def storable(array: np.ndarray) -> np.ndarray:
    """Return an array in a type that a .npz file can hold. NumPy writes others as bytes without a meaning."""
    return array.astype(np.float32) if array.dtype == jnp.bfloat16 else array


def _begin_with_collection(names: Iterable[str]) -> bool:
    return all(name.startswith(PARAMS) for name in names)


def _without_collection(arrays: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arrays without the `params/` before their names; the same arrays if a name has none."""
    return {name.removeprefix(PARAMS): array for name, array in arrays.items()} if _begin_with_collection(arrays) else arrays


def _few(names: Collection[str], most: int) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - most
    return ", ".join([*names][:most]) + (f" and {more} more" if more > 0 else "")


def _listed(arrays: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return a few names of arrays with 'is' or 'are', unknown ones first: "'a', 'b' and 4 more are"."""
    names = [f"'{name}'" for name in sorted(arrays, key=lambda name: name in known)]
    return f"{_few(names, SHOWN) or 'no array'} {'is' if len(names) < 2 else 'are'}"


def _checked(name: str, array: np.ndarray, leaf: Any) -> jax.Array:
    """Return an array in the type of a parameter. It does not pass through float32, which holds fewer digits than float64 and integers."""
    if array.shape != leaf.shape:
        raise UsageError(f"array '{name}' has shape {array.shape}, and the parameter has {leaf.shape}: transpose it, or change the model")
    finite_float32(name, array)
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(leaf.dtype)
    whole = jnp.issubdtype(leaf.dtype, jnp.integer)
    if not (np.array_equal(cast, array) if whole else np.isfinite(cast.astype(np.float32)).all()):
        raise UsageError(f"array '{name}' holds numbers that {leaf.dtype}, the type of the parameter, cannot hold: change the type")
    return jnp.asarray(cast)


def _unpacked_size(content: BytesIO) -> int:
    """Return the unpacked size in bytes that an archive declares; 0 if it is damaged, which shows when it is read."""
    try:
        with zipfile.ZipFile(content) as archive:
            return sum(entry.file_size for entry in archive.infolist())
    except Exception:  # zipfile raises a dozen different errors for damage
        return 0
    finally:
        content.seek(0)


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
