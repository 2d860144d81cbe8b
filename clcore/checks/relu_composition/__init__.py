"""Checks of chapters 3.1 to 3.3: two-layer ReLU nets and composition (acl Sec. 5)."""
