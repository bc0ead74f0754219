"""How batches are prepared: the same samples by epoch and the same mathematics."""

from __future__ import annotations

from vtune.domain.knob import Knob

WORKERS = Knob(
    name="workers",
    kind="int",
    minimum=0,
    # A typo must not start ten thousand processes; no machine has more cores than this.
    maximum=1024,
    numerics="SAME",
    numerics_reason="the same samples by epoch; bits may differ where the training seeds by worker",
    loader_option="num_workers",
    config_keys=(
        "training.workers",
        "training.num_workers",
        "training.n_workers",
        "train.workers",
        "train.num_workers",
        "data.num_workers",
        "data.workers",
        "data.train_num_workers",
        "dataloader.num_workers",
        "dataloader.workers",
        "loader.num_workers",
        "loader.workers",
        "train_loader.num_workers",
        "train_dataloader.num_workers",
        "datamodule.num_workers",
        "dataset.num_workers",
        "num_workers",
        "workers",
        "n_workers",
        "dataloader_num_workers",
    ),
    flags=("j",),
    doc="processes that prepare batches of the training's loader; 0 prepares them in the training itself",
)

PREFETCH_FACTOR = Knob(
    name="prefetch_factor",
    kind="int",
    minimum=1,
    # In flight are workers × prefetch_factor batches, all in memory.
    maximum=1024,
    numerics="SAME",
    numerics_reason="the same batches in the same order, only earlier",
    loader_option="prefetch_factor",
    config_keys=(
        "training.prefetch_factor",
        "train.prefetch_factor",
        "data.prefetch_factor",
        "dataloader.prefetch_factor",
        "loader.prefetch_factor",
        "train_loader.prefetch_factor",
        "train_dataloader.prefetch_factor",
        "datamodule.prefetch_factor",
        "prefetch_factor",
        "dataloader_prefetch_factor",
    ),
    nullable=True,
    doc="batches that each worker prepares ahead",
)

PERSISTENT_WORKERS = Knob(
    name="persistent_workers",
    kind="bool",
    numerics="SAME",
    numerics_reason="the same samples; workers live on between epochs, so state kept in them does too",
    loader_option="persistent_workers",
    config_keys=(
        "training.persistent_workers",
        "train.persistent_workers",
        "data.persistent_workers",
        "dataloader.persistent_workers",
        "loader.persistent_workers",
        "train_loader.persistent_workers",
        "train_dataloader.persistent_workers",
        "datamodule.persistent_workers",
        "persistent_workers",
        "dataloader_persistent_workers",
    ),
    doc="keep the workers between epochs instead of starting them anew",
)

IN_ORDER = Knob(
    name="in_order",
    kind="bool",
    numerics="CLOSE",
    numerics_reason="false takes each batch as it is ready: the same samples by epoch, in an order that no run repeats",
    loader_option="in_order",
    config_keys=(
        "training.in_order",
        "train.in_order",
        "data.in_order",
        "dataloader.in_order",
        "loader.in_order",
        "train_loader.in_order",
        "train_dataloader.in_order",
        "datamodule.in_order",
        "in_order",
        "dataloader_in_order",
    ),
    doc="wait for the batch whose turn it is, or take what is ready (torch 2.6 or newer)",
)

PIN_MEMORY = Knob(
    name="pin_memory",
    kind="bool",
    numerics="SAME",
    numerics_reason="the same values, in memory that a GPU copies from faster",
    loader_option="pin_memory",
    config_keys=(
        "training.pin_memory",
        "train.pin_memory",
        "data.pin_memory",
        "dataloader.pin_memory",
        "loader.pin_memory",
        "train_loader.pin_memory",
        "train_dataloader.pin_memory",
        "datamodule.pin_memory",
        "pin_memory",
        "dataloader_pin_memory",
    ),
    doc="copy batches into page-locked memory before they go to the GPU",
)
