"""Small tasks, written as a user writes them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from euro_lightning.evaluation.task import Task, read_task

MakeTask = Callable[..., Task]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a task as YAML and reads it."""

    def make(file_name: str = "small", /, **tree: Any) -> Task:
        file = tmp_path / f"{file_name}.yaml"
        file.write_text(yaml.safe_dump(tree, sort_keys=False))
        return read_task(file)

    return make
