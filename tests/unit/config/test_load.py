from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vtune.config.command_line import CommandLine
from vtune.config.load import experiment_from_command, load_experiment
from vtune.config.models import _EXAMPLES, VtuneSection
from vtune.config.problems import ConfigErrors
from vtune.domain.experiment import Experiment, KnobBinding, Limit, Price

Load = Callable[..., Experiment]
Errors = Callable[..., list[str]]

OWN = """\
vtune:
  command: "{python} train.py --config {config}"
training:
  workers: 1
  train_batch_size: 2
  max_epochs: 32
  train_iterations_per_epoch: 4000
"""
RUN = "vtune:\n  command: python train.py --config {config}\n"


def test_a_training_config_with_a_section_becomes_an_experiment(load: Load, here: Path) -> None:
    experiment = load(OWN)
    assert experiment.study == "exp"
    assert experiment.workload.command == ("{python}", "train.py", "--config", "{config}")
    assert experiment.workload.cwd == here
    assert experiment.workload.config_path == here / "exp.yaml"
    assert experiment.workload.config is not None
    assert list(experiment.workload.config) == ["training"]
    assert experiment.source == here / "exp.yaml"
    assert (experiment.allow, experiment.settings, experiment.price) == ("SAME", {}, None)


def test_every_key_of_the_section_is_read(load: Load, here: Path) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "go.py").write_text("")
    experiment = load("""\
vtune:
  command: [python, go.py, --config, "{config}", --seed, 3]
  cwd: sub
  study: my-study
  env: {OMP_NUM_THREADS: 1, MODE: fast}
  limits: {vram: 76GiB, ram: 95%}
  window: {steps: 20, max_steps: 40, trial_time: 1h30m, startup_time: 90, hang_time: 4m}
  run: {epochs: 3, iterations_per_epoch: 10, samples_per_epoch: 806}
  price: EUR 3.67/h
  allow: close
  knobs:
    workers: {key: loaders.threads, values: [1, 2, 4]}
  settings: {workers: 4, pin_memory: yes}
loaders: {threads: 2}
""")
    assert experiment.workload.command == ("python", "go.py", "--config", "{config}", "--seed", "3")
    assert experiment.workload.cwd == here / "sub"
    assert experiment.workload.env == {"OMP_NUM_THREADS": "1", "MODE": "fast"}
    assert experiment.study == "my-study"
    assert experiment.limits.vram == Limit(bytes=76 * 2**30, text="76GiB")
    assert experiment.limits.ram == Limit(fraction=0.95, text="95%")
    window = experiment.window
    assert (window.steps, window.max_steps, window.trial_time_s, window.startup_time_s) == (20, 40, 5400.0, 90.0)
    assert window.hang_time_s == 240.0
    run = experiment.planned_run
    assert (run.epochs, run.iterations_per_epoch, run.samples_per_epoch) == (3, 10, 806)
    assert run.epochs_source == "vtune.run.epochs in exp.yaml"
    assert experiment.price == Price(per_hour=3.67, currency="EUR")
    assert experiment.allow == "CLOSE"
    assert experiment.knobs == (KnobBinding(name="workers", key=("loaders", "threads"), values=(1, 2, 4)),)
    assert experiment.settings == {"workers": 4, "pin_memory": True}


def test_the_command_line_wins_over_the_file(load: Load) -> None:
    experiment = load(
        OWN.replace("training:", "  limits: {vram: 1GiB}\n  settings: {workers: 2, batch_size: 4}\ntraining:"),
        study="other",
        sets=("workers=6",),
        steps="30",
        trial_time="2m",
        startup_time="5m",
        vram_limit="90%",
        ram_limit="100GB",
        allow="different",
        price="$2/h",
    )
    assert experiment.study == "other"
    assert experiment.settings == {"workers": 6, "batch_size": 4}
    assert (experiment.window.steps, experiment.window.max_steps) == (30, 30)
    assert (experiment.window.trial_time_s, experiment.window.startup_time_s) == (120.0, 300.0)
    assert experiment.limits.vram == Limit(fraction=0.9, text="90%")
    assert experiment.limits.ram == Limit(bytes=100 * 10**9, text="100GB")
    assert experiment.allow == "DIFFERENT"
    assert experiment.price == Price(per_hour=2.0, currency="$")


