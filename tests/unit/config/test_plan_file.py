from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vtune.config.plan_file import BUNDLED, PHASE_KEYS, PLAN_KEYS, bundled_plans, load_plan
from vtune.config.problems import ConfigErrors
from vtune.domain.phases import Option, Phase, Plan, Success, Times
from vtune.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "plans.md"

Load = Callable[[str], Plan]
Said = Callable[[str], list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str) -> Plan:
        (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
        return load_plan(str(tmp_path / "mine.yaml"))

    return load


@pytest.fixture
def said(load: Load, tmp_path: Path) -> Said:
    """What is wrong with a plan, a line each, without the folder."""

    def said(text: str) -> list[str]:
        with pytest.raises(ConfigErrors) as caught:
            load(text)
        assert caught.value.exit_code == 2
        return [line.removeprefix(f"{tmp_path}/") for line in caught.value.message.split("\n")]

    return said


def rungs(plan: Plan, number: int) -> list[dict[str, Any]]:
    """Relative values as they are typed."""
    return [
        {name: f"x{value.factor:g}" if isinstance(value, Times) else value for name, value in rung.items()}
        for rung in plan.phases[number - 1].rungs
    ]


@pytest.mark.parametrize("name", bundled_plans())
def test_a_bundled_plan_is_complete(name: str) -> None:
    plan = load_plan(name)
    assert plan.name == name and plan.about
    assert [phase.number for phase in plan.phases] == list(range(1, len(plan.phases) + 1))
    assert all(phase.rungs or phase.by_model or phase.by_hand for phase in plan.phases)
    assert all(phase.risk_words or phase.risk in ("none", "low") for phase in plan.phases)
    assert len({phase.name for phase in plan.phases}) == len(plan.phases)


def test_every_bundled_file_is_named() -> None:
    assert {path.stem for path in BUNDLED.iterdir()} == set(bundled_plans())
    assert bundled_plans()[0] == "ladder"


def test_the_ladder_is_the_documented_one() -> None:
    plan = load_plan("ladder")
    assert [phase.knob for phase in plan.phases] == [
        "workers", "batch_size", "prefetch_factor", "persistent_workers", "pin_memory", "workers"
    ]  # fmt: skip
    assert rungs(plan, 1) == [{"workers": 1}, {"workers": 2}, {"workers": 4}, {"workers": 6}]
    assert [rung["workers"] for rung in plan.phases[0].beyond][:2] == [8, 12]
    assert rungs(plan, 2) == [{"batch_size": "x1"}, {"batch_size": "x2"}, {"batch_size": "x4"}]
    assert [phase.accumulate_instead for phase in plan.phases].index(True) == 1
    assert rungs(plan, 5) == [{"pin_memory": True}, {"threads": 2}, {"threads": 1}]


@pytest.mark.parametrize("name", ["ladder", "safe"])
def test_the_options_of_the_notes_are_those_of_a_batch_of_one(name: str) -> None:
    assert load_plan(name).options == (
        Option(name="A", settings={"batch_size": Times(factor=2), "workers": 4}),
        Option(name="B", settings={"batch_size": Times(factor=4), "workers": 6}),
        Option(name="C", settings={"batch_size": Times(factor=4), "workers": 8}),
    )


def test_the_safe_plan_has_the_steps_the_risks_and_the_criterion_of_the_notes() -> None:
    plan = load_plan("safe")
    assert [phase.steps for phase in plan.phases[:4]] == [(100, 200), (100, 200), (200, 300), (300, 500)]
    assert [phase.risk for phase in plan.phases] == ["low", "low", "medium", "medium", "medium"]
    assert [rungs(plan, number) for number in (1, 2, 3, 4)] == [
        [{"workers": 2}], [{"batch_size": "x2"}], [{"workers": 4}], [{"batch_size": "x4"}]
    ]  # fmt: skip
    assert plan.phases[3].success == Success(gpu_util_percent=50.0)
    assert {name for rung in plan.phases[4].rungs for name in rung} == {
        "workers", "persistent_workers", "prefetch_factor", "surface_distance_interval"
    }  # fmt: skip
    assert plan.phases[4].needs_allow


def test_the_progressive_plan_says_what_is_left_to_the_user() -> None:
    plan = load_plan("progressive")
    stability, speed, optimization, production = plan.phases
    assert (stability.rungs, stability.knob) == ((), "stability") and "NaN" in stability.by_hand[0]
    assert speed.knob == "precision" and optimization.knob == "filters"
    assert rungs(plan, 3)[-1] == {"gradient_checkpointing": True, "batch_size": "x4"}
    assert production.knob == "compile" and "several GPUs" in production.by_hand[0]


def test_the_guided_plan_leaves_the_values_to_the_model_and_precision_to_the_user() -> None:
    plan = load_plan("guided")
    modelled = [phase.knob for phase in plan.phases if phase.by_model]
    assert modelled == ["precision", "batch_size", "workers", "prefetch_factor", "workers"]
    assert [phase.name for phase in plan.phases if phase.needs_allow] == ["precision"]


def test_a_users_own_plan_is_read_with_every_key(load: Load) -> None:
    plan = load("""\
about: mine
phases:
  - name: loading
    rungs: [{workers: 4, persistent_workers: true}, {workers: 8}]
    extend: [{workers: 16}]
    steps: 150
    success: {gpu_util: 62.5}
    risk: high
    watch_for: the neighbours
  - turn: {precision: bf16-mixed}
    if_allowed: true
    steps: [20, 40]
    by_hand: look at the loss
  - by_model: batch_size
    accumulate_instead: true
options:
  1: {batch_size: ×0.5}
""")
    assert plan == Plan(
        name="mine",
        about="mine",
        phases=(
            Phase(
                number=1, name="loading", knob="workers", steps=(150, 150), risk="high", risk_words="the neighbours",
                rungs=({"workers": 4, "persistent_workers": True}, {"workers": 8}), beyond=({"workers": 16},),
                success=Success(gpu_util_percent=62.5),
            ),
            Phase(
                number=2, name="precision", knob="precision", rungs=({"precision": "bf16"},), needs_allow=True,
                steps=(20, 40), by_hand=("look at the loss",),
            ),
            Phase(number=3, name="batch_size", knob="batch_size", by_model=True, accumulate_instead=True),
        ),
        options=(Option(name="1", settings={"batch_size": Times(factor=0.5)}),),
    )  # fmt: skip


def test_everything_that_is_wrong_is_said_at_once_where_it_stands(said: Said) -> None:
    assert said("""\
abuot: x
phases:
  - turn: {wrokers: [1, 2]}
  - turn: {workers: [1, two, -1, 1]}
    success: {gpu_utl: 50}
    risk: some
  - rungs:
      - {workers: 0, prefetch_factor: 2}
      - {pin_memory: x2}
    steps: [200, 100]
    accumulate_instead: yes please
options: {A: [1]}
""") == [
        'mine.yaml:1:1: unknown key "abuot"; did you mean "about"?',
        'mine.yaml:3:12: unknown knob "wrokers"; did you mean "workers"?',
        "mine.yaml:4:5: phase 2 lists {workers: 1} twice",
        'mine.yaml:4:25: workers must be a whole number, got "two", or x2 for twice the training\'s own',
        "mine.yaml:4:30: workers must be at least 0, got -1",
        'mine.yaml:5:15: unknown key "gpu_utl"; did you mean "gpu_util"?',
        'mine.yaml:6:11: risk must be one of none, low, medium, high, got "some"',
        "mine.yaml:8:9: prefetch_factor needs at least one worker, but workers=0 was asked",
        'mine.yaml:9:22: pin_memory must be true or false, got "x2"',
        "mine.yaml:10:12: steps must be like 100, or [100, 200] for at least and at most, got [200, 100]",
        'mine.yaml:11:25: accumulate_instead must be true or false, got "yes please"',
        "mine.yaml:12:14: option A must be settings like {workers: 4}, got [1]",
    ]


@pytest.mark.parametrize(
    ("phase", "wrong"),
    [
        ("name: nothing", "phase 1 must have one of turn, rungs and by_model, got none of them"),
        ("{turn: {workers: 2}, by_model: workers}", "got turn and by_model"),
        ("turn: {workers: [1], batch_size: [1]}", "turn must name one knob, like {workers: [1, 2, 4]}"),
        ("turn: {workers: []}", "turn names no value of workers"),
        ("turn: {workers: {a: 1}}", "workers must be a whole number, got {'a': 1}"),
        ("turn: {workers: }", "workers must be a whole number, got nothing"),
        ("turn: {workers: x0}", 'workers must be more than x0, got "x0"'),
        ("{turn: {workers: 2}, extend: 4}", "extend must be a list like [8, 12], got 4"),
        ("{by_model: workers, extend: [4]}", "extend continues turn or rungs, and there are none"),
        ("by_model: prefetch", 'unknown knob "prefetch"; did you mean "prefetch_factor"?'),
        ("rungs: []", "rungs must be a list like [{workers: 4}, {workers: 6}], got []"),
        ("rungs: [{}]", "rungs must be a list like"),
        ("{rungs: [{workers: 1}], extend: [8]}", "extend must be a list like [{workers: 4}"),
        ("{turn: {workers: 2}, success: 50}", "success must be like {gpu_util: 50%}, got 50"),
        ("{turn: {workers: 2}, success: {gpu_util: 200}}", "gpu_util must be like 50%"),
        ("{turn: {workers: 2}, steps: 0}", "steps must be at least 1, got 0"),
        ("{turn: {workers: 2}, steps: [1, 2, 3]}", "steps must be like 100"),
        ("{turn: {workers: 2}, accumulate_instead: true}", "accumulate_instead is for phases that turn batch_size"),
        ("{turn: {workers: 2}, name: 3}", "name must be a line of text, got 3"),
        ("{turn: {precision: [fp8]}}", "precision must be one of fp32, bf16, fp16"),
        ("3", "a phase must be lines of `key: value`, got 3"),
    ],
)
def test_one_mistake_is_said_once(said: Said, phase: str, wrong: str) -> None:
    (line,) = said(f"phases:\n  - {phase}\n")
    assert line.startswith("mine.yaml:2:") and wrong in line


@pytest.mark.parametrize(
    ("phase", "wrong", "hint"),
    [
        (
            "{turn: {workers: 2}, steps: 999999999999}",
            "mine.yaml:2:33: steps must be at most 100000, got 999999999999",
            "1 to 100000",
        ),
        ("{turn: {workers: 2}, steps: [5, 1000000]}", "mine.yaml:2:33: steps must be at most 100000", "1 to 100000"),
        (
            "turn: {batch_size: [x999999, x2]}",
            'mine.yaml:2:25: batch_size must be at most x1024, got "x999999"',
            "x1024",
        ),
        ("turn: {batch_size: [99999999]}", "mine.yaml:2:25: batch_size must be at most 10000000", "1 to 10000000"),
        (f"turn: {{batch_size: {list(range(1, 302))}}}", "mine.yaml:2:5: phase 1 lists 301 rungs", "300"),
    ],
)
def test_what_nobody_could_run_is_refused_where_it_stands(
    load: Load, said: Said, phase: str, wrong: str, hint: str
) -> None:
    text = f"phases:\n  - {phase}\n"
    (line,) = said(text)
    assert line.startswith(wrong)
    with pytest.raises(ConfigErrors) as caught:
        load(text)
    assert caught.value.hint is not None and hint in caught.value.hint


def test_many_phases_have_no_more_rungs_than_one(said: Said) -> None:
    phase = f"  - turn: {{batch_size: {list(range(1, 151))}}}\n"
    (line,) = said("phases:\n" + 3 * phase)
    assert line == "mine.yaml:1:1: the plan lists 450 rungs and options, more than 300"


@pytest.mark.parametrize("text", ["phases:\n", "phases: []\n", "phases: {workers: 2}\n", "about: x\n"])
def test_a_plan_without_phases_shows_one(load: Load, text: str) -> None:
    with pytest.raises(ConfigErrors, match="phases must be a list of phases") as caught:
        load(text)
    assert caught.value.hint is not None and "turn: {workers: [2, 4, 8]}" in caught.value.hint


def test_an_unknown_plan_comes_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match='unknown plan "laddr"; did you mean "ladder"') as caught:
        load_plan("laddr")
    assert caught.value.hint is not None and all(name in caught.value.hint for name in bundled_plans())


