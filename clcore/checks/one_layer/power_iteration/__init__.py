"""Power iteration: one step, Theorem 3, what its certificate allows (nl Sec. 3.3, App. B.4, G)."""
