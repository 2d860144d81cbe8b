"""The course kit: slides, notebooks for students and for instructors, a handout, two plans.

data/course.yaml has the schedule; statements, checks, figures and exercises are looked up in
the last build.
"""

from clcore.book.course.kit import make, pages, read_key
from clcore.book.course.sessions import CourseError, Session, Step, plans, sessions

__all__ = ["CourseError", "Session", "Step", "make", "pages", "plans", "read_key", "sessions"]
