"""Baselines from directories of transformers, and back from checkpoints."""

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from euro_lightning.encoder.baseline import keyed_draws
from euro_lightning.encoder.directory import CONFIG, download, is_hub_name, read_weights
from euro_lightning.errors import UserError
from euro_lightning.files import read_json


def load_baseline(
    origin: str,
    option: str,
    seed: int = 0,
    attention: str = "sdpa",
    *,
    head: bool = True,
    fresh: bool = False,
) -> tuple[Any, Path]:
    """A masked language model of transformers, or an encoder alone.

    Args:
        origin: a directory, or the name of a model of the Hub. One that has config.json and no
            weights starts at random; parts that the weights do not have, such as the head of a
            sentence encoder, do too.
        option: the option that it came from, for messages.
        seed: of what starts at random.
        attention: transformers' attention implementation.
        head: whether it gets the head that predicts hidden tokens.
        fresh: whether it starts at random although there are weights.

    Returns:
        The model, and its directory.

    Raises:
        UserError: it cannot be found or loaded. Code that it brings is not run.
    """
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    folder = download(origin, option) if is_hub_name(origin) else Path(origin)
    if not (folder / CONFIG).is_file():
        raise UserError(f"{option} {origin}: no directory with {CONFIG}, and no name of a model of the Hub")
    read_json(folder / CONFIG)
    auto = transformers.AutoModelForMaskedLM if head else transformers.AutoModel
    weights = any(folder.glob("*.safetensors*")) or any(folder.glob("pytorch_model*"))
    try:
        with keyed_draws(seed, torch.device("cpu")):
            if weights and not fresh:
                read_weights(folder)  # refuses a damaged file, or one with code, in one line
                model, report = auto.from_pretrained(
                    folder,
                    trust_remote_code=False,
                    attn_implementation=attention,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
                _tell(f"{option} {origin}", sorted(report["missing_keys"]))
            else:
                config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
                model = auto.from_config(config, attn_implementation=attention)
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{option} {origin}: transformers cannot load it ({reason})") from None
    return model.train(), folder


def rebuild(facts: Mapping[str, Any], weights: Mapping[str, Tensor], dtype: torch.dtype) -> Any:
    """The model that `BaselineMaskedLanguageEncoder.facts` and its state dict describe.

    Args:
        facts: of a checkpoint.
        weights: names begin with "model.".
        dtype: type of its weights.

    Raises:
        UserError: transformers has no such class, or the weights are another's.
    """
    import transformers

    given = dict(facts["baseline"])
    name = str(facts["architecture"])
    cls: Any = getattr(transformers, name, None)
    known: bool = inspect.isclass(cls) and issubclass(cls, transformers.PreTrainedModel)
    if not known:
        raise UserError(f"transformers has no class {name}, which this baseline is")
    transformers.logging.disable_progress_bar()
    model: Any = cls(cls.config_class.from_dict(given)).to(dtype)
    own = {key.removeprefix("model."): tensor.to(dtype) for key, tensor in weights.items()}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        raise UserError(
            f"the baseline's weights do not fit {name} ({str(error).splitlines()[-1].strip()})"
        ) from None
    return model


def _tell(origin: str, missing: list[str]) -> None:
    if missing:
        names = ", ".join(missing[:3]) + (", …" if len(missing) > 3 else "")
        print(f"{origin}: {len(missing)} tensors start at random ({names})", file=sys.stderr)
