"""A sweep of small runs: InfoNCE on a two-layer net, from random pairs."""

import functools

import torch

from clcore import random as cr
from clcore.nets.networks import mlp, mlp_init
from clcore.sweep import train

D, N = 5, 8


def unit(z):
    """Rows of norm one; smooth where a ReLU net answers zero."""
    return z / (z.square().sum(1, keepdim=True) + 1e-3).sqrt()


def info_nce(z1, z2, tau):
    """With cosine similarities and the other first views as negatives."""
    z1, z2 = unit(z1), unit(z2)
    own = torch.eye(len(z1), dtype=torch.bool)
    logits = torch.where(own, (z1 * z2).sum(1, keepdim=True), z1 @ z1.T) / tau
    return -logits.log_softmax(1).diagonal().mean()


def init(key, config):
    return mlp_init(key, [D, 6, 4])


def data(key, step, config):
    clean, noise = cr.split(key)
    x = cr.normal(clean, (N, D), torch.float64)
    return x, x + 0.3 * cr.normal(noise, (N, D), torch.float64)


def loss(params, batch, config):
    x, y = batch
    return info_nce(mlp(params, x, "relu"), mlp(params, y, "relu"), config["tau"])


def metrics(params, config):
    return {"size": params["W1"].norm(), "tau_again": config["tau"] * 2}


def configs(n=5, **more):
    return [{"seed": 10 + r, "lr": 0.02 * (r + 1), "tau": 0.2 + 0.1 * r, **more} for r in range(n)]


run = functools.partial(train, init=init, data=data, loss=loss, dtype=torch.float64, progress=False)


def same(a, b):
    return all(torch.equal(a.params(r)[n], b.params(r)[n]) for r in (0, 1, 2) for n in a.params(r))
