"""Latent trees and nets on them: definition, messages, variances (ddn Sec. 6.1, App. C.2, C.4)."""