def test_a_precision_in_the_trainings_words_is_taken_for_vtunes(load: Load) -> None:
    experiment = load("""\
vtune:
  command: python train.py {config}
  settings: {precision: 16-mixed}
  knobs:
    precision: {key: training.dtype, values: [32, bf16-mixed]}
training: {dtype: float32}
""")
    assert experiment.settings == {"precision": "fp16"}
    assert experiment.knobs[0].values == ("fp32", "bf16")


def test_precise_looks_at_up_to_300_steps(load: Load) -> None:
    assert load(OWN, precise=True).window.max_steps == 300
    assert load(OWN, precise=True, steps=30).window.steps == 30
    assert load(OWN).window.max_steps == 100


def test_a_separate_file_is_found_relative_to_the_experiment(load: Load, here: Path) -> None:
    (here / "configs").mkdir()
    (here / "configs" / "user.yaml").write_text("data: {num_workers: 3}\nvtune: {ignored: true}\n")
    (here / "configs" / "exp.yaml").write_text(RUN + "  config: user.yaml\n")
    experiment = load_experiment("exp")
    assert experiment.workload.config == {"data": {"num_workers": 3}}
    assert experiment.workload.config_path == here / "configs" / "user.yaml"
    assert experiment.workload.cwd == here


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("user.json", '{"num_workers": 3, "lr": 1e-3}'),
        ("user.toml", "num_workers = 3\nlr = 1e-3\n"),
        ("user.yml", "num_workers: 3\nlr: 1.0e-3\n"),
    ],
)
def test_training_configs_may_be_json_or_toml(load: Load, here: Path, name: str, text: str) -> None:
    (here / name).write_text(text)
    assert load(RUN + f"  config: {name}\n").workload.config == {"num_workers": 3, "lr": 0.001}


@pytest.mark.parametrize("typed", ["exp.yaml", "exp", "configs/exp.yaml", "configs/exp"])
def test_a_config_is_found_by_its_bare_name(here: Path, typed: str) -> None:
    (here / "configs").mkdir()
    (here / "configs" / "exp.yaml").write_text(OWN)
    assert load_experiment(typed).study == "exp"


def test_a_folder_of_the_same_name_does_not_hide_a_config(here: Path) -> None:
    (here / "exp").mkdir()
    (here / "configs").mkdir()
    (here / "configs" / "exp.yaml").write_text(OWN)
    assert load_experiment("exp").source == here / "configs" / "exp.yaml"


@pytest.mark.parametrize("written", ["exp.yaml", "./exp.yaml", "{here}/exp.yaml", "--config=exp.yaml"])
def test_a_command_that_names_the_config_itself_gets_the_copy(load: Load, here: Path, written: str) -> None:
    written = written.replace("{here}", str(here))
    experiment = load(f"vtune:\n  command: [python, train.py, '{written}']\nworkers: 1\n")
    assert experiment.workload.command[2] == ("--config={config}" if "=" in written else "{config}")


def test_merge_keys_and_anchors_are_fine(load: Load) -> None:
    experiment = load(OWN + "base: &base {a: 1, b: 2}\nother: {<<: *base, b: 3}\nlist: [*base, *base]\n")
    assert experiment.workload.config is not None
    assert experiment.workload.config["other"] == {"a": 1, "b": 3}


