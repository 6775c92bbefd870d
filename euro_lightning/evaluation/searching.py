"""Retrieval: queries, documents and what is relevant, and pairs to learn from."""

from collections.abc import Mapping

from euro_lightning.errors import DataError
from euro_lightning.evaluation.examples import Pair, Search, Text
from euro_lightning.evaluation.records import Record, chosen, empty_split, group_of, read_records, unique
from euro_lightning.evaluation.task import Split, Task
from euro_lightning.keys import key_of

Grades = dict[str, dict[str, int]]
"""Row of a query to the rows of its relevant documents and their grades."""


def read_search(task: Task, split: Split, limit: int | None = None) -> Search:
    """Queries of a split, what they search, and what is relevant to them.

    Texts have their prefixes already: encode them as they are.

    Args:
        task: a task of the family retrieval.
        split: which queries.
        limit: at most so many of them, chosen by hash; documents are not limited.

    Raises:
        DataError: a file or row cannot be used, no query is left, or a query has no relevant document.
    """
    queries, documents, judged = _read(task, split)
    kept = [record for record in queries if judged.get(record.row)]
    kept = chosen(task, kept, limit)
    if not kept:
        raise empty_split(task, split, "query with a relevant document")
    relevant = {record.row: dict(judged[record.row]) for record in kept}
    if task.across_languages:
        relevant = _with_translations(relevant, documents)
    if task.positives_only:
        found = {row for grades in relevant.values() for row in grades}
        documents = {row: document for row, document in documents.items() if row in found}
    search = Search(
        queries=[Text(r.row, r.lang, task.query_prefix + _query(task, r)) for r in kept],
        documents=[Text(d.row, d.lang, task.document_prefix + d.text) for d in documents.values()],
        relevant=relevant,
        within_language=not task.across_languages,
    )
    _check(task, search, {record.row: record for record in kept}, documents)
    return search


def read_pairs(task: Task, split: Split, limit: int | None = None) -> list[Pair]:
    """Pairs to learn retrieval from: those of `training` for its split, else the split's own.

    Across languages, a query goes with one of the translations of what answers it, chosen by hash.
    Texts have their prefixes already.

    Args:
        task: a task of the family retrieval.
        split: which pairs.
        limit: at most so many queries (of `training`: pairs), chosen by hash.

    Raises:
        DataError: a file or row cannot be used, or no pair is left.
    """
    if split == "train" and task.training is not None:
        columns = task.training.columns
        records = list(read_records(task, "training", split, _pair_columns(task, "training")))
        pairs = [
            _pair(task, f"{record.row}/{number}", record, record.text(columns.query), text, columns.negative)
            for number, record in enumerate(chosen(task, records, limit))
            for text in _texts(record, columns.document)
        ]
    else:
        pairs = _own_pairs(task, split, limit)
    if not pairs:
        raise empty_split(task, split, "pair")
    return pairs


def _own_pairs(task: Task, split: Split, limit: int | None) -> list[Pair]:
    queries, documents, judged = _read(task, split)
    negative = None if task.documents is not None else task.data.columns.negative
    translations = _translations(documents) if task.across_languages else {}
    pairs = []
    for record in chosen(task, [record for record in queries if judged.get(record.row)], limit):
        for row in judged[record.row]:
            document = documents.get(row)
            if document is None:
                continue
            if task.across_languages:
                others = translations[group_of(row, document.lang)]
                document = documents[others[key_of(task.seed, record.row, row) % len(others)]]
            pairs.append(
                _pair(
                    task,
                    f"{record.row}/{document.row}",
                    record,
                    _query(task, record),
                    document.text,
                    negative,
                )
            )
    return pairs


def _pair(
    task: Task, row: str, record: Record, query: str, positive: str, negative: str | None = None
) -> Pair:
    texts = [] if negative is None else _texts(record, negative)
    return Pair(
        row=row,
        lang=record.lang,
        query=task.query_prefix + query,
        positive=task.document_prefix + positive,
        negative=task.document_prefix + texts[0] if texts else None,
    )


