"""What is computed, and in which numbers: the same model otherwise rounded, or another model."""

from __future__ import annotations

from vtune.domain.knob import Knob

PRECISION = Knob(
    name="precision",
    kind="text",
    words=("fp32", "bf16", "fp16"),
    spellings=(
        # Lightning, …
        ("32", "bf16-mixed", "16-mixed"),
        ("32-true", "bf16-mixed", "16-mixed"),
        ("32", "bf16-mixed", "16"),
        # … and as it was before its second version.
        (32, "bf16", 16),
        ("float32", "bfloat16", "float16"),
        ("torch.float32", "torch.bfloat16", "torch.float16"),
        # Accelerate.
        ("no", "bf16", "fp16"),
    ),
    numerics="DIFFERENT",
    numerics_reason="fewer digits in forward and backward: a training may end elsewhere, or diverge",
    config_keys=(
        "training.precision",
        "train.precision",
        "trainer.precision",
        "precision",
        "training.mixed_precision",
        "train.mixed_precision",
        "trainer.mixed_precision",
        "mixed_precision",
    ),
    common_words=frozenset(("precision",)),
    checked=False,
    doc="numbers that the model computes in: fp32, or bf16 and fp16 with weights in fp32",
)

COMPILE = Knob(
    name="compile",
    kind="bool",
    numerics="CLOSE",
    numerics_reason="the same mathematics in fused kernels: another order of rounding",
    config_keys=(
        "model.compile",
        "training.compile",
        "train.compile",
        "trainer.compile",
        "compile",
        "training.torch_compile",
        "model.torch_compile",
        "torch_compile",
        "model.compile_model",
        "training.compile_model",
        "compile_model",
    ),
    common_words=frozenset(("compile",)),
    checked=False,
    doc="torch.compile: a slow start, then faster steps",
)

GRADIENT_CHECKPOINTING = Knob(
    name="gradient_checkpointing",
    kind="bool",
    numerics="CLOSE",
    numerics_reason="the same gradients up to rounding; batch norm may count its batches twice",
    config_keys=(
        "model.gradient_checkpointing",
        "training.gradient_checkpointing",
        "train.gradient_checkpointing",
        "trainer.gradient_checkpointing",
        "gradient_checkpointing",
        "model.activation_checkpointing",
        "training.activation_checkpointing",
        "activation_checkpointing",
        "model.use_checkpoint",
        "model.use_checkpointing",
    ),
    # Elsewhere they say which checkpoint a training goes on from.
    common_words=frozenset(("use_checkpoint", "use_checkpointing")),
    checked=False,
    doc="compute activations again in backward instead of keeping them: less memory, slower steps",
)

CHANNELS_LAST = Knob(
    name="channels_last",
    kind="bool",
    numerics="CLOSE",
    numerics_reason="the same numbers in another memory layout: other kernels, other rounding",
    config_keys=(
        "model.channels_last",
        "training.channels_last",
        "train.channels_last",
        "trainer.channels_last",
        "channels_last",
        "model.use_channels_last",
        "training.use_channels_last",
        "use_channels_last",
    ),
    checked=False,
    doc="memory layout of images and weights; which one is faster depends on the device",
)

THREADS = Knob(
    name="threads",
    kind="int",
    minimum=1,
    maximum=1024,
    numerics="CLOSE",
    numerics_reason="sums on the CPU are split otherwise: another order of rounding",
    env="OMP_NUM_THREADS",
    config_keys=(
        "training.torch_threads",
        "train.torch_threads",
        "system.torch_threads",
        "torch_threads",
        "training.torch_num_threads",
        "train.torch_num_threads",
        "torch_num_threads",
    ),
    nullable=True,
    checked=False,
    doc="CPU threads of the training process; loader workers have one each",
)

FILTERS = Knob(
    name="filters",
    kind="int",
    minimum=1,
    maximum=65536,
    of_list="first",
    numerics="DIFFERENT",
    numerics_reason="another model, with other weights",
    config_keys=(
        "model.filters",
        "network.filters",
        "net.filters",
        "model.n_filters",
        "model.init_filters",
        "model.base_filters",
        "model.base_channels",
        "network.base_channels",
        "filters",
        "init_filters",
        "base_filters",
        "base_channels",
    ),
    common_words=frozenset(("filters", "n_filters")),
    checked=False,
    doc="channels of the network's first level; where a config lists all levels, they change in proportion",
)

PATCH_SIZE = Knob(
    name="patch_size",
    kind="int",
    minimum=1,
    maximum=65536,
    # Networks halve their input several times.
    multiple=8,
    of_list="longest",
    numerics="DIFFERENT",
    numerics_reason="the network sees less or more around each voxel, and other samples",
    config_keys=(
        "data.patch_size",
        "dataset.patch_size",
        "training.patch_size",
        "train.patch_size",
        "data.roi_size",
        "data.crop_size",
        "data.img_size",
        "data.image_size",
        "roi_size",
        "crop_size",
        "img_size",
        "image_size",
    ),
    # A transformer's patch is a part of its model.
    common_words=frozenset(("patch_size",)),
    checked=False,
    doc="longest edge of what the network sees; where a config lists all edges, they keep their proportion",
)

SURFACE_DISTANCE_INTERVAL = Knob(
    name="surface_distance_interval",
    kind="int",
    minimum=1,
    maximum=1_000_000,
    numerics="DIFFERENT",
    numerics_reason="a part of the loss is there more rarely or more often",
    config_keys=(
        "training.surface_distance_interval",
        "train.surface_distance_interval",
        "loss.surface_distance_interval",
        "surface_distance_interval",
    ),
    checked=False,
    doc="steps between two surface distances, which are computed on the CPU; rarer is faster",
)

DEEP_SUPERVISION = Knob(
    name="deep_supervision",
    kind="bool",
    numerics="DIFFERENT",
    numerics_reason="another loss: every level of the decoder is judged, or only the finest",
    config_keys=(
        "model.deep_supervision",
        "network.deep_supervision",
        "training.deep_supervision",
        "train.deep_supervision",
        "loss.deep_supervision",
        "deep_supervision",
    ),
    checked=False,
    doc="a loss at every level of the decoder",
)