def test_a_missing_file_is_told_with_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").write_text("phases: [{turn: {workers: 2}}]\n")
    with pytest.raises(ConfigErrors, match="no such file") as caught:
        load_plan(str(tmp_path / "nightyl.yaml"))
    assert caught.value.hint is not None and "nightly.yaml" in caught.value.hint


def test_a_bundled_name_is_the_bundled_plan_and_a_path_is_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ladder").write_text("phases: [{turn: {workers: 2}}]\n")
    assert len(load_plan("ladder").phases) == 6
    assert len(load_plan("./ladder").phases) == 1


def test_the_page_documents_every_key_and_every_bundled_plan() -> None:
    page = PAGE.read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert documented == {*PLAN_KEYS, *PHASE_KEYS, *bundled_plans()}


def test_the_pages_own_plan_is_one(load: Load) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    plan = load(example)
    assert len(plan.phases) == 3 and plan.options


plain = st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["x2", "bf16", "50%", "low", "", "workers"])
data = st.recursive(
    plain,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["workers", "batch_size", "precision", "gpu_util", "A", *PHASE_KEYS, *PLAN_KEYS]) | plain,
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(PLAN_KEYS), data) | st.builds(lambda one: {"phases": [one]}, data))
def test_any_file_is_a_plan_or_a_list_of_its_mistakes(tmp_path_factory: pytest.TempPathFactory, content: Any) -> None:
    file = tmp_path_factory.mktemp("plans") / "any.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    try:
        plan = load_plan(str(file))
    except ConfigErrors as error:
        assert all(problem.where and str(file) in problem.where for problem in error.problems)
    else:
        assert all(phase.rungs or phase.by_model or phase.by_hand for phase in plan.phases)
