"""The losses as modules for a training loop of one's own."""

from jaxtyping import Float
from torch import Tensor, nn

from clcore.losses.contrast import family_loss, pairwise_importance
from clcore.losses.infonce_family import Convention, convention, infonce
from clcore.losses.pairs import Pair, Scalar, infonce_pair, table1


class InfoNCE(nn.Module):
    """InfoNCE of two views of a batch, in a convention by name; one number, to be descended.

    Attributes:
        tau: the temperature, which divides similarities.
        eps: 1 keeps the positive in the denominator; 0 leaves it out (decoupled).
        how: the `Convention`: similarity, anchors, negatives, scale, sum or mean.

    Raises:
        ValueError: tau <= 0, eps < 0, an unknown convention; on the call, n < 2 samples or views of
            different shapes.

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
        self, tau: Scalar = 0.5, eps: Scalar = 1.0, how: str | Convention = "nt-xent"
    ) -> None:
        super().__init__()
        infonce_pair(tau, eps)  # which checks both
        self.tau, self.eps, self.how = tau, eps, convention(how)

    def forward(self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """The loss of outputs z, z2 for the first and the second views of n samples."""
        return infonce(z, z2, self.tau, self.eps, self.how)

    def extra_repr(self) -> str:
        """What is printed of it: temperature, eps and convention."""
        return f"tau={self.tau}, eps={self.eps}, {self.how}"


class ContrastiveLoss(nn.Module):
    """A loss of the (phi, psi) family (acl Eq. 1), the mean over samples; to be descended.

    Attributes:
        pair: the `Pair`, given as such or by its name in acl Table 1, with that table's settings as
            in `table1`: "InfoNCE", "MINE", "Triplet", "Soft Triplet", "N+1 Tuplet", "Lifted
            Structured", "Modified Triplet", "Triplet Contrastive".

    Raises:
        ValueError: an unknown name; on the call, n < 2 samples or views of different shapes.

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

    def __init__(self, pair: Pair | str) -> None:
        super().__init__()
        if isinstance(pair, str):
            table = {row.name: row for row in table1()}
            if pair not in table:
                raise ValueError(f"pair: expected one of {', '.join(table)}, got {pair!r}")
            pair = table[pair]
        self.pair = pair

    def forward(self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Float[Tensor, ""]:
        """The loss of outputs z, z2 for the first and the second views of n samples."""
        return family_loss(z, z2, self.pair) / z.shape[0]

    def importance(self, z: Float[Tensor, "n d"], z2: Float[Tensor, "n d"]) -> Tensor:
        """Which pairs the gradient pushes apart, and how hard: `pairwise_importance`, detached."""
        return pairwise_importance(z, z2, self.pair).detach()

    def extra_repr(self) -> str:
        """What is printed of it: the name of the pair."""
        return self.pair.name
