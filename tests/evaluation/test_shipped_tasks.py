"""The shipped tasks: every one is valid, and those on the shared data hold what it holds."""

from pathlib import Path

import pytest

from euro_lightning.documentation import field_texts
from euro_lightning.evaluation.examples import Pair, Sentence
from euro_lightning.evaluation.reading import read_split
from euro_lightning.evaluation.searching import read_search
from euro_lightning.evaluation.table import SPLITS, Columns, Table
from euro_lightning.evaluation.task import Task, read_task
from tests.conftest import REPOSITORY, SHARED_DATA

SHIPPED = sorted((REPOSITORY / "experiments" / "evaluation" / "tasks").glob("*.yaml"))

# of shared/data/README.md
ROWS = {
    "lener_br": (7827, 1176, 1389),
    "jsts_ja": (12_451, 1457, 1589),
    "sib200": (10_515, 1485, 3060),
    "sib200_cross": (701, 99, 3060),
    "turkish_wiki_ner": (17_967, 1000, 1000),
    "ud_pos": (9651, 2497, 5539),
    "uner_ner": (11_015, 1672, 8744),
    "uner_ner_cross": (7018, 1172, 8744),
    "math_verification": (3168, 528, 1580),
}
LOW_QUALITY = 275
TOGETHER = {
    "wiki_retrieval": 14_010, "wiki_retrieval_long": 14_010, "wiki_retrieval_cross": 10_710,
    "math_retrieval": 1319, "uner_ner_cross_en": 2001 + 8744, "jnli_ja": 2434 + 2508,
    "inferbr_pt_nli": 8399 + 646 + 1758 - LOW_QUALITY,
}  # fmt: skip
LANGUAGES = {
    "sib200": 15, "sib200_cross": 15, "ud_pos": 15, "uner_ner": 5, "uner_ner_cross": 5, "uner_ner_cross_en": 5,
    "wiki_retrieval": 12, "wiki_retrieval_long": 12, "wiki_retrieval_cross": 9, "tatoeba_bitext": 14,
    "code_retrieval": 6,
}  # fmt: skip
DOCUMENTS = {
    "wiki_retrieval": 5847,
    "wiki_retrieval_long": 620,
    "wiki_retrieval_cross": 2160,
    "code_retrieval": 3808,
}
SHARED = [path for path in SHIPPED if "../shared" in path.read_text()]

NAMED = {
    "xnli", "paws_x", "amazon_reviews", "massive_intent", "code_defect", "code_complexity", "math_shepherd", "wmt_qe",
    "wmt_qe_reference", "seahorse", "xglue_ner", "miracl", "mldr", "wikipedia", "cc_news", "codesearchnet",
    "dupstack_math", "math_formula", "assin2_sts", "assin2_rte", "lener_br_hub",
}  # fmt: skip
"""Those of the EuroBERT and BERTomelo papers, all on the Hub."""


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_task_is_valid(path: Path) -> None:
    assert read_task(path).name == path.stem


def test_every_task_of_the_papers_is_there() -> None:
    assert {path.stem for path in SHIPPED} - {path.stem for path in SHARED} == NAMED


@pytest.mark.parametrize(("name", "number"), [("xnli", 10), ("paws_x", 4), ("amazon_reviews", 6),
    ("massive_intent", 15), ("wmt_qe", 14), ("seahorse", 6), ("xglue_ner", 4), ("miracl", 8), ("mldr", 11),
    ("wikipedia", 6), ("cc_news", 15)])  # fmt: skip
def test_languages_are_as_many_as_in_the_paper(name: str, number: int) -> None:
    task = read_task(REPOSITORY / "experiments" / "evaluation" / "tasks" / f"{name}.yaml")
    assert len(set(task.languages)) == number
    assert len(task.label_names) == 60 or name != "massive_intent"


@pytest.mark.parametrize("declared", [Task, Table, Columns])
def test_every_key_is_documented(declared: type) -> None:
    assert all(field_texts(declared).values())


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    if not SHARED_DATA.is_dir():
        pytest.skip("needs ../shared/data")
    monkeypatch.chdir(REPOSITORY)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("path", SHARED, ids=lambda path: path.stem)
def test_every_split_of_a_task_on_the_shared_data_can_be_read(path: Path) -> None:
    task = read_task(path)
    parts = {split: read_split(task, split) for split in SPLITS}
    counts = tuple(map(len, parts.values()))
    assert counts == ROWS.get(task.name, counts)
    langs = {item.lang for item in parts["test"]}
    assert len(langs) == LANGUAGES.get(task.name, 1)
    if task.family == "retrieval":
        check_search(task, parts)
    if set(task.cut) == {"all"} and task.family != "retrieval":
        rows = [item.row for part in parts.values() for item in part]
        assert len(rows) == len(set(rows)), "no row is in two splits"
    if task.family == "classification":
        assert {int(item.target) for item in parts["train"]} == set(range(len(task.label_names)))
    if task.family == "token_classification":
        labels = {
            label
            for part in parts.values()
            for item in part
            if isinstance(item, Sentence)
            for label in item.labels
        }
        assert labels <= set(range(len(task.label_names))) and len(labels) >= len(task.label_names) - 2
    assert sum(counts) == TOGETHER.get(task.name, sum(counts))


def check_search(task: Task, parts: dict[str, list[Pair]]) -> None:
    for split in ("validation", "test"):
        search = read_search(task, split)
        assert len(search.documents) == DOCUMENTS.get(task.name, len(search.documents))
        documents = {document.row: document for document in search.documents}
        for query in search.queries:
            found = [documents[row] for row in search.relevant[query.row]]
            assert len(found) == (9 if task.across_languages else 1)
            assert task.across_languages or found[0].lang == query.lang
        learnt = {pair.query for pair in parts["train"]}
        again = sum(query.text in learnt for query in search.queries)
        assert again < 0.01 * len(search.queries), "XQuAD asks some questions twice, of other paragraphs"
