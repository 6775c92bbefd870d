"""Encoders are found by name, are what their files say, and are known by their content."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from euro_lightning.card import model_card
from euro_lightning.encoder.attention import Segments
from euro_lightning.errors import UserError
from euro_lightning.evaluation.encoders import Judged, label_of, open_encoder
from euro_lightning.evaluation.encoding import Encoding
from euro_lightning.export import write_directory
from euro_lightning.pretrained import Pretrained, read_pretrained
from tests.conftest import run, write_experiment
from tests.evaluation.small import minilm, small_encoder

IDS, SEGMENTS = torch.arange(10, 22), Segments.from_lengths([5, 7])


def states(encoder: Judged) -> torch.Tensor:
    with torch.no_grad():
        return encoder.body()(IDS, SEGMENTS, None)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Judged, Path]:
    folder = tmp_path_factory.mktemp("export")
    encoder = small_encoder(folder)
    network = encoder.network
    found = Pretrained("it", network.config, network.rotary_bases, network.state_dict(), encoder.tokenizer)  # type: ignore[arg-type]
    write_directory(folder / "out", found, "float32", model_card("x", found.config, None, []), False)
    return encoder, folder / "out"


def test_an_export_computes_what_its_encoder_did_and_reads_text_alike(exported: tuple[Judged, Path]) -> None:
    before, folder = exported
    after = open_encoder(str(folder))
    assert torch.equal(states(before), states(after))
    assert after.logits is not None
    assert after.logits(IDS, SEGMENTS, torch.tensor([3])).shape == (1, after.tokenizer.vocabulary)
    text = [("La recette", "compte")]
    assert (
        Encoding(before.tokenizer, 32).texts(text, ["0"]).ids[0].tolist()
        == Encoding(after.tokenizer, 32).texts(text, ["0"]).ids[0].tolist()
    )


def test_a_run_and_its_export_are_alike(config: dict, tmp_path: Path) -> None:  # type: ignore[type-arg]
    config["data"]["tokenizer"]["kind"] = "unigram"
    config["data"]["tokenizer"]["vocabulary"] = 700
    for phase in config["data"]["phases"].values():
        phase["tokens"] = 2048
    config["checkpoints"] = {}
    file = write_experiment(tmp_path / "run.yaml", config)
    done = run("fit", "-c", file, "--name", "judged")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "runs" / "judged"
    assert run("export", folder, tmp_path / "out").returncode == 0
    ours, theirs = open_encoder(str(folder)), open_encoder(str(tmp_path / "out"))
    assert torch.equal(states(ours), states(theirs))
    assert ours.label == "judged"
    found = [Encoding(e.tokenizer, 32).texts([("La recette", "x")], ["0"]).ids[0] for e in (ours, theirs)]
    assert found[0].tolist() == found[1].tolist(), "no [CLS], which it never saw"
    random = open_encoder(f"random:{folder}", 3)
    assert not torch.equal(states(random), states(ours))
    assert random.network.rotary_bases == read_pretrained(str(folder), "it").rotary_bases  # type: ignore[union-attr]


def test_a_random_start_has_the_shape_and_weights_of_its_seed(exported: tuple[Judged, Path]) -> None:
    _, folder = exported
    first, again, other = (open_encoder(f"random:{folder}", seed) for seed in (1, 1, 2))
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert first.width == 32 and first.label.startswith("random:")


def test_minilm_is_a_baseline_without_a_head(tmp_path: Path) -> None:
    encoder = open_encoder(minilm())
    assert (encoder.width, encoder.max_length, encoder.logits) == (384, 512, None)
    random = open_encoder(f"random:{minilm()}", 1)
    assert not torch.equal(states(encoder), states(random))
    copy = tmp_path / "copy"
    shutil.copytree(minilm(), copy)
    assert open_encoder(str(copy)).fingerprint == encoder.fingerprint, "not a matter of the path"
    content = json.loads((copy / "tokenizer.json").read_text())
    content["normalizer"]["lowercase"] = False
    (copy / "tokenizer.json").write_text(json.dumps(content))
    assert open_encoder(str(copy)).fingerprint != encoder.fingerprint


def test_a_body_is_a_copy(exported: tuple[Judged, Path]) -> None:
    encoder, _ = exported
    before = encoder.fingerprint
    with torch.no_grad():
        for parameter in encoder.body().parameters():
            parameter.zero_()
    del encoder.__dict__["fingerprint"]
    assert encoder.fingerprint == before


def test_what_is_not_an_encoder_is_one_line(exported: tuple[Judged, Path], tmp_path: Path) -> None:
    _, folder = exported
    alone = tmp_path / "alone"
    shutil.copytree(folder, alone)
    (alone / "tokenizer.json").unlink()
    for origin, message in (
        (str(alone), r"--encoder .*alone: there is no tokenizer.json in .*alone, so it cannot read text"),
        (str(tmp_path), "--encoder .*: the folder has no checkpoint"),
        (str(tmp_path / "no"), "--encoder .*: no such checkpoint, run folder or directory"),
        ("random:tiny", "a preset needs a tokenizer: random:PRESET@TOKENIZER"),
        (f"random:tini@{folder}", "no preset 'tini'; did you mean 'tiny'"),
        (f"random:tiny@{tmp_path}", "tokenizer .*tokenizer.json does not exist"),
    ):
        with pytest.raises(UserError, match=message) as caught:
            open_encoder(origin)
        assert "\n" not in str(caught.value)


def test_a_pickle_with_code_is_refused(tmp_path: Path) -> None:
    shutil.copytree(minilm(), tmp_path / "evil")
    (tmp_path / "evil" / "model.safetensors").unlink()
    torch.save({"a": Path("x")}, tmp_path / "evil" / "pytorch_model.bin")
    with pytest.raises(UserError, match="holds more than tensors, which could run code"):
        open_encoder(str(tmp_path / "evil"))


@pytest.mark.parametrize(
    ("origin", "label"),
    [
        ("runs/small/checkpoints/tokens-000100.ckpt", "small/tokens-000100"),
        ("EuroBERT/EuroBERT-210m", "EuroBERT/EuroBERT-210m"),
        ("/a/b/c/model", "c/model"),
        ("random:tiny@tokenizer.json", "random:tiny"),
    ],
)
def test_labels_are_short(origin: str, label: str) -> None:
    assert label_of(origin) == label
