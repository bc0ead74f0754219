"""The training's config file, read strictly: a wrong key or value is an error that names it, never a default.

Standard library and PyYAML only: a config can be checked without loading PyTorch.
"""

import difflib
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

# The section of another program that may share this file. It is not ours to read or to judge.
FOREIGN_SECTION = "vtune"

T = TypeVar("T")


class SettingsError(Exception):
    """Everything that is wrong with a config file, one line a problem: `file: key: what`."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        super().__init__("\n".join(f"{path}: {problem}" for problem in problems))


def within(default: T, *, low: float, high: float = math.inf) -> T:
    """A key's default and the range that its value, or each of its values, has to be in."""
    made: T = field(default=default, metadata={"low": low, "high": high})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSettings:
    seed: int = within(0, low=0)
    records: int = within(806, low=1)
    patches_per_record: int = within(5, low=1)
    volume_size: tuple[int, int, int] = within((320, 320, 320), low=8)
    chunk_size: tuple[int, int, int] = within((64, 64, 64), low=8)
    patch_size: tuple[int, int, int] = within((72, 136, 136), low=8)
    read_margin: float = within(0.2, low=0.0, high=1.0)
    foreground_probability: float = within(0.5, low=0.0, high=1.0)

    @property
    def region_size(self) -> tuple[int, int, int]:
        """What is read for one patch: the patch and the margin that a rotation needs at its edges."""
        z, y, x = (math.ceil(edge * (1 + self.read_margin)) for edge in self.patch_size)
        return z, y, x


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentationSettings:
    flip_probability: float = within(0.5, low=0.0, high=1.0)
    spatial_probability: float = within(0.8, low=0.0, high=1.0)
    rotation_degrees: float = within(30.0, low=0.0, high=180.0)
    scale_range: tuple[float, float] = within((0.85, 1.2), low=0.1, high=10.0)
    elastic_voxels: float = within(4.0, low=0.0)
    elastic_spacing: int = within(24, low=2)
    intensity_probability: float = within(0.3, low=0.0, high=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    filters: int = within(32, low=1)
    max_filters: int = within(320, low=1)
    depth: int = within(6, low=2, high=8)
    deep_supervision: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    bce_weight: float = within(1.0, low=0.0)
    dice_weight: float = within(1.0, low=0.0)
    surface_weight: float = within(1.0, low=0.0)
    positive_weight: float = within(3.0, low=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    seed: int = within(0, low=0)
    workers: int = within(1, low=0)
    worker_start: Literal["spawn", "fork"] = "spawn"
    train_batch_size: int = within(1, low=1)
    accumulate_steps: int = within(1, low=1)
    train_iterations_per_epoch: int = within(4000, low=1)
    max_epochs: int = within(32, low=1)
    surface_distance_interval: int = within(16, low=1)
    learning_rate: float = within(0.0003, low=0.0)
    warmup_steps: int = within(500, low=0)
    weight_decay: float = within(0.01, low=0.0)
    gradient_clip: float | None = within(None, low=0.0)
    log_every_n_steps: int = within(10, low=1)
    torch_threads: int | None = within(None, low=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    output_dir: str
    data: DataSettings
    augmentation: AugmentationSettings
    model: ModelSettings
    loss: LossSettings
    training: TrainingSettings


SECTIONS: dict[str, type[Any]] = {
    "data": DataSettings,
    "augmentation": AugmentationSettings,
    "model": ModelSettings,
    "loss": LossSettings,
    "training": TrainingSettings,
}


def load_settings(path: Path) -> Settings:
    """Reads and checks the whole file; every problem is reported at once."""
    document = _load_yaml(path)
    problems: list[str] = []
    known = {"output_dir", *SECTIONS}
    for key in document:
        if key not in known and key != FOREIGN_SECTION:
            problems.append(_unknown_key(str(key), section=None))

    output_dir = document.get("output_dir")
    if not isinstance(output_dir, str) or not output_dir:
        problems.append(f"output_dir: expected the folder for checkpoints and logs, {_got(output_dir)}")

    sections = {name: _read_section(name, document.get(name), problems) for name in SECTIONS}
    if not problems:
        settings = Settings(output_dir=str(output_dir), **sections)
        problems = _contradictions(settings)
        if not problems:
            return settings
    raise SettingsError(path, problems)


def _load_yaml(path: Path) -> Mapping[Any, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(path, [f"cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise SettingsError(path, [f"is not UTF-8 text: {error.reason} at byte {error.start}"]) from error
    try:
        document = yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.YAMLError as error:
        raise SettingsError(path, [" ".join(f"is not valid YAML: {error}".split())]) from error
    if not isinstance(document, Mapping):
        raise SettingsError(path, [f"expected sections such as `training:`, {_got(document)}"])
    return document


class _UniqueKeyLoader(yaml.SafeLoader):
    """PyYAML lets the last of two equal keys win without a word; here that is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode) and key_node.tag != "tag:yaml.org,2002:merge":
                if key_node.value in seen:
                    raise yaml.YAMLError(f'key "{key_node.value}" twice, line {key_node.start_mark.line + 1}')
                seen.add(key_node.value)
        return dict(super().construct_mapping(node, deep=deep))


def _read_section(name: str, found: Any, problems: list[str]) -> Any:
    kind = SECTIONS[name]
    if found is None:
        found = {}
    if not isinstance(found, Mapping):
        problems.append(f"{name}: expected a section with keys, {_got(found)}")
        return None
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key not in hints:
            problems.append(_unknown_key(str(key), section=name))
            continue
        try:
            values[key] = _convert(value, hints[key])
        except ValueError as error:
            problems.append(f"{name}.{key}: expected {error}, {_got(value)}")
    for spec in fields(kind):
        if spec.name in values and spec.metadata:
            complaint = _out_of_range(values[spec.name], spec.metadata["low"], spec.metadata["high"])
            if complaint:
                problems.append(f"{name}.{spec.name}: {complaint}, {_got(found[spec.name])}")
    return kind(**values)


def _convert(value: Any, kind: Any) -> Any:
    """The value as `kind`, or ValueError with the words for what was expected."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        inner = next(argument for argument in arguments if argument is not types.NoneType)
        try:
            return _convert(value, inner)
        except ValueError as error:
            raise ValueError(f"{error} or null") from None
    if origin is Literal:
        if value in arguments:
            return value
        raise ValueError(" or ".join(f'"{argument}"' for argument in arguments))
    if origin is tuple:
        words = f"a list of {len(arguments)} {'whole numbers' if arguments[0] is int else 'numbers'}"
        if not isinstance(value, list) or len(value) != len(arguments):
            raise ValueError(words)
        try:
            return tuple(_convert(item, inner) for item, inner in zip(value, arguments, strict=True))
        except ValueError:
            raise ValueError(words) from None
    if kind is bool:
        if isinstance(value, bool):
            return value
        raise ValueError("true or false")
    # YAML's true is a Python int; no number is meant by it.
    if kind is int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise ValueError("a whole number")
    if kind is float:
        # YAML 1.1, which PyYAML speaks, reads 3e-4 (without a dot) as text.
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            try:
                number = float(value)
            except ValueError:
                number = math.nan
            if math.isfinite(number):
                return number
        raise ValueError("a number")
    raise TypeError(f"no rule to read a {kind}")


def _out_of_range(value: Any, low: float, high: float) -> str | None:
    for number in value if isinstance(value, tuple) else (value,):
        if number is not None and not low <= number <= high:
            return f"expected at least {low:g}" if high == math.inf else f"expected {low:g} to {high:g}"
    return None


def _contradictions(settings: Settings) -> list[str]:
    """What no single key can tell."""
    problems = []
    data, model = settings.data, settings.model
    for axis, region, volume in zip("zyx", data.region_size, data.volume_size, strict=True):
        if region > volume:
            problems.append(
                f"data.patch_size: needs {region} voxels along {axis} with its read_margin, "
                f"data.volume_size has {volume}"
            )
    # Instance norm has no variance to divide by when one voxel is left.
    smallest = math.prod(math.ceil(edge / 2 ** (model.depth - 1)) for edge in data.patch_size)
    if smallest < 2:
        problems.append(f"model.depth: {model.depth} levels leave one voxel of a patch of {list(data.patch_size)}")
    low, high = settings.augmentation.scale_range
    if low > high:
        problems.append(f"augmentation.scale_range: expected [smallest, largest], got [{low:g}, {high:g}]")
    return problems


def _unknown_key(key: str, *, section: str | None) -> str:
    if section is None:
        here = ["output_dir", *SECTIONS]
        prefix = ""
    else:
        here = [spec.name for spec in fields(SECTIONS[section])]
        prefix = f"{section}."
    near = difflib.get_close_matches(key, here, n=1, cutoff=0.6)
    if near:
        return f'{prefix}{key}: unknown key, did you mean "{prefix}{near[0]}"?'
    elsewhere = {spec.name: f"{name}.{spec.name}" for name, kind in SECTIONS.items() for spec in fields(kind)}
    near = difflib.get_close_matches(key, elsewhere, n=1, cutoff=0.6)
    if near:
        return f'{prefix}{key}: unknown key, did you mean "{elsewhere[near[0]]}"?'
    return f"{prefix}{key}: unknown key, known here: {', '.join(here)}"


def _got(value: Any) -> str:
    if value is None:
        return "got nothing"
    return f'got "{value}"' if isinstance(value, str) else f"got {value}"
