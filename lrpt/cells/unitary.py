"""Unitary evolution networks: a complex state that each step rotates and reflects, so that its norm neither grows nor vanishes."""

import math
from functools import cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import relu
from jax.typing import DTypeLike
from jaxtyping import Array, Complex, Float, Inexact, PyTree

from lrpt.cells.cell import Cell, CellSpec
from lrpt.matrices import Bias, Diagonal, LowRank, Operator, Reflection, Rotation, as_complex
from lrpt.matrices.rows import broadcastable
from lrpt.precision import at_least_single, complex_if
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
    rotations: tuple[Rotation, Rotation, Rotation]
    reflections: tuple[Reflection, Reflection]
    scale: Diagonal
    bias: Operator

    def transition(self, h: Float[Array, "*b n2"]) -> Float[Array, "*b n2"]:
        """Return W z: real parts, then imaginary parts."""
        (d1, d2, d3), (r1, r2) = self.rotations, self.reflections
        z = r2.apply(d2.apply(_permute(r1.apply(d1.apply(_complex(h))))))
        return _parts(self.scale.apply(d3.apply(z)))

    def merged(self) -> "MergedUnitaryParams":
        r"""Return parameters of the same map in fewer operations: reflections differ from the identity by a matrix of rank 1.

        .. math::
            W = S D_3 D_2 \Pi D_1 + B A

        The first term is a permuted diagonal. A (2, n) and B (n, 2) hold what the reflections add.
        """
        d1, d2, d3 = (rotation.phases() for rotation in self.rotations)
        (u1, w1), (u2, w2) = (reflection.factors() for reflection in self.reflections)
        order, scaled = _permutation(u1.size), d3 * complex_if(self.scale.diagonal, d3)
        first, w1 = d1[order] * d2, w1[order] * d2
        read = jnp.stack([(d1 * u1)[order], first * u2])  # of a permuted state
        written = jnp.stack([w1 + (w1 @ u2) * w2, w2]) * scaled[None]
        low_rank = LowRank(_real_form(written), _real_form(jnp.conj(read)))
        diagonal = first * scaled
        return MergedUnitaryParams(self.input_real, self.input_imaginary, diagonal.real, diagonal.imag, low_rank, self.bias)


class MergedUnitaryParams(NamedTuple):
    """Parameters of `unitary_without_fourier` with W as a permuted complex diagonal plus a matrix of rank 2, which has rank 4 for parts."""

    input_real: Operator
    input_imaginary: Operator
    real: Float[Array, " n"]
    imaginary: Float[Array, " n"]
    low_rank: Operator
    bias: Operator

    def transition(self, h: Float[Array, "*b n2"]) -> Float[Array, "*b n2"]:
        """Return W z: real parts, then imaginary parts."""
        order = _permutation(self.real.size)
        h = _in_order(at_least_single(h), np.concatenate([order, order.size + order]))
        x, y = _real(h), _imaginary(h)
        real, imaginary = broadcastable(self.real, h), broadcastable(self.imaginary, h)
        return jnp.concatenate([x * real - y * imaginary, x * imaginary + y * real], axis=-1) + self.low_rank.apply(h)


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
    a = _parts(d3.apply(z)) + at_least_single(params.input.apply(x))
    return _mod_relu(a, params.bias.apply(_real(a)), h.dtype)


def unitary_without_fourier(
    params: UnitaryWithoutFourierParams | MergedUnitaryParams, h: Float[Array, "*b n2"], x: type_of_input
) -> tuple[Float[Array, "*b n2"], tuple[Float[Array, "*b n2"], UnitaryInfo]]:
    r"""Compute one step of the unitary network of Miceli Barone 2016 (lowrank-gru, models.py), which is not the published one.

    As `unitary`, but :math:`W = S D_3 R_2 D_2 \Pi R_1 D_1`: the Fourier transforms are commented out in that code, and a trainable real
    scale S follows, which is initialized to 1. Training adds `scale_penalty` to the loss. Phases are initialized by Glorot's rule for the
    shape (3, n), hence near zero, and V is drawn as two matrices.

    Without the transforms, W is a permuted diagonal plus a matrix of rank 2. Networks use that form for sequences (`merged`), unless
    `--model.materialize never` is set.
    """
    v = jnp.concatenate([params.input_real.apply(x), params.input_imaginary.apply(x)], axis=-1)
    a = params.transition(h) + at_least_single(v)
    return _mod_relu(a, params.bias.apply(_real(a)), h.dtype)


def scale_penalty(scale: Float[Array, " n"], weight: float = 5.0) -> Float[Array, ""]:
    r"""Return :math:`w \sum_i (s_i - 1)^2` for the scales s of `unitary_without_fourier`. The original adds it to the loss with w = 5."""
    return weight * jnp.sum(jnp.square(scale - 1))


def _real(parts: Float[Array, "*b n2"]) -> Float[Array, "*b n"]:
    return parts[..., : parts.shape[-1] // 2]


def _imaginary(parts: Float[Array, "*b n2"]) -> Float[Array, "*b n"]:
    return parts[..., parts.shape[-1] // 2 :]


def _complex(parts: Float[Array, "*b n2"]) -> Complex[Array, "*b n"]:
    return as_complex(_real(parts), _imaginary(parts))


def _parts(z: Complex[Array, "*b n"]) -> Float[Array, "*b n2"]:
    return jnp.concatenate([z.real, z.imag], axis=-1)


def _real_form(matrix: Complex[Array, "k n"]) -> Float[Array, "k2 n2"]:
    """Return the matrix M that maps parts as a complex matrix C maps numbers: [Re p, Im p] M = [Re p C, Im p C]."""
    return jnp.block([[matrix.real, matrix.imag], [-matrix.imag, matrix.real]])


def _permute(z: Complex[Array, "*b n"]) -> Complex[Array, "*b n"]:
    return _in_order(z, _permutation(z.shape[-1]))


def _in_order(v: Inexact[Array, "*b n"], order: np.ndarray) -> Inexact[Array, "*b n"]:
    return jnp.take(v, order, axis=-1, unique_indices=True, mode="clip")


@cache
def _permutation(n: int) -> np.ndarray:
    """Return the fixed permutation of both codes, from NumPy's generator with seed 1234."""
    return np.random.RandomState(1234).permutation(n).astype(np.int32)


def _mod_relu(
    a: Float[Array, "*b n2"], bias: Float[Array, "*b n"], dtype: DTypeLike
) -> tuple[Float[Array, "*b n2"], tuple[Float[Array, "*b n2"], UnitaryInfo]]:
    real, imaginary = _real(a), _imaginary(a)
    square = real**2 + imaginary**2
    positive = square > 0
    # The square root of zero has no finite derivative, and a is zero if state and input are zero.
    modulus = jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)
    rescale = relu(modulus + at_least_single(bias)) / (modulus + 1e-5)
    h = jnp.concatenate([real * rescale, imaginary * rescale], axis=-1)
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
