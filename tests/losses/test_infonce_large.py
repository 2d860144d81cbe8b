"""InfoNCE of a large batch, whose similarities are made in tiles, against the matrix of all."""

import subprocess
import sys

import pytest
import torch
from torch.autograd import forward_ad

from clcore.losses import InfoNCE, infonce, infonce_family, infonce_large


@pytest.fixture
def tiles(monkeypatch):
    """Tiles of three rows for every batch; the list of how many were asked for."""
    asked = []
    whole = infonce_large.in_tiles

    def counted(v, eps, plain):
        asked.append(len(v))
        return whole(v, eps, plain)

    monkeypatch.setattr(infonce_family, "LARGE", 2)
    monkeypatch.setattr(infonce_family, "in_tiles", counted)
    monkeypatch.setattr(infonce_large, "ROWS", 3)
    return asked


def views(n: int, d: int) -> tuple[torch.Tensor, torch.Tensor]:
    z, noise = torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    return z.requires_grad_(), (z.detach() + 0.5 * noise).requires_grad_()


@pytest.mark.parametrize("how", ["nt-xent", "simclr"])
@pytest.mark.parametrize("eps", [1.0, 0.3, 0.0])
@pytest.mark.parametrize(("n", "d"), [(2, 3), (3, 1), (4, 3), (7, 3)])
def test_value_and_gradient_of_tiles(tiles, monkeypatch, how, eps, n, d):
    """In the temperature, too; with a row of zeros, which has no direction."""
    z, z2 = views(n, d)
    tau = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        z[1] = 0
    found = infonce(z, z2, tau, eps, how)
    slopes = torch.autograd.grad(found, (z, z2, tau))
    assert tiles == [2 * n]
    monkeypatch.setattr(infonce_family, "LARGE", 100)
    whole = infonce(z, z2, tau, eps, how)
    assert tiles == [2 * n] and found.item() == pytest.approx(whole.item(), rel=1e-13)
    for ours, other in zip(slopes, torch.autograd.grad(whole, (z, z2, tau)), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-11, atol=1e-13)


def test_derivatives_of_tiles(tiles):
    z, z2 = views(4, 3)
    tau = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    for eps in (1.0, 0.3):
        loss = lambda *given, eps=eps: infonce(*given, eps, "nt-xent")  # noqa: E731
        assert torch.autograd.gradcheck(loss, (z, z2, tau))
        assert torch.autograd.gradgradcheck(loss, (z, z2, tau))
    assert set(tiles) == {8}


def test_tiles_in_single_precision_and_below():
    """At the real size of tiles, and at the coldest temperature that they take."""
    z, z2 = (x.detach().float() for x in views(infonce_family.LARGE + 3, 8))
    for tau in (infonce_large.COLDEST, 0.5):
        exact = InfoNCE(tau, how=infonce_family.CONVENTIONS["simclr"])
        double = exact(z.double(), z2.double())
        free = z.clone().requires_grad_()
        value = exact(free, z2)
        (slope,) = torch.autograd.grad(value, free)
        assert value.dtype == torch.float32 and value.item() == pytest.approx(double.item(), 1e-6)
        half = z.bfloat16().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            below = exact(half, z2)
            (other,) = torch.autograd.grad(below, half)  # under autocast, too
        assert below.dtype == torch.float32 and other.dtype == torch.bfloat16
        exactly = exact(half.detach().float(), z2)
        assert below.item() == pytest.approx(exactly.item(), 1e-6)
        assert (other.float() - slope).norm() < 0.05 * slope.norm()


def test_who_cannot_take_tiles_gets_the_matrix(tiles):
    z, z2 = (x.detach() for x in views(4, 3))
    loss = InfoNCE(0.4)
    value, slope = loss(z, z2), torch.func.grad(loss)(z, z2)
    assert tiles == [8]
    torch.func.vmap(loss)(z[None], z2[None])
    torch.func.hessian(loss)(z, z2)
    with forward_ad.dual_level():
        dual = loss(forward_ad.make_dual(z, slope), z2)
        along = forward_ad.unpack_dual(dual).tangent
    assert along.item() == pytest.approx((slope**2).sum().item())
    for cold in (0.02, torch.tensor(0.02)):
        assert InfoNCE(cold)(z, z2).isfinite()
    InfoNCE(0.4, eps=torch.tensor(1.0))(z, z2)
    for how in ("ncl", "ddn", "acl", "simclr-first"):
        InfoNCE(0.4, how=how)(z, z2)
    infonce(z[None], z2[None], 0.4, how="nt-xent")
    assert tiles == [8] and value.isfinite()


PEAK = """
import resource, torch
from clcore.losses import InfoNCE
z, z2 = torch.randn(2, 4096, 16)
z.requires_grad_()
InfoNCE(0.1)(z[:64], z2[:64]).backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
InfoNCE(0.1)(z, z2).backward()
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak's unit is the system's own")
def test_a_large_batch_needs_no_matrix():
    """The matrix of 8192 x 8192 similarities alone has 256 MiB."""
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 180