def test_all_errors_of_file_and_command_line_come_at_once(errors: Errors) -> None:
    found = errors(
        """\
vtune:
  command: python train.py --config {config}
  widnow: {steps: 3}
  limits: {vram: 120%, ram: lots}
  window:
    steps: fifty
    trial_time: 3x
  settings: {workers: -3}
  knobs:
    workres: {key: a}
    batch_size: {key: training.bacth, values: [1, 0]}
training:
  workers: -4
  batch: 2
""",
        sets=("num_worker=2", "workers=-1", "workers", "pin_memory=maybe"),
        vram_limit="0GiB",
        study="a/b",
    )
    assert found == [
        "--study must be a name of 1 to 64 letters, digits, '.', '_' or '-', got \"a/b\"",
        '--set num_worker=2: unknown knob "num_worker"; did you mean "workers"?',
        "--set workers=-1: workers must be at least 0, got -1",
        '--set workers: "workers" is not knob=value',
        '--set pin_memory=maybe: pin_memory must be true or false, got "maybe"',
        '--vram-limit must be more than 0, got "0GiB"',
        'exp.yaml:3:3: unknown key "vtune.widnow"; did you mean "window"?',
        'exp.yaml:4:18: vtune.limits.vram must be at most 100%, got "120%"',
        'exp.yaml:4:29: vtune.limits.ram must be like 76GiB, 100GB, 512MiB or 95%, got "lots"',
        'exp.yaml:6:12: vtune.window.steps must be a whole number, got "fifty"',
        'exp.yaml:7:17: vtune.window.trial_time must be like 3m, 90s or 1h30m, got "3x"',
        "exp.yaml:8:23: vtune.settings: workers must be at least 0, got -3",
        'exp.yaml:10:5: vtune.knobs: unknown knob "workres"; did you mean "workers"?',
        'exp.yaml:11:23: the training\'s config has no key "training.bacth"; did you mean "training.batch"?',
        "exp.yaml:11:51: vtune.knobs: batch_size must be at least 1, got 0",
        "exp.yaml:13:12: training.workers must be at least 0, got -4",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "exp.yaml:1:1: the file is empty"),
        ("# nothing\n", "exp.yaml:1:1: the file is empty"),
        ("- a\n- b\n", "exp.yaml:1:1: a config is lines of `key: value`, this file is a list"),
        ("hello\n", "exp.yaml:1:1: a config is lines of `key: value`, this file is just 'hello'"),
        ("a: [1, 2\nb: 3\n", "exp.yaml:2:2: not YAML: while parsing a flow sequence, expected ',' or ']', but got ':'"),
        ("a: 1\n\tb: 2\n", "exp.yaml:2:1: not YAML: while scanning for the next token, found character '\\t' that"),
        ("a: 1\nb: \x01\n", "exp.yaml:2:4: not YAML: the character '\\x01' is not allowed"),
        ("a: !include x\n", "exp.yaml:1:4: vtune cannot read the tag '!include': it reads plain YAML only"),
        ("a: 2026-13-45\n", "exp.yaml:1:4: not YAML: bad value: month must be in 1..12"),
        ("a: &a [*a]\n", "exp.yaml:1:4: an anchor refers to itself"),
        ("a: " + 3000 * "[", "exp.yaml:1:67: not usable: nested too deeply, in more than 64 levels"),
        ("training: {workers: 1}\n", "exp.yaml:1:1: there is no `vtune:` section"),
        ("vtunes: {command: x}\n", 'exp.yaml:1:1: there is no `vtune:` section; is "vtunes" it?'),
        ("a: 1\nvtune:\n", "exp.yaml:2:1: vtune is empty"),
        ("vtune: 3\n", "exp.yaml:1:1: vtune must be a mapping, got 3"),
        ("vtune: {study: x}\n", "exp.yaml:1:1: vtune.command is missing"),
        ("vtune: {command: ''}\n", "exp.yaml:1:18: vtune.command is empty"),
        (
            "vtune: {command: 'a \"b'}\n",
            "exp.yaml:1:18: vtune.command cannot be split into words (No closing quotation)",
        ),
        ("vtune: {command: cd x && python t.py}\n", 'exp.yaml:1:18: vtune.command holds "&&", but there is no shell'),
        ("vtune: {command: [python, yes]}\n", "exp.yaml:1:18: vtune.command must be a list of words, got true in it"),
        ("vtune: {command: python train.py}\nw: 1\n", "exp.yaml:1:18: vtune.command does not say where the training"),
        ("vtune: {command: pyhton train.py}\n", 'exp.yaml:1:18: vtune.command: there is no program "pyhton" on the'),
        ("vtune: {command: ./nope}\n", 'exp.yaml:1:18: vtune.command: there is no program "./nope" in'),
        ("vtune: {command: ./train.py}\n", 'exp.yaml:1:18: vtune.command: "./train.py" is not executable'),
        ("vtune: {command: python tarin.py}\n", 'exp.yaml:1:18: vtune.command: there is no script "tarin.py" in'),
        ("vtune: {command: python train.py, cwd: nope}\n", 'exp.yaml:1:40: vtune.cwd "nope" does not exist'),
        (
            "vtune: {command: python train.py, cwd: train.py}\n",
            'exp.yaml:1:40: vtune.cwd "train.py" is not a directory',
        ),
        ("vtune: {command: python train.py, config: no.yaml}\n", "exp.yaml:1:43: vtune.config: no such file: no.yaml"),
        ("vtune: {command: python train.py, env: {A: on}}\n", "exp.yaml:1:40: vtune.env A must be text, got true"),
        ("vtune: {command: python train.py, study: 7}\n", "exp.yaml:1:42: vtune.study must be a name of 1 to 64"),
        ("vtune: {command: python train.py, study: a/b}\n", "exp.yaml:1:42: vtune.study must be a name of 1 to 64"),
        ("vtune: {command: python train.py, cwd: [a]}\n", "exp.yaml:1:40: vtune.cwd must be text, got ['a']"),
        ("vtune: {command: python train.py, limits: 7}\n", "exp.yaml:1:43: vtune.limits must be a mapping"),
        (
            "vtune: {command: python train.py, knobs: {workers: {values: 3}}}\n",
            "exp.yaml:1:61: vtune.knobs.workers.values",
        ),
        ("vtune: {command: python train.py, run: {epochs: true}}\n", "exp.yaml:1:49: vtune.run.epochs must be a whole"),
        ("vtune: {command: python train.py, 7: x}\n", 'exp.yaml:1:35: unknown key "vtune.7"'),
        (
            "vtune: {command: python train.py, window: {steps: 999999999999}}\n",
            "exp.yaml:1:51: vtune.window.steps must be at most 100000, got 999999999999",
        ),
        (
            "vtune: {command: python train.py, window: {steps: 9, max_steps: 4}}\n",
            "exp.yaml:1:65: vtune.window.max_steps must be at least window.steps, 9, got 4",
        ),
        (
            "vtune: {command: python train.py, settings: {accumulate_steps: 2}}\n",
            "exp.yaml:1:64: accumulate_steps can only be set through the training's config",
        ),
        (
            "vtune: {command: 'python train.py {config}', knobs: {workers: {key: d.x}}}\nd: {x: lots}\n",
            'exp.yaml:1:69: d.x, named for a knob: workers must be a whole number, got "lots"',
        ),
        (
            "vtune: {command: 'python train.py {config}', config: train.py}\nw: 1\n",
            'exp.yaml:2:1: "w" stands beside `vtune:`, but vtune.config names another file',
        ),
    ],
)
def test_each_mistake_is_named_where_it_is(errors: Errors, text: str, expected: str) -> None:
    assert errors(text)[0].startswith(expected)


