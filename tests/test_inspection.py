"""inspect: what encoders are made of."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from euro_lightning.__main__ import main
from euro_lightning.encoder.config import PRESETS
from euro_lightning.inspection import REFERENCES, shape_of
from tests.conftest import REPOSITORY


@pytest.mark.parametrize("name", REFERENCES)
def test_published_shapes_have_the_parameters_that_transformers_gives_them(name: str) -> None:
    import transformers

    given = REFERENCES[name]
    config = transformers.XLMRobertaConfig(
        vocab_size=given.vocabulary, hidden_size=given.width, num_hidden_layers=given.layers,
        num_attention_heads=int(given.heads), intermediate_size=given.feed_forward,
        max_position_embeddings=given.positions or 2, type_vocab_size=1, pad_token_id=1,
    )  # fmt: skip
    with torch.device("meta"):
        model = transformers.XLMRobertaForMaskedLM(config)
    count = sum(parameter.numel() for parameter in model.parameters())
    positions = 0 if given.positions else 2 * given.width
    assert shape_of(name, 512, 0.15).parameters == count - positions


def test_a_large_vocabulary_is_nearly_half_of_xlm_roberta() -> None:
    """Of the encoder without its head 45.9% is vocabulary; ModernBERT-large's core is 14% larger."""
    xlm, modern = (shape_of(name, 512, 0.3) for name in ("xlm-roberta-large-rope", "modernbert-large"))
    embedding = 250_002 * 1024
    transform = 1024 * 1024 + 3 * 1024
    assert embedding / (embedding + xlm.core_parameters - transform) == pytest.approx(0.459, abs=5e-4)
    assert modern.core_parameters / xlm.core_parameters - 1 == pytest.approx(0.14, abs=6e-3)


def test_the_table_has_every_preset_and_needs_no_torch() -> None:
    code = (
        "import sys; from euro_lightning.__main__ import main; code = main(['inspect']);"
        "sys.exit(code or ('torch' in sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPOSITORY)
    assert result.returncode == 0, result.stderr
    for name in (*PRESETS, *REFERENCES):
        assert name in result.stdout
    for number in (
        "310,266,624",
        "755,625,600",
        "2,403,092,736",
        "149,655,232",
        "395,881,664",
        "256,252,050",
    ):
        assert number in result.stdout


def test_directories_stand_beside_presets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import transformers

    transformers.ModernBertConfig().save_pretrained(tmp_path)
    assert main(["inspect", "modernbert-base", str(tmp_path), "--against", "modernbert-base"]) == 0
    output = capsys.readouterr().out
    assert output.count("149,655,232") == 2
    assert output.count("+0.0%") == 2


def test_help_is_the_documentation_of_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("inspect", "export", "grow"):
        assert main([command, "--help"]) == 0
        assert f"usage: python -m euro_lightning {command}" in capsys.readouterr().out
