"""One node: decoupling, gating, the gradient flow, normalisation (nl Secs. 2, 3, App. B.2)."""
