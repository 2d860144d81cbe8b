from .engine import train as train, Result as Result
from .checkpoint import Stopped as Stopped
from .schedules import cosine as cosine
from .optim import (
    unit_norm as unit_norm,
    unit_rows as unit_rows,
    unit_columns as unit_columns,
    unit_filters as unit_filters,
    unit_frobenius as unit_frobenius,
)
