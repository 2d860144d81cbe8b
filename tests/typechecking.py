"""The checker of signatures that the tests run clcore under: an int is a float, as in Python."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
