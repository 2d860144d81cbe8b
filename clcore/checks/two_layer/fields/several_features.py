"""Theorem 5 with a kernel of several features (nl Sec. 4, after Assumption 2).

Sums over fields by the tables of `clcore.theory.two_layer.field_latent` meet covariances by masks.
"""

from typing import NamedTuple

import numpy as np
import torch

from clcore.checks.two_layer.fields.latent import net_of
from clcore.ledger import Trial, typical
from clcore.reference import Array, tensors
from clcore.theory.two_layer import field_latent, two_layer


class Net(NamedTuple):
    """A law of states, what a field puts out in each, [draws, K, S], and the factors of every
    feature, [draws, L, K, S]: phi_l is their product over the fields."""

    model: field_latent.Model
    outputs: Array
    factors: Array


def drawn(rng: np.random.Generator, draws: int) -> Net:
    """Three ReLU fields, two values of z, three features."""
    model, W = net_of(rng, draws, 2, 3, 1)
    outputs = np.maximum(np.einsum("bksd,bkd->bks", model.values.numpy(), W[:, :, 0]), 0)
    return Net(model, outputs, rng.uniform(0, 1, (draws, 3, *outputs.shape[1:])) ** 3)


def named() -> Net:
    """f_1 = z; f_2 is 1 where z = 0, and 0 or 3 where z = 1; phi_1 leaves out f_2 = 3."""
    table = np.array([[[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0.5, 0, 0.5]]]])  # f in its states
    outputs = np.array([[[0.0, 1.0, 0.0], [0.0, 1.0, 3.0]]])
    factors = np.array([[[[1, 1, 1], [1, 1, 1]], [[1, 1, 1], [0.5, 0.5, 0]]]])
    prior = np.array([[0.5, 0.5]])
    return Net(field_latent.Model(*tensors(prior, table, outputs[..., None])), outputs, factors)


class Terms(NamedTuple):
    """z_l^2 p_0 p_1 and b_k under every feature's law, [draws, L] and [draws, L, K]; the sum over
    l of z_l^2 V_l[f_1], [draws, K, K]."""

    weight: Array  # z_l^2 p_0 p_1
    b: Array
    covariance: Array  # the sum of z_l^2 V_l[f_1]


def by_tables(net: Net) -> Terms:
    """Every feature's law as a separate model, in which the fields are independent given z."""
    prior, table, _ = (v.numpy() for v in net.model)
    weight, b, covariance = [], [], np.zeros(1)
    for factors in net.factors.swapaxes(0, 1):
        mass = table * factors[:, None]
        size = mass.sum(-1)  # [draws, C, K]
        chance = prior * size.prod(-1)
        z = chance.sum(-1)
        law = field_latent.Model(
            *tensors(chance / z[:, None], mass / size[..., None]), net.model.values
        )
        outputs = torch.from_numpy(net.outputs[..., None])
        means = field_latent.means(law, outputs)[..., 0].numpy()
        covariance = (
            covariance + z[:, None, None] ** 2 * field_latent.covariance(law, outputs).numpy()
        )
        weight.append(z**2 * law.prior.prod(-1).numpy())
        b.append(means[:, 1] - means[:, 0])
    return Terms(np.stack(weight, 1), np.stack(b, 1), covariance)


def by_masks(net: Net) -> tuple[Array, Array]:
    """z_l^2 V_l[f_1], [draws, L, K, K], and b_k^2, [draws, L, K], from the list of all states."""
    joint = field_latent.joint(net.model)
    z, states, p = (v.numpy() for v in joint)
    K = states.shape[1]
    f = np.stack([net.outputs[:, k, states[:, k]] for k in range(K)], -1)
    moments, squares = [], []
    for factors in net.factors.swapaxes(0, 1):
        mass = p * np.prod([factors[:, k, states[:, k]] for k in range(K)], 0)
        total = mass.sum(-1)
        first = np.einsum("bn,bnk->bk", mass, f)
        second = np.einsum("bn,bnk,bnj->bkj", mass, f, f)
        moments.append(total[:, None, None] * second - first[:, :, None] * first[:, None])
        means = [
            np.einsum("bn,bnk->bk", mass * (z == c), f) / (mass * (z == c)).sum(-1)[:, None]
            for c in (0, 1)
        ]
        squares.append((means[1] - means[0]) ** 2)
    return np.stack(moments, 1), np.stack(squares, 1)


def strengths_in_theorem5(t: Trial) -> None:
    """delta_k of every feature l; s is the top eigenvector of V, the sum of z_l^2 V_l[f_1].

    Printed: none is negative. Corrected: delta_k b_k^2, summed over l, is not, and it is
    s_k^2 (lambda - V_kk). Control: the bottom eigenvector of V for s.
    """
    name = "kernel alpha: strengths in Theorem 5"
    printed, mended = forms = t.both(name, 1e-9, controls=typical)
    example = named()
    for net in (example, drawn(t.rng, t.draws)):
        terms = by_tables(net)
        values, vectors = np.linalg.eigh(terms.covariance)
        own = np.diagonal(terms.covariance, axis1=1, axis2=2)
        scale = values[:, -1:]

        def strengths(s: Array, terms: Terms = terms) -> Array:
            """delta_k b_k^2 of every feature, [draws, L, K]."""
            reach = np.einsum("bk,blk->bl", s, terms.b)[..., None] - s[:, None] * terms.b
            return terms.weight[..., None] * s[:, None] * terms.b * reach

        # As printed: how far the lowest delta_k b_k^2 lies below 0; once more by masks.
        each = strengths(vectors[..., -1])
        printed.add((-each).max((1, 2)) / scale[:, 0])
        moments, squares = by_masks(net)
        s = two_layer.top_weights(torch.from_numpy(moments.sum(1))).numpy()
        pull = s[:, None] * np.einsum("blkj,bj->blk", moments, s)
        again = pull - s[:, None] ** 2 * np.diagonal(moments, axis1=2, axis2=3)
        printed.fails_by((-again).max((1, 2)) / scale[:, 0])
        # Corrected: the same of their sum over l, and its distance from s_k^2 (lambda - V_kk).
        form = each.sum(1)
        mended.add(-form / scale, np.abs(form - vectors[..., -1] ** 2 * (scale - own)) / scale)
        low = strengths(vectors[..., 0]).sum(1) / scale
        forms.breaks("the bottom eigenvector", (-low).max(-1))
        if net is example:
            delta = each[0, 1, 0] / squares[0, 1, 0] / (s[0, 0] * s[0, 1])
            printed.says(delta=delta, coupled=terms.covariance[0, 0, 1])
            printed.confirms(delta=-1 / 32, coupled=3 / 32)
        else:
            printed.says(share=np.mean(each < -1e-12), some=np.mean((each < -1e-12).any((1, 2))))
