"""First on PYTHONPATH of a trial, so every Python under it runs this at its start; then the one that it shadows.

Conservative syntax and no annotations: any interpreter that the training happens to start reads this file.
"""

import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))
if os.environ.get("VTUNE_TRIAL") and sys.version_info >= (3, 10):
    try:
        from _vtune_hooks import install

        install.install(os.environ["VTUNE_TRIAL"])
    except Exception:  # the user's run comes first
        pass

# Gone for this process, not for its children: those read the environment again.
sys.path[:] = [_entry for _entry in sys.path if os.path.abspath(_entry) != _folder]

# A second, normal import finds the module that this one shadows. When there is none, the ImportError is the one that
# Python's site module expects; and what a foreign sitecustomize raises is reported by it as without us.
sys.modules.pop("sitecustomize", None)
import sitecustomize  # noqa: E402, F401
