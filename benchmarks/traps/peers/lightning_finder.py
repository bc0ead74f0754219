"""Lightning's `Tuner.scale_batch_size`, with the training as a LightningModule, its validation included."""

import importlib
import json
import os
import sys
import warnings

import lightning
import torch
from lightning.pytorch.tuner import Tuner
from torch.utils.data import DataLoader

TOLD = json.loads(os.environ["TRAP"])
sys.path.insert(0, TOLD["trainings"])
loop = importlib.import_module("loop")
TASK = importlib.import_module(TOLD["training"]).TASK
OPTIONS = loop.parse(TASK, TOLD["flags"])


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.model = loop.Model()
        self.batch_size = OPTIONS.batch_size

    def training_step(self, batch: torch.Tensor, index: int) -> torch.Tensor:
        if TASK.host_work:
            batch = TASK.host_work(batch, OPTIONS.workers)
        try:
            loss = TASK.loss(self.model, batch)
        except torch.OutOfMemoryError as error:
            raise as_cuda_says(error) from None
        self.model.steps_done += 1
        return loss

    def validation_step(self, batch: torch.Tensor, index: int) -> None:
        try:
            TASK.validate(self.model, self.batch_size)
        except torch.OutOfMemoryError as error:
            raise as_cuda_says(error) from None

    def train_dataloader(self) -> DataLoader:
        OPTIONS.batch_size = self.batch_size
        return loop.make_loader(TASK, OPTIONS)

    def val_dataloader(self) -> DataLoader | list:
        return DataLoader(torch.zeros(1, loop.WIDTH)) if TASK.validate else []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return loop.make_optimizer(self.model)


def as_cuda_says(error: Exception) -> RuntimeError:
    """Lightning knows a device out of memory by these words; the emulated one has others."""
    return RuntimeError(f"CUDA out of memory. ({error})")


def main() -> None:
    warnings.filterwarnings("ignore")
    largest = max(TOLD["space"]["batch_size"])
    trainer = lightning.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    # Just past the largest that may be chosen, so that it is tried as well.
    found = Tuner(trainer).scale_batch_size(Module(), mode="power", init_val=1, max_val=largest + 1)
    print(json.dumps({"choice": {**TOLD["baseline"], "batch_size": min(found, largest)}, "claimed": None}))


if __name__ == "__main__":
    main()
