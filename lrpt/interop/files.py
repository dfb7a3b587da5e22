"""Files of weights of other frameworks: .npz, .safetensors, and .pt of PyTorch. Reading one never runs code that it holds."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from lrpt.errors import UsageError
from lrpt.runs.files import write_bytes
from lrpt.runs.named_arrays import load_arrays, save_arrays, storable

PYTORCH_SUFFIXES = (".pt", ".pth", ".bin")
SUFFIXES = (".npz", ".safetensors", *PYTORCH_SUFFIXES)
INSTALL = "pip install -e '.[torch]'"
SAVE = "numpy.savez(path, **{name: tensor.float().numpy() for name, tensor in module.state_dict().items()})"
"""The line that a user of PyTorch runs if safetensors is missing there and PyTorch is missing here."""


def load_weights(path: str | Path) -> dict[str, Any]:
    """Return the arrays of a file by name. bfloat16 becomes float32. Integers and 8-bit numbers of .safetensors files are left out.

    A .pt file is read with `torch.load(weights_only=True)`, which refuses everything but tensors and containers of them. All its
    floating-point numbers become float32.

    Raises:
      UsageError: the file cannot be read, holds more than weights, or needs a package that is not installed.
    """
    path = Path(path)
    if path.suffix == ".safetensors":
        return _load_safetensors(path)
    return _load_pytorch(path) if path.suffix in PYTORCH_SUFFIXES else load_arrays(path)


def save_weights(path: str | Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name, in the format that the suffix of the path says. Readers see the old file or the new one.

    Raises:
      UsageError: the suffix is another one, the file cannot be written, or a package that it needs is not installed.
    """
    path = Path(path)
    if path.suffix == ".npz":
        return save_arrays(path, arrays, "--output")
    try:
        write_bytes(path, _serialized(path, arrays))
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): name another --output", code=1) from error


def _serialized(path: Path, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the content of a .safetensors or .pt file."""
    if path.suffix == ".safetensors":
        return _safetensors(path).numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    if path.suffix not in PYTORCH_SUFFIXES:
        raise UsageError(f"{path} has no suffix of a file of weights: name one that ends with .npz, .safetensors or .pt")
    torch, content = _torch(path), io.BytesIO()
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, content)
    return content.getvalue()


def _load_safetensors(path: Path) -> dict[str, np.ndarray]:
    package = _safetensors(path)
    try:
        stored = package.deserialize(path.read_bytes())
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a file of weights") from None
    except package.SafetensorError as error:
        raise UsageError(f"{path} is damaged or no .safetensors file ({error}): write it again", code=1) from None
    types = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": jnp.bfloat16}
    floats = {name: entry for name, entry in stored if entry["dtype"] in types}
    return {name: storable(np.frombuffer(e["data"], types[e["dtype"]]).reshape(e["shape"])) for name, e in floats.items()}


def _load_pytorch(path: Path) -> dict[str, Any]:
    torch = _torch(path)
    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a file of weights") from None
    except Exception as error:  # pickle, zipfile and torch raise a dozen different errors
        kind = type(error).__name__
        raise UsageError(f"{path} is damaged or holds more than weights ({kind}): save module.state_dict() alone", code=1) from None
    if not isinstance(found, Mapping):
        raise UsageError(f"{path} holds a {type(found).__name__}: save module.state_dict()")
    return _tensors(found, torch)


def _tensors(tree: Mapping[Any, Any], torch: Any) -> dict[str, Any]:
    """Return the tensors of nested dicts as arrays; counters and the like are left out."""
    kept = {str(name): part for name, part in tree.items() if isinstance(part, Mapping | torch.Tensor)}
    return {
        name: _tensors(part, torch) if isinstance(part, Mapping) else (part.detach().float() if part.is_floating_point() else part).numpy()
        for name, part in kept.items()
    }


def _torch(path: Path) -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UsageError(f"{path} needs PyTorch, which is not installed: {INSTALL}, or use .npz: {SAVE}") from None
    return torch


def _safetensors(path: Path) -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise UsageError(f"{path} needs safetensors, which is not installed: {INSTALL}, or use .npz") from None
    return safetensors
