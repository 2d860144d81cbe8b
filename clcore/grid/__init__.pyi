from .grid import Grid as Grid, Request as Request, GridFailed as GridFailed, repeat as repeat
from .store import GridBusy as GridBusy
from .launchers import launcher as launcher
from .work import Unreachable as Unreachable
