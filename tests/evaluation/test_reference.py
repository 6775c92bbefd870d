"""A known encoder on real data has the scores that known packages give it."""

from pathlib import Path

import numpy as np
import pytest

from euro_lightning.evaluation.encoders import open_encoder
from euro_lightning.evaluation.judging import Case
from euro_lightning.evaluation.protocol import Protocol
from euro_lightning.evaluation.searching import read_search
from euro_lightning.evaluation.task import read_task
from tests.conftest import REPOSITORY, SHARED_DATA
from tests.evaluation.small import minilm


@pytest.mark.skipif(not (SHARED_DATA / "eval").is_dir(), reason="needs the shared data")
def test_minilm_on_english_wikipedia_is_as_sentence_transformers_and_trec_eval_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, trec = pytest.importorskip("sentence_transformers"), pytest.importorskip("pytrec_eval")
    monkeypatch.chdir(REPOSITORY)
    text = (REPOSITORY / "experiments/evaluation/tasks/wiki_retrieval.yaml").read_text()
    kept = [line for line in text.splitlines() if not line.startswith(("cut:", "languages:"))]
    file = tmp_path / "english.yaml"
    file.write_text("\n".join([*kept, "languages: [en]", "cut: {all: {test: 1.0}}"]))
    task = read_task(file)
    case = Case(open_encoder(minilm()), task, Protocol(steps=0, max_length=256), tmp_path)
    (ours,) = case.judge(print).values("ndcg@10")

    search = read_search(task, "test")
    model = library.SentenceTransformer(minilm(), device="cpu")
    queries, documents = (
        model.encode([each.text for each in some], normalize_embeddings=True)
        for some in (search.queries, search.documents)
    )
    cosines = queries @ documents.T
    rows = [document.row for document in search.documents]
    run = {
        query.row: dict(zip(rows, own.tolist(), strict=True))
        for query, own in zip(search.queries, cosines, strict=True)
    }
    judged = {row: dict(grades) for row, grades in search.relevant.items()}
    found = trec.RelevanceEvaluator(judged, {"ndcg_cut.10"}).evaluate(run)
    assert len(found) == 1190
    assert ours == pytest.approx(np.mean([one["ndcg_cut_10"] for one in found.values()]), abs=1e-4)
