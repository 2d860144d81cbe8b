"""The losses as modules for your own training loop."""

from typing import Any

from jaxtyping import Float, Shaped
from torch import Tensor, nn

from clcore.losses.contrast import family_loss, pairwise_importance, require_reduction
from clcore.losses.floating import require_floating
from clcore.losses.infonce_family import Convention, convention, infonce, infonce_importance
from clcore.losses.labelled import supcon, supcon_importance
from clcore.losses.pairs import (
    Pair,
    Scalar,
    infonce_pair,
    one_temperature,
    require_pair,
    require_temperature,
    table1,
)

Loss = Float[Tensor, ""] | Float[Tensor, " n"]


def _require_outputs(z: Any, z2: Any, function: str) -> None:
    """Raise unless these are floating-point outputs `[n, d]` of one shape."""
    require_floating("z", z)
    require_floating("z2", z2)
    if z.ndim != 2 or z.shape != z2.shape:
        raise ValueError(
            f"expected two views of one shape [n, d], got {list(z.shape)} and {list(z2.shape)}; "
            f"row i of z2 is the other view of row i of z. Flatten further dimensions, or use "
            f"losses.{function} for batches of batches"
        )


def _require_one(name: str, value: Scalar) -> None:
    if isinstance(value, Tensor) and value.ndim:
        raise ValueError(
            f"expected {name} to be one number, got a tensor of shape {list(value.shape)}; "
            "for one value per run, map over runs with torch.func.vmap"
        )


