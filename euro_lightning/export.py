"""A directory that transformers loads: weights, configuration, tokenizer, model card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
import torch
from tokenizers import processors
from torch import Tensor

from euro_lightning.checkpoint import check_shapes
from euro_lightning.data.store import TOKENIZER
from euro_lightning.data.tokenizer import Tokenizer, transformers_settings
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.directory import CONFIG, WEIGHTS, read_directory, write_weights
from euro_lightning.encoder.families import ARCHITECTURES, family_of, to_huggingface_config
from euro_lightning.encoder.huggingface import to_huggingface
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.errors import UserError
from euro_lightning.files import whole_directory
from euro_lightning.pretrained import Pretrained

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def check_free(out: Path, force: bool) -> None:
    """Refuses to write over what is there.

    Raises:
        UserError: something is there and `force` is not given, or it is not an exported directory.
    """
    if not out.exists():
        return
    if not force:
        raise UserError(f"{out} exists; --force writes over it")
    exported = out.is_dir() and ((out / CONFIG).is_file() or not any(out.iterdir()))
    if not exported:
        raise UserError(f"{out} is not an exported directory: --force does not write over it")


def write_directory(out: Path, found: Pretrained, dtype: str, card: str, force: bool) -> None:
    """Writes a directory that transformers loads without a missing or unexpected key.

    It is read back before it takes its name, so that a directory that exists is whole.

    Args:
        out: where; a directory of that name stays until the new one is complete.
        found: weights, configuration, rotary bases and tokenizer.
        dtype: type of the weights, one of `DTYPES`.
        card: text of README.md.
        force: whether it may write over an exported directory.

    Raises:
        UserError: transformers has no class for the encoder, there is no tokenizer, or `out` exists.
    """
    check_free(out, force)
    if found.tokenizer is None:
        raise UserError(f"{found.origin}: there is no {TOKENIZER} beside the weights")
    with torch.device("meta"):
        check_shapes(MaskedLanguageEncoder(found.config), found.weights, found.origin)
    weights = to_huggingface({k: v.to(DTYPES[dtype]) for k, v in found.weights.items()}, found.config)
    with whole_directory(out) as folder:
        write_weights(folder, weights)
        configuration = model_configuration(found.config, found.rotary_bases, found.tokenizer, dtype)
        _write_json(folder / CONFIG, configuration)
        _write_rest(folder, found.tokenizer, found.config.max_length, card)
        _read_back(folder, found, dtype)


def write_baseline(out: Path, model: Any, tokenizer: Tokenizer, card: str, force: bool) -> None:
    """The same for a model of transformers, which writes its weights and configuration itself."""
    check_free(out, force)
    with whole_directory(out) as folder:
        model.save_pretrained(folder)
        longest = int(getattr(model.config, "max_position_embeddings", 512))
        _write_rest(folder, tokenizer, longest, card)


def _write_rest(folder: Path, tokenizer: Tokenizer, longest: int, card: str) -> None:
    for name, content in tokenizer_files(tokenizer, longest).items():
        _write_json(folder / name, content)
    (folder / "README.md").write_text(card, encoding="utf-8")


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def model_configuration(
    config: EncoderConfig, bases: tuple[float, float], tokenizer: Tokenizer, dtype: str
) -> dict[str, Any]:
    """config.json: what transformers 5 reads, and the names by which version 4 knew the rotary bases."""
    import transformers

    family = family_of(config)
    architecture = ARCHITECTURES[family]
    ids: dict[str, Any] = {
        "bos_token_id": tokenizer.bos,
        "eos_token_id": tokenizer.eos,
        "pad_token_id": tokenizer.pad,
        "mask_token_id": tokenizer.mask,
    }
    older: dict[str, Any] = {"rope_theta": bases[0]}
    if family == "modernbert":
        ids |= {"cls_token_id": tokenizer.bos, "sep_token_id": tokenizer.eos}
        older = {"global_rope_theta": bases[0], "local_rope_theta": bases[1]}
        older["global_attn_every_n_layers"] = config.global_every
    cls = getattr(transformers, architecture).config_class
    whole = cls(**to_huggingface_config(config, bases), **ids).to_dict()
    whole = {key: value for key, value in whole.items() if value is not None and not key.startswith("_")}
    return {**whole, **ids, **older, "architectures": [architecture], "dtype": dtype}


def training_template(tokenizer: Tokenizer) -> Any:
    """What adds the special tokens that texts and pairs have in training, for `tokenizers`."""
    eos, separator = (str(tokenizer.name_of(n)) for n in (tokenizer.eos, tokenizer.parallel_sep))
    return processors.TemplateProcessing(
        single=f"$A {eos}",
        pair=f"$A {separator} $B {eos}",
        special_tokens=[(eos, tokenizer.eos), (separator, tokenizer.parallel_sep)],
    )


def tokenizer_files(tokenizer: Tokenizer, longest: int) -> dict[str, Any]:
    """tokenizer.json and tokenizer_config.json.

    A text gets the end token and nothing before it, and a pair is separated, as in training; a mask
    takes the space before it with it, for tokens begin with their space.
    """
    content = json.loads(tokenizer.inner.to_str())
    for token in content["added_tokens"]:
        if token["content"] == tokenizer.name_of(tokenizer.mask):
            token["lstrip"] = True
    inner = tokenizers.Tokenizer.from_str(json.dumps(content))
    inner.post_processor = training_template(tokenizer)
    settings = transformers_settings(tokenizer, longest, mask_takes_space=True)
    return {TOKENIZER: json.loads(inner.to_str()), "tokenizer_config.json": settings}


def _read_back(folder: Path, found: Pretrained, dtype: str) -> None:
    """Compares what was written with what was meant."""
    config, bases, weights = read_directory(folder, "export")
    whole = found.rotary_bases if config.has_local_layers else found.rotary_bases[:1]
    same: Mapping[str, Tensor] = found.weights
    if bases[: len(whole)] != tuple(whole) or not all(
        torch.equal(weights[name], tensor.to(DTYPES[dtype])) for name, tensor in same.items()
    ):
        raise AssertionError(f"{folder / WEIGHTS} or {CONFIG} is not what was meant")
