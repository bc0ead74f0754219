"""Words for workers that make the same data: what was seen, and what mends it."""

from __future__ import annotations

from vtune.domain.repeated import Hidden, RanksRepeat, Repeated, Repeats

OF_THE_PROCESS = ("random", "numpy.random", "torch")
BY_WORKER = "torch.utils.data.get_worker_info()"


def what_repeats(found: Repeated) -> str:
    at = f" ({found.where})" if found.where else ""
    seen = f" (seen in trial {found.trial})" if found.trial is not None else ""
    workers = f"{found.workers} workers of the loader"
    match found.reason:
        case Repeats.SAME_NUMBERS if found.generator in OF_THE_PROCESS:
            said = f"{workers} draw the same random numbers: each begins {found.generator} in the same state{at}"
        case Repeats.SAME_NUMBERS:
            said = f"{workers} draw the same random numbers: each has a copy of {found.dataset}'s {found.generator}{at}"
        case Repeats.SAME_SAMPLES:
            said = (
                f"{workers} gave the same samples in the same order: {found.dataset} does not share them out between"
                f" workers{at}, so an epoch has each sample {found.workers} times"
            )
        case Repeats.NEXT_RECORD:
            said = (
                f"{workers} gave the same samples for different indices: {found.dataset} takes its next record from its"
                f" own state, of which each worker has a copy{at}"
            )
        case Repeats.NOT_SHOWN:
            said = (
                f"its {found.workers} workers were not shown to read different samples: {_hidden(found)}, and"
                f" {found.dataset}{at} does not say how it shares them out"
            )
    return said + seen


def _hidden(found: Repeated) -> str:
    match found.hidden:
        case Hidden.ALL_EQUAL:
            return f"all samples of {found.dataset} are equal"
        case Hidden.FEW_DIFFERENT:
            return "too few different samples were seen"
        case Hidden.FEW_GAVE:
            return "fewer than two of them came to a batch"
        case _:
            return "random augmentation hides it"


def how_to_mend(found: Repeated) -> str:
    where = f" at {found.where}" if found.where else ""
    match found.reason:
        case Repeats.SAME_NUMBERS if found.generator in OF_THE_PROCESS:
            return f"seed {found.generator} by worker{where}: torch.initial_seed() is each worker's own"
        case Repeats.SAME_NUMBERS:
            return f"make the generator{where} anew in each worker, from {BY_WORKER}.seed"
        case Repeats.NEXT_RECORD:
            return f"let the index choose the record{where}"
        case _:
            return f"share the samples out{where} by {BY_WORKER}: its id, of num_workers"


def ranks_repeat(found: RanksRepeat) -> str:
    """Of the user's own settings, with the line to mend."""
    at = f" at {found.where}" if found.where else ""
    if found.items is None:
        return (
            f"your present settings repeat data: {found.ranks} ranks read the same samples of {found.dataset} in the"
            f" same order; share them out by rank{at}: torch.distributed.get_rank(), of get_world_size()"
        )
    return (
        f"your present settings repeat data: each of {found.ranks} ranks goes over all {found.items} samples of"
        f" {found.dataset}, so an epoch has each of them {found.ranks} times; give the loader{at} a"
        " torch.utils.data.distributed.DistributedSampler"
    )


def repeated_before(found: Repeated) -> str:
    """Of settings that are left out by it."""
    said = "read the same data" if found.is_shown else "were not shown to read different data"
    return f"the workers of trial {found.trial} {said}: others would do the same"


def in_present_settings(found: Repeated) -> str:
    return f"your present settings repeat data: {what_repeats(found)}" if found.is_shown else what_repeats(found)
