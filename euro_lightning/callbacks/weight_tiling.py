"""Starts a run with the weights of a smaller encoder, tiled."""

from typing import Any

from lightning.pytorch import Callback, Trainer

from euro_lightning.encoder.tiling import LayerMap, Rescale
from euro_lightning.errors import ConfigError
from euro_lightning.objective.network import Start


class WeightTiling(Callback):
    """Grows a trained encoder into this one before the first step; a resumed run is left alone."""

    def __init__(
        self,
        source: str | None = None,
        layers: LayerMap = "type_preserving",
        rescale: Rescale = "uneven",
    ) -> None:
        """
        Args:
            source: A smaller encoder of the same family: a run folder, a checkpoint, a Hugging Face
                directory or Hub name; null starts as usual.
            layers: Which layer of the source each layer takes: type_preserving keeps global and local
                ones apart, nearest is what ModernBERT did.
            rescale: What happens to the weights of inputs that now come in copies: uneven and even split
                them among the copies, so that activations keep their size; none leaves them, as
                ModernBERT did.
        """
        self.source = source
        self.layers: LayerMap = layers
        self.rescale: Rescale = rescale
        self.resize_vocabulary = False
        """Whether the source may have another vocabulary (the option of that name)."""
        self.resumed = False
        """Whether the run continues from a checkpoint; Lightning does not tell before it has read it."""

    def setup(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        """Tells the module, which builds its network after this, what it starts with."""
        if self.source is None or stage != "fit" or self.resumed:
            return
        if pl_module.start is not None:
            raise ConfigError(
                "init_from and weight_tiling.source are both given: weights come from one place"
            )
        if pl_module.network_plan.baseline is not None:
            raise ConfigError(
                "weight_tiling.source and model.baseline are both given: a baseline is not grown"
            )
        pl_module.start = Start(
            self.source, "weight_tiling.source", self.resize_vocabulary, (self.layers, self.rescale)
        )