class InfoNCE(nn.Module):
    """InfoNCE of two views of a batch, in a convention by name; one number, to be descended.

    `infonce` for one batch, with another default: `how="nt-xent"` here, `"acl"` there. For
    half-precision outputs, or under autocast, it is computed in float32, and the value is float32.

    Attributes:
        tau: the temperature, which divides similarities; a number, or a tensor of one, as a
            parameter that is learned. 0.5 if none is given; `temperature` is another name for it.
        eps: 1 keeps the positive in the denominator; 0 leaves it out (decoupled).
        how: the `Convention`: similarity, anchors, negatives, scale, sum or mean. `reduction`, if
            given, takes the place of the last: "none" gives n values, one for each sample.

    Raises:
        ValueError: tau <= 0, eps < 0, an unknown convention or reduction; on the call, n < 2
            samples, outputs that are not `[n, d]`, or views of different shapes.
        TypeError: tau or eps that is not a number; tau and temperature both; on the call, outputs
            that are not floating-point.

    Examples:
        >>> loss = InfoNCE(tau=0.1)
        >>> net = torch.nn.Linear(5, 3)
        >>> x = torch.randn(8, 5)
        >>> value = loss(net(x), net(x + 0.1 * torch.randn(8, 5)))
        >>> value.backward()
        >>> value.shape, net.weight.grad.shape
        (torch.Size([]), torch.Size([3, 5]))
    """

    def __init__(
        self,
        tau: Scalar | None = None,
        eps: Scalar = 1.0,
        how: str | Convention = "nt-xent",
        *,
        temperature: Scalar | None = None,
        reduction: str | None = None,
    ) -> None:
        super().__init__()
        tau = one_temperature(tau, temperature)
        infonce_pair(tau, eps)  # which checks both
        _require_one("tau", tau)
        _require_one("eps", eps)
        self.tau, self.eps, self.how = tau, eps, convention(how, reduction)

    def forward(self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Loss:
        """The loss of outputs z, z2 for the first and the second views of n samples."""
        _require_outputs(z, z2, "infonce")
        return infonce(z, z2, self.tau, self.eps, self.how)

    def importance(self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Tensor:
        """Which views the gradient pushes from an anchor, and how hard; detached.

        Rows are anchors: the n first views, and where both are anchors ("nt-xent"), the n second
        views below. Columns are views, in the same order; the second ones are left out where
        neither anchors nor negatives are among them ("acl": n x n, as `pairwise_importance` has
        it). An entry is the share in the denominator, exp(s_k / tau) / (eps exp(s / tau) + sum_j
        exp(s_j / tau)), and 0 for views that are not the anchor's negatives; a row's sum, at most
        1, is the pull on the anchor's other view. The value's slope in s_k is this, over tau but
        where tau multiplies the value, over n in a mean, and halved where both views are anchors.
        """
        _require_outputs(z, z2, "infonce")
        return infonce_importance(z, z2, self.tau, self.eps, self.how).detach()

    def extra_repr(self) -> str:
        """What is printed of it: temperature, eps and convention."""
        return f"tau={self.tau}, eps={self.eps}, {self.how}"


class ContrastiveLoss(nn.Module):
    """A loss of the (phi, psi) family (acl Eq. 1), the mean over samples; to be descended.

    `family_loss` with another default: the function takes the sum over samples.

    Attributes:
        pair: the `Pair`, given as such or by its name in acl Table 1, with that table's settings as
            in `table1`: "InfoNCE", "MINE", "Triplet", "Soft Triplet", "N+1 Tuplet", "Lifted
            Structured", "Modified Triplet", "Triplet Contrastive".
        reduction: "mean" or "sum" over samples, or "none", n values, one for each sample.

    Raises:
        ValueError: an unknown name or reduction; on the call, n < 2 samples, outputs that are not
            `[n, d]`, or views of different shapes.
        TypeError: neither a `Pair` nor a name, such as `triplet_pair` without its call; on the
            call, outputs that are not floating-point.

    Examples:
        >>> z = torch.tensor([[0.0], [2.0]])  # a pair at distance 2
        >>> ContrastiveLoss("MINE")(z, z)
        tensor(-2.)
        >>> ContrastiveLoss(triplet_pair(margin=3.0))(z, z)
        tensor(1.)
        >>> ContrastiveLoss("MINE").importance(z, z)
        tensor([[0., 1.],
                [1., 0.]])
    """

    def __init__(self, pair: Pair | str, *, reduction: str = "mean") -> None:
        super().__init__()
        if isinstance(pair, str):
            table = {row.name: row for row in table1()}
            if pair not in table:
                raise ValueError(f"pair: expected one of {', '.join(table)}, got {pair!r}")
            pair = table[pair]
        require_pair(pair)
        self.pair, self.reduction = pair, require_reduction(reduction)

    def forward(self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Loss:
        """The loss of outputs z, z2 for the first and the second views of n samples."""
        _require_outputs(z, z2, "family_loss")
        return family_loss(z, z2, self.pair, self.reduction)

    def importance(self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Tensor:
        """Which pairs the gradient pushes apart, and how hard: `pairwise_importance`, detached.

        It belongs to the sum over samples and is `[n, n]` with zeros on the diagonal; for a mean
        divide it by n.
        """
        _require_outputs(z, z2, "pairwise_importance")
        return pairwise_importance(z, z2, self.pair).detach()

    def extra_repr(self) -> str:
        """What is printed of it: the name of the pair."""
        return self.pair.name


class SupCon(nn.Module):
    """The supervised contrastive loss of Khosla et al. 2020 (arXiv:2004.11362, Eq. 2, L_out).

    `supcon` for one batch: views with the same label are positives. If no two samples share a
    label, it is `InfoNCE(tau)`.

    Attributes:
        tau: the temperature, a number or a tensor of one, such as a parameter that is learned. 0.5
            if none is given (the paper has 0.1); `temperature` is another name for it.
        reduction: "mean" or "sum" over samples, or "none", n values, one for each sample.

    Raises:
        ValueError: tau <= 0, an unknown reduction; on the call, n < 2 samples, outputs that are not
            `[n, d]`, views of different shapes, labels that are not `[n]`.
        TypeError: tau that is not a number; tau and temperature both; on the call, outputs that are
            not floating-point, labels that are not integers.

    Examples:
        >>> z, labels = torch.randn(6, 3), torch.tensor([0, 0, 1, 1, 2, 2])
        >>> loss = SupCon(tau=0.1)
        >>> loss(z, z, labels).shape, loss.importance(z, z, labels).shape
        (torch.Size([]), torch.Size([12, 12]))
    """

    def __init__(
        self,
        tau: Scalar | None = None,
        *,
        temperature: Scalar | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        tau = one_temperature(tau, temperature)
        require_temperature(tau)
        _require_one("tau", tau)
        self.tau, self.reduction = tau, require_reduction(reduction)

    def forward(
        self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], labels: Shaped[Tensor, " n"]
    ) -> Loss:
        """The loss of outputs z, z2 for the first and the second views of n samples."""
        _require_outputs(z, z2, "supcon")
        return supcon(z, z2, labels, self.tau, reduction=self.reduction)

    def importance(
        self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"], labels: Shaped[Tensor, " n"]
    ) -> Tensor:
        """Which views the gradient pushes from an anchor, and which it pulls (below 0); detached.

        Rows are anchors and columns views, the n first and then the n second. An entry is
        exp(s_k / tau) over the sum of these, minus 1/|P| for each of the anchor's positives; a
        row's sum is 0. The mean's slope in s_k is this, over 2 n tau.
        """
        _require_outputs(z, z2, "supcon")
        return supcon_importance(z, z2, labels, self.tau).detach()

    def extra_repr(self) -> str:
        """What is printed of it: temperature and reduction."""
        return f"tau={self.tau}, reduction={self.reduction!r}"
