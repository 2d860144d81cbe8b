"""What the proof of Theorem 3 does between its lemmas, and that of Lemma 10 (acl App. A.2, B)."""

import numpy as np
import sympy

from clcore.checks.deep_linear_pca.flow import layers, product, symmetric
from clcore.ledger import Trial, exact, typical
from clcore.reference import Array, relative, sphere


def trace(t: Trial) -> None:
    """Eq. 41 takes the trace of the critical point condition times W_l^T: at any weights its left
    side is E, whichever the layer."""
    part = t.part("Eq. 41", 1e-11, controls=typical)
    rng, width = t.stream("trace"), 4
    X, ws = symmetric(rng, t.draws, width), layers(rng, t.draws, (width,) * 4)
    whole = product(ws)
    E = np.einsum("bij,bjk,bik->b", whole, X, whole)
    for k, w in enumerate(ws):
        high = product(ws[k + 1 :]) if k + 1 < len(ws) else np.broadcast_to(np.eye(width), w.shape)
        low = product(ws[:k]) if k else np.broadcast_to(np.eye(width), w.shape)
        F = low @ X @ low.swapaxes(-1, -2)
        part.add(relative(np.einsum("bji,bjk,bkl,blm,bim->b", high, high, w, F, w), E, 1e-3))
        if k:
            moved = np.einsum("bji,bjk,bkl,blm,bim->b", high, high, w, X, w)
            part.breaks("X for F_l-1", relative(moved, E, 1e-3))


def kronecker(t: Trial) -> None:
    """Eq. 42 is Eq. 43 where vec stacks columns, whatever the matrices."""
    X, M, W = (exact.matrix(name, n, m) for name, n, m in (("X", 3, 3), ("M", 2, 2), ("W", 2, 3)))
    moved, both = M * W * X, sympy.kronecker_product(X.T, M)
    rows = exact.equal(both * W.T.vec(), moved.T.vec())
    t.part("Eq. 43").proves(
        exact.equal(both * W.vec(), moved.vec()), breaks={"rows stacked": rows}, at="2 by 3"
    )


def top_space(t: Trial) -> None:
    """The top eigenvalue of X kron M is lambda_max(X) lambda_max(M), and its eigenvector is
    v_0 kron u with M's one top eigenvector u, also where X has several."""
    part = t.part("vec W_1 = v_0 kron u", 1e-10, controls=typical)
    rng, n0, n1 = t.stream("top space"), 4, 3

    def errors(first: Array, second: Array) -> Array:
        """[draws]: of X and M with these eigenvalues, falling; W_1 drawn from the top space."""
        Q, R = (np.linalg.qr(rng.standard_normal((t.draws, n, n)))[0] for n in (n0, n1))
        X, M = (np.einsum("bik,bk,bjk->bij", U, v, U) for U, v in ((Q, first), (R, second)))
        found = []
        for x, m, u, size in zip(X, M, R[..., 0], first[:, 0] * second[:, 0], strict=True):
            values, vectors = np.linalg.eigh(np.kron(x, m))
            space = vectors[:, values > values[-1] - 1e-9]
            W = (space @ sphere(rng, space.shape[1])).reshape(n0, n1).T  # columns are stacked
            found.append(max(abs(values[-1] - size), np.linalg.norm(W - np.outer(u, u @ W))))
        return np.array(found)

    def falling(top: int, low: float, n: int) -> Array:
        """Eigenvalues of which the first `top` are 1, the others in [low, 0.9]."""
        v = -np.sort(-rng.uniform(low, 0.9, (t.draws, n)), -1)
        v[:, :top] = 1.0
        return v

    for repeated in (1, 2):
        part.add(errors(falling(repeated, -2.0, n0), falling(1, 0.0, n1)))
    part.breaks("both top eigenvalues double", errors(falling(2, -2, n0), falling(2, 0, n1)))
    part.breaks("X negative", errors(-falling(1, 0.1, n0)[:, ::-1], falling(1, 0.0, n1)))


def not_aligned(t: Trial) -> None:
    """Layers of rank one: the norm of their product is the product of the turns between them, below
    1. A turn: |cosine| of a layer's output direction and the next one's input direction."""
    part = t.part("layers of rank 1", 1e-12, controls=typical)
    rng = t.stream("rank 1")
    for widths in ((4, 3, 2), (3, 5, 2, 4)):
        out, into = ([sphere(rng, t.draws, n) for n in widths] for _ in range(2))
        ws = [b[:, :, None] * a[:, None] for a, b in zip(into, out[1:], strict=False)]
        turns = [np.abs((a * b).sum(-1)) for a, b in zip(into[1:-1], out[1:-1], strict=True)]
        J = np.linalg.norm(product(ws), 2, (-2, -1))
        expected = np.prod(turns, 0)
        part.add(np.abs(J - expected), np.maximum(J - 1 + 1e-9, 0))
        part.breaks("a turn left out", np.abs(J - expected / turns[0]))


def one_layer_moved(t: Trial) -> None:
    """Eqs. 113 to 118: of all W of norm 1, |W v'| is largest for v v'^T / |v'| alone, whose rows
    are eigenvectors of v' v'^T; and with it |W_L W_{L-1} v'| is |W_{L-1} v'|."""
    part = t.part("Eqs. 113-118", 1e-12, controls=typical)
    rng = t.stream("one layer")
    below, W = rng.standard_normal((t.draws, 4)), layers(rng, t.draws, (4, 3))[0]
    moved = np.einsum("bij,bj->bi", W, below)
    size = np.linalg.norm(moved, axis=-1)
    v = sphere(rng, t.draws, 2)

    def off(right: Array) -> Array:
        """[draws]: of W_L = v right^T: its norm, Eq. 114, Eq. 116."""
        best = v[:, :, None] * right[:, None]
        square = np.einsum("bij,bj,bk->bik", best, moved, moved)
        length = np.linalg.norm(best, axis=(-2, -1))
        read = np.linalg.norm(np.einsum("bij,bj->bi", best, moved), axis=-1)
        short = np.abs(square - (size**2)[:, None, None] * best).max((-2, -1))
        return np.max([np.abs(length - 1), short / size**2, np.abs(read - size)], 0)

    part.add(off(moved / size[:, None]))
    part.breaks("as typeset, $v'$ not brought to norm 1", off(moved))
    below, W = exact.vector("v", 3), exact.matrix("W", 2, 3)
    gap = below.dot(below) * sum(w**2 for w in W) - sum(x**2 for x in W * below)
    across = [
        (W[r, i] * below[j] - W[r, j] * below[i]) ** 2
        for r in range(2)
        for i, j in ((0, 1), (0, 2), (1, 2))
    ]
    part.proves(
        exact.nonnegative(gap, sum(across)),
        breaks={"a row left out": exact.nonnegative(gap, sum(across[:3]))},
        at="2 by 3",
    )
