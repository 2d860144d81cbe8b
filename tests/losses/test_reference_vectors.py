"""Unit vectors and tangents of `clcore.reference`, which the checks take for granted."""

import numpy as np
import pytest

from clcore import reference as ref

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("axis", [-1, 1, (-2, -1), (1, 2, 3)])
def test_unit_has_length_one_along_its_axes_and_keeps_the_direction(axis):
    x = RNG.standard_normal((2, 3, 4, 5))
    unit = ref.unit(x, axis)
    np.testing.assert_allclose((unit**2).sum(axis), 1, rtol=1e-14)
    ratio = x / unit
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio.max(axis, keepdims=True), x.shape))
    np.testing.assert_array_equal(ref.unit(x), x / np.linalg.norm(x, axis=-1, keepdims=True))


def test_complex_steps_go_through_unit():
    x, v = RNG.standard_normal((2, 4))
    slope = ref.unit(x + 1j * ref.STEP * v).imag / ref.STEP
    expected = ref.tangent(ref.unit(x), v) / np.linalg.norm(x)
    np.testing.assert_allclose(slope, expected, rtol=1e-12)


def test_a_tangent_has_no_part_along_w_and_loses_nothing_else():
    w, x = ref.sphere(RNG, 6, 3), RNG.standard_normal((6, 3))
    along = x - ref.tangent(w, x)
    np.testing.assert_allclose((w * ref.tangent(w, x)).sum(-1), 0, atol=1e-14)
    np.testing.assert_allclose(np.cross(along, w), 0, atol=1e-14)


def test_sphere_is_uniform():
    x = ref.sphere(np.random.default_rng(1), 20_000, 3)
    np.testing.assert_allclose((x**2).sum(-1), 1, rtol=1e-12)
    for coordinate in x.T:  # each is uniform on [-1, 1], by Archimedes
        assert ref.kolmogorov(coordinate, -1, 1) < 3
