"""Weights in and out: export, init_from, grow, weight tiling, baselines, from the command line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from euro_lightning.__main__ import main
from euro_lightning.callbacks.weight_tiling import WeightTiling
from euro_lightning.checkpoint import list_checkpoints
from euro_lightning.data.texts import TextDocuments
from euro_lightning.data.tokenizer import load_tokenizer
from euro_lightning.encoder.attention import Segments
from euro_lightning.encoder.model import MaskedLanguageEncoder
from euro_lightning.encoder.tiling import tile
from euro_lightning.errors import ConfigError
from euro_lightning.pretrained import Pretrained, read_pretrained
from tests.conftest import last_checkpoint, small_recipe, weights, write_experiment

MODERN = {
    "preset": "tiny-modernbert", "layers": 4, "width": 32, "heads": 2, "key_value_heads": 2,
    "feed_forward": 48, "max_length": 128, "window": 16,
}  # fmt: skip
TEXTS = ["The if statement", "Call this method.", "La recette compte plus que la taille", "x"]


@pytest.fixture(scope="module")
def recipe(corpus: Path, stores: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return small_recipe(corpus, stores, tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def runs(recipe: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A trained run of each family, each with its exported directory beside it."""
    folder = tmp_path_factory.mktemp("experiments")
    found = {}
    changes = {"eurobert": {"checkpoints.keep": 9}, "modernbert": {"model.encoder": MODERN}}
    for family, change in changes.items():
        path = write_experiment(folder / f"{family}.yaml", recipe, change)
        assert main(["fit", "-c", str(path)]) == 0
        found[family] = Path(recipe["root"]) / family
        assert main(["export", str(found[family]), str(exported(found[family]))]) == 0
    return found


def exported(run: Path) -> Path:
    return run.with_name(f"{run.name}-exported")


def network_of(found: Pretrained) -> MaskedLanguageEncoder:
    network = MaskedLanguageEncoder(found.config).eval()
    network.load_state_dict(found.weights)
    network.set_rotary_base(*found.rotary_bases)
    return network


FAMILIES = ["eurobert", "modernbert"]


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_loads_an_export_whole_and_computes_the_same(runs: dict[str, Path], family: str) -> None:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = exported(runs[family])
    model, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert (
        type(model).__name__
        == {"eurobert": "EuroBertForMaskedLM", "modernbert": "ModernBertForMaskedLM"}[family]
    )
    assert not any(report.values()), report
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ours = network_of(read_pretrained(str(runs[family]), "it"))
    ids = tokenizer(" ".join(TEXTS * 4), return_tensors="pt").input_ids
    assert ids[0, -1] == tokenizer.eos_token_id == model.config.eos_token_id
    with torch.no_grad():
        reference = model(input_ids=ids).logits[0]
        logits = ours.logits(ids[0], Segments.from_lengths([ids.shape[1]]), torch.arange(ids.shape[1]))
    assert (logits - reference).abs().max() <= 1e-5 * reference.abs().max()


@pytest.mark.parametrize("family", FAMILIES)
def test_there_and_back_is_the_same_bit_for_bit(runs: dict[str, Path], family: str, tmp_path: Path) -> None:
    """Ours, exported, loaded and saved by transformers, read by ours."""
    from transformers import AutoModelForMaskedLM

    AutoModelForMaskedLM.from_pretrained(exported(runs[family])).save_pretrained(tmp_path)
    before, after = (read_pretrained(str(path), "it") for path in (runs[family], tmp_path))
    assert before.weights.keys() == after.weights.keys()
    assert all(torch.equal(tensor, after.weights[name]) for name, tensor in before.weights.items())
    assert before.rotary_bases == after.rotary_bases == (250_000.0, 10_000.0) or family == "eurobert"
    assert after.rotary_bases[0] == 250_000.0
    assert after.config.global_layers == before.config.global_layers


