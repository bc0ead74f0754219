"""3D U-Net that segments papyrus surfaces in CT scrolls: `python -m vtune.pipelines.unet3d.train --config FILE`."""
