"""Trained nets on latent trees: ddn Tables 4 and 6, Figs. 13 and 14 against our runs (App. D.1)."""