@pytest.mark.parametrize("written", ["outputs", "5", "{a: b}", "[5]", "[[a]]"])
def test_folders_to_protect_are_a_list_of_texts(errors: Errors, written: str) -> None:
    (found,) = errors(f"vtune:\n  command: python train.py\n  protect: {written}\n")
    assert found.startswith(("exp.yaml:3:12: vtune.protect", "exp.yaml:3:13: vtune.protect.0"))


def test_every_key_of_the_section_has_an_example() -> None:
    assert set(_EXAMPLES) == set(VtuneSection.model_fields)


def test_mistakes_do_not_cause_others_to_be_reported(errors: Errors) -> None:
    assert len(errors("vtune:\n  command: 3\n  cwd: 4\n  config: 5\n  knobs: {workers: {key: a.b}}\n")) == 3
    missing = RUN + "  config: no.yaml\n  knobs: {workers: {key: a}}\n"
    assert errors(missing) == ["exp.yaml:3:11: vtune.config: no such file: no.yaml"]


def test_duplicate_keys_are_found_anywhere_in_both_files(errors: Errors, here: Path) -> None:
    (here / "user.yaml").write_text("a: 1\nb: {c: 1, d: 2, c: 3}\n")
    (here / "user.json").write_text('{"a": 1, "a": 2}')
    assert errors(RUN + "  study: a\n  study: b\n  config: user.yaml\n") == [
        'exp.yaml:4:3: duplicate key "study", first in line 3',
        'user.yaml:2:17: duplicate key "c", first in line 2',
    ]
    assert errors(RUN + "  config: user.json\n") == ['user.json: duplicate key "a"']


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("user.json", "{\n  1: 2}", "user.json:2:3: not JSON: Expecting property name enclosed in double quotes"),
        ("user.json", "[1]", "user.json: a config must hold keys and values at its top level"),
        ("user.toml", "a = 1\nb = \n", "user.toml:2:5: not TOML: Invalid value"),
        ("user.yaml", "a: [", "user.yaml:1:5: not YAML: while parsing a flow node, expected the node content"),
    ],
)
def test_a_broken_training_config_is_named(errors: Errors, here: Path, name: str, text: str, expected: str) -> None:
    (here / name).write_text(text)
    assert errors(RUN + f"  config: {name}\n")[0].startswith(expected)


