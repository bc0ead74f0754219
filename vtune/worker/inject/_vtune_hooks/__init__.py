"""vtune inside a training's process. Standard library only; format of what is written: docs/decisions/0002."""
