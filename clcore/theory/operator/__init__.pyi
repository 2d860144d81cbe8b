from . import (
    connection as connection,
    covariance_operator as covariance_operator,
    descent as descent,
    translation as translation,
)
