"""Phases, planner and token store behind Lightning's data interface."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import rank_zero_warn
from torch.utils.data import DataLoader, Dataset

from euro_lightning.corpora.building import ready_made, store_named_by
from euro_lightning.data.composition import members
from euro_lightning.data.corpus import Columns, open_corpus
from euro_lightning.data.mixture import normalise
from euro_lightning.data.packing import DocumentReader, PackedBatch, Plan, one_by_one, pack, sequential
from euro_lightning.data.phase import Phase, Timeline, batch_problems
from euro_lightning.data.planner import Planner, PlanSampler
from euro_lightning.data.prepare import CorpusConfig, prepare, ready_store
from euro_lightning.data.store import TOKENIZER, TokenStore
from euro_lightning.data.texts import TextDocuments
from euro_lightning.data.tokenizer import Tokenizer, TokenizerConfig, load_tokenizer
from euro_lightning.errors import raise_all


@dataclass(frozen=True)
class Evaluation:
    """What validate, test and the validations during training read."""

    tokens: int = 16_384
    """Tokens of each source, at most; the first documents of the split, always the same."""

    length: int = 512
    """Longest segment, in tokens, whatever the length policy of the training."""

    every_tokens: int = 0
    """Training tokens between validations; 0 validates at the end only."""

    masking_ratio: float = 0.15
    """Share of the tokens hidden, whatever the training hides, so that runs compare."""

    further_ratios: tuple[float, ...] = ()
    """More such shares, measured at the end of fit only: one share alone favours encoders trained near it."""

    @property
    def ratios(self) -> tuple[float, ...]:
        """All masking ratios of the final scores, each once, the main one first."""
        return tuple(dict.fromkeys((self.masking_ratio, *self.further_ratios)))

    def problems(self, where: str) -> list[str]:
        """What is wrong with these settings, one line each."""
        given = {"masking_ratio": self.masking_ratio}
        given |= {f"further_ratios[{i}]": ratio for i, ratio in enumerate(self.further_ratios)}
        return [
            f"{where}.{name} is {ratio}: it lies between 0 and 1"
            for name, ratio in given.items()
            if not 0 < ratio < 1
        ]


class PackedDataset(Dataset[PackedBatch]):
    """Turns a plan into its batch; runs in the workers."""

    def __init__(
        self, documents: Mapping[str, DocumentReader], special_ids: tuple[int, ...], vocabulary: int
    ) -> None:
        self.documents = documents
        self.is_special = np.zeros(vocabulary, dtype=bool)
        self.is_special[list(special_ids)] = True

    def __getitem__(self, plan: Plan) -> PackedBatch:
        return pack(plan, self.documents, self.is_special)


def unchanged(batch: PackedBatch) -> PackedBatch:
    """The collate function: a packed batch is whole already."""
    return batch


class TextDataModule(LightningDataModule):
    """Text on the left, packed batches on the right; knows where on the token clock it is."""

    def __init__(
        self,
        phases: dict[str, Phase],
        corpus: str | list[str] = "embedded",
        columns: Columns = Columns(),  # noqa: B008 - frozen
        tokenizer: TokenizerConfig = TokenizerConfig(),  # noqa: B008 - frozen
        validation_share: float = 0.05,
        test_share: float = 0.05,
        stores: str = "stores",
        batch_tokens: int = 8192,
        micro_batch_tokens: int = 8192,
        evaluation: Evaluation = Evaluation(),
        seed: int = 17,
        workers: int = 0,
    ) -> None:
        """
        Args:
            phases: The recipe: named stretches of the token clock, in order.
            corpus: "embedded" (text of installed packages); files, directories or globs of parquet,
                jsonl, jsonl.gz and jsonl.zst; or a corpus in YAML, or the token store that prepare made of
                it, which brings its tokenizer and its splits; a store that is not there is made.
            columns: Names of the columns in the corpus files.
            tokenizer: The tokenizer to train or to load.
            validation_share: Share of the documents that validate, chosen by a hash of the document id.
            test_share: Share of the documents that test, chosen likewise.
            stores: Folder of the token stores and trained tokenizers.
            batch_tokens: Tokens in a global batch, the batch of one optimizer step over all ranks.
            micro_batch_tokens: Tokens in a micro-batch; accumulation follows from it and the ranks.
            evaluation: What validate, test and the validations during training read.
            seed: Seed of everything: weights, document order, segment lengths, masks.
            workers: Processes that read and pack batches; 0 reads in the main process.
        """
        super().__init__()
        store = store_named_by(corpus)
        self.recipe = str(corpus) if store else None
        """The corpus in YAML, when data.corpus names one."""
        self.config = CorpusConfig(store or corpus, columns, tokenizer, validation_share, test_share, stores)
        self.timeline = Timeline(phases, batch_tokens)
        self.micro_batch_tokens = micro_batch_tokens
        self.evaluation = evaluation
        self.seed = seed
        self.workers = workers
        self.cursor: Mapping[str, Any] = Planner.beginning()
        self.texts: list[str] = []
        """What predict reads."""
        self.mask_literal: str | None = None
        """What stands for the mask token in `texts`; None when nothing does."""
        self.store: TokenStore
        self.tokenizer: Tokenizer

    def check_inputs(self) -> None:
        """Finds what is missing before processes start and wait for each other.

        Raises:
            UserError: there is no such corpus or tokenizer, or the batch sizes do not fit.
        """
        raise_all(
            batch_problems(self.timeline, self.micro_batch_tokens, 1)
            + self.evaluation.problems("data.evaluation")
        )
        if self.recipe is not None or ready_store(self.config) is not None:
            return
        open_corpus(self.config.corpus, self.config.columns)
        if self.config.tokenizer.path:
            load_tokenizer(Path(self.config.tokenizer.path))

    def prepare_data(self) -> None:
        """Builds what is missing, once, on the first rank of a node."""
        raise_all(batch_problems(self.timeline, self.micro_batch_tokens, 1))
        if self.recipe is not None:
            ready_made(self.recipe)
        prepare(self.config)

    def setup(self, stage: str) -> None:
        """Opens the store and checks the recipe against it."""
        self.store = prepare(self.config)
        self.tokenizer = load_tokenizer(self.store.path / TOKENIZER)
        tokens = self.store.training_tokens
        phases, problems = {}, []
        for name, phase in self.timeline.phases.items():
            phases[name], found = phase.resolved(tokens, f"data.phases.{name}")
            problems += found or phases[name].problems(tokens, f"data.phases.{name}")
        _, ranks = self._rank_and_ranks
        raise_all(problems + batch_problems(self.timeline, self.micro_batch_tokens, ranks))
        if stage == "fit":
            self._warn()
        self.timeline = replace(self.timeline, phases=phases)

    def _warn(self) -> None:
        for name, phase in self.timeline.phases.items():
            covered = {s for entry in phase.mixture for s in members(entry, self.store.training_tokens)}
            without = [source for source in self.store.sources if source not in covered]
            if without:
                rank_zero_warn(
                    f"data.phases.{name}.mixture gives no share to {', '.join(without)}: not trained on in this phase"
                    " (a share of 0 says so without this warning)"
                )
        longest = max(phase.lengths.maximum for phase in self.timeline.phases.values())
        if self.micro_batch_tokens < 8 * longest:
            rank_zero_warn(
                f"data.micro_batch_tokens {self.micro_batch_tokens:,} is below 8 times the longest segment"
                f" ({longest:,}): closing micro-batches exactly bends the length distribution"
            )

    @property
    def clock(self) -> int:
        """Tokens trained on so far."""
        return int(self.cursor["tokens"])

    @property
    def _rank_and_ranks(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    @property
    def accumulation(self) -> int:
        """Micro-batches of one rank in a global batch."""
        _, ranks = self._rank_and_ranks
        return self.timeline.batch_tokens // (self.micro_batch_tokens * ranks)

    def train_dataloader(self) -> DataLoader[PackedBatch]:
        """Micro-batches of this rank from the cursor to the end of the run."""
        names = {name for phase in self.timeline.phases.values() for name in normalise(phase.mixture)}
        sources = {name: self.store.documents(name, "train") for name in sorted(names)}
        planner = Planner(sources, self.timeline, self.micro_batch_tokens, self.seed)
        rank, ranks = self._rank_and_ranks
        return self._loader(sources, PlanSampler(planner, self.cursor, rank, ranks))

    def val_dataloader(self) -> DataLoader[PackedBatch]:
        """Fixed micro-batches of the validation split."""
        return self._evaluation_loader("validation")

    def test_dataloader(self) -> DataLoader[PackedBatch]:
        """Fixed micro-batches of the test split."""
        return self._evaluation_loader("test")

    def evaluated_sources(self, split: str) -> list[str]:
        """The sources that have documents in a split, in the store's order."""
        return [name for name, facts in self.store.sources.items() if facts["splits"].get(split)]

    def predict_dataloader(self) -> DataLoader[PackedBatch]:
        """The texts, one segment each, cut at the longest segment of the recipe."""
        longest = max(phase.lengths.maximum for phase in self.timeline.phases.values())
        documents = TextDocuments(self.texts, self.tokenizer, longest, self.mask_literal)
        return self._loader({"text": documents}, one_by_one(documents, max(self.micro_batch_tokens, longest)))

    def _evaluation_loader(self, split: str) -> DataLoader[PackedBatch]:
        sources = {name: self.store.documents(name, split) for name in self.evaluated_sources(split)}
        plan = self.evaluation
        plans = sequential(sources, plan.tokens, plan.length, max(self.micro_batch_tokens, plan.length))
        rank, ranks = self._rank_and_ranks
        return self._loader(sources, plans[rank::ranks])

    def _loader(self, sources: Mapping[str, DocumentReader], plans: Any) -> DataLoader[PackedBatch]:
        return DataLoader(
            PackedDataset(sources, self.tokenizer.special_ids, self.tokenizer.vocabulary),
            batch_size=None,
            sampler=plans,
            num_workers=self.workers,
            collate_fn=unchanged,  # type: ignore[arg-type]
            pin_memory=self.trainer is not None and self.trainer.strategy.root_device.type == "cuda",
            persistent_workers=False,
            multiprocessing_context="forkserver" if self.workers and sys.platform != "win32" else None,
        )

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Moves a packed batch; everything else as Lightning does."""
        if isinstance(batch, PackedBatch):
            return batch.to(device, non_blocking=True)
        return super().transfer_batch_to_device(batch, device, dataloader_idx)

    def state_dict(self) -> dict[str, Any]:
        """The cursor: from where planning goes on."""
        return {"cursor": self.cursor}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a cursor."""
        self.cursor = state_dict["cursor"]
