"""Errors of Flax about parameters that a module does not find, or finds in another shape: those of another network."""

from flax import errors

UNFIT = (
    errors.ScopeParamShapeError,
    errors.ScopeParamNotFoundError,
    errors.ScopeVariableNotFoundError,
    errors.ScopeCollectionNotFound,
)


def in_short(error: Exception) -> str:
    """Return what an error of Flax says, without the address of its explanation."""
    return str(error).partition(" (http")[0].strip().rstrip(".")
