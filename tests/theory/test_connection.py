"""Deep nets, their reversible layers, connections and distance gradients, against autograd."""

import pytest
import torch

from clcore import random
from clcore.theory.operator import connection as cn

F64 = torch.float64
NETS = {"linear": cn.LINEAR, "relu": cn.RELU, "leaky": cn.leaky_relu(0.1), "square": cn.power(2)}
WIDTHS = (5, 7, 6, 8, 5, 6, 4)


def draw(name, *shape):
    return random.normal(random.fold_in(random.key(3), sum(map(ord, name))), shape, F64)


def tower(name, depth, draws=3):
    pairs = zip(WIDTHS[1 : depth + 1], WIDTHS, strict=False)
    return [draw(f"{name}{k}", draws, a, b) for k, (a, b) in enumerate(pairs)]


def residual_net(psi):
    """A dense layer, two blocks, a linear top; 3 draws, 4 samples."""
    blocks = [cn.Residual(draw(f"i{k}", 3, 6, 5), draw(f"o{k}", 3, 5, 6)) for k in range(2)]
    weights = [draw("in", 3, 5, 5), *blocks, draw("out", 3, 4, 5)]
    return cn.trace(weights, draw("x", 3, 4, 5).requires_grad_(), psi)


def slope(out, inputs):
    """d out / d inputs of one sample per row, [*b, n, n_out, n_in]."""
    rows = [torch.autograd.grad(o.sum(), inputs, retain_graph=True)[0] for o in out.unbind(-1)]
    return torch.stack(rows, -2)


def test_vec_stacks_columns():
    W = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    assert cn.vec(W).tolist() == [1, 4, 2, 5, 3, 6]
    assert cn.unvec(cn.vec(W), 2).equal(W)
    A, X, B = draw("A", 3, 4), draw("X", 4, 2), draw("B", 2, 5)
    assert torch.allclose(cn.vec(A @ X @ B), torch.kron(B.T.contiguous(), A) @ cn.vec(X))


@pytest.mark.parametrize("name", NETS)
def test_activations_and_their_derivatives(name):
    u = torch.tensor([-2.0, -0.5, 0.5, 3.0], dtype=F64, requires_grad=True)
    psi, expected = (
        NETS[name],
        {
            "linear": lambda v: v,
            "relu": torch.relu,
            "leaky": lambda v: torch.nn.functional.leaky_relu(v, 0.1),
            "square": torch.square,
        }[name](u),
    )
    assert torch.allclose(psi(u), expected, rtol=1e-15)
    (derivative,) = torch.autograd.grad(expected.sum(), u)
    assert torch.allclose(psi.factor * psi.gate(u), derivative, rtol=1e-15)


def test_powers_of_positive_numbers():
    u = torch.tensor([0.3, 2.0], dtype=F64)
    assert torch.allclose(cn.power(1.5)(u), u**1.5)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("depth", range(1, 7))
def test_jacobians_and_transitions(name, depth):
    net = cn.trace(tower("W", depth), draw("x", 3, 4, 5).requires_grad_(), NETS[name])
    for layer in range(depth + 1):
        start = net.pre[layer - 1] if layer else net.post[0]
        V, J = cn.transitions(net, layer)
        assert torch.allclose((V @ start[..., None])[..., 0], net.output, rtol=1e-10)
        assert torch.allclose(J, slope(net.output, start), rtol=1e-10)
        if layer:
            assert cn.jacobian(net, layer).equal(J)
            D = cn.gate(net, layer)
            assert torch.allclose(D * net.pre[layer - 1], net.post[layer])


@pytest.mark.parametrize("psi", [cn.RELU, cn.LINEAR], ids=["ReLU after", "plain"])
def test_residual_blocks(psi):
    net = residual_net(psi)
    block, f = net.weights[1], net.post[1]
    by_hand = f + torch.relu(f @ block.inner.mT) @ block.outer.mT
    assert torch.allclose(net.pre[1], by_hand)
    for layer in range(1, 5):
        V, J = cn.transitions(net, layer)
        assert torch.allclose((V @ net.pre[layer - 1][..., None])[..., 0], net.output)
        assert torch.allclose(J, slope(net.output, net.pre[layer - 1]))


