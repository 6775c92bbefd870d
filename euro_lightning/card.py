"""The model card of an exported run: recipe, data, tokens, scores."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from euro_lightning.data.composition import DOMAINS
from euro_lightning.data.mixture import normalise
from euro_lightning.data.phase import Phase
from euro_lightning.encoder.config import EncoderConfig
from euro_lightning.encoder.cost import parameter_count
from euro_lightning.encoder.families import family_of
from euro_lightning.files import read_json
from euro_lightning.schedule import Ramp


def model_card(
    name: str, config: EncoderConfig | None, tokens: int | None, notes: Sequence[str], run: Path | None = None
) -> str:
    """README.md of an exported directory.

    Args:
        name: title.
        config: the encoder; None for a baseline.
        tokens: tokens trained on, where known.
        notes: what else a reader must know, a sentence each.
        run: the run's folder, with its configuration, scores and the state of the code.
    """
    settings = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8")) if run else {}
    phases = (settings.get("data") or {}).get("phases") or {}
    languages = sorted({s for p in phases.values() for s in normalise(p["mixture"]) if s not in DOMAINS})
    head = {
        "library_name": "transformers",
        "pipeline_tag": "fill-mask",
        "tags": ["euro_lightning", *([family_of(config)] if config else []), "fill-mask"],
        **({"language": languages} if languages else {}),
    }
    lines = [
        "---", yaml.safe_dump(head, sort_keys=False).strip(), "---", "", f"# {name}", "",
        *([_shape(config)] if config else []),
        *([f"Trained on {tokens:,} tokens by masked language modelling."] if tokens else []),
        *notes, "", "```python", "from transformers import pipeline",
        'fill = pipeline("fill-mask", model="path/of/this/directory")',
        'fill(f"Paris is the capital of{fill.tokenizer.mask_token}.")', "```", "",
        "A text ends with the end token and has nothing before it. For sentence vectors take the mean of the"
        " last hidden state over its tokens.",
    ]  # fmt: skip
    if run is not None:
        lines += [*_recipe(settings, phases), *_scores(run), *_code(run)]
    return "\n".join(lines) + "\n"


def _shape(config: EncoderConfig) -> str:
    count = parameter_count(config)
    return (
        f"A text encoder of {count.total:,} parameters ({count.vocabulary:,} of them in a vocabulary of"
        f" {config.vocabulary:,}): {config.layers} layers of width {config.width:,}, segments of up to"
        f" {config.max_length:,} tokens."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def _recipe(settings: Mapping[str, Any], phases: Mapping[str, Any]) -> list[str]:
    data, model = settings["data"], settings["model"]
    rows = []
    for name, given in phases.items():
        phase = {**{f: getattr(Phase, f, None) for f in ("rotary_base", "local_rotary_base")}, **given}
        ratio, rate, lengths = phase["masking_ratio"], phase["learning_rate"], phase["lengths"]
        hidden = _hidden(ratio)
        rows.append(
            [
                name,
                f"{phase['tokens']:,}",
                hidden,
                f"{lengths['kind']}, up to {lengths['maximum']:,}",
                f"{rate['peak']:g}, warm-up {rate['warmup']}, decay {rate['decay']} ({rate['shape']})",
                f"{phase['rotary_base']:,.0f} / {phase['local_rotary_base']:,.0f}",
            ]
        )
    optimizer = model["optimizer"]
    corpus = data["corpus"]
    head = ("phase", "tokens", "hidden", "segments", "learning rate", "rotary base, global / local")
    return [
        "", "## Recipe", "", *_table(head, rows), "",
        f"AdamW, betas {optimizer['beta1']} and {optimizer['beta2']}, epsilon {optimizer['epsilon']:g}, weight"
        f" decay {optimizer['weight_decay']:g} ({optimizer['decay']}); {data['batch_tokens']:,} tokens a step;"
        f" hidden tokens become the mask in {model['replacement']['mask']:.0%} of cases, a random token in"
        f" {model['replacement']['random']:.0%}, and stay in {model['replacement']['keep']:.0%}.",
        "", "## Data", "",
        f"Corpus: {Path(corpus).name if isinstance(corpus, str) else ', '.join(Path(c).name for c in corpus)}."
        " Shares of the tokens:", "",
        *_table(
            ("source", *phases),
            [
                [source, *(_share(phase["mixture"], source) for phase in phases.values())]
                for source in dict.fromkeys(s for p in phases.values() for s in normalise(p["mixture"]))
            ],
        ),
    ]  # fmt: skip


def _hidden(ratio: float | Sequence[float] | Mapping[str, Any]) -> str:
    if isinstance(ratio, int | float):
        return f"{ratio:.0%}"
    if not isinstance(ratio, Mapping):
        return ", then ".join(f"{value:.0%}" for value in ratio)
    ramp = Ramp(**ratio)
    return f"{ramp.start:.0%} to {ramp.end:.0%} ({ramp.shape})"


def _share(mixture: Mapping[str, Any], source: str) -> str:
    share = normalise(mixture).get(source)
    if share is None:
        return "–"
    return f"{share.share:.1%}" + (
        f" (quality {', '.join(map(str, share.quality))})" if share.quality else ""
    )


def _scores(run: Path) -> list[str]:
    lines: list[str] = []
    for split in ("validation", "test"):
        if (run / f"{split}.json").is_file():
            content = read_json(run / f"{split}.json")
            rows = [
                [
                    source,
                    f"{score['loss']:.3f}",
                    f"{score['accuracy']:.1%}",
                    f"{score['mixture_unigram']:.3f}",
                ]
                for source, score in content["scores"].items()
            ]
            head = ("source", "loss, nats", "accuracy", "unigram loss")
            title = f"Scores on the {split} split after {content['tokens']:,} tokens"
            lines += ["", f"## {title}", "", *_table(head, rows)]
    return lines


def _code(run: Path) -> list[str]:
    if not (run / "code.json").is_file():
        return []
    code = read_json(run / "code.json")
    versions = ", ".join(f"{k} {code[k]}" for k in ("euro_lightning", "torch", "lightning") if code.get(k))
    changed = " with changes" if code.get("changed_files") else ""
    return ["", "## Code", "", f"{versions}; commit {code.get('commit') or 'unknown'}{changed}."]