def _query(task: Task, record: Record) -> str:
    columns = task.data.columns
    return record.text(columns.query if task.documents is None else str(columns.text))


def _pair_columns(task: Task, key: str) -> dict[str, str]:
    columns = task.tables()[key].columns
    needed = {columns.query: "query", columns.document: "document"}
    return needed | ({columns.negative: "negative"} if columns.negative is not None else {})


def _texts(record: Record, column: str) -> list[str]:
    """The texts in a column that holds one or a list of them."""
    value = record.value(column)
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise DataError(f"{record.where}: {column!r} holds a {type(text).__name__}; it must be text")
    return list(texts)


def _read(task: Task, split: Split) -> tuple[list[Record], dict[str, Text], Grades]:
    """Queries, documents by row, and grades above 0, of all queries that the tables know."""
    return _separate(task, split) if task.documents is not None else _from_pairs(task, split)


def _separate(task: Task, split: Split) -> tuple[list[Record], dict[str, Text], Grades]:
    assert task.documents is not None and task.judgements is not None
    queries = list(read_records(task, "data", split, {str(task.data.columns.text): "text"}))
    unique(queries, [record.row for record in queries])
    column = str(task.documents.columns.text)
    records = list(read_records(task, "documents", split, {column: "text"}))
    unique(records, [record.row for record in records])
    documents = {r.row: Text(r.row, r.lang, r.text(column)) for r in records}
    columns = task.judgements.columns
    needed = {columns.query: "query", columns.document: "document"}
    if columns.grade is not None:
        needed[columns.grade] = "grade"
    judged: Grades = {}
    for record in read_records(task, "judgements", split, needed):
        prefix = f"{record.lang}/" if task.judgements.by_language else ""
        query, document = (f"{prefix}{record.value(c)}" for c in (columns.query, columns.document))
        grade = 1 if columns.grade is None else record.value(columns.grade)
        if not isinstance(grade, int | float) or grade != int(grade):
            raise DataError(f"{record.where}: {columns.grade!r} is {grade!r}; a grade is a whole number")
        if grade > 0:
            judged.setdefault(query, {})[document] = int(grade)
    return queries, documents, judged


def _from_pairs(task: Task, split: Split) -> tuple[list[Record], dict[str, Text], Grades]:
    """Equal queries of a language are one query, and equal documents one document."""
    column = task.data.columns.document
    queries: dict[tuple[str, str], Record] = {}
    documents: dict[tuple[str, str], Text] = {}
    judged: Grades = {}
    taken: set[str] = set()
    for record in read_records(task, "data", split, _pair_columns(task, "data")):
        query = queries.setdefault((record.lang, _query(task, record)), record)
        for text in _texts(record, column):
            row = f"{record.row}#{len(documents)}" if record.row in taken else record.row
            taken.add(row)
            document = documents.setdefault((record.lang, text), Text(row, record.lang, text))
            judged.setdefault(query.row, {})[document.row] = 1
    unique([*queries.values()], [record.row for record in queries.values()])
    return list(queries.values()), {document.row: document for document in documents.values()}, judged


def _translations(documents: Mapping[str, Text]) -> dict[str, list[str]]:
    """Rows of the documents that are translations of one another, by their id without the language."""
    found: dict[str, list[str]] = {}
    for document in documents.values():
        found.setdefault(group_of(document.row, document.lang), []).append(document.row)
    return found


def _with_translations(relevant: Grades, documents: Mapping[str, Text]) -> Grades:
    translations = _translations(documents)
    return {
        query: {
            other: grade
            for row, grade in grades.items()
            for other in (translations[group_of(row, documents[row].lang)] if row in documents else [row])
        }
        for query, grades in relevant.items()
    }


def _check(task: Task, search: Search, queries: dict[str, Record], documents: Mapping[str, Text]) -> None:
    for query in search.queries:
        found = [documents[row] for row in search.relevant[query.row] if row in documents]
        if not any(document.lang == query.lang or not search.within_language for document in found):
            raise DataError(
                f"{queries[query.row].where}: none of the documents relevant to {query.row!r} is among the"
                f" documents of its language ({task.name}: documents, judgements)"
            )
