"""The tail of a Gaussian pair and the Mills ratio, and what is read off them (ddn App. C.3)."""
