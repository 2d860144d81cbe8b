"""Two-layer ReLU nets and the data they compose (acl Sec. 5)."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
