"""Unitary evolution networks: a complex state that each step rotates and reflects, so that its norm neither grows nor vanishes."""

import math
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import relu
from jax.typing import DTypeLike
from jaxtyping import Array, Complex, Float, PyTree

from lrpt.cells.cell import Cell, CellSpec
from lrpt.matrices import Bias, Diagonal, Operator, Reflection, Rotation, as_complex
from lrpt.matrices.precision import at_least_single
from lrpt.specs import MatrixSpec, OperatorSpec
from lrpt.symbols import type_of_input


class UnitaryParams(NamedTuple):
    """Parameters of a unitary network: the rotations are the paper's D1, D2, D3, the reflections its R1, R2."""

    input: Operator
    rotations: tuple[Operator, Operator, Operator]
    reflections: tuple[Operator, Operator]
    bias: Operator


class UnitaryWithoutFourierParams(NamedTuple):
    """Parameters with separate input matrices for real and imaginary parts, and a real scale for each component."""

    input_real: Operator
    input_imaginary: Operator
    rotations: tuple[Operator, Operator, Operator]
    reflections: tuple[Operator, Operator]
    scale: Operator
    bias: Operator


class UnitaryInfo(NamedTuple):
    """Factor of the nonlinearity for each component, (batch, n)."""

    rescale: Float[Array, "*b n"]


def unitary(
    params: UnitaryParams, h: Float[Array, "*b n2"], x: type_of_input
) -> tuple[Float[Array, "*b n2"], tuple[Float[Array, "*b n2"], UnitaryInfo]]:
    r"""Compute one step of the unitary evolution network (Arjovsky et al. 2016, eqs. 6 and 8), acting on z = h_re + i h_im.

    .. math::
        W = D_3 R_2 F^{-1} D_2 \Pi R_1 F D_1, \quad a = W z + V x, \quad z' = a \odot \max(|a| + b, 0) / (|a| + 10^{-5})

    F is the unitary Fourier transform, :math:`\Pi` a fixed permutation, D_k a diagonal of phases, R_k a reflection. The constant in the
    denominator is that of the authors' code (complex_RNN, models.py). So is the initialization: phases uniform within +-pi, b within +-0.01
    (the paper has zero), reflections Glorot uniform (the paper has +-1; their scale is irrelevant), V as one real matrix to both parts.

    Args:
      params: its operators.
      h: state, (batch, 2n): real parts, then imaginary parts.
      x: input, (batch, m) floats, or (batch,) integers that stand for one-hot vectors.

    Returns:
      h', (y, info): the new state, the output y = h' of width 2n, and the factor of the nonlinearity.
    """
    (d1, d2, d3), (r1, r2) = params.rotations, params.reflections
    z = r1.apply(jnp.fft.fft(d1.apply(_complex(h)), norm="ortho"))
    z = r2.apply(jnp.fft.ifft(d2.apply(_permute(z)), norm="ortho"))
    a = d3.apply(z) + _complex(params.input.apply(x))
    return _mod_relu(a, params.bias.apply(a.real), h.dtype)


def unitary_without_fourier(
    params: UnitaryWithoutFourierParams, h: Float[Array, "*b n2"], x: type_of_input
) -> tuple[Float[Array, "*b n2"], tuple[Float[Array, "*b n2"], UnitaryInfo]]:
    r"""Compute one step of the unitary network of Miceli Barone 2016 (lowrank-gru, models.py), which is not the published one.

    As `unitary`, but :math:`W = S D_3 R_2 D_2 \Pi R_1 D_1`: the Fourier transforms are commented out in that code, and a trainable real
    scale S follows, which is initialized to 1. Training adds `scale_penalty` to the loss. Phases are initialized by Glorot's rule for the
    shape (3, n), hence near zero, and V is drawn as two matrices.
    """
    (d1, d2, d3), (r1, r2) = params.rotations, params.reflections
    z = r2.apply(d2.apply(_permute(r1.apply(d1.apply(_complex(h))))))
    a = params.scale.apply(d3.apply(z)) + as_complex(params.input_real.apply(x), params.input_imaginary.apply(x))
    return _mod_relu(a, params.bias.apply(a.real), h.dtype)


def scale_penalty(scale: Float[Array, " n"], weight: float = 5.0) -> Float[Array, ""]:
    r"""Return :math:`w \sum_i (s_i - 1)^2` for the scales s of `unitary_without_fourier`. The original adds it to the loss with w = 5."""
    return weight * jnp.sum(jnp.square(scale - 1))


def _complex(h: Float[Array, "*b n2"]) -> Complex[Array, "*b n"]:
    n = h.shape[-1] // 2
    return as_complex(h[..., :n], h[..., n:])


def _permute(z: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
    return jnp.take(z, _permutation(z.shape[-1]), axis=-1, unique_indices=True, mode="clip")


@cache
def _permutation(n: int) -> np.ndarray:
    """Return the fixed permutation of both codes, from NumPy's generator with seed 1234."""
    return np.random.RandomState(1234).permutation(n).astype(np.int32)


def _mod_relu(
    a: Complex[Array, "*b n"], bias: Float[Array, "*b n"], dtype: DTypeLike
) -> tuple[Float[Array, "*b n2"], tuple[Float[Array, "*b n2"], UnitaryInfo]]:
    square = a.real**2 + a.imag**2
    positive = square > 0
    # The square root of zero has no finite derivative, and a is zero if state and input are zero.
    modulus = jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)
    rescale = relu(modulus + at_least_single(bias)) / (modulus + 1e-5)
    h = jnp.concatenate([a.real * rescale, a.imag * rescale], axis=-1)
    h = h.astype(dtype) if jnp.finfo(dtype).bits < 32 else h  # a state of half precision, which is computed in single precision, stays one
    return h, (h, UnitaryInfo(rescale))


def _glorot(n_in: int, n_out: int) -> float:
    return math.sqrt(6 / (n_in + n_out))


def _operators(n: int, phase: float) -> dict[str, Any]:
    return {
        "rotations": (OperatorSpec(Rotation, (n,), spread=phase),) * 3,
        "reflections": (OperatorSpec(Reflection, (2 * n,), spread=_glorot(2, 2 * n)),) * 2,
        "bias": OperatorSpec(Bias, (n,), spread=0.01),
    }


def _template(spec: CellSpec) -> PyTree:
    inputs: Any = MatrixSpec(spec.input_size, 2 * spec.size, "input")
    return UnitaryParams(inputs, **_operators(spec.size, math.pi))


def _template_without_fourier(spec: CellSpec) -> PyTree:
    inputs: Any = MatrixSpec(spec.input_size, spec.size, "input")
    scale: Any = OperatorSpec(Diagonal, (spec.size,), initial=1.0)
    return UnitaryWithoutFourierParams(inputs, inputs, scale=scale, **_operators(spec.size, _glorot(3, spec.size)))


def _width(spec: CellSpec) -> int:
    return 2 * spec.size


UNITARY = Cell(unitary, _template, _width, _width, initial_spread=lambda spec: math.sqrt(1.5 / spec.size))
UNITARY_WITHOUT_FOURIER = Cell(
    unitary_without_fourier,
    _template_without_fourier,
    _width,
    _width,
    initial_spread=lambda spec: math.sqrt(3 / spec.size),
    penalty=lambda params: scale_penalty(params.scale.diagonal),
)
