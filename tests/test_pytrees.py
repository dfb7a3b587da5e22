"""Dataclasses as pytrees: which structures are equal, and what JAX finds in them."""

import re
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import jax
import pytest

import lrpt.matrices
from lrpt.pytrees import register_fields

LIBRARY = Path(lrpt.__file__).parent
MATRICES = [kind for kind in vars(lrpt.matrices).values() if isinstance(kind, type) and is_dataclass(kind)]


@register_fields
@dataclass(frozen=True)
class Scaled:
    """A node with two children and a static field between them."""

    kernel: Any
    rate: float = field(metadata={"static": True})
    bias: Any = None


def structure(kind):
    """The structure of a node whose fields are the same for all classes of as many fields."""
    return jax.tree.structure(kind(*(1 for _ in fields(kind))))


def test_the_library_has_classes_of_as_many_fields():
    assert {"LowRank", "ToeplitzLike", "Monarch"} <= {kind.__name__ for kind in MATRICES}


@pytest.mark.parametrize(("one", "other"), list(combinations(MATRICES, 2)), ids=lambda kind: kind.__name__)
def test_structures_of_different_classes_differ(one, other):
    assert structure(one) != structure(other)
    assert structure(one) == structure(one)


def test_static_fields_belong_to_the_structure():
    assert jax.tree.structure(Scaled(1, 0.5, 2)) == jax.tree.structure(Scaled(3, 0.5, 4))
    assert jax.tree.structure(Scaled(1, 0.5, 2)) != jax.tree.structure(Scaled(1, 0.25, 2))
    assert jax.tree.leaves(Scaled(1, 0.5, 2)) == [1, 2]


def test_a_node_is_built_again_and_its_leaves_have_the_names_of_its_fields():
    node = Scaled(1, 0.5, {"a": 2})
    assert jax.tree.map(lambda leaf: leaf, node) == node
    paths = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in jax.tree_util.tree_leaves_with_path(node)]
    assert paths == ["kernel", "bias.a"]


def test_no_class_of_the_library_is_registered_in_another_way():
    """Those of Flax and Optax are; their structures hold functions, or appear in no two classes of the same shapes."""
    others = re.compile(
        r"\b(register_dataclass|register_pytree_node|register_pytree_with_keys|register_static|struct\.dataclass|chex\.dataclass)\b"
    )
    found = [path.name for path in LIBRARY.rglob("*.py") if path.name != "pytrees.py" and others.search(path.read_text())]
    assert not found
