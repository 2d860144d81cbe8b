"""The local roughness of A(w), by quotients and as an integral over a plane (nl Sec. 3.2)."""

import numpy as np

from clcore.checks.one_layer.eigenvectors.gate_jumps import categorical_quotient
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, plane, sphere, tangent, tensors, unit
from clcore.theory.one_layer import one_layer

STEPS = (1e-2, 5e-3)
"""Turns of which Richardson's limit is taken."""


def _quotient(law: plane.Law, angle: float, step: float) -> float:
    """|(A(v) - A(w)) w| / |v - w| with v turned by `step`."""
    gap = plane.operator(law, angle + step) - plane.operator(law, angle)
    w, v = plane.direction(angle), plane.direction(angle + step)
    return float(np.linalg.norm(gap @ w) / np.linalg.norm(v - w))


@check("nl/rem8")
def rem8(t: Trial) -> None:
    """Eigenvalue gap and local roughness of A(w) (Sec. 3.2).

    Given   mixtures of Gaussians in the plane by quadrature; finite samples.
    Claim   rho(w), by Richardson from the quotient |(A(v) - A(w)) w|/|v - w|, is E[h(w^T x)] times
            the norm of the integral of x (x^T u) over w^T x = 0; a finite sample has rho = 0 off
            its hyperplanes.
    Fails   without E[h], for |x| in place of x^2; beyond the nearest hyperplane.
    """
    rng = t.rng

    # rho as the limit of the quotient, and as an integral over the line w^T x = 0.
    rho = t.part("roughness", 1e-3, controls=pooled)
    node, weight = np.polynomial.legendre.leggauss(200)
    for _ in range(min(t.draws, 12)):
        law, angle = plane.draw(rng), rng.uniform(-np.pi, np.pi)
        w, u = plane.direction(angle), plane.direction(angle + np.pi / 2)
        far, near = ((_quotient(law, angle, s) + _quotient(law, angle, -s)) / 2 for s in STEPS)
        limit = (4 * near - far) / 3
        line = law.reach * node
        p = law.reach * weight * plane.density(law, line[:, None] * u)
        mean, _ = plane.gated_moments(law, angle)
        rho.add(abs(limit / ((w @ mean) * (line**2 @ p)) - 1))
        rho.breaks("without E[h]", abs(limit / (line**2 @ p) - 1))
        rho.breaks("|x| for x^2", abs(limit / ((w @ mean) * (np.abs(line) @ p)) - 1))

    # The quotient of finite samples, up to half the way to the nearest hyperplane.
    x, w = rng.standard_normal((t.draws, 40, 3)), sphere(rng, t.draws, 3)
    world = one_layer.samples(*tensors(x))
    A = one_layer.operator(world, *tensors(w)).numpy()
    edge = np.abs((x * w[:, None]).sum(-1) / np.linalg.norm(x, axis=-1)).min(-1, keepdims=True)
    u = unit(tangent(w, sphere(rng, t.draws, 3)))

    def quotient(size: Array) -> Array:
        """|(A(v) - A(w)) w| / |v - w|, v turned towards u."""
        v = np.sqrt(1 - size**2) * w + size * u
        change = (one_layer.operator(world, *tensors(v)).numpy() - A) @ w[..., None]
        return np.linalg.norm(change, axis=(1, 2)) / np.linalg.norm(v - w, axis=-1)

    samples = t.part("finite samples", 1e-9, controls=typical)
    samples.add(quotient(0.5 * np.minimum(edge, 0.1)))
    samples.breaks("beyond the nearest hyperplane", quotient(np.full_like(edge, 0.5)))
    # The categorical model, patterns on the plane: from a turn of 0.01 to one of 0.0001.
    samples.says(factor=categorical_quotient(1e-4) / categorical_quotient(1e-2))
