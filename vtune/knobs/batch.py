"""How many samples one step sees: a larger effective batch may change the result."""

from __future__ import annotations

from vtune.domain.knob import Knob

BATCH_SIZE = Knob(
    name="batch_size",
    kind="int",
    minimum=1,
    # A typing error must not ask for all memory; whole data sets of small samples have been one batch.
    maximum=10_000_000,
    numerics="DIFFERENT",
    numerics_reason="changes the effective batch, and with it the steps by epoch and the fitting learning rate",
    loader_option="batch_size",
    config_keys=(
        "training.train_batch_size",
        "training.batch_size",
        "train.train_batch_size",
        "train.batch_size",
        "data.train_batch_size",
        "data.batch_size",
        "dataloader.batch_size",
        "loader.batch_size",
        "train_loader.batch_size",
        "train_dataloader.batch_size",
        "datamodule.batch_size",
        "train_batch_size",
        "batch_size",
        "per_device_train_batch_size",
    ),
    flags=("b", "batch", "bs"),
    doc="samples of one batch of the training's loader, by process",
)

ACCUMULATE_STEPS = Knob(
    name="accumulate_steps",
    kind="int",
    minimum=1,
    maximum=65536,
    numerics="DIFFERENT",
    numerics_reason="changes the effective batch, unless batch_size shrinks by the same factor",
    config_keys=(
        "training.accumulate_steps",
        "training.accumulate_grad_batches",
        "training.gradient_accumulation_steps",
        "training.grad_accum_steps",
        "train.accumulate_steps",
        "train.accumulate_grad_batches",
        "train.gradient_accumulation_steps",
        "trainer.accumulate_grad_batches",
        "accumulate_steps",
        "accumulate_grad_batches",
        "gradient_accumulation_steps",
        "grad_accum_steps",
    ),
    doc="batches whose gradients are added up before one optimizer step; only through its config or command",
)
