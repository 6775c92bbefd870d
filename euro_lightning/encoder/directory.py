"""Hugging Face directories: configuration, weights and where to find them. Nothing in them is run."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.families import ARCHITECTURES, from_huggingface_config
from euro_lightning.encoder.huggingface import from_huggingface
from euro_lightning.errors import UserError, nearest
from euro_lightning.files import read_json

CONFIG, WEIGHTS = "config.json", "model.safetensors"
_PICKLE = "pytorch_model.bin"
_MODEL_FILES = ("*.json", "*.safetensors", "*.model", "*.txt")
SHARD_BYTES = 5 << 30
"""Bytes of weights in one file, as transformers has it."""


def is_hub_name(origin: str) -> bool:
    """Whether this may be the name of a model on the Hugging Face Hub, such as EuroBERT/EuroBERT-210m."""
    local = Path(origin).exists() or Path(origin).parent.is_dir()
    return re.fullmatch(r"[\w\-.]+/[\w\-.]+", origin) is not None and not local


def download(name: str, option: str, patterns: Sequence[str] = _MODEL_FILES) -> Path:
    """The directory of a model of the Hub, from the local cache or the network.

    Args:
        name: of the model, such as EuroBERT/EuroBERT-210m.
        option: the option that it came from, for messages.
        patterns: which of its files are needed.

    Raises:
        UserError: there is no such model, or the Hub cannot be reached.
    """
    from huggingface_hub import snapshot_download

    try:
        found = snapshot_download(name, allow_patterns=list(patterns))
    except Exception as error:
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise UserError(
            f"{option} {name}: there is no such file or folder, and the Hugging Face Hub does not give it ({reason})"
        ) from None
    return Path(found)


def read_config(folder: Path) -> dict[str, Any]:
    """config.json with transformers' defaults filled in.

    Raises:
        UserError: not there, damaged, or of a model that this encoder cannot be.
    """
    given = read_json(folder / CONFIG)
    kind = given.get("model_type") if isinstance(given, dict) else None
    if kind not in ARCHITECTURES:
        raise UserError(
            f"{folder / CONFIG}: model_type is {kind!r}; eurobert and modernbert can be read"
            f"{nearest(str(kind), ARCHITECTURES)}"
        )
    import transformers

    if kind == "modernbert" and given.get("local_rope_theta", 0) is None:  # transformers 4: as the global one
        given["local_rope_theta"] = given.get("global_rope_theta", 160_000.0)
    try:
        # code that a configuration names is not run
        plain = {key: value for key, value in given.items() if key != "auto_map"}
        configuration = getattr(transformers, ARCHITECTURES[kind]).config_class.from_dict(plain)
        whole: dict[str, Any] = configuration.to_dict()
    except Exception as error:
        reason = " ".join(str(error).split())[:160]
        raise UserError(f"{folder / CONFIG} cannot be used ({reason})") from None
    return whole


def read_directory(folder: Path, what: str) -> tuple[EncoderConfig, tuple[float, float], dict[str, Tensor]]:
    """Configuration, rotary bases and weights (our names) of an EuroBERT or ModernBERT directory.

    Raises:
        UserError: something is missing, damaged, of another shape, or cannot be computed here.
    """
    config, bases = from_huggingface_config(read_config(folder), f"{what}/{CONFIG}")
    return config, bases, from_huggingface(read_weights(folder), config, what)


def read_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of a directory, by transformers' names.

    Raises:
        UserError: no weights, a missing or damaged file, or a pickle that holds more than tensors.
    """
    for name in (WEIGHTS, _PICKLE):
        index = folder / f"{name}.index.json"
        if index.is_file():
            files = sorted(set(_weight_map(index).values()))
            return {key: value for file in files for key, value in _read(folder / file).items()}
        if (folder / name).is_file():
            return _read(folder / name)
    raise UserError(f"{folder} has no weights: neither {WEIGHTS} nor {WEIGHTS}.index.json is there")


def _weight_map(index: Path) -> dict[str, str]:
    content = read_json(index)
    files = content.get("weight_map") if isinstance(content, dict) else None
    if not isinstance(files, dict) or any(Path(str(file)).name != file for file in files.values()):
        raise UserError(f"{index} has no weight_map from tensors to files beside it")
    return files


def _read(file: Path) -> dict[str, Tensor]:
    if not file.is_file():
        raise UserError(f"{file} is missing, though the index names it")
    try:
        if file.suffix == ".safetensors":
            with safe_open(file, framework="pt") as content:
                return {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
        content = torch.load(file, map_location="cpu", weights_only=True, mmap=True)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{file} cannot be read ({' '.join(str(error).split())[:160]})") from None
    except Exception:
        raise UserError(
            f"{file} is damaged or holds more than tensors, which could run code; use {WEIGHTS} instead"
        ) from None
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise UserError(f"{file} holds no state dict")
    return dict(content)


def write_weights(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """model.safetensors, or shards of it with an index where it is large."""
    shards: list[dict[str, Tensor]] = [{}]
    size = 0
    for name, tensor in weights.items():
        if size and size + tensor.nbytes > SHARD_BYTES:
            shards.append({})
            size = 0
        shards[-1][name] = tensor.contiguous()
        size += tensor.nbytes
    if len(shards) == 1:
        _save(shards[0], folder / WEIGHTS)
        return
    files: dict[str, str] = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        _save(shard, folder / file)
        files |= dict.fromkeys(shard, file)
    total = sum(tensor.nbytes for tensor in weights.values())
    index = {"metadata": {"total_size": total}, "weight_map": files}
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index, indent=2) + "\n")


def _save(weights: dict[str, Tensor], path: Path) -> None:
    save_file(weights, path, metadata={"format": "pt"})
    path.chmod(0o644)  # safetensors gives it to its owner alone
