"""The local roughness of A(w), by quotients and as an integral over a plane (nl Sec. 3.2)."""

import numpy as np

from clcore.checks.one_layer.eigenvectors.gate_jumps import categorical_quotient
from clcore.checks.one_layer.node.activation import unit
from clcore.ledger import Trial, check, pooled, typical
from clcore.reference import Array, absolute, plane, tensors
from clcore.theory.one_layer import one_layer


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
            its hyperplanes. Spectrum and gap against a rebuilt matrix.
    Fails   without E[h], for |x| in place of x^2; beyond the nearest hyperplane; for eigenvalues
            in rising order.
    """
    rng, part = t.rng, t.part("roughness", 1e-3, controls=pooled)
    node, weight = np.polynomial.legendre.leggauss(200)
    for _ in range(min(t.draws, 12)):
        law, angle = plane.draw(rng), rng.uniform(-np.pi, np.pi)
        w, u = plane.direction(angle), plane.direction(angle + np.pi / 2)
        values = [(_quotient(law, angle, s) + _quotient(law, angle, -s)) / 2 for s in (1e-2, 5e-3)]
        limit = (4 * values[1] - values[0]) / 3
        line = law.reach * node
        p = law.reach * weight * plane.density(law, line[:, None] * u)
        mean, _ = plane.gated_moments(law, angle)
        part.add(abs(limit / ((w @ mean) * (line**2 @ p)) - 1))
        part.breaks("without E[h]", abs(limit / (line**2 @ p) - 1))
        part.breaks("|x| for x^2", abs(limit / ((w @ mean) * (np.abs(line) @ p)) - 1))
    A = _of_samples(t)
    A = A + A.swapaxes(-1, -2)
    values, vectors = (v.numpy() for v in one_layer.spectrum(*tensors(A)))
    again = (vectors * values[:, None]) @ vectors.swapaxes(-1, -2)
    part = t.part("spectrum and gap", 1e-12, controls=typical, draws=t.draws)
    part.add(absolute(again, A), np.maximum(np.diff(values, axis=-1), 0).max(-1))
    part.add(absolute(one_layer.gap(*tensors(A)), values[:, 0] - values[:, 1]))
    turned = (vectors * values[:, None, ::-1]) @ vectors.swapaxes(-1, -2)
    part.breaks("eigenvalues rising", absolute(turned, A))


def _of_samples(t: Trial) -> Array:
    """The roughness of finite samples: none up to the nearest hyperplane. Returns their A(w)."""
    rng, draws = t.rng, t.draws
    x, w = rng.standard_normal((draws, 40, 3)), unit(rng, draws, 3)
    world = one_layer.samples(*tensors(x))
    A = one_layer.operator(world, *tensors(w)).numpy()
    edge = np.abs((x * w[:, None]).sum(-1) / np.linalg.norm(x, axis=-1)).min(-1, keepdims=True)
    u = unit(rng, draws, 3)
    u = u - (u * w).sum(-1, keepdims=True) * w
    u = u / np.linalg.norm(u, axis=-1, keepdims=True)

    def quotient(size: Array) -> Array:
        v = np.sqrt(1 - size**2) * w + size * u
        gap = one_layer.operator(world, *tensors(v)).numpy() - A
        norm = np.linalg.norm(gap @ w[..., None], axis=(1, 2))
        return norm / np.linalg.norm(v - w, axis=-1)

    part = t.part("finite samples", 1e-9, controls=typical)
    part.add(quotient(0.5 * np.minimum(edge, 0.1)))
    part.breaks("beyond the nearest hyperplane", quotient(np.full_like(edge, 0.5)))
    part.says(factor=categorical_quotient(1e-4) / categorical_quotient(1e-2))
    return A