def test_a_file_that_is_no_text_is_refused(here: Path) -> None:
    (here / "model.pt").write_bytes(b"PK\x03\x04\nab\xff\xfe")
    with pytest.raises(ConfigErrors, match=r"model\.pt:2:3: not a text file in UTF-8 \(byte 0xff\)"):
        load_experiment("model.pt")


def test_a_directory_is_not_a_config(here: Path) -> None:
    (here / "configs").mkdir()
    with pytest.raises(ConfigErrors, match="configs: is a directory"):
        load_experiment("configs")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(here: Path) -> None:
    (here / "exp.yaml").write_text(OWN)
    (here / "exp.yaml").chmod(0)
    with pytest.raises(ConfigErrors, match=r"exp\.yaml: cannot be read: Permission denied"):
        load_experiment("exp.yaml")


def test_a_missing_file_comes_with_the_nearest_and_with_the_other_errors(here: Path) -> None:
    (here / "configs").mkdir()
    (here / "configs" / "exp001.yaml").write_text(OWN)
    with pytest.raises(ConfigErrors) as caught:
        load_experiment("exp01", overrides=CommandLine(sets=("worker=2",)))
    assert caught.value.message.split("\n") == [
        '--set worker=2: unknown knob "worker"; did you mean "workers"?',
        "exp01: no such file (looked here and in configs/)",
    ]
    assert caught.value.hint is not None
    assert "did you mean configs/exp001.yaml?" in caught.value.hint


def test_a_placeholder_without_quotes_is_explained(load: Load) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load("vtune:\n  command: {python} train.py\n")
    assert caught.value.hint == "put the command in quotes: to YAML a { begins a mapping"


def test_an_experiment_file_in_json_is_refused_with_the_way_to_do_it(errors: Errors) -> None:
    assert errors("{}", "exp.json") == ["exp.json: an experiment file is YAML"]


def test_a_training_that_chooses_its_workers_itself_is_left_alone(load: Load) -> None:
    text = (
        "vtune: {command: 'python train.py {config}'}\ntraining: {workers: auto, batch_size: '${bs}'}\nworkers: h1,h2\n"
    )
    assert load(text).workload.config is not None


def test_prefetching_without_workers_is_refused(errors: Errors, load: Load) -> None:
    said = "prefetch_factor needs at least one worker, but "
    assert errors(OWN, sets=("workers=0", "prefetch_factor=4")) == [said + "workers=0 was asked"]
    assert errors(OWN.replace("workers: 1", "workers: 0"), sets=("prefetch_factor=4",)) == [
        said + "its config or command says 0 workers"
    ]
    assert load(OWN, sets=("workers=0",)).settings == {"workers": 0}


def test_a_plain_command_becomes_an_experiment(here: Path) -> None:
    command = ["python", "train.py", "--epochs", "7"]
    experiment = experiment_from_command(command, overrides=CommandLine(sets=("workers=2",)))
    assert experiment.workload.command == tuple(command)
    assert experiment.workload.cwd == here
    assert experiment.workload.config is None
    assert experiment.study.startswith("train-")
    assert len(experiment.study) == len("train-") + 6
    assert experiment.planned_run.epochs == 7
    assert experiment.planned_run.epochs_source == "--epochs in the command"
    assert experiment.source is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ([], "there is no command after --"),
        (["pyhton", "train.py"], 'there is no program "pyhton" on the PATH'),
        (["python", "nope.py"], 'there is no script "nope.py" in'),
        (["train.py"], 'there is no program "train.py" on the PATH'),
        (["A=1", "python", "train.py"], 'there is no program "A=1" on the PATH'),
        (["./train.py"], '"./train.py" is not executable'),
    ],
)
def test_a_command_that_cannot_start_is_refused_with_the_other_errors(
    here: Path, command: list[str], expected: str
) -> None:
    with pytest.raises(ConfigErrors) as caught:
        experiment_from_command(command, overrides=CommandLine(sets=("workers=-1", "accumulate_steps=2")))
    lines = caught.value.message.split("\n")
    assert lines[0] == "--set workers=-1: workers must be at least 0, got -1"
    assert lines[1].startswith(expected)
    if command:
        assert lines[2].startswith("accumulate_steps can only be set through the training's config")


def test_reading_a_command_needs_no_pydantic_in_the_knobs() -> None:
    code = "import sys, vtune.knobs.plan; print(sorted({'pydantic', 'yaml', 'torch', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
