"""What the top layer sends down: Theorems 5 and 6, chances to win (nl Sec. 4.2, App. C.3)."""