@pytest.mark.parametrize("family", FAMILIES)
def test_an_exports_configuration_says_what_was_trained(runs: dict[str, Path], family: str) -> None:
    config = json.loads((exported(runs[family]) / "config.json").read_text())
    tokenizer = load_tokenizer(runs[family] / "tokenizer.json")
    ids = {name: config[f"{name}_token_id"] for name in ("bos", "eos", "pad", "mask")}
    assert list(ids.values()) == list(tokenizer.roles[:4])
    assert -1 not in _numbers(config)
    bases = config["rope_parameters"]
    assert (bases if family == "eurobert" else bases["full_attention"])["rope_theta"] == 250_000.0
    card = (exported(runs[family]) / "README.md").read_text()
    for text in (
        "Trained on 24,576 tokens",
        "| pretrain | 16,384 | 50%",
        "| fr | 20.0% | 20.0% |",
        "unigram loss",
    ):
        assert text in card
    assert str(runs[family].parent) not in card, "a card does not tell where things lay"


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in _numbers(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


@pytest.mark.parametrize("family", FAMILIES)
def test_fill_mask_of_transformers_gives_our_five_likeliest(runs: dict[str, Path], family: str) -> None:
    from transformers import pipeline

    fill = pipeline("fill-mask", model=str(exported(runs[family])))
    found = read_pretrained(str(runs[family]), "it")
    network, tokenizer = network_of(found), found.tokenizer
    assert tokenizer is not None
    for text in ("Call this <mask> to do it.", "La recette <mask> plus que la taille", "for x in <mask>:"):
        theirs = [row["token"] for row in fill(text.replace("<mask>", fill.tokenizer.mask_token))]
        ids = torch.from_numpy(TextDocuments([text], tokenizer, 128, "<mask>").tokens(0))
        place = (ids == tokenizer.mask).nonzero().squeeze(1)
        ours = network.logits(ids, Segments.from_lengths([len(ids)]), place)[0].topk(5).indices.tolist()
        assert theirs == ours, text


@pytest.mark.parametrize("family", FAMILIES)
def test_sentence_transformers_pools_the_mean_that_predict_writes(
    runs: dict[str, Path], family: str, tmp_path: Path
) -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    import pyarrow.parquet as pq

    source = tmp_path / "texts.txt"
    source.write_text("\n".join(TEXTS))
    arguments = ["-c", str(runs[family] / "config.yaml"), "--input", str(source)]
    assert main(["predict", *arguments, "--output", str(tmp_path / "vectors.parquet")]) == 0
    ours = torch.tensor(pq.read_table(tmp_path / "vectors.parquet")["vector"].to_pylist())
    theirs = sentence_transformers.SentenceTransformer(str(exported(runs[family])), device="cpu")
    assert torch.allclose(torch.from_numpy(theirs.encode(TEXTS)), ours, atol=1e-5)


def test_a_compiled_checkpoint_is_exported_like_a_plain_one(runs: dict[str, Path], tmp_path: Path) -> None:
    run = tmp_path / "compiled"
    shutil.copytree(runs["eurobert"], run)
    content = torch.load(last_checkpoint(run), weights_only=True)
    content["state_dict"] = {
        key.replace("network.encoder.", "network.encoder._orig_mod."): value
        for key, value in content["state_dict"].items()
    }
    torch.save(content, last_checkpoint(run))
    assert main(["export", str(run), str(tmp_path / "out")]) == 0
    name = "model.safetensors"
    plain, compiled = (load_file(folder / name) for folder in (exported(runs["eurobert"]), tmp_path / "out"))
    assert plain.keys() == compiled.keys()
    assert all(torch.equal(plain[key], compiled[key]) for key in plain)


def test_average_is_the_mean_of_the_last_checkpoints(runs: dict[str, Path], tmp_path: Path) -> None:
    run = runs["eurobert"]
    assert main(["export", str(run), str(tmp_path / "out"), "--average", "3"]) == 0
    mean = read_pretrained(str(tmp_path / "out"), "it").weights
    last = [weights(path) for path in list_checkpoints(run / "checkpoints")[-3:]]
    for name, tensor in mean.items():
        expected = torch.stack([state[f"network.{name}"].double() for state in last]).mean(0)
        assert torch.allclose(tensor.double(), expected, atol=1e-7)
    assert "The mean of 3 checkpoints" in (tmp_path / "out" / "README.md").read_text()
    earlier = list_checkpoints(run / "checkpoints")[1]
    assert main(["export", str(earlier), str(tmp_path / "earlier")]) == 0
    own = read_pretrained(str(tmp_path / "earlier"), "it").weights
    assert torch.equal(own["head.weight"], weights(earlier)["network.head.weight"])


def test_an_export_has_the_type_asked_for_and_is_not_written_over(
    runs: dict[str, Path], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    out = tmp_path / "out"
    assert main(["export", str(runs["modernbert"]), str(out), "--dtype", "bfloat16"]) == 0
    assert {tensor.dtype for tensor in load_file(out / "model.safetensors").values()} == {torch.bfloat16}
    assert json.loads((out / "config.json").read_text())["dtype"] == "bfloat16"
    assert "exists; --force writes over it" in complaint(1, "export", runs["eurobert"], out)
    assert json.loads((out / "config.json").read_text())["model_type"] == "modernbert"
    assert main(["export", str(runs["eurobert"]), str(out), "--force"]) == 0
    assert json.loads((out / "config.json").read_text())["model_type"] == "eurobert"
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    assert "not an exported directory" in complaint(1, "export", runs["eurobert"], other, "--force")
    assert (other / "thesis.tex").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out"], (
        "nothing half-written is left"
    )


def still(recipe: dict[str, Any], path: Path, changes: dict[str, Any]) -> Path:
    """An experiment of two steps that learns nothing, so that its weights are those it started with."""
    return write_experiment(
        path,
        recipe,
        {
            "data.phases.pretrain.tokens": 1024,
            "data.phases.anneal.tokens": 1024,
            "data.phases.pretrain.learning_rate": {"peak": 1e-30},
            "data.phases.anneal.learning_rate": {"peak": 1e-30},
            "name": path.stem,
            **changes,
        },
    )


@pytest.mark.parametrize("kind", ["run", "directory"])
def test_init_from_starts_with_the_weights_of_a_run_or_a_directory(
    runs: dict[str, Path],
    recipe: dict[str, Any],
    tmp_path: Path,
    kind: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = runs["modernbert"] if kind == "run" else exported(runs["modernbert"])
    path = still(recipe, tmp_path / f"start-{kind}.yaml", {"model.encoder": MODERN})
    assert main(["fit", "-c", str(path), "--init_from", str(source)]) == 0
    assert "trained with rotary_base 250,000, goes on with 10,000" in capsys.readouterr().err
    start = weights(last_checkpoint(Path(recipe["root"]) / f"start-{kind}"))
    trained = weights(last_checkpoint(runs["modernbert"]))
    assert start.keys() == trained.keys()
    assert all(torch.equal(start[name], trained[name]) for name in start)


def test_another_vocabulary_is_refused_or_resized_by_token_string(
    runs: dict[str, Path],
    recipe: dict[str, Any],
    tmp_path: Path,
    complaint: Callable[..., str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    changes = {"model.encoder": MODERN, "data.tokenizer.vocabulary": 420}
    path = still(recipe, tmp_path / "resized.yaml", changes)
    source = exported(runs["modernbert"])
    line = complaint(1, "fit", "-c", path, "--init_from", source)
    assert "420 rows of its vocabulary differ" in line and "--resize_vocabulary copies the rows" in line
    shutil.rmtree(Path(recipe["root"]) / "resized")
    assert main(["fit", "-c", str(path), "--init_from", str(source), "--resize_vocabulary"]) == 0
    assert "of 420 rows of the vocabulary copied" in capsys.readouterr().err
    run = Path(recipe["root"]) / "resized"
    old, new = load_tokenizer(runs["modernbert"] / "tokenizer.json"), load_tokenizer(run / "tokenizer.json")
    rows, trained = weights(last_checkpoint(run)), weights(last_checkpoint(runs["modernbert"]))
    name = "network.encoder.embedding.weight"
    numbers = {old.name_of(token): token for token in range(old.vocabulary)}
    common = 0
    for token in range(420):
        if new.name_of(token) in numbers:
            common += 1
            source_row = numbers[new.name_of(token)]
            assert torch.equal(rows[name][token], trained[name][source_row])
            bias = "network.head.bias"
            assert torch.equal(rows[bias][token], trained[bias][source_row])
    assert 261 <= common < 420
    assert torch.equal(rows["network.head.dense.weight"], trained["network.head.dense.weight"])


LARGER = {**MODERN, "layers": 7, "width": 48, "heads": 3, "key_value_heads": 3, "feed_forward": 72}


def test_grow_writes_a_start_and_the_callback_makes_the_same(
    runs: dict[str, Path], recipe: dict[str, Any], tmp_path: Path
) -> None:
    found = read_pretrained(str(runs["modernbert"]), "it")
    options = ["--to", json.dumps(LARGER), "--rescale", "even"]
    assert main(["grow", str(runs["modernbert"]), str(tmp_path / "grown"), *options]) == 0
    grown = read_pretrained(str(tmp_path / "grown"), "it")
    expected = tile(found.weights, found.config, grown.config, rescale="even")
    assert all(torch.equal(tensor, expected[name]) for name, tensor in grown.weights.items())
    tiling = {"source": str(runs["modernbert"]), "rescale": "even"}
    path = still(recipe, tmp_path / "tiled.yaml", {"model.encoder": LARGER, "weight_tiling": tiling})
    assert main(["fit", "-c", str(path)]) == 0
    start = weights(last_checkpoint(Path(recipe["root"]) / "tiled"))
    assert all(torch.equal(start[f"network.{name}"], tensor) for name, tensor in expected.items())


def test_tiling_acts_once_and_never_on_resume(
    runs: dict[str, Path], recipe: dict[str, Any], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(runs["modernbert"], source)
    path = still(
        recipe,
        tmp_path / "resumed.yaml",
        {"model.encoder": LARGER, "weight_tiling": {"source": str(source)}},
    )
    assert main(["fit", "-c", str(path)]) == 0
    before = weights(last_checkpoint(Path(recipe["root"]) / "resumed"))
    shutil.rmtree(source)  # a resumed run does not look for it
    more = ["--resume", "last", "--allow_changes", "true", "--data.phases.anneal.tokens", "2048"]
    assert main(["fit", "-c", str(path), *more]) == 0
    after = weights(last_checkpoint(Path(recipe["root"]) / "resumed"))
    assert len(list_checkpoints(Path(recipe["root"]) / "resumed" / "checkpoints")) > 2
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_tiling_and_init_from_exclude_each_other() -> None:
    module = SimpleNamespace(start=object())
    with pytest.raises(ConfigError, match="weights come from one place"):
        WeightTiling("runs/small").setup(None, module, "fit")
    module.start = None
    WeightTiling("runs/small").setup(None, module, "validate")
    assert module.start is None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("fit --init_from SOURCE --model.encoder.activation silu", "activation is gelu there and silu here"),
        ("fit --init_from SOURCE --model.encoder.window 32", "window is 16 there and 32 here"),
        ("fit --init_from SOURCE --model.encoder.feed_forward 50", "feed_forward is 48 there and 50 here"),
        ("fit --weight_tiling.source SOURCE --model.encoder.layers 3", "layers would shrink from 4 to 3"),
        (
            "fit --init_from nobody/nothing",
            "no such file or folder, and the Hugging Face Hub does not give it",
        ),
        ("fit --init_from OUT", "the folder has no checkpoint"),
        ("grow SOURCE OUT/x --to tiny", "norm differs: layer and rms"),
        ("grow SOURCE OUT/x --to tinny", "did you mean 'tiny'"),
        ("grow SOURCE OUT/x", "grow: --to is missing"),
        ("grow SOURCE OUT/x --to tiny --layer nearest", "unknown option --layer; did you mean 'layers'"),
        ("export SOURCE OUT/x", "no checkpoint"),
        ("export RUN OUT/x --average 99", "--average 99, but there are"),
        ("export RUN OUT/x --average 0", "--average is 0: it must be at least 1"),
        ("export RUN OUT/x --dtype int8", "choose one of float32, bfloat16, float16"),
        ("export RUN", "export: OUT is missing | usage: python -m euro_lightning export RUN OUT"),
        ("inspect modernbert-bse", "did you mean 'modernbert-base'"),
        ("inspect --length 0", "--length must be at least 1"),
    ],
)
def test_wrong_commands(
    command: str,
    message: str,
    runs: dict[str, Path],
    recipe: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "out").mkdir()
    places = {"SOURCE": exported(runs["modernbert"]), "OUT": tmp_path / "out", "RUN": runs["modernbert"]}
    name, *words = command.split()
    words = [word if word.split("/")[0] not in places else
             str(places[word.split("/")[0]].joinpath(*word.split("/")[1:])) for word in words]  # fmt: skip
    if name == "fit":
        path = still(
            recipe, tmp_path / "wrong.yaml", {"model.encoder": MODERN, "root": str(tmp_path / "runs")}
        )
        words = ["-c", str(path), *words]
    capsys.readouterr()
    assert main([name, *words]) in (1, 2)
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("error: ") and message in lines[-1], lines
    assert not list((tmp_path / "out").iterdir())


def damage(folder: Path, kind: str) -> None:
    """Breaks a copy of an exported directory."""
    file, config = folder / "model.safetensors", folder / "config.json"
    state = load_file(file)
    given = json.loads(config.read_text())
    if kind == "no weights":
        file.unlink()
    elif kind == "missing tensor":
        del state["model.final_norm.weight"]
        save_file(state, file)
    elif kind == "unexpected tensor":
        save_file({**state, "model.layers.9.attn.Wo.weight": torch.ones(2)}, file)
    elif kind == "wrong shape":
        state["model.layers.1.mlp.Wo.weight"] = torch.ones(32, 47)
        save_file(state, file)
    elif kind == "half a file":
        file.write_bytes(file.read_bytes()[:1000])
    elif kind == "no configuration":
        config.unlink()
    elif kind == "broken configuration":
        config.write_text("{")
    elif kind == "another model":
        config.write_text(json.dumps({**given, "model_type": "llama"}))
    elif kind == "impossible configuration":
        config.write_text(json.dumps({**given, "num_attention_heads": "two"}))
    elif kind == "missing shard":
        index = {"weight_map": dict.fromkeys(state, "model-00001-of-00002.safetensors")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    elif kind == "shard elsewhere":
        index = {"weight_map": dict.fromkeys(state, "../secret.safetensors")}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    elif kind == "pickle with code":
        file.unlink()
        torch.save({"model.final_norm.weight": Bomb()}, folder / "pytorch_model.bin")
    elif kind == "untied":
        save_file({**state, "decoder.weight": state["model.embeddings.tok_embeddings.weight"] + 1}, file)


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("exploded"),))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no weights", "has no weights: neither model.safetensors nor"),
        ("missing tensor", "1 tensors are missing (model.final_norm.weight), 0 unexpected"),
        ("unexpected tensor", "0 tensors are missing (none), 1 unexpected (model.layers.9.attn.Wo.weight)"),
        ("wrong shape", "encoder.blocks.1.mlp.down.weight has shape (32, 47), this encoder needs (32, 48)"),
        ("half a file", "model.safetensors cannot be read"),
        ("no configuration", "the folder has no checkpoint"),
        ("broken configuration", "config.json is not valid JSON"),
        ("another model", "model_type is 'llama'; eurobert and modernbert can be read"),
        ("impossible configuration", "config.json cannot be used"),
        ("missing shard", "model-00001-of-00002.safetensors is missing, though the index names it"),
        ("shard elsewhere", "has no weight_map from tensors to files beside it"),
        ("pickle with code", "is damaged or holds more than tensors, which could run code"),
        ("untied", "the output matrix differs from the embedding that it is tied to"),
    ],
)
def test_a_broken_directory_is_one_line(
    kind: str,
    message: str,
    runs: dict[str, Path],
    recipe: dict[str, Any],
    tmp_path: Path,
    complaint: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "broken"
    shutil.copytree(exported(runs["modernbert"]), folder)
    damage(folder, kind)
    path = still(recipe, tmp_path / "wrong.yaml", {"model.encoder": MODERN, "root": str(tmp_path / "runs")})
    assert message in complaint(1, "fit", "-c", path, "--init_from", folder)
    assert not (tmp_path / "exploded").exists()


def test_a_pickle_of_tensors_alone_is_read(runs: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "pickle"
    shutil.copytree(exported(runs["eurobert"]), folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    before, after = (read_pretrained(str(path), "it").weights for path in (runs["eurobert"], folder))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_large_encoder_is_written_and_read_in_shards(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForMaskedLM

    monkeypatch.setattr("euro_lightning.encoder.directory.SHARD_BYTES", 20_000)
    assert main(["export", str(runs["eurobert"]), str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").glob("model-*.safetensors"))) > 2
    before, after = (
        read_pretrained(str(path), "it").weights for path in (runs["eurobert"], tmp_path / "out")
    )
    assert all(torch.equal(before[name], after[name]) for name in before)
    _, report = AutoModelForMaskedLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())


def test_a_baseline_is_trained_by_fit_and_exported(
    runs: dict[str, Path], recipe: dict[str, Any], tmp_path: Path, complaint: Callable[..., str]
) -> None:
    from transformers import AutoModelForMaskedLM, BertConfig

    folder = tmp_path / "bert"
    BertConfig(
        vocab_size=400, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=64,
    ).save_pretrained(folder)  # fmt: skip
    recipe = {**recipe, "model": {"baseline": str(folder), "optimizer": {"epsilon": 1e-8}}}
    line = complaint(2, "fit", "-c", write_experiment(tmp_path / "bert.yaml", recipe))
    assert "data.phases.NAME.rotary_base is 250000" in line
    path = write_experiment(tmp_path / "bert.yaml", recipe, {"data.phases.anneal.rotary_base": 10_000.0})
    assert main(["fit", "-c", str(path)]) == 0
    run = Path(recipe["root"]) / "bert-2"
    scores = json.loads((run / "validation.json").read_text())["scores"]["mean"]
    assert scores["loss"] < scores["mixture_unigram"] + 0.7, "it has learned"
    assert main(["validate", "-c", str(path), "--checkpoint", str(run)]) == 0
    assert json.loads((run / "validation.json").read_text())["scores"]["mean"] == scores
    assert main(["export", str(run), str(tmp_path / "out")]) == 0
    model, report = AutoModelForMaskedLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values())
    state = weights(last_checkpoint(run))
    assert all(torch.equal(state[f"network.model.{k}"], v) for k, v in model.state_dict().items())
    longer = ["--data.phases.pretrain.lengths.maximum", "128"]
    assert "above the encoder's max_length 64" in complaint(1, "fit", "-c", path, *longer)
    assert "a baseline's checkpoint" in complaint(
        1, "fit", "-c", still(recipe | {"model": {}}, tmp_path / "s.yaml", {}), "--init_from", run
    )
