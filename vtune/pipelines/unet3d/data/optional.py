"""Packages that only some data need: imported by the function that needs them, when it runs.

Every loader worker that is spawned imports the training anew, and should not wait for what it never uses.
"""

import importlib
from typing import Any

from vtune.pipelines.unet3d.data.volumes import MissingPackage, words


def require(package: str, doing: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise MissingPackage(f"{doing} needs the package {package}, which does not load: {words(error)}") from error
        raise MissingPackage(f"{doing} needs the package {package}: pip install 'vtune[seg]'") from None
    except ImportError as error:
        raise MissingPackage(f"{doing} needs the package {package}, which does not load: {words(error)}") from error
