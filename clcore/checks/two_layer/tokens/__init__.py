"""The token experiment: its data, its scores, its figures beside our runs (nl Sec. 5, App. E.2)."""
