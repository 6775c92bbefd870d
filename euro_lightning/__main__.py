"""The command table. Nothing heavy is imported before the command is known."""

import importlib
import sys

from euro_lightning.errors import ConfigError, UserError, nearest

COMMANDS = {
    "fit": ("euro_lightning.commands", "fit", "train an encoder: fit -c experiments/anneal.yaml"),
    "validate": ("euro_lightning.commands", "validate", "scores of a run on the validation split"),
    "test": ("euro_lightning.commands", "test", "scores of a run on the test split"),
    "predict": ("euro_lightning.commands", "predict", "sentence vectors of a text file, or words for a mask"),
    "inspect": ("euro_lightning.inspection", "inspect", "encoders side by side: parameters, FLOPs, bytes"),
    "export": ("euro_lightning.exchange", "export", "write a run as a directory that transformers loads"),
    "grow": ("euro_lightning.exchange", "grow", "tile an encoder into a larger one to start from"),
    "mixture": ("euro_lightning.mixing", "mixture", "tokens and epochs of each source, phase by phase"),
    "tokenizer": (
        "euro_lightning.tokenizing",
        "tokenizer",
        "train a tokenizer, or compare some on your text",
    ),
    "evaluate": ("euro_lightning.evaluating", "evaluate", "encoders on tasks, fine-tuned by one protocol"),
    "sweep": ("euro_lightning.sweeping", "sweep", "an ablation: sweep -c sweeps/masking_ratio.yaml"),
    "report": ("euro_lightning.reporting", "report", "what a study says, as Markdown, HTML and PNG"),
    "compare": ("euro_lightning.comparing", "compare", "runs side by side: what differs, what they scored"),
    "benchmark": (
        "euro_lightning.benchmarking",
        "benchmark",
        "this machine, our step, transformers' beside it",
    ),
    "prepare": ("euro_lightning.commands", "prepare", "make or check the token store of an experiment"),
}


def usage() -> str:
    """The table as text."""
    rows = "\n".join(f"  {name:<10} {text}" for name, (_, _, text) in COMMANDS.items())
    return (
        "usage: python -m euro_lightning COMMAND [-c FILE]... [--key value]...\n\n"
        f"{rows}\n\n"
        "Files are merged from left to right; overrides follow them and use dotted keys, for example\n"
        "--data.phases.anneal.masking_ratio 0.3. COMMAND --help lists all keys."
    )


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit code.

    Mistakes of the user are one line on stderr and exit code 1, or 2 when the command or the
    configuration is wrong.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    name, *rest = words
    try:
        if name not in COMMANDS:
            raise ConfigError(f"unknown command {name!r}{nearest(name, COMMANDS)}; --help lists the commands")
        module, function, _ = COMMANDS[name]
        getattr(importlib.import_module(module), function)(rest)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