@pytest.mark.parametrize("depth", range(1, 7))
def test_connection_is_the_jacobian_by_vec_w(depth):
    weights, x = tower("W", depth, 1), draw("x", 1, 4, 5)
    net = cn.trace(weights, x, cn.RELU)
    for layer in range(1, depth + 1):

        def output(w, layer=layer):
            W = cn.unvec(w, weights[layer - 1].shape[1])[None]
            return cn.trace([*weights[: layer - 1], W, *weights[layer:]], x).output[0]

        K = cn.connection(net, layer)
        J = torch.func.jacrev(output)(cn.vec(weights[layer - 1])[0])  # sample, output, vec
        assert torch.allclose(K[0].mT, J, rtol=1e-10)


@pytest.mark.parametrize("name", ["linear", "relu", "leaky"])
@pytest.mark.parametrize("normalised", [False, True])
def test_distance_gradient(name, normalised):
    for depth in range(1, 6):
        weights = [w.requires_grad_() for w in tower("one", depth)]
        x1, x2 = draw("x1", 3, 1, 5), draw("x2", 3, 1, 5)
        first = cn.trace(weights, x1, NETS[name])
        second = cn.trace(tower("two", depth), x2, NETS[name])
        alive = (first.output.norm(dim=-1) * second.output.norm(dim=-1))[:, 0] > 1e-6
        assert alive.sum() > 0
        r = cn.distance(first, second, normalised)[alive].sum()
        slopes = torch.autograd.grad(r, weights)
        for layer, g in enumerate(slopes, 1):
            ours = cn.distance_gradient(first, second, layer, normalised)[alive, 0]
            scale = g.abs().max()
            assert torch.allclose(ours, cn.vec(g)[alive], atol=1e-11 * float(scale) + 1e-13)


def test_normalised_distance_ignores_scale_and_has_a_projector():
    first, second = (cn.trace([draw(n, 2, 4, 5)], draw("x", 2, 3, 5)) for n in "ab")
    f, g = first.output, second.output
    cosine = torch.nn.functional.cosine_similarity(f, g, dim=-1)
    assert torch.allclose(cn.distance(first, second, True), 1 - cosine)
    P = cn.projector(f)
    assert torch.allclose((P @ f[..., None])[..., 0], torch.zeros_like(f), atol=1e-13)
    assert torch.allclose(P.diagonal(dim1=-1, dim2=-2).sum(-1), torch.tensor(3.0, dtype=F64))
    Kn, K = cn.normalised_connection(first, 1), cn.connection(first, 1)
    assert torch.allclose(Kn * f.norm(dim=-1)[..., None, None], K)


def test_errors_say_what_to_do(unchecked_shapes):
    x, W = draw("x", 3, 4, 5), tower("W", 2)
    with pytest.raises(ValueError, match="expected at least one layer, got none"):
        cn.trace([], x)
    with pytest.raises(ValueError, match=r"expected 7 inputs to layer 2, .* got 5"):
        cn.trace([draw("a", 3, 5, 5), W[1]], x)
    net = cn.trace(W, x)
    for layer in (0, 3):
        with pytest.raises(ValueError, match=f"expected a layer from 1 to 2, got {layer}"):
            cn.connection(net, layer)
    with pytest.raises(ValueError, match="expected a layer from 1 to 2, got -1"):
        cn.transitions(net, -1)
    with pytest.raises(ValueError, match="expected layer 2 to be a weight matrix"):
        cn.connection(residual_net(cn.RELU), 2)
    with pytest.raises(ValueError, match="expected a power p > 1, got 1"):
        cn.power(1)
    square = cn.trace(W, x, cn.power(2))
    with pytest.raises(ValueError, match="expected activations whose derivative is their gate"):
        cn.distance_gradient(square, square, 1)
    block = cn.Residual(draw("i", 3, 6, 5), draw("o", 3, 5, 6), cn.power(2))
    with pytest.raises(ValueError, match="expected a piecewise linear activation inside"):
        cn.reversible(cn.trace([block], x), 1)
    with pytest.raises(ValueError, match="expected a length that 2 rows divide, got 5"):
        cn.unvec(draw("v", 5), 2)
