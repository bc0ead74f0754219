"""Saves in every way: to a file, to memory, wrongly, in a thread, in a loader's worker, beside a compiled function."""

import inspect
import io
import pickle
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset


class Slow:
    """Takes its time to be pickled."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        time.sleep(0.03)
        warnings.warn("pickled", stacklevel=2)
        return Slow, ()


class Saving(Dataset):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> torch.Tensor:
        torch.save([Slow()], io.BytesIO())
        return torch.zeros(1)


def main() -> None:
    folder = Path(sys.argv[1])
    print(inspect.signature(torch.save), torch.save.__module__, torch.save.__qualname__, torch.save.__doc__[:20])
    print(pickle.loads(pickle.dumps(torch.save)) is torch.save is torch.serialization.save)
    torch.save({"model": Slow()}, folder / "one.pt")
    print(torch.load(folder / "one.pt", weights_only=False).keys())
    torch.save(obj=Slow(), f=io.BytesIO(), _use_new_zipfile_serialization=False)
    torch.save(torch.zeros(1), io.BytesIO())
    for wrong in ({"f": 3}, {"f": folder / "no" / "folder.pt"}, {}):
        try:
            torch.save([1], **wrong)
        except Exception as error:
            where = [(frame.name, frame.line) for frame in traceback.extract_tb(error.__traceback__)][:2]
            print(type(error).__name__, str(error).splitlines()[0].replace(str(folder), ""), where)
    thread = threading.Thread(target=torch.save, args=(Slow(), io.BytesIO()))
    thread.start()
    thread.join()
    print(sum(len(batch) for batch in DataLoader(Saving(), num_workers=1)))


if __name__ == "__main__":
    main()
