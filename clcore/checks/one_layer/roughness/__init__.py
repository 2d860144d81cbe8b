"""How rough A(w) is: Theorem 2, Corollary 2, Gaussian alpha (nl Sec. 3.2, App. B.3)."""
