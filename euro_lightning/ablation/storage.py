"""Where a study is kept: SQLite in a file or PostgreSQL, with locks that die with the process that holds them.

Optuna leaves three races open (tried with Optuna 5): first starts create the schema at the same time, two drivers
that enqueue the same points double them, and SQLite hands out one trial twice. So whoever creates, enqueues or
claims holds an advisory lock, of the kernel (flock) beside a SQLite file or of PostgreSQL.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from euro_lightning.errors import ConfigError, UserError
from euro_lightning.files import hash_value, locked
from euro_lightning.tracking import without_credentials

_SQLITE = "sqlite:///"


@dataclass(frozen=True)
class Storage:
    """A database by its URI."""

    uri: str

    @property
    def shown(self) -> str:
        """The URI without credentials."""
        return without_credentials(self.uri)

    @property
    def is_file(self) -> bool:
        """Whether it is SQLite, which takes one driver only."""
        return self.uri.startswith(_SQLITE)

    @property
    def path(self) -> Path:
        """The file of SQLite."""
        return Path(self.uri.removeprefix(_SQLITE))

    @contextlib.contextmanager
    def lock(self, name: str, *, wait: bool = True) -> Iterator[bool]:
        """Holds the lock of a name over all processes that use this database; yields whether it was obtained.

        Raises:
            UserError: the database does not answer.
        """
        if self.is_file:
            with locked(self.path.with_name(f".{self.path.name}.{name}.lock"), wait=wait) as obtained:
                yield obtained
            return
        number = int(hash_value(name)[:15], 16)
        with self._connect() as connection:
            if wait:
                connection.execute("SELECT pg_advisory_lock(%s)", (number,))
                obtained = True
            else:
                row = connection.execute("SELECT pg_try_advisory_lock(%s)", (number,)).fetchone()
                obtained = bool(row[0])
            yield obtained

    @contextlib.contextmanager
    def _connect(self) -> Iterator[Any]:
        psycopg = _psycopg()
        try:
            connection = psycopg.connect(
                self.uri.replace("postgresql+psycopg://", "postgresql://", 1),
                autocommit=True,
                connect_timeout=10,
            )
        except psycopg.OperationalError as error:
            raise self._unreachable(error) from None
        try:
            yield connection
        finally:
            connection.close()

    def open(self) -> Any:
        """Optuna's storage; the schema is made when there is none.

        Raises:
            UserError: the database does not answer.
        """
        import optuna
        from sqlalchemy.exc import SQLAlchemyError

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        options: dict[str, Any] = {"pool_pre_ping": True}
        if self.is_file:
            options["connect_args"] = {"timeout": 60}
        try:
            if self.is_file:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.lock("schema"):
                return optuna.storages.RDBStorage(self.uri, engine_kwargs=options)
        except (SQLAlchemyError, OSError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UserError:
        reason = " ".join(str(error).splitlines()[0].split())[:200].replace(self.uri, self.shown)
        return UserError(f"storage {self.shown} cannot be used ({reason})")


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise UserError("storage postgresql:// needs psycopg: pip install '.[postgresql]'") from None
    return psycopg


def find_storage(given: str | None, folder: Path) -> Storage:
    """The storage that a sweep means.

    Args:
        given: the URI of the sweep file or the command line; None takes a file in the study's folder.
        folder: the study's.

    Raises:
        ConfigError: neither SQLite nor PostgreSQL.
    """
    if given is None:
        return Storage(f"{_SQLITE}{(folder / 'study.db').resolve()}")
    if given.startswith(_SQLITE):
        return Storage(f"{_SQLITE}{Path(given.removeprefix(_SQLITE)).resolve()}")
    scheme, separator, rest = given.partition("://")
    if separator and scheme in ("postgresql", "postgresql+psycopg", "postgres"):
        return Storage(f"postgresql+psycopg://{rest}")
    raise ConfigError(
        f"storage {without_credentials(given)}: use sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    )


def dashboard_command(storage: Storage) -> str:
    """The command that shows the studies of a storage in a browser."""
    return f"optuna-dashboard --host 127.0.0.1 {storage.shown}"
