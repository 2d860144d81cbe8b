"""The token experiment: data, scores, its figures against our runs (nl Sec. 5, App. E.2)."""
