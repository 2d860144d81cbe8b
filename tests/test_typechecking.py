"""The checker of signatures that the tests put before clcore asks once about every kind of call."""

from dataclasses import dataclass

import jaxtyping
import numpy as np
import pytest
import torch
import typechecking
from jaxtyping import Float, TypeCheckError
from torch import Tensor


@dataclass(frozen=True)
class Size:
    side: int
    note: float = 0.0


def square(x: Float[Tensor, "n n"], y: Float[Tensor, "*b n"] | None = None) -> Float[Tensor, "n"]:
    """Its result is right where x has no negative entry."""
    return x[0] if (x >= 0).all() else x


def sized(x: Float[Tensor, "n n"], size: Size) -> Float[Tensor, "{size.side}"]:
    return x[0]


@pytest.fixture
def checked(monkeypatch):
    """Functions under the checker, and how often each of them had it made."""
    made = []

    def counted(fn, *, typechecker):
        made.append(fn.__name__)
        return jaxtyping_before(fn, typechecker=typechecker)

    jaxtyping_before = typechecking.jaxtyped
    monkeypatch.setattr(typechecking, "jaxtyped", counted)
    return lambda fn: (typechecking.once(fn, typechecker=typechecking.check), made)


def test_wrong_arguments_are_refused_before_and_after_right_ones(checked):
    call, _ = checked(square)
    for _ in range(3):
        with pytest.raises(TypeCheckError):
            call(torch.zeros(2, 3))
        assert call(torch.zeros(3, 3)).shape == (3,)
        with pytest.raises(TypeCheckError):
            call(torch.zeros(3, 3), torch.zeros(2))
        with pytest.raises(TypeCheckError):
            call(np.zeros((3, 3)))
        with pytest.raises(TypeCheckError):
            call(torch.zeros(3, 3, dtype=torch.int64))


def test_a_wrong_result_is_refused_and_not_remembered(checked):
    call, _ = checked(square)
    for _ in range(2):
        with pytest.raises(TypeCheckError):
            call(-torch.ones(4, 4))


def test_a_size_that_an_annotation_reads_off_an_argument_is_asked_anew(checked):
    call, _ = checked(sized)
    assert call(torch.zeros(3, 3), Size(3)).shape == (3,)
    assert call(torch.zeros(3, 3), Size(3, 1.0)).shape == (3,)
    with pytest.raises(TypeCheckError):
        call(torch.zeros(3, 3), Size(2))


def test_it_is_made_at_the_first_call_and_once(checked):
    call, made = checked(square)
    assert made == []
    for n in (3, 4, 3, 4):
        call(torch.zeros(n, n))
    assert made == ["square"]


def test_what_passes_while_it_is_off_is_asked_when_it_is_on(checked, unchecked_shapes):
    call, _ = checked(square)
    assert call(torch.zeros(2, 5)).shape == (5,)
    jaxtyping.config.update("jaxtyping_disable", False)
    with pytest.raises(TypeCheckError):
        call(torch.zeros(2, 5))


def test_a_net_has_no_kind():
    with pytest.raises(LookupError):
        typechecking.kind((torch.nn.Linear(2, 2),))
    assert typechecking.kind([torch.zeros(2), 1.5]) == typechecking.kind([torch.ones(2), 2.5])
    assert typechecking.kind({"a": 1}) != typechecking.kind({"a": 2})
    assert typechecking.kind((1,)) != typechecking.kind((True,))
    assert typechecking.kind(["a" * 99] * 9) == typechecking.kind(["b"] * 10)
