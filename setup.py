"""What pyproject.toml cannot say: the registry of data sets, which stands in data/ with what else
is known, goes into the package, so that `images.load` works without a clone."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRegistry(build_py):
    """Copies data/datasets.yaml; an editable install reads the clone's."""

    def run(self) -> None:
        """Build the package, then add the file."""
        super().run()
        if not self.editable_mode:
            place = Path(self.build_lib, "clcore", "images", "datasets.yaml")
            self.copy_file("data/datasets.yaml", str(place))


setup(cmdclass={"build_py": BuildWithRegistry})
