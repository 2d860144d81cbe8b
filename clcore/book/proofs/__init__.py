"""The proofs of the checks as programs that stand by themselves."""
